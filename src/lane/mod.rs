//! Where stages run. A lane is a FIFO queue of work; what may overlap, and what waits for what, is all in [`Work::after`].
//!
//! A backend turns `after` into stream waits, a condition, or nothing; the tick knows no backend. A batch given to
//! `submit` belongs to the lane until `take` gives it back, which it does once its fence has passed.

mod cuda;
mod cuda_driver;
mod front;
mod inline;
mod mark;
mod streams;
mod threads;
mod traced;

pub use cuda::{Choice, CudaStreams, Gpu, InContext, NoGpu, OnDevice, PageLocked};
pub use cuda_driver::CUDA_FUNCTIONS;
pub use front::{Front, FrontedLanes};
pub use inline::InlineLanes;
pub use mark::{Events, Mark, Releases};
pub use streams::{StreamLanes, Streams};
pub use threads::{Bell, ThreadLanes};
pub use traced::TracedLanes;

use std::sync::{Arc, OnceLock};

use crate::batch::Batch;
use crate::memory::Room;
use crate::model::{Call, Model, RawStream};
use crate::queue::{Passage, ReleaseFence};
use crate::telemetry::Watch;
use crate::time::real_now;
use crate::word::{Fault, Lane, Nanos, Queue, Status};

/// "This much of that queue is done."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fence {
    /// Where it was submitted.
    pub queue: Queue,
    /// How many pieces of work were submitted there up to this one.
    pub sequence: u64,
}

/// What a piece of work runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Calls {
    /// One hook.
    Hook(Call),
    /// All stages of the work's lane, in their order.
    Stages,
}

/// One batch and what is to be done with it.
pub struct Work {
    /// Where.
    pub lane: Lane,
    /// What.
    pub calls: Calls,
    /// With which rows.
    pub batch: Box<Batch>,
    /// Not before these have passed.
    pub after: [Option<Fence>; 2],
}

/// FIFO lanes: HOT, DEFERRED, and one or more of ENCODE. Used by the engine's thread alone.
pub trait Lanes: Send {
    /// Made on the engine's thread before the first work; what the model's `init` is shown.
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault>;

    /// Appends work to its lane; of ENCODE to the first idle queue.
    fn submit(&mut self, work: Work) -> Fence;

    /// The batch of a fence whose calls have returned: its result and what it says of rows may be read. It may still be
    /// in use.
    fn observe(&mut self, fence: Fence) -> Option<&Batch>;

    /// Whether the fence has passed. Never blocks.
    fn passed(&mut self, fence: Fence) -> bool;

    /// The batch of a fence that has passed; once.
    fn take(&mut self, fence: Fence) -> Option<Box<Batch>>;

    /// Waits until the fence has passed; false: not before `until`.
    fn block(&mut self, fence: Fence, until: Nanos) -> bool;

    /// The completion of work just submitted, to be held by others; `None` where there is nothing to wait for.
    fn passage(&mut self, fence: Fence) -> Option<Arc<dyn Passage>> {
        let _ = fence;
        None
    }

    /// Nothing more is to run. Whether no call runs or will run; waits for those that do until `until`.
    fn halt(&mut self, until: Nanos) -> bool;

    /// What ended this backend: nothing more will come of it.
    fn fault(&self) -> Option<Fault>;

    /// Whether it wakes a parked engine when a fence passes; else the engine looks now and then.
    fn wakes(&self) -> bool;

    /// Whether a wait without end is cheaper than one that ends: an engine with a thread of its own then waits so.
    fn waits_whole(&self) -> bool {
        false
    }
}

/// What a device brings beside its streams; nothing where stages run on the processor.
#[derive(Clone, Default)]
pub struct Equipment {
    /// Marks the streams of consumers.
    pub releases: Option<Arc<dyn ReleaseFence>>,
    /// What the arrays of the batches lie in that HOT and DEFERRED see.
    pub arrays: Option<Arc<dyn Room>>,
    /// What outputs lie in.
    pub outputs: Option<Arc<dyn Room>>,
}

/// The first failure of a device, in its driver's words, for whoever asks why its engine ended.
#[derive(Default, Debug)]
pub struct Trouble(OnceLock<(Status, String)>);

