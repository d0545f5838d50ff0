//! How much of what has happened. One writer each but where it says otherwise; read by any thread.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use super::Histogram;
use crate::word::Lane;

/// Growing numbers.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Counters {
    pub ticks: AtomicU64,
    pub missed_deadlines: AtomicU64,
    pub late_ticks: AtomicU64,
    pub chunks: AtomicU64,
    pub coalesced: AtomicU64,
    pub failed_ticks: AtomicU64,
    /// Pushes that were told AGAIN; any thread writes.
    pub refused: AtomicU64,
    pub tick: Histogram,
    pub lateness: Histogram,
    pub lanes: [Histogram; Lane::COUNT],
    pub inbox: Histogram,
    pub action: Histogram,
}

impl Counters {
    /// Adds to one of them, as its only writer.
    pub fn add(counter: &AtomicU64, more: u64) {
        counter.store(counter.load(Ordering::Relaxed) + more, Ordering::Relaxed);
    }
}

/// How many there are of what, as of the end of the last tick.
#[derive(Default)]
#[allow(missing_docs)]
pub struct Gauges {
    pub attached: AtomicU32,
    pub live: AtomicU32,
    pub pending: AtomicU32,
    pub encoding: AtomicU32,
    pub paused: AtomicU32,
    pub quarantined: AtomicU32,
    pub retiring: AtomicU32,
    pub held: AtomicU32,
}
