//! A model whose chunks tell everything that it has seen: each step stirs the row's state with the session, the age and
//! all values, and gives bytes of the outcome. So whatever one row gets of another shows in all its chunks from then on.
//!
//! It complains of what an engine must never do to its model: see [`State::take_complaints`]. A [`Mutant`] of it has a
//! mistake that a batched model may have, for the test of the test.

use std::collections::BTreeSet;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rte::abi::message::rte_stream;
use rte::abi::model::{
    RTE_DEFERRED, RTE_ENCODE, RTE_HOT, RTE_MODEL_DENSE, RTE_MODEL_OUTPUT_BLOCK, rte_batch, rte_model, rte_stage,
    rte_stage_fn,
};
use rte::abi::status::{rte_status, rte_status_code};

use super::checks::Form;
use super::digest::{digest, digest_of_bytes};
use super::keys::{KEYS, SEED};
use super::loans::Loans;
use super::schedule::{CHUNK_BYTES, Setup, TICK};
use crate::host::batch::{Batch, Member};
use crate::host::device::Device;
use crate::host::engine::{OK, descriptor_size, zeroed};
use crate::host::traffic::{Errand, Traffic};

/// What a row fails with.
const UNLUCKY: rte_status = rte_status_code::RTE_ERR_HOST as rte_status - 1;

const LANES: usize = 3;
const HOT: usize = RTE_HOT as usize;
const DEFERRED: usize = RTE_DEFERRED as usize;
const ENCODE: usize = RTE_ENCODE as usize;

/// A mistake of the model's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mutant {
    /// HOT takes the first two rows' values for each other's.
    SwapsValues,
    /// The first two rows' chunks are written to each other's outputs.
    SwapsOutputs,
    /// State is found by position in the batch.
    GoesByPosition,
}

/// The model. The engine holds a count of it until its `destroy` was called.
pub struct Model {
    state: Mutex<State>,
    traffic: Traffic,
}

/// Everything that the model knows.
pub struct State {
    setup: Setup,
    mutant: Option<Mutant>,
    form: Form,
    /// Says until when work goes on. Inline lanes have none; of threads it is seen when it goes on.
    device: Option<Arc<Device>>,
    loans: Arc<Loans>,
    rows: Vec<Option<Row>>,
    /// By row: stirred by seed and HOT.
    stirred: Vec<u64>,
    /// By slot and row: what HOT leaves for DEFERRED.
    latent: [Vec<Option<Latent>>; 2],
    /// By slot: when the last DEFERRED is done that reads its latent.
    latent_until: [u64; 2],
    /// Outputs in the consumer's hands.
    held: Vec<usize>,
    seeded: BTreeSet<u64>,
    detached: BTreeSet<u64>,
    encodes: u64,
    complaints: Vec<String>,
}

/// A row from its seed to its detach.
struct Row {
    session: u64,
    user: u64,
    generation: u64,
    /// Of the next HOT.
    age: u64,
    /// By lane: when its last work on the row is done.
    busy_until: [u64; LANES],
    /// The heavy values that were encoded last, or came with the context.
    encoded: u64,
    /// Stirred by DEFERRED.
    decoder: u64,
}

#[derive(Clone, Copy)]
struct Latent {
    generation: u64,
    age: u64,
    digest: u64,
    values: u64,
}

/// What a callback is about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stage {
    Seed,
    Hot,
    Deferred,
    Encode,
    Detach,
    Finalize,
}

impl Model {
    /// A model for a schedule.
    pub fn new(setup: &Setup, mutant: Option<Mutant>, device: Option<Arc<Device>>, loans: Arc<Loans>) -> Arc<Self> {
        let max = setup.max_sessions;
        let state = State {
            setup: setup.clone(),
            mutant,
            form: Form { max_sessions: max, is_dense: setup.is_dense, is_block: setup.is_block },
            device,
            loans,
            rows: (0..max).map(|_| None).collect(),
            stirred: vec![0; max],
            latent: [vec![None; max], vec![None; max]],
            latent_until: [0; 2],
            held: Vec::new(),
            seeded: BTreeSet::new(),
            detached: BTreeSet::new(),
            encodes: 0,
            complaints: Vec::new(),
        };
        Arc::new(Self { state: Mutex::new(state), traffic: Traffic::new(setup.encode_threads > 0) })
    }

    /// The stages of a schedule's model.
    pub fn stages(setup: &Setup) -> Vec<rte_stage> {
        let stage = |run: rte_stage_fn, lane| rte_stage { name: null(), run, lane, flags: 0, reserved: 0 };
        let mut stages = vec![stage(Some(run_hot), RTE_HOT), stage(Some(run_encode), RTE_ENCODE)];
        if setup.has_deferred {
            stages.push(stage(Some(run_deferred), RTE_DEFERRED));
        }
        stages
    }

