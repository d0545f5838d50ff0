//! What goes in: one message, as the queue carries it.

use crate::word::{Generation, Nanos, Session};

/// What a message asks for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    /// Join, with a context.
    Attach,
    /// Leave; with `drain` what is in flight and queued is delivered first.
    Detach {
        /// Step no more, but deliver.
        drain: bool,
    },
    /// A new life in the same row.
    Reset,
    /// New conditioning; `partial`: of the named keys only.
    Action {
        /// Leave the keys alone that it does not name.
        partial: bool,
    },
    /// Step no more for now.
    Pause,
    /// Step again.
    Resume,
}

impl Kind {
    /// Whether it begins a life: such messages pay for three notices.
    pub fn begins_life(self) -> bool {
        matches!(self, Kind::Attach | Kind::Reset)
    }
}

/// The fixed part of a message.
#[derive(Clone, Copy, Debug)]
pub struct Envelope {
    /// What it asks for.
    pub kind: Kind,
    /// For whom.
    pub session: Session,
    /// The life that is meant; `Generation(0)`: whichever is current.
    pub generation: Generation,
    /// The host's, for the session.
    pub user: u64,
    /// The host's, for this message.
    pub tag: u64,
    /// When it was pushed.
    pub pushed: Nanos,
}
