//! An engine, its model and its lanes, driven through a scenario.

use std::collections::BTreeMap;
use std::sync::Arc;

use rte::abi::info::{RTE_PENDING, rte_session_info};
use rte::abi::message::{RTE_ACTION, RTE_ATTACH, RTE_DETACH, RTE_DRAIN, RTE_PARTIAL, RTE_PAUSE, RTE_RESET, RTE_RESUME};
use rte::abi::options::{
    RTE_LANES_CUDA, RTE_LANES_HOST, RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_PIPELINE_OFF, RTE_PIPELINE_ON,
    rte_backend, rte_engine_options,
};
use rte::abi::output::{RTE_CHUNK, RTE_REJECTED, RTE_TICK_FAILED};
use rte::abi::status::{rte_status, rte_status_code};
use rte::lane::Calls;
use rte::word::Lane;

use super::keys::{EncodedValues, Names, SEED};
use super::ledger::Ledger;
use super::model::{CHUNK_BYTES, Model, TICK, encode_lengths, hook_of};
use super::observed::{Observed, RowState, is_compared, phase_of};
use crate::host::device::Device;
use crate::host::engine::{AGAIN, CLOSED, Engine, Message as Pushed, OK, Output, descriptor_size, zeroed};
use crate::host::timed::Ends;
use crate::oracle::outcome::Phase;
use crate::oracle::schedule::{Config, Hook, Message, Request, TickInput};
use crate::oracle::spec::Statuses;
use crate::oracle::trace::Scenario;

const UNKNOWN: rte_status = rte_status_code::RTE_ERR_UNKNOWN as rte_status;
const STALE: rte_status = rte_status_code::RTE_ERR_STALE as rte_status;
const ARGUMENT: rte_status = rte_status_code::RTE_ERR_ARGUMENT as rte_status;

/// Where the model's stages run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lanes {
    /// On streams whose time is the number of the tick; one to three of them are for ENCODE, as the arena's size has it.
    Device,
    /// On the calling thread.
    Inline,
    /// On threads, seen in the time of the tick.
    Threads {
        /// Threads of ENCODE.
        encodes: u32,
        /// HOT is done only when the next tick has begun, if that is pipelined.
        hot_outlasts: bool,
    },
    /// On CUDA streams, seen in the time of the tick.
    Cuda {
        /// Streams of ENCODE.
        encodes: u32,
        /// As on threads.
        hot_outlasts: bool,
    },
}

impl Lanes {
    /// When it is seen what a call came to.
    pub fn statuses(self) -> Statuses {
        match self {
            Self::Device | Self::Inline => Statuses::AtReturn,
            Self::Threads { hot_outlasts, .. } | Self::Cuda { hot_outlasts, .. } => Statuses::AtFence { hot_outlasts },
        }
    }

    /// What can be known of a tick.
    pub fn comparable(self, observed: Observed) -> Observed {
        match self {
            Self::Device | Self::Inline => observed,
            Self::Threads { encodes, .. } | Self::Cuda { encodes, .. } => observed.by_queue(encodes),
        }
    }
}

/// See the module's comment.
pub struct Driver {
    engine: Engine,
    model: Arc<Model>,
    /// The streams, or the clock of the threads.
    device: Option<Arc<Device>>,
    config: Config,
    names: Names,
    ledger: Ledger,
    /// Messages pushed; each one's tag is its number.
    pushed: u64,
    /// Calls of `detach` that are said to have failed.
    failed_detaches: u64,
}

/// What a whole schedule came to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tally {
    /// Lives that have begun and ended.
    pub lives: usize,
    /// Of those: seeded, and detached once.
    pub seeded: usize,
}

/// Whether a message cannot get past the push: it has no values where it must have some, or names a life to come.
pub fn is_refused(message: &Message) -> bool {
    message.request.is_ill_formed() || names_a_life_to_come(message)
}

fn names_a_life_to_come(message: &Message) -> bool {
    matches!(message.request, Request::Attach(_)) && message.generation != 0
}

/// The scenario without the messages that the oracle knows no refusal for.
pub fn pushable(scenario: &Scenario) -> Scenario {
    let mut scenario = scenario.clone();
    for tick in &mut scenario.ticks {
        tick.input.messages.retain(|message| !names_a_life_to_come(message));
    }
    scenario
}

