//! Messages on their way in: bounded, any number of producers, one consumer, no lock and no allocation.
//!
//! A ring of cells (stamped as in [`ring`](super::ring)) and beside it an arena of bytes, used in the same order: small
//! values travel in the cell, larger ones in the arena. One word, `tail`, holds the next ticket, the arena's position
//! and whether the queue is closed; one compare-and-swap of it claims a cell *and* its bytes, or finds the queue closed.
//! So arena space is freed in the order it was given out, each producer's order is kept, and nothing can slip in after
//! [`Inbox::close`].
//!
//! Who may fill it: one session (by hash) at most a quarter of the cells and of the bytes, all ACTIONs together at most
//! three quarters: neither a flood nor a crowd shuts a lifecycle message of somebody else out.
//!
//! A producer that is stopped between its claim and its stamp ends the drain there; it is never waited for.

use crossbeam_utils::CachePadded;

use crate::conditioning::{Lent, Release};
use crate::memory::Memory;
use crate::message::Envelope;
pub use crate::message::Kind;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use crate::word::{RawEvent, Session};

/// Values of up to so many bytes, with their heads, travel in the cell.
const INLINE: usize = 192;
/// The arena is given out in units of so many bytes.
const UNIT: usize = 64;
const ARENA_BITS: u32 = 24;
const ARENA_MASK: u64 = (1 << ARENA_BITS) - 1;
const CLOSED: u64 = 1 << 63;
const TICKET_MASK: u64 = (1 << (63 - ARENA_BITS)) - 1;
/// Bytes of a value's head: key, flags, size, revision, address.
const HEAD: usize = 32;
/// In its flags: the host's memory, or a device's.
const LENT: u32 = 1;
const DEVICE: u32 = 2;
/// Few where a checker looks on, which keeps the history of each.
const BUCKETS: usize = if cfg!(loom) { 16 } else { 1024 };

/// The largest arena that positions of `ARENA_BITS` can tell full from empty.
pub const MAX_BYTES: u64 = (UNIT as u64) << (ARENA_BITS - 1);

/// How much may be under way.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Messages; a power of two.
    pub messages: usize,
    /// Copied bytes of one message.
    pub message_bytes: usize,
    /// Bytes of the arena; it is made larger where it could not hold four messages.
    pub bytes: u64,
}

/// One value of a message that is pushed.
#[derive(Clone, Copy)]
pub struct ValueIn<'a> {
    /// Which key.
    pub key: u32,
    /// The host's word for what it says.
    pub revision: u64,
    /// Its bytes: copied, or lent.
    pub content: Result<&'a [u8], Lent>,
}

/// A message that is pushed.
pub struct Parcel<'a> {
    /// Its fixed part.
    pub envelope: Envelope,
    /// Its values, each key at most once.
    pub values: &'a [ValueIn<'a>],
    /// Behind which values on a device are complete; `None`: they are.
    pub ready: Option<RawEvent>,
    /// With lent values: what is run when the last of them is given up.
    pub release: Option<Release>,
}

/// Why a push took nothing.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Refused {
    /// No room, for this message at least.
    Full,
    /// The queue is closed.
    Closed,
}

/// The bytes that larger values travel in.
struct Arena {
    /// Keeps the bytes at `base` alive; they are reached by address only.
    _memory: Memory,
    base: usize,
    units: u64,
    /// Stand for the units where a checker looks on.
    #[cfg(loom)]
    witnesses: Box<[UnsafeCell<()>]>,
}

impl Arena {
    fn new(bytes: u64) -> Option<Arena> {
        let mut memory = Memory::new(usize::try_from(bytes).ok().filter(|_| bytes <= MAX_BYTES)?)?;
        let base = memory.bytes_mut().as_mut_ptr().expose_provenance();
        let units = bytes / UNIT as u64;
        Some(Arena {
            _memory: memory,
            base,
            units,
            #[cfg(loom)]
            witnesses: (0..units).map(|_| UnsafeCell::new(())).collect(),
        })
    }

