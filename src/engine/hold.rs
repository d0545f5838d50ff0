//! HOLD: a session whose consumer is behind sits out, and loses nothing.
//!
//! A row steps only if there is a place in its ring and a free buffer for the chunk, and for the one that is still in
//! flight before it. Both can only become more until the chunk is delivered: the engine alone fills them. So what was
//! let through here is never lost.

use super::cohort::Cohort;
use crate::queue::Policy;
use crate::word::Row;

impl Cohort {
    /// Step 6, last part: takes the rows out of the cohort that have no room for their chunk.
    pub(super) fn hold_back(&mut self) {
        if self.shared.outbox.policy() != Policy::Hold {
            return;
        }
        let mut from = 0;
        while let Some(row) = self.arena.held.next(from) {
            from = row.0 + 1;
            self.arena.held.remove(row);
            self.arena.news.add(row);
        }
        let mut from = 0;
        while let Some(row) = self.cohort.next(from) {
            from = row.0 + 1;
            if !self.has_room(row) {
                self.cohort.remove(row);
                self.arena.held.add(row);
                self.arena.news.add(row);
                self.arena.life_mut(row).into_iter().for_each(|life| life.ticks_out += 1);
            }
        }
    }

    fn has_room(&self, row: Row) -> bool {
        let in_flight = usize::from(self.is_in_flight(row));
        self.told(self.has_buffer(row, in_flight) && self.shared.outbox.has_room(row, in_flight))
    }

    fn is_in_flight(&self, row: Row) -> bool {
        let Some(life) = self.arena.life(row) else { return false };
        self.previous.as_ref().is_some_and(|flight| flight.carries(row, life.generation))
    }

    /// Each chunk that is delivered takes a free buffer in exchange.
    fn has_buffer(&self, row: Row, in_flight: usize) -> bool {
        self.pools[row.at()].as_ref().is_some_and(|pool| pool.has(in_flight + 1))
    }

    /// Whether a held row could step now: since it was held, what was in flight came to nothing, or a buffer came back.
    pub(super) fn can_resume(&self) -> bool {
        // Nothing is in flight where this is asked.
        let has_room = |row| self.has_buffer(row, 0) && self.shared.outbox.has_room(row, 0);
        self.arena.held.iter().any(has_room)
    }

    /// Whether a held row waits for a release: unlike a pop, that wakes nobody.
    pub(super) fn awaits_release(&self) -> bool {
        self.arena.held.iter().any(|row| !self.has_buffer(row, 0))
    }
}
