//! The output buffers of one row: a quota that is committed once, used again and again, and outlives the engine.
//!
//! A buffer is either at home or owned by exactly one [`Lease`]: in a batch, in the outbox, or in a consumer's hands. Takers
//! are one thread (the engine's, which has the [`Pool`]), so taking one is a load and a store; givers are any.
//!
//! **When the memory goes.** While the engine has its `Pool` nobody frees the memory, so neither taking a buffer nor giving
//! it back counts anything. The drop of the `Pool` marks each buffer as an orphan. What it finds at home it counts off `open`
//! itself; of what is out, the giver finds the mark, and counts it off. So each is counted off once, and the `Pool` too,
//! last of its own; who counts off the last frees the memory. A giver that finds no mark touches the pool no more.
//!
//! **Not before.** With a device, or with pointers of the model's own, a buffer that is at home may still be in use: by
//! the batch that fills it, or by what its consumer enqueued. What must be over is kept in its seat, which belongs to
//! the buffer's owner, and to the taker while it is at home: who gives it back looks at once, the taker passes over what
//! is not over yet, and whoever frees the memory waits.
//!
//! Giving, marking and counting off are read-modify-writes with Acquire and Release, so the last one sees what everybody
//! did with their buffers before. (Acquire on each of them and not a fence in the last: the thread sanitizer knows no fences.)

use std::marker::PhantomData;
use std::ptr::NonNull;
use std::sync::Arc;

use super::Tally;
use super::ready::Ready;
use crate::memory::{LINE, Memory, Room};
use crate::model::{Model, RawEvent, RawStream};
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU32, AtomicUsize, Ordering};
use crate::word::Row;

/// Where a buffer is: somebody has it.
const OUT: u32 = 0;
const HOME: u32 = 1;
/// The engine has let go of the pool.
const ORPHAN: u32 = 2;

/// The engine's right to take buffers: see the module's comment. One thread at a time has it.
pub struct Pool {
    body: NonNull<Body>,
    /// `take` is for one thread at a time: a pool may be sent to another, not shared.
    _taker: PhantomData<std::cell::Cell<()>>,
}

/// What the engine and the leases reach.
struct Body {
    /// Keeps the buffers' bytes alive; they are reached by address only. Written once, so all pages are there.
    _memory: Memory,
    bytes: usize,
    /// By buffer, where it is. Home: by its giver alone; out: by the taker, of one at home; orphan: by the drop of the pool.
    places: Box<[AtomicU32]>,
    /// Buffers that are not counted off yet, and the pool.
    open: AtomicUsize,
    /// By buffer.
    seats: Box<[Seat]>,
    returned: Tally,
    /// There is a device, or an owner.
    has_rests: bool,
    device: Option<Device>,
    /// Outputs are pointers of its own.
    owner: Option<Arc<dyn Model>>,
}

/// Where the buffers of a row are used.
#[derive(Clone)]
pub struct Device {
    /// Marks the streams of consumers.
    pub fence: Arc<dyn ReleaseFence>,
    /// Rows that have a pointer of the model's which the device may still use, and nobody else. Set by whoever gave it
    /// back, taken by the engine, which looks when it can go home.
    pub resting: Arc<Ready>,
    /// Which row it is.
    pub row: Row,
    /// What kind of memory buffers are of; none: the heap's.
    pub room: Option<Arc<dyn Room>>,
}

// SAFETY: nothing in the body belongs to a thread.
unsafe impl Send for Pool {}

/// A point on a time line of a device.
pub trait Passage: Send + Sync {
    /// Whether it has passed. Never blocks.
    fn passed(&self) -> bool;

    /// Returns when it has.
    fn wait(&self);

    /// What a consumer's stream waits for.
    fn event(&self) -> RawEvent;
}

/// Marks the stream on which a consumer uses an output that it gives back.
pub trait ReleaseFence: Send + Sync {
    /// A point behind all that is enqueued on `stream` now; `None`: the device failed.
    fn mark(&self, stream: RawStream) -> Option<Arc<dyn Passage>>;
}

/// What a lease points to: all of a buffer but its bytes, in a line of its own.
#[repr(align(64))]
struct Seat {
    index: u32,
    /// The address of the body it is part of.
    body: usize,
    /// The buffer's.
    address: usize,
    /// Touched by the buffer's owner alone, and by the taker while it is at home.
    rest: UnsafeCell<Rest>,
}

/// What must be over before a buffer is used again.
#[derive(Default)]
struct Rest {
    /// A pointer of the model's own, which gets it back; 0: none. Where one is filled: of a chunk that was lost.
    own: usize,
    /// Of the batch that fills it, and of its consumer's last use.
    marks: [Option<Arc<dyn Passage>>; 2],
}

