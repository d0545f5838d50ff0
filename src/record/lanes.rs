//! Lanes whose answers go through a tape.
//!
//! Recording: the real ones, and what they say is written down. Playing: work is done, on the real lanes, when it is
//! submitted; what is said of it is what was said then.

use std::sync::Arc;

use super::tape::{Outcome, Tape};
use crate::batch::Batch;
use crate::lane::{Fence, Front, FrontedLanes, Lanes, Work};
use crate::word::{Fault, Nanos};

/// See the module's comment.
pub type TapedLanes = FrontedLanes<Taping>;

/// What goes through a tape.
pub struct Taping {
    tape: Arc<Tape>,
    plays: bool,
}

impl TapedLanes {
    /// `lanes`, as `tape` says.
    pub fn new(lanes: Box<dyn Lanes>, tape: Arc<Tape>) -> TapedLanes {
        FrontedLanes::behind(Taping { plays: tape.plays(), tape }, lanes)
    }
}

impl Front for Taping {
    fn submit(&mut self, lanes: &mut dyn Lanes, work: Work) -> Fence {
        let fence = lanes.submit(work);
        if self.plays {
            while !lanes.block(fence, Nanos::MAX) && lanes.fault().is_none() {}
        }
        fence
    }

    fn observe<'a>(&mut self, lanes: &'a mut dyn Lanes, fence: Fence) -> Option<&'a Batch> {
        let outcome = lanes.observe(fence).map(outcome_of);
        if self.tape.outcome(outcome) { lanes.observe(fence) } else { None }
    }

    fn passed(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> bool {
        let real = self.plays || lanes.passed(fence);
        self.tape.bit(real)
    }

    fn take(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> Option<Box<Batch>> {
        if self.plays {
            return if self.tape.bit(true) { lanes.take(fence) } else { None };
        }
        let batch = lanes.take(fence);
        self.tape.bit(batch.is_some());
        batch
    }

    fn block(&mut self, lanes: &mut dyn Lanes, fence: Fence, until: Nanos) -> bool {
        let real = self.plays || lanes.block(fence, until);
        self.tape.bit(real)
    }

    fn fault(&self, lanes: &dyn Lanes) -> Option<Fault> {
        lanes.fault().or_else(|| if self.plays { self.tape.death_here() } else { None })
    }
}

fn outcome_of(batch: &Batch) -> Outcome {
    let failed = batch.positions().filter_map(|(at, row)| Some((row, batch.failed(at)?)));
    Outcome { result: batch.result, rows: failed.collect() }
}
