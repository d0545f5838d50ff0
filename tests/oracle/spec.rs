//! The tick as an executable specification, with one switch for each rule in which the engine departs from the
//! reference. All switches off is the reference, all on is what the engine must do.
//!
//! Written to be read and compared, not to be fast: rows and sessions are looked up by walking short lists.

mod boundary;
mod places;
mod seeding;
mod step;
mod switch;

use std::collections::BTreeMap;

use super::digest::{self, Values};
use super::outcome::{Call, Failure, Notice, Phase, SessionState, TickResult};
use super::schedule::{Config, Fault, Hook, SessionName, TickInput, Version};

pub use switch::{Switch, Switches};

/// When it is seen, and acted on, what a call came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Statuses {
    /// When it returns.
    AtReturn,
    /// When its work is done. That of ENCODE takes its time.
    AtFence {
        /// HOT of a pipelined tick is done only when the next one has begun.
        hot_outlasts: bool,
    },
}

/// Encodes that a row sits out before it steps once.
const ENCODES_RUNNING: u32 = 2;

/// Whole-batch failures of a lane in a row before it runs its rows singly.
const LOSSES_BEFORE_ISOLATION: u32 = 2;

/// An attached session.
#[derive(Clone)]
struct Session {
    name: SessionName,
    row: usize,
    generation: u64,
    active: bool,
    /// What the ACTIONs of this life have set.
    conditioning: Values,
    /// The context of the last ATTACH or RESET, which an empty RESET uses again.
    context: Option<Values>,
    life: Life,
}

/// What starts over with every life.
#[derive(Clone, Default)]
struct Life {
    /// Set until the row is seeded.
    pending: Option<Pending>,
    /// Chunks since the seed.
    age: i64,
    /// The heavy values that HOT sees.
    applied: Values,
    /// Encodes started since the last HOT was issued.
    encodes_since_hot: u32,
    failed_seeds: u32,
    /// Failed encode calls in a row.
    failed_encodes: u32,
    /// The row is quarantined.
    quarantined: bool,
    /// DETACH with DRAIN was accepted while a chunk was in flight.
    leaving: bool,
}

/// A row that waits for its seed.
#[derive(Clone)]
struct Pending {
    context: Values,
    /// Counts up: the order in which rows became pending.
    order: u64,
}

impl Session {
    fn is_seeded(&self) -> bool {
        self.life.pending.is_none()
    }
}

/// What the model keeps of a row, from its seed to its detach.
#[derive(Clone)]
struct ModelRow {
    seed: i64,
    heavy: u8,
}

/// A running encode of one row.
#[derive(Clone)]
struct Encode {
    row: usize,
    /// The heavy values it makes.
    wanted: Values,
    /// The first tick whose step sees it done.
    ready_at: i64,
    outcome: EncodeOutcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum EncodeOutcome {
    Succeeded,
    /// The row's own status is an error.
    RowFailed,
    /// The whole call failed.
    CallFailed,
}

/// A row whose session left while it was encoding: not reusable before the encode has ended.
#[derive(Clone)]
struct Retiring {
    ready_at: i64,
    session: SessionName,
}

/// The rows that HOT ran, and what they made.
#[derive(Clone, Default)]
struct Batch {
    slots: BTreeMap<usize, Slot>,
    /// What HOT came to, until that is acted on.
    unseen: Option<LaneResult>,
}

#[derive(Clone)]
struct Slot {
    session: SessionName,
    /// Set by HOT.
    value: u8,
}

/// What became of the rows of one lane's stages.
#[derive(Clone, Default)]
struct LaneResult {
    succeeded: Vec<usize>,
    /// Rows whose own status is an error, or that failed when run alone.
    failed: Vec<usize>,
    /// The batch is lost as a whole.
    lost: bool,
}

/// A session that this tick is to step, with the conditioning it is stepped with.
struct Due {
    session: SessionName,
    conditioning: Values,
}

/// The specification, between two ticks.
#[derive(Clone)]
pub struct Spec {
    config: Config,
    version: Version,
    switches: Switches,
    statuses: Statuses,
    /// In order of attachment.
    sessions: Vec<Session>,
    /// An ill-formed ATTACH took this row before it killed the loop (reference only).
    half_attached: Option<(SessionName, usize)>,
    generations: u64,
    pendings: u64,
    model: BTreeMap<usize, ModelRow>,
    /// In order of their start.
    encodes: Vec<Encode>,
    encode_lane_free_at: i64,
    /// When calls of ENCODE end that have failed and of which nobody was told.
    untold_encodes: Vec<i64>,
    retiring: BTreeMap<usize, Retiring>,
    in_flight: Option<Batch>,
    /// Whole-batch failures in a row.
    hot_losses: u32,
    deferred_losses: u32,
    now: Now,
}

/// The tick that is being run.
#[derive(Clone, Default)]
struct Now {
    tick: i64,
    faults: Vec<Fault>,
    encode_ticks: i64,
    /// Sessions whose chunks were collected and that did not fail.
    collected: Vec<SessionName>,
    result: TickResult,
}

impl Spec {
    /// A fresh engine.
    pub fn new(config: &Config, version: Version, switches: Switches) -> Self {
        Self {
            config: config.clone(),
            version,
            switches,
            statuses: Statuses::AtReturn,
            sessions: Vec::new(),
            half_attached: None,
            generations: 0,
            pendings: 0,
            model: BTreeMap::new(),
            encodes: Vec::new(),
            encode_lane_free_at: 0,
            untold_encodes: Vec::new(),
            retiring: BTreeMap::new(),
            in_flight: None,
            hot_losses: 0,
            deferred_losses: 0,
            now: Now::default(),
        }
    }

