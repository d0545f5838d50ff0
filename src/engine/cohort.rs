//! The tick. Everything a step of it needs is in the file named beside it.
//!
//! Owned by whoever drives the engine, one thread at a time. Batches are at home here, in a lane, or in a flight, never
//! in two places. The only waits are on fences, and none of them is for another row's encode. A tick is resumable: where
//! the lanes are busy it returns [`Progress::Busy`], and the next call goes on in the same phase.

use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use super::arena::{Arena, State};
use super::encode::Encode;
use super::failure::Health;
use super::flight::{Errand, Flight, Home, Slot};
use super::herald::Herald;
use super::shared::Shared;
use super::silence::Silence;
use super::tracing::Tracing;
use crate::batch::{Batch, Seat, Shape};
use crate::conditioning::{Seen, Store, Table, View, empty_table};
use crate::lane::{Calls, Equipment, Fence, InlineLanes, Lanes, Target, Work};
use crate::memory::{Array, Land, Room};
use crate::model::{Call, Manifest, Model};
use crate::output::Event;
use crate::queue::{Device, Lease, Pool, Ready};
use crate::record::{Call as TapeCall, Tape, TapedLanes};
use crate::rows::Rows;
use crate::telemetry::Level;
use crate::time::real_now;
use crate::word::{Fault, KeySet, Lane, Nanos, Row, Session, Status, hook};

/// What is fixed when an engine is made.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// DEFERRED of chunk N-1 runs beside HOT of chunk N.
    pub pipelined: bool,
    /// Whole-call failures of seed before a session is rejected.
    pub seed_attempts: u32,
    /// Of ENCODE before a row is quarantined.
    pub encode_attempts: u32,
    /// Output buffers of one session.
    pub quota: usize,
    /// Commit all of them when the engine is made.
    pub prefault: bool,
}

/// What a call of [`Cohort::tick`] came to.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Progress {
    /// The lanes are busy; the next call goes on with this tick.
    Busy,
    /// The tick is over.
    Done,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Phase {
    Begin,
    Defer,
    Step,
    Hot,
    Collect,
}

/// See the module's comment.
pub struct Cohort {
    pub(super) shared: Arc<Shared>,
    pub(super) target: Target,
    pub(super) model: Arc<dyn Model>,
    pub(super) lanes: Box<dyn Lanes>,
    pub(super) plan: Plan,
    /// Where outputs are used; of row 0, for all rows.
    pub(super) device: Option<Device>,
    pub(super) has_deferred: bool,
    pub(super) has_encode: bool,
    pub(super) arena: Arena,
    pub(super) store: Store,
    pub(super) herald: Herald,
    pub(super) health: Health,
    /// By lane: HOT, DEFERRED.
    pub(super) seen: [Seen; 2],
    pub(super) pools: Box<[Option<Pool>]>,
    /// Of earlier lives of a row; with a device alone. Let go when nobody uses them any more.
    pub(super) old_pools: Vec<Pool>,
    /// By row and slot: the buffer that the slot's batch fills. It is not touched between the boarding of a row and the
    /// landing of its batch, except by the outbox's exchange when that batch is delivered.
    pub(super) making: Box<[[Option<Lease>; 2]]>,
    pub(super) slots: [Slot; 2],
    pub(super) next_slot: usize,
    /// The flight that is collected in the next tick (pipelined), and this tick's.
    pub(super) previous: Option<Box<Flight>>,
    pub(super) current: Option<Box<Flight>>,
    pub(super) seeds: Vec<Fence>,
    /// Seeds that run on the ENCODE lane.
    pub(super) asides: Vec<Encode>,
    pub(super) encodes: Vec<Encode>,
    pub(super) errands: Vec<Errand>,
    #[allow(clippy::vec_box, reason = "batches move as boxes between here and the lanes")]
    pub(super) spare: Vec<Box<Batch>>,
    /// What a hook without conditioning is shown.
    nothing: Table,
    pub(super) due: Option<Rows>,
    pub(super) cohort: Rows,
    /// Rows whose age has changed since it was said. On threads that is of the tick before, whoever runs HOT in this one.
    pub(super) aged: Rows,
    pub(super) scratch: Rows,
    /// The rows of a batch that is being handed to a lane.
    pub(super) members: Rows,
    pub(super) bad: Vec<(Row, Fault)>,
    /// Grows whenever a row leaves or fails.
    pub(super) departures: u64,
    pub(super) generations: u64,
    pub(super) tick: u64,
    /// When this tick began, by the engine's clock.
    pub(super) now: Nanos,
    phase: Phase,
    pub(super) death: Option<Fault>,
    /// `ready` said "not yet" in the last tick.
    pub(super) is_gated: bool,
    /// Where the log asks for DEBUG.
    pub(super) silence: Option<Box<Silence>>,
    /// What it is told goes to a record, or comes from one.
    tape: Option<Arc<Tape>>,
    /// What happens goes to a trace.
    pub(super) tracing: Option<Box<Tracing>>,
}

