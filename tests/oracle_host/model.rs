//! The reference model as a host's model: HOT makes a value, DEFERRED a chunk of it, ENCODE takes heavy values in.
//!
//! It keeps what it was called for, fails where the scenario has armed a fault, and complains of everything that the
//! engine must never do: rows touched outside their life, two lanes in one row's way, values that do not hang together.
//! On threads lanes a call may come ticks after it was issued: what it fails with is that of the tick which issued it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::c_void;
use std::ptr::null;
use std::sync::{Arc, Mutex, MutexGuard};

use rte::abi::message::rte_stream;
use rte::abi::model::{
    RTE_DEFERRED, RTE_ENCODE, RTE_HOT, RTE_MODEL_NO_MIDRUN, RTE_MODEL_RETRY_SAFE, RTE_STAGE_DETACH, RTE_STAGE_FINALIZE,
    RTE_STAGE_READY, RTE_STAGE_SEED, rte_batch, rte_model, rte_stage,
};
use rte::abi::status::{rte_status, rte_status_code};

use super::keys::{EncodedValues, Names, SEED};
use crate::host::batch::{Batch, Member};
use crate::host::device::Device;
use crate::host::engine::{AGAIN, OK, descriptor_size, zeroed};
use crate::host::traffic::{Errand, Traffic};
use crate::oracle::codec::Encoded;
use crate::oracle::digest;
use crate::oracle::outcome::Call;
use crate::oracle::schedule::{Config, Fault, Gate, Hook};
use crate::oracle::trace::Scenario;

/// Bytes of a chunk.
pub const CHUNK_BYTES: usize = 24;

/// The stages, by index.
const STAGES: [(Hook, u32); 3] = [(Hook::Hot, RTE_HOT), (Hook::Deferred, RTE_DEFERRED), (Hook::Encode, RTE_ENCODE)];

/// How long a tick is on the lanes' clock.
pub const TICK: u64 = 2;

/// By tick: how long an encode takes that starts in it.
pub fn encode_lengths(scenario: &Scenario) -> Vec<u64> {
    let usual = scenario.header.config.encode_ticks;
    let ticks = scenario.ticks.iter().map(|tick| tick.input.encode_ticks.unwrap_or(usual));
    ticks.map(|ticks| TICK * ticks.unsigned_abs()).collect()
}

/// The hook that a stage number stands for.
pub fn hook_of(stage: u32) -> Hook {
    match stage {
        RTE_STAGE_SEED => Hook::Seed,
        RTE_STAGE_DETACH => Hook::Detach,
        RTE_STAGE_READY => Hook::Gate,
        RTE_STAGE_FINALIZE => Hook::Finalize,
        stage => STAGES[stage as usize].0,
    }
}

/// What a call of this hook returns when it fails as a whole.
pub fn status_of_call(hook: Hook) -> rte_status {
    rte_status_code::RTE_ERR_HOST as rte_status - hook as rte_status
}

/// What a call of this hook gives a row that fails alone.
pub fn status_of_row(hook: Hook) -> rte_status {
    status_of_call(hook) - 100
}

/// The model. The engine holds a count of it until its `destroy` was called.
pub struct Model {
    state: Mutex<State>,
    traffic: Traffic,
}

/// Everything that the model knows.
pub struct State {
    max_sessions: usize,
    pipelined: bool,
    gate: Option<Gate>,
    /// By key; the first is [`SEED`]. What a batch's columns must look like.
    keys: Vec<KeyFacts>,
    sessions: HashMap<u64, String>,
    /// Where ENCODE takes its time; inline lanes have none, and threads lanes see to it themselves.
    device: Option<Arc<Device>>,
    /// By tick.
    faults: Vec<Vec<Fault>>,
    encode_lengths: Vec<u64>,
    /// Encodes are done one after the other, on however many streams.
    encoding_until: u64,
    rows: BTreeMap<usize, Row>,
    latent: [BTreeMap<usize, Latent>; 2],
    /// With the ticks that issued them.
    calls: Vec<(u64, Call)>,
    complaints: Vec<String>,
    /// Lives that were seeded, and those detached, by generation.
    seeded: BTreeSet<u64>,
    detached: BTreeSet<u64>,
    failed_detaches: u64,
}

struct KeyFacts {
    size: usize,
    is_heavy: bool,
}

