//! The other ends of the two queues, for a model that owns its loop.
//!
//! The library says who is here: it gives rows and generations, answers what needs no loop (no room, already here, nobody
//! by that name, a life that is over), and holds the loop to what consumers are promised of notices and their order. All
//! else is the loop's. Touched by the loop's thread alone.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use super::arena::Sessions;
use super::herald::Herald;
use super::served::{Place, Standing};
use super::shared::Shared;
use crate::batch::ValueRef;
use crate::conditioning::{MAX_KEYS, Release};
use crate::message::{Envelope, Kind};
use crate::model::Model;
use crate::output::{Event, Stamp};
use crate::queue::{Incoming, Policy};
use crate::rows::Rows;
use crate::telemetry::Counters;
use crate::time::real_now;
use crate::word::{Fault, Generation, Nanos, Row, Session, Status, hook};

/// How often a consumer that holds all buffers of a session is looked for: nothing tells.
const POLL: Nanos = 1_000_000;

/// What the loop says to one session.
pub struct Saying<'a> {
    /// To whom.
    pub session: Session,
    /// The life that is meant; `Generation(0)`: whichever is current.
    pub generation: Generation,
    /// Of the message that it takes into account or answers.
    pub tag: u64,
    /// The loop's own count.
    pub tick: u64,
    /// What.
    pub what: What<'a>,
}

/// See [`Saying`].
pub enum What<'a> {
    /// Bytes, not empty, that fit a buffer.
    Chunk {
        /// Number in this life.
        index: u64,
        /// The message whose heavy values it was made with.
        heavy_tag: u64,
        /// In this chunk.
        frames: u32,
        /// Copied.
        bytes: &'a [u8],
    },
    /// ATTACHED, REJECTED, DETACHED or ROW_FAILED.
    Notice(Event),
}

/// The rows of each kind.
pub(super) struct Sets {
    pub(super) free: Rows,
    pub(super) pending: Rows,
    pub(super) failed: Rows,
    pub(super) paused: Rows,
    pub(super) parting: Rows,
    /// Whose push found no room since the loop last waited.
    pub(super) starved: Rows,
}

/// See the module's comment.
pub struct Serving {
    pub(super) shared: Arc<Shared>,
    pub(super) model: Arc<dyn Model>,
    /// Output buffers of one session.
    pub(super) quota: usize,
    pub(super) herald: Herald,
    pub(super) places: Box<[Place]>,
    pub(super) sessions: Sessions,
    pub(super) by: Sets,
    pub(super) generations: u64,
    /// The newest that the loop has named.
    pub(super) tick: u64,
    /// When the loop last came back from the inbox, by the engine's clock, and by the real one.
    turn: Nanos,
    since: Nanos,
    /// The message that was shown last is still in its cell: the loop may read its values.
    is_showing: bool,
    release: Option<Release>,
    values: Vec<ValueRef>,
    is_open: bool,
}

impl Serving {
    /// The ends of `shared`'s queues, or `None` where there is no memory. `prefault`: commit all output buffers now.
    pub fn new(shared: Arc<Shared>, model: Arc<dyn Model>, quota: usize, prefault: bool) -> Option<Serving> {
        let max = model.manifest().max_sessions;
        let none = || Rows::new(max);
        let by =
            Sets { free: none(), pending: none(), failed: none(), paused: none(), parting: none(), starved: none() };
        let mut serving = Serving {
            herald: Herald::new(shared.outbox.clone()),
            quota,
            places: (0..max).map(|_| Place::default()).collect(),
            // Twice the room: so that removals never make an insertion allocate.
            sessions: HashMap::with_capacity_and_hasher(2 * max as usize, Default::default()),
            by,
            generations: 0,
            tick: 0,
            turn: 0,
            since: 0,
            is_showing: false,
            release: None,
            values: Vec::with_capacity(MAX_KEYS),
            is_open: false,
            shared,
            model,
        };
        for row in (0..max).map(Row) {
            serving.by.free.add(row);
            if prefault {
                serving.commit_buffers(row).ok()?;
            }
        }
        Some(serving)
    }

    /// Whether the loop runs: not before it was entered, nor after it has returned.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// The loop is about to be entered.
    pub fn open(&mut self) {
        self.is_open = true;
        self.come_back();
    }

    /// From now on the loop is at work, until it comes for more.
    fn come_back(&mut self) {
        self.turn = self.shared.clock.now();
        self.since = real_now();
        self.shared.watch.begin(hook::SERVE, self.since);
    }

    /// Gives the host what was said, if it takes outputs on this thread. Then the loop is at work as it was. Whoever calls
    /// holds what is the loop's: the host's function has no part of it.
    pub fn hand_over(&self) {
        if self.shared.on_output.is_some() {
            self.shared.hand_over();
            self.shared.watch.begin(hook::SERVE, self.since);
        }
    }

    /// Why the loop is to end, if it is.
    fn check(&self) -> Result<(), Status> {
        if self.shared.death.load(Ordering::SeqCst) != 0 {
            return Err(Status::DEAD);
        }
        if self.shared.stopping.load(Ordering::SeqCst) { Err(Status::CLOSED) } else { Ok(()) }
    }

