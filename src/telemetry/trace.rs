//! What happens in an engine, on its way to a file for people.
//!
//! The engine's thread says facts: plain data of one size, into a ring with a place for each. A thread of the trace's own
//! takes them out, and a [`Scribe`] writes them down. A fact that finds no place is left out, and counted: the tick never
//! waits for the file, nor allocates, formats or calls the system for it.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;

use super::State;
use super::trace_file::Scribe;
use crate::queue::{Ring, Take};
use crate::time::{Duty, Threads, Wake, real_now};
use crate::word::{Fault, Generation, Nanos, Queue, Row, Session, Status};

/// Facts that may wait to be written.
const ROOM: usize = 1 << 15;
/// How often the thread looks for some: nobody wakes it, that would be a system call.
const PERIOD: Nanos = 10_000_000;

/// One thing that happened. Times are those of the engine's clock.
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub enum Fact {
    /// A tick is over. `stepped`: rows of its HOT; chunks and drops: since the fact of the tick before.
    Tick { tick: u64, begun: Nanos, ended: Nanos, stepped: u32, is_late: bool, chunks: u64, dropped: u64 },
    /// Grid points went without a tick.
    Missed { at: Nanos, points: u64 },
    /// A batch was worked on, in a queue of which nothing else was in work then. `work`: as the lane's histogram counts it.
    Batch(Worked),
    /// What the life in `row` does from now on.
    Row { at: Nanos, row: Row, session: Session, generation: Generation, does: Doing },
    /// Nobody lives in `row` any more.
    Free { at: Nanos, row: Row },
    /// Chunks of the life in `row` were lost to nobody's taking them.
    Dropped { at: Nanos, row: Row, chunks: u64 },
    /// A call failed as a whole (`session`: none), or for one row.
    Failed { at: Nanos, tick: u64, fault: Fault, row: Row, session: Option<Session> },
}

/// See [`Fact::Batch`].
#[derive(Clone, Copy, PartialEq, Debug)]
#[allow(missing_docs)]
pub struct Worked {
    pub queue: Queue,
    pub is: Kind,
    pub rows: u32,
    pub tick: u64,
    pub begun: Nanos,
    pub ended: Nanos,
    pub work: Nanos,
    /// Of its first row.
    pub session: Session,
    /// What its calls as a whole came to; 0: they succeeded.
    pub status: i32,
}

/// What a batch was for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Kind {
    Stages,
    Seed,
    Detach,
}

/// What a life does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Doing {
    Steps,
    Waits,
    Encodes,
    IsQuarantined,
    IsHeld,
    IsPaused,
}

impl Doing {
    /// Of what the board says.
    pub fn of(state: State, is_paused: bool) -> Doing {
        match (state, is_paused) {
            (State::Pending, _) => Doing::Waits,
            (State::Encoding, _) => Doing::Encodes,
            (State::Quarantined, _) => Doing::IsQuarantined,
            (_, true) => Doing::IsPaused,
            (State::Held, false) => Doing::IsHeld,
            (State::Ready, false) => Doing::Steps,
        }
    }
}

/// Where facts wait.
struct Desk {
    ring: Ring<Fact>,
    /// Places that what comes with each tick may take.
    common: usize,
    /// Facts that found no place. Written by the engine's thread.
    left_out: AtomicU64,
    closing: AtomicBool,
    /// The thread sleeps here between two looks.
    wake: Wake,
}

/// What facts are said with, on the engine's thread.
#[derive(Clone)]
pub struct Pen(Arc<Desk>);

impl Pen {
    /// Says `fact`, if there is a place for it: whether there was.
    pub fn say(&self, fact: Fact) -> bool {
        let desk = &*self.0;
        // What comes with each tick leaves a place to what comes seldom: lives and failures are told longer.
        let is_common = matches!(fact, Fact::Tick { .. } | Fact::Batch(_));
        let is_said = (!is_common || desk.ring.len() < desk.common) && desk.ring.push(fact).is_ok();
        if !is_said {
            // One writer.
            desk.left_out.store(desk.left_out.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        }
        is_said
    }
}

/// Where the scribe is.
enum Place {
    Here(Box<Scribe>),
    Away(JoinHandle<Box<Scribe>>),
    Nowhere,
}

/// See the module's comment.
pub struct Trace {
    desk: Arc<Desk>,
    scribe: Place,
    threads: Arc<Threads>,
}

/// How an engine ended, and what of, since it began.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct End {
    pub at: Nanos,
    pub death: Option<Fault>,
    pub ticks: u64,
    pub chunks: u64,
    pub dropped: u64,
    pub missed_deadlines: u64,
    pub late_ticks: u64,
    pub failed_ticks: u64,
}