/// A row from its seed to its detach.
struct Row {
    session: u64,
    generation: u64,
    seed: i64,
    /// The heavy values that HOT goes by.
    applied: EncodedValues,
    /// What the last ENCODE has made, until HOT was seen to go by it.
    encoded: Option<EncodedValues>,
    /// Calls of ENCODE.
    encodes: u64,
    /// When the last ENCODE is done.
    encoding_until: u64,
    /// What the last successful batch of each stage saw.
    seen: [Option<EncodedValues>; STAGES.len()],
}

/// What HOT leaves for DEFERRED.
struct Latent {
    generation: u64,
    age: u64,
    value: u8,
    values: EncodedValues,
}

impl Model {
    /// A model for a scenario. `is_on_threads`: its callbacks come from several.
    pub fn new(scenario: &Scenario, names: &Names, device: Option<Arc<Device>>, is_on_threads: bool) -> Arc<Self> {
        let config = &scenario.header.config;
        let keys = names.declared();
        let keys = keys.iter().map(|key| KeyFacts { size: key.size, is_heavy: key.flags != 0 });
        let sessions = names.sessions().iter().map(|name| (names.id(name), name.clone()));
        let state = State {
            max_sessions: config.max_sessions,
            pipelined: config.pipelined,
            gate: config.gate,
            keys: keys.collect(),
            sessions: sessions.collect(),
            device,
            faults: scenario.ticks.iter().map(|tick| tick.input.faults.clone()).collect(),
            encode_lengths: encode_lengths(scenario),
            encoding_until: 0,
            rows: BTreeMap::new(),
            latent: [BTreeMap::new(), BTreeMap::new()],
            calls: Vec::new(),
            complaints: Vec::new(),
            seeded: BTreeSet::new(),
            detached: BTreeSet::new(),
            failed_detaches: 0,
        };
        Arc::new(Self { state: Mutex::new(state), traffic: Traffic::new(is_on_threads) })
    }

    /// The stages of a scenario's model.
    pub fn stages(config: &Config) -> Vec<rte_stage> {
        let all = [run_hot, run_deferred, run_encode].into_iter().zip(STAGES);
        let there = all.filter(|(_, (hook, _))| *hook != Hook::Encode || config.has_encode);
        let stage = |run: StageFn, lane| rte_stage { name: null(), run: Some(run), lane, flags: 0, reserved: 0 };
        there.map(|(run, (_, lane))| stage(run, lane)).collect()
    }