    // ---- the inbox

    /// Shows the next message that is the loop's to act on, with the generation and the user of its life, and gives up
    /// the one before. AGAIN: there is none. CLOSED, DEAD.
    pub fn pop(&mut self) -> Result<Envelope, Status> {
        self.let_go();
        let found = self.check().and_then(|()| self.next_message());
        // Of messages that the loop was not shown: it may not come back for long.
        self.herald.flush();
        self.shared.outbox.wake_consumers();
        self.come_back();
        found
    }

    /// The values of the message that was shown last, until the next pop.
    pub fn values(&self) -> &[ValueRef] {
        &self.values
    }

    fn next_message(&mut self) -> Result<Envelope, Status> {
        let shared = self.shared.clone();
        // First: who had popped a DETACHED before a push finds that row free.
        let mark = shared.inbox.mark();
        if shared.outbox.take_stirred() {
            self.retire();
        }
        self.herald.flush();
        while let Some(message) = shared.inbox.pop(mark) {
            let envelope = message.envelope();
            if !self.settle_farewell(envelope.session) {
                message.leave_in_place();
                break;
            }
            shared.counters.inbox.record(shared.clock.now().saturating_sub(envelope.pushed));
            let row = self.admit(envelope);
            if let Some(life) = row.and_then(|row| self.places[row.at()].life.as_ref()) {
                let envelope = Envelope { generation: life.generation, user: life.user, ..envelope };
                self.show(message);
                return Ok(envelope);
            }
        }
        Err(Status::AGAIN)
    }

    fn show(&mut self, mut message: Incoming<'_>) {
        self.release = message.release.take();
        self.values.clear();
        for value in message.values() {
            let (address, size) = match value.content {
                Ok(bytes) => (bytes.as_ptr().expose_provenance(), bytes.len()),
                Err(lent) => (lent.address(), lent.size()),
            };
            self.values.push(ValueRef::new(value.key, value.revision, address, size));
        }
        message.leave_in_place();
        self.is_showing = true;
    }

    /// The loop has read the message that was shown last.
    fn let_go(&mut self) {
        if std::mem::take(&mut self.is_showing) {
            self.values.clear();
            drop(self.shared.inbox.pop(self.shared.inbox.mark()));
            drop(self.release.take());
        }
    }

    /// Waits for a message, or for room in the ring of a session whose chunk found none. CLOSED, DEAD; TIMEOUT after
    /// `deadline` of the real clock.
    pub fn wait(&mut self, deadline: Option<Nanos>) -> Result<(), Status> {
        self.shared.watch.end();
        let found = loop {
            if let Err(status) = self.check() {
                break Err(status);
            }
            self.shared.outbox.take_stirred();
            self.retire();
            self.herald.flush();
            self.shared.outbox.wake_consumers();
            self.shared.hand_over();
            let (has_room, is_hoarded) = self.look_for_room();
            if has_room || self.has_message() {
                break Ok(());
            }
            let now = real_now();
            if deadline.is_some_and(|deadline| now >= deadline) {
                break Err(Status::TIMEOUT);
            }
            let look = is_hoarded.then(|| now + POLL);
            let until = deadline.into_iter().chain(look).min();
            self.shared
                .parked
                .sleep(until, || self.has_message() || self.shared.outbox.is_stirred() || self.check().is_err());
        };
        self.come_back();
        found
    }

    fn has_message(&self) -> bool {
        if self.is_showing { self.shared.inbox.has_second() } else { self.shared.inbox.has_next() }
    }

    /// Whether a starved session has room by now, and whether one waits for a consumer to give a buffer back.
    fn look_for_room(&mut self) -> (bool, bool) {
        let (mut has_room, mut is_hoarded) = (false, false);
        let mut from = 0;
        while let Some(row) = self.by.starved.next(from) {
            from = row.0 + 1;
            let Some(pool) = &self.places[row.at()].pool else { continue };
            if pool.has(1) && self.shared.outbox.has_room(row, 0) {
                self.by.starved.remove(row);
                has_room = true;
            }
            is_hoarded |= !pool.has(1);
        }
        (has_room, is_hoarded)
    }

    // ---- the outbox

    /// Says something to one session. AGAIN: nothing was said, there is no room. UNKNOWN, STALE, STATE, ARGUMENT.
    pub fn push(&mut self, saying: Saying<'_>) -> Result<(), Status> {
        if self.shared.death.load(Ordering::SeqCst) != 0 {
            return Err(Status::DEAD);
        }
        self.herald.flush();
        let row = *self.sessions.get(&saying.session).ok_or(Status::UNKNOWN)?;
        let life = self.places[row.at()].life.as_ref().ok_or(Status::UNKNOWN)?;
        if life.standing == Standing::Parting {
            return Err(Status::UNKNOWN);
        }
        if saying.generation != Generation(0) && saying.generation != life.generation {
            return Err(Status::STALE);
        }
        match saying.what {
            What::Chunk { .. } => self.chunk(row, &saying),
            What::Notice(event) => self.pass_on(row, event, saying.tag, saying.tick),
        }?;
        self.set_tick(saying.tick);
        self.shared.outbox.wake_consumers();
        Ok(())
    }

