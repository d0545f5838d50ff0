//! Where each pointer of the model's is: with the model, with a chunk, or back. What may not be is kept as a complaint.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, MutexGuard};

use crate::host::device::Device;
use crate::random::Random;

/// What a pointer's memory says: the life and the number of the chunk that was made there.
pub type Content = [u64; 2];

/// Bytes of a chunk.
pub const CHUNK: usize = size_of::<Content>();

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Place {
    /// It stays the model's.
    Model,
    /// It is a chunk's: the engine owes it.
    Chunk,
    /// The engine has given it back.
    Back,
}

struct Pointer {
    /// Never freed before the ledger: a pointer is told from all others.
    memory: Box<Content>,
    place: Place,
    /// A consumer has it.
    is_held: bool,
    /// When the last use of it that was enqueued is over.
    busy_until: u64,
}

/// What the stages do next, as a test sets it.
#[derive(Clone, Copy, Default, Debug)]
pub struct Knobs {
    /// Of each batch's work, where there is a device.
    pub length: u64,
    /// The stage that ends the chunk returns this.
    pub result: i32,
    /// One in so many: a row does something else than to make a chunk; a batch fails. 0: none.
    pub row_mishaps: u64,
    pub batch_mishaps: u64,
    /// This session's chunks say that they are larger than there is room.
    pub too_large: Option<u64>,
}

/// How much of what has happened.
pub type Tally = BTreeMap<&'static str, u64>;

#[derive(Default)]
struct State {
    pointers: HashMap<usize, Pointer>,
    knobs: Knobs,
    random: Random,
    tally: Tally,
    complaints: Vec<String>,
    is_destroyed: bool,
}

/// See the module's comment. The engine holds a count of it until its `destroy`.
pub struct Ledger {
    /// Whose time says when work is over.
    pub device: Option<Arc<Device>>,
    pub max_sessions: usize,
    state: Mutex<State>,
}

impl Ledger {
    /// Nothing in it.
    pub fn new(max_sessions: usize, device: Option<Arc<Device>>, seed: u64) -> Arc<Ledger> {
        let state = State { random: Random::new(seed), ..State::default() };
        Arc::new(Ledger { device, max_sessions, state: Mutex::new(state) })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no callback panics with the ledger in hand")
    }

    /// The time of the device; 0 without one.
    pub fn now(&self) -> u64 {
        self.device.as_ref().map_or(0, |device| device.now())
    }

    /// Sets what the stages do next.
    pub fn set(&self, change: impl FnOnce(&mut Knobs)) {
        change(&mut self.state().knobs);
    }

    /// What the stages do next.
    pub fn knobs(&self) -> Knobs {
        self.state().knobs
    }

    /// One of `0..count`.
    pub fn below(&self, count: u64) -> u64 {
        self.state().random.below(count)
    }

    /// True once in `count` times; 0: never.
    pub fn once_in(&self, count: u64) -> bool {
        self.state().random.once_in(count)
    }

    /// Something that must not be.
    pub fn complain(&self, complaint: impl Into<String>) {
        self.state().complaints.push(complaint.into());
    }

    /// One more of it.
    pub fn count(&self, what: &'static str) {
        *self.state().tally.entry(what).or_default() += 1;
    }

    // ---- the model's side

    /// A stage hands a pointer over that work writes until `busy_until`. `is_chunks`: by the header's word it is the
    /// chunk's, else it stays the model's.
    pub fn hand_over(&self, content: Content, is_chunks: bool, busy_until: u64) -> usize {
        let memory = Box::new(content);
        let address = (&raw const *memory).expose_provenance();
        let place = if is_chunks { Place::Chunk } else { Place::Model };
        self.count(if is_chunks { "handed over" } else { "kept" });
        self.state().pointers.insert(address, Pointer { memory, place, is_held: false, busy_until });
        address
    }

    /// `release_output`.
    pub fn back(&self, address: usize) {
        let now = self.now();
        let mut state = self.state();
        let is_late = state.is_destroyed;
        let Some(pointer) = state.pointers.get_mut(&address) else {
            return state.complaints.push(format!("{address:#x} is none of the model's"));
        };
        let (place, is_held, busy_until) = (pointer.place, pointer.is_held, pointer.busy_until);
        pointer.place = Place::Back;
        let what = format!("{:?}", pointer.memory);
        let mut complain = |is_wrong: bool, why: String| {
            if is_wrong {
                state.complaints.push(format!("{what} came back {why}"));
            }
        };
        complain(place != Place::Chunk, format!("from {place:?}"));
        complain(is_held, "while a consumer has it".to_string());
        complain(busy_until > now, format!("at {now}, used until {busy_until}"));
        complain(is_late, "after destroy".to_string());
        *state.tally.entry("back").or_default() += 1;
    }

    /// `destroy`.
    pub fn destroy(&self) {
        let mut state = self.state();
        if std::mem::replace(&mut state.is_destroyed, true) {
            state.complaints.push("destroy is called again".to_string());
        }
    }

    // ---- the consumer's side

    /// A chunk was popped.
    pub fn popped(&self, address: usize, content: Content) {
        let mut state = self.state();
        let Some(pointer) = state.pointers.get_mut(&address) else {
            return state.complaints.push(format!("{content:?} is at {address:#x}, which is none of the model's"));
        };
        let is_right = *pointer.memory == content && pointer.place == Place::Chunk && !pointer.is_held;
        pointer.is_held = true;
        if !is_right {
            state.complaints.push(format!("{content:?} was popped at another's pointer"));
        }
        *state.tally.entry("popped").or_default() += 1;
    }

    /// It is about to be released; what was enqueued for it is over at `busy_until`.
    pub fn let_go(&self, address: usize, busy_until: u64) {
        let mut state = self.state();
        let pointer = state.pointers.get_mut(&address).expect("popped before");
        pointer.is_held = false;
        pointer.busy_until = pointer.busy_until.max(busy_until);
    }

    // ---- what a test asks

    /// How many pointers the engine owes.
    pub fn owed(&self) -> usize {
        self.state().pointers.values().filter(|pointer| pointer.place == Place::Chunk).count()
    }

    /// How many came back.
    pub fn returned(&self) -> usize {
        self.state().pointers.values().filter(|pointer| pointer.place == Place::Back).count()
    }

    /// Whether this one came back.
    pub fn is_back(&self, address: usize) -> bool {
        self.state().pointers[&address].place == Place::Back
    }

    /// Whether the model's `destroy` was called.
    pub fn is_destroyed(&self) -> bool {
        self.state().is_destroyed
    }

    /// What may not be, so far.
    pub fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    /// How much of what has happened.
    pub fn tally(&self) -> Tally {
        self.state().tally.clone()
    }
}