impl Cohort {
    /// A cohort with nobody in it. Allocates all that ticks will need; `None` where there is no memory.
    pub fn new(
        shared: Arc<Shared>,
        target: Target,
        lanes: Box<dyn Lanes>,
        plan: Plan,
        equipment: Equipment,
    ) -> Option<Cohort> {
        let model = target.model.clone();
        let manifest = model.manifest();
        let (max, keys) = (manifest.max_sessions, &manifest.keys);
        let resting = Arc::new(Ready::new(manifest.max_sessions));
        let Equipment { releases, arrays, outputs } = equipment;
        let block = || -> Option<Option<Array<u8>>> {
            if !manifest.outputs_block {
                return Some(None);
            }
            let bytes = (max as usize).checked_mul(manifest.chunk_bytes)?;
            Land::new(outputs.as_ref(), [bytes].into_iter()).map(|mut land| Some(land.array(bytes)))
        };
        let blocks = [block()?, if plan.pipelined { block()? } else { None }];
        let device = releases.map(|fence| Device { fence, resting, row: Row(0), room: outputs });
        let rows = || Rows::new(max);
        let mut cohort = Cohort {
            arena: Arena::new(max, keys),
            store: Store::new(4 * max as usize + 16),
            herald: Herald::new(shared.outbox.clone()),
            health: Health::default(),
            seen: [Seen::new(max, keys), Seen::new(max, keys)],
            pools: (0..max).map(|_| None).collect(),
            old_pools: Vec::new(),
            making: (0..max).map(|_| [None, None]).collect(),
            slots: [Slot::new(0, max), Slot::new(1, max)],
            next_slot: 0,
            previous: None,
            current: None,
            seeds: Vec::with_capacity(1),
            asides: Vec::new(),
            encodes: Vec::new(),
            errands: Vec::new(),
            spare: Vec::new(),
            nothing: empty_table(keys),
            due: None,
            cohort: rows(),
            aged: rows(),
            scratch: rows(),
            members: rows(),
            bad: Vec::with_capacity(max as usize),
            departures: 0,
            generations: 0,
            tick: 0,
            now: 0,
            phase: Phase::Begin,
            death: None,
            is_gated: false,
            silence: shared.log.wants(Level::Debug).then(|| Box::new(Silence::new(max))),
            tape: None,
            tracing: None,
            has_deferred: manifest.has(Lane::Deferred),
            has_encode: manifest.has(Lane::Encode),
            shared,
            target,
            model: model.clone(),
            lanes,
            plan,
            device,
        };
        for (slot, block) in cohort.slots.iter_mut().zip(blocks) {
            slot.block = block;
        }
        for slot in 0..if plan.pipelined { 2 } else { 1 } {
            cohort.slots[slot].hot = Some(cohort.new_batch(max as usize, !cohort.has_deferred, arrays.as_ref())?);
            if cohort.has_deferred {
                cohort.slots[slot].deferred = Some(cohort.new_batch(max as usize, true, arrays.as_ref())?);
            }
        }
        for capacity in [max as usize, 1] {
            let batch = cohort.new_batch(capacity, false, None)?;
            cohort.spare.push(batch);
        }
        if plan.prefault {
            for row in (0..max).map(Row) {
                cohort.commit_buffers(row).ok()?;
            }
        }
        Some(cohort)
    }

