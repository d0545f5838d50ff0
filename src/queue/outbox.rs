//! Results on their way out: a ring of chunks a row, one store of notices, any number of consumers, no lock.
//!
//! **Chunks.** The engine alone pushes. A row with chunks has its token out: claimed by whoever makes the ring non-empty,
//! carried by a bit in [`Ready`], held by the consumer that took the bit until it has popped one chunk. So one consumer
//! at a time is at a row, which keeps the order of a session, and rows take turns. Losing the oldest chunk and purging
//! are pops by the engine; they need no token, for the ring itself gives each chunk out once. What a batch pushes is
//! offered together ([`Offer`]): a token and a bit are set for 64 rows at once.
//!
//! **Notices** are popped before chunks. What one life can need (ATTACHED or REJECTED, ROW_FAILED, DETACHED) is paid for
//! when its message is pushed; a popped notice gives its place back. Those that stand for many events (UNKNOWN, STALE,
//! TICK_FAILED) are never more than one of a kind in the store, which has room for them beside what was paid. So a
//! notice always finds room, whatever the consumers do, also where one stands still in the middle of a pop.
//!
//! **Farewell.** The DETACHED of a life whose last chunks are to be delivered waits at its row; who lets go of the token
//! and finds the ring empty puts it into the store. Where the engine finds a token when it leaves the farewell there, its
//! holder will see it; where it finds none it is the holder for that moment. The slot that carries it gives it out once.
//!
//! **Order.** A notice that was queued before a chunk is popped before it: a chunk is marked with how many notices there
//! were, and a consumer that finds one of them not popped leaves the chunk, gives the token back and looks again. Its look
//! before it took the token says nothing: it may have stood still since, and the chunk may be of another life.
//!
//! **HOLD.** A row steps only if its ring has room for the chunk ([`Outbox::has_room`]). One that has none is marked, and
//! the pop that finds the mark stirs the engine.
//!
//! **Descriptor.** It is armed by a pop that found nothing, which then looks again; who makes something then looks
//! whether it is armed. Both are separated by a SeqCst fence, so at least one of them sees the other.

use std::sync::{Arc, OnceLock};

use crossbeam_utils::CachePadded;

use super::channel::Channel;
use super::offer::Offer;
use super::ready::Ready;
use super::ring::Take;
use super::shelf::Shelf;
use super::slot::Slot;
use super::tokens::Tokens;
use super::{Lease, Pool, Tally};
use crate::output::{Chunk, Notice, Output, Stamp};
use crate::sync::atomic::{AtomicBool, AtomicI32, AtomicI64, AtomicU32, AtomicU64, Ordering, fence};
use crate::time::{Beacon, Wake};
use crate::word::{Nanos, Row, Status};

/// Notices that the message which begins a life pays for.
pub const LIFE_NOTICES: i64 = 3;
/// Kinds of notices that stand for many events: UNKNOWN, STALE, and 16 of TICK_FAILED. Few where a checker looks on.
pub const SHARED_NOTICES: usize = if cfg!(loom) { 1 } else { 18 };

/// What is lost when a consumer is slow.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    /// The oldest chunk of that session.
    DropOldest,
    /// The newest.
    DropNewest,
    /// Nothing: who would make a chunk looks for room first, and waits where there is none.
    Hold,
}

/// How large an outbox is.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Rows.
    pub rows: u32,
    /// Chunks a row.
    pub depth: usize,
    /// Lifecycle notices that can be paid for.
    pub notices: usize,
}

/// A notice and who gets its place back.
#[derive(Clone, Copy)]
struct Queued {
    notice: Notice,
    /// Index of a kind that stands for many events; `None`: paid for by its life.
    shared: Option<u8>,
}

/// What a consumer found.
pub enum Popped<T = Output> {
    /// The next output, as it was shown.
    Output(T),
    /// Nothing now.
    Empty,
    /// Nothing any more: CLOSED, or why the engine died.
    Ended(Status),
}

