//! What goes into a scenario: its configuration, and for each tick the messages, the armed faults and the due set.

use std::fmt;

pub use super::digest::Values;

/// A session's name.
pub type SessionName = String;

/// Which program a scenario describes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// The first reference, which has no pauses.
    V020,
    /// The second reference.
    V030,
    /// The engine under test.
    Rte,
}

impl Version {
    /// Every version with its name in a trace.
    pub const NAMES: [(Self, &'static str); 3] = [(Self::V020, "0.2"), (Self::V030, "0.3"), (Self::Rte, "rte")];

    /// Whether sessions can be paused.
    pub fn has_pauses(self) -> bool {
        self != Self::V020
    }
}

/// When pending rows may be seeded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// When this many are pending.
    Pending(usize),
    /// When this many are pending, or the model holds a seeded row already.
    First(usize),
}

impl Gate {
    /// The answer of the hook.
    pub fn is_open(self, pending: usize, model_holds_a_row: bool) -> bool {
        match self {
            Self::Pending(needed) => pending >= needed,
            Self::First(needed) => pending >= needed || model_holds_a_row,
        }
    }
}

/// How the engine and its model are built.
#[derive(Clone, Debug, PartialEq)]
pub struct Config {
    /// Rows of the arena.
    pub max_sessions: usize,
    /// DEFERRED of a batch overlaps HOT of the next.
    pub pipelined: bool,
    /// Sessions may attach while another is seeded.
    pub midrun: bool,
    /// The readiness hook; `None` is always ready.
    pub gate: Option<Gate>,
    /// Keys whose change needs an encode.
    pub heavy: Vec<String>,
    /// The model has an ENCODE stage.
    pub has_encode: bool,
    /// How many ticks an encode takes.
    pub encode_ticks: i64,
    /// A drain of the lanes blocks until running encodes have ended (reference only).
    pub drain_blocks: bool,
    /// A failed HOT can be run again.
    pub retry_safe: bool,
    /// Failed seed or encode calls that a row survives, plus one.
    pub attempts: u32,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            max_sessions: 4,
            pipelined: true,
            midrun: true,
            gate: None,
            heavy: vec!["prompt".to_owned()],
            has_encode: true,
            encode_ticks: 1,
            drain_blocks: true,
            retry_safe: true,
            attempts: 3,
        }
    }
}

impl Config {
    /// Whether a change of this key needs an encode.
    pub fn is_heavy(&self, key: &str) -> bool {
        self.heavy.iter().any(|heavy| heavy == key)
    }
}

/// A callback of the model.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Hook {
    /// Ends a row's life in the model.
    Detach,
    /// Asked whether pending rows may be seeded.
    Gate,
    /// Starts the life of rows.
    Seed,
    /// The DEFERRED lane's stages.
    Deferred,
    /// The ENCODE lane's stages.
    Encode,
    /// The HOT lane's stages.
    Hot,
    /// Told which rows' chunks were collected.
    Finalize,
}

impl Hook {
    /// Every hook with its name in faults and errors, and its letter in calls.
    pub const NAMES: [(Self, &'static str, char); 7] = [
        (Self::Detach, "det", 'X'),
        (Self::Gate, "gate", 'G'),
        (Self::Seed, "seed", 'S'),
        (Self::Deferred, "def", 'D'),
        (Self::Encode, "enc", 'E'),
        (Self::Hot, "hot", 'H'),
        (Self::Finalize, "fin", 'F'),
    ];

    /// The name in faults and errors.
    pub fn name(self) -> &'static str {
        Self::NAMES[self as usize].1
    }

    /// The letter in the text form of a call.
    pub fn letter(self) -> char {
        Self::NAMES[self as usize].2
    }

    /// The hook of a name.
    pub fn from_name(name: &str) -> Option<Self> {
        let found = Self::NAMES.iter().find(|(_, known, _)| *known == name);
        found.map(|(hook, _, _)| *hook)
    }
}

/// What an armed fault strikes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum FaultScope {
    /// `hot`: any call fails as a whole.
    AnyCall,
    /// `hot@a`: a call whose batch has the session fails as a whole.
    CallWith(SessionName),
    /// `hot#a`: the call succeeds, but the status of that session's row is an error.
    RowOf(SessionName),
}

/// A fault armed for one tick: the hook fails, before it changed anything, if it is called.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The hook that fails.
    pub hook: Hook,
    /// Which of its calls or rows.
    pub scope: FaultScope,
}

impl Fault {
    /// Whether a call over these sessions fails as a whole.
    pub fn strikes_call(&self, hook: Hook, sessions: &[SessionName]) -> bool {
        self.hook == hook
            && match &self.scope {
                FaultScope::AnyCall => true,
                FaultScope::CallWith(session) => sessions.contains(session),
                FaultScope::RowOf(_) => false,
            }
    }

    /// Whether a call gives this session's row an error status.
    pub fn strikes_row(&self, hook: Hook, session: &str) -> bool {
        self.hook == hook && matches!(&self.scope, FaultScope::RowOf(name) if name == session)
    }

    /// Reads the text form.
    pub fn from_text(text: &str) -> Option<Self> {
        let (hook, scope) = if let Some((hook, session)) = text.split_once('@') {
            (hook, FaultScope::CallWith(session.to_owned()))
        } else if let Some((hook, session)) = text.split_once('#') {
            (hook, FaultScope::RowOf(session.to_owned()))
        } else {
            (text, FaultScope::AnyCall)
        };
        let hook = Hook::from_name(hook)?;
        Some(Self { hook, scope })
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let hook = self.hook.name();
        match &self.scope {
            FaultScope::AnyCall => f.write_str(hook),
            FaultScope::CallWith(session) => write!(f, "{hook}@{session}"),
            FaultScope::RowOf(session) => write!(f, "{hook}#{session}"),
        }
    }
}

/// What a message asks for. A payload of `None` is ill-formed: something that is not a dict.
#[derive(Clone, Debug, PartialEq)]
pub enum Request {
    /// Start a session with this context.
    Attach(Option<Values>),
    /// End a session; with `drain`, after what is in flight was delivered.
    Detach {
        /// Deliver first.
        drain: bool,
    },
    /// Start a new life with this context; an empty one stands for the last one.
    Reset(Option<Values>),
    /// New conditioning.
    Action {
        /// The keys and values.
        values: Option<Values>,
        /// Keep the cheap keys that it does not name.
        merge: bool,
    },
    /// Resume (true) or pause (false).
    SetActive(bool),
}

impl Request {
    /// Whether the payload is something that no producer can get past the push.
    pub fn is_ill_formed(&self) -> bool {
        matches!(self, Self::Attach(None) | Self::Reset(None) | Self::Action { values: None, .. })
    }
}

/// One message of the inbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Message {
    /// To whom.
    pub session: SessionName,
    /// What for.
    pub request: Request,
    /// The life it is meant for; 0 is any.
    pub generation: u64,
}

/// The inputs of one tick.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TickInput {
    /// The tick's number, which is also the clock of the encode lane.
    pub number: i64,
    /// The inbox, in order.
    pub messages: Vec<Message>,
    /// Faults armed for this tick.
    pub faults: Vec<Fault>,
    /// How long an encode takes that starts in this tick, if not as configured.
    pub encode_ticks: Option<i64>,
    /// The sessions to step instead of all active ones; may name strangers.
    pub due: Option<Vec<SessionName>>,
}
