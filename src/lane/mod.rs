//! Where stages run. A lane is a FIFO queue of work; what may overlap, and what waits for what, is all in [`Work::after`].
//!
//! A backend turns `after` into stream waits, a condition, or nothing; the tick knows no backend. A batch given to
//! `submit` belongs to the lane until `take` gives it back, which it does once its fence has passed.

mod inline;
mod streams;

pub use inline::InlineLanes;
pub use streams::{StreamLanes, Streams};

use std::sync::Arc;

use crate::batch::Batch;
use crate::model::{Call, Model, RawStream};
use crate::telemetry::Watch;
use crate::time::real_now;
use crate::word::{Fault, Lane, Nanos, Status};

/// "This much of that lane is done."
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fence {
    /// Which lane.
    pub lane: Lane,
    /// How many pieces of work were submitted to it up to this one.
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

/// Three FIFO lanes. Used by the engine's thread alone.
pub trait Lanes: Send {
    /// Made on the engine's thread before the first work; what the model's `init` is shown.
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault>;

    /// Appends work to its lane.
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

    /// What ended this backend: nothing more will come of it.
    fn fault(&self) -> Option<Fault>;

    /// Whether it wakes a parked engine when a fence passes; else the engine looks now and then.
    fn wakes(&self) -> bool;
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
    pub fn run(&self, lane: Lane, calls: Calls, batch: &mut Batch, stream: RawStream) {
        batch.begun = real_now();
        batch.result = match calls {
            Calls::Hook(call) => self.call(call, batch, stream, batch.begun),
            Calls::Stages => self.stages(lane, batch, stream),
        };
        batch.ended = real_now();
    }

    fn stages(&self, lane: Lane, batch: &mut Batch, stream: RawStream) -> Result<(), Fault> {
        let stages = self.model.manifest().stages.iter().enumerate();
        let mut now = Some(batch.begun);
        for (stage, _) in stages.filter(|(_, spec)| spec.lane == lane) {
            self.call(Call::Stage(stage as u32), batch, stream, now.take().unwrap_or_else(real_now))?;
        }
        Ok(())
    }

    /// One call, on the calling thread, at `now` of the real clock.
    pub fn call(&self, call: Call, batch: &mut Batch, stream: RawStream, now: Nanos) -> Result<(), Fault> {
        let (stage, row) = (call.number(), batch.first_row());
        let result = self.watch.during(stage, row, now, || self.model.call(call, batch, stream));
        result.map_err(|status| Fault { stage, status })
    }
}

/// Work that was submitted and not yet taken back, by lane, oldest first.
#[derive(Default)]
struct Outstanding {
    submitted: [u64; Lane::COUNT],
    works: [std::collections::VecDeque<(u64, Option<Box<Batch>>)>; Lane::COUNT],
}

impl Outstanding {
    fn add(&mut self, lane: Lane, batch: Box<Batch>) -> Fence {
        let sequence = self.submitted[lane.at()] + 1;
        self.submitted[lane.at()] = sequence;
        self.works[lane.at()].push_back((sequence, Some(batch)));
        Fence { lane, sequence }
    }

    fn get(&mut self, fence: Fence) -> Option<&mut Option<Box<Batch>>> {
        let works = &mut self.works[fence.lane.at()];
        let at = works.partition_point(|(sequence, _)| *sequence < fence.sequence);
        works.get_mut(at).filter(|(sequence, _)| *sequence == fence.sequence).map(|(_, batch)| batch)
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        let batch = self.get(fence)?.take();
        let works = &mut self.works[fence.lane.at()];
        while works.front().is_some_and(|(_, batch)| batch.is_none()) {
            works.pop_front();
        }
        batch
    }
}

/// Why a backend's own call failed: no stage, its status.
fn backend_fault(status: Status) -> Fault {
    Fault { stage: crate::word::hook::NONE, status }
}
