//! Threads lanes in the time of a test. All work truly runs on the engine's threads; but it is seen to be done only when
//! the test's clock has come to its end, and whoever asks then waits for the thread. So every answer is the same each
//! time, however the threads are scheduled.
//!
//! The time goes as on the streams of [`Device`]: the work of a lane is done one after the other, and not before what it
//! waits for. That ENCODE has several threads makes no difference to it.

use std::sync::Arc;

use rte::batch::Batch;
use rte::lane::{Calls, Fence, Front, FrontedLanes, Lanes, Work};
use rte::model::Call;
use rte::time::real_now;
use rte::word::{Lane, Nanos, Queue};

use super::device::Device;

/// A thread that takes longer hangs.
const HANGS: Nanos = 60_000_000_000;

/// When work will be done that its lane can begin at the time given; not before that.
pub type Ends = Box<dyn Fn(Lane, Calls, u64) -> u64 + Send>;

/// See the module's comment.
pub struct Timing {
    clock: Arc<Device>,
    ends: Ends,
    busy_until: [u64; Lane::COUNT],
    /// By queue, in the order of submission.
    done_at: [Vec<u64>; Queue::COUNT],
}

impl Timing {
    /// `lanes`, in the time of `clock`.
    pub fn of(lanes: Box<dyn Lanes>, clock: Arc<Device>, ends: Ends) -> Box<dyn Lanes> {
        let timing = Self { clock, ends, busy_until: Default::default(), done_at: Default::default() };
        Box::new(FrontedLanes::behind(timing, lanes))
    }

    fn done_at(&self, fence: Fence) -> u64 {
        self.done_at[fence.queue.at()][fence.sequence as usize - 1]
    }
}

/// Waits for the thread.
fn await_thread(lanes: &mut dyn Lanes, fence: Fence) {
    assert!(lanes.block(fence, real_now() + HANGS), "{fence:?} never passes");
}

impl Front for Timing {
    fn submit(&mut self, lanes: &mut dyn Lanes, work: Work) -> Fence {
        let (lane, calls) = (work.lane, work.calls);
        let waits = work.after.into_iter().flatten().map(|fence| self.done_at(fence));
        let begin = waits.fold(self.busy_until[lane.at()].max(self.clock.now()), u64::max);
        self.busy_until[lane.at()] = (self.ends)(lane, calls, begin).max(begin);
        let fence = lanes.submit(work);
        self.done_at[fence.queue.at()].push(self.busy_until[lane.at()]);
        if calls == Calls::Hook(Call::Detach) {
            // Nobody waits for it, and yet the tests count the model's rows after each tick.
            await_thread(lanes, fence);
        }
        fence
    }

    fn observe<'a>(&mut self, lanes: &'a mut dyn Lanes, fence: Fence) -> Option<&'a Batch> {
        if self.passed(lanes, fence) { lanes.observe(fence) } else { None }
    }

    fn passed(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> bool {
        let is_over = self.clock.now() >= self.done_at(fence);
        if is_over {
            await_thread(lanes, fence);
        }
        is_over
    }

    fn take(&mut self, lanes: &mut dyn Lanes, fence: Fence) -> Option<Box<Batch>> {
        if self.passed(lanes, fence) { lanes.take(fence) } else { None }
    }

    fn block(&mut self, lanes: &mut dyn Lanes, fence: Fence, until: Nanos) -> bool {
        if real_now() < until {
            // Who is ready to wait makes the time pass.
            self.clock.set_now(self.done_at(fence).max(self.clock.now()));
        }
        self.passed(lanes, fence)
    }
}
