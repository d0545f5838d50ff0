//! The lives of an engine, as its outputs tell them: each begins once, ends once, and gives its chunks in between.

use std::collections::{BTreeMap, BTreeSet};

use rte::abi::output::{RTE_ALREADY, RTE_ATTACHED, RTE_CHUNK, RTE_DETACHED, RTE_REJECTED, RTE_ROW_FAILED};
use rte::abi::status::{rte_status, rte_status_code};

use crate::host::engine::Output;

/// See the module's comment. By generation.
#[derive(Default)]
pub struct Ledger {
    lives: BTreeMap<u64, Life>,
    /// Outputs that do not fit to those before them.
    complaints: Vec<String>,
}

#[derive(Default)]
struct Life {
    session: Option<u64>,
    is_attached: bool,
    has_failed: bool,
    has_ended: bool,
    next_index: u64,
}

impl Ledger {
    /// Takes in an output, in the order of popping.
    pub fn enter(&mut self, output: &Output) {
        // A REJECTED of something that never had a life, and notices of the engine's own.
        if output.generation == 0 {
            return;
        }
        let life = self.lives.entry(output.generation).or_default();
        // The end is the last thing told of a life.
        let was_over = life.has_ended;
        let is_same = *life.session.get_or_insert(output.session) == output.session;
        let fits = match output.kind {
            RTE_CHUNK => {
                let is_next = output.index >= life.next_index;
                // The model leaves no step without a chunk, so a gap is as long as what is said to be missing.
                let is_told = output.index == life.next_index + output.dropped;
                life.next_index = output.index + 1;
                life.is_attached && is_next && is_told
            }
            RTE_ATTACHED if output.flags & RTE_ALREADY != 0 => true,
            RTE_ATTACHED => !std::mem::replace(&mut life.is_attached, true),
            RTE_ROW_FAILED => life.is_attached && !std::mem::replace(&mut life.has_failed, true),
            // The RESET is rejected, not the life.
            RTE_REJECTED if output.status == rte_status_code::RTE_ERR_STATE as rte_status => true,
            RTE_REJECTED => {
                life.has_ended = true;
                !life.is_attached
            }
            RTE_DETACHED => {
                life.has_ended = true;
                true
            }
            _ => false,
        };
        if !is_same || !fits || was_over {
            self.complaints.push(format!("does not fit to what was told before: {output:?}"));
        }
    }

    /// Complaints since the last time.
    pub fn take_complaints(&mut self) -> Vec<String> {
        std::mem::take(&mut self.complaints)
    }

    /// The lives that were attached.
    pub fn attached(&self) -> BTreeSet<u64> {
        self.lives.iter().filter(|(_, life)| life.is_attached).map(|(generation, _)| *generation).collect()
    }

    /// Lives that have not ended, and generations that were left out.
    pub fn open(&self) -> Vec<u64> {
        let last = self.lives.keys().last().copied().unwrap_or(0);
        (1..=last).filter(|generation| self.lives.get(generation).is_none_or(|life| !life.has_ended)).collect()
    }

    /// How many there were.
    pub fn len(&self) -> usize {
        self.lives.len()
    }
}
