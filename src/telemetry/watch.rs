//! Which callback the engine is in, since when: read by others also while it hangs.

use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use crate::time::{ThreadMark, real_now};
use crate::word::{Nanos, Queue, hook};

/// Where one thread at a time calls the model. Written by that thread, read by any.
struct Post {
    stage: AtomicU32,
    row: AtomicU32,
    since: AtomicU64,
    thread: AtomicUsize,
}

/// One post for each queue of work, and one for what the engine's thread calls itself.
pub struct Watch {
    queues: [Post; Queue::COUNT],
    engine: Post,
    is_abandoned: AtomicBool,
}

impl Default for Post {
    fn default() -> Post {
        Post {
            stage: AtomicU32::new(hook::NONE),
            row: AtomicU32::new(0),
            since: AtomicU64::new(0),
            thread: AtomicUsize::new(0),
        }
    }
}

impl Default for Watch {
    fn default() -> Watch {
        Watch {
            queues: std::array::from_fn(|_| Post::default()),
            engine: Post::default(),
            is_abandoned: AtomicBool::new(false),
        }
    }
}

impl Post {
    fn during<T>(&self, stage: u32, row: u32, now: Nanos, call: impl FnOnce() -> T) -> T {
        self.row.store(row, Ordering::Relaxed);
        self.since.store(now, Ordering::Relaxed);
        // Release: who sees the stage sees its row and begin.
        self.stage.store(stage, Ordering::Release);
        let _running = Running(self);
        self.driving(call)
    }

    fn driving<T>(&self, call: impl FnOnce() -> T) -> T {
        let outer = self.thread.swap(ThreadMark::current().number(), Ordering::Relaxed);
        let _inside = Inside { post: self, outer };
        call()
    }

    fn running(&self) -> Option<(u32, u32, Nanos)> {
        let stage = self.stage.load(Ordering::Acquire);
        let since = self.since.load(Ordering::Relaxed);
        (stage != hook::NONE).then(|| (stage, self.row.load(Ordering::Relaxed), real_now().saturating_sub(since)))
    }
}

/// A stage until it returns, or unwinds.
struct Running<'a>(&'a Post);

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.0.stage.store(hook::NONE, Ordering::Release);
    }
}

/// A thread in a post until it leaves, by unwinding too: its mark may be another thread's later.
struct Inside<'a> {
    post: &'a Post,
    outer: usize,
}

impl Drop for Inside<'_> {
    fn drop(&mut self) {
        self.post.thread.store(self.outer, Ordering::Relaxed);
    }
}

impl Watch {
    /// The calling thread runs `call` of `stage` for work of `queue` (none: for the engine itself), whose first row is
    /// `row`, from `now` of the real clock on.
    pub fn during<T>(&self, queue: Option<Queue>, stage: u32, row: u32, now: Nanos, call: impl FnOnce() -> T) -> T {
        queue.map_or(&self.engine, |queue| &self.queues[queue.at()]).during(stage, row, now, call)
    }

    /// The host's own loop is at work in `stage` since `now` of the real clock.
    pub fn begin(&self, stage: u32, now: Nanos) {
        self.engine.row.store(0, Ordering::Relaxed);
        self.engine.since.store(now, Ordering::Relaxed);
        // Release: who sees the stage sees its begin.
        self.engine.stage.store(stage, Ordering::Release);
    }

    /// The host's own loop waits, or is over.
    pub fn end(&self) {
        self.engine.stage.store(hook::NONE, Ordering::Release);
    }

    /// The calling thread drives the engine: whatever callback it runs meanwhile, also a release or a log line, is inside.
    pub fn driving<T>(&self, call: impl FnOnce() -> T) -> T {
        self.engine.driving(call)
    }

    /// The host has freed the engine while a callback hangs: no other begins any more.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
    }

    /// Whether it has.
    pub fn is_abandoned(&self) -> bool {
        self.is_abandoned.load(Ordering::Relaxed)
    }

    fn posts(&self) -> impl Iterator<Item = &Post> {
        self.queues.iter().chain([&self.engine])
    }

    /// Whether the calling thread is in one of this engine's callbacks.
    pub fn is_inside(&self) -> bool {
        let here = ThreadMark::current().number();
        self.posts().any(|post| post.thread.load(Ordering::Relaxed) == here)
    }

    /// The callback that has been running longest: its stage, its first row, and how long.
    pub fn running(&self) -> Option<(u32, u32, Nanos)> {
        self.posts().filter_map(Post::running).max_by_key(|(_, _, since)| *since)
    }
}
