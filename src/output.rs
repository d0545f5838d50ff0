//! What comes out: chunks and notices.

use std::fmt;

use crate::queue::Lease;
use crate::word::{Fault, Generation, Nanos, Row, Session, Status};

/// Everything that a chunk says of itself but its bytes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Stamp {
    /// Whose it is.
    pub session: Session,
    /// Of its ATTACH.
    pub user: u64,
    /// Which life.
    pub generation: Generation,
    /// Where it was made.
    pub row: Row,
    /// The row's age at HOT.
    pub index: u64,
    /// Steps of this life before it that gave no chunk because the model left its size 0.
    pub silent: u64,
    /// Ticks run before it was issued.
    pub tick: u64,
    /// The newest ACTION taken into account.
    pub tag: u64,
    /// The message whose heavy values are the applied ones.
    pub heavy_tag: u64,
    /// When HOT was issued.
    pub start: Nanos,
    /// When its completion was seen.
    pub done: Nanos,
    /// In this chunk.
    pub frames: u32,
}

/// One result.
pub struct Chunk {
    /// What it says of itself.
    pub stamp: Stamp,
    /// How many of its buffer's bytes are filled.
    pub size: usize,
    /// Its bytes.
    pub data: Lease,
}

/// Something that happened.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Event {
    /// The life was seeded; `already`: it had been before.
    Attached {
        /// The session was attached; nothing has changed.
        already: bool,
    },
    /// Why it was not.
    Rejected(Status),
    /// The life is over; CLOSED at stop.
    Detached(Option<Status>),
    /// Quarantined until RESET or DETACH.
    RowFailed(Fault),
    /// A whole batch failed.
    TickFailed(Fault),
    /// The last output of an engine.
    Dead(Fault),
}

/// As a log says it to the host: in the words of rte.h.
impl fmt::Debug for Event {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Event::Attached { already: false } => write!(f, "RTE_ATTACHED"),
            Event::Attached { already: true } => write!(f, "RTE_ATTACHED with RTE_ALREADY"),
            Event::Rejected(status) => write!(f, "RTE_REJECTED with status {status}"),
            Event::Detached(None) => write!(f, "RTE_DETACHED"),
            Event::Detached(Some(status)) => write!(f, "RTE_DETACHED with status {status}"),
            Event::RowFailed(fault) => write!(f, "RTE_ROW_FAILED with status {}", fault.status),
            Event::TickFailed(fault) => write!(f, "RTE_TICK_FAILED with status {}", fault.status),
            Event::Dead(fault) => write!(f, "RTE_DEAD with status {}", fault.status),
        }
    }
}

/// A record of something that happened.
#[derive(Clone, Copy, Debug)]
pub struct Notice {
    /// What.
    pub event: Event,
    /// To whom; of engine-wide ones 0.
    pub session: Session,
    /// Of its ATTACH.
    pub user: u64,
    /// In which life; 0 where there never was one.
    pub generation: Generation,
    /// Of the message that it answers.
    pub tag: u64,
    /// In which tick.
    pub tick: u64,
    /// Where.
    pub row: Row,
    /// How many events it stands for, where such are told together; else 0.
    pub count: u64,
}

impl Notice {
    /// One that concerns no session.
    pub fn of_engine(event: Event, tick: u64) -> Notice {
        Notice { event, session: Session(0), user: 0, generation: Generation(0), tag: 0, tick, row: Row(0), count: 0 }
    }
}

/// What a consumer gets.
pub enum Output {
    /// A chunk, and how many are missing just before it.
    Chunk(Chunk, u64),
    /// A notice.
    Notice(Notice),
}

impl Output {
    /// The row that made it or that it is about.
    pub fn row(&self) -> Row {
        match self {
            Output::Chunk(chunk, _) => chunk.stamp.row,
            Output::Notice(notice) => notice.row,
        }
    }
}