/// See the module's comment.
pub struct Outbox {
    channels: Box<[Channel]>,
    /// A row's is out: its bit in `ready` is set, or a consumer is at the row and will look again, or the engine will offer it.
    tokens: Tokens,
    ready: Ready,
    notices: Shelf<Queued>,
    /// Places for lifecycle notices that nobody has paid for.
    credits: CachePadded<AtomicI64>,
    shared: [AtomicBool; SHARED_NOTICES],
    death: Slot<Notice>,
    /// 0 while the engine runs. Stored after its last output.
    end: AtomicI32,
    consumers: Wake,
    /// How many are just between a farewell and the store: who looks whether all is over waits for them.
    telling: AtomicU32,
    /// For consumers that poll; made when the first of them asks for it.
    beacon: OnceLock<Option<Beacon>>,
    /// Wakes a parked engine; `stirred` tells it why.
    engine: Arc<Wake>,
    stirred: AtomicBool,
    dropped: AtomicU64,
    depth: usize,
    policy: Policy,
}

impl Outbox {
    /// An empty outbox. `engine` is notified when a pop gives the engine something to do.
    pub fn new(sizes: Sizes, policy: Policy, engine: Arc<Wake>) -> Outbox {
        Outbox {
            channels: (0..sizes.rows).map(|_| Channel::new(sizes.depth)).collect(),
            tokens: Tokens::new(sizes.rows),
            ready: Ready::new(sizes.rows),
            // Of a shared kind the last one may come beside the one before it.
            notices: Shelf::new(sizes.notices + 2 * SHARED_NOTICES),
            credits: CachePadded::new(AtomicI64::new(sizes.notices as i64)),
            shared: Default::default(),
            death: Slot::new(),
            end: AtomicI32::new(0),
            consumers: Wake::default(),
            telling: AtomicU32::new(0),
            beacon: OnceLock::new(),
            engine,
            stirred: AtomicBool::new(false),
            dropped: AtomicU64::new(0),
            depth: sizes.depth,
            policy,
        }
    }

    fn channel(&self, row: Row) -> &Channel {
        &self.channels[row.at()]
    }

    // ---- the engine's side

    /// Pays for the notices of one life; false: the store has no room for them now. Any thread.
    pub fn reserve(&self) -> bool {
        // Acquire: the places that were given back are seen to be free.
        let paid = self.credits.fetch_sub(LIFE_NOTICES, Ordering::Acquire) >= LIFE_NOTICES;
        if !paid {
            self.refund(LIFE_NOTICES);
        }
        paid
    }

    /// Gives back what a life has paid for and did not need.
    pub fn refund(&self, notices: i64) {
        self.credits.fetch_add(notices, Ordering::Release);
    }

    /// Queues a notice that was paid for.
    pub fn notify(&self, notice: Notice) {
        self.notices.push(Queued { notice, shared: None });
    }

    /// Queues a notice of the shared kind `kind`, unless one is still there.
    pub fn notify_shared(&self, notice: Notice, kind: usize) -> bool {
        // Acquire: the popper cleared it after its pop, so the store has the place again. Only we set it.
        if self.shared[kind].load(Ordering::Acquire) {
            return false;
        }
        self.shared[kind].store(true, Ordering::Relaxed);
        self.notices.push(Queued { notice, shared: Some(kind as u8) });
        true
    }

    /// Queues the last notice of the shared kind `kind`, beside the one before it if that is still there: the store has
    /// room for both.
    pub fn notify_last(&self, notice: Notice, kind: usize) {
        self.notices.push(Queued { notice, shared: Some(kind as u8) });
    }

