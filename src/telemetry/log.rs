//! Lines for people, where the host asked for them. Nothing is formatted for a level that nobody reads.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use parking_lot::Mutex;

use crate::time::ThreadMark;

/// How important a line is; a lower number is more so. Same numbers as `RTE_LOG_ERROR` and following.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
#[allow(missing_docs)]
pub enum Level {
    Error = 1,
    Warn = 2,
    Info = 3,
    Debug = 4,
}

type Sink = Box<dyn Fn(Level, &str) + Send + Sync>;

/// Where an engine's lines go. The sink is called on the thread that has something to say, with no lock held that
/// another thread waits for.
#[derive(Default)]
pub struct Log {
    sink: Option<(Level, Sink)>,
    /// The threads that are in the sink, and how many they are.
    inside: Mutex<Vec<usize>>,
    count: AtomicUsize,
    /// The host has let go of it.
    is_abandoned: AtomicBool,
}

/// A thread in the sink until it leaves.
struct Saying<'a>(&'a Log);

impl<'a> Saying<'a> {
    fn begin(log: &'a Log) -> Saying<'a> {
        log.inside.lock().push(ThreadMark::current().number());
        log.count.fetch_add(1, Ordering::Relaxed);
        Saying(log)
    }
}

impl Drop for Saying<'_> {
    fn drop(&mut self) {
        let here = ThreadMark::current().number();
        let mut inside = self.0.inside.lock();
        if let Some(at) = inside.iter().position(|thread| *thread == here) {
            inside.swap_remove(at);
        }
        self.0.count.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Log {
    /// Lines of `level` and more important ones go to `sink`.
    pub fn new(level: Level, sink: Sink) -> Log {
        Log { sink: Some((level, sink)), ..Log::default() }
    }

    /// Whether lines of `level` go anywhere.
    pub fn wants(&self, level: Level) -> bool {
        self.sink.as_ref().is_some_and(|(least, _)| level <= *least) && !self.is_abandoned.load(Ordering::Relaxed)
    }

    /// The host has freed the engine while a callback hangs: no other line is said any more.
    pub fn abandon(&self) {
        self.is_abandoned.store(true, Ordering::SeqCst);
    }

    /// Says a line.
    pub fn say(&self, level: Level, line: impl FnOnce() -> String) {
        if let Some((_, sink)) = &self.sink
            && self.wants(level)
        {
            let line = line();
            let _saying = Saying::begin(self);
            sink(level, &line);
        }
    }

    /// Whether the calling thread is in the sink: it may be any that calls the engine.
    pub fn is_inside(&self) -> bool {
        // A thread sees its own entry.
        self.count.load(Ordering::Relaxed) > 0 && self.inside.lock().contains(&ThreadMark::current().number())
    }
}
