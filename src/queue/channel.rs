//! One row's way out: its chunks, the end of its life, and what is counted of both.

use super::Tally;
use super::ring::Ring;
use super::slot::Slot;
use crate::output::{Chunk, Notice, Stamp};
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::word::Generation;

/// See the module's comment.
pub(super) struct Channel {
    pub(super) chunks: Ring<Chunk>,
    pub(super) farewell: Slot<Notice>,
    /// The farewell was told: the engine may retire the row.
    pub(super) gone: AtomicBool,
    /// HOLD: the engine found no room; the next pop tells it.
    pub(super) held_back: AtomicBool,
    /// Of the chunk popped last: touched by the holder of the token alone, handed on with it.
    last: [AtomicU64; 3],
    /// Chunks popped: as above.
    taken: AtomicU64,
    /// Of those, how many consumers have given back.
    pub(super) returned: Tally,
    pub(super) dropped: AtomicU64,
}

impl Channel {
    /// Nobody was there. `depth`: chunks that may be queued.
    pub(super) fn new(depth: usize) -> Channel {
        Channel {
            // Twice the depth: a consumer that stands still in the middle of a pop keeps one cell.
            chunks: Ring::new(2 * depth),
            farewell: Slot::new(),
            gone: AtomicBool::new(false),
            held_back: AtomicBool::new(false),
            last: Default::default(),
            taken: AtomicU64::new(0),
            returned: Tally::default(),
            dropped: AtomicU64::new(0),
        }
    }

    /// A chunk was popped: how many of its life should have come between the one before it and this one. With the token.
    pub(super) fn count(&self, stamp: &Stamp) -> u64 {
        self.taken.store(self.taken.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        let [generation, index, silent] = self.last.each_ref().map(|word| word.load(Ordering::Relaxed));
        let new = [stamp.generation.0, stamp.index, stamp.silent];
        self.last.iter().zip(new).for_each(|(word, new)| word.store(new, Ordering::Relaxed));
        if Generation(generation) == stamp.generation {
            (stamp.index - index - 1).saturating_sub(stamp.silent - silent)
        } else {
            stamp.index.saturating_sub(stamp.silent)
        }
    }

    /// Outputs that consumers hold.
    pub(super) fn held(&self) -> u64 {
        // In this order: what was given back is among those taken.
        let returned = self.returned.count();
        self.taken.load(Ordering::Relaxed) - returned
    }
}
