//! Lanes whose work is done whenever somebody looks: the engine meets their threads always at the same points, and so does
//! the same each time, however they are scheduled.

use rte::batch::Batch;
use rte::lane::{Fence, Front, Lanes};
use rte::time::real_now;
use rte::word::Nanos;

/// A thread that takes longer hangs.
const HANGS: Nanos = 60_000_000_000;

/// See the module's comment.
pub struct Settling;

impl Front for Settling {
    fn observe<'a>(&mut self, lanes: &'a mut dyn Lanes, fence: Fence) -> Option<&'a Batch> {
        self.passed(lanes, fence);
        lanes.observe(fence)
    }

    fn passed(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> bool {
        assert!(lanes.block(fence, real_now() + HANGS), "{fence:?} never passes");
        true
    }

    fn take(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> Option<Box<Batch>> {
        self.passed(lanes, fence);
        lanes.take(fence)
    }

    fn block(&mut self, lanes: &mut dyn Lanes, fence: Fence, _: Nanos) -> bool {
        self.passed(lanes, fence)
    }
}
