//! What was asked for and what was told of it: each ATTACH and RESET is answered once, each life that begins ends once.

use std::collections::HashSet;

use crate::driver::*;

/// Of one engine, by a consumer that gets all of its outputs.
#[derive(Default)]
pub struct Ledger {
    /// Tags of messages that begin a life and were taken, and those of them that were answered.
    taken: HashSet<u64>,
    answered: HashSet<u64>,
    /// Those that name a life: where it is not the living one, they are answered together with others.
    perhaps: HashSet<u64>,
    /// Generations.
    attached: HashSet<u64>,
    ended: HashSet<u64>,
    /// Lives that ended before they were seeded: their DETACHED is all that is told.
    ended_alone: u64,
    pub rejected: u64,
    pub rows_failed: u64,
    pub calls_failed: u64,
    pub chunks: u64,
}

impl Ledger {
    /// A message that begins a life was taken; each has a tag of its own.
    pub fn take(&mut self, tag: u64) {
        assert!(self.taken.insert(tag));
    }

    /// The same of one that may have come too late for the life that it names.
    pub fn take_perhaps(&mut self, tag: u64) {
        assert!(self.perhaps.insert(tag));
    }

    pub fn begun(&self) -> u64 {
        self.taken.len() as u64
    }

    pub fn tell(&mut self, output: &rte_output) {
        match output.kind {
            RTE_CHUNK => {
                self.chunks += 1;
                self.expect_alive(output, "a chunk");
            }
            RTE_ATTACHED if output.flags & RTE_ALREADY != 0 => {
                self.expect_alive(output, "ALREADY");
                self.answer(output);
            }
            RTE_ATTACHED => {
                assert!(self.attached.insert(output.generation), "attached twice: {}", output.generation);
                assert!(!self.ended.contains(&output.generation), "attached after its end: {}", output.generation);
                self.answer(output);
            }
            RTE_REJECTED if [UNKNOWN, STALE].contains(&output.status) => {}
            RTE_REJECTED => {
                self.rejected += 1;
                self.answer(output);
            }
            RTE_DETACHED => {
                assert!(self.ended.insert(output.generation), "ended twice: {}", output.generation);
                self.ended_alone += u64::from(!self.attached.contains(&output.generation));
            }
            RTE_ROW_FAILED => {
                self.rows_failed += 1;
                self.expect_alive(output, "ROW_FAILED");
            }
            RTE_TICK_FAILED => self.calls_failed += output.dropped,
            kind => panic!("an output of kind {kind}, status {}", output.status),
        }
    }

    fn answer(&mut self, output: &rte_output) {
        let (kind, tag) = (output.kind, output.tag);
        let is_one = self.taken.contains(&tag) || self.perhaps.contains(&tag);
        assert!(is_one, "an answer (kind {kind}) to what was not asked: tag {tag}");
        assert!(self.answered.insert(tag), "answered twice: tag {tag}, kind {kind}");
    }

    fn expect_alive(&self, output: &rte_output, what: &str) {
        let generation = output.generation;
        let is_alive = self.attached.contains(&generation) && !self.ended.contains(&generation);
        // Of a life that waits for its seed ALREADY comes before its ATTACHED.
        assert!(
            is_alive || output.flags & RTE_ALREADY != 0 && !self.ended.contains(&generation),
            "{what} of {generation}"
        );
    }

    /// Nobody is attached any more, and all was popped.
    pub fn expect_settled(&self) {
        let open: Vec<_> = self.attached.difference(&self.ended).collect();
        assert!(open.is_empty(), "attached and never detached: {open:?}");
        let unanswered = self.taken.difference(&self.answered).count() as u64;
        let most = unanswered + self.perhaps.difference(&self.answered).count() as u64;
        let alone = self.ended_alone;
        let are_as_many = (unanswered..=most).contains(&alone);
        assert!(are_as_many, "{alone} lives were told to end alone, {unanswered}..={most} messages have no answer");
    }
}

/// Places in the store of notices that nobody has paid for.
pub fn credits(host: &Host) -> i64 {
    // SAFETY: what a handle is; the engine lives.
    unsafe { &*host.engine.cast::<rte::engine::Engine>() }.shared.outbox.credits()
}

const UNKNOWN: i32 = rte_status_code::RTE_ERR_UNKNOWN as i32;
const STALE: i32 = rte_status_code::RTE_ERR_STALE as i32;