impl Driver {
    /// An engine for a scenario. An error has the status and the words of the refusal.
    pub fn new(scenario: &Scenario, lanes: Lanes) -> Result<Self, (rte_status, String)> {
        let config = scenario.header.config.clone();
        let names = Names::of(scenario);
        let is_on_threads = matches!(lanes, Lanes::Threads { .. });
        let is_timed = is_on_threads || matches!(lanes, Lanes::Cuda { .. });
        let device = (lanes != Lanes::Inline).then(Device::new);
        let streams = device.clone().filter(|_| lanes == Lanes::Device);
        let model = Model::new(scenario, &names, streams.clone(), is_on_threads);
        let (keys, stages) = (names.declared(), Model::stages(&config));
        let mut table = model.table(&config);
        (table.keys, table.key_count) = (keys.as_ptr(), u32::try_from(keys.len()).expect("few"));
        (table.stages, table.stage_count) = (stages.as_ptr(), u32::try_from(stages.len()).expect("few"));
        let backend = streams.as_ref().map(Device::table);
        let options = options(&config, lanes, backend.as_ref());
        // SAFETY: tables and arrays live until the call is over; model and device until their `destroy`.
        let engine = unsafe {
            match &device {
                Some(clock) if is_timed => Engine::timed(&table, &options, clock, ends(scenario, lanes, clock.clone())),
                _ => Engine::new(&table, &options),
            }
        };
        let engine = match engine {
            Ok(engine) => engine,
            Err(error) => {
                // Nothing was taken.
                // SAFETY: the counts that the tables took.
                unsafe { Arc::decrement_strong_count(Arc::as_ptr(&model)) };
                if let Some(device) = &streams {
                    // SAFETY: as above.
                    unsafe { Arc::decrement_strong_count(Arc::as_ptr(device)) };
                }
                assert_eq!(Arc::strong_count(&model), 1, "a refused model's user was taken");
                return Err(error);
            }
        };
        Ok(Self { engine, model, device, config, names, ledger: Ledger::default(), pushed: 0, failed_detaches: 0 })
    }

    /// The names of the scenario, to put what the oracle says in the same words.
    pub fn names(&mut self) -> &mut Names {
        &mut self.names
    }

    /// One tick. Which calls it has made is known in the end.
    pub fn tick(&mut self, input: &TickInput) -> Observed {
        for message in &input.messages {
            self.push(message);
        }
        let due = input.due.as_ref().map(|due| due.iter().map(|name| self.names.id(name)).collect::<Vec<_>>());
        let begin = input.number.unsigned_abs() * TICK;
        let status = self.engine.tick_through(due.as_deref(), self.device.as_deref(), begin..begin + TICK);
        assert_eq!(status, OK, "the tick");
        let mut observed = Observed::default();
        let (outputs, status) = self.engine.pop_all();
        assert_eq!(status, AGAIN, "the outbox");
        for output in &outputs {
            self.take(output, input.number, &mut observed);
        }
        self.take_state(&mut observed);
        self.check_rows();
        self.raise_complaints();
        observed
    }

    fn push(&mut self, message: &Message) {
        if message.request.is_ill_formed() {
            return; // there is no such message
        }
        self.pushed += 1;
        let (kind, flags, values) = match &message.request {
            Request::Attach(context) => (RTE_ATTACH, 0, self.context(&message.session, context.as_ref(), false)),
            Request::Reset(context) => (RTE_RESET, 0, self.context(&message.session, context.as_ref(), true)),
            Request::Detach { drain } => (RTE_DETACH, if *drain { RTE_DRAIN } else { 0 }, Vec::new()),
            Request::Action { values, merge } => {
                let flags = if *merge { RTE_PARTIAL } else { 0 };
                let values = self.names.encode(values.as_ref().expect("well formed"));
                (RTE_ACTION, flags, bytes_of(&values))
            }
            Request::SetActive(active) => (if *active { RTE_RESUME } else { RTE_PAUSE }, 0, Vec::new()),
        };
        let values: Vec<(usize, &[u8])> = values.iter().map(|(key, bytes)| (*key, bytes.as_slice())).collect();
        let status = self.engine.push(&Pushed {
            kind,
            flags,
            session: self.names.id(&message.session),
            generation: message.generation,
            tag: self.pushed,
            values: &values,
        });
        assert_eq!(status, if names_a_life_to_come(message) { ARGUMENT } else { OK }, "push of {message:?}");
    }

