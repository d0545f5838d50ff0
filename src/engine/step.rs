//! Steps 6, 7 and 9 of a tick: HOT of this batch, and beside it DEFERRED of the one before.

use super::arena::{Life, RowFences};
use super::cohort::Cohort;
use super::failure::Verdict;
use super::flight::{Errand, Flight, Home, Mark};
use crate::batch::{Batch, Seat};
use crate::conditioning::{Keys, Seen};
use crate::lane::{Calls, Fence, Work};
use crate::rows::Rows;
use crate::word::{Generation, Lane, Nanos};

impl Cohort {
    /// Step 7, pipelined: what HOT said of the previous batch is acted on, then its DEFERRED is submitted.
    pub(super) fn defer_previous(&mut self, until: Nanos) -> bool {
        let Some(mut flight) = self.previous.take() else { return true };
        let settled = self.settle_hot(&mut flight, until);
        if settled && flight.lost {
            self.abandon(flight);
            return true;
        }
        if settled && self.has_deferred && !flight.deferred_submitted {
            self.submit_deferred(&mut flight);
        }
        self.previous = Some(flight);
        settled
    }

    /// Whether the next slot's batch and buffers are at home, if they are to be filled. Those of a lost flight may not be,
    /// nor those whose outputs nobody waited for: their work may still run.
    pub(super) fn slot_is_home(&mut self, until: Nanos) -> bool {
        if self.cohort.is_empty() {
            return true;
        }
        let slot = self.next_slot;
        let homes = [Home::Hot(slot), Home::Single(slot), Home::Deferred(slot)];
        let is_of_slot = |errand: &Errand| homes.contains(&errand.home);
        while let Some(at) = self.errands.iter().position(is_of_slot) {
            let fence = self.errands[at].fence;
            if !self.await_fence(fence, until) {
                return false;
            }
            let Some(batch) = self.lanes.take(fence) else { return false };
            let errand = self.errands.swap_remove(at);
            self.bring_home(errand.home, batch);
        }
        true
    }

    /// Step 9: HOT of all rows that are live and ready.
    pub(super) fn start_hot(&mut self) {
        if self.cohort.is_empty() {
            return;
        }
        let slot = self.next_slot;
        let home = &mut self.slots[slot];
        let (Some(mut flight), Some(mut hot)) = (home.flight.take(), home.hot.take()) else { return };
        let mut deferred = home.deferred.take();
        self.next_slot = if self.plan.pipelined { 1 - slot } else { 0 };
        let cohort = std::mem::replace(&mut self.cohort, Rows::new(0));
        flight.begin(self.tick, self.departures, self.time(), &cohort);
        hot.begin(self.tick, slot as u32, &cohort);
        if let Some(deferred) = &mut deferred {
            deferred.begin(self.tick, slot as u32, &cohort);
        }
        self.board(&cohort, slot, &mut flight, &mut hot, deferred.as_deref_mut());
        self.cohort = cohort;
        hot.seal(&mut self.store);
        if let Some(deferred) = &mut deferred {
            deferred.seal(&mut self.store);
        }
        flight.to_defer = deferred;
        flight.hot_isolated = self.submit(Lane::Hot, slot, hot, None, &mut flight.hot);
        self.note_completions(Lane::Hot, &mut flight);
        if flight.hot.iter().all(|fence| self.lanes.observe(*fence).is_some()) {
            self.settle_hot(&mut flight, 0);
        }
        if flight.lost { self.abandon(flight) } else { self.current = Some(flight) }
    }

    /// Steps 4 and 6. Rows that are live but encode, or are held, sit out, and are counted as such.
    pub(super) fn choose_cohort(&mut self) {
        let (arena, cohort) = (&mut self.arena, &mut self.cohort);
        cohort.difference(&arena.by.ready, &arena.paused);
        cohort.subtract(&arena.draining);
        if let Some(due) = &self.due {
            self.scratch.intersection(cohort, due);
            cohort.copy_from(&self.scratch);
        }
        self.hold_back();
        let mut from = 0;
        while let Some(row) = self.arena.by.encoding.next(from) {
            from = row.0 + 1;
            if self.is_live(row) {
                self.arena.life_mut(row).into_iter().for_each(|life| life.ticks_out += 1);
                self.arena.news.add(row);
            }
        }
    }

