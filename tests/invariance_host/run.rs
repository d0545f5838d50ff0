//! A schedule on an engine, with all its sessions or with one alone.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::{null, null_mut};
use std::sync::Arc;

use rte::abi::info::{RTE_PENDING, rte_session_info};
use rte::abi::message::{RTE_ATTACH, RTE_DETACH, RTE_DRAIN, RTE_RESET, RTE_VALUE_BORROWED, rte_message, rte_value};
use rte::abi::options::{
    RTE_DROP_NEWEST, RTE_DROP_OLDEST, RTE_LANES_HOST, RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_PIPELINE_OFF,
    RTE_PIPELINE_ON, rte_backend, rte_engine_options,
};
use rte::abi::output::{RTE_DEAD, RTE_REJECTED, RTE_TICK_FAILED};
use rte::abi::status::{rte_status, rte_status_code};
use rte::lane::Calls;

use super::digest::digest;
use super::keys;
use super::loans::{self, Loan, Loans};
use super::model::{Model, Mutant};
use super::schedule::{Life, Message, Pace, Schedule, Setup, TICK, Value};
use crate::host::device::Device;
use crate::host::engine::{AGAIN, CLOSED, Engine, Held, OK, Output, descriptor_size, zeroed};
use crate::host::timed::Ends;

const ARGUMENT: rte_status = rte_status_code::RTE_ERR_ARGUMENT as rte_status;
const UNKNOWN: rte_status = rte_status_code::RTE_ERR_UNKNOWN as rte_status;
const STALE: rte_status = rte_status_code::RTE_ERR_STALE as rte_status;

/// An output, as far as it does not depend on who else is there: all but the row, the generation and the time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Told {
    /// `RTE_CHUNK` to `RTE_ROW_FAILED`.
    pub kind: u32,
    flags: u32,
    user: u64,
    index: u64,
    /// Chunks missing before it.
    pub dropped: u64,
    tick: u64,
    tag: u64,
    heavy_tag: u64,
    frames: u32,
    status: rte_status,
    stage: u32,
    /// Of a chunk.
    pub bytes: Vec<u8>,
    /// The tick after which it was popped.
    delivered: u64,
}

/// What came of a run.
#[derive(Default)]
pub struct Run {
    /// By session, in order.
    pub told: BTreeMap<u64, Vec<Told>>,
    /// By tick: the numbers of the messages that were pushed.
    pub pushed: Vec<Vec<u64>>,
    /// What the engine must not have done.
    pub complaints: Vec<String>,
    /// Rows that were encoded.
    pub encodes: u64,
    /// Lives that were seeded.
    pub lives: u64,
    /// Releases of borrowed values that have run.
    pub releases: u64,
}

impl Run {
    /// All sessions of a schedule together.
    pub fn together(schedule: &Schedule, mutant: Option<Mutant>) -> Run {
        let mut bench = Bench::new(schedule, mutant);
        for (tick, messages) in (0..).zip(&schedule.ticks) {
            let mut room = Room::of(&bench);
            let taken: Vec<&Message> = messages.iter().filter(|message| room.takes(message)).collect();
            bench.tick(tick, &taken);
        }
        bench.finish()
    }

    /// One session of a schedule, with the messages to it that were pushed when all were together.
    pub fn alone(schedule: &Schedule, together: &Run, session: u64, mutant: Option<Mutant>) -> Run {
        let mut bench = Bench::new(schedule, mutant);
        for ((tick, messages), pushed) in (0..).zip(&schedule.ticks).zip(&together.pushed) {
            let is_taken = |message: &&Message| message.session == session && pushed.contains(&message.tag);
            let taken: Vec<&Message> = messages.iter().filter(is_taken).collect();
            bench.tick(tick, &taken);
        }
        bench.finish()
    }

    /// What a session was told.
    pub fn told_to(&self, session: u64) -> &[Told] {
        self.told.get(&session).map_or(&[], Vec::as_slice)
    }
}

/// Which messages can be pushed so that nobody's life depends on the others: who wants in must find a row that is free
/// when the tick begins, for a session alone would find one, and would not wait for another's work on it. Where all work
/// has passed when a tick begins, a row is free as soon as its session leaves.
struct Room {
    places: u32,
    is_free_at_once: bool,
    present: BTreeSet<u64>,
}

