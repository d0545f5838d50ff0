//! Lines for people, where the host asked for them. Nothing is formatted for a level that nobody reads.

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
}

impl Log {
    /// Lines of `level` and more important ones go to `sink`.
    pub fn new(level: Level, sink: Sink) -> Log {
        Log { sink: Some((level, sink)) }
    }

    /// Says a line.
    pub fn say(&self, level: Level, line: impl FnOnce() -> String) {
        if let Some((least, sink)) = &self.sink
            && level <= *least
        {
            sink(level, &line());
        }
    }
}