    /// Puts the rows into this tick's batches: both see the same.
    fn board(
        &mut self,
        cohort: &Rows,
        slot: usize,
        flight: &mut Flight,
        hot: &mut Batch,
        mut deferred: Option<&mut Batch>,
    ) {
        let Cohort { arena, store, seen, making, model, .. } = self;
        let (manifest, seen) = (model.manifest(), &seen[Lane::Hot.at()]);
        let keys = &manifest.keys;
        for row in cohort.iter() {
            let Some(life) = arena.life_mut(row) else { continue };
            // There always is one: a buffer is given away for another only.
            let output = match &making[row.at()][slot] {
                Some(lease) if !manifest.owns_outputs => lease.address(),
                _ => 0,
            };
            let (generation, version) = (life.generation, life.held.version());
            let seat = Seat { row, session: life.session, user: life.user, generation, version };
            let at = hot.place(seat, life.age, life.held.view(), keys, store);
            mark_changed(seen, hot, at, keys);
            match &mut deferred {
                Some(deferred) => {
                    let at = deferred.place(seat, life.age, life.held.view(), keys, store);
                    deferred.set_output(at, output);
                }
                None => hot.set_output(at, output),
            }
            flight.marks[row.at()] = Mark {
                generation,
                index: life.age,
                tag: life.tag,
                heavy_tag: life.heavy_tag,
                pushed: life.unseen_since.take(),
            };
            life.sat_out = 0;
            life.held.issue(keys);
        }
    }

    /// Where outputs are one block: that of each position. Not before the batch, which ends chunks, is what its lane will
    /// see.
    fn line_up_outputs(&mut self, slot: usize, batch: &mut Batch) {
        let Some(block) = &mut self.slots[slot].block else { return };
        let begin = block.as_mut_ptr().expose_provenance();
        let chunk_bytes = self.model.manifest().chunk_bytes;
        batch.span().for_each(|at| batch.set_output(at, begin + at * chunk_bytes));
    }

    /// Submits a flight's batch to a lane: whole, or row by row where the lane isolates. Returns which.
    fn submit(
        &mut self,
        lane: Lane,
        slot: usize,
        mut batch: Box<Batch>,
        after: Option<Fence>,
        fences: &mut Vec<Fence>,
    ) -> bool {
        let ends_chunk = lane == self.model.manifest().last_lane();
        if ends_chunk {
            self.line_up_outputs(slot, &mut batch);
        }
        let isolated = self.health.isolates(lane);
        if !isolated {
            batch.lane = Some(lane);
            self.members.copy_from(batch.members());
            let fence = self.lanes.submit(Work { lane, calls: Calls::Stages, batch, after: [after, None] });
            self.members.iter().for_each(|row| note_fence(&mut self.arena.fences[row.at()], lane, fence));
            fences.push(fence);
            return false;
        }
        let mut from = 0;
        while let Some(row) = batch.members().next(from) {
            from = row.0 + 1;
            let at = batch.position(row);
            let mut one = self.spare_batch(1);
            self.members.set_only(row);
            one.copy_one(&self.members, &batch, at, &mut self.store);
            one.lane = Some(lane);
            // A dense batch of one row is the whole arena all the same; else the row keeps its place in the block.
            if ends_chunk && self.model.manifest().is_dense {
                self.line_up_outputs(slot, &mut one);
            }
            let fence = self.lanes.submit(Work { lane, calls: Calls::Stages, batch: one, after: [after, None] });
            note_fence(&mut self.arena.fences[row.at()], lane, fence);
            fences.push(fence);
        }
        let home = if lane == Lane::Hot { Home::Hot(slot) } else { Home::Deferred(slot) };
        self.bring_home(home, batch);
        true
    }

    /// Acts on what HOT said, once that may be seen: ages, accumulators, quarantine. False: not yet.
    pub(super) fn settle_hot(&mut self, flight: &mut Flight, until: Nanos) -> bool {
        if flight.hot_settled {
            return true;
        }
        if !self.await_calls(&flight.hot, until) {
            return false;
        }
        flight.hot_settled = true;
        match self.judge(Lane::Hot, &flight.hot, flight.hot_isolated) {
            Verdict::Lost(fault) => {
                flight.lost = true;
                self.batch_failed(fault, flight.rows.first().unwrap_or_default());
                self.note_lost(fault, &flight.rows);
                self.forgo(flight);
            }
            Verdict::Rows => {
                for (row, _) in &self.bad {
                    flight.rows.remove(*row);
                }
                self.quarantine_bad(flight);
                self.commit(Lane::Hot, flight);
                self.aged.unite(&flight.rows);
                // Where nobody has left since, nobody has to be asked.
                let is_whole = flight.departures == self.departures;
                for row in flight.rows.iter() {
                    let is_here = |life: &&mut Life| is_whole || life.generation == flight.marks[row.at()].generation;
                    self.arena.life_mut(row).filter(is_here).into_iter().for_each(|life| life.age += 1);
                }
            }
        }
        true
    }

