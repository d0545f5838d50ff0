//! Which callbacks are inside a model at once, and whether they may be: no lane's work overlaps itself, and no two lanes
//! work on one row, but for HOT and DEFERRED of different slots. ENCODE may have several threads, for different rows.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::batch::Batch;

/// What a callback does to the rows of its batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errand {
    /// Begins or ends their lives, on the HOT lane.
    Life,
    /// The stages of HOT.
    Hot,
    /// Those of DEFERRED.
    Deferred,
    /// Those of ENCODE.
    Encode,
}

/// The callbacks that are inside a model.
pub struct Traffic {
    /// Each callback stays a while before it does anything, so that those of different threads meet.
    lingers: bool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    inside: Vec<Visit>,
    visits: u64,
    complaints: Vec<String>,
}

#[derive(Debug)]
struct Visit {
    number: u64,
    errand: Errand,
    rows: Vec<usize>,
    slot: usize,
}

impl Visit {
    fn may_meet(&self, other: &Self) -> bool {
        match (self.errand, other.errand) {
            (Errand::Hot, Errand::Deferred) | (Errand::Deferred, Errand::Hot) => self.slot != other.slot,
            (Errand::Deferred, Errand::Deferred) => false,
            (Errand::Life | Errand::Hot, Errand::Life | Errand::Hot) => false,
            _ => !self.rows.iter().any(|row| other.rows.contains(row)),
        }
    }
}

impl Traffic {
    /// Nobody is inside.
    pub fn new(lingers: bool) -> Self {
        Self { lingers, state: Mutex::default() }
    }

    /// Runs the body of a callback; `None`: it does nothing to its rows.
    pub fn visit<T>(&self, errand: Option<Errand>, batch: &mut Batch, body: impl FnOnce(&mut Batch) -> T) -> T {
        let Some(errand) = errand else { return body(batch) };
        let number = self.enter(errand, batch);
        if self.lingers {
            (0..number % 4).for_each(|_| std::thread::yield_now());
        }
        let result = body(batch);
        self.state().inside.retain(|visit| visit.number != number);
        result
    }

    fn enter(&self, errand: Errand, batch: &Batch) -> u64 {
        let mut state = self.state();
        state.visits += 1;
        let rows = batch.members().iter().map(|member| member.row).collect();
        let visit = Visit { number: state.visits, errand, rows, slot: batch.slot() };
        let met: Vec<String> = state
            .inside
            .iter()
            .filter(|other| !visit.may_meet(other))
            .map(|other| format!("{visit:?} begins while {other:?} is under way"))
            .collect();
        state.complaints.extend(met);
        state.inside.push(visit);
        state.visits
    }

    /// What has met and must not, since the last time.
    pub fn take_complaints(&self) -> Vec<String> {
        std::mem::take(&mut self.state().complaints)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