    pub(super) fn manifest(&self) -> &Manifest {
        self.model.manifest()
    }

    fn new_batch(&self, capacity: usize, ends_chunk: bool, room: Option<&Arc<dyn Room>>) -> Option<Box<Batch>> {
        let manifest = self.manifest();
        let shape = Shape {
            max_sessions: manifest.max_sessions,
            dense: manifest.is_dense,
            frames_per_chunk: manifest.frames_per_chunk,
            chunk_bytes: manifest.chunk_bytes,
        };
        Batch::new(shape, capacity, ends_chunk, &manifest.keys, room)
    }

    // ---- the tick

    /// One tick, or the rest of one. `due`: step these sessions alone. Waits for the lanes until `until`.
    pub fn tick(&mut self, due: Option<&[u64]>, until: Nanos) -> Result<Progress, Fault> {
        self.on_tape(TapeCall::Tick(due), |cohort| cohort.turn(due, until))
    }

    fn turn(&mut self, due: Option<&[u64]>, until: Nanos) -> Result<Progress, Fault> {
        if self.phase == Phase::Begin {
            self.now = self.time();
            self.trace_begin();
            self.drain(); // 1: admission.rs
            self.take_due(due);
            self.resolve(); // 2: below, and in encode.rs
            self.arm(); // 3: seeding.rs
            self.advance(Phase::Defer)?;
        }
        if self.phase == Phase::Defer {
            // 7: step.rs
            if !self.defer_previous(until) {
                return self.busy();
            }
            self.advance(Phase::Step)?;
        }
        if self.phase == Phase::Step {
            if !self.settle_seeds(until) {
                return self.busy();
            }
            self.start_encodes(); // 5, 8: encode.rs
            self.choose_cohort(); // 4, 6: step.rs
            self.advance(Phase::Hot)?;
        }
        if self.phase == Phase::Hot {
            if !self.slot_is_home(until) {
                return self.busy();
            }
            self.start_hot(); // 9: step.rs
            self.advance(Phase::Collect)?;
        }
        // 10, 11: collect.rs
        if !self.collect(until) {
            return self.busy();
        }
        self.finish();
        self.advance(Phase::Begin)?;
        Ok(Progress::Done)
    }

    fn advance(&mut self, phase: Phase) -> Result<(), Fault> {
        self.phase = phase;
        self.check()
    }

    /// Whether the engine can go on.
    pub(super) fn check(&self) -> Result<(), Fault> {
        let abandoned =
            || self.target.watch.is_abandoned().then_some(Fault { stage: hook::NONE, status: Status::DEAD });
        let fault = self.death.or_else(|| self.lanes.fault()).or_else(abandoned);
        fault.or_else(|| self.shared.poison()).map_or(Ok(()), Err)
    }

    pub(super) fn busy(&self) -> Result<Progress, Fault> {
        self.check().map(|()| Progress::Busy)
    }

    /// Who is to be stepped, of those who are here once the inbox was drained.
    fn take_due(&mut self, due: Option<&[u64]>) {
        let max = self.manifest().max_sessions;
        match due {
            None => self.due = None,
            Some(sessions) => {
                let rows = self.due.get_or_insert_with(|| Rows::new(max));
                rows.clear();
                for row in sessions.iter().filter_map(|session| self.arena.find(Session(*session))) {
                    rows.add(row);
                }
            }
        }
    }

    /// Step 2: what has passed since the last tick.
    fn resolve(&mut self) {
        self.resolve_asides();
        self.resolve_encodes();
        let mut from = 0;
        while let Some(row) = self.arena.by.retiring.next(from) {
            from = row.0 + 1;
            self.try_retire(row);
        }
        self.run_errands();
        self.settle_outputs();
    }

