//! Lanes whose answers go through a tape.
//!
//! Recording: the real ones, and what they say is written down. Playing: work is done, on the real lanes, when it is
//! submitted; what is said of it is what was said then.

use std::sync::Arc;

use super::tape::{Outcome, Tape};
use crate::batch::Batch;
use crate::lane::{Fence, Lanes, Work};
use crate::model::RawStream;
use crate::queue::Passage;
use crate::word::{Fault, Lane, Nanos};

/// See the module's comment.
pub struct TapedLanes {
    lanes: Box<dyn Lanes>,
    tape: Arc<Tape>,
    plays: bool,
}

impl TapedLanes {
    /// `lanes`, as `tape` says.
    pub fn new(lanes: Box<dyn Lanes>, tape: Arc<Tape>) -> TapedLanes {
        TapedLanes { lanes, plays: tape.plays(), tape }
    }
}

impl Lanes for TapedLanes {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        self.lanes.open()
    }

    fn submit(&mut self, work: Work) -> Fence {
        let fence = self.lanes.submit(work);
        if self.plays {
            while !self.lanes.block(fence, Nanos::MAX) && self.lanes.fault().is_none() {}
        }
        fence
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        let outcome = self.lanes.observe(fence).map(outcome_of);
        if self.tape.outcome(outcome) { self.lanes.observe(fence) } else { None }
    }

    fn passed(&mut self, fence: Fence) -> bool {
        let real = self.plays || self.lanes.passed(fence);
        self.tape.bit(real)
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        if self.plays {
            return if self.tape.bit(true) { self.lanes.take(fence) } else { None };
        }
        let batch = self.lanes.take(fence);
        self.tape.bit(batch.is_some());
        batch
    }

    fn block(&mut self, fence: Fence, until: Nanos) -> bool {
        let real = self.plays || self.lanes.block(fence, until);
        self.tape.bit(real)
    }

    fn passage(&mut self, fence: Fence) -> Option<Arc<dyn Passage>> {
        self.lanes.passage(fence)
    }

    fn halt(&mut self, until: Nanos) -> bool {
        self.lanes.halt(until)
    }

    fn fault(&self) -> Option<Fault> {
        self.lanes.fault()
    }

    fn wakes(&self) -> bool {
        self.lanes.wakes()
    }

    fn waits_whole(&self) -> bool {
        self.lanes.waits_whole()
    }
}

fn outcome_of(batch: &Batch) -> Outcome {
    let failed = batch.positions().filter_map(|(at, row)| Some((row, batch.failed(at)?)));
    Outcome { result: batch.result, rows: failed.collect() }
}
