//! What comes out of a tick.

use std::fmt;

use serde_json::{Value, json};

use super::python;
use super::schedule::{Hook, SessionName, Values};

/// One call of a callback.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// Which one.
    pub hook: Hook,
    /// It failed as a whole.
    pub failed: bool,
    /// The rows of its batch, in the order given; none for finalize, which is told sessions.
    pub rows: Vec<usize>,
    /// The sessions of its batch, in the same order.
    pub sessions: Vec<SessionName>,
}

impl fmt::Display for Call {
    /// The form of the traces: a letter, `!` if it failed, the rows (finalize: the sessions).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mark = if self.failed { "!" } else { "" };
        let batch = if self.hook == Hook::Finalize {
            self.sessions.join(",")
        } else {
            let rows: Vec<String> = self.rows.iter().map(usize::to_string).collect();
            rows.join(",")
        };
        write!(f, "{}{mark}{batch}", self.hook.letter())
    }
}

/// Why an ATTACH or a RESET was rejected.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reason {
    /// Every row has a session.
    Full,
    /// Another row is seeded, and the engine takes no one in mid-run.
    Midrun,
    /// Its seed failed.
    Seed,
    /// The session is leaving: its last chunk is still in flight.
    Draining,
}

impl Reason {
    /// Every reason with its name.
    pub const NAMES: [(Self, &'static str); 4] =
        [(Self::Full, "full"), (Self::Midrun, "midrun"), (Self::Seed, "seed"), (Self::Draining, "draining")];

    /// The name in a trace.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The reason of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(_, known)| *known == name);
        found.map(|(reason, _)| *reason)
    }
}

/// What went wrong in a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// A call of this hook failed as a whole.
    Hook(Hook),
    /// A message's payload was not a dict.
    IllFormed,
}

impl Failure {
    /// The name in a trace.
    pub fn name(self) -> &'static str {
        match self {
            Self::Hook(hook) => hook.name(),
            Self::IllFormed => "TypeError",
        }
    }

    /// The failure of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        if name == Self::IllFormed.name() { Some(Self::IllFormed) } else { Hook::from_name(name).map(Self::Hook) }
    }
}

/// What a session, or the engine's owner, is told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Notice {
    /// A life's seed has succeeded.
    Attached(SessionName, u64),
    /// An ATTACH of a session that was attached.
    Already(SessionName, u64),
    /// An ATTACH or RESET was rejected; generation 0 if it never had a life.
    Rejected(SessionName, u64, Reason),
    /// A life has ended.
    Detached(SessionName, u64),
    /// The session's row was quarantined.
    RowFailed(SessionName, u64, Hook),
    /// A call failed as a whole.
    TickFailed(Hook),
}

impl Notice {
    /// Whom it is about; `None` is the engine.
    pub fn session(&self) -> Option<&str> {
        match self {
            Self::Attached(session, _)
            | Self::Already(session, _)
            | Self::Rejected(session, _, _)
            | Self::Detached(session, _)
            | Self::RowFailed(session, _, _) => Some(session),
            Self::TickFailed(_) => None,
        }
    }

    /// The kind's name in a trace.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Attached(..) => "attached",
            Self::Already(..) => "already",
            Self::Rejected(..) => "rejected",
            Self::Detached(..) => "detached",
            Self::RowFailed(..) => "row_failed",
            Self::TickFailed(..) => "tick_failed",
        }
    }

    /// The form of the traces.
    pub fn to_json(&self) -> Value {
        let kind = self.kind();
        match self {
            Self::Attached(session, generation)
            | Self::Already(session, generation)
            | Self::Detached(session, generation) => json!([kind, session, generation]),
            Self::Rejected(session, generation, reason) => {
                json!([kind, session, generation, reason.name()])
            }
            Self::RowFailed(session, generation, hook) => {
                json!([kind, session, generation, hook.name()])
            }
            Self::TickFailed(hook) => json!([kind, hook.name()]),
        }
    }
}

/// Where an attached session stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Not seeded yet.
    Pending,
    /// Sits out while its change is encoded.
    Encoding,
    /// Can step.
    Ready,
    /// Failed; stays out until it is reset or detached.
    Quarantined,
}

impl Phase {
    /// Every phase with its letter.
    pub const NAMES: [(Self, &'static str); 4] =
        [(Self::Pending, "p"), (Self::Encoding, "e"), (Self::Ready, "r"), (Self::Quarantined, "q")];

    /// The letter in a trace.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }
}

/// An attached session after a tick.
#[derive(Clone, Debug)]
pub struct SessionState {
    /// Its name.
    pub session: SessionName,
    /// Its row.
    pub row: usize,
    /// Chunks since its seed; -1 before it.
    pub age: i64,
    /// Where it stands.
    pub phase: Phase,
    /// The heavy values that HOT sees.
    pub applied: Values,
}

impl PartialEq for SessionState {
    /// Applied values are compared as Python does.
    fn eq(&self, other: &Self) -> bool {
        let plain = |state: &Self| (state.session.clone(), state.row, state.age, state.phase);
        plain(self) == plain(other) && same_values(&self.applied, &other.applied)
    }
}

/// Whether two dicts are equal as Python sees it.
pub fn same_values(a: &Values, b: &Values) -> bool {
    a.len() == b.len() && a.iter().all(|(key, value)| b.get(key).is_some_and(|other| python::equal(value, other)))
}

/// Everything that one tick gives.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickResult {
    /// Chunks delivered, in order: session and the byte that fills the chunk.
    pub outputs: Vec<(SessionName, u8)>,
    /// Rejected attaches and resets, in order.
    pub rejected: Vec<(SessionName, Reason)>,
    /// Callbacks called, in order.
    pub calls: Vec<Call>,
    /// Kinds of failures, in the order of their first call.
    pub errors: Vec<Failure>,
    /// The loop itself died of this (reference only).
    pub dead: Option<Failure>,
    /// Tick-lengths for which a drain blocked (reference only).
    pub stall: i64,
    /// Attached sessions, by row.
    pub state: Vec<SessionState>,
    /// Rows of the batch in flight, if there is one.
    pub in_flight: Option<Vec<usize>>,
    /// Paused sessions, by name.
    pub paused: Vec<SessionName>,
    /// Notices in order.
    pub notices: Vec<Notice>,
    /// Actions and pauses to unknown sessions.
    pub unknown: u64,
    /// Messages to a life that is not the living one.
    pub stale: u64,
}

impl TickResult {
    /// The text forms of the calls that `keep` accepts, in order.
    pub fn calls_of(&self, keep: impl Fn(Hook) -> bool) -> Vec<String> {
        self.calls.iter().filter(|call| keep(call.hook)).map(Call::to_string).collect()
    }

    /// Each session's notices in order, sessions sorted; the engine's own come first. Notices of different sessions
    /// have no order among them.
    pub fn notices_by_session(&self) -> Vec<Notice> {
        sort_by_session(&self.notices)
    }
}

/// Notices sorted by session; each session's own stay in order.
pub fn sort_by_session(notices: &[Notice]) -> Vec<Notice> {
    let mut sorted = notices.to_vec();
    sorted.sort_by(|a, b| a.session().cmp(&b.session()));
    sorted
}