    /// A lost HOT: retried from where it was if it left no trace; else its chunk numbers are a gap.
    fn forgo(&mut self, flight: &Flight) {
        let is_safe = self.manifest().is_retry_safe;
        let keys = &self.model.manifest().keys;
        for row in flight.rows.iter() {
            let mark = flight.marks[row.at()];
            let Some(life) = living(self.arena.life_mut(row), mark.generation) else { continue };
            if is_safe {
                life.held.take_back(keys);
                life.unseen_since = life.unseen_since.or(mark.pushed);
            } else {
                life.age += 1;
                self.aged.add(row);
            }
        }
    }

    /// What `lane` was shown is what it saw last, for the flight's rows.
    pub(super) fn commit(&mut self, lane: Lane, flight: &Flight) {
        let keys = &self.model.manifest().keys;
        for fence in flight.last(lane) {
            let Some(batch) = self.lanes.observe(*fence) else { continue };
            if !batch.has_news() {
                continue;
            }
            for (at, row) in batch.positions().filter(|(_, row)| flight.rows.has(*row)) {
                let (seat, seen) = (batch.seat(at), &mut self.seen[lane.at()]);
                if !seen.is(row, seat.generation, seat.version) || seat.version == 0 {
                    seen.commit(row, seat.generation, seat.version, keys, &mut self.store, |key| batch.shown(at, key));
                }
            }
        }
    }

    /// DEFERRED of a flight whose HOT was settled: of its rows that are still alive and have not failed.
    pub(super) fn submit_deferred(&mut self, flight: &mut Flight) {
        flight.deferred_submitted = true;
        let Some(mut batch) = flight.to_defer.take() else { return };
        if flight.departures != self.departures {
            self.drop_departed(flight, &mut batch);
        }
        if batch.is_empty() {
            return self.bring_home(Home::Deferred(flight.slot), batch);
        }
        let keys = &self.model.manifest().keys;
        for at in batch.span() {
            if batch.row_at(at).is_some() {
                mark_changed(&self.seen[Lane::Deferred.at()], &mut batch, at, keys);
            }
        }
        let after = flight.hot.last().copied();
        flight.deferred_isolated = self.submit(Lane::Deferred, flight.slot, batch, after, &mut flight.deferred);
        self.note_completions(Lane::Deferred, flight);
    }

    /// With outputs on a device: what the chunks of work just submitted are complete behind.
    fn note_completions(&mut self, lane: Lane, flight: &mut Flight) {
        let manifest = self.model.manifest();
        if manifest.on_device && lane == manifest.last_lane() {
            let fences = if lane == Lane::Deferred { &flight.deferred } else { &flight.hot };
            flight.completions.extend(fences.iter().map(|fence| self.lanes.passage(*fence)));
        }
    }

    /// Rows that left or failed since HOT are in DEFERRED no more.
    fn drop_departed(&mut self, flight: &mut Flight, batch: &mut Batch) {
        let mut from = 0;
        while let Some(row) = batch.members().next(from) {
            from = row.0 + 1;
            let is_here = self.arena.lives(row, flight.marks[row.at()].generation);
            if !is_here || !flight.rows.has(row) || self.arena.by.quarantined.has(row) {
                flight.rows.remove(row);
                batch.drop_row(row, &mut self.store);
            }
        }
    }

    /// Takes a lost flight apart.
    pub(super) fn abandon(&mut self, mut flight: Box<Flight>) {
        let slot = flight.slot;
        if let Some(batch) = flight.to_defer.take() {
            self.bring_home(Home::Deferred(slot), batch);
        }
        let home = if flight.hot_isolated { Home::Single(slot) } else { Home::Hot(slot) };
        for fence in flight.hot.drain(..) {
            self.errands.push(Errand { fence, home, is_unseen: false });
        }
        self.slots[slot].flight = Some(flight);
    }
}

fn note_fence(fences: &mut RowFences, lane: Lane, fence: Fence) {
    *(if lane == Lane::Hot { &mut fences.hot } else { &mut fences.deferred }) = Some(fence);
}

fn living(life: Option<&mut Life>, generation: Generation) -> Option<&mut Life> {
    life.filter(|life| life.generation == generation)
}

/// Says which keys differ from what the lane saw last of the row at `at`.
#[inline(always)]
fn mark_changed(seen: &Seen, batch: &mut Batch, at: usize, keys: &Keys) {
    let Seat { row, generation, version, .. } = *batch.seat(at);
    if version == 0 || !seen.is(row, generation, version) {
        set_changed(seen, batch, at, keys);
    }
}

#[inline(never)]
fn set_changed(seen: &Seen, batch: &mut Batch, at: usize, keys: &Keys) {
    let Seat { row, generation, .. } = *batch.seat(at);
    let changed = seen.changed(row, generation, keys, |key| batch.shown(at, key));
    batch.set_changed(at, changed);
}