    /// `size` bytes from `begin`, for their only user.
    fn span(&self, begin: usize, size: usize) -> *mut u8 {
        #[cfg(loom)]
        self.witnesses[begin / UNIT..(begin + size).div_ceil(UNIT)].iter().for_each(|unit| unit.with_mut(|_| ()));
        debug_assert!(begin + size <= self.units as usize * UNIT);
        std::ptr::with_exposed_provenance_mut(self.base + begin)
    }
}

struct Cell {
    /// `stamp == ticket`: its producer may write it; `ticket + 1`: the consumer may read it.
    stamp: AtomicU64,
    body: UnsafeCell<Body>,
}

struct Body {
    envelope: Envelope,
    ready: Option<RawEvent>,
    release: Option<Release>,
    count: u32,
    /// Bytes that this message took of its session's and its kind's share.
    weight: u64,
    /// Where its values lie, if not in the cell, and where the arena is free again after it.
    begin: usize,
    end: u32,
    size: usize,
    small: Small,
}

/// Values in a cell, aligned as those in the arena are at least.
#[repr(align(8))]
struct Small([u8; INLINE]);

/// See the module's comment.
pub struct Inbox {
    /// closed : 1 | ticket : 39 | arena position in units : 24.
    tail: CachePadded<AtomicU64>,
    /// Next ticket to read; written by the consumer alone.
    head: CachePadded<AtomicU64>,
    /// Up to where the consumer has freed the arena.
    arena_head: AtomicU32,
    cells: Box<[Cell]>,
    arena: Arena,
    /// Undrained messages (upper 24 bits) and bytes (lower 40) by hash of the session, and of all ACTIONs.
    shares: Box<[AtomicU64]>,
    actions: CachePadded<AtomicU64>,
    limits: Limits,
    /// What all ACTIONs may have of the arena.
    action_bytes: u64,
}

// SAFETY: a cell's body and its span of the arena are touched by the producer that claimed the ticket until it stores
// the stamp, and by the one consumer from then on until it stores the next.
unsafe impl Sync for Inbox {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl Send for Inbox {}

impl Inbox {
    /// An empty queue, or `None` where there is no memory.
    pub fn new(limits: Limits) -> Option<Inbox> {
        let largest = (limits.message_bytes + crate::conditioning::MAX_KEYS * (HEAD + 8)) as u64;
        let bytes = limits.bytes.max(4 * largest).next_power_of_two().max(UNIT as u64 * 4);
        let arena = Arena::new(bytes)?;
        let mut cells = Vec::new();
        cells.try_reserve_exact(limits.messages).ok()?;
        cells.extend(
            (0..limits.messages as u64)
                .map(|at| Cell { stamp: AtomicU64::new(at), body: UnsafeCell::new(Body::empty()) }),
        );
        Some(Inbox {
            tail: CachePadded::new(AtomicU64::new(0)),
            head: CachePadded::new(AtomicU64::new(0)),
            arena_head: AtomicU32::new(0),
            cells: cells.into(),
            arena,
            shares: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(),
            actions: CachePadded::new(AtomicU64::new(0)),
            limits: Limits { bytes, ..limits },
            // Behind them is room for the largest message, and for what is skipped where the arena ends: less than such a one.
            action_bytes: (bytes / 4 * 3).min(bytes - 2 * largest),
        })
    }

    /// Appends a message. Any thread. Refused: nothing was taken, and the release does not run.
    pub fn push(&self, parcel: Parcel<'_>) -> Result<(), Refused> {
        let size = size_of_values(parcel.values);
        let weight = if size <= INLINE { 0 } else { size.next_multiple_of(UNIT) as u64 };
        let is_action = matches!(parcel.envelope.kind, Kind::Action { .. });
        let result = self.reserve(parcel.envelope.session, is_action, weight).and_then(|()| {
            let claim = self.claim(weight / UNIT as u64, false);
            claim.inspect_err(|_| self.unreserve(parcel.envelope.session, is_action, weight))
        });
        match result {
            Ok((ticket, begin, end)) => {
                self.write(ticket, begin, end, size, weight, parcel);
                Ok(())
            }
            Err(refused) => {
                if let Some(release) = parcel.release {
                    release.disarm();
                }
                // Who has used up its share of a closed queue, which nobody may drain, would be told to come again for ever.
                Err(if self.is_closed() { Refused::Closed } else { refused })
            }
        }
    }

