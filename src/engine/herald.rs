//! Tells what happened. Notices that a life has paid for go out at once; those that stand for many events are counted
//! here and told when the one before has been taken. Used by the engine's thread alone.

use std::sync::Arc;

use crate::output::{Event, Notice};
use crate::queue::{Outbox, SHARED_NOTICES};
use crate::word::{Fault, Row, Session, Status};

const UNKNOWN: usize = 0;
const STALE: usize = 1;
const FIRST_FAILURE: usize = 2;

/// See the module's comment.
pub struct Herald {
    outbox: Arc<Outbox>,
    tallies: [Tally; SHARED_NOTICES],
    pending: u32,
}

/// Events of one kind that were not told yet.
#[derive(Clone, Copy)]
struct Tally {
    /// The newest; its `count` is how many there are. 0: none.
    notice: Notice,
    /// What a TICK_FAILED place is for, once it was used.
    fault: Option<Fault>,
}

impl Herald {
    /// Tells through `outbox`.
    pub fn new(outbox: Arc<Outbox>) -> Herald {
        let notice = Notice::of_engine(Event::Detached(None), 0);
        Herald { outbox, tallies: [Tally { notice, fault: None }; SHARED_NOTICES], pending: 0 }
    }

    /// Queues a notice that its life has paid for. Consumers are woken at once: whatever is called next in this tick may
    /// never return.
    pub fn tell(&mut self, notice: Notice) {
        self.outbox.notify(notice);
        self.outbox.wake_consumers();
    }

    /// A message to nobody.
    pub fn unknown(&mut self, session: Session, tag: u64, tick: u64) {
        let event = Event::Rejected(Status::UNKNOWN);
        self.count(UNKNOWN, Notice { session, tag, ..Notice::of_engine(event, tick) });
    }

    /// A message to a life that is over.
    pub fn stale(&mut self, session: Session, tag: u64, tick: u64) {
        let event = Event::Rejected(Status::STALE);
        self.count(STALE, Notice { session, tag, ..Notice::of_engine(event, tick) });
    }

    /// A whole batch failed.
    pub fn tick_failed(&mut self, fault: Fault, row: Row, tick: u64) {
        let places = &self.tallies[FIRST_FAILURE..];
        // The last place takes all that do not fit: its notice then names the newest.
        let place =
            places.iter().position(|tally| tally.fault.is_none_or(|known| known == fault)).unwrap_or(places.len() - 1);
        self.tallies[FIRST_FAILURE + place].fault = Some(fault);
        self.count(FIRST_FAILURE + place, Notice { row, ..Notice::of_engine(Event::TickFailed(fault), tick) });
    }

    fn count(&mut self, kind: usize, notice: Notice) {
        let tally = &mut self.tallies[kind].notice;
        *tally = Notice { count: tally.count + 1, ..notice };
        self.pending |= 1 << kind;
    }

    /// Tells what can be told. At the end of each tick.
    pub fn flush(&mut self) {
        let mut left = self.pending;
        while left != 0 {
            let kind = left.trailing_zeros() as usize;
            left &= left - 1;
            if self.outbox.notify_shared(self.tallies[kind].notice, kind) {
                self.tallies[kind].notice.count = 0;
                self.pending &= !(1 << kind);
            }
        }
    }

    /// The last flush: what waits for its turn goes out beside the one before it.
    pub fn close(&mut self) {
        self.flush();
        for kind in 0..SHARED_NOTICES {
            if self.tallies[kind].notice.count > 0 {
                self.outbox.notify_last(self.tallies[kind].notice, kind);
                self.tallies[kind].notice.count = 0;
            }
        }
        self.pending = 0;
    }
}
