//! A bounded queue for any number of producers and consumers that never blocks and never spins on anybody.
//!
//! Each cell has a stamp (Dmitry Vyukov's bounded MPMC queue): `stamp == p` means that the producer of position p may
//! write it, `stamp == p + 1` that its consumer may read it. A position is claimed by a compare-and-swap of `tail` or
//! `head`; the claimant alone touches the cell until it moves the stamp on. Unlike the common forms of this queue, one
//! that finds a neighbour in the middle of its turn says so ([`Take::Busy`], or full) instead of waiting for it.

use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicUsize, Ordering};

struct Cell<T> {
    stamp: AtomicUsize,
    /// Of what is in it; its producer's word, which a consumer may read before it claims the cell.
    mark: AtomicUsize,
    value: UnsafeCell<MaybeUninit<T>>,
}

impl<T> Cell<T> {
    /// # Safety
    /// Nobody else touches what is in it, till the stamp says that it is there.
    #[inline(always)]
    unsafe fn fill(&self, position: usize, mark: usize, make: impl FnOnce() -> T) {
        // SAFETY: the caller's promise.
        self.value.with_mut(|place| unsafe { (*place).write(make()) });
        self.mark.store(mark, Ordering::Relaxed);
        // Release: whoever sees the stamp sees the value and its mark.
        self.stamp.store(position.wrapping_add(1), Ordering::Release);
    }
}

/// See the module's comment.
pub struct Ring<T> {
    /// Next position to write. Grows by one a push.
    tail: CachePadded<AtomicUsize>,
    /// Next position to read; never above `tail`.
    head: CachePadded<AtomicUsize>,
    cells: Box<[Cell<T>]>,
}

// SAFETY: a value is moved in by one thread and out by one other, never shared.
unsafe impl<T: Send> Sync for Ring<T> {}
// SAFETY: as above.
unsafe impl<T: Send> Send for Ring<T> {}

/// What a look at the head found.
pub enum Take<T> {
    /// The oldest value, now the caller's.
    Item(T),
    /// There is none.
    Empty,
    /// There is one, but its producer is in the middle of writing it.
    Busy,
    /// There is one, but the taker did not want it.
    Left,
}

impl<T> Ring<T> {
    /// Room for at least `capacity` values.
    pub fn new(capacity: usize) -> Ring<T> {
        let size = capacity.next_power_of_two().max(2);
        let cell = |at| Cell {
            stamp: AtomicUsize::new(at),
            mark: AtomicUsize::new(0),
            value: UnsafeCell::new(MaybeUninit::uninit()),
        };
        Ring {
            tail: CachePadded::new(AtomicUsize::new(0)),
            head: CachePadded::new(AtomicUsize::new(0)),
            cells: (0..size).map(cell).collect(),
        }
    }

    fn cell(&self, position: usize) -> &Cell<T> {
        &self.cells[position & (self.cells.len() - 1)]
    }

