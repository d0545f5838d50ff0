//! What work does when it really runs, and whether it may: a state machine over rows, pipeline slots, output buffers and
//! lent values.
//!
//! Work on a part of a row must take effect in the order in which it was submitted, and not at the same time, unless both
//! only read. That is checked by number; beside it, the parts have contents, so that what work finds there is what it
//! must find: the life that was seeded, the latent of its own HOT, the conditioning that its batch shows.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use rte::output::{Event, Stamp};

use super::arrays::{Snapshot, digest_at};
use super::options::Options;
use super::tally::{Count, Tally};

/// What a piece of work is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Deed {
    Seed,
    Hot,
    Deferred,
    Encode,
    Detach,
}

/// A part of a row that lanes share.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Part {
    /// HOT's own state.
    State,
    /// DEFERRED's own state.
    Decoder,
    /// What ENCODE makes of heavy values; HOT and DEFERRED read it.
    Conditioning,
    /// What HOT leaves for DEFERRED, one a slot.
    Latent(u32),
}

/// What must never happen.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Violation {
    /// Two pieces of work, one of them writing, were at a part at once.
    Overlap(Part),
    /// Work touched a part before work that was submitted earlier.
    Order(Part),
    /// DEFERRED found another chunk's latent than its own HOT's.
    Latent,
    /// HOT or DEFERRED found another conditioning than its batch shows.
    Conditioning,
    /// A life's work ran before its seed.
    BeforeSeed,
    /// A life's work ran after its detach.
    AfterDetach,
    /// A life's work ran after the seed of a later one.
    OldLife,
    /// A row was seeded, or detached twice, while another life or none was in it.
    Turnover,
    /// A batch's arrays were changed before its work was done.
    ArraysChanged,
    /// A lent value was given back before its last reader was done.
    ValueReleased,
    /// A copied value was changed before its last reader was done.
    ValueChanged,
    /// A chunk came out, or was read behind its event, that was not, or not wholly, in its buffer.
    OutputEarly,
    /// A buffer was written while a consumer had another chunk there, or was to read one on its stream.
    OutputHeld,
    /// Work that writes a buffer was submitted before earlier work on it was done.
    OutputReused,
    /// A buffer's memory went before what was to read it was done.
    OutputFreed,
    /// A pointer of the model's own came back while work was to write it, or a consumer had it or was to read it.
    PointerEarly,
    /// A pointer of the model's own that was a chunk's did not come back exactly once, or another did.
    PointerCount,
    /// An event was recorded again while a chunk had it.
    EventReused,
    /// Somebody waited for a device who must not: in a tick, or while others will run.
    Waited,
    /// A life's chunks came out of order.
    ChunkOrder,
    /// A lent value was not given back exactly once.
    ReleaseCount,
    /// A life that was seeded was not detached, though the engine is gone.
    NeverDetached,
    /// With nothing in its way a row made no more chunks.
    Stuck,
    /// Work was left when the lanes were told that nothing more is to run.
    LeftAtHalt,
    /// Work waits for a fence for which there is no name here.
    UnknownDependency,
}

/// What work does to one row.
pub struct Touch {
    pub deed: Deed,
    pub row: usize,
    pub session: u64,
    pub generation: u64,
    pub age: u64,
    /// Position in the batch.
    pub at: usize,
    /// The heavy values that it was shown, as one number.
    pub heavy: u64,
    /// It leaves what it is meant to leave.
    pub succeeds: bool,
    /// It leaves something else: a failed call of a model that is not safe to retry.
    pub spoils: bool,
    /// It makes a chunk.
    pub writes: bool,
}

/// A value that work reads while it runs.
pub struct Value {
    pub address: usize,
    pub size: usize,
    pub is_lent: bool,
    pub digest: u64,
}

/// What one piece of work will do, as its calls have recorded it.
#[derive(Default)]
pub struct Record {
    pub slot: u32,
    pub touches: Vec<Touch>,
    pub values: Vec<Value>,
}

/// Who is at a part, and who was last.
#[derive(Clone, Copy, Default)]
struct Access {
    writers: u32,
    readers: u32,
    last_write: u64,
    last_read: u64,
}

/// One row's contents.
#[derive(Clone, Default)]
struct Place {
    access: [Access; 5],
    /// The life that was seeded and not detached.
    owner: Option<u64>,
    newest: u64,
    conditioning: u64,
    /// By slot: generation and age.
    latents: [(u64, u64); 2],
}