    /// Appends a message that was taken once before, when a run was recorded: nobody's share and no close refuses it.
    pub fn push_again(&self, parcel: Parcel<'_>) -> Result<(), Refused> {
        let size = size_of_values(parcel.values);
        let weight = if size <= INLINE { 0 } else { size.next_multiple_of(UNIT) as u64 };
        self.share(parcel.envelope.session).fetch_add(one(weight), Ordering::Relaxed);
        if matches!(parcel.envelope.kind, Kind::Action { .. }) {
            self.actions.fetch_add(one(weight), Ordering::Relaxed);
        }
        let (ticket, begin, end) = self.claim(weight / UNIT as u64, true)?;
        self.write(ticket, begin, end, size, weight, parcel);
        Ok(())
    }

    /// Takes a share for one message, of its session and of all ACTIONs.
    fn reserve(&self, session: Session, is_action: bool, weight: u64) -> Result<(), Refused> {
        let (messages, bytes) = (self.limits.messages as u64, self.limits.bytes);
        let share = self.share(session);
        if !take_share(share, weight, (messages / 4).max(1), bytes / 4) {
            return Err(Refused::Full);
        }
        if is_action && !take_share(&self.actions, weight, (messages * 3 / 4).max(1), self.action_bytes) {
            share.fetch_sub(one(weight), Ordering::Relaxed);
            return Err(Refused::Full);
        }
        Ok(())
    }

    fn unreserve(&self, session: Session, is_action: bool, weight: u64) {
        self.share(session).fetch_sub(one(weight), Ordering::Relaxed);
        if is_action {
            self.actions.fetch_sub(one(weight), Ordering::Relaxed);
        }
    }

    fn share(&self, session: Session) -> &AtomicU64 {
        let hash = session.0.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> (64 - BUCKETS.trailing_zeros());
        &self.shares[hash as usize]
    }

    /// One cell and `units` of the arena in one go: ticket, offset of the bytes, arena position behind them.
    /// `again`: although it is closed.
    fn claim(&self, units: u64, again: bool) -> Result<(u64, usize, u32), Refused> {
        let mut tail = self.tail.load(Ordering::Relaxed);
        loop {
            if tail & CLOSED != 0 && !again {
                return Err(Refused::Closed);
            }
            let (ticket, position) = ((tail & !CLOSED) >> ARENA_BITS, tail & ARENA_MASK);
            // Acquire: the consumer has finished with the cell.
            let stamp = self.cell(ticket).stamp.load(Ordering::Acquire);
            let offset = position % self.arena.units;
            let skip = if offset + units > self.arena.units { self.arena.units - offset } else { 0 };
            // Acquire: the consumer has finished with the bytes before this position.
            let used = position.wrapping_sub(u64::from(self.arena_head.load(Ordering::Acquire))) & ARENA_MASK;
            if stamp != ticket || used + skip + units > self.arena.units {
                let now = self.tail.load(Ordering::Relaxed);
                if now == tail {
                    return Err(Refused::Full);
                }
                // Somebody was faster: what we compared was not of one moment.
                tail = now;
                continue;
            }
            let offset = (offset + skip) % self.arena.units;
            let end = (position + skip + units) & ARENA_MASK;
            let next = (tail & CLOSED) | ((ticket + 1) & TICKET_MASK) << ARENA_BITS | end;
            // SeqCst: ordered with `close`; whoever gets in is seen by the mark that is read after it.
            match self.tail.compare_exchange_weak(tail, next, Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => return Ok((ticket, offset as usize * UNIT, end as u32)),
                Err(now) => tail = now,
            }
        }
    }

    fn cell(&self, ticket: u64) -> &Cell {
        &self.cells[ticket as usize & (self.cells.len() - 1)]
    }

