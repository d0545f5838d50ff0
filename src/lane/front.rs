//! Somebody before the lanes: hears what the engine asks of them, and may answer otherwise.

use std::sync::Arc;

use super::{Fence, Lanes, Work};
use crate::batch::Batch;
use crate::model::RawStream;
use crate::queue::Passage;
use crate::word::{Fault, Lane, Nanos};

/// Each call is as that of [`Lanes`], with the lanes behind; what is not said here, they say.
#[allow(missing_docs)]
pub trait Front: Send {
    fn submit(&mut self, lanes: &mut dyn Lanes, work: Work) -> Fence {
        lanes.submit(work)
    }

    fn observe<'a>(&mut self, lanes: &'a mut dyn Lanes, fence: Fence) -> Option<&'a Batch> {
        lanes.observe(fence)
    }

    fn passed(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> bool {
        lanes.passed(fence)
    }

    fn take(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> Option<Box<Batch>> {
        lanes.take(fence)
    }

    fn block(&mut self, lanes: &mut dyn Lanes, fence: Fence, until: Nanos) -> bool {
        lanes.block(fence, until)
    }

    fn fault(&self, lanes: &dyn Lanes) -> Option<Fault> {
        lanes.fault()
    }
}

/// Lanes with somebody before them.
pub struct FrontedLanes<F> {
    front: F,
    lanes: Box<dyn Lanes>,
}

impl<F: Front> FrontedLanes<F> {
    /// `lanes`, behind `front`.
    pub fn behind(front: F, lanes: Box<dyn Lanes>) -> FrontedLanes<F> {
        FrontedLanes { front, lanes }
    }
}

impl<F: Front> Lanes for FrontedLanes<F> {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        self.lanes.open()
    }

    fn submit(&mut self, work: Work) -> Fence {
        self.front.submit(&mut *self.lanes, work)
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        self.front.observe(&mut *self.lanes, fence)
    }

    fn passed(&mut self, fence: Fence) -> bool {
        self.front.passed(&mut *self.lanes, fence)
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        self.front.take(&mut *self.lanes, fence)
    }

    fn block(&mut self, fence: Fence, until: Nanos) -> bool {
        self.front.block(&mut *self.lanes, fence, until)
    }

    fn passage(&mut self, fence: Fence) -> Option<Arc<dyn Passage>> {
        self.lanes.passage(fence)
    }

    fn halt(&mut self, until: Nanos) -> bool {
        self.lanes.halt(until)
    }

    fn fault(&self) -> Option<Fault> {
        self.front.fault(&*self.lanes)
    }

    fn wakes(&self) -> bool {
        self.lanes.wakes()
    }

    fn waits_whole(&self) -> bool {
        self.lanes.waits_whole()
    }
}