    fn set_tick(&mut self, tick: u64) {
        if tick > self.tick {
            self.tick = tick;
            self.shared.counters.ticks.store(tick, Ordering::Relaxed);
        }
    }

    fn chunk(&mut self, row: Row, saying: &Saying<'_>) -> Result<(), Status> {
        let What::Chunk { index, heavy_tag, frames, bytes } = saying.what else { return Ok(()) };
        let Place { life: Some(life), pool: Some(pool), making: Some(making) } = &mut self.places[row.at()] else {
            return Err(Status::UNKNOWN);
        };
        if life.standing != Standing::Attached {
            return Err(Status::STATE);
        }
        if life.index.is_some_and(|newest| index <= newest) {
            return Err(Status::ARGUMENT);
        }
        let outbox = &self.shared.outbox;
        if life.is_gone() {
            outbox.discard(row);
        } else if outbox.policy() == Policy::Hold && !(pool.has(1) && outbox.has_room(row, 0)) {
            self.by.starved.add(row);
            return Err(Status::AGAIN);
        } else {
            making.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            let done = self.shared.clock.now();
            let stamp = || Stamp {
                session: life.session,
                user: life.user,
                generation: life.generation,
                row,
                index,
                silent: 0,
                tick: saying.tick,
                tag: saying.tag,
                heavy_tag,
                start: self.turn,
                done,
                frames,
            };
            if !outbox.offer().push(row, bytes.len(), making, pool, stamp) && outbox.policy() == Policy::Hold {
                self.by.starved.add(row);
                return Err(Status::AGAIN);
            }
        }
        (life.index, life.age) = (Some(index), life.age + 1);
        self.shared.board.write_age(row, life.age);
        if std::mem::replace(&mut life.heavy_tag, heavy_tag) != heavy_tag {
            self.publish(row);
        }
        Counters::add(&self.shared.counters.chunks, 1);
        Ok(())
    }

    /// A notice of the loop's: each at most once in a life, and in an order that consumers can rely on.
    fn pass_on(&mut self, row: Row, event: Event, tag: u64, tick: u64) -> Result<(), Status> {
        let Some(life) = &self.places[row.at()].life else { return Err(Status::UNKNOWN) };
        let is_gone = life.is_gone();
        let is_in_order = match event {
            Event::Attached { .. } | Event::Rejected(_) => life.standing == Standing::Pending,
            Event::RowFailed(_) => life.standing == Standing::Attached,
            _ => true,
        };
        if !is_in_order {
            return Err(Status::STATE);
        }
        self.set_tick(tick);
        match event {
            Event::Detached(_) if !is_gone => {
                self.note(row, |life| life.standing = Standing::Parting);
                if self.say_farewell(row, event, tag) {
                    self.end(row);
                }
                return Ok(());
            }
            Event::Detached(_) => self.shared.outbox.purge(row),
            _ => {}
        }
        self.tell(row, event, tag);
        match event {
            Event::Attached { .. } => _ = self.note(row, |life| life.standing = Standing::Attached),
            Event::RowFailed(Fault { status, .. }) => {
                self.note(row, |life| life.standing = Standing::Failed(status));
            }
            _ => self.end(row),
        }
        Ok(())
    }

    // ---- the end

    /// The loop has returned, or is never to be entered: everybody is told.
    pub fn close(&mut self) {
        self.abandon();
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.inbox.close();
        while !self.turn_away() {
            // A producer is in the middle of its push, or a consumer tells a farewell.
            std::thread::yield_now();
        }
        for row in (0..self.model.manifest().max_sessions).map(Row) {
            self.dismiss(row);
        }
        self.herald.close();
        self.shared.outbox.end(Status::CLOSED, None);
    }

    /// Before a death is told: what happened until then is.
    pub fn last_words(&mut self) {
        self.herald.close();
    }

    /// The loop has returned, whatever comes next: what it was shown is given up.
    pub fn abandon(&mut self) {
        self.is_open = false;
        self.shared.watch.end();
        self.let_go();
    }

    /// Who wanted in is told; the other messages end silently.
    fn turn_away(&mut self) -> bool {
        let shared = self.shared.clone();
        let mark = shared.inbox.mark();
        while let Some(message) = shared.inbox.pop(mark) {
            let envelope = message.envelope();
            if !self.settle_farewell(envelope.session) {
                message.leave_in_place();
                return false;
            }
            match (envelope.kind, self.home_of(envelope.session)) {
                (Kind::Reset, Some(row)) => self.decline(row, Status::CLOSED, envelope.tag),
                (Kind::Attach | Kind::Reset, _) => _ = self.refuse(envelope, Status::CLOSED),
                _ => {}
            }
        }
        shared.inbox.is_empty()
    }
}