    /// Pointers of the model's own go home when the device is done with them, whether or not their row makes chunks.
    fn settle_outputs(&mut self) {
        let Some(device) = &self.device else { return };
        self.scratch.clear();
        while let Some(row) = device.resting.take() {
            let is_settled = self.pools[row.at()].as_ref().is_none_or(Pool::settle);
            let making = self.making[row.at()].iter_mut().flatten();
            // All of them, though one is not.
            if making.fold(is_settled, |so_far, lease| lease.settle() && so_far) {
                continue;
            }
            self.scratch.add(row);
        }
        self.scratch.iter().for_each(|row| device.resting.set(row));
        self.old_pools.retain(|pool| !pool.is_idle());
    }

    /// The end: says what is new.
    fn finish(&mut self) {
        self.say_farewells();
        if self.silence.is_some() {
            self.explain(); // silence.rs
        }
        self.tick += 1;
        self.publish();
        self.shared.outbox.wake_consumers();
        self.shared.hand_over();
        let counters = &self.shared.counters;
        counters.tick.record(self.shared.clock.now().saturating_sub(self.now));
        counters.ticks.store(self.tick, Relaxed);
        self.trace_end();
    }

    /// Makes the lanes' streams and calls the model's `init`. On the engine's thread, before the first tick.
    pub fn open(&mut self) -> Result<(), Fault> {
        self.start_trace()?;
        let streams = self.lanes.open()?;
        self.check()?;
        let (watch, model) = (self.target.watch.clone(), &self.model);
        let result = watch.during(None, hook::INIT, 0, real_now(), || model.init(streams));
        result.map_err(|status| Fault { stage: hook::INIT, status })
    }

    /// Whether its lanes wait best without end.
    pub fn waits_whole(&self) -> bool {
        self.lanes.waits_whole()
    }

    // ---- record and replay

    /// From now on what the cohort is told goes to `tape`, or comes from it.
    pub fn put_on(&mut self, tape: Arc<Tape>) {
        let none = Box::new(InlineLanes::new(self.target.clone()));
        let lanes = std::mem::replace(&mut self.lanes, none);
        self.lanes = Box::new(TapedLanes::new(lanes, tape.clone()));
        self.tape = Some(tape);
    }

    /// What it is on.
    pub fn tape(&self) -> Option<&Tape> {
        self.tape.as_deref()
    }

    /// The end of a record. It says so if it could not be written to here.
    pub(super) fn end_record(&self, death: Option<Fault>) {
        let Some(tape) = &self.tape else { return };
        tape.close(death);
        if let (false, Some(problem)) = (tape.plays(), tape.problem()) {
            self.shared.log.say(Level::Error, || format!("options.record_path: {problem}: the record is cut off"));
        }
    }

    pub(super) fn on_tape<T>(&mut self, call: TapeCall<'_>, body: impl FnOnce(&mut Cohort) -> T) -> T {
        let Some(tape) = self.tape.clone() else { return body(self) };
        tape.begin(call);
        let result = body(self);
        tape.end();
        result
    }

    /// A time that the tick goes by, or that its outputs say.
    pub(super) fn time(&self) -> Nanos {
        match &self.tape {
            None => self.shared.clock.now(),
            Some(tape) => tape.time(|| self.shared.clock.now()),
        }
    }

    /// What consumers have done, as far as the tick goes by it.
    pub(super) fn told(&self, real: bool) -> bool {
        self.tape.as_ref().map_or(real, |tape| tape.bit(real))
    }

    // ---- batches that are not a flight's

    /// A batch with room for `rows`, from the spare ones if there is one.
    pub(super) fn spare_batch(&mut self, rows: usize) -> Box<Batch> {
        match self.spare.iter().position(|batch| batch.capacity() >= rows) {
            Some(at) => self.spare.swap_remove(at),
            None => self
                .new_batch(rows.next_power_of_two(), false, None)
                .expect("memory for a batch of rows that have state"),
        }
    }

    pub(super) fn keep_spare(&mut self, mut batch: Box<Batch>) {
        batch.clear(&mut self.store);
        self.spare.push(batch);
    }

    /// Brings batches home whose work nobody waits for.
    pub(super) fn run_errands(&mut self) {
        let mut at = 0;
        while at < self.errands.len() {
            self.look_at_errand(at);
            match self.lanes.take(self.errands[at].fence) {
                Some(batch) => {
                    let errand = self.errands.swap_remove(at);
                    self.bring_home(errand.home, batch);
                }
                None => at += 1,
            }
        }
    }

