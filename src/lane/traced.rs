//! Lanes whose work is told to a trace: when it was begun and ended, of how many rows.
//!
//! Told in the order of each queue, though batches are taken back in another: so that what begins before the work ahead of
//! it was seen to end, as on a device's stream, can be told to begin there.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Calls, Fence, Front, FrontedLanes, Lanes, Work};
use crate::batch::Batch;
use crate::model::Call;
use crate::telemetry::{Fact, Kind, Pen, Worked};
use crate::time::{Clock, real_now};
use crate::word::{Nanos, Queue};

/// See the module's comment.
pub type TracedLanes = FrontedLanes<Tracer>;

/// Tells of the work that passes.
pub struct Tracer {
    pen: Pen,
    /// Where it is not the one that batches are timed by.
    clock: Option<Arc<dyn Clock>>,
    /// By queue, oldest first: what was submitted and not told yet.
    works: [VecDeque<Traced>; Queue::COUNT],
    /// By queue: when the work that was told last ended.
    idle_since: [Nanos; Queue::COUNT],
}

/// A piece of work.
struct Traced {
    sequence: u64,
    is: Kind,
    /// By the engine's clock, where that is another: before and after its submission; the latter by the real one, too.
    submitted: Nanos,
    returned: Nanos,
    really_returned: Nanos,
    /// Once it was taken back.
    batch: Option<Worked>,
}

impl TracedLanes {
    /// `lanes`, whose work is told with `pen`; `clock`: that of the engine, if it is the host's.
    pub fn new(lanes: Box<dyn Lanes>, pen: Pen, clock: Option<Arc<dyn Clock>>) -> TracedLanes {
        let tracer = Tracer { pen, clock, works: Default::default(), idle_since: Default::default() };
        FrontedLanes::behind(tracer, lanes)
    }
}

impl Tracer {
    fn now(&self) -> Nanos {
        self.clock.as_ref().map_or(0, |clock| clock.now())
    }

    fn note(&mut self, Fence { queue, sequence }: Fence, batch: &Batch) {
        let now = self.now();
        let works = &mut self.works[queue.at()];
        let at = works.partition_point(|work| work.sequence < sequence);
        let Some(work) = works.get_mut(at).filter(|work| work.sequence == sequence) else { return };
        // By the host's clock: from its submission until it was over at the latest.
        let (begun, ended) = match (&self.clock, batch.ended <= work.really_returned) {
            (None, _) => (batch.begun, batch.ended),
            (Some(_), true) => (work.submitted, work.returned),
            (Some(_), false) => (work.submitted, now),
        };
        work.batch = Some(Worked {
            queue,
            is: work.is,
            rows: batch.members().len(),
            tick: batch.tick,
            begun,
            ended,
            work: batch.ended.saturating_sub(batch.begun),
            session: batch.positions().next().map(|(at, _)| batch.seat(at).session).unwrap_or_default(),
            status: batch.result.err().map_or(0, |fault| fault.status.0),
        });
        self.tell(queue);
    }

    fn tell(&mut self, queue: Queue) {
        let works = &mut self.works[queue.at()];
        while let Some(Traced { batch: Some(mut batch), .. }) = works.pop_front_if(|work| work.batch.is_some()) {
            let idle_since = &mut self.idle_since[queue.at()];
            batch.begun = batch.begun.max(*idle_since);
            batch.ended = batch.ended.max(batch.begun);
            *idle_since = batch.ended;
            self.pen.say(Fact::Batch(batch));
        }
    }
}

impl Front for Tracer {
    fn submit(&mut self, lanes: &mut dyn Lanes, work: Work) -> Fence {
        let is = match work.calls {
            Calls::Hook(Call::Detach) => Kind::Detach,
            Calls::Hook(_) => Kind::Seed,
            Calls::Stages => Kind::Stages,
        };
        let submitted = self.now();
        let fence = lanes.submit(work);
        let returned = self.now();
        let really_returned = if self.clock.is_some() { real_now() } else { 0 };
        let work = Traced { sequence: fence.sequence, is, submitted, returned, really_returned, batch: None };
        self.works[fence.queue.at()].push_back(work);
        fence
    }

    fn take(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> Option<Box<Batch>> {
        let batch = lanes.take(fence)?;
        self.note(fence, &batch);
        Some(batch)
    }
}
