//! Lanes that are no lanes: stages run at once on the engine's thread. Every fence has passed when `submit` returns.

use super::{Fence, Lanes, Outstanding, Place, Target, Work};
use crate::batch::Batch;
use crate::model::RawStream;
use crate::word::{Fault, Lane, Nanos, Queue};

/// See the module's comment.
pub struct InlineLanes {
    target: Target,
    outstanding: Outstanding,
}

impl InlineLanes {
    /// Lanes that run `target`.
    pub fn new(target: Target) -> InlineLanes {
        InlineLanes { target, outstanding: Outstanding::default() }
    }
}

impl Lanes for InlineLanes {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        Ok([RawStream::default(); Lane::COUNT])
    }

    fn submit(&mut self, mut work: Work) -> Fence {
        let queue = Queue::of(work.lane);
        self.target.run(queue, work.lane, work.calls, &mut work.batch, RawStream::default());
        self.outstanding.add(queue, Place::Here(work.batch))
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        self.outstanding.get(fence).map(|batch| &*batch)
    }

    fn passed(&mut self, _: Fence) -> bool {
        true
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        self.outstanding.take(fence)
    }

    fn block(&mut self, _: Fence, _: Nanos) -> bool {
        true
    }

    fn halt(&mut self, _: Nanos) -> bool {
        true
    }

    fn fault(&self) -> Option<Fault> {
        None
    }

    fn wakes(&self) -> bool {
        true
    }
}
