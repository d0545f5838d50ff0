//! What a failing call costs, and whom.
//!
//! A row that fails alone is quarantined; the others lose nothing. A whole batch that fails is lost; after two in a row
//! a lane runs its rows one call each, once, to find out who it is.

use super::arena::State;
use super::cohort::Cohort;
use super::flight::Flight;
use crate::lane::{Fence, Lanes};
use crate::output::Event;
use crate::telemetry::Level;
use crate::word::{Fault, Lane, Nanos, Row, Status};

/// Whole-batch failures in a row after which a lane isolates.
const ISOLATE_AFTER: u32 = 2;

/// Whole-batch failures in a row, of HOT and DEFERRED. Ticks in which a lane runs nothing do not break the row.
#[derive(Default)]
pub struct Health {
    failures: [u32; 2],
}

/// What a lane's calls of one tick came to.
pub enum Verdict {
    /// Nothing of the batch counts.
    Lost(Fault),
    /// All rows but those in `Cohort::bad` succeeded.
    Rows,
}

impl Health {
    /// Whether `lane` is to run its rows one call each now.
    pub fn isolates(&self, lane: Lane) -> bool {
        self.failures[lane.at()] >= ISOLATE_AFTER
    }

    fn note(&mut self, lane: Lane, isolated: bool, verdict: &Verdict) {
        match verdict {
            Verdict::Lost(_) if !isolated => self.failures[lane.at()] += 1,
            _ => self.failures[lane.at()] = 0,
        }
    }
}

impl Cohort {
    /// Whether all `fences` may be observed, waiting for them until `until`.
    pub(super) fn await_calls(&mut self, fences: &[Fence], until: Nanos) -> bool {
        let is_seen = |fence: &Fence| self.lanes.observe(*fence).is_some() || self.lanes.block(*fence, until);
        fences.iter().all(is_seen) && !self.is_abandoned()
    }

    /// Whether `fence` has passed, waiting for it until `until`.
    pub(super) fn await_fence(&mut self, fence: Fence, until: Nanos) -> bool {
        (self.lanes.passed(fence) || self.lanes.block(fence, until)) && !self.is_abandoned()
    }

    /// The host has freed the engine while this thread waited or was called: nothing is made of what it comes back to, for
    /// the host would be called.
    fn is_abandoned(&self) -> bool {
        self.target.watch.is_abandoned()
    }

    /// What the calls behind `fences` came to; rows that failed alone are left in `self.bad`.
    pub(super) fn judge(&mut self, lane: Lane, fences: &[Fence], isolated: bool) -> Verdict {
        let stage = self.manifest().last_stage(lane);
        let mut bad = std::mem::take(&mut self.bad);
        bad.clear();
        let whole = gather(self.lanes.as_mut(), fences, isolated, stage, &mut bad);
        if let Some((_, fault)) = bad.iter().find(|(_, fault)| isolated && fault.status == Status::DEAD) {
            self.death.get_or_insert(*fault);
        }
        let verdict = match whole {
            Some(fault) => Verdict::Lost(fault),
            // Nobody succeeded alone: it is not the rows.
            None if isolated && bad.len() == fences.len() => Verdict::Lost(bad[0].1),
            None => Verdict::Rows,
        };
        self.health.note(lane, isolated, &verdict);
        self.bad = bad;
        verdict
    }

    /// ROW_FAILED: the row steps no more until RESET or DETACH.
    pub(super) fn quarantine(&mut self, row: Row, fault: Fault) {
        if !matches!(self.arena.state(row), State::Ready { .. } | State::Encoding { .. }) {
            return;
        }
        self.departures += 1;
        // What it waits for is no consumer any more: its chunk before this one has failed meanwhile.
        self.arena.held.remove(row);
        self.arena.change(row, |life| State::Quarantined { life, fault });
        let (session, tag) = self.arena.life(row).map_or((0, 0), |life| (life.session.0, life.tag));
        self.shared.log.say(Level::Warn, || {
            let name = self.model.manifest().stage_name(fault.stage);
            format!("session {session} failed in stage {name} with status {}: quarantined", fault.status)
        });
        self.tell(row, Event::RowFailed(fault), tag);
        self.trace_fault(fault, row, false);
    }

    /// Quarantines the rows of `flight` that the last verdict left in `self.bad`. One that has been given to another life
    /// since, seen only now to have failed, is left alone.
    pub(super) fn quarantine_bad(&mut self, flight: &Flight) {
        for at in 0..self.bad.len() {
            let (row, fault) = self.bad[at];
            if self.arena.lives(row, flight.marks[row.at()].generation) {
                self.quarantine(row, fault);
            }
        }
    }
}

/// The fault of a whole batch, or in `bad` those of single rows.
fn gather(
    lanes: &mut dyn Lanes,
    fences: &[Fence],
    isolated: bool,
    stage: u32,
    bad: &mut Vec<(Row, Fault)>,
) -> Option<Fault> {
    for fence in fences {
        let Some(batch) = lanes.observe(*fence) else { continue };
        match batch.result {
            Err(fault) if isolated => bad.push((Row(batch.first_row()), fault)),
            Err(fault) => return Some(fault),
            Ok(()) if !batch.says_something() => {}
            Ok(()) => bad.extend(batch.positions().filter_map(|(at, row)| {
                let status = batch.failed(at)?;
                Some((row, Fault { stage, status }))
            })),
        }
    }
    None
}