    /// Appends `value`; gives it back where there is no room, or a consumer is still taking what was there.
    pub fn push(&self, value: T) -> Result<(), T> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            let cell = self.cell(tail);
            // Acquire: the consumer that freed the cell has finished reading it.
            let stamp = cell.stamp.load(Ordering::Acquire);
            let ahead = stamp.wrapping_sub(tail) as isize;
            if ahead < 0 {
                return Err(value);
            }
            if ahead > 0 {
                tail = self.tail.load(Ordering::Relaxed);
                continue;
            }
            match self.tail.compare_exchange_weak(tail, tail.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    // SAFETY: stamp == position and the claim succeeded: nobody else touches the cell till the store.
                    unsafe { cell.fill(tail, 0, || value) };
                    return Ok(());
                }
                Err(now) => tail = now,
            }
        }
    }

    /// Appends what `make` makes, if there is room: then true. Of a ring that the calling thread alone pushes to, with a mark
    /// for [`Ring::pop_if`]. It orders nothing but the value: whoever says "empty" has not seen it, or is told by other means.
    #[inline(always)]
    pub fn push_alone(&self, mark: usize, make: impl FnOnce() -> T) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        let cell = self.cell(tail);
        // Acquire: as above.
        if cell.stamp.load(Ordering::Acquire) != tail {
            return false;
        }
        // Before the value: where a consumer has taken that, it is counted.
        self.tail.store(tail.wrapping_add(1), Ordering::Relaxed);
        // SAFETY: stamp == position, and nobody else pushes.
        unsafe { cell.fill(tail, mark, make) };
        true
    }

    /// Takes the oldest value.
    pub fn pop(&self) -> Take<T> {
        self.pop_if(|_| true, |value| value)
    }

    /// Takes the oldest value if `wants` says so of its mark, and gives it to `then`, where it lies: it is large. [`Take::Left`]
    /// is a moment's truth.
    #[inline(always)]
    pub fn pop_if<R>(&self, wants: impl Fn(usize) -> bool, then: impl FnOnce(T) -> R) -> Take<R> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            let cell = self.cell(head);
            // Acquire: pairs with the producer's stamp.
            let stamp = cell.stamp.load(Ordering::Acquire);
            let ahead = stamp.wrapping_sub(head.wrapping_add(1)) as isize;
            if ahead < 0 {
                let now = self.head.load(Ordering::Relaxed);
                if now != head {
                    head = now;
                    continue;
                }
                // SeqCst on `tail` here and in `push`: a consumer that says "empty" is ordered with a producer that
                // looks afterwards whether anybody waits.
                return if self.tail.load(Ordering::SeqCst) == head { Take::Empty } else { Take::Busy };
            }
            if ahead > 0 {
                head = self.head.load(Ordering::Relaxed);
                continue;
            }
            // Where it is another's mark already, the claim fails.
            if !wants(cell.mark.load(Ordering::Relaxed)) {
                return Take::Left;
            }
            match self.head.compare_exchange_weak(head, head.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    // SAFETY: stamp == position + 1 and the claim succeeded: the value is whole and ours alone.
                    let shown = cell.value.with_mut(|place| then(unsafe { (*place).assume_init_read() }));
                    // Release: the next producer of this cell sees that it was read.
                    cell.stamp.store(head.wrapping_add(self.cells.len()), Ordering::Release);
                    return Take::Item(shown);
                }
                Err(now) => head = now,
            }
        }
    }

    /// How many are in it, those in the middle of a push included. A moment's truth.
    pub fn len(&self) -> usize {
        let head = self.head.load(Ordering::SeqCst);
        self.tail.load(Ordering::SeqCst).wrapping_sub(head)
    }

    /// Whether the next `count` pushes find room, if there is one producer: the calling thread.
    pub fn has_room(&self, count: usize) -> bool {
        let tail = self.tail.load(Ordering::Relaxed);
        (0..count).map(|ahead| tail.wrapping_add(ahead)).all(|at| self.cell(at).stamp.load(Ordering::Acquire) == at)
    }

    /// Whether there is a whole value to take: not one whose producer is in the middle of writing it. A moment's truth.
    pub fn has_next(&self) -> bool {
        loop {
            let head = self.head.load(Ordering::SeqCst);
            let stamp = self.cell(head).stamp.load(Ordering::Acquire);
            if self.head.load(Ordering::SeqCst) == head {
                return stamp == head.wrapping_add(1);
            }
        }
    }

    /// Whether there is none, not even one that is being written. A moment's truth.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl<T> Drop for Ring<T> {
    fn drop(&mut self) {
        while let Take::Item(value) = self.pop() {
            drop(value);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_goes_in_comes_out_in_order_and_full_gives_it_back() {
        let ring = Ring::new(2);
        assert!(ring.push(1).is_ok() && ring.push(2).is_ok());
        assert_eq!(ring.push(3), Err(3));
        assert!(matches!(ring.pop(), Take::Item(1)));
        assert!(ring.push(3).is_ok());
        assert!(matches!(ring.pop(), Take::Item(2)));
        assert!(matches!(ring.pop(), Take::Item(3)));
        assert!(matches!(ring.pop(), Take::Empty));
    }

    #[test]
    fn a_value_that_is_not_wanted_stays() {
        let ring = Ring::new(2);
        assert!(ring.push_alone(7, || 1));
        assert!(matches!(ring.pop_if(|mark| mark != 7, |_| ()), Take::Left) && ring.has_next());
        assert!(matches!(ring.pop_if(|mark| mark == 7, |value| value), Take::Item(1)) && !ring.has_next());
        assert!(matches!(ring.pop_if(|_| false, |_| ()), Take::Empty));
    }

    #[test]
    fn values_left_inside_are_dropped_with_it() {
        let value = Arc::new(());
        let ring = Ring::new(4);
        ring.push(value.clone()).unwrap();
        drop(ring);
        assert_eq!(Arc::strong_count(&value), 1);
    }

    #[test]
    fn each_value_is_taken_once_and_a_producers_order_is_kept() {
        const EACH: u64 = 20_000;
        let ring = Arc::new(Ring::new(64));
        let producers: Vec<_> = (0..2u64)
            .map(|p| {
                let ring = ring.clone();
                std::thread::spawn(move || {
                    for n in 0..EACH {
                        while ring.push((p, n)).is_err() {
                            std::thread::yield_now();
                        }
                    }
                })
            })
            .collect();
        let (mut next, mut seen) = ([0u64; 2], 0);
        while seen < 2 * EACH {
            match ring.pop() {
                Take::Item((p, n)) => {
                    assert_eq!(n, next[p as usize]);
                    next[p as usize] += 1;
                    seen += 1;
                }
                _ => std::thread::yield_now(),
            }
        }
        producers.into_iter().for_each(|p| p.join().unwrap());
    }
}
