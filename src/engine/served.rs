//! One life that the host's own loop serves, and the row that it lives in.

use crate::queue::{LIFE_NOTICES, Lease, Pool};
use crate::telemetry::{Entry, State};
use crate::word::{Generation, Session, Status};

/// What a life was told last of how it stands.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Standing {
    /// Neither ATTACHED nor REJECTED yet.
    Pending,
    /// ATTACHED.
    Attached,
    /// ROW_FAILED.
    Failed(Status),
    /// The loop has said DETACHED; it waits in the outbox for the last chunk.
    Parting,
}

/// Whether the loop was shown a DETACH.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Leaving {
    /// It was not.
    No,
    /// With DRAIN: the session is attached until its DETACHED was told.
    Draining {
        /// Of the message.
        tag: u64,
    },
    /// Nothing more of this life comes out but its DETACHED; for all others the session is unknown.
    Gone {
        /// Of the message.
        tag: u64,
    },
}

/// See the module's comment.
pub struct Served {
    pub session: Session,
    pub user: u64,
    pub generation: Generation,
    /// Of the message that began it.
    pub begin_tag: u64,
    /// The newest ACTION that the loop was shown.
    pub tag: u64,
    /// What its newest chunk said.
    pub heavy_tag: u64,
    /// Chunks made.
    pub age: u64,
    /// Of the newest of them.
    pub index: Option<u64>,
    pub standing: Standing,
    pub leaving: Leaving,
    /// Between PAUSE and RESUME.
    pub paused: bool,
    /// Notices it has paid for and not used.
    pub credits: i64,
}

impl Served {
    /// A life that begins.
    pub fn new(session: Session, user: u64, generation: Generation, begin_tag: u64) -> Served {
        Served {
            session,
            user,
            generation,
            begin_tag,
            tag: 0,
            heavy_tag: 0,
            age: 0,
            index: None,
            standing: Standing::Pending,
            leaving: Leaving::No,
            paused: false,
            credits: LIFE_NOTICES,
        }
    }

    /// Whether for everybody but the loop there is no such session any more.
    pub fn is_gone(&self) -> bool {
        matches!(self.leaving, Leaving::Gone { .. })
    }

    /// Whether it ends when all of it was delivered: until then only a DETACH without DRAIN has an effect.
    pub fn is_draining(&self) -> bool {
        self.standing == Standing::Parting || matches!(self.leaving, Leaving::Draining { .. })
    }

    /// What is said of it.
    pub fn entry(&self) -> Entry {
        let (state, status) = match self.standing {
            Standing::Pending => (State::Pending, None),
            Standing::Attached | Standing::Parting => (State::Ready, None),
            Standing::Failed(status) => (State::Quarantined, Some(status)),
        };
        Entry {
            session: self.session,
            user: self.user,
            generation: self.generation,
            state,
            paused: self.paused,
            status,
            age: self.age,
            tag: self.tag,
            heavy_tag: self.heavy_tag,
            encodes: 0,
            ticks_out: 0,
        }
    }
}

/// A row: who lives there, and its output buffers, which stay.
#[derive(Default)]
pub struct Place {
    pub life: Option<Served>,
    pub pool: Option<Pool>,
    /// The buffer that the next chunk is copied into; there if the pool is.
    pub making: Option<Lease>,
}
