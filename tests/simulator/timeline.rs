//! What the lanes have done, and the events that chunks carry: they pass when the simulated work has run, and one is
//! recorded again only when it has passed and nobody holds it.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};

use rte::lane::Fence;
use rte::model::RawEvent;
use rte::queue::Passage;
use rte::word::Queue;

use super::dependency::Lie;
use super::model::SharedWorld;
use super::tally::Count;
use super::world::Violation;

/// Behind what an event was recorded last.
#[derive(Clone, Copy)]
pub struct Mark {
    pub fence: Fence,
    /// Of all work.
    pub number: u64,
}

/// Shared by the lanes, chunks, and the streams of consumers.
pub struct Timeline {
    world: SharedWorld,
    lie: Option<Lie>,
    /// By queue: how much of its work is done.
    done: [AtomicU64; Queue::COUNT],
    /// By event.
    marks: Mutex<Vec<Mark>>,
    /// Events that chunks may hold, by their numbers.
    events: Mutex<Vec<Arc<Completion>>>,
}

/// An event as a chunk holds it.
pub struct Completion {
    event: usize,
    timeline: Arc<Timeline>,
}

impl Timeline {
    /// Nothing is done. Events tell `lie`.
    pub fn new(world: SharedWorld, lie: Option<Lie>) -> Arc<Timeline> {
        let (done, marks, events) = Default::default();
        Arc::new(Timeline { world, lie, done, marks, events })
    }

    /// How much of a queue's work is done.
    pub fn done(&self, queue: Queue) -> u64 {
        self.done[queue.at()].load(Ordering::Relaxed)
    }

    /// The oldest work of a queue is done.
    pub fn advance(&self, queue: Queue) {
        self.done[queue.at()].fetch_add(1, Ordering::Relaxed);
    }

    /// Whether the work of `fence` is done.
    pub fn is_done(&self, fence: Fence) -> bool {
        self.done(fence.queue) >= fence.sequence
    }

    /// Behind what `event` was recorded last.
    pub fn mark(&self, event: RawEvent) -> Mark {
        self.marks.lock().unwrap()[event.0 - 1]
    }

    /// An event behind `mark`: one that nobody needs any more, or a new one.
    pub fn record(self: &Arc<Timeline>, mark: Mark) -> Arc<Completion> {
        let mut events = self.events.lock().unwrap();
        let is_free = |completion: &Arc<Completion>| {
            let has_passed = self.is_done(self.mark(completion.event()).fence);
            has_passed && (Arc::strong_count(completion) == 1 || self.lie == Some(Lie::Recorded))
        };
        if let Some(completion) = events.iter().find(|completion| is_free(completion)) {
            self.world.lock().unwrap().recorded(completion.event);
            self.marks.lock().unwrap()[completion.event - 1] = mark;
            return completion.clone();
        }
        self.marks.lock().unwrap().push(mark);
        let completion = Arc::new(Completion { event: events.len() + 1, timeline: self.clone() });
        events.push(completion.clone());
        completion
    }

    /// Completions hold the timeline, and it holds them.
    pub fn close(&self) {
        let events = std::mem::take(&mut *self.events.lock().unwrap());
        self.world.lock().unwrap().count(Count::Events, events.len() as u64);
    }
}

impl Passage for Completion {
    fn passed(&self) -> bool {
        self.timeline.lie == Some(Lie::Completed) || self.timeline.is_done(self.timeline.mark(self.event()).fence)
    }

    /// Only an engine's end waits, and that of its lanes comes first.
    fn wait(&self) {
        if !self.passed() {
            self.timeline.world.lock().unwrap().violated(Violation::Waited);
        }
    }

    fn event(&self) -> RawEvent {
        RawEvent(self.event)
    }
}