impl Pool {
    /// `count` buffers of `bytes` each, or `None` where there is no memory.
    pub fn new(
        count: usize,
        bytes: usize,
        returned: Tally,
        device: Option<Device>,
        owner: Option<Arc<dyn Model>>,
    ) -> Option<Pool> {
        let stride = bytes.max(1).checked_next_multiple_of(LINE)?;
        let room = device.as_ref().and_then(|device| device.room.as_ref()).filter(|_| owner.is_none());
        let mut memory = Memory::new_in(room, stride.checked_mul(count)?)?;
        // Made from an exclusive borrow, where the processor may write it.
        let base = match memory.bytes_mut() {
            [] => memory.address(),
            bytes => bytes.as_mut_ptr().expose_provenance(),
        };
        let body = Box::new(Body {
            _memory: memory,
            bytes,
            places: (0..count).map(|_| AtomicU32::new(HOME)).collect(),
            open: AtomicUsize::new(count + 1),
            seats: Box::default(),
            returned,
            has_rests: device.is_some() || owner.is_some(),
            device,
            owner,
        });
        let body = NonNull::from(Box::leak(body));
        let address = body.as_ptr().expose_provenance();
        // SAFETY: it is ours alone until the first lease is taken.
        unsafe {
            (*body.as_ptr()).seats =
                (0..count).map(|index| Seat::new(index as u32, address, base + index * stride)).collect()
        };
        Some(Pool { body, _taker: PhantomData })
    }

    fn body(&self) -> &Body {
        // SAFETY: it lives at least as long as the pool.
        unsafe { self.body.as_ref() }
    }

    /// Takes a free buffer.
    #[inline]
    pub fn take(&self) -> Option<Lease> {
        let Body { places, seats, .. } = self.body();
        let (seat, place) = seats.iter().zip(places).find(|(seat, place)| {
            // Acquire: the giver's last use of the buffer, and of its seat, is over.
            place.load(Ordering::Acquire) == HOME && self.is_over(seat.index)
        })?;
        // Of a buffer at home nobody else changes that.
        place.store(OUT, Ordering::Relaxed);
        Some(Lease(NonNull::from(seat)))
    }

    /// Whether the last use of a buffer at home is over.
    fn is_over(&self, index: u32) -> bool {
        let body = self.body();
        // SAFETY: it is at home and we are the taker: the seat is ours.
        !body.has_rests || unsafe { body.settle(index) }
    }

    /// Whether `count` buffers could be taken.
    pub fn has(&self, count: usize) -> bool {
        if !self.body().has_rests {
            return self.at_home() >= count;
        }
        self.look_at_home().filter(|is_over| *is_over).take(count).count() == count
    }

    /// Gives the model back what nobody uses any more; whether that is all that is at home.
    pub fn settle(&self) -> bool {
        self.look_at_home().filter(|is_over| !*is_over).count() == 0
    }

    /// Of each buffer at home, whether its last use is over.
    fn look_at_home(&self) -> impl Iterator<Item = bool> {
        // Acquire: as in `take`.
        let at_home = (0..).zip(&self.body().places).filter(|(_, place)| place.load(Ordering::Acquire) == HOME);
        at_home.map(|(index, _)| self.is_over(index))
    }

    /// Whether nobody uses any of its buffers: letting go of it then waits for nothing.
    pub fn is_idle(&self) -> bool {
        self.has(self.count())
    }

    /// How many buffers it has.
    pub fn count(&self) -> usize {
        self.body().seats.len()
    }

    /// How many are at home.
    pub fn at_home(&self) -> usize {
        self.body().places.iter().filter(|place| place.load(Ordering::Relaxed) == HOME).count()
    }
}

impl Drop for Pool {
    fn drop(&mut self) {
        let orphan = |place: &&AtomicU32| place.swap(ORPHAN, Ordering::AcqRel) == HOME;
        let at_home = self.body().places.iter().filter(orphan).count();
        // SAFETY: those, and ourselves, were not counted off yet; the pool is not used after this.
        unsafe { Body::count_off(self.body, at_home + 1) };
    }
}

impl Seat {
    fn new(index: u32, body: usize, address: usize) -> Seat {
        Seat { index, body, address, rest: UnsafeCell::new(Rest::default()) }
    }
}

impl Body {
    /// Whether what buffer `index` was used for is over; if so, the model has its pointer back.
    ///
    /// # Safety
    /// The buffer is the caller's, or at home and the caller is the taker.
    unsafe fn settle(&self, index: u32) -> bool {
        // SAFETY: the caller's promise.
        let rest = self.seats[index as usize].rest.with_mut(|rest| unsafe { &mut *rest });
        let is_over = rest.marks.iter().flatten().all(|mark| mark.passed());
        if is_over {
            rest.marks = [None, None];
            self.give_back(std::mem::take(&mut rest.own));
        }
        is_over
    }

    fn give_back(&self, own: usize) {
        if let (Some(owner), true) = (&self.owner, own != 0) {
            owner.release_output(own);
        }
    }

    /// Counts `buffers` off; frees the body if they were the last.
    ///
    /// # Safety
    /// They were not counted off yet, and are the caller's; it touches the body no more.
    unsafe fn count_off(body: NonNull<Body>, buffers: usize) {
        // SAFETY: what is not counted off keeps the body.
        if unsafe { body.as_ref() }.open.fetch_sub(buffers, Ordering::AcqRel) == buffers {
            // SAFETY: from `Box::leak`; nobody has a lease or the pool, and this happens once.
            drop(unsafe { Box::from_raw(body.as_ptr()) });
        }
    }
}

