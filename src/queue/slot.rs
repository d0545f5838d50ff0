//! A place for one value: whoever puts it there and whoever takes it may be any threads, and it is taken once.

use std::mem::MaybeUninit;

use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU32, Ordering};

const EMPTY: u32 = 0;
/// Its value is just being moved in or out, by the one thread that has put it into this state.
const BUSY: u32 = 1;
const FULL: u32 = 2;

/// See the module's comment.
pub struct Slot<T> {
    state: AtomicU32,
    value: UnsafeCell<MaybeUninit<T>>,
}

// SAFETY: a value is moved in by one thread and out by one other, never shared.
unsafe impl<T: Send> Sync for Slot<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Slot<T> {}

impl<T> Slot<T> {
    /// An empty one.
    pub fn new() -> Slot<T> {
        Slot { state: AtomicU32::new(EMPTY), value: UnsafeCell::new(MaybeUninit::uninit()) }
    }

    fn claim(&self, from: u32) -> bool {
        // Acquire: whoever moved the value in or out has finished. Release: who finds it taken sees what was done before.
        self.state.compare_exchange(from, BUSY, Ordering::AcqRel, Ordering::Relaxed).is_ok()
    }

    /// Puts `value` there; gives it back where there is one, or where the one before is still being taken.
    pub fn put(&self, value: T) -> Result<(), T> {
        if !self.claim(EMPTY) {
            return Err(value);
        }
        // SAFETY: we have claimed it while it was empty.
        self.value.with_mut(|place| unsafe { (*place).write(value) });
        // Release: whoever finds it full finds the value, and what was done before it was put there.
        self.state.store(FULL, Ordering::Release);
        Ok(())
    }

    /// Takes what is there.
    pub fn take(&self) -> Option<T> {
        if !self.claim(FULL) {
            return None;
        }
        // SAFETY: we have claimed it while it was full.
        let value = self.value.with_mut(|place| unsafe { (*place).assume_init_read() });
        // Release: whoever fills it again does so after this.
        self.state.store(EMPTY, Ordering::Release);
        Some(value)
    }

    /// Whether there is one. Then all is seen that was done before it was put there; where it was taken, before that.
    pub fn is_full(&self) -> bool {
        self.state.load(Ordering::Acquire) == FULL
    }
}

impl<T> Drop for Slot<T> {
    fn drop(&mut self) {
        drop(self.take());
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn there_is_room_for_one_and_what_is_left_goes_with_it() {
        let (slot, value) = (Slot::new(), Arc::new(()));
        assert!(!slot.is_full() && slot.take().is_none() && slot.put(value.clone()).is_ok() && slot.is_full());
        assert!(slot.put(value.clone()).is_err() && slot.take().is_some() && !slot.is_full());
        assert!(slot.put(value.clone()).is_ok());
        drop(slot);
        assert_eq!(Arc::strong_count(&value), 1);
    }
}