    /// The table for `rte_engine_new`, without keys and stages. Takes a count of the model, which `destroy` gives back.
    pub fn table(self: &Arc<Self>, config: &Config) -> rte_model {
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        rte_model {
            struct_size: descriptor_size::<rte_model>(),
            flags: flag(!config.midrun, RTE_MODEL_NO_MIDRUN) | flag(config.retry_safe, RTE_MODEL_RETRY_SAFE),
            user: Arc::into_raw(self.clone()).cast_mut().cast(),
            max_sessions: u32::try_from(config.max_sessions).expect("small"),
            chunk_bytes: CHUNK_BYTES,
            ready: config.gate.map(|_| run_ready as StageFn),
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
        self.state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// The complaints since the last time.
    pub fn take_complaints(&self) -> Vec<String> {
        let mut complaints = std::mem::take(&mut self.state().complaints);
        complaints.extend(self.traffic.take_complaints());
        complaints
    }
}

impl State {
    /// The calls since the last time, with the ticks that issued them.
    pub fn take_calls(&mut self) -> Vec<(u64, Call)> {
        std::mem::take(&mut self.calls)
    }

    /// The rows between their seed and their detach, with their lives.
    pub fn lives(&self) -> impl Iterator<Item = (usize, u64)> {
        self.rows.iter().map(|(row, life)| (*row, life.generation))
    }

    /// The heavy values that HOT would go by if it ran this row now. `encodes`: how many were started, of which the last
    /// one is not over, if the row `is_encoding`.
    pub fn applied(&self, row: usize, is_encoding: bool, encodes: u64) -> Option<&EncodedValues> {
        let row = self.rows.get(&row)?;
        // On its thread it may not even have begun.
        let is_in_the_making = is_encoding && row.encodes == encodes;
        Some(row.encoded.as_ref().filter(|_| !is_in_the_making).unwrap_or(&row.applied))
    }

    /// Generations that were seeded.
    pub fn seeded(&self) -> &BTreeSet<u64> {
        &self.seeded
    }

    /// Generations that were detached.
    pub fn detached(&self) -> &BTreeSet<u64> {
        &self.detached
    }

    /// Calls of detach that have failed.
    pub fn failed_detaches(&self) -> u64 {
        self.failed_detaches
    }

    fn complain(&mut self, hook: Hook, member: Member, what: &str) {
        self.complaints.push(format!("{} of {member:?}: {what}", hook.name()));
    }

    /// Notes the call and marks the rows that are to fail. Gives the rows that are to be worked on, or the status with
    /// which the call as a whole is to fail.
    fn enter(&mut self, hook: Hook, batch: &mut Batch) -> Result<Vec<Member>, rte_status> {
        let members = batch.members();
        if !members.is_sorted_by_key(|member| member.row) || members.is_empty() {
            self.complaints.push(format!("{}: {members:?} are not ascending rows", hook.name()));
        }
        let name_of = |member: &Member| self.sessions[&member.session].clone();
        let sessions: Vec<String> = members.iter().map(name_of).collect();
        // The tick of a batch is that of its HOT.
        let tick = batch.tick() + u64::from(hook == Hook::Deferred && self.pipelined);
        let faults = self.faults.get(tick as usize).map_or(&[][..], Vec::as_slice);
        let failed = faults.iter().any(|fault| fault.strikes_call(hook, &sessions));
        let fails_alone = |session: &str| faults.iter().any(|fault| fault.strikes_row(hook, session));
        let (bad, good): (Vec<Member>, Vec<Member>) =
            members.iter().partition(|member| !failed && fails_alone(&name_of(member)));
        for member in bad {
            batch.fail(member, status_of_row(hook));
        }
        let rows = members.iter().map(|member| member.row).collect();
        self.calls.push((tick, Call { hook, failed, rows, sessions }));
        if failed { Err(status_of_call(hook)) } else { Ok(good) }
    }

    /// The row of a life that HOT, DEFERRED or ENCODE is to work on.
    fn row_of(&mut self, hook: Hook, member: Member) -> bool {
        let lives = self.rows.get(&member.row);
        let is_same = lives.is_some_and(|row| (row.session, row.generation) == (member.session, member.generation));
        if !is_same {
            self.complain(hook, member, "this life was not seeded here, or is over");
        }
        is_same
    }

    /// Nothing but HOT and DEFERRED of other batches may run beside an encode, and those not in its rows.
    fn check_encoded(&mut self, hook: Hook, member: Member) {
        let now = self.device.as_ref().map_or(0, |device| device.now());
        if self.rows.get(&member.row).is_some_and(|row| row.encoding_until > now) {
            self.complain(hook, member, "the row's encode still runs");
        }
    }

    /// The values of a row's heavy keys, or of all but the heavy ones.
    fn values(&mut self, hook: Hook, batch: &Batch, member: Member) -> EncodedValues {
        let mut values = EncodedValues::new();
        if hook != Hook::Seed && batch.value(member, SEED).is_some() {
            self.complain(hook, member, "a value of the context is for the seed alone");
        }
        for key in SEED + 1..self.keys.len() {
            let size = self.keys[key].size;
            let bytes = batch.value(member, key);
            if size > 0 && batch.cell(member, key, size) != bytes.unwrap_or(&[0; Encoded::SIZE]) {
                self.complain(hook, member, "a column has other bytes than the value");
            }
            if let Some(bytes) = bytes {
                let bytes = bytes.try_into().expect("a value of the test's size");
                values.insert(key, Encoded::from_bytes(bytes));
            }
        }
        values
    }

    fn part(&self, values: &EncodedValues, heavy: bool) -> EncodedValues {
        values.iter().filter(|(key, _)| self.keys[**key].is_heavy == heavy).map(|(key, value)| (*key, *value)).collect()
    }

    /// Compares the batch's `changed` with what the stage saw last of this row, and notes what it sees now.
    fn check_changed(&mut self, hook: Hook, member: Member, values: &EncodedValues) {
        let stage = STAGES.iter().position(|(known, _)| *known == hook).expect("a stage");
        let keys = 0..self.keys.len();
        let Some(row) = self.rows.get_mut(&member.row) else { return };
        // What seed saw of a heavy key that is absent by now has changed for ENCODE, too.
        let gone = |key: &usize| hook == Hook::Encode && row.applied.contains_key(key) && !values.contains_key(key);
        let seen = row.seen[stage].clone().unwrap_or_default();
        let has_changed = |key: &usize| seen.get(key) != values.get(key) || gone(key);
        let changed = keys.filter(has_changed).fold(0, |bits, key| bits | 1 << key);
        row.seen[stage] = Some(values.clone());
        if member.changed != changed {
            let what = format!("the keys that have changed are {changed:#b}");
            self.complain(hook, member, &what);
        }
    }

    fn ready(&mut self, batch: &mut Batch) -> Result<(), rte_status> {
        let members = self.enter(Hook::Gate, batch)?;
        for member in &members {
            if self.rows.contains_key(&member.row) {
                self.complain(Hook::Gate, *member, "the row is not free");
            }
        }
        let gate = self.gate.expect("no hook without a gate");
        if gate.is_open(members.len(), !self.rows.is_empty()) { Ok(()) } else { Err(AGAIN) }
    }

    fn seed(&mut self, batch: &mut Batch) -> Result<(), rte_status> {
        for member in self.enter(Hook::Seed, batch)? {
            if self.rows.contains_key(&member.row) {
                self.complain(Hook::Seed, member, "the row's former life was not detached");
            }
            if !self.seeded.insert(member.generation) {
                self.complain(Hook::Seed, member, "the life was seeded before");
            }
            let values = self.values(Hook::Seed, batch, member);
            // A RESET of a stranger may come without a context.
            let seed = match batch.value(member, SEED) {
                Some(bytes) => i64::from_le_bytes(bytes.try_into().expect("8 bytes")),
                None => digest::derived_seed(&self.sessions[&member.session]),
            };
            let row = Row {
                session: member.session,
                generation: member.generation,
                seed,
                applied: self.part(&values, true),
                encoded: None,
                encodes: 0,
                encoding_until: 0,
                seen: Default::default(),
            };
            self.rows.insert(member.row, row);
        }
        Ok(())
    }

    fn detach(&mut self, batch: &mut Batch) -> Result<(), rte_status> {
        let entered = self.enter(Hook::Detach, batch);
        self.failed_detaches += u64::from(entered.is_err());
        let members = batch.members();
        if members.len() != 1 {
            self.complaints.push(format!("detach of {members:?} is not of one row"));
        }
        for member in members {
            if self.row_of(Hook::Detach, member) {
                self.check_encoded(Hook::Detach, member);
                self.rows.remove(&member.row);
                self.detached.insert(member.generation);
            }
        }
        entered.map(drop)
    }

    fn hot(&mut self, batch: &mut Batch) -> Result<(), rte_status> {
        for member in self.enter(Hook::Hot, batch)? {
            if !self.row_of(Hook::Hot, member) {
                continue;
            }
            self.check_encoded(Hook::Hot, member);
            let values = self.values(Hook::Hot, batch, member);
            self.check_changed(Hook::Hot, member, &values);
            let (cheap, heavy) = (self.part(&values, false), self.part(&values, true));
            let row = self.rows.get_mut(&member.row).expect("looked at above");
            row.promote();
            let (seed, goes_by) = (row.seed, row.applied.clone());
            if heavy != goes_by {
                self.complain(Hook::Hot, member, "the heavy values are not those that were encoded last");
            }
            let age = i64::try_from(member.age).expect("small");
            let value = digest::chunk_value(seed, age, collapse(&cheap), collapse(&goes_by));
            let latent = Latent { generation: member.generation, age: member.age, value, values };
            self.latent[batch.slot()].insert(member.row, latent);
        }
        Ok(())
    }

    fn deferred(&mut self, batch: &mut Batch) -> Result<(), rte_status> {
        for member in self.enter(Hook::Deferred, batch)? {
            if !self.row_of(Hook::Deferred, member) {
                continue;
            }
            let values = self.values(Hook::Deferred, batch, member);
            self.check_changed(Hook::Deferred, member, &values);
            let Some(latent) = self.latent[batch.slot()].remove(&member.row) else {
                self.complain(Hook::Deferred, member, "HOT has left nothing here");
                continue;
            };
            if (latent.generation, latent.age) != (member.generation, member.age) || latent.values != values {
                self.complain(Hook::Deferred, member, "HOT saw something else");
            }
            batch.write(member, &[latent.value; CHUNK_BYTES]);
        }
        Ok(())
    }

    fn encode(&mut self, batch: &mut Batch, stream: rte_stream) -> Result<(), rte_status> {
        // A call that fails takes its time all the same.
        let all = batch.members();
        all.iter().for_each(|member| self.check_encoded(Hook::Encode, *member));
        let length = self.encode_lengths[batch.tick() as usize];
        let done = self
            .device
            .as_ref()
            .map_or(0, |device| device.finish_at(stream, self.encoding_until.max(device.now()) + length));
        self.encoding_until = done;
        for member in all {
            if self.row_of(Hook::Encode, member) {
                let row = self.rows.get_mut(&member.row).expect("just looked at");
                row.promote();
                row.encodes += 1;
                row.encoding_until = done;
            }
        }
        for member in self.enter(Hook::Encode, batch)? {
            let values = self.values(Hook::Encode, batch, member);
            if values != self.part(&values, true) {
                self.complain(Hook::Encode, member, "ENCODE sees heavy values only");
            }
            self.check_changed(Hook::Encode, member, &values);
            if let Some(row) = self.rows.get_mut(&member.row) {
                row.encoded = Some(values);
            }
        }
        Ok(())
    }

    fn finalize(&mut self, batch: &mut Batch) -> Result<(), rte_status> {
        self.enter(Hook::Finalize, batch).map(drop)
    }
}

impl Row {
    /// The last encode is known to have been applied.
    fn promote(&mut self) {
        if let Some(encoded) = self.encoded.take() {
            self.applied = encoded;
        }
    }
}

fn collapse(values: &EncodedValues) -> u8 {
    let sum = values.values().fold(0i64, |sum, value| sum.wrapping_add(value.contribution));
    sum.to_le_bytes()[0]
}

type StageFn = unsafe extern "C-unwind" fn(*mut c_void, *mut rte_batch, rte_stream) -> rte_status;

/// Runs `body` on the model and the batch of a callback.
///
/// # Safety
///
/// `user` is the model of [`Model::table`], `batch` what the callback was given.
unsafe fn call(
    user: *mut c_void,
    batch: *mut rte_batch,
    body: impl FnOnce(&mut State, &mut Batch) -> Result<(), rte_status>,
) -> rte_status {
    // SAFETY: the engine holds a count of the model until `destroy`.
    let model = unsafe { &*user.cast::<Model>() };
    let max_sessions = model.state().max_sessions;
    // SAFETY: the caller's promise.
    let mut batch = unsafe { Batch::new(batch, max_sessions) };
    let errand = match hook_of(batch.stage()) {
        Hook::Seed | Hook::Detach => Some(Errand::Life),
        Hook::Hot => Some(Errand::Hot),
        Hook::Deferred => Some(Errand::Deferred),
        Hook::Encode => Some(Errand::Encode),
        Hook::Gate | Hook::Finalize => None, // in no row
    };
    let result = model.traffic.visit(errand, &mut batch, |batch| body(&mut model.state(), batch));
    result.err().unwrap_or(OK)
}

macro_rules! callbacks {
    ($($name:ident: $body:expr;)*) => {$(
        unsafe extern "C-unwind" fn $name(
            user: *mut c_void,
            batch: *mut rte_batch,
            stream: rte_stream,
        ) -> rte_status {
            let body: fn(&mut State, &mut Batch, rte_stream) -> Result<(), rte_status> = $body;
            // SAFETY: the engine gives back the model of the table and a batch of its own.
            unsafe { call(user, batch, |state, batch| body(state, batch, stream)) }
        }
    )*};
}

callbacks! {
    run_ready: |state, batch, _| state.ready(batch);
    run_seed: |state, batch, _| state.seed(batch);
    run_detach: |state, batch, _| state.detach(batch);
    run_finalize: |state, batch, _| state.finalize(batch);
    run_hot: |state, batch, _| state.hot(batch);
    run_deferred: |state, batch, _| state.deferred(batch);
    run_encode: |state, batch, stream| state.encode(batch, stream);
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: gives back the count that `Model::table` took; the engine calls this once.
    drop(unsafe { Arc::from_raw(user.cast::<Model>()) });
}
