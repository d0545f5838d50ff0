//! Why a session gives no chunk, in words, for a host whose log asks for DEBUG; else none of this is there.
//!
//! A cause is told in the tick in which it begins, and again when it begins for the 2nd, 4th, 8th... time in a life: one
//! that comes and goes with every tick can still be read. At DEBUG, and there alone, a tick looks at every row.

use super::arena::State;
use super::cohort::Cohort;
use crate::message::Envelope;
use crate::queue::Policy;
use crate::rows::Rows;
use crate::telemetry::Level;
use crate::word::{Fault, Generation, Row, Session, Status};

/// Why there is no chunk of a session in a tick, or one too few.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Cause {
    /// `ready` has answered so.
    Gated(Status),
    /// Its row still has work of the life before.
    Row,
    /// Its seed has failed, so many times.
    SeedRetry(u32),
    /// Its seed is under way beside the ticks.
    SeedAside,
    Paused,
    NotDue,
    Encoding,
    Quarantined(Fault),
    Draining,
    /// HOLD: its ring has no room; a consumer has all its buffers.
    HeldForPop,
    HeldForRelease,
    /// A chunk was lost: the newest for want of a buffer, the newest or the oldest for want of a place in the ring.
    NoBuffer,
    LostNewest,
    LostOldest,
    /// The model left its size 0.
    NoSize,
    /// The whole batch failed.
    BatchFailed(Fault),
    /// What it made comes with the next tick.
    WarmUp,
}

const CAUSES: usize = 17;

impl Cause {
    /// What is counted as one.
    fn kind(self) -> usize {
        match self {
            Cause::Gated(_) => 0,
            Cause::Row => 1,
            Cause::SeedRetry(_) => 2,
            Cause::SeedAside => 3,
            Cause::Paused => 4,
            Cause::NotDue => 5,
            Cause::Encoding => 6,
            Cause::Quarantined(_) => 7,
            Cause::Draining => 8,
            Cause::HeldForPop => 9,
            Cause::HeldForRelease => 10,
            Cause::NoBuffer => 11,
            Cause::LostNewest => 12,
            Cause::LostOldest => 13,
            Cause::NoSize => 14,
            Cause::BatchFailed(_) => 15,
            Cause::WarmUp => 16,
        }
    }
}

/// What is known of one row.
#[derive(Clone, Copy, Default)]
struct Account {
    generation: Generation,
    /// What happened to it in this tick: a cause, and whether a chunk came.
    met: Option<Cause>,
    gave: bool,
    /// What was the cause in the tick before.
    last: Option<Cause>,
    /// How often each kind has begun in this life.
    begun: [u32; CAUSES],
}

/// See the module's comment.
pub struct Silence {
    accounts: Box<[Account]>,
    /// What `ready` has answered last.
    gate: Status,
    /// Messages to nobody, or to a life that is over.
    strays: u64,
}

impl Silence {
    /// Nothing is known of anybody.
    pub fn new(rows: u32) -> Silence {
        Silence { accounts: vec![Account::default(); rows as usize].into(), gate: Status::AGAIN, strays: 0 }
    }

    /// This happened to the chunk of `row` in this tick.
    pub fn meet(&mut self, row: Row, cause: Cause) {
        self.accounts[row.at()].met = Some(cause);
    }

    /// A chunk of `row` came.
    pub fn give(&mut self, row: Row) {
        self.accounts[row.at()].gave = true;
    }

    /// `ready` did not say yes.
    pub fn close_gate(&mut self, answer: Status) {
        self.gate = answer;
    }

    /// One more stray message. How many by now, if it is to be told.
    fn stray(&mut self) -> Option<u64> {
        self.strays += 1;
        self.strays.is_power_of_two().then_some(self.strays)
    }

    /// The end of a tick for `row`. The number of times that `cause` has begun in this life, if it is to be told now.
    fn settle(&mut self, row: Row, generation: Generation, cause: Option<Cause>) -> Option<u32> {
        let account = &mut self.accounts[row.at()];
        if account.generation != generation {
            *account = Account { generation, ..Account::default() };
        }
        (account.met, account.gave) = (None, false);
        let before = std::mem::replace(&mut account.last, cause);
        let kind = cause?.kind();
        if before.is_some_and(|before| before.kind() == kind) {
            return None;
        }
        account.begun[kind] += 1;
        account.begun[kind].is_power_of_two().then_some(account.begun[kind])
    }
}

impl Cohort {
    /// At the end of a tick: tells of each session whose silence begins.
    pub(super) fn explain(&mut self) {
        let Some(mut silence) = self.silence.take() else { return };
        for row in (0..self.manifest().max_sessions).map(Row) {
            let Some(life) = self.arena.life(row) else { continue };
            let (session, generation) = (life.session.0, life.generation);
            let cause = self.cause_of(row, &silence);
            if let (Some(cause), Some(times)) = (cause, silence.settle(row, generation, cause)) {
                self.shared.log.say(Level::Debug, || {
                    let again = if times > 1 { format!(" ({times} times by now)") } else { String::new() };
                    let (tick, words) = (self.tick, self.words(row, cause));
                    format!("tick {tick}: session {session} (row {}) gives no chunk: {words}{again}", row.0)
                });
            }
        }
        self.silence = Some(silence);
    }

