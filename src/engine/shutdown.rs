//! The end of a cohort: what is in flight is delivered, every seeded row detached, everybody told.

use super::arena::Life;
use super::cohort::{Cohort, Progress};
use crate::output::Event;
use crate::record::Call;
use crate::word::{Fault, Nanos, Row, Status};

impl Cohort {
    /// Once the inbox is closed. Waits for the lanes until `until`; busy: call again.
    pub fn shutdown(&mut self, until: Nanos) -> Result<Progress, Fault> {
        self.on_tape(Call::Stop, |cohort| cohort.close(until))
    }

    fn close(&mut self, until: Nanos) -> Result<Progress, Fault> {
        self.check()?;
        if !self.turn_away() || !self.empty_lanes(until) {
            return self.busy();
        }
        self.check()?;
        for row in (0..self.manifest().max_sessions).map(Row) {
            self.dismiss(row);
        }
        while let Some(row) = self.arena.by.retiring.first() {
            if !self.row_passes(row, until) {
                return self.busy();
            }
            self.try_retire(row);
        }
        if !self.finish_errands(until) {
            return self.busy();
        }
        self.check()?;
        // Nothing runs any more.
        self.lanes.halt(Nanos::MAX);
        self.publish();
        self.herald.close();
        self.shared.outbox.end(Status::CLOSED, None);
        Ok(Progress::Done)
    }

    /// Before a death is told: what happened until then is.
    pub fn last_words(&mut self) {
        self.herald.close();
    }

    /// After a death: whether no callback runs or will run; waits for those that do until `until`. What was in flight is
    /// lost.
    pub fn halt(&mut self, until: Nanos) -> bool {
        if !self.lanes.halt(until) {
            return false;
        }
        if self.target.watch.is_abandoned() {
            return true;
        }
        for flight in [self.previous.take(), self.current.take()].into_iter().flatten() {
            self.forfeit(&flight);
        }
        true
    }

    /// The host has freed the engine while a call hangs, and nobody drives it: what its lanes have of threads ends, as soon
    /// as it can.
    pub fn desert(&mut self) {
        self.lanes.halt(0);
    }

    /// Delivers what is in flight, then lets every seed aside and every encode end: they may hang, and nobody else waits for them.
    fn empty_lanes(&mut self, until: Nanos) -> bool {
        if !self.settle_seeds(until) {
            return false;
        }
        while self.previous.is_some() || self.current.is_some() {
            if !self.defer_previous(until) || self.check().is_err() || !self.collect(until) {
                return false;
            }
        }
        self.shared.outbox.wake_consumers();
        while let Some(fence) = self.asides.iter().chain(&self.encodes).map(|encode| encode.fence).next() {
            if !self.await_fence(fence, until) {
                return false;
            }
            self.resolve_asides();
            self.resolve_encodes();
        }
        true
    }

    /// The life in `row`, if there is one, ends: DETACHED after its last chunk if it was seeded, else REJECTED.
    fn dismiss(&mut self, row: Row) {
        let is_seeded = self.arena.is_seeded(row);
        let Some(Life { farewell_sent, begin_tag, .. }) = self.arena.life(row) else { return };
        let (farewell_sent, tag) = (*farewell_sent, *begin_tag);
        if !is_seeded {
            return self.leave(row, Some((Event::Rejected(Status::CLOSED), tag)));
        }
        self.shared.board.write(row, None);
        if !farewell_sent {
            let notice = self.notice(row, Event::Detached(Some(Status::CLOSED)), 0);
            self.arena.life_mut(row).into_iter().for_each(|life| life.credits -= 1);
            self.shared.outbox.farewell(row, notice);
        }
        self.end_life(row, Some(Status::CLOSED));
    }

    fn row_passes(&mut self, row: Row, until: Nanos) -> bool {
        let fences = self.arena.fences[row.at()];
        let mut all = [fences.hot, fences.deferred, fences.encode].into_iter().flatten();
        all.all(|fence| self.await_fence(fence, until))
    }

    fn finish_errands(&mut self, until: Nanos) -> bool {
        while let Some(errand) = self.errands.first() {
            let fence = errand.fence;
            if !self.await_fence(fence, until) {
                return false;
            }
            self.run_errands();
        }
        true
    }
}
