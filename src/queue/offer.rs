//! Chunks of a batch on their way into the outbox: consumers hear of 64 rows at a time, and of the rest when it is dropped.

use super::{Lease, Outbox, Pool};
use crate::output::Stamp;
use crate::word::Row;

/// See the module's comment.
pub struct Offer<'a> {
    outbox: &'a Outbox,
    /// Rows that were pushed to and that nobody has heard of, all of one word.
    word: usize,
    rows: u64,
}

impl<'a> Offer<'a> {
    /// Nothing yet.
    pub(super) fn new(outbox: &'a Outbox) -> Offer<'a> {
        Offer { outbox, word: 0, rows: 0 }
    }

    /// Delivers what is in `making`, for a free buffer of `pool` that takes its place there. Lost by policy, or where the
    /// consumer holds all buffers: the buffer stays in `making`. `true` if it was queued; with HOLD false loses nothing.
    /// `stamp` is made where it will lie.
    #[inline(always)]
    pub fn push(
        &mut self,
        row: Row,
        size: usize,
        making: &mut Lease,
        pool: &Pool,
        stamp: impl FnOnce() -> Stamp,
    ) -> bool {
        let is_queued = self.outbox.push(row, size, making, pool, stamp);
        if is_queued {
            if row.word() != self.word {
                self.tell();
                self.word = row.word();
            }
            self.rows |= row.bit();
        }
        is_queued
    }

    fn tell(&mut self) {
        if self.rows != 0 {
            self.outbox.tell(self.word, std::mem::take(&mut self.rows));
        }
    }
}

impl Drop for Offer<'_> {
    fn drop(&mut self) {
        self.tell();
    }
}