/// Which chunk: session, generation, index.
pub type Content = (u64, u64, u64);

/// What a row that needed no seed was made of: whatever its first step finds.
const ANY: u64 = u64::MAX;

/// What is in a buffer that is being written.
const TORN: Content = (0, 0, u64::MAX);

/// An output buffer.
#[derive(Default)]
struct Buffer {
    content: Content,
    /// Work that was submitted, will write it, and is not done.
    writer: Option<u64>,
    /// The chunk that a consumer has.
    held: Option<Content>,
    /// Chunks that consumers' streams are to read there.
    readers: Vec<Content>,
}

/// See the module's comment.
pub struct World {
    places: Vec<Place>,
    buffers: HashMap<usize, Buffer>,
    /// Pointers of the model's own: those that it has, and those that are chunks'.
    pointers: (Vec<usize>, HashSet<usize>),
    /// By generation and index of a chunk: the number of the work that makes it.
    makers: HashMap<(u64, u64), u64>,
    /// Events that chunks in consumers' hands carry, and how many.
    carried: HashMap<usize, u32>,
    /// Nothing fails any more; the rows that have made chunks since.
    calm: Option<HashSet<u32>>,
    /// The engine has stopped: who frees memory now may wait.
    pub is_over: bool,
    /// Lent memory by address, and how often it was given back. Kept until the end of the run.
    loans: HashMap<usize, (Box<[u8]>, Arc<AtomicU32>)>,
    /// By generation: the index of the chunk that came out last.
    indices: HashMap<u64, u64>,
    /// Copied values may be looked at: the engine is told no lies, so they are there.
    is_honest: bool,
    /// Chunks may come out before they are complete.
    on_device: bool,
    /// Lives begin, and end, with a call.
    has_seed: bool,
    has_detach: bool,
    running: u32,
    /// What the call that runs now records.
    pub record: Record,
    /// Calls of this kind fail as a whole while this session is among their rows.
    pub poison: Option<(Deed, u64)>,
    pub violations: Vec<Violation>,
    pub tally: Tally,
}

impl World {
    /// Nothing has happened yet.
    pub fn new(options: &Options, is_honest: bool) -> World {
        World {
            places: vec![Place::default(); options.rows as usize],
            buffers: HashMap::new(),
            pointers: Default::default(),
            makers: HashMap::new(),
            carried: HashMap::new(),
            calm: None,
            is_over: false,
            loans: HashMap::new(),
            indices: HashMap::new(),
            is_honest,
            on_device: options.on_device,
            has_seed: options.has_seed,
            has_detach: options.has_detach,
            running: 0,
            record: Record::default(),
            poison: None,
            violations: Vec::new(),
            tally: Tally::default(),
        }
    }

    /// From now on nothing fails.
    pub fn calm_down(&mut self) {
        (self.poison, self.calm) = (None, Some(HashSet::new()));
    }

    /// Whether nothing fails.
    pub fn is_calm(&self) -> bool {
        self.calm.is_some()
    }

    /// All rows had every reason to make chunks since it is calm.
    pub fn expect_chunks(&mut self) {
        let rows = self.calm.as_ref().map_or(0, HashSet::len);
        self.require(rows == self.places.len(), Violation::Stuck);
    }

    /// Something happened that must not.
    pub fn violated(&mut self, violation: Violation) {
        self.violations.push(violation);
    }

    /// That much more of it.
    pub fn count(&mut self, what: Count, more: u64) {
        *self.tally.entry(what).or_default() += more;
    }

    fn require(&mut self, holds: bool, violation: Violation) {
        if !holds {
            self.violated(violation);
        }
    }

    // ---- work

    /// Work number `number` is submitted: the buffers that it writes are its own.
    pub fn submit(&mut self, number: u64, record: &Record, arrays: &Snapshot) {
        for touch in record.touches.iter().filter(|touch| touch.writes) {
            let buffer = self.buffers.entry(arrays.output(touch.at)).or_default();
            let is_free = buffer.writer.replace(number).is_none();
            self.makers.insert((touch.generation, touch.age), number);
            self.require(is_free, Violation::OutputReused);
        }
    }

