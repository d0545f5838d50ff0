//! Step 3 of a tick: pending rows get their first state.

use super::arena::State;
use super::cohort::Cohort;
use super::flight::{Errand, Home};
use crate::batch::{Batch, Seat};
use crate::conditioning::View;
use crate::lane::{Calls, Fence, Work};
use crate::model::{Call, RawStream};
use crate::output::Event;
use crate::rows::Rows;
use crate::time::real_now;
use crate::word::{Fault, KeySet, Lane, Nanos, Row, Status};

impl Cohort {
    /// Shows the pending rows to `ready`, then submits their seeds: new rows in one call, those that failed before each
    /// in its own. What came of it is acted on by [`Cohort::settle_seeds`].
    pub(super) fn arm(&mut self) {
        if self.arena.by.pending.is_empty() || !self.may_seed() {
            return;
        }
        if !self.manifest().hooks.seed {
            while let Some(row) = self.arena.by.pending.first() {
                self.seeded(row);
            }
            return;
        }
        let mut fresh = std::mem::replace(&mut self.scratch, Rows::new(0));
        fresh.clear();
        for row in self.arena.by.pending.iter() {
            fresh.set(row, self.arena.life(row).is_some_and(|life| life.seed_tries == 0));
        }
        if !fresh.is_empty() {
            let batch = self.pending_batch(&fresh);
            self.submit_seed(batch);
        }
        let mut from = 0;
        while let Some(row) = self.arena.by.pending.next(from) {
            from = row.0 + 1;
            if !fresh.has(row) {
                let mut one = std::mem::replace(&mut self.members, Rows::new(0));
                one.set_only(row);
                let batch = self.pending_batch(&one);
                self.members = one;
                self.submit_seed(batch);
            }
        }
        self.scratch = fresh;
    }

    /// The gate. Absent: always open.
    fn may_seed(&mut self) -> bool {
        self.is_gated = false;
        if !self.manifest().hooks.ready {
            return true;
        }
        let mut rows = std::mem::replace(&mut self.members, Rows::new(0));
        rows.copy_from(&self.arena.by.pending);
        let mut batch = self.pending_batch(&rows);
        self.members = rows;
        let answer = self.target.call(None, Call::Ready, &mut batch, RawStream::default(), real_now());
        let first = Row(batch.first_row());
        self.keep_spare(batch);
        match answer {
            Ok(()) => true,
            Err(fault) => {
                if fault.status != Status::AGAIN {
                    self.batch_failed(fault, first);
                }
                self.silence.iter_mut().for_each(|silence| silence.close_gate(fault.status));
                self.is_gated = true;
                false
            }
        }
    }

    /// A batch of these pending rows, with their contexts.
    fn pending_batch(&mut self, rows: &Rows) -> Box<Batch> {
        let mut batch = self.spare_batch(rows.len() as usize);
        batch.begin(self.tick, 0, rows);
        let keys = &self.model.manifest().keys;
        for row in rows.iter() {
            let Some(life) = self.arena.life(row) else { continue };
            let seat = Seat { row, session: life.session, user: life.user, generation: life.generation, version: 0 };
            let view = View { image: &[], present: KeySet::NONE, blocks: &life.context };
            let at = batch.place(seat, 0, view, keys, &mut self.store);
            let present = batch.present(at);
            batch.set_changed(at, present);
        }
        batch.seal(&mut self.store);
        batch
    }

    fn submit_seed(&mut self, batch: Box<Batch>) {
        if self.manifest().seeds_aside {
            return self.submit_aside(batch);
        }
        self.members.copy_from(batch.members());
        let fence =
            self.lanes.submit(Work { lane: Lane::Hot, calls: Calls::Hook(Call::Seed), batch, after: [None; 2] });
        self.members.iter().for_each(|row| self.arena.fences[row.at()].hot = Some(fence));
        self.seeds.push(fence);
    }

