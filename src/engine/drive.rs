//! The loop of an engine that has a thread: tick, then wait for the next grid point, or for anything to do.

use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::cohort::{Cohort, Plan, Progress};
use super::outlook::Outlook;
use super::shared::Shared;
use crate::lane::Trouble;
use crate::telemetry::{Counters, Level};
use crate::time::{Next, Overrun, Pace, Rate, Threads, real_now};
use crate::word::{Fault, Nanos, Status};

/// A wait for the lanes is cut into pieces of this length, between which a stop is looked for.
const PATIENCE: Nanos = 10_000_000;
/// How often fences are looked at when nobody tells that they have passed, and how often `ready` is asked.
const POLL: Nanos = 100_000;
const GATE_POLL: Nanos = 1_000_000;

/// How an engine is driven.
#[derive(Clone, Debug)]
pub struct Settings {
    /// `None`: as fast as work comes.
    pub rate: Option<Rate>,
    /// With a rate.
    pub overrun: Overrun,
    /// How those of ours are to be.
    pub threads: Arc<Threads>,
    /// The lanes have such.
    pub has_lane_threads: bool,
    /// Why the lanes' device failed.
    pub trouble: Arc<Trouble>,
    /// Values in its memory can be pushed.
    pub takes_device_values: bool,
    /// A callback that takes longer is called stalled.
    pub stall: Nanos,
    /// Copied bytes of a message at most.
    pub message_bytes: usize,
    /// RTE_LANES_*, as `abi` numbers them.
    pub lanes: u32,
    /// What was fixed when it was made.
    pub plan: Plan,
}

impl Settings {
    /// Why the engine could not be opened or go on, with `status`, where the system or a device has said so. (A device may
    /// have failed before, too, in what cost a session its buffers and no more.)
    pub fn why(&self, status: Status) -> Option<&str> {
        let of_device = || self.trouble.get().filter(|(failed, _)| *failed == status).map(|(_, words)| words);
        self.threads.refusal().or_else(of_device)
    }

    /// What an engine that died of `status` died of.
    pub fn cause(&self, status: Status) -> String {
        self.why(status).map_or_else(|| format!("status {status}"), str::to_string)
    }
}

/// Runs `cohort` until the stop, and through it.
pub fn drive(shared: &Shared, cohort: &mut Cohort, settings: &Settings) -> Result<(), Fault> {
    shared.log.say(Level::Info, || "the engine runs".to_string());
    let mut pace = settings.rate.map(|rate| Pace::new(rate, settings.overrun, shared.clock.now()));
    while !shared.stopping.load(Ordering::SeqCst) {
        if cohort.tick(None, patience(cohort))? == Progress::Busy {
            continue;
        }
        let outlook = cohort.outlook();
        match &mut pace {
            None => rest(shared, outlook),
            Some(pace) => await_point(shared, pace, outlook),
        }
    }
    close(shared, cohort)?;
    shared.log.say(Level::Info, || "the engine has stopped".to_string());
    Ok(())
}

/// Ends `cohort`, waiting for its lanes as long as it takes.
pub fn close(shared: &Shared, cohort: &mut Cohort) -> Result<(), Fault> {
    shared.inbox.close();
    while cohort.shutdown(patience(cohort))? == Progress::Busy {
        std::thread::yield_now();
    }
    Ok(())
}

/// Until when one wait for the lanes is to last.
fn patience(cohort: &Cohort) -> Nanos {
    if cohort.waits_whole() { Nanos::MAX } else { real_now() + PATIENCE }
}

/// Free-running: tick follows tick while there is something to do.
fn rest(shared: &Shared, outlook: Outlook) {
    match outlook {
        Outlook::Step => {}
        Outlook::Fences { wakes: false } => park(shared, Some(POLL)),
        Outlook::Gate => park(shared, Some(GATE_POLL)),
        Outlook::Fences { wakes: true } | Outlook::Held | Outlook::Nothing => park(shared, None),
    }
}

/// Paced: sleeps until the next tick is due. Grid points that pass while nothing is to do are not missed. Nothing is
/// counted of a tick that a stop forestalls.
fn await_point(shared: &Shared, pace: &mut Pace, outlook: Outlook) {
    let clock = &shared.clock;
    let is_stopping = || shared.stopping.load(Ordering::SeqCst);
    let next = if outlook == Outlook::Nothing {
        park(shared, None);
        Next { at: pace.resume(clock.now()), late: false, missed: 0 }
    } else {
        pace.next(clock.now())
    };
    // A sleep may end early: no tick does begin so.
    while !next.late && !is_stopping() && clock.now() < next.at {
        clock.sleep_until(next.at, &shared.stopping, &shared.paced);
    }
    if is_stopping() {
        return;
    }
    Counters::add(&shared.counters.missed_deadlines, next.missed);
    Counters::add(&shared.counters.late_ticks, next.late.into());
    shared.counters.lateness.record(clock.now().saturating_sub(next.at));
}

/// Sleeps until a push, a fence that tells, a pop that matters, a stop; at most `limit`.
fn park(shared: &Shared, limit: Option<Nanos>) {
    shared.parked.sleep(limit.map(|limit| real_now() + limit), || {
        shared.inbox.has_next()
            || shared.stopping.load(Ordering::SeqCst)
            || shared.outbox.is_stirred()
            || (shared.kicked.load(Ordering::SeqCst) && shared.kicked.swap(false, Ordering::SeqCst))
    });
}
