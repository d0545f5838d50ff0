//! Steps 10 and 11 of a tick: a finished batch becomes chunks, ascending by row.

use super::cohort::Cohort;
use super::failure::Verdict;
use super::flight::{Errand, Flight, Home};
use crate::batch::{Batch, Seat};
use crate::model::{Call, RawStream};
use crate::output::Stamp;
use crate::telemetry::Counters;
use crate::time::real_now;
use crate::word::{Fault, Lane, Nanos, Row, Status};

impl Cohort {
    /// Delivers the previous batch (pipelined) or this one. False: it is not done. Waits for that batch only.
    pub(super) fn collect(&mut self, until: Nanos) -> bool {
        let place = if self.plan.pipelined { &mut self.previous } else { &mut self.current };
        let Some(mut flight) = place.take() else { return self.rotate() };
        let done = self.land(&mut flight, until);
        if !done {
            *(if self.plan.pipelined { &mut self.previous } else { &mut self.current }) = Some(flight);
            return false;
        }
        if flight.lost {
            self.abandon(flight);
        } else {
            self.deliver(flight);
        }
        self.rotate()
    }

    fn rotate(&mut self) -> bool {
        if self.plan.pipelined {
            self.previous = self.current.take();
        }
        true
    }

    /// Runs what is left of a flight, until its outputs are complete.
    fn land(&mut self, flight: &mut Flight, until: Nanos) -> bool {
        if self.has_deferred && !flight.deferred_submitted {
            if !self.settle_hot(flight, until) {
                return false;
            }
            if flight.lost {
                return true;
            }
            self.submit_deferred(flight);
        }
        let last = self.model.manifest().last_lane();
        let passed = flight.last(last).iter().all(|fence| self.lanes.passed(*fence) || self.lanes.block(*fence, until));
        passed && self.settle_hot(flight, until)
    }

    /// The outputs of a landed flight go out, its batches home.
    fn deliver(&mut self, mut flight: Box<Flight>) {
        let last = self.manifest().last_lane();
        let done = self.shared.clock.now();
        let mut is_lost = false;
        if last == Lane::Deferred {
            is_lost = self.settle_deferred(&mut flight);
            self.send_hot_home(&mut flight);
        }
        let (slot, isolated) = match last {
            Lane::Deferred => (Home::Deferred(flight.slot), flight.deferred_isolated),
            _ => (Home::Hot(flight.slot), flight.hot_isolated),
        };
        let home = if isolated { Home::Spare } else { slot };
        let mut fences = std::mem::take(if last == Lane::Deferred { &mut flight.deferred } else { &mut flight.hot });
        for fence in fences.drain(..) {
            let Some(batch) = self.lanes.take(fence) else { continue };
            if !is_lost {
                self.deliver_batch(&batch, &mut flight, done);
            }
            self.bring_home(home, batch);
        }
        *(if last == Lane::Deferred { &mut flight.deferred } else { &mut flight.hot }) = fences;
        if !is_lost {
            self.finalize(&flight);
        }
        let slot = flight.slot;
        self.slots[slot].flight = Some(flight);
        self.shared.hand_over();
    }

    /// Acts on what DEFERRED said. True: the whole batch is lost.
    fn settle_deferred(&mut self, flight: &mut Flight) -> bool {
        if flight.deferred.is_empty() {
            return false;
        }
        match self.judge(Lane::Deferred, &flight.deferred, flight.deferred_isolated) {
            Verdict::Lost(fault) => {
                self.batch_failed(fault, flight.rows.first().unwrap_or_default());
                true
            }
            Verdict::Rows => {
                for (row, _) in &self.bad {
                    flight.rows.remove(*row);
                }
                self.quarantine_bad();
                self.commit(Lane::Deferred, flight);
                false
            }
        }
    }

    /// HOT's batches of a flight that DEFERRED has ended: home, or on an errand where their fence is still to be seen.
    fn send_hot_home(&mut self, flight: &mut Flight) {
        let home = if flight.hot_isolated { Home::Single(flight.slot) } else { Home::Hot(flight.slot) };
        for fence in flight.hot.drain(..) {
            match self.lanes.take(fence) {
                Some(batch) => self.bring_home(home, batch),
                None => self.errands.push(Errand { fence, home, is_unseen: false }),
            }
        }
    }

    fn deliver_batch(&mut self, batch: &Batch, flight: &mut Flight, done: Nanos) {
        for at in batch.span() {
            let Some(row) = batch.row_at(at) else { continue };
            if !self.arena.lives(row, flight.marks[row.at()].generation) {
                flight.rows.remove(row);
            } else if flight.rows.has(row) {
                self.deliver_row(batch, at, row, flight, done);
            }
        }
    }

    fn deliver_row(&mut self, batch: &Batch, at: usize, row: Row, flight: &mut Flight, done: Nanos) {
        let (size, frames, slot) = (batch.output_size(at), batch.frames(at), flight.slot);
        let manifest = self.model.manifest();
        if size > manifest.chunk_bytes {
            // It says that it wrote past its buffer's end: what is in it is not to be trusted.
            let stage = manifest.last_stage(manifest.last_lane());
            flight.rows.remove(row);
            return self.quarantine(row, Fault { stage, status: Status::CALLBACK });
        }
        let (Some(life), Some(pool)) = (self.arena.life_mut(row), &self.pools[row.at()]) else { return };
        if size == 0 {
            life.silent += 1;
            return;
        }
        let Some(making) = &mut self.making[row.at()][slot] else { return };
        let mark = flight.marks[row.at()];
        let stamp = Stamp {
            session: life.session,
            user: life.user,
            generation: life.generation,
            row,
            index: mark.index,
            silent: life.silent,
            tick: flight.tick,
            tag: mark.tag,
            heavy_tag: mark.heavy_tag,
            start: flight.start,
            done,
            frames,
        };
        self.shared.outbox.push(stamp, size, making, pool);
        let counters = &self.shared.counters;
        Counters::add(&counters.chunks, 1);
        if let Some(pushed) = mark.pushed {
            counters.action.record(done.saturating_sub(pushed));
        }
    }

    /// Step 11: the rows whose chunks were collected. A failure costs nothing but a notice.
    fn finalize(&mut self, flight: &Flight) {
        if !self.manifest().hooks.finalize || flight.rows.is_empty() {
            return;
        }
        let mut batch = self.spare_batch(flight.rows.len() as usize);
        batch.begin(self.tick, 0, &flight.rows);
        let keys = &self.model.manifest().keys;
        for row in flight.rows.iter() {
            let Some(life) = self.arena.life(row) else { continue };
            let seat = Seat { row, session: life.session, user: life.user, generation: life.generation, version: 0 };
            batch.place(seat, flight.marks[row.at()].index, life.held.view(), keys, &mut self.store);
        }
        batch.seal(&mut self.store);
        let first = Row(batch.first_row());
        if let Err(fault) = self.target.call(None, Call::Finalize, &mut batch, RawStream::default(), real_now()) {
            self.batch_failed(fault, first);
        }
        self.keep_spare(batch);
    }
}