    /// The table for `rte_engine_new`, without keys and stages. Takes a count of the model, which `destroy` gives back.
    pub fn table(self: &Arc<Self>, setup: &Setup) -> rte_model {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        rte_model {
            struct_size: descriptor_size::<rte_model>(),
            flags: flag(setup.is_dense, RTE_MODEL_DENSE) | flag(setup.is_block, RTE_MODEL_OUTPUT_BLOCK),
            user: Arc::into_raw(self.clone()).cast_mut().cast(),
            max_sessions: u32::try_from(setup.max_sessions).expect("small"),
            chunk_bytes: CHUNK_BYTES,
            seed: Some(run_seed),
            detach: Some(run_detach),
            finalize: Some(run_finalize),
            destroy: Some(destroy),
            // SAFETY: numbers, pointers, and functions that may be absent.
            ..unsafe { zeroed() }
        }
    }

    /// What it knows.
    pub fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Breaches of the engine's promises since the last time: a batch that is not well formed; a row that is touched
    /// outside its life, or while work is under way that must have passed; values that do not hang together, that the
    /// lane must not see, or that were released.
    pub fn take_complaints(&self) -> Vec<String> {
        let mut complaints = std::mem::take(&mut self.state().complaints);
        complaints.extend(self.traffic.take_complaints());
        complaints
    }
}

impl State {
    /// By row: the generation between its seed and its detach.
    pub fn lives(&self) -> impl Iterator<Item = Option<u64>> {
        self.rows.iter().map(|row| row.as_ref().map(|row| row.generation))
    }

    /// Generations that were seeded, and those that were detached.
    pub fn seeded_and_detached(&self) -> [&BTreeSet<u64>; 2] {
        [&self.seeded, &self.detached]
    }

    /// Rows that were encoded.
    pub fn encodes(&self) -> u64 {
        self.encodes
    }

    /// The consumer holds an output.
    pub fn hold(&mut self, address: usize) {
        self.held.push(address);
    }

    /// The consumer is about to give an output back.
    pub fn let_go(&mut self, address: usize) {
        self.held.retain(|held| *held != address);
    }

    fn complain(&mut self, stage: Stage, member: Member, what: &str) {
        self.complaints.push(format!("{stage:?} of {member:?}: {what}"));
    }

    fn now(&self) -> u64 {
        self.device.as_ref().map_or(0, |device| device.now())
    }

    /// Where a row's state is.
    fn place(&self, member: Member) -> usize {
        if self.mutant == Some(Mutant::GoesByPosition) { member.at } else { member.row }
    }

    /// Checks the batch, puts its work on the stream, and gives its rows with the time at which that is done.
    fn enter(&mut self, stage: Stage, batch: &Batch, stream: rte_stream) -> (Vec<Member>, u64) {
        let ends_chunk = stage == if self.setup.has_deferred { Stage::Deferred } else { Stage::Hot };
        for complaint in self.form.complaints(batch, ends_chunk, &self.held) {
            self.complaints.push(format!("{stage:?} of {:?}: {complaint}", batch.members()));
        }
        let begin = self.now() / TICK;
        let end = match stage {
            Stage::Hot => self.setup.end(RTE_HOT, begin),
            Stage::Deferred => self.setup.end(RTE_DEFERRED, begin),
            Stage::Encode => self.setup.end(RTE_ENCODE, begin),
            Stage::Seed | Stage::Detach | Stage::Finalize => 0,
        };
        let device = self.device.as_ref().filter(|_| stage != Stage::Finalize);
        let done = device.map_or(0, |device| device.finish_at(stream, end));
        (batch.members(), done)
    }

    /// The row of a life that a stage is to work on until `done`; `free` are lanes whose work on it must have passed.
    fn row_of(&mut self, stage: Stage, member: Member, done: u64, free: &[usize]) -> Option<&mut Row> {
        let now = self.now();
        let Some(row) = &self.rows[member.row] else {
            self.complain(stage, member, "nobody was seeded here, or it was detached");
            return None;
        };
        let is_same = (row.session, row.user, row.generation) == (member.session, member.user, member.generation);
        if !is_same {
            self.complain(stage, member, "another life was seeded here");
            return None;
        }
        if free.iter().any(|lane| row.busy_until[*lane] > now) {
            self.complain(stage, member, "work on the row is still under way");
        }
        let row = self.rows[member.row].as_mut()?;
        let lane = match stage {
            Stage::Deferred => DEFERRED,
            Stage::Encode => ENCODE,
            _ => HOT,
        };
        row.busy_until[lane] = done;
        Some(row)
    }