    /// Work number `number` begins: it is at its parts from now on, and reads.
    pub fn begin(&mut self, number: u64, record: &Record, arrays: &Snapshot) {
        self.count(Count::Overlaps, u64::from(self.running > 0));
        record.touches.first().into_iter().for_each(|touch| self.count(touch.deed.count(), 1));
        self.running += 1;
        self.look_at_inputs(record, arrays);
        for touch in &record.touches {
            self.count(Count::RowsTouched, 1);
            self.count(Count::RowsInVain, u64::from(!touch.succeeds));
            self.look_at_life(touch);
            for (part, writes) in parts(touch.deed, record.slot) {
                self.enter(number, touch.row, part, writes);
            }
            self.look_at_contents(touch, record.slot);
            if touch.writes {
                self.write_output(touch, arrays.output(touch.at), TORN);
            }
        }
    }

    /// Work number `number` ends: what it writes is there.
    pub fn end(&mut self, number: u64, record: &Record, arrays: &Snapshot) {
        self.running -= 1;
        self.look_at_inputs(record, arrays);
        for touch in &record.touches {
            for (part, writes) in parts(touch.deed, record.slot) {
                let access = &mut self.places[touch.row].access[part.at()];
                *(if writes { &mut access.writers } else { &mut access.readers }) -= 1;
            }
            self.leave_contents(touch, record.slot);
            if touch.writes {
                let address = arrays.output(touch.at);
                self.write_output(touch, address, touch.chunk());
                self.buffers.entry(address).or_default().writer.take_if(|writer| *writer == number);
            }
        }
    }

    fn enter(&mut self, number: u64, row: usize, part: Part, writes: bool) {
        let access = &mut self.places[row].access[part.at()];
        let overlaps = access.writers > 0 || (writes && access.readers > 0);
        let is_late = access.last_write > number || (writes && access.last_read > number);
        if writes {
            access.writers += 1;
            access.last_write = access.last_write.max(number);
        } else {
            access.readers += 1;
            access.last_read = access.last_read.max(number);
        }
        self.require(!overlaps, Violation::Overlap(part));
        self.require(!is_late, Violation::Order(part));
    }

    /// Batch and values are as they were at submit.
    fn look_at_inputs(&mut self, record: &Record, arrays: &Snapshot) {
        self.require(arrays.is_unchanged(), Violation::ArraysChanged);
        for value in &record.values {
            self.look_at_value(value);
        }
    }

    /// A life that needs no seed begins with the first work on its row.
    fn begin_life(&mut self, touch: &Touch) {
        let place = &mut self.places[touch.row];
        if self.has_seed || place.newest >= touch.generation {
            return;
        }
        let owner = place.owner.replace(touch.generation);
        (place.newest, place.conditioning) = (touch.generation, ANY);
        self.require(owner.is_none() || !self.has_detach, Violation::Turnover);
    }

    fn look_at_life(&mut self, touch: &Touch) {
        self.begin_life(touch);
        let place = &self.places[touch.row];
        let (owner, newest) = (place.owner, place.newest);
        match touch.deed {
            Deed::Seed if self.has_detach => self.require(owner.is_none(), Violation::Turnover),
            Deed::Seed => self.require(newest < touch.generation, Violation::Turnover),
            Deed::Detach => self.require(owner == Some(touch.generation), Violation::Turnover),
            _ if owner == Some(touch.generation) => {}
            _ if newest < touch.generation => self.violated(Violation::BeforeSeed),
            _ if newest > touch.generation => self.violated(Violation::OldLife),
            _ => self.violated(Violation::AfterDetach),
        }
    }

    fn look_at_contents(&mut self, touch: &Touch, slot: u32) {
        let place = &mut self.places[touch.row];
        let is_step = matches!(touch.deed, Deed::Hot | Deed::Deferred);
        if is_step && place.conditioning == ANY {
            place.conditioning = touch.heavy;
        }
        let (conditioning, latent) = (place.conditioning, place.latents[slot as usize]);
        if is_step {
            self.require(conditioning == touch.heavy, Violation::Conditioning);
        }
        if touch.deed == Deed::Deferred {
            self.require(latent == (touch.generation, touch.age), Violation::Latent);
        }
    }

