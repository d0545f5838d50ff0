//! Lanes whose work is done whenever somebody looks: the engine meets their threads always at the same points, and so does
//! the same each time, however they are scheduled.

use rte::batch::Batch;
use rte::lane::{Fence, Lanes, Work};
use rte::model::RawStream;
use rte::time::real_now;
use rte::word::{Fault, Lane, Nanos};

/// A thread that takes longer hangs.
const HANGS: Nanos = 60_000_000_000;

/// See the module's comment.
pub struct SettledLanes(pub Box<dyn Lanes>);

impl Lanes for SettledLanes {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        self.0.open()
    }

    fn submit(&mut self, work: Work) -> Fence {
        self.0.submit(work)
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        self.passed(fence);
        self.0.observe(fence)
    }

    fn passed(&mut self, fence: Fence) -> bool {
        assert!(self.0.block(fence, real_now() + HANGS), "{fence:?} never passes");
        true
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        self.passed(fence);
        self.0.take(fence)
    }

    fn block(&mut self, fence: Fence, _: Nanos) -> bool {
        self.passed(fence)
    }

    fn halt(&mut self, until: Nanos) -> bool {
        self.0.halt(until)
    }

    fn fault(&self) -> Option<Fault> {
        self.0.fault()
    }

    fn wakes(&self) -> bool {
        self.0.wakes()
    }
}