    /// A digest of those values that the stage is to see; it must see no others. Work that is done at `until` reads them.
    fn look(
        &mut self,
        stage: Stage,
        batch: &Batch,
        member: Member,
        until: u64,
        may_see: impl Fn(usize) -> bool,
    ) -> u64 {
        digest((0..KEYS.len()).map(|key| {
            let value = batch.value(member, key);
            if let Some(bytes) = value {
                if !may_see(key) {
                    self.complain(stage, member, "a value shows that is not for this lane");
                }
                if !self.loans.mark(bytes.as_ptr().addr(), until) {
                    self.complain(stage, member, "a value shows that was released");
                }
            }
            let size = KEYS[key].size;
            if size > 0 {
                let zeros = [0; CHUNK_BYTES];
                if batch.cell(member, key, size) != value.unwrap_or(&zeros[..size]) {
                    self.complain(stage, member, "a column and a value do not agree");
                }
            }
            value.map_or(u64::MAX, digest_of_bytes)
        }))
    }

    fn look_at_heavy(&mut self, stage: Stage, batch: &Batch, member: Member, until: u64) -> u64 {
        // The same digest where heavy values are seen alone and among others.
        digest((0..KEYS.len()).filter(|key| KEYS[*key].is_heavy).map(|key| {
            let value = batch.value(member, key);
            if let Some(bytes) = value
                && !self.loans.mark(bytes.as_ptr().addr(), until)
            {
                self.complain(stage, member, "a value shows that was released");
            }
            value.map_or(u64::MAX, digest_of_bytes)
        }))
    }

    fn seed(&mut self, batch: &mut Batch, stream: rte_stream) {
        let (members, done) = self.enter(Stage::Seed, batch, stream);
        for member in members {
            if self.rows[member.row].is_some() {
                self.complain(Stage::Seed, member, "the row's former life was not detached");
            }
            if !self.seeded.insert(member.generation) {
                self.complain(Stage::Seed, member, "the life was seeded before");
            }
            if member.age != 0 {
                self.complain(Stage::Seed, member, "a new life has an age");
            }
            let values = self.look(Stage::Seed, batch, member, done, |_| true);
            let place = self.place(member);
            self.stirred[place] = digest([member.session, member.user, values]);
            self.rows[member.row] = Some(Row {
                session: member.session,
                user: member.user,
                generation: member.generation,
                age: 0,
                busy_until: [done, 0, 0],
                encoded: self.look_at_heavy(Stage::Seed, batch, member, done),
                decoder: 0,
            });
        }
    }

    fn detach(&mut self, batch: &mut Batch, stream: rte_stream) {
        let (members, done) = self.enter(Stage::Detach, batch, stream);
        if members.len() != 1 {
            self.complaints.push(format!("Detach of {members:?}: not one row"));
        }
        for member in members {
            if self.row_of(Stage::Detach, member, done, &[HOT, DEFERRED, ENCODE]).is_some() {
                self.rows[member.row] = None;
                self.detached.insert(member.generation);
            }
        }
    }

    fn hot(&mut self, batch: &mut Batch, stream: rte_stream) {
        let (members, done) = self.enter(Stage::Hot, batch, stream);
        let slot = batch.slot();
        if self.latent_until[slot] > self.now() {
            self.complaints.push(format!("Hot: a DEFERRED still reads slot {slot}"));
        }
        for (at, member) in members.iter().copied().enumerate() {
            // DEFERRED of the batch before may run beside it.
            let Some(row) = self.row_of(Stage::Hot, member, done, &[ENCODE]) else { continue };
            let (encoded, age) = (row.encoded, row.age);
            row.age += 1;
            if age != member.age {
                self.complain(Stage::Hot, member, "the age does not count the chunks of this life");
            }
            let values = self.look(Stage::Hot, batch, member, done, |key| key != SEED);
            if self.look_at_heavy(Stage::Hot, batch, member, done) != encoded {
                self.complain(Stage::Hot, member, "the heavy values are not those that were encoded last");
            }
            let source = if self.mutant == Some(Mutant::SwapsValues) { other_of_pair(&members, at) } else { member };
            let taken = if source == member { values } else { self.look(Stage::Hot, batch, source, done, |_| true) };
            let place = self.place(member);
            let digest = digest([self.stirred[place], encoded, age, taken]);
            self.stirred[place] = digest;
            if is_unlucky(digest) {
                batch.fail(member, UNLUCKY);
            } else if self.setup.has_deferred {
                let latent = Latent { generation: member.generation, age, digest, values };
                self.latent[slot][member.row] = Some(latent);
            } else {
                self.give(batch, &members, at, digest);
            }
        }
    }

