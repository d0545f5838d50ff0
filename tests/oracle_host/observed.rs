//! What a tick gave, in the form in which the engine and the oracle are compared.

use std::collections::BTreeMap;

use rte::abi::info::{RTE_ENCODING, RTE_PENDING, RTE_QUARANTINED, RTE_READY};
use rte::abi::output::{RTE_ALREADY, RTE_ATTACHED, RTE_DETACHED, RTE_REJECTED, RTE_ROW_FAILED};
use rte::abi::status::{rte_status, rte_status_code};

use super::keys::{EncodedValues, Names};
use super::model::{hook_of, status_of_call, status_of_row};
use crate::host::engine::Output;
use crate::oracle::outcome::{Failure, Notice, Phase, Reason, SessionState, TickResult};
use crate::oracle::schedule::Hook;

/// What both sides say of a tick.
///
/// Left out: the calls of `detach` and what is told of their failures. The engine calls it when the row is free of
/// work, which for a session that left with DRAIN is after its DETACHED was popped; that it is called once for each seed
/// is checked at the end of a schedule.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Observed {
    /// Chunks in the order of delivery: session and the byte that fills the chunk.
    pub outputs: Vec<(String, u8)>,
    /// Rejected attaches and resets, in order.
    pub rejected: Vec<(String, &'static str)>,
    /// Hooks that failed as a whole, in the order of their first such call; messages that no one can push.
    pub errors: Vec<&'static str>,
    /// Attached sessions by row.
    pub state: Vec<RowState>,
    /// Paused sessions by name.
    pub paused: Vec<String>,
    /// Calls of the gate, of seed and of the lanes.
    pub calls: Vec<String>,
    /// Calls of finalize.
    pub finalized: Vec<String>,
    /// By session, each session's own in order.
    pub notices: BTreeMap<String, Vec<String>>,
    /// How often each hook is said to have failed as a whole.
    pub failed_calls: BTreeMap<&'static str, u64>,
    /// Messages to unknown sessions.
    pub unknown: u64,
    /// Messages to a life that is not the living one.
    pub stale: u64,
}

/// An attached session after a tick.
#[derive(Clone, Debug, PartialEq)]
pub struct RowState {
    /// Whose row.
    pub session: String,
    /// Which.
    pub row: usize,
    /// Chunks since the seed; -1 before it.
    pub age: i64,
    /// Where it stands.
    pub phase: Phase,
    /// The heavy values that HOT goes by; none of a row that HOT does not run before it is seeded again.
    pub applied: Option<EncodedValues>,
}

impl Observed {
    /// What the oracle says.
    pub fn expected(result: &TickResult, names: &mut Names) -> Self {
        let mut observed = Self {
            outputs: result.outputs.clone(),
            paused: result.paused.clone(),
            unknown: result.unknown,
            stale: result.stale,
            ..Self::default()
        };
        observed.rejected = result.rejected.iter().map(|(name, reason)| (name.clone(), name_of(*reason))).collect();
        let errors = result.errors.iter().filter(|error| **error != Failure::Hook(Hook::Detach));
        observed.errors = errors.map(|error| error.name()).collect();
        observed.state = result.state.iter().map(|state| RowState::expected(state, names)).collect();
        observed.calls = result.calls_of(is_compared);
        observed.finalized = result.calls_of(|hook| hook == Hook::Finalize);
        for notice in &result.notices {
            observed.expect_notice(notice);
        }
        observed
    }

    fn expect_notice(&mut self, notice: &Notice) {
        let (session, text) = match notice {
            Notice::TickFailed(Hook::Detach) => return,
            Notice::TickFailed(hook) => {
                *self.failed_calls.entry(hook.name()).or_default() += 1;
                return;
            }
            Notice::Attached(session, generation) => (session, format!("attached {generation}")),
            Notice::Already(session, generation) => (session, format!("already {generation}")),
            Notice::Detached(session, generation) => (session, format!("detached {generation}")),
            Notice::Rejected(session, generation, reason) => {
                (session, format!("rejected {generation} {}", name_of(*reason)))
            }
            Notice::RowFailed(session, generation, hook) => {
                (session, format!("row_failed {generation} {}", hook.name()))
            }
        };
        self.notices.entry(session.clone()).or_default().push(text);
    }