    fn leave_contents(&mut self, touch: &Touch, slot: u32) {
        let place = &mut self.places[touch.row];
        match touch.deed {
            Deed::Seed if touch.succeeds => {
                (place.owner, place.newest) = (Some(touch.generation), touch.generation);
                place.conditioning = touch.heavy;
            }
            Deed::Hot if touch.succeeds => place.latents[slot as usize] = (touch.generation, touch.age),
            Deed::Hot if touch.spoils => place.latents[slot as usize] = (0, 0),
            Deed::Encode if touch.succeeds => place.conditioning = touch.heavy,
            Deed::Detach => place.owner = None,
            Deed::Seed | Deed::Hot | Deed::Deferred | Deed::Encode => {}
        }
    }

    // ---- outputs

    fn write_output(&mut self, touch: &Touch, address: usize, content: Content) {
        let buffer = self.buffers.entry(address).or_default();
        buffer.content = content;
        let own = self.on_device.then(|| touch.chunk());
        let is_used = buffer.held.iter().chain(&buffer.readers).any(|chunk| Some(*chunk) != own);
        self.require(!is_used, Violation::OutputHeld);
    }

    /// A pointer of the model's own, one that it has.
    pub fn pointer(&mut self) -> usize {
        let (free, lent) = &mut self.pointers;
        // Nobody follows them. Each is new, or came back before.
        let address = free.pop().unwrap_or(64 * (1 + lent.len()));
        lent.insert(address);
        address
    }

    /// One that is no chunk's after all.
    pub fn keep_pointer(&mut self, address: usize) {
        let (free, lent) = &mut self.pointers;
        lent.remove(&address);
        free.push(address);
    }

    /// One that was a chunk's has come back.
    pub fn pointer_back(&mut self, address: usize) {
        self.count(Count::Pointers, 1);
        let buffer = self.buffers.entry(address).or_default();
        let is_used = buffer.writer.is_some() || buffer.held.is_some() || !buffer.readers.is_empty();
        self.require(!is_used, Violation::PointerEarly);
        let was_lent = self.pointers.1.contains(&address);
        self.require(was_lent, Violation::PointerCount);
        self.keep_pointer(address);
    }

    /// A consumer has popped a chunk. `behind`: its event, and the number of the work behind which that was recorded.
    pub fn popped(&mut self, stamp: &Stamp, address: usize, behind: Option<(usize, u64)>) {
        self.count(Count::Chunks, 1);
        let chunk = chunk_of(stamp);
        self.calm.iter_mut().for_each(|rows| rows.extend([stamp.row.0]));
        let buffer = self.buffers.entry(address).or_default();
        buffer.held = Some(chunk);
        let is_complete = buffer.content == chunk;
        match behind {
            None => self.require(is_complete, Violation::OutputEarly),
            Some((event, number)) => {
                self.count(Count::ChunksEarly, u64::from(!is_complete));
                *self.carried.entry(event).or_default() += 1;
                let maker = self.makers.get(&(stamp.generation.0, stamp.index)).copied();
                self.require(maker == Some(number), Violation::EventReused);
            }
        }
        let last = self.indices.insert(stamp.generation.0, stamp.index);
        self.require(last.is_none_or(|last| last < stamp.index), Violation::ChunkOrder);
    }

    /// A consumer will read a chunk on its stream.
    pub fn enqueued(&mut self, address: usize, chunk: Content) {
        self.count(Count::Reads, 1);
        self.buffers.entry(address).or_default().readers.push(chunk);
    }

    /// A consumer reads a chunk.
    pub fn look_at_output(&mut self, address: usize, chunk: Content) {
        let content = self.buffers.entry(address).or_default().content;
        self.require(content == chunk, Violation::OutputEarly);
    }

    /// A consumer has read a chunk on its stream.
    pub fn has_read(&mut self, address: usize, chunk: Content) {
        let readers = &mut self.buffers.entry(address).or_default().readers;
        let at = readers.iter().position(|reader| *reader == chunk).expect("enqueued before");
        readers.swap_remove(at);
    }

    /// The consumer gives a chunk back that carries `event`.
    pub fn given_back(&mut self, address: usize, event: Option<usize>) {
        self.count(Count::ReleasedLate, u64::from(self.is_over));
        self.buffers.entry(address).or_default().held = None;
        event.into_iter().for_each(|event| *self.carried.entry(event).or_default() -= 1);
    }

