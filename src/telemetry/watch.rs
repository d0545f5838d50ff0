//! Which callback the engine is in, since when: read by others also while it hangs.

use std::sync::atomic::{AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::time::{ThreadMark, real_now};
use crate::word::{Nanos, hook};

/// Written by the thread that calls the model, read by any.
pub struct Watch {
    stage: AtomicU32,
    row: AtomicU32,
    since: AtomicU64,
    thread: AtomicUsize,
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            stage: AtomicU32::new(hook::NONE),
            row: AtomicU32::new(0),
            since: AtomicU64::new(0),
            thread: AtomicUsize::new(0),
        }
    }
}

impl Watch {
    /// The calling thread runs `call` of `stage`, whose first row is `row`, from `now` of the real clock on.
    pub fn during<T>(&self, stage: u32, row: u32, now: Nanos, call: impl FnOnce() -> T) -> T {
        let outer = self.thread.load(Ordering::Relaxed);
        self.thread.store(ThreadMark::current().number(), Ordering::Relaxed);
        self.row.store(row, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        // Release: who sees the stage sees its row and begin.
        self.stage.store(stage, Ordering::Release);
        let result = call();
        self.stage.store(hook::NONE, Ordering::Release);
        self.thread.store(outer, Ordering::Relaxed);
        result
    }

    /// The calling thread drives the engine: whatever callback it runs meanwhile, also a release or a log line, is inside.
    pub fn driving<T>(&self, call: impl FnOnce() -> T) -> T {
        let outer = self.thread.swap(ThreadMark::current().number(), Ordering::Relaxed);
        let result = call();
        self.thread.store(outer, Ordering::Relaxed);
        result
    }

    /// Whether the calling thread is in one of this engine's callbacks.
    pub fn is_inside(&self) -> bool {
        self.thread.load(Ordering::Relaxed) == ThreadMark::current().number()
    }

    /// The stage that is running: its number, its first row, and how long it has been.
    pub fn running(&self) -> Option<(u32, u32, Nanos)> {
        let stage = self.stage.load(Ordering::Acquire);
        let since = self.since.load(Ordering::Relaxed);
        (stage != hook::NONE).then(|| (stage, self.row.load(Ordering::Relaxed), real_now().saturating_sub(since)))
    }
}