impl Drop for Body {
    fn drop(&mut self) {
        let seats = std::mem::take(&mut self.seats);
        for seat in seats {
            // SAFETY: nobody else has anything of the pool.
            let rest = seat.rest.with_mut(|rest| unsafe { &mut *rest });
            rest.marks.iter().flatten().for_each(|mark| mark.wait());
            self.give_back(rest.own);
        }
    }
}

/// The right to one buffer. Dropping it gives the buffer back, on any thread.
pub struct Lease(NonNull<Seat>);

// SAFETY: the body belongs to no thread, and the buffer is the lease's alone.
unsafe impl Send for Lease {}
// SAFETY: a shared lease only lets the buffer be read.
unsafe impl Sync for Lease {}

impl Lease {
    fn seat(&self) -> &Seat {
        // SAFETY: the buffer is not counted off, so the body with its seats lives.
        unsafe { self.0.as_ref() }
    }

    fn body(&self) -> NonNull<Body> {
        // SAFETY: written with the seat, and not zero.
        unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(self.seat().body)) }
    }

    fn pool(&self) -> &Body {
        // SAFETY: as in `seat`.
        unsafe { self.body().as_ref() }
    }

    fn rest(&self) -> &Rest {
        // SAFETY: the buffer is ours, so is its seat; `&self` excludes writes of it.
        self.seat().rest.with(|rest| unsafe { &*rest })
    }

    fn rest_mut(&mut self) -> &mut Rest {
        // SAFETY: as above, and `&mut self` excludes other uses.
        self.seat().rest.with_mut(|rest| unsafe { &mut *rest })
    }

    /// Where the data begins: the buffer, or what the model made of its own.
    pub fn address(&self) -> usize {
        match self.rest().own {
            0 => self.seat().address,
            own => own,
        }
    }

    /// The data is at `own` of the model's, if that is not 0, and complete behind `mark`, if there is one. Who ends the
    /// lease gives `own` back to the model. What it has adopted before is over: else it would not be filled anew.
    pub fn adopt(&mut self, own: usize, mark: Option<Arc<dyn Passage>>) {
        let before = std::mem::replace(self.rest_mut(), Rest { own, marks: [mark, None] });
        self.pool().give_back(before.own);
    }

    /// It was not sent: what it has adopted is not its own any more.
    pub fn disown(&mut self) {
        *self.rest_mut() = Rest::default();
    }

    /// Where its completion is something to wait for: that.
    pub fn completion(&self) -> Option<RawEvent> {
        self.rest().marks[0].as_ref().map(|mark| mark.event())
    }

    /// The last use of it is what is enqueued on `stream` now; a pool without a device knows no streams.
    pub fn used_on(&mut self, stream: RawStream) {
        self.rest_mut().marks[1] = self.pool().device.as_ref().and_then(|device| device.fence.mark(stream));
    }

    /// Gives the model back what the buffer was used for, if that is over; whether it is.
    pub fn settle(&mut self) -> bool {
        // SAFETY: the buffer is ours.
        unsafe { self.pool().settle(self.seat().index) }
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        // SAFETY: the buffer lies inside the pool's memory, and a lease is the only way to it.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address()), self.pool().bytes) }
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        // SAFETY: as above, and `&mut self` excludes other uses of this lease.
        unsafe {
            std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(self.address()), self.pool().bytes)
        }
    }

    /// To a consumer, as one word that [`Lease::from_consumer`] takes back.
    pub fn to_consumer(self) -> usize {
        // The buffer is now the word's.
        std::mem::ManuallyDrop::new(self).0.expose_provenance().get()
    }

    /// # Safety
    /// `word` came from [`Lease::to_consumer`], and this is the first time that it is taken back.
    pub unsafe fn from_consumer(word: usize) -> Lease {
        // SAFETY: the caller's promise: the address of a seat.
        let lease = Lease(unsafe { NonNull::new_unchecked(std::ptr::with_exposed_provenance_mut(word)) });
        lease.pool().returned.add();
        lease
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        // What is not over yet, the taker looks at again.
        let rests = self.pool().has_rests && !self.settle();
        // The body may be gone when it is told.
        let told = if rests && self.pool().owner.is_some() { self.pool().device.clone() } else { None };
        let (body, index) = (self.body(), self.seat().index as usize);
        // Release: our uses of the buffer come before those of its next taker. Nothing of the pool is ours after it, but for
        // an orphan's count.
        // SAFETY: the buffer keeps the body until then.
        if unsafe { body.as_ref() }.places[index].swap(HOME, Ordering::AcqRel) == ORPHAN {
            // SAFETY: the pool has not counted it off, and nobody else does.
            unsafe { Body::count_off(body, 1) };
        }
        // Not before: who is told finds the buffer at home.
        if let Some(device) = told {
            device.resting.set(device.row);
        }
    }
}

#[cfg(test)]
mod tests;