    /// A context always has a seed, but for that of a RESET that wants the last one again: it has nothing.
    fn context(
        &mut self,
        session: &str,
        context: Option<&crate::oracle::digest::Values>,
        may_be_empty: bool,
    ) -> Vec<(usize, Vec<u8>)> {
        let context = context.expect("well formed");
        if may_be_empty && context.is_empty() {
            return Vec::new();
        }
        let (seed, values) = self.names.encode_context(session, context);
        let mut values = bytes_of(&values);
        values.push((SEED, seed.to_le_bytes().to_vec()));
        values
    }

    fn take(&mut self, output: &Output, tick: i64, observed: &mut Observed) {
        self.ledger.enter(output);
        match (output.kind, output.status) {
            (RTE_CHUNK, _) => {
                assert_eq!(output.bytes, [output.bytes[0]; CHUNK_BYTES], "the bytes of a chunk");
                let made_in = tick.unsigned_abs() - u64::from(self.config.pipelined);
                assert_eq!(output.tick, made_in, "the tick that made a chunk");
                let session = self.names.session(output.session).to_owned();
                observed.outputs.push((session, output.bytes[0]));
            }
            (RTE_TICK_FAILED, _) => match hook_of(output.stage) {
                Hook::Detach => self.failed_detaches += output.dropped,
                hook => *observed.failed_calls.entry(hook.name()).or_default() += output.dropped,
            },
            (RTE_REJECTED, UNKNOWN) => observed.unknown += output.dropped,
            (RTE_REJECTED, STALE) => observed.stale += output.dropped,
            _ => observed.hear(self.names.session(output.session), output),
        }
    }

    /// Puts the calls where they were issued.
    fn take_calls(&mut self, ticks: &mut [Observed]) {
        for (tick, call) in self.model.state().take_calls() {
            // Those of the stop are no tick's.
            let Some(observed) = ticks.get_mut(tick as usize) else { continue };
            if call.failed && call.hook != Hook::Detach && !observed.errors.contains(&call.hook.name()) {
                observed.errors.push(call.hook.name());
            }
            if call.hook == Hook::Finalize {
                observed.finalized.push(call.to_string());
            } else if is_compared(call.hook) {
                observed.calls.push(call.to_string());
            }
        }
    }

    fn take_state(&mut self, observed: &mut Observed) {
        for name in self.names.sessions() {
            let Some(info) = self.engine.session_info(self.names.id(name)) else { continue };
            let (row, phase) = (info.row as usize, phase_of(info.state));
            let applied = match phase {
                Phase::Encoding | Phase::Ready => {
                    self.model.state().applied(row, phase == Phase::Encoding, info.encodes).cloned()
                }
                Phase::Pending | Phase::Quarantined => None,
            };
            let age = if phase == Phase::Pending { -1 } else { info.age.cast_signed() };
            observed.state.push(RowState { session: name.clone(), row, age, phase, applied });
            if info.paused == 1 {
                observed.paused.push(name.clone());
            }
        }
        observed.state.sort_by_key(|state| state.row);
    }

    /// Every row is free, or has one session, or is retiring: the model still holds a life in it that is over. A retiring
    /// row may have been promised to a session that waits for it.
    fn check_rows(&self) {
        let info = self.engine.info();
        let owned = self.names.sessions().iter().filter_map(|name| self.engine.session_info(self.names.id(name)));
        let owned: BTreeMap<u32, rte_session_info> = owned.map(|session| (session.row, session)).collect();
        let state = self.model.state();
        let over = state.lives().filter(|(row, generation)| {
            let owner = u32::try_from(*row).ok().and_then(|row| owned.get(&row));
            assert!(
                owner.is_none_or(|owner| owner.generation == *generation || owner.state == RTE_PENDING),
                "row {row} is run for another life than the model was told of"
            );
            owner.is_none_or(|owner| owner.generation != *generation)
        });
        // A session whose last chunk was popped just now is attached until the next tick.
        assert_eq!((info.attached + info.retiring) as usize, owned.len() + over.count(), "attached and retiring rows");
        assert!(owned.keys().all(|row| *row < info.max_sessions), "a row outside the arena");
        assert!(info.attached <= info.max_sessions, "more sessions than rows");
    }