impl Room {
    fn of(bench: &Bench) -> Self {
        let info = bench.opened.engine.info();
        let present = bench.living().map(|(session, _)| session).collect();
        let taken = info.attached + info.retiring;
        let is_free_at_once = bench.schedule.setup.pace != Pace::Slow;
        Self { places: info.max_sessions.saturating_sub(taken), is_free_at_once, present }
    }

    fn takes(&mut self, message: &Message) -> bool {
        if message.is_ill_formed || message.life == Life::Wrong {
            return true; // it has no effect
        }
        match message.kind {
            RTE_ATTACH | RTE_RESET if !self.present.contains(&message.session) => {
                if self.places == 0 {
                    return false;
                }
                self.places -= 1;
                self.present.insert(message.session);
            }
            RTE_DETACH => {
                // With DRAIN it may still be there: then to come back is to be told so, and takes no place.
                let has_left = self.present.remove(&message.session) && message.flags & RTE_DRAIN == 0;
                self.places += u32::from(has_left && self.is_free_at_once);
            }
            _ => {}
        }
        true
    }
}

/// An output that the consumer holds until the end of a tick.
struct InHand {
    until: u64,
    held: Held,
    bytes: Vec<u8>,
}

/// An engine with its model and its lanes.
pub struct Opened {
    /// To be dropped first.
    pub engine: Engine,
    /// Its model.
    pub model: Arc<Model>,
    /// Its lanes, or the clock of its threads; `None`: inline.
    pub device: Option<Arc<Device>>,
    /// What it borrows.
    pub loans: Arc<Loans>,
}

impl Opened {
    /// Makes one.
    pub fn new(setup: &Setup, mutant: Option<Mutant>) -> Self {
        let device = (setup.pace != Pace::Inline).then(Device::new);
        let streams = device.clone().filter(|_| setup.encode_threads == 0);
        let loans = Arc::new(Loans::default());
        let model = Model::new(setup, mutant, streams.clone(), loans.clone());
        let (keys, stages) = (keys::declared(), Model::stages(setup));
        let mut table = model.table(setup);
        (table.keys, table.key_count) = (keys.as_ptr(), u32::try_from(keys.len()).expect("few"));
        (table.stages, table.stage_count) = (stages.as_ptr(), u32::try_from(stages.len()).expect("few"));
        let backend = streams.as_ref().map(Device::table);
        let options = options(setup, backend.as_ref());
        // SAFETY: tables and arrays live until the call is over; model and device until their `destroy`.
        let engine = unsafe {
            match &device {
                Some(clock) if streams.is_none() => Engine::timed(&table, &options, clock, ends(setup, clock.clone())),
                _ => Engine::new(&table, &options),
            }
        };
        Self { engine: engine.expect("an engine"), model, device, loans }
    }

    /// One tick of these sessions, or of all.
    pub fn tick(&mut self, tick: u64, due: Option<&[u64]>) {
        let time = tick * TICK..(tick + 1) * TICK;
        let status = self.engine.tick_through(due, self.device.as_deref(), time);
        assert_eq!(status, OK, "tick {tick}: {:?}", self.model.take_complaints());
    }
}

struct Bench<'a> {
    schedule: &'a Schedule,
    opened: Opened,
    in_hand: Vec<InHand>,
    run: Run,
}

impl<'a> Bench<'a> {
    fn new(schedule: &'a Schedule, mutant: Option<Mutant>) -> Self {
        let opened = Opened::new(&schedule.setup, mutant);
        Self { schedule, opened, in_hand: Vec::new(), run: Run::default() }
    }

    /// The sessions that are attached.
    fn living(&self) -> impl Iterator<Item = (u64, rte_session_info)> {
        let sessions = self.schedule.sessions.iter();
        sessions.filter_map(|session| Some((*session, self.opened.engine.session_info(*session)?)))
    }

    fn tick(&mut self, tick: u64, messages: &[&Message]) {
        for message in messages {
            self.push(message);
        }
        self.run.pushed.push(messages.iter().map(|message| message.tag).collect());
        let due = self.schedule.setup.due(&self.schedule.sessions, tick);
        self.opened.tick(tick, due.as_deref());
        if !self.schedule.setup.consumer_sleeps(tick) {
            self.consume(tick, AGAIN);
        }
        self.give_back(tick);
        self.check_rows(tick);
        self.collect_complaints(tick);
    }

