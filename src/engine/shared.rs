//! What an engine's thread shares with all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32};

use crate::queue::{Inbox, Outbox};
use crate::telemetry::{Board, Counters, Gauges, Log, Watch};
use crate::time::{Clock, Wake};

/// Any thread may touch any of it; each part says who writes.
pub struct Shared {
    /// What goes in.
    pub inbox: Inbox,
    /// What comes out.
    pub outbox: Arc<Outbox>,
    /// What is said of each session.
    pub board: Board,
    /// How much of what has happened.
    pub counters: Counters,
    /// How many there are of what.
    pub gauges: Gauges,
    /// Which callback is running.
    pub watch: Arc<Watch>,
    /// Where an engine with nothing to do sleeps: pushes, fences and some pops wake it.
    pub parked: Arc<Wake>,
    /// Where one that waits for a grid point sleeps: only a stop wakes it.
    pub paced: Wake,
    /// Somebody asked for the stop.
    pub stopping: AtomicBool,
    /// A backend said that a fence has passed.
    pub kicked: Arc<AtomicBool>,
    /// 0, or why the engine is dead. Written once, by the engine's thread.
    pub death: AtomicI32,
    /// Where its lines go.
    pub log: Log,
    /// Its time.
    pub clock: Arc<dyn Clock>,
}
