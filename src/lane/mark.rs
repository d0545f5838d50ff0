//! An event of a device as others may hold it: a batch's chunks, and outputs that were given back.
//!
//! An event is recorded again only when nobody else holds its mark, and freed with the last of them, wherever that is:
//! an output may outlive the lanes.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::model::{RawEvent, RawStream};
use crate::queue::{Passage, ReleaseFence};
use crate::word::{Nanos, Status};

/// A device's events. On any thread.
pub trait Events: Send + Sync {
    /// A new event.
    fn event(&self) -> Result<RawEvent, Status>;
    /// Marks the end of what is enqueued on `stream`.
    fn record(&self, event: RawEvent, stream: RawStream) -> Result<(), Status>;
    /// Whether it has passed.
    fn query(&self, event: RawEvent) -> Result<bool, Status>;
    /// Waits at most `timeout` for it.
    fn sync(&self, event: RawEvent, timeout: Nanos) -> Result<bool, Status>;
    /// It is needed no more.
    fn free(&self, event: RawEvent);
}

/// See the module's comment.
pub struct Mark {
    event: RawEvent,
    events: Arc<dyn Events>,
    has_passed: AtomicBool,
}

impl Mark {
    /// A mark that is nowhere yet.
    pub fn new(events: Arc<dyn Events>) -> Result<Arc<Mark>, Status> {
        Ok(Arc::new(Mark { event: events.event()?, events, has_passed: AtomicBool::new(false) }))
    }

    /// Puts it behind all that is enqueued on `stream` now. Nobody else holds it, or it never was anywhere.
    pub fn put(&self, stream: RawStream) -> Result<(), Status> {
        self.has_passed.store(false, Ordering::Relaxed);
        self.events.record(self.event, stream)
    }

    /// Whether it has passed, asking the device only until it has.
    pub fn look(&self) -> Result<bool, Status> {
        if self.has_passed.load(Ordering::Acquire) {
            return Ok(true);
        }
        let passed = self.events.query(self.event)?;
        if passed {
            self.note_passed();
        }
        Ok(passed)
    }

    /// Waits at most `timeout`.
    pub fn sync(&self, timeout: Nanos) -> Result<bool, Status> {
        let passed = self.has_passed.load(Ordering::Acquire) || self.events.sync(self.event, timeout)?;
        if passed {
            self.note_passed();
        }
        Ok(passed)
    }

    /// One behind it on its stream has.
    pub fn note_passed(&self) {
        // Release: who sees it sees what the device's answer has made visible.
        self.has_passed.store(true, Ordering::Release);
    }
}

/// A device that fails makes nobody wait: its engine ends.
impl Passage for Mark {
    fn passed(&self) -> bool {
        self.look().unwrap_or(true)
    }

    fn wait(&self) {
        while let Ok(false) = self.sync(Nanos::MAX) {}
    }

    fn event(&self) -> RawEvent {
        self.event
    }
}

impl Drop for Mark {
    fn drop(&mut self) {
        self.events.free(self.event);
    }
}

/// What marks the streams of consumers.
pub struct Releases(pub Arc<dyn Events>);

impl ReleaseFence for Releases {
    fn mark(&self, stream: RawStream) -> Option<Arc<dyn Passage>> {
        let mark = Mark::new(self.0.clone()).ok()?;
        mark.put(stream).is_ok().then_some(mark as Arc<dyn Passage>)
    }
}