    fn write(&self, ticket: u64, begin: usize, end: u32, size: usize, weight: u64, parcel: Parcel<'_>) {
        let cell = self.cell(ticket);
        // SAFETY: the ticket is ours, so are the cell and the span, until the stamp is stored.
        let body = cell.body.with_mut(|body| unsafe { &mut *body });
        let bytes: &mut [u8] = if weight == 0 {
            &mut body.small.0[..size]
        } else {
            // SAFETY: as above; `begin..begin + size` lies inside the arena and is no other claim's.
            unsafe { std::slice::from_raw_parts_mut(self.arena.span(begin, size), size) }
        };
        write_values(bytes, parcel.values);
        (body.envelope, body.ready, body.release) = (parcel.envelope, parcel.ready, parcel.release);
        body.count = parcel.values.len() as u32;
        (body.begin, body.end, body.size, body.weight) = (begin, end, size, weight);
        // Release: whoever sees the stamp sees the message.
        cell.stamp.store((ticket + 1) & TICKET_MASK, Ordering::Release);
    }

    /// The ticket after the last one given out: a drain ends there.
    pub fn mark(&self) -> u64 {
        (self.tail.load(Ordering::SeqCst) & !CLOSED) >> ARENA_BITS
    }

    /// The oldest message, if it was pushed before `mark` and is whole. The engine's thread alone, one at a time.
    pub fn pop(&self, mark: u64) -> Option<Incoming<'_>> {
        let ticket = self.head.load(Ordering::Relaxed);
        if ticket == mark {
            return None;
        }
        let cell = self.cell(ticket);
        // Acquire: pairs with the producer's stamp.
        if cell.stamp.load(Ordering::Acquire) != (ticket + 1) & TICKET_MASK {
            return None;
        }
        // SAFETY: stamped for the consumer, which is us, until `Incoming` is dropped.
        let body = cell.body.with_mut(|body| unsafe { &mut *body });
        let release = body.release.take();
        Some(Incoming { inbox: self, ticket, body, release })
    }

    /// Refuses all pushes from now on. What got in before is still there.
    pub fn close(&self) {
        self.tail.fetch_or(CLOSED, Ordering::SeqCst);
    }

    /// Whether it was closed.
    pub fn is_closed(&self) -> bool {
        self.tail.load(Ordering::SeqCst) & CLOSED != 0
    }

    /// Whether nothing is in it, nothing half pushed either. A moment's truth.
    pub fn is_empty(&self) -> bool {
        self.head.load(Ordering::Relaxed) == self.mark()
    }

    /// Whether a whole message is there for the engine. One that is half pushed is not: its producer will notify.
    pub fn has_next(&self) -> bool {
        self.is_whole(self.head.load(Ordering::Relaxed))
    }

    /// Whether one is there behind the oldest, which was left in place.
    pub fn has_second(&self) -> bool {
        self.is_whole((self.head.load(Ordering::Relaxed) + 1) & TICKET_MASK)
    }

    fn is_whole(&self, ticket: u64) -> bool {
        self.cell(ticket).stamp.load(Ordering::Acquire) == (ticket + 1) & TICKET_MASK
    }
}

impl Body {
    fn empty() -> Body {
        let envelope = Envelope {
            kind: Kind::Pause,
            session: Session(0),
            generation: Default::default(),
            user: 0,
            tag: 0,
            pushed: 0,
        };
        Body {
            envelope,
            ready: None,
            release: None,
            count: 0,
            weight: 0,
            begin: 0,
            end: 0,
            size: 0,
            small: Small([0; INLINE]),
        }
    }
}

const COUNT_SHIFT: u32 = 40;

fn one(weight: u64) -> u64 {
    1 << COUNT_SHIFT | weight
}

fn take_share(share: &AtomicU64, weight: u64, messages: u64, bytes: u64) -> bool {
    let before = share.fetch_add(one(weight), Ordering::Relaxed);
    let fits = before >> COUNT_SHIFT < messages && (before & ((1 << COUNT_SHIFT) - 1)) + weight <= bytes;
    if !fits {
        share.fetch_sub(one(weight), Ordering::Relaxed);
    }
    fits
}

impl ValueIn<'_> {
    fn copied(&self) -> &[u8] {
        self.content.unwrap_or(&[])
    }
}