impl Trace {
    /// A trace that `scribe` writes; its thread will be one of `threads`.
    pub fn new(scribe: Scribe, threads: Arc<Threads>) -> Trace {
        Trace::with_room(ROOM, scribe, threads)
    }

    fn with_room(room: usize, scribe: Scribe, threads: Arc<Threads>) -> Trace {
        let desk = Desk {
            ring: Ring::new(room),
            common: room / 8 * 7,
            left_out: AtomicU64::new(0),
            closing: AtomicBool::new(false),
            wake: Wake::default(),
        };
        Trace { desk: Arc::new(desk), scribe: Place::Here(Box::new(scribe)), threads }
    }

    /// What facts are said with.
    pub fn pen(&self) -> Pen {
        Pen(self.desk.clone())
    }

    /// Makes the thread that writes.
    pub fn start(&mut self) -> Result<(), Status> {
        let Place::Here(scribe) = std::mem::replace(&mut self.scribe, Place::Nowhere) else { return Ok(()) };
        let (desk, threads) = (self.desk.clone(), self.threads.clone());
        let thread = std::thread::Builder::new().name(format!("{} trace", threads.name()));
        let spawned = thread.spawn(move || {
            // What is refused to it is refused to those that matter, too.
            let _ = threads.prepare(Duty::Background);
            desk.write_out(scribe)
        });
        self.scribe = Place::Away(spawned.map_err(|_| Status::MEMORY)?);
        Ok(())
    }

    /// The end: the file is whole. Waits for it to be written. What could not be written, and how many facts were left
    /// out; once.
    pub fn close(&mut self, end: Option<End>) -> Option<Result<u64, String>> {
        self.desk.closing.store(true, Ordering::SeqCst);
        self.desk.wake.notify();
        let mut scribe = match std::mem::replace(&mut self.scribe, Place::Nowhere) {
            Place::Here(scribe) => scribe,
            Place::Away(thread) => match thread.join() {
                Ok(scribe) => scribe,
                Err(_) => return Some(Err("the thread that writes it has panicked".to_string())),
            },
            Place::Nowhere => return None,
        };
        self.desk.empty_to(&mut scribe);
        Some(scribe.end(end))
    }
}

impl Drop for Trace {
    fn drop(&mut self) {
        self.close(None);
    }
}

impl Desk {
    /// The thread's life.
    fn write_out(&self, mut scribe: Box<Scribe>) -> Box<Scribe> {
        while !self.closing.load(Ordering::SeqCst) {
            self.empty_to(&mut scribe);
            let until = real_now() + PERIOD;
            self.wake.sleep(Some(until), || self.closing.load(Ordering::SeqCst));
        }
        scribe
    }

    fn empty_to(&self, scribe: &mut Scribe) {
        while let Take::Item(fact) = self.ring.pop() {
            scribe.write(&fact);
        }
        scribe.lacks(self.left_out.load(Ordering::Relaxed));
        scribe.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::super::trace_file::Names;
    use super::*;

    #[test]
    fn a_fact_fits_into_a_line_of_the_cache() {
        assert!(size_of::<Fact>() <= 64, "{}", size_of::<Fact>());
    }

    #[test]
    fn what_finds_no_place_is_left_out_and_counted_and_what_is_seldom_finds_one_longer() {
        let path = std::env::temp_dir().join(format!("rte_trace_{}.json", std::process::id()));
        let names = Names { model: "m".into(), stages: Box::default(), rows: 4, has_deferred: false, encodes: 0 };
        let scribe = Scribe::create(path.to_str().unwrap(), names).unwrap();
        let mut trace = Trace::with_room(16, scribe, Arc::default());
        let pen = trace.pen();
        let tick = |tick| Fact::Tick { tick, begun: 0, ended: 0, stepped: 0, is_late: false, chunks: 0, dropped: 0 };
        assert_eq!((0..20).filter(|number| pen.say(tick(*number))).count(), 14);
        assert_eq!((0..3).filter(|_| pen.say(Fact::Missed { at: 0, points: 1 })).count(), 2);
        assert_eq!(trace.close(None), Some(Ok(7)));
        assert_eq!(trace.close(None), None);
        let text = std::fs::read_to_string(&path).unwrap();
        assert_eq!(text.matches("\"name\":\"tick\"").count(), 14);
        assert!(text.contains("\"left_out\":7") && text.ends_with("\n]\n"), "{text}");
        std::fs::remove_file(path).unwrap();
    }
}
