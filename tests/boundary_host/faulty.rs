//! Lanes of which one method panics: what a mistake of the library's own would do to it.

use std::sync::Arc;

use rte::batch::Batch;
use rte::lane::{Fence, Lanes, Work};
use rte::model::RawStream;
use rte::queue::Passage;
use rte::word::{Fault, Lane, Nanos};

/// A method of lanes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Method {
    Open,
    Submit,
    Observe,
    Passed,
    Take,
    Block,
    Fault,
    Wakes,
    Halt,
    Drop,
}

impl Method {
    pub const ALL: [Method; 10] = [
        Method::Open,
        Method::Submit,
        Method::Observe,
        Method::Passed,
        Method::Take,
        Method::Block,
        Method::Fault,
        Method::Wakes,
        Method::Halt,
        Method::Drop,
    ];
}

/// `inner`, but first `visit`.
pub struct FaultyLanes {
    pub inner: Box<dyn Lanes>,
    pub visit: Box<dyn Fn(Method) + Send>,
}

impl Lanes for FaultyLanes {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        (self.visit)(Method::Open);
        self.inner.open()
    }

    fn submit(&mut self, work: Work) -> Fence {
        (self.visit)(Method::Submit);
        self.inner.submit(work)
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        (self.visit)(Method::Observe);
        self.inner.observe(fence)
    }

    fn passed(&mut self, fence: Fence) -> bool {
        (self.visit)(Method::Passed);
        self.inner.passed(fence)
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        (self.visit)(Method::Take);
        self.inner.take(fence)
    }

    fn block(&mut self, fence: Fence, until: Nanos) -> bool {
        (self.visit)(Method::Block);
        self.inner.block(fence, until)
    }

    fn passage(&mut self, fence: Fence) -> Option<Arc<dyn Passage>> {
        self.inner.passage(fence)
    }

    fn halt(&mut self, until: Nanos) -> bool {
        (self.visit)(Method::Halt);
        self.inner.halt(until)
    }

    fn fault(&self) -> Option<Fault> {
        (self.visit)(Method::Fault);
        self.inner.fault()
    }

    fn wakes(&self) -> bool {
        (self.visit)(Method::Wakes);
        self.inner.wakes()
    }
}

impl Drop for FaultyLanes {
    fn drop(&mut self) {
        (self.visit)(Method::Drop);
    }
}