    /// An event that chunks have carried is recorded again.
    pub fn recorded(&mut self, event: usize) {
        self.count(Count::EventsAgain, 1);
        let is_free = self.carried.get(&event).is_none_or(|chunks| *chunks == 0);
        self.require(is_free, Violation::EventReused);
    }

    /// A consumer has popped a notice.
    pub fn told(&mut self, event: Event) {
        let what = match event {
            Event::Attached { .. } => Count::Attached,
            Event::Rejected(_) => Count::Rejected,
            Event::Detached(_) => Count::Detached,
            Event::RowFailed(_) => Count::RowsFailed,
            Event::TickFailed(_) => Count::CallsFailed,
            Event::Dead(fault) => unreachable!("no call says DEAD: {fault:?}"),
        };
        self.count(what, 1);
    }

    // ---- values

    /// Somebody reads a value now.
    pub fn look_at_value(&mut self, value: &Value) {
        if value.is_lent {
            let loan = self.loans.get(&value.address);
            let is_there = loan.is_some_and(|(_, releases)| releases.load(Ordering::Relaxed) == 0);
            self.require(is_there, Violation::ValueReleased);
        } else if self.is_honest {
            self.require(digest_at(value.address, value.size) == value.digest, Violation::ValueChanged);
        }
    }

    /// Memory with `bytes` in it that the message whose releases are counted in `releases` lends.
    pub fn lend(&mut self, bytes: &[u8], releases: &Arc<AtomicU32>) -> usize {
        let memory: Box<[u8]> = bytes.into();
        let address = memory.as_ptr().expose_provenance();
        self.loans.insert(address, (memory, releases.clone()));
        address
    }

    /// The push was refused: nothing is lent.
    pub fn take_back(&mut self, address: usize) {
        self.loans.remove(&address);
    }

    /// The engine is gone, and so are all outputs.
    pub fn close(&mut self) {
        let is_unread = self.buffers.values().any(|buffer| !buffer.readers.is_empty());
        self.require(!is_unread, Violation::OutputFreed);
        let is_lent = !self.pointers.1.is_empty();
        self.require(!is_lent, Violation::PointerCount);
        self.count(Count::ValuesLent, self.loans.len() as u64);
        let wrong = self.loans.values().filter(|(_, releases)| releases.load(Ordering::Relaxed) != 1).count();
        self.require(wrong == 0, Violation::ReleaseCount);
        let is_empty = !self.has_detach || self.places.iter().all(|place| place.owner.is_none());
        self.require(is_empty, Violation::NeverDetached);
    }
}

/// Which chunk it is.
pub fn chunk_of(stamp: &Stamp) -> Content {
    (stamp.session.0, stamp.generation.0, stamp.index)
}

impl Touch {
    /// Which chunk it makes.
    fn chunk(&self) -> Content {
        (self.session, self.generation, self.age)
    }
}

impl Deed {
    fn count(self) -> Count {
        match self {
            Deed::Seed => Count::Seeds,
            Deed::Hot => Count::Hots,
            Deed::Deferred => Count::Deferreds,
            Deed::Encode => Count::Encodes,
            Deed::Detach => Count::Detaches,
        }
    }
}

impl Part {
    fn at(self) -> usize {
        match self {
            Part::State => 0,
            Part::Decoder => 1,
            Part::Conditioning => 2,
            Part::Latent(slot) => 3 + slot as usize,
        }
    }
}

/// Which parts of a row work is at, and whether it writes them. A seed and a detach are at all of them.
fn parts(deed: Deed, slot: u32) -> impl Iterator<Item = (Part, bool)> {
    let all = [Part::State, Part::Decoder, Part::Conditioning, Part::Latent(0), Part::Latent(1)];
    all.into_iter().filter_map(move |part| {
        let writes = match (deed, part) {
            (Deed::Seed | Deed::Detach, _) => true,
            (_, Part::Latent(of)) if of != slot => return None,
            (Deed::Hot, Part::State | Part::Latent(_)) => true,
            (Deed::Deferred, Part::Decoder) => true,
            (Deed::Encode, Part::Conditioning) => true,
            (Deed::Hot | Deed::Deferred, Part::Conditioning) | (Deed::Deferred, Part::Latent(_)) => false,
            (Deed::Hot, Part::Decoder) | (Deed::Deferred, Part::State) | (Deed::Encode, _) => return None,
        };
        Some((part, writes))
    })
}