    /// What the engine pushes with.
    pub fn offer(&self) -> Offer<'_> {
        Offer::new(self)
    }

    /// See [`Offer::push`].
    #[inline(always)]
    pub(super) fn push(
        &self,
        row: Row,
        size: usize,
        making: &mut Lease,
        pool: &Pool,
        stamp: impl FnOnce() -> Stamp,
    ) -> bool {
        let channel = self.channel(row);
        let makes_room = self.policy == Policy::DropOldest;
        if channel.chunks.len() >= self.depth && !(makes_room && self.evict(channel)) {
            return self.refuse(channel);
        }
        let spare = loop {
            match pool.take() {
                Some(spare) => break spare,
                None if makes_room && self.evict(channel) => {}
                None => return self.refuse(channel),
            }
        };
        let chunk = || Chunk { stamp: stamp(), size, data: std::mem::replace(making, spare) };
        channel.chunks.push_alone(self.notices.given(), chunk) || self.refuse(channel)
    }

    /// HOLD: whether the ring of `row` has room for one more chunk behind `in_flight` others. Where it has not, the pop
    /// that makes room stirs the engine.
    pub fn has_room(&self, row: Row, in_flight: usize) -> bool {
        let channel = self.channel(row);
        let fits = || channel.chunks.len() + in_flight < self.depth && channel.chunks.has_room(in_flight + 1);
        if fits() {
            return true;
        }
        channel.held_back.store(true, Ordering::Relaxed);
        // Pairs with the one in `pop_chunk`: either we see the room or the consumer sees the mark.
        fence(Ordering::SeqCst);
        fits()
    }

    fn evict(&self, channel: &Channel) -> bool {
        let evicted = matches!(channel.chunks.pop(), Take::Item(_));
        if evicted {
            self.lose(channel);
        }
        evicted
    }

    /// What is lost when a consumer is slow.
    pub fn policy(&self) -> Policy {
        self.policy
    }

    /// A chunk of `row` was made for nobody.
    pub fn discard(&self, row: Row) {
        self.lose(self.channel(row));
    }

    /// A chunk is not taken: it is lost, or with HOLD still the pusher's.
    fn refuse(&self, channel: &Channel) -> bool {
        if self.policy != Policy::Hold {
            self.lose(channel);
        }
        false
    }

    fn lose(&self, channel: &Channel) {
        channel.dropped.fetch_add(1, Ordering::Relaxed);
        self.dropped.fetch_add(1, Ordering::Relaxed);
    }

    /// A new life begins in `row`.
    pub fn open(&self, row: Row) {
        let channel = self.channel(row);
        // Release: who sees that it is not gone sees what was done about the life that was.
        channel.gone.store(false, Ordering::Release);
        channel.dropped.store(0, Ordering::Relaxed);
    }

    /// Drops all that is queued of `row`.
    pub fn purge(&self, row: Row) {
        while self.evict(self.channel(row)) {}
    }

    /// The life in `row` makes no more chunks: `notice` is queued when the last of them was popped, now if that was.
    pub fn farewell(&self, row: Row, notice: Notice) {
        let channel = self.channel(row);
        // There is room: the one before it was told or taken back.
        let _ = channel.farewell.put(notice);
        // Who gives the token back after this sees it: see `pass_on`.
        if self.tokens.claim_one(row) {
            self.leave(channel, row);
        }
    }

    /// Takes a farewell back that was not told yet.
    pub fn recall(&self, row: Row) -> Option<Notice> {
        self.channel(row).farewell.take()
    }

    /// Whether the farewell of `row` was told. The engine, in its drain; tells it for a consumer that stands still before.
    pub fn is_gone(&self, row: Row) -> bool {
        let channel = self.channel(row);
        if channel.farewell.is_full() && channel.chunks.is_empty() {
            self.part(channel);
        }
        channel.gone.load(Ordering::Acquire)
    }

    /// Whether a consumer has taken the farewell of `row` to tell it, and has not yet said that it did.
    pub fn is_being_told(&self, row: Row) -> bool {
        let channel = self.channel(row);
        !channel.farewell.is_full() && !channel.gone.load(Ordering::Acquire)
    }

    fn part(&self, channel: &Channel) {
        // SeqCst: who finds that there is no farewell any more, and then nobody here, finds the notice.
        self.telling.fetch_add(1, Ordering::SeqCst);
        let farewell = channel.farewell.take();
        let is_told = farewell.is_some();
        if let Some(notice) = farewell {
            self.notify(notice);
            // Release: who sees it gone sees its chunks popped.
            channel.gone.store(true, Ordering::Release);
        }
        self.telling.fetch_sub(1, Ordering::SeqCst);
        if is_told {
            self.stir();
            self.wake_consumers();
        }
    }

    fn stir(&self) {
        self.stirred.store(true, Ordering::SeqCst);
        self.engine.notify();
    }

    /// Whether a pop gave the engine something to do since the last time it asked.
    pub fn take_stirred(&self) -> bool {
        self.stirred.load(Ordering::SeqCst) && self.stirred.swap(false, Ordering::SeqCst)
    }

    /// Whether a pop gave the engine something to do.
    pub fn is_stirred(&self) -> bool {
        self.stirred.load(Ordering::SeqCst)
    }

    /// Wakes consumers that wait or poll. Called after a notice, and once after all chunks of a tick.
    pub fn wake_consumers(&self) {
        // `notify` begins with a SeqCst fence: what was pushed comes before the look at who is armed.
        self.consumers.notify();
        if let Some(Some(beacon)) = self.beacon.get() {
            beacon.light();
        }
    }

    /// A descriptor that can be polled for output: readable from the first output after a pop that found nothing, until
    /// a pop finds nothing again, and after the end. `None`: this system has none.
    pub fn descriptor(&self) -> Option<i32> {
        let beacon = self.beacon.get_or_init(Beacon::new).as_ref()?;
        // Who made something before it could see the beacon is seen here.
        fence(Ordering::SeqCst);
        if self.has_something() || self.end.load(Ordering::SeqCst) != 0 {
            beacon.light();
        }
        Some(beacon.descriptor())
    }

    /// After the last output: pops say `status` when all is taken. With `death`: that is the last output. The first end
    /// stays: a stop does not undo a death.
    pub fn end(&self, status: Status, death: Option<Notice>) {
        if self.end.load(Ordering::SeqCst) == 0
            && let Some(notice) = death
        {
            let _ = self.death.put(notice);
        }
        // Release: whoever sees the end sees all outputs before it.
        let _ = self.end.compare_exchange(0, status.0, Ordering::SeqCst, Ordering::SeqCst);
        self.wake_consumers();
    }

    // ---- the consumers' side

    /// The next output. Any thread, never blocks.
    pub fn pop(&self) -> Popped {
        self.pop_as(|output| output)
    }

    /// The same, as `show` shows it: a chunk is shown where it lies, for it is large.
    #[inline(always)]
    pub fn pop_as<T>(&self, mut show: impl FnMut(Output) -> T) -> Popped<T> {
        match (self.look(&mut show), self.beacon.get()) {
            (Popped::Empty, Some(Some(beacon))) if self.end.load(Ordering::SeqCst) == 0 => {
                self.arm_and_look(beacon, &mut show)
            }
            (popped, _) => popped,
        }
    }

    #[cold]
    fn arm_and_look<T>(&self, beacon: &Beacon, show: &mut impl FnMut(Output) -> T) -> Popped<T> {
        beacon.arm();
        let found = self.look(show);
        // It is readable until a pop has said that there is nothing, and for ever after the end.
        if !matches!(found, Popped::Empty) || self.end.load(Ordering::SeqCst) != 0 {
            beacon.light();
        }
        found
    }

    #[inline(always)]
    fn look<T>(&self, show: &mut impl FnMut(Output) -> T) -> Popped<T> {
        // Read first: if nothing is found after it, nothing will ever be.
        let end = self.end.load(Ordering::SeqCst);
        loop {
            match self.pop_notice() {
                Take::Item(notice) => return Popped::Output(show(Output::Notice(notice))),
                Take::Empty => {}
                _ => return Popped::Empty,
            }
            let taken = self.ready.take();
            if self.ready.has_resurfaced() {
                self.wake_consumers();
            }
            let Some(row) = taken else { break };
            if let Some(shown) = self.pop_chunk(row, &mut *show) {
                return Popped::Output(shown);
            }
        }
        match if end == 0 { Popped::Empty } else { self.pop_end(Status(end)) } {
            Popped::Output(notice) => Popped::Output(show(Output::Notice(notice))),
            Popped::Empty => Popped::Empty,
            Popped::Ended(status) => Popped::Ended(status),
        }
    }

    fn pop_notice(&self) -> Take<Notice> {
        match self.notices.pop() {
            Take::Item(Queued { notice, shared: None }) => {
                self.refund(1);
                Take::Item(notice)
            }
            Take::Item(Queued { notice, shared: Some(kind) }) => {
                self.shared[kind as usize].store(false, Ordering::Release);
                self.stir();
                Take::Item(notice)
            }
            Take::Empty => Take::Empty,
            _ => Take::Busy,
        }
    }

    /// With the token of `row`. `None`: there is nothing, or a notice comes first.
    #[inline(always)]
    fn pop_chunk<T>(&self, row: Row, show: impl FnOnce(Output) -> T) -> Option<T> {
        let channel = self.channel(row);
        let take = |chunk: Chunk| {
            let missing = channel.count(&chunk.stamp);
            show(Output::Chunk(chunk, missing))
        };
        let shown = match channel.chunks.pop_if(|notices| self.notices.has_taken(notices), take) {
            Take::Item(shown) => Some(shown),
            _ => None,
        };
        self.leave(channel, row);
        if self.policy == Policy::Hold {
            // Pairs with the one in `has_room`.
            fence(Ordering::SeqCst);
            if channel.held_back.load(Ordering::Relaxed) && channel.held_back.swap(false, Ordering::Relaxed) {
                self.stir();
            }
        }
        shown
    }

    /// The end of a turn with the token.
    fn leave(&self, channel: &Channel, row: Row) {
        self.pass_on(channel, row);
        // In this order: who sees a farewell sees all chunks that it is to come after.
        if channel.farewell.is_full() && channel.chunks.is_empty() {
            self.part(channel);
        }
    }

    /// Chunks of `rows`, of that word of them, are there: whoever looks finds them.
    pub(super) fn tell(&self, word: usize, rows: u64) {
        // Release, and see `pass_on`: either we find the token given back, or the consumer that gives it back sees the chunk.
        let ours = self.tokens.claim(word, rows);
        if ours != 0 {
            self.ready.set_all(word, ours);
        }
    }

    /// Lets go of the token, or passes it on if there is more. For a chunk in the middle of its push the engine will make
    /// it anew.
    fn pass_on(&self, channel: &Channel, row: Row) {
        if !channel.chunks.has_next() {
            // Where the engine found the token out, we see after this the chunk or farewell that it had put there before.
            self.tokens.give_back(row);
            if !channel.chunks.has_next() || !self.tokens.claim_one(row) {
                return;
            }
        }
        self.ready.set(row);
        self.wake_consumers();
    }

    fn pop_end(&self, status: Status) -> Popped<Notice> {
        if self.is_busy() {
            return Popped::Empty;
        }
        match self.death.take() {
            Some(notice) => Popped::Output(notice),
            None => Popped::Ended(status),
        }
    }

    /// Sleeps until there is something to pop (`Empty`: look), nothing ever again, or `deadline` has passed (`None`).
    pub fn wait(&self, deadline: Option<Nanos>) -> Option<Popped> {
        let mut found = None;
        self.consumers.sleep(deadline, || {
            let end = self.end.load(Ordering::SeqCst);
            found = match end {
                _ if self.has_something() => Some(Popped::Empty),
                0 => None,
                end => Some(Popped::Ended(Status(end))),
            };
            found.is_some()
        });
        found
    }

    /// Whether a pop would find something, or nothing ever again.
    fn has_something(&self) -> bool {
        self.notices.has_next()
            || !self.ready.is_empty()
            || (self.end.load(Ordering::SeqCst) != 0 && (self.death.is_full() || self.is_busy()))
    }

    /// Whether another consumer is just at what is left, or has told the last of it since we looked.
    fn is_busy(&self) -> bool {
        self.channels.iter().any(|channel| !channel.chunks.is_empty() || channel.farewell.is_full())
            || self.telling.load(Ordering::SeqCst) != 0
            || !self.notices.is_empty()
    }

    // ---- what others may know

    /// Chunks that may be queued of a row.
    pub fn depth(&self) -> usize {
        self.depth
    }

    /// Chunks queued of `row`.
    pub fn queued(&self, row: Row) -> usize {
        self.channel(row).chunks.len()
    }

    /// Outputs of `row` that consumers hold.
    pub fn held(&self, row: Row) -> u64 {
        self.channel(row).held()
    }

    /// What the pools of `row` count with what is given back.
    pub fn tally(&self, row: Row) -> Tally {
        self.channel(row).returned.clone()
    }

    /// Whether the DETACHED of the life in `row` was queued after its last chunk.
    pub fn has_parted(&self, row: Row) -> bool {
        self.channel(row).gone.load(Ordering::Acquire)
    }

    /// Chunks of the life in `row` that were made and never popped.
    pub fn dropped_of(&self, row: Row) -> u64 {
        self.channel(row).dropped.load(Ordering::Relaxed)
    }

    /// Chunks that were made and never popped.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Ordering::Relaxed)
    }

    /// Places that nobody has paid for.
    pub fn credits(&self) -> i64 {
        self.credits.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
mod tests;