    /// A message has come to nobody, or to another life than that which is `living`.
    pub(super) fn note_stray(&mut self, envelope: Envelope, living: Generation) {
        let Some(strays) = self.silence.as_mut().and_then(|silence| silence.stray()) else { return };
        self.shared.log.say(Level::Debug, || {
            let Envelope { session: Session(session), generation: Generation(named), tag, .. } = envelope;
            let why = match (living.0, named) {
                (0, 0) => "it is not attached: push RTE_ATTACH first".to_string(),
                (0, named) => format!("it is not attached, and the message names generation {named}"),
                (living, named) => {
                    format!("it names generation {named}, but {living} lives: take that of RTE_ATTACHED, or 0")
                }
            };
            let again = if strays > 1 { format!(" ({strays} such messages by now)") } else { String::new() };
            format!("tick {}: session {session}: a message (tag {tag}) has no effect: {why}{again}", self.tick)
        });
    }

    fn cause_of(&self, row: Row, silence: &Silence) -> Option<Cause> {
        let life = self.arena.life(row)?;
        match self.arena.state(row) {
            State::Free => return None,
            State::Retiring { .. } => return Some(Cause::Row),
            State::Starting { .. } => return Some(Cause::SeedAside),
            State::Pending { .. } if life.seed_tries > 0 && !self.is_gated => {
                return Some(Cause::SeedRetry(life.seed_tries));
            }
            State::Pending { .. } => return Some(Cause::Gated(silence.gate)),
            State::Quarantined { fault, .. } => return Some(Cause::Quarantined(*fault)),
            State::Ready { .. } | State::Encoding { .. } => {}
        }
        if self.arena.draining.has(row) {
            return Some(Cause::Draining);
        }
        if self.arena.paused.has(row) {
            return Some(Cause::Paused);
        }
        if self.due.as_ref().is_some_and(|due| !due.has(row)) {
            return Some(Cause::NotDue);
        }
        if self.arena.by.encoding.has(row) {
            return Some(Cause::Encoding);
        }
        if self.arena.held.has(row) {
            let lacks_a_place = self.shared.outbox.queued(row) >= self.shared.outbox.depth();
            return Some(if lacks_a_place { Cause::HeldForPop } else { Cause::HeldForRelease });
        }
        let Account { met, gave, .. } = silence.accounts[row.at()];
        met.or((!gave && self.plan.pipelined && self.cohort.has(row)).then_some(Cause::WarmUp))
    }

    /// What is the matter, and what to do about it.
    fn words(&self, row: Row, cause: Cause) -> String {
        let manifest = self.manifest();
        let (queued, held) = (self.shared.outbox.queued(row), self.shared.outbox.held(row));
        let depth = self.shared.outbox.depth();
        let of = |Fault { stage, status }: Fault| format!("stage {}, status {status}", manifest.stage_name(stage));
        match cause {
            Cause::Gated(Status::AGAIN) => "model.ready said RTE_AGAIN: it is asked again in each tick".to_string(),
            Cause::Gated(status) => format!("model.ready failed with status {status}: it is asked again in each tick"),
            Cause::Row => "its row still has work of the life before: it is seeded when that is over".to_string(),
            Cause::SeedRetry(tries) => {
                let most = self.plan.seed_attempts;
                format!("its seed failed ({tries} of options.seed_attempts {most}): RTE_TICK_FAILED says how")
            }
            Cause::SeedAside => "its seed runs on the ENCODE lane: it joins when that is done".to_string(),
            Cause::Paused => "it is paused: push RTE_RESUME".to_string(),
            Cause::NotDue => "rte_engine_step was not given its id: name it in `due`".to_string(),
            Cause::Encoding => {
                let encodes = self.arena.life(row).map_or(0, |life| life.encodes);
                format!("a changed HEAVY value is in ENCODE (its {encodes}.): it steps when that is applied")
            }
            Cause::Quarantined(fault) => format!("it failed ({}): push RTE_RESET or RTE_DETACH", of(fault)),
            Cause::Draining => format!("it drains: {queued} queued, RTE_DETACHED comes when all were popped"),
            Cause::HeldForPop => {
                format!("RTE_HOLD, {queued} queued, {held} held, options.outbox_depth {depth}: pop them")
            }
            Cause::HeldForRelease => {
                format!("RTE_HOLD, {queued} queued, {held} held: give those to rte_output_release")
            }
            Cause::NoBuffer => {
                format!(
                    "lost, all its buffers are in use, {queued} queued, {held} held: give those to rte_output_release"
                )
            }
            Cause::LostNewest => {
                format!("lost by RTE_DROP_NEWEST, {queued} queued, options.outbox_depth {depth}: pop faster")
            }
            Cause::LostOldest => {
                format!("its oldest was lost by RTE_DROP_OLDEST, {queued} queued, {held} held: pop and release faster")
            }
            Cause::NoSize => {
                let stage = manifest.stage_name(manifest.last_stage(manifest.last_lane()));
                format!("stage {stage} left its output_size 0")
            }
            Cause::BatchFailed(fault) => format!("the whole batch failed ({}): RTE_TICK_FAILED tells", of(fault)),
            Cause::WarmUp => "the pipeline fills: what this tick makes comes with the next".to_string(),
        }
    }

    /// The whole batch of a flight is lost.
    pub(super) fn note_lost(&mut self, fault: Fault, rows: &Rows) {
        if let Some(silence) = &mut self.silence {
            rows.iter().for_each(|row| silence.meet(row, Cause::BatchFailed(fault)));
        }
    }
}

/// Which chunk was lost when one was made: `was_sent` the new one, `had` so many were queued before it.
pub fn loss(policy: Policy, was_sent: bool, had: usize, depth: usize) -> Cause {
    match (was_sent, policy) {
        (true, _) => Cause::LostOldest,
        (false, Policy::DropNewest) if had >= depth => Cause::LostNewest,
        (false, _) => Cause::NoBuffer,
    }
}