    /// Takes in a notice of the engine's that is about a life or an ATTACH or RESET of a session.
    pub fn hear(&mut self, session: &str, notice: &Output) {
        let generation = notice.generation;
        let text = match notice.kind {
            RTE_ATTACHED if notice.flags & RTE_ALREADY != 0 => format!("already {generation}"),
            RTE_ATTACHED => format!("attached {generation}"),
            RTE_DETACHED => format!("detached {generation}"),
            RTE_ROW_FAILED => format!("row_failed {generation} {}", hook_of(notice.stage).name()),
            RTE_REJECTED => {
                let reason = reason_of(notice.status);
                self.rejected.push((session.to_owned(), reason));
                format!("rejected {generation} {reason}")
            }
            kind => panic!("a notice of kind {kind} to a session"),
        };
        self.notices.entry(session.to_owned()).or_default().push(text);
    }

    /// Without what is known of a tick only in the end: what it has called.
    pub fn without_calls(&self) -> Self {
        let mut rest = self.clone();
        rest.calls.clear();
        rest.finalized.clear();
        rest.errors.clear();
        rest
    }

    /// Without the order of calls on different queues, which no one can know of threads. `encodes`: queues of ENCODE.
    pub fn by_queue(mut self, encodes: u32) -> Self {
        let is_encode = |call: &str| call.starts_with(Hook::Encode.letter());
        let queue = |call: &str| call.chars().next();
        // Stable: each queue's own order stays.
        self.calls.sort_by(|one, two| {
            let are_encodes = encodes > 1 && is_encode(one) && is_encode(two);
            if are_encodes { one.cmp(two) } else { queue(one).cmp(&queue(two)) }
        });
        self.errors.sort_unstable();
        self
    }

    /// What differs between two sides, for whoever reads a failure.
    pub fn difference(&self, other: &Self) -> String {
        let (ours, theirs) = (format!("{self:#?}"), format!("{other:#?}"));
        let (ours, theirs): (Vec<&str>, Vec<&str>) = (ours.lines().collect(), theirs.lines().collect());
        let only = |a: &[&str], b: &[&str], mark: &str| {
            let lines = a.iter().filter(|line| !b.contains(line));
            lines.map(|line| format!("  {mark} {}\n", line.trim())).collect::<String>()
        };
        only(&ours, &theirs, "engine") + &only(&theirs, &ours, "oracle")
    }
}

impl RowState {
    fn expected(state: &SessionState, names: &mut Names) -> Self {
        let runs = matches!(state.phase, Phase::Encoding | Phase::Ready);
        Self {
            session: state.session.clone(),
            row: state.row,
            age: state.age,
            phase: state.phase,
            applied: runs.then(|| names.encode(&state.applied)),
        }
    }
}

/// Whether calls of this hook are compared in their order.
pub fn is_compared(hook: Hook) -> bool {
    !matches!(hook, Hook::Detach | Hook::Finalize)
}

/// The phase that `rte_session_info` tells.
pub fn phase_of(state: u32) -> Phase {
    match state {
        RTE_PENDING => Phase::Pending,
        RTE_READY => Phase::Ready,
        RTE_ENCODING => Phase::Encoding,
        RTE_QUARANTINED => Phase::Quarantined,
        state => panic!("a session in state {state}"),
    }
}

/// The engine gives one status for both of the oracle's reasons that are about its state.
fn name_of(reason: Reason) -> &'static str {
    match reason {
        Reason::Midrun | Reason::Draining => "state",
        Reason::Full | Reason::Seed => reason.name(),
    }
}

fn reason_of(status: rte_status) -> &'static str {
    const FULL: rte_status = rte_status_code::RTE_ERR_FULL as rte_status;
    const STATE: rte_status = rte_status_code::RTE_ERR_STATE as rte_status;
    match status {
        FULL => name_of(Reason::Full),
        STATE => name_of(Reason::Midrun),
        status if [status_of_call(Hook::Seed), status_of_row(Hook::Seed)].contains(&status) => name_of(Reason::Seed),
        status => panic!("rejected with status {status}"),
    }
}