    /// A detach hook that failed is told as soon as that is known.
    pub(super) fn look_at_errand(&mut self, at: usize) {
        let errand = &mut self.errands[at];
        if !errand.is_unseen {
            return;
        }
        let Some(batch) = self.lanes.observe(errand.fence) else { return };
        errand.is_unseen = false;
        let row = Row(batch.first_row());
        // The row's status said on entry why the life ended: it is no answer.
        if let Some(fault) = batch.result.err() {
            self.batch_failed(fault, row);
        }
    }

    pub(super) fn bring_home(&mut self, home: Home, mut batch: Box<Batch>) {
        batch.release_lent(&mut self.store);
        // Its fence has passed: what it took is known now, on a device too.
        if let (Some(lane), Ok(())) = (batch.lane.take(), batch.result) {
            self.shared.counters.lanes[lane.at()].record(batch.ended.saturating_sub(batch.begun));
        }
        match home {
            Home::Spare | Home::Single(_) => self.keep_spare(batch),
            Home::Hot(slot) => self.slots[slot].hot = Some(batch),
            Home::Deferred(slot) => self.slots[slot].deferred = Some(batch),
        }
    }

    // ---- rows that leave

    /// Whether all work that touched `row` has passed.
    pub(super) fn has_passed(&mut self, row: Row) -> bool {
        let fences = self.arena.fences[row.at()];
        [fences.hot, fences.deferred, fences.encode].into_iter().flatten().all(|fence| self.lanes.passed(fence))
    }

    /// A retiring row whose fences have passed: `detach`, if it was seeded, then it is free or its claimant's.
    pub(super) fn try_retire(&mut self, row: Row) {
        let State::Retiring { left, .. } = self.arena.state(row) else { return };
        let left = *left;
        // Whether a life that was being seeded aside is to be detached is known when that seed is resolved.
        let is_starting = self.asides.iter().any(|aside| Some(aside.fence) == self.arena.fences[row.at()].encode);
        if is_starting || !self.has_passed(row) {
            return;
        }
        // A life that was never seeded owes no detach: the one before it may still be under way.
        let mut detached = self.arena.fences[row.at()].detach;
        if left.seeded && self.manifest().hooks.detach {
            let mut batch = self.spare_batch(1);
            self.members.set_only(row);
            batch.begin(self.tick, 0, &self.members);
            let seat = Seat { row, session: left.session, user: left.user, generation: left.generation, version: 0 };
            let nothing = View { image: &[], present: KeySet::NONE, blocks: &self.nothing };
            let at = batch.place(seat, left.age, nothing, &self.model.manifest().keys, &mut self.store);
            batch.set_status(at, left.why);
            batch.seal(&mut self.store);
            let calls = Calls::Hook(Call::Detach);
            let fence = self.lanes.submit(Work { lane: Lane::Hot, calls, batch, after: [None; 2] });
            detached = Some(fence);
            self.errands.push(Errand { fence, home: Home::Spare, is_unseen: true });
            self.look_at_errand(self.errands.len() - 1);
        }
        self.arena.vacate(row);
        self.arena.fences[row.at()].detach = detached;
        if self.arena.life(row).is_some_and(|life| life.session != left.session) {
            // Without memory it shares what the row has.
            let _ = self.commit_buffers(row);
        }
    }

    /// DETACHED of draining lives whose last chunk is out of the lanes.
    fn say_farewells(&mut self) {
        let mut from = 0;
        while let Some(row) = self.arena.draining.next(from) {
            from = row.0 + 1;
            let Some(life) = self.arena.life_mut(row) else { continue };
            let is_carried = self.previous.as_ref().is_some_and(|flight| flight.carries(row, life.generation));
            if life.farewell_sent || is_carried {
                continue;
            }
            life.farewell_sent = true;
            life.credits -= 1;
            let tag = life.drain_tag;
            let notice = self.notice(row, Event::Detached(None), tag);
            self.shared.outbox.farewell(row, notice);
        }
    }
}
