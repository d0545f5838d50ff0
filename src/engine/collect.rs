//! Steps 10 and 11 of a tick: a finished batch becomes chunks, ascending by row.

use std::sync::Arc;

use super::arena::Arena;
use super::cohort::Cohort;
use super::failure::Verdict;
use super::flight::{Errand, Flight, Home};
use super::shared::Shared;
use super::silence::{Cause, Silence, loss};
use crate::batch::{Batch, Seat};
use crate::lane::Fence;
use crate::model::{Call, Manifest, Model, RawStream};
use crate::output::Stamp;
use crate::queue::{Device, Lease, Offer, Passage, Policy, Pool};
use crate::rows::Rows;
use crate::telemetry::Counters;
use crate::time::real_now;
use crate::word::{Fault, Lane, Nanos, Row, Status};

impl Cohort {
    /// Delivers the previous batch (pipelined) or this one. False: it is not done. Waits for that batch only, and with
    /// outputs on a device not even for that: its chunks say what they are complete behind.
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
        let done = if self.manifest().on_device {
            self.await_calls(flight.last(last), until)
        } else {
            flight.last(last).iter().all(|fence| self.await_fence(*fence, until))
        };
        // Of lanes that failed nothing is delivered: the engine ends.
        done && self.lanes.fault().is_none() && self.settle_hot(flight, until)
    }

    /// The outputs of a landed flight go out, its batches home.
    fn deliver(&mut self, mut flight: Box<Flight>) {
        let last = self.manifest().last_lane();
        let done = self.time();
        let mut is_lost = false;
        if last == Lane::Deferred {
            is_lost = self.settle_deferred(&mut flight);
            self.send_hot_home(&mut flight);
        }
        let (home, isolated) = match last {
            Lane::Deferred => (Home::Deferred(flight.slot), flight.deferred_isolated),
            _ => (Home::Hot(flight.slot), flight.hot_isolated),
        };
        let home = if isolated { Home::Single(flight.slot) } else { home };
        let mut fences = std::mem::take(if last == Lane::Deferred { &mut flight.deferred } else { &mut flight.hot });
        // A stage may write all of its batch's block, and that of a dense batch of one row is all others' too.
        let manifest = self.model.manifest();
        let is_shared = isolated && manifest.outputs_block && manifest.is_dense;
        let count = fences.len();
        for (at, fence) in fences.drain(..).enumerate() {
            if !is_lost {
                let is_overwritten = is_shared && at + 1 < count;
                self.deliver_batch(fence, at, is_overwritten, &mut flight, done);
            }
            match self.lanes.take(fence) {
                Some(batch) => self.bring_home(home, batch),
                None => self.errands.push(Errand { fence, home, is_unseen: false }),
            }
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
                self.note_lost(fault, &flight.rows);
                true
            }
            Verdict::Rows => {
                for (row, _) in &self.bad {
                    flight.rows.remove(*row);
                }
                self.quarantine_bad(flight);
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

    /// The outputs of one batch, the flight's `number`th, which may still be in its lane. `is_overwritten`: they were lost.
    fn deliver_batch(&mut self, fence: Fence, number: usize, is_overwritten: bool, flight: &mut Flight, done: Nanos) {
        self.bad.clear();
        // Not borrowed while rows are taken out of it.
        let mut rows = std::mem::replace(&mut flight.rows, Rows::new(0));
        let completion = flight.completions.get(number).and_then(Option::as_ref);
        self.each_output(flight.slot, fence, completion, done, |delivery, batch, at, row| {
            delivery.is_overwritten = is_overwritten;
            delivery.row(batch, at, row, flight, &mut rows);
        });
        flight.rows = rows;
        self.quarantine_bad(flight);
    }

    /// Nothing of a flight will be delivered any more: the model has those pointers back that were its chunks', when its
    /// work has passed.
    pub(super) fn forfeit(&mut self, flight: &Flight) {
        for fence in flight.last(self.manifest().last_lane()) {
            let completion = self.lanes.passage(*fence);
            self.each_output(flight.slot, *fence, completion.as_ref(), 0, |delivery, batch, at, row| {
                let own = delivery.own_of(batch, at);
                if own != 0 {
                    delivery.lose(row, flight.slot, own);
                }
            });
        }
    }

    /// Calls `each` for the rows of a batch whose calls have returned.
    fn each_output(
        &mut self,
        slot: usize,
        fence: Fence,
        completion: Option<&Arc<dyn Passage>>,
        done: Nanos,
        mut each: impl FnMut(&mut Delivery<'_>, &Batch, usize, Row),
    ) {
        let Some(batch) = self.lanes.observe(fence) else { return };
        let mut delivery = Delivery {
            arena: &mut self.arena,
            making: &mut self.making,
            pools: &self.pools,
            shared: &self.shared,
            model: &*self.model,
            manifest: self.model.manifest(),
            bad: &mut self.bad,
            device: self.device.as_ref(),
            block: self.slots[slot].block.as_deref(),
            is_overwritten: false,
            completion,
            done,
            offer: self.shared.outbox.offer(),
            silence: self.silence.as_deref_mut(),
        };
        batch.positions().for_each(|(at, row)| each(&mut delivery, batch, at, row));
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
        // It may never return, and the chunks are there.
        self.shared.outbox.wake_consumers();
        if let Err(fault) = self.target.call(None, Call::Finalize, &mut batch, RawStream::default(), real_now()) {
            self.batch_failed(fault, first);
        }
        self.keep_spare(batch);
    }
}

/// What a row is delivered with: the cohort's parts but its lanes, of which one may have the batch.
struct Delivery<'a> {
    arena: &'a mut Arena,
    making: &'a mut [[Option<Lease>; 2]],
    pools: &'a [Option<Pool>],
    shared: &'a Shared,
    model: &'a dyn Model,
    manifest: &'a Manifest,
    /// Rows that are to be quarantined.
    bad: &'a mut Vec<(Row, Fault)>,
    device: Option<&'a Device>,
    /// Where the outputs of the batch are, if they are one block.
    block: Option<&'a [u8]>,
    /// Calls after this one may have written there, too: what it made is lost.
    is_overwritten: bool,
    completion: Option<&'a Arc<dyn Passage>>,
    done: Nanos,
    offer: Offer<'a>,
    silence: Option<&'a mut Silence>,
}

impl Delivery<'_> {
    /// The output of one row, if it made one and lives. `rows`: those of the flight that did not fail.
    fn row(&mut self, batch: &Batch, at: usize, row: Row, flight: &Flight, rows: &mut Rows) {
        let size = batch.output_size(at);
        let is_here = self.arena.lives(row, flight.marks[row.at()].generation);
        if !is_here {
            rows.remove(row);
        }
        let own = self.own_of(batch, at);
        let is_sent = is_here && rows.has(row) && size > 0 && !self.is_overwritten && {
            let is_sound = size <= self.manifest.chunk_bytes
                && (own != 0 || !self.manifest.owns_outputs)
                && self.fetch(row, flight.slot, batch.output(at), size);
            if is_sound {
                self.send(row, size, own, batch.frames(at), flight)
            } else {
                // It says that it wrote past its buffer's end, or nowhere: what is in it is not to be trusted.
                let stage = self.manifest.last_stage(self.manifest.last_lane());
                self.bad.push((row, Fault { stage, status: Status::CALLBACK }));
                rows.remove(row);
                false
            }
        };
        if own != 0 && !is_sent {
            self.lose(row, flight.slot, own);
        }
        if is_here && size == 0 && rows.has(row) {
            self.arena.life_mut(row).into_iter().for_each(|life| life.silent += 1);
            self.silence.iter_mut().for_each(|silence| silence.meet(row, Cause::NoSize));
        }
    }

    /// What lies in a block goes to the row's own buffer. False: it is not where it was to be written.
    fn fetch(&mut self, row: Row, slot: usize, output: usize, size: usize) -> bool {
        let Some(block) = self.block else { return true };
        let offset = output.wrapping_sub(block.as_ptr().expose_provenance());
        match (block.get(offset..offset.wrapping_add(size)), &mut self.making[row.at()][slot]) {
            (Some(bytes), Some(making)) => {
                making.bytes_mut()[..size].copy_from_slice(bytes);
                true
            }
            _ => false,
        }
    }

    /// A pointer of the model's own is the chunk's if its call and its row succeeded and it has a size; else, 0: it stays the
    /// model's.
    fn own_of(&self, batch: &Batch, at: usize) -> usize {
        let is_ours = batch.output_size(at) > 0 && batch.result.is_ok() && batch.failed(at).is_none();
        if self.manifest.owns_outputs && is_ours { batch.output(at) } else { 0 }
    }

    /// Into the outbox. False: it is lost, and nobody has taken it.
    fn send(&mut self, row: Row, size: usize, own: usize, frames: u32, flight: &Flight) -> bool {
        let Some(life) = self.arena.life(row) else { return false };
        let (Some(pool), Some(making)) = (&self.pools[row.at()], &mut self.making[row.at()][flight.slot]) else {
            return false;
        };
        let mark = &flight.marks[row.at()];
        let (tick, start) = (flight.tick, flight.start);
        // (In a replay it is there already.)
        let done = if self.manifest.on_device { 0 } else { self.done };
        let stamp = || Stamp {
            session: life.session,
            user: life.user,
            generation: life.generation,
            row,
            index: mark.index,
            silent: life.silent,
            tick,
            tag: mark.tag,
            heavy_tag: mark.heavy_tag,
            start,
            done,
            frames,
        };
        if own != 0 || self.completion.is_some() {
            making.adopt(own, self.completion.cloned());
        }
        let outbox = &self.shared.outbox;
        let before = self.silence.as_ref().map(|_| (outbox.queued(row), outbox.dropped_of(row)));
        let is_sent = self.offer.push(row, size, making, pool, stamp);
        if let (Some(silence), Some((had, dropped))) = (&mut self.silence, before) {
            if !is_sent || outbox.dropped_of(row) > dropped {
                silence.meet(row, loss(outbox.policy(), is_sent, had, outbox.depth()));
            } else {
                silence.give(row);
            }
        }
        if !is_sent && (own != 0 || self.completion.is_some()) {
            making.disown();
        }
        if !is_sent && self.shared.outbox.policy() == Policy::Hold {
            // A consumer stood still in the middle of a pop through several lives of the row.
            self.shared.outbox.discard(row);
        }
        let counters = &self.shared.counters;
        Counters::add(&counters.chunks, 1);
        if let Some(pushed) = mark.pushed {
            counters.action.record(self.done.saturating_sub(pushed));
        }
        is_sent
    }

    /// A pointer of the model's own whose chunk is lost: it has it back when its work has passed.
    fn lose(&mut self, row: Row, slot: usize, own: usize) {
        match (&mut self.making[row.at()][slot], self.completion) {
            (Some(making), Some(completion)) => {
                making.adopt(own, Some(completion.clone()));
                self.device.into_iter().for_each(|device| device.resting.set(row));
            }
            _ => self.model.release_output(own),
        }
    }
}
