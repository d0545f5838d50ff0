//! What an engine's thread shares with all others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

use crate::output::Output;
use crate::queue::{Inbox, Outbox, Popped};
use crate::telemetry::{Board, Counters, Gauges, Log, Watch};
use crate::time::{Clock, Wake, real_now};
use crate::word::{Fault, Status, hook};

/// What is given each output, on the engine's thread.
pub type OnOutput = Box<dyn Fn(Output) + Send + Sync>;

/// Any thread may touch any of it; each part says who writes.
pub struct Shared {
    /// What goes in.
    pub inbox: Inbox,
    /// What comes out.
    pub outbox: Arc<Outbox>,
    /// What is said of each session.
    pub board: Board,
    /// How much of what has happened.
    pub counters: Counters,
    /// How many there are of what.
    pub gauges: Gauges,
    /// Which callback is running.
    pub watch: Arc<Watch>,
    /// Where an engine with nothing to do sleeps: pushes, fences and some pops wake it.
    pub parked: Arc<Wake>,
    /// Where one that waits for a grid point sleeps: only a stop wakes it.
    pub paced: Wake,
    /// Somebody asked for the stop.
    pub stopping: AtomicBool,
    /// A backend said that a fence has passed.
    pub kicked: Arc<AtomicBool>,
    /// 0, or why the engine is dead. Written once: by the engine's thread, or by whoever met a panic of ours.
    pub death: AtomicI32,
    /// Where its lines go.
    pub log: Log,
    /// The host takes outputs on the engine's thread, instead of popping them.
    pub on_output: Option<OnOutput>,
    /// Its time.
    pub clock: Arc<dyn Clock>,
}

impl Shared {
    /// That of another thread's panic, if the engine is dead.
    pub fn poison(&self) -> Option<Fault> {
        let death = self.death.load(Ordering::SeqCst);
        (death != 0).then_some(Fault { stage: hook::NONE, status: Status(death) })
    }

    /// Gives the host what is in the outbox, if it takes outputs on this, the driving thread: the only consumer then, so
    /// it gets the stream that a pop would.
    pub fn hand_over(&self) {
        let Some(on_output) = &self.on_output else { return };
        // Asked anew for each: one of them may be what hangs.
        while !self.watch.is_abandoned()
            && let Popped::Output(output) = self.outbox.pop()
        {
            let row = output.row().0;
            self.watch.during(None, hook::ON_OUTPUT, row, real_now(), || on_output(output));
        }
    }
}