    fn deferred(&mut self, batch: &mut Batch, stream: rte_stream) {
        let (members, done) = self.enter(Stage::Deferred, batch, stream);
        let slot = batch.slot();
        self.latent_until[slot] = done;
        for (at, member) in members.iter().copied().enumerate() {
            if self.row_of(Stage::Deferred, member, done, &[ENCODE]).is_none() {
                continue;
            }
            let values = self.look(Stage::Deferred, batch, member, done, |key| key != SEED);
            let Some(latent) = self.latent[slot][member.row].take() else {
                self.complain(Stage::Deferred, member, "HOT has left nothing here");
                continue;
            };
            if (latent.generation, latent.age, latent.values) != (member.generation, member.age, values) {
                self.complain(Stage::Deferred, member, "HOT saw something else");
            }
            let Some(row) = &mut self.rows[member.row] else { continue };
            row.decoder = digest([row.decoder, latent.digest, values]);
            let digest = row.decoder;
            if is_unlucky(digest) {
                batch.fail(member, UNLUCKY);
            } else {
                self.give(batch, &members, at, digest);
            }
        }
    }

    fn encode(&mut self, batch: &mut Batch, stream: rte_stream) {
        let (members, done) = self.enter(Stage::Encode, batch, stream);
        for member in members {
            self.encodes += 1;
            // The stream waits for HOT and DEFERRED.
            if self.row_of(Stage::Encode, member, done, &[ENCODE]).is_none() {
                continue;
            }
            self.look(Stage::Encode, batch, member, done, |key| KEYS[key].is_heavy);
            let encoded = self.look_at_heavy(Stage::Encode, batch, member, done);
            let Some(row) = &mut self.rows[member.row] else { continue };
            row.encoded = encoded;
            if is_unlucky(digest([encoded, row.decoder, row.session])) {
                batch.fail(member, UNLUCKY);
            }
        }
    }

    fn finalize(&mut self, batch: &mut Batch, stream: rte_stream) {
        let (members, now) = self.enter(Stage::Finalize, batch, stream);
        for member in members {
            let life = self.rows[member.row].as_ref();
            if life.is_none_or(|row| (row.session, row.generation) != (member.session, member.generation)) {
                self.complain(Stage::Finalize, member, "this life was not seeded here");
            }
            self.look(Stage::Finalize, batch, member, now, |key| key != SEED);
        }
    }

    /// Gives a chunk of some bytes and frames, now and then none.
    fn give(&mut self, batch: &mut Batch, members: &[Member], at: usize, digest_of_step: u64) {
        if digest_of_step.is_multiple_of(16) {
            return;
        }
        let size = usize::try_from(8 + digest_of_step % (CHUNK_BYTES as u64 - 7)).expect("small");
        let words = (0..).flat_map(|at| digest([digest_of_step, at]).to_le_bytes());
        let bytes: Vec<u8> = words.take(size).collect();
        let member = members[at];
        let place = if self.mutant == Some(Mutant::SwapsOutputs) { other_of_pair(members, at) } else { member };
        batch.fill_output(place, &bytes);
        batch.set_output_size(member, size);
        batch.set_frames(member, 1 + u32::from(bytes[0] % 4));
    }
}

/// For the first of the rows the second, and the other way round; all others stand for themselves.
fn other_of_pair(members: &[Member], at: usize) -> Member {
    let other = if at < 2 { 1 - at } else { at };
    members.get(other).copied().unwrap_or(members[at])
}

/// Some steps fail, by what they are about to give.
fn is_unlucky(digest: u64) -> bool {
    digest.is_multiple_of(257)
}

macro_rules! callbacks {
    ($($name:ident: $body:expr, $errand:expr;)*) => {$(
        unsafe extern "C-unwind" fn $name(
            user: *mut c_void,
            batch: *mut rte_batch,
            stream: rte_stream,
        ) -> rte_status {
            let body: fn(&mut State, &mut Batch, rte_stream) = $body;
            // SAFETY: the engine holds a count of the model of the table until `destroy`.
            let model = unsafe { &*user.cast::<Model>() };
            let max_sessions = model.state().setup.max_sessions;
            // SAFETY: what the callback was given, for as long as it runs.
            let mut batch = unsafe { Batch::new(batch, max_sessions) };
            let errand: Option<Errand> = $errand;
            model.traffic.visit(errand, &mut batch, |batch| body(&mut model.state(), batch, stream));
            OK
        }
    )*};
}

callbacks! {
    run_seed: State::seed, Some(Errand::Life);
    run_detach: State::detach, Some(Errand::Life);
    run_hot: State::hot, Some(Errand::Hot);
    run_deferred: State::deferred, Some(Errand::Deferred);
    run_encode: State::encode, Some(Errand::Encode);
    run_finalize: State::finalize, None;
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: gives back the count that `Model::table` took; the engine calls this once.
    drop(unsafe { Arc::from_raw(user.cast::<Model>()) });
}