    /// The rows of a seed aside start: they are acted on when its fence has passed, and nobody waits for that.
    fn submit_aside(&mut self, batch: Box<Batch>) {
        self.members.copy_from(batch.members());
        let detaches = self.members.iter().filter_map(|row| self.arena.fences[row.at()].detach);
        let after = [detaches.max_by_key(|fence| fence.sequence), None];
        let work = Work { lane: Lane::Encode, calls: Calls::Hook(Call::Seed), batch, after };
        let fence = self.lanes.submit(work);
        for row in self.members.iter() {
            self.arena.fences[row.at()].encode = Some(fence);
            self.arena.change(row, |life| State::Starting { life });
        }
        let aside = self.note_encode(fence);
        self.asides.push(aside);
    }

    /// Step 2: seeds aside whose fence has passed. Their rows join, wait for the next attempt, or are gone.
    pub(super) fn resolve_asides(&mut self) {
        let mut at = 0;
        while let Some(aside) = self.asides.get(at).copied() {
            match self.take_encode(aside) {
                Some(batch) => {
                    self.asides.remove(at);
                    self.aside_passed(&batch);
                    self.bring_home(Home::Spare, batch);
                }
                None => at += 1,
            }
        }
    }

    fn aside_passed(&mut self, batch: &Batch) {
        for (at, row) in batch.positions() {
            let generation = batch.seat(at).generation;
            let failed = batch.failed(at);
            if !self.arena.lives(row, generation) || !self.arena.by.starting.has(row) {
                // It left meanwhile. If its seed has succeeded all the same, detach is owed.
                if batch.result.is_ok() && failed.is_none() {
                    self.arena.was_seeded(row, generation);
                }
                continue;
            }
            self.arena.change(row, |life| State::Pending { life });
            match (batch.result, failed) {
                (Err(fault), _) => self.seed_failed(row, fault.status),
                (Ok(()), Some(status)) => self.reject(row, status),
                (Ok(()), None) => self.seeded(row),
            }
        }
    }

    /// Acts on what the seeds of this tick came to; false: they are not done.
    pub(super) fn settle_seeds(&mut self, until: Nanos) -> bool {
        let mut seeds = std::mem::take(&mut self.seeds);
        let done = self.await_calls(&seeds, until);
        if done {
            for fence in seeds.drain(..) {
                self.settle_seed(fence);
                self.errands.push(Errand { fence, home: Home::Spare, is_unseen: false });
            }
        }
        self.seeds = seeds;
        done
    }

    fn settle_seed(&mut self, fence: Fence) {
        let Some(batch) = self.lanes.observe(fence) else { return };
        let whole = batch.result.err();
        let mut outcome = std::mem::take(&mut self.bad);
        outcome.clear();
        // OK stands for "seeded" here: every row of the batch is listed.
        outcome.extend(batch.positions().map(|(at, row)| {
            let status = batch.failed(at).unwrap_or(Status(0));
            (row, Fault { stage: Call::Seed.number(), status })
        }));
        if let Some(fault) = whole {
            self.batch_failed(fault, outcome[0].0);
        }
        for (row, fault) in &outcome {
            match whole {
                Some(whole) => self.seed_failed(*row, whole.status),
                None if fault.status == Status(0) => self.seeded(*row),
                None => self.reject(*row, fault.status),
            }
        }
        self.bad = outcome;
    }

    fn seeded(&mut self, row: Row) {
        let keys = &self.model.manifest().keys;
        self.arena.change(row, |life| State::Ready { life });
        let Some(life) = self.arena.life_mut(row) else { return };
        for key in keys.heavy().iter() {
            life.held.put(key, life.context[key].clone(), &mut self.store);
        }
        let tag = life.begin_tag;
        self.tell(row, Event::Attached { already: false }, tag);
    }

    fn seed_failed(&mut self, row: Row, status: Status) {
        let attempts = self.plan.seed_attempts;
        let Some(life) = self.arena.life_mut(row) else { return };
        life.seed_tries += 1;
        if life.seed_tries >= attempts {
            self.reject(row, status);
        }
    }

    fn reject(&mut self, row: Row, status: Status) {
        let tag = self.arena.life(row).map_or(0, |life| life.begin_tag);
        self.leave(row, Some((Event::Rejected(status), tag)));
    }
}
