//! The output buffers of one row: a quota that is committed once, used again and again, and outlives the engine.
//!
//! A buffer is either in the pool (its `free` bit is set) or owned by exactly one [`Lease`]: in a batch, in the outbox,
//! or in a consumer's hands. Takers are one thread (the engine's); givers are any. The memory goes when the engine and
//! the last lease have let go of it.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::memory::{LINE, Memory};
use crate::model::RawStream;

/// See the module's comment.
pub struct Pool {
    /// Keeps the bytes at `base` alive; they are reached by address only. Written once, so all pages are there.
    _memory: Memory,
    base: usize,
    bytes: usize,
    stride: usize,
    /// One bit a buffer; set = in the pool.
    free: Box<[AtomicU64]>,
    /// For each buffer its own number: where a lease's raw form points to.
    seats: Box<[Seat]>,
    /// How many are in consumers' hands, of this pool and of all pools of the row.
    out: AtomicU32,
    out_of_row: Arc<AtomicU32>,
    device: Option<Arc<dyn ReleaseFence>>,
}

/// Waits for a stream on which a consumer uses an output that it gives back.
pub trait ReleaseFence: Send + Sync {
    /// Returns when what is enqueued on `stream` now is done.
    fn await_stream(&self, stream: RawStream);
}

/// Where the raw form of a lease points to.
struct Seat {
    index: u32,
    /// `Arc::as_ptr` of the pool it is part of; set once, before anybody can take a lease.
    pool: AtomicUsize,
}

impl Pool {
    /// `count` buffers of `bytes` each, or `None` where there is no memory.
    pub fn new(
        count: usize,
        bytes: usize,
        out_of_row: Arc<AtomicU32>,
        device: Option<Arc<dyn ReleaseFence>>,
    ) -> Option<Arc<Pool>> {
        let stride = bytes.max(1).checked_next_multiple_of(LINE)?;
        let mut memory = Memory::new(stride.checked_mul(count)?)?;
        let base = memory.bytes_mut().as_mut_ptr().expose_provenance();
        let free: Box<[AtomicU64]> = (0..count.div_ceil(64))
            .map(|word| AtomicU64::new(if count - word * 64 >= 64 { !0 } else { (1 << (count % 64)) - 1 }))
            .collect();
        let seats = (0..count as u32).map(|index| Seat { index, pool: AtomicUsize::new(0) }).collect();
        let out = AtomicU32::new(0);
        let pool = Arc::new(Pool { _memory: memory, base, bytes, stride, free, seats, out, out_of_row, device });
        let address = Arc::as_ptr(&pool).expose_provenance();
        pool.seats.iter().for_each(|seat| seat.pool.store(address, Ordering::Relaxed));
        Some(pool)
    }

    /// Takes a free buffer. The engine's thread alone.
    pub fn take(self: &Arc<Pool>) -> Option<Lease> {
        for (at, word) in self.free.iter().enumerate() {
            let bits = word.load(Ordering::Relaxed);
            if bits != 0 {
                let bit = bits.trailing_zeros();
                // Acquire: the giver's last use of the buffer is over. Only we clear bits, so this one is still set.
                word.fetch_and(!(1 << bit), Ordering::Acquire);
                return Some(Lease { pool: self.clone(), index: (at * 64) as u32 + bit });
            }
        }
        None
    }

    /// How many buffers consumers hold.
    pub fn held(&self) -> u32 {
        self.out.load(Ordering::Relaxed)
    }

    /// How many buffers it has.
    pub fn count(&self) -> usize {
        self.seats.len()
    }

    /// How many are in the pool.
    pub fn at_home(&self) -> usize {
        self.free.iter().map(|word| word.load(Ordering::Relaxed).count_ones() as usize).sum()
    }
}

/// The right to one buffer. Dropping it gives the buffer back, on any thread.
pub struct Lease {
    pool: Arc<Pool>,
    index: u32,
}

impl Lease {
    /// Where the buffer begins.
    pub fn address(&self) -> usize {
        self.pool.base + self.index as usize * self.pool.stride
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer lies inside the pool's memory, and a lease is the only way to it.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address()), self.pool.bytes) }
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes other uses of this lease.
        unsafe {
            std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(self.address()), self.pool.bytes)
        }
    }

    /// Waits for the stream of its last use; a pool without a device knows no streams.
    pub fn await_stream(&self, stream: RawStream) {
        if let Some(device) = &self.pool.device {
            device.await_stream(stream);
        }
    }

    /// To a consumer, as one word that [`Lease::from_consumer`] takes back.
    pub fn to_consumer(self) -> usize {
        self.pool.out.fetch_add(1, Ordering::Relaxed);
        self.pool.out_of_row.fetch_add(1, Ordering::Relaxed);
        let lease = std::mem::ManuallyDrop::new(self);
        let seat: *const Seat = &lease.pool.seats[lease.index as usize];
        // The pool's count that the lease had is now the word's.
        seat.expose_provenance()
    }

    /// # Safety
    /// `word` came from [`Lease::to_consumer`], and this is the first time that it is taken back.
    pub unsafe fn from_consumer(word: usize) -> Lease {
        // SAFETY: the pool, and so its seats, live: the word owns one of its counts.
        let seat = unsafe { &*std::ptr::with_exposed_provenance::<Seat>(word) };
        let (index, pool) = (seat.index, seat.pool.load(Ordering::Relaxed));
        // SAFETY: the address is `Arc::as_ptr` of that pool, and the word's count becomes the lease's.
        let pool = unsafe { Arc::from_raw(std::ptr::with_exposed_provenance::<Pool>(pool)) };
        pool.out.fetch_sub(1, Ordering::Relaxed);
        pool.out_of_row.fetch_sub(1, Ordering::Relaxed);
        Lease { pool, index }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // Release: our uses of the buffer come before the next taker's.
        self.pool.free[self.index as usize / 64].fetch_or(1 << (self.index % 64), Ordering::Release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_comes_back_whoever_lets_go_of_it_and_outlives_its_engine() {
        let pool = Pool::new(2, 100, Arc::default(), None).unwrap();
        let mut first = pool.take().unwrap();
        first.bytes_mut().fill(7);
        let second = pool.take().unwrap();
        assert!(pool.take().is_none());
        drop(second);
        let word = first.to_consumer();
        assert_eq!((pool.held(), pool.at_home()), (1, 1));
        drop(pool);
        // SAFETY: taken back once.
        let back = unsafe { Lease::from_consumer(word) };
        assert!(back.bytes().iter().all(|byte| *byte == 7));
    }
}