    /// The same, on other lanes.
    pub fn seeing(self, statuses: Statuses) -> Self {
        Self { statuses, ..self }
    }

    /// Runs one tick.
    pub fn tick(&mut self, input: &TickInput) -> TickResult {
        self.begin_tick(input);
        self.drain_inbox(input);
        if self.now.result.dead.is_none() {
            self.step_and_finalize(input);
        }
        self.report()
    }

    /// The generation that a session would have once these messages were drained; `None` if it is not attached then.
    pub fn generation_after(&self, input: &TickInput, session: &str) -> Option<u64> {
        let mut preview = self.clone();
        preview.begin_tick(input);
        preview.drain_inbox(input);
        preview.session(session).map(|found| found.generation)
    }

    /// The names of the attached sessions, in order of attachment.
    pub fn session_names(&self) -> impl Iterator<Item = &str> {
        self.sessions.iter().map(|session| session.name.as_str())
    }

    fn begin_tick(&mut self, input: &TickInput) {
        self.now = Now {
            tick: input.number,
            faults: input.faults.clone(),
            encode_ticks: input.encode_ticks.unwrap_or(self.config.encode_ticks),
            ..Now::default()
        };
    }

    fn step_and_finalize(&mut self, input: &TickInput) {
        let due = self.due(input);
        let called = input.due.is_some();
        if due.is_empty() && !called && !self.is_on(Switch::Flush) {
            return;
        }
        // A failure was noted where it happened. It ends the tick; what was delivered before it stays so.
        let Ok(outputs) = self.step(&due) else { return };
        self.now.result.outputs = outputs;
        if self.end_leaving_sessions().is_err() {
            return;
        }
        let (sessions, wanted) = if self.is_on(Switch::Finalize) {
            let collected = self.now.collected.clone();
            let wanted = !collected.is_empty();
            (collected, wanted)
        } else {
            let names: Vec<SessionName> = due.into_iter().map(|due| due.session).collect();
            let wanted = called || !names.is_empty();
            (names, wanted)
        };
        if wanted && self.call(Hook::Finalize, &[], &sessions).is_err() {
            self.note(Notice::TickFailed(Hook::Finalize));
        }
    }

    /// The sessions to step, each once: those the host names, else every active one.
    fn due(&self, input: &TickInput) -> Vec<Due> {
        let Some(names) = &input.due else {
            let active = self.sessions.iter().filter(|session| session.active);
            return active.map(Due::of).collect();
        };
        let mut due: Vec<Due> = Vec::new();
        for name in names {
            if due.iter().any(|known| known.session == *name) {
                continue;
            }
            match self.session(name) {
                Some(session) if session.active || !self.is_on(Switch::DuePause) => {
                    due.push(Due::of(session));
                }
                Some(_) => {}
                None => due.push(Due { session: name.clone(), conditioning: Values::new() }),
            }
        }
        due
    }

    /// Sessions that left with DRAIN go once what was in flight came out.
    fn end_leaving_sessions(&mut self) -> Result<(), Failure> {
        let mut leaving: Vec<(usize, SessionName)> = self
            .sessions
            .iter()
            .filter(|session| session.life.leaving)
            .map(|session| (session.row, session.name.clone()))
            .collect();
        leaving.sort();
        for (_, name) in leaving {
            self.drop_session(&name)?;
        }
        Ok(())
    }