fn size_of_values(values: &[ValueIn<'_>]) -> usize {
    values.iter().map(|value| HEAD + value.copied().len().next_multiple_of(8)).sum()
}

fn write_values(mut bytes: &mut [u8], values: &[ValueIn<'_>]) {
    for value in values {
        let (copied, address, size) = match value.content {
            Ok(copied) => (copied, 0, copied.len()),
            Err(lent) => (&[][..], lent.address(), lent.size()),
        };
        let (head, rest) = bytes.split_at_mut(HEAD);
        head[0..4].copy_from_slice(&value.key.to_ne_bytes());
        let kind = match value.content {
            Ok(_) => 0,
            Err(lent) if lent.is_device() => DEVICE,
            Err(_) => LENT,
        };
        head[4..8].copy_from_slice(&kind.to_ne_bytes());
        head[8..16].copy_from_slice(&size.to_ne_bytes());
        head[16..24].copy_from_slice(&value.revision.to_ne_bytes());
        head[24..32].copy_from_slice(&address.to_ne_bytes());
        rest[..copied.len()].copy_from_slice(copied);
        bytes = &mut rest[copied.len().next_multiple_of(8)..];
    }
}

/// A message in the drain. Its cell and bytes are free again when it is dropped.
pub struct Incoming<'a> {
    inbox: &'a Inbox,
    ticket: u64,
    body: &'a mut Body,
    /// Of lent values; the one who drains takes it.
    pub release: Option<Release>,
}

impl Incoming<'_> {
    /// The fixed part.
    pub fn envelope(&self) -> Envelope {
        self.body.envelope
    }

    /// Behind which those of its values that are on a device are complete.
    pub fn ready(&self) -> Option<RawEvent> {
        self.body.ready
    }

    /// Its values.
    pub fn values(&self) -> Values<'_> {
        let body = &*self.body;
        let bytes = if body.weight == 0 {
            &body.small.0[..body.size]
        } else {
            // SAFETY: the span of this message, which nobody writes before it is dropped.
            unsafe { std::slice::from_raw_parts(self.inbox.arena.span(body.begin, body.size), body.size) }
        };
        Values { bytes, left: body.count }
    }

    /// Leaves it where it is, with its release if that was not taken: its values stay, and the next pop gives it once more.
    pub fn leave_in_place(mut self) {
        self.body.release = self.release.take();
        std::mem::forget(self);
    }
}

impl Drop for Incoming<'_> {
    fn drop(&mut self) {
        let (body, inbox) = (&*self.body, self.inbox);
        let is_action = matches!(body.envelope.kind, Kind::Action { .. });
        inbox.unreserve(body.envelope.session, is_action, body.weight);
        // Release (both): we have finished reading the bytes and the cell.
        inbox.arena_head.store(body.end, Ordering::Release);
        let cells = inbox.cells.len() as u64;
        inbox.cell(self.ticket).stamp.store((self.ticket + cells) & TICKET_MASK, Ordering::Release);
        inbox.head.store((self.ticket + 1) & TICKET_MASK, Ordering::SeqCst);
    }
}

/// The values of a message, in the order they were given.
pub struct Values<'a> {
    bytes: &'a [u8],
    left: u32,
}

impl<'a> Iterator for Values<'a> {
    type Item = ValueIn<'a>;

    fn next(&mut self) -> Option<ValueIn<'a>> {
        self.left = self.left.checked_sub(1)?;
        let (head, rest) = self.bytes.split_at(HEAD);
        let word = |at: usize| usize::from_ne_bytes(*head[at..].first_chunk().expect("a head has 32 bytes"));
        let key = word(0) as u32;
        let (is_lent, is_device) = (head[4..8] != [0; 4], head[4..8] == DEVICE.to_ne_bytes());
        let (size, revision, address) = (word(8), word(16) as u64, word(24));
        let copied = if is_lent { 0 } else { size };
        let content = if is_device {
            Err(Lent::on_device(address, size))
        } else if is_lent {
            // SAFETY: written by `write_values` from a `Lent` whose release is still to run: it is in this message.
            Err(unsafe { Lent::new(address, size) })
        } else {
            Ok(&rest[..copied])
        };
        self.bytes = &rest[copied.next_multiple_of(8)..];
        Some(ValueIn { key, revision, content })
    }
}

#[cfg(test)]
mod tests;