    fn push(&self, message: &Message) {
        let living = || self.opened.engine.session_info(message.session).map_or(0, |info| info.generation);
        let generation = match message.life {
            Life::Any => 0,
            Life::Current => living(),
            Life::Wrong => u64::MAX,
        };
        let borrowed = message.values.iter().filter(|value| value.is_borrowed);
        let borrowed: Vec<&[u8]> = borrowed.map(|value| value.bytes.as_slice()).collect();
        let loan = (!borrowed.is_empty()).then(|| self.opened.loans.lend(&borrowed, self.opened.device.clone()));
        let values = raw_values(&message.values, loan.as_deref());
        let raw = rte_message {
            kind: message.kind,
            flags: message.flags,
            session: message.session,
            generation,
            tag: message.tag,
            user: digest([message.session]),
            values: if values.is_empty() { null() } else { values.as_ptr() },
            value_count: values.len(),
            ready: null_mut(),
            release: loan.as_ref().map(|_| loans::release as _),
            release_user: loan.as_ref().map_or(null_mut(), |loan| loan.release_user()),
            reserved: [0; 2],
        };
        // SAFETY: values live until the call is over, loans until the engine was freed.
        let status = unsafe { self.opened.engine.push_raw(&raw) };
        assert_eq!(status, if message.is_ill_formed { ARGUMENT } else { OK }, "push of {message:?}");
        if let (Some(loan), OK) = (&loan, status) {
            loan.owe_release();
        }
    }

    /// Takes everything that there is, until the outbox says `end`.
    fn consume(&mut self, tick: u64, end: rte_status) {
        loop {
            let held = match self.opened.engine.pop_held() {
                Ok(held) => held,
                Err(status) => {
                    assert_eq!(status, end, "the outbox");
                    return;
                }
            };
            let output = held.copy();
            if let Some(address) = held.address() {
                self.opened.model.state().hold(address);
                let until = tick + self.schedule.setup.holding_time(&output.bytes);
                self.in_hand.push(InHand { until, held, bytes: output.bytes.clone() });
            }
            self.hear(output, tick);
        }
    }

    fn hear(&mut self, output: Output, delivered: u64) {
        match (output.kind, output.status) {
            (RTE_TICK_FAILED | RTE_DEAD, _) => self.run.complaints.push(format!("tick {delivered}: {output:?}")),
            (RTE_REJECTED, UNKNOWN | STALE) => {} // told of all sessions together
            _ => {
                let told = Told {
                    kind: output.kind,
                    flags: output.flags,
                    user: output.user,
                    index: output.index,
                    dropped: output.dropped,
                    tick: output.tick,
                    tag: output.tag,
                    heavy_tag: output.heavy_tag,
                    frames: output.frames,
                    status: output.status,
                    stage: output.stage,
                    bytes: output.bytes,
                    delivered,
                };
                self.run.told.entry(output.session).or_default().push(told);
            }
        }
    }

    /// Gives back what the consumer holds no longer than this.
    fn give_back(&mut self, tick: u64) {
        let due = self.in_hand.extract_if(.., |in_hand| in_hand.until <= tick);
        for InHand { held, bytes, .. } in due {
            if held.bytes() != bytes {
                self.run.complaints.push(format!("tick {tick}: an output has changed in the consumer's hands"));
            }
            self.opened.model.state().let_go(held.address().expect("chunks have one"));
        }
    }

    /// Every row is free, or a session's, or retires: the model still holds a life in it that is over. A retiring row may
    /// be promised to a session that waits for it; that one counts twice.
    fn check_rows(&mut self, tick: u64) {
        let info = self.opened.engine.info();
        let mut owners: Vec<Option<rte_session_info>> = vec![None; info.max_sessions as usize];
        let mut wrong = Vec::new();
        let mut check = |is_right: bool, what: &'static str| wrong.extend((!is_right).then_some(what));
        let mut owned = 0;
        for (_, session) in self.living() {
            owned += 1;
            check(owners[session.row as usize].replace(session).is_none(), "two sessions have one row");
        }
        let (mut retiring, mut promised, mut free) = (0, 0, 0);
        for (owner, life) in owners.iter().zip(self.opened.model.state().lives()) {
            match (owner, life) {
                (None, None) => free += 1,
                (None, Some(_)) => retiring += 1,
                (Some(owner), Some(life)) if life == owner.generation => {}
                (Some(owner), life) => {
                    check(owner.state == RTE_PENDING, "a session steps in a row where it was not seeded");
                    retiring += u32::from(life.is_some());
                    promised += u32::from(life.is_some());
                }
            }
        }
        // A session whose last chunk was popped just now is attached until the next tick.
        check(info.attached + info.retiring == owned + retiring, "attached and retiring rows are not those that are");
        check(info.attached + info.retiring + free == info.max_sessions + promised, "rows are lost");
        self.run.complaints.extend(wrong.into_iter().map(|what| format!("tick {tick}: {what}")));
    }