    fn report(&mut self) -> TickResult {
        let mut result = std::mem::take(&mut self.now.result);
        result.state = self.sessions.iter().map(|s| self.state_of(s)).collect();
        if let Some((name, row)) = &self.half_attached {
            result.state.push(SessionState {
                session: name.clone(),
                row: *row,
                age: -1,
                phase: Phase::Pending,
                applied: Values::new(),
            });
        }
        result.state.sort_by_key(|state| state.row);
        result.in_flight = self.in_flight.as_ref().map(|batch| batch.slots.keys().copied().collect());
        if self.version.has_pauses() {
            let paused = self.sessions.iter().filter(|session| !session.active);
            result.paused = paused.map(|session| session.name.clone()).collect();
            result.paused.sort();
        }
        if !self.is_on(Switch::Answers) {
            result.unknown = 0;
        }
        result
    }

    fn state_of(&self, session: &Session) -> SessionState {
        let phase = if session.life.quarantined {
            Phase::Quarantined
        } else if !session.is_seeded() {
            Phase::Pending
        } else if self.is_encoding(session.row) {
            Phase::Encoding
        } else {
            Phase::Ready
        };
        SessionState {
            session: session.name.clone(),
            row: session.row,
            age: if session.is_seeded() { session.life.age } else { -1 },
            phase,
            applied: session.life.applied.clone(),
        }
    }

    /// Calls one callback. Gives the rows whose status is an error, or fails as a whole.
    fn call(&mut self, hook: Hook, rows: &[usize], sessions: &[SessionName]) -> Result<Vec<usize>, Failure> {
        let faults = &self.now.faults;
        let failed = faults.iter().any(|f| f.strikes_call(hook, sessions));
        let bad = rows.iter().zip(sessions);
        let bad = bad.filter(|(_, name)| faults.iter().any(|f| f.strikes_row(hook, name)));
        let bad = bad.map(|(row, _)| *row).collect();

        self.now.result.calls.push(Call { hook, failed, rows: rows.to_vec(), sessions: sessions.to_vec() });
        if !failed {
            return Ok(bad);
        }
        let failure = Failure::Hook(hook);
        if !self.now.result.errors.contains(&failure) {
            self.now.result.errors.push(failure);
        }
        Err(failure)
    }

    fn is_on(&self, switch: Switch) -> bool {
        self.switches.has(switch)
    }

    fn note(&mut self, notice: Notice) {
        self.now.result.notices.push(notice);
    }

    fn session(&self, name: &str) -> Option<&Session> {
        self.sessions.iter().find(|session| session.name == name)
    }

    fn session_mut(&mut self, name: &str) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.name == name)
    }

    /// The session of a row that is known to have one.
    fn at(&self, row: usize) -> &Session {
        let found = self.sessions.iter().find(|session| session.row == row);
        found.expect("the row has a session")
    }

    fn at_mut(&mut self, row: usize) -> &mut Session {
        let found = self.sessions.iter_mut().find(|session| session.row == row);
        found.expect("the row has a session")
    }

    fn names_of(&self, rows: &[usize]) -> Vec<SessionName> {
        rows.iter().map(|row| self.at(*row).name.clone()).collect()
    }

    fn is_encoding(&self, row: usize) -> bool {
        self.encodes.iter().any(|encode| encode.row == row)
    }

    /// The sum of the heavy entries.
    fn heavy_sum(&self, values: &Values) -> u8 {
        digest::collapse(values.iter().filter(|(key, _)| self.config.is_heavy(key)))
    }

    /// The sum of the other entries.
    fn cheap_sum(&self, values: &Values) -> u8 {
        digest::collapse(values.iter().filter(|(key, _)| !self.config.is_heavy(key)))
    }

    /// The heavy entries alone.
    fn heavy_part(&self, values: &Values) -> Values {
        let heavy = values.iter().filter(|(key, _)| self.config.is_heavy(key));
        heavy.map(|(key, value)| (key.clone(), value.clone())).collect()
    }

    /// Takes a row out of the cohort for good: it gives nothing until it is reset or detached.
    fn quarantine(&mut self, row: usize, hook: Hook) {
        let session = self.at_mut(row);
        if session.life.quarantined {
            return;
        }
        session.life.quarantined = true;
        let notice = Notice::RowFailed(session.name.clone(), session.generation, hook);
        self.note(notice);
    }
}

impl Due {
    fn of(session: &Session) -> Self {
        Self { session: session.name.clone(), conditioning: session.conditioning.clone() }
    }
}