    fn raise_complaints(&mut self) {
        let mut complaints = self.model.take_complaints();
        complaints.extend(self.ledger.take_complaints());
        complaints.extend(self.device.iter().flat_map(|device| device.complaints()));
        assert!(complaints.is_empty(), "{}", complaints.join("\n"));
    }

    /// Stops and frees the engine, and checks that everything has come to its end. Says in `ticks` what was called.
    pub fn finish(mut self, ticks: &mut [Observed]) -> Tally {
        assert_eq!(self.engine.stop(), OK, "the stop");
        let (outputs, status) = self.engine.pop_all();
        assert_eq!(status, CLOSED, "the outbox of a stopped engine");
        for output in &outputs {
            self.ledger.enter(output);
            if output.kind == RTE_TICK_FAILED && hook_of(output.stage) == Hook::Detach {
                self.failed_detaches += output.dropped;
            }
        }
        self.raise_complaints();
        self.take_calls(ticks);
        assert_eq!(self.ledger.open(), Vec::<u64>::new(), "lives that have not ended");
        {
            let state = self.model.state();
            assert_eq!(*state.seeded(), self.ledger.attached(), "seeded lives are those that were attached");
            assert_eq!(state.seeded(), state.detached(), "each seeded life was detached");
            assert_eq!(state.lives().count(), 0, "rows that the model still holds");
            assert_eq!(state.failed_detaches(), self.failed_detaches, "failed calls of detach");
        }
        let tally = Tally { lives: self.ledger.len(), seeded: self.ledger.attached().len() };
        drop(self.engine);
        assert_eq!(Arc::strong_count(&self.model), 1, "the model's destroy has not run");
        drop(self.model); // which has the device
        if let Some(device) = &self.device {
            assert_eq!(Arc::strong_count(device), 1, "the device's destroy has not run");
            assert!(device.is_clean(), "the device was not left clean");
            assert_eq!(device.complaints(), Vec::<String>::new());
        }
        tally
    }
}

fn bytes_of(values: &EncodedValues) -> Vec<(usize, Vec<u8>)> {
    values.iter().map(|(key, value)| (*key, value.to_bytes().to_vec())).collect()
}

/// The time that work takes on threads.
fn ends(scenario: &Scenario, lanes: Lanes, clock: Arc<Device>) -> Ends {
    let lengths = encode_lengths(scenario);
    let outlasts = matches!(lanes, Lanes::Threads { hot_outlasts: true, .. } | Lanes::Cuda { hot_outlasts: true, .. });
    let hot_length = if outlasts { TICK / 2 } else { 0 };
    Box::new(move |lane, calls, begin| {
        let tick = clock.now() / TICK;
        match (lane, calls) {
            (Lane::Hot, Calls::Stages) => tick * TICK + hot_length,
            (Lane::Encode, Calls::Stages) => begin + lengths[tick as usize],
            _ => begin,
        }
    })
}

fn options(config: &Config, lanes: Lanes, backend: Option<&rte_backend>) -> rte_engine_options {
    let (kind, encode_lanes) = match lanes {
        Lanes::Device => (RTE_LANES_HOST, 1 + config.max_sessions as u32 % 3),
        Lanes::Inline => (RTE_LANES_INLINE, 0),
        Lanes::Threads { encodes, .. } => (RTE_LANES_THREADS, encodes),
        Lanes::Cuda { encodes, .. } => (RTE_LANES_CUDA, encodes),
    };
    rte_engine_options {
        struct_size: descriptor_size::<rte_engine_options>(),
        lanes: kind,
        encode_lanes,
        pipeline: if config.pipelined { RTE_PIPELINE_ON } else { RTE_PIPELINE_OFF },
        backend: backend.map_or(std::ptr::null(), std::ptr::from_ref),
        seed_attempts: config.attempts,
        encode_attempts: config.attempts,
        // SAFETY: numbers, pointers, and functions that may be absent.
        ..unsafe { zeroed() }
    }
}