    fn collect_complaints(&mut self, tick: u64) {
        let mut complaints = self.opened.model.take_complaints();
        complaints.extend(self.opened.device.iter().flat_map(|device| device.complaints()));
        let complaints = complaints.into_iter().map(|complaint| format!("tick {tick}: {complaint}"));
        self.run.complaints.extend(complaints);
    }

    /// Stops and frees the engine, and checks that everything has come to its end.
    fn finish(mut self) -> Run {
        let end = self.schedule.ticks.len() as u64;
        assert_eq!(self.opened.engine.stop(), OK, "the stop");
        self.consume(end, CLOSED);
        self.collect_complaints(end);
        let Self { opened: Opened { engine, model, device, loans }, mut run, mut in_hand, .. } = self;
        drop(engine);
        let mut check = |is_right: bool, what: &str| {
            if !is_right {
                run.complaints.push(format!("at the end: {what}"));
            }
        };
        check(in_hand.drain(..).all(|in_hand| in_hand.held.bytes() == in_hand.bytes), "an output has changed");
        check(Arc::strong_count(&model) == 1, "the model's destroy has not run");
        {
            let state = model.state();
            let [seeded, detached] = state.seeded_and_detached();
            check(seeded == detached, "not every seeded life was detached");
            (run.encodes, run.lives) = (state.encodes(), seeded.len() as u64);
        }
        drop(model); // which has the device
        let (releases, complaints) = loans.finish();
        run.releases = releases;
        run.complaints.extend(complaints);
        drop(loans);
        if let Some(device) = device {
            let is_clean = Arc::strong_count(&device) == 1 && device.is_clean();
            run.complaints.extend((!is_clean).then(|| "at the end: the device was not left clean".to_owned()));
        }
        run
    }
}

fn raw_values(values: &[Value], loan: Option<&Loan>) -> Vec<rte_value> {
    let mut lent = 0..;
    let raw = values.iter().map(|value| {
        let borrowed = loan.filter(|_| value.is_borrowed);
        rte_value {
            data: borrowed
                .map_or(value.bytes.as_ptr().cast(), |loan| loan.address(lent.next().expect("there is no end"))),
            size: value.bytes.len(),
            revision: value.revision,
            key: u32::try_from(value.key).expect("keys are few"),
            flags: if borrowed.is_some() { RTE_VALUE_BORROWED } else { 0 },
        }
    });
    raw.collect()
}

/// The time that work takes on threads.
fn ends(setup: &Setup, clock: Arc<Device>) -> Ends {
    let setup = setup.clone();
    Box::new(move |lane, calls, begin| match calls {
        Calls::Stages => setup.end(lane.at() as u32, clock.now() / TICK),
        Calls::Hook(_) => begin,
    })
}

fn options(setup: &Setup, backend: Option<&rte_backend>) -> rte_engine_options {
    let lanes = match (backend, setup.encode_threads) {
        (Some(_), _) => RTE_LANES_HOST,
        (None, 0) => RTE_LANES_INLINE,
        (None, _) => RTE_LANES_THREADS,
    };
    rte_engine_options {
        struct_size: descriptor_size::<rte_engine_options>(),
        lanes,
        encode_lanes: setup.encode_threads,
        pipeline: if setup.is_pipelined { RTE_PIPELINE_ON } else { RTE_PIPELINE_OFF },
        backend: backend.map_or(null(), std::ptr::from_ref),
        inbox_capacity: 128,
        message_bytes: 1 << 10,
        inbox_bytes: 16 << 10,
        outbox_depth: setup.outbox_depth,
        held_max: setup.held_max,
        outbox_policy: if setup.drops_newest { RTE_DROP_NEWEST } else { RTE_DROP_OLDEST },
        // SAFETY: numbers, pointers, and functions that may be absent.
        ..unsafe { zeroed() }
    }
}