impl Trouble {
    /// Keeps it, if it is the first.
    pub fn note(&self, failure: impl FnOnce() -> (Status, String)) {
        self.0.get_or_init(failure);
    }

    /// What it was.
    pub fn get(&self) -> Option<(Status, &str)> {
        self.0.get().map(|(status, words)| (*status, words.as_str()))
    }
}

/// What lanes call.
#[derive(Clone)]
pub struct Target {
    /// Whose stages.
    pub model: Arc<dyn Model>,
    /// Says which of them is running.
    pub watch: Arc<Watch>,
}

impl Target {
    /// Runs `calls` on `stream`; the batch says what came of it. The unit of failure is the whole list.
    pub fn run(&self, queue: Queue, lane: Lane, calls: Calls, batch: &mut Batch, stream: RawStream) {
        batch.begun = real_now();
        batch.result = match calls {
            Calls::Hook(call) => self.call(Some(queue), call, batch, stream, batch.begun),
            Calls::Stages => self.stages(queue, lane, batch, stream),
        };
        batch.ended = real_now();
    }

    fn stages(&self, queue: Queue, lane: Lane, batch: &mut Batch, stream: RawStream) -> Result<(), Fault> {
        let stages = self.model.manifest().stages.iter().enumerate();
        let mut now = Some(batch.begun);
        for (stage, _) in stages.filter(|(_, spec)| spec.lane == lane) {
            self.call(Some(queue), Call::Stage(stage as u32), batch, stream, now.take().unwrap_or_else(real_now))?;
        }
        Ok(())
    }

    /// One call, on the calling thread, at `now` of the real clock; `queue`: for work of which queue, if any.
    pub fn call(
        &self,
        queue: Option<Queue>,
        call: Call,
        batch: &mut Batch,
        stream: RawStream,
        now: Nanos,
    ) -> Result<(), Fault> {
        let (stage, row) = (call.number(), batch.first_row());
        let result = if self.watch.is_abandoned() {
            Err(Status::DEAD)
        } else {
            self.watch.during(queue, stage, row, now, || self.model.call(call, batch, stream))
        };
        result.map_err(|status| Fault { stage, status })
    }
}

/// Work that was submitted and not yet taken back, by queue.
#[derive(Default)]
struct Outstanding {
    submitted: [u64; Queue::COUNT],
    /// Oldest first, and the newest is the one submitted last: their sequences have no gaps.
    works: [std::collections::VecDeque<Place>; Queue::COUNT],
}

/// Where a batch is.
enum Place {
    /// With a thread of the lanes; or lost with them.
    Away,
    Here(Box<Batch>),
    /// Taken back.
    Gone,
}

impl Outstanding {
    fn next(&self, queue: Queue) -> Fence {
        Fence { queue, sequence: self.submitted[queue.at()] + 1 }
    }

    fn add(&mut self, queue: Queue, place: Place) -> Fence {
        let fence = self.next(queue);
        self.submitted[queue.at()] = fence.sequence;
        self.works[queue.at()].push_back(place);
        fence
    }

    fn place(&mut self, fence: Fence) -> Option<&mut Place> {
        let newer = self.submitted[fence.queue.at()].checked_sub(fence.sequence)? as usize;
        let works = &mut self.works[fence.queue.at()];
        // Older than the oldest: taken back.
        works.len().checked_sub(newer + 1).and_then(|at| works.get_mut(at))
    }

    fn get(&mut self, fence: Fence) -> Option<&mut Batch> {
        match self.place(fence)? {
            Place::Here(batch) => Some(batch),
            _ => None,
        }
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        let place = self.place(fence)?;
        let Place::Here(batch) = std::mem::replace(place, Place::Gone) else { return None };
        let works = &mut self.works[fence.queue.at()];
        while matches!(works.front(), Some(Place::Gone)) {
            works.pop_front();
        }
        Some(batch)
    }
}

/// Why a backend's own call failed: no stage, its status.
fn backend_fault(status: Status) -> Fault {
    Fault { stage: crate::word::hook::NONE, status }
}
