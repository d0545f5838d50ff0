//! The vocabulary: small values that everything above speaks in. Knows nothing of the rest.

use std::fmt;

/// Nanoseconds of the engine's clock.
pub type Nanos = u64;

/// A host-chosen name of one user's stream. Any value.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Session(pub u64);

/// Names one life of a session: from one engine-wide counter, from 1, never reused. 0 is "none".
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub struct Generation(pub u64);

/// One of the arena's fixed places; what a model indexes its state by.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct Row(pub u32);

impl Row {
    /// As an index into arrays by row.
    pub fn at(self) -> usize {
        self.0 as usize
    }

    /// Which word of a set of rows it is in, 64 to each.
    pub fn word(self) -> usize {
        self.at() / 64
    }

    /// Its bit there.
    pub fn bit(self) -> u64 {
        1 << (self.0 % 64)
    }
}

/// A set of keys, one bit a key.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct KeySet(pub u64);

impl KeySet {
    /// No key.
    pub const NONE: KeySet = KeySet(0);

    /// The set of `key` alone.
    pub fn of(key: usize) -> KeySet {
        KeySet(1 << key)
    }

    /// Whether `key` is in the set.
    pub fn has(self, key: usize) -> bool {
        self.0 >> key & 1 != 0
    }

    /// Adds `key`.
    pub fn add(&mut self, key: usize) {
        self.0 |= 1 << key;
    }

    /// Takes `key` out.
    pub fn remove(&mut self, key: usize) {
        self.0 &= !(1 << key);
    }

    /// Adds or removes `key`.
    pub fn set(&mut self, key: usize, present: bool) {
        if present { self.add(key) } else { self.remove(key) }
    }

    /// Whether there is none.
    pub fn is_empty(self) -> bool {
        self.0 == 0
    }

    /// Its keys, ascending.
    pub fn iter(self) -> impl Iterator<Item = usize> {
        let mut left = self.0;
        std::iter::from_fn(move || {
            (left != 0).then(|| {
                let key = left.trailing_zeros() as usize;
                left &= left - 1;
                key
            })
        })
    }
}

impl std::ops::BitOr for KeySet {
    type Output = KeySet;
    fn bitor(self, other: KeySet) -> KeySet {
        KeySet(self.0 | other.0)
    }
}

impl std::ops::BitAnd for KeySet {
    type Output = KeySet;
    fn bitand(self, other: KeySet) -> KeySet {
        KeySet(self.0 & other.0)
    }
}

/// What kind of work a stage does.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lane {
    /// The critical path: makes chunk N.
    Hot,
    /// Finishes chunk N-1 meanwhile.
    Deferred,
    /// Digests changed heavy values of single rows.
    Encode,
}

impl Lane {
    /// How many there are.
    pub const COUNT: usize = 3;

    /// As an index: 0, 1, 2.
    pub fn at(self) -> usize {
        self as usize
    }
}

/// One FIFO queue of work: HOT, DEFERRED, and up to eight of ENCODE.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Queue(u8);

impl Queue {
    /// ENCODE queues at most.
    pub const ENCODES: usize = 8;
    /// How many there are at most.
    pub const COUNT: usize = 2 + Queue::ENCODES;
    /// The queue of HOT.
    pub const HOT: Queue = Queue(0);
    /// The queue of DEFERRED.
    pub const DEFERRED: Queue = Queue(1);
    /// The first ENCODE queue.
    pub const ENCODE: Queue = Queue(2);

    /// The queue of `lane`; of ENCODE the first.
    pub fn of(lane: Lane) -> Queue {
        Queue(lane as u8)
    }

    /// ENCODE queue number `number`.
    pub fn encode(number: usize) -> Queue {
        Queue(2 + number as u8)
    }

    /// As an index.
    pub fn at(self) -> usize {
        self.0 as usize
    }
}

/// A queue of a device, or nothing: only an adapter gives it a type.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct RawStream(pub usize);

/// A mark in such a queue.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawEvent(pub usize);

/// Why something did not go well: never OK where it is stored. Same numbers as `rte_status`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Status(pub i32);

#[allow(missing_docs)]
impl Status {
    pub const AGAIN: Status = Status(1);
    pub const TIMEOUT: Status = Status(2);
    pub const CLOSED: Status = Status(3);
    pub const ARGUMENT: Status = Status(-1);
    pub const VERSION: Status = Status(-2);
    pub const STATE: Status = Status(-3);
    pub const FULL: Status = Status(-4);
    pub const UNKNOWN: Status = Status(-5);
    pub const MEMORY: Status = Status(-6);
    pub const DEVICE: Status = Status(-7);
    pub const UNAVAILABLE: Status = Status(-8);
    pub const DEADLOCK: Status = Status(-9);
    pub const CALLBACK: Status = Status(-10);
    pub const DEAD: Status = Status(-11);
    pub const FORKED: Status = Status(-12);
    pub const STALE: Status = Status(-13);
    pub const TOO_LARGE: Status = Status(-14);
    /// From here down the numbers are the host's.
    pub const HOST: Status = Status(-1000);

    /// What a callback's return value means: `Ok` for 0, the status where it is one that a callback may return, else
    /// CALLBACK: it returned a number that is not a status.
    pub fn of_callback(code: i32) -> Result<(), Status> {
        match code {
            0 => Ok(()),
            -14..=-1 => Err(Status(code)),
            _ if code <= Status::HOST.0 => Err(Status(code)),
            _ => Err(Status::CALLBACK),
        }
    }
}

impl fmt::Display for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

/// Which stage failed, and how.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Fault {
    /// Index into the model's stages, or one of [`hook`].
    pub stage: u32,
    /// What it returned.
    pub status: Status,
}

/// Stage numbers of the hooks: what stands in for an index into the model's stages.
#[allow(missing_docs)]
pub mod hook {
    pub const SEED: u32 = 0xffff_ffff;
    pub const DETACH: u32 = 0xffff_fffe;
    pub const READY: u32 = 0xffff_fffd;
    pub const FINALIZE: u32 = 0xffff_fffc;
    pub const INIT: u32 = 0xffff_fffb;
    pub const ON_OUTPUT: u32 = 0xffff_fffa;
    pub const SERVE: u32 = 0xffff_fff9;
    pub const NONE: u32 = 0xffff_fff0;

    /// What such a number stands for.
    pub fn name(stage: u32) -> Option<&'static str> {
        Some(match stage {
            SEED => "seed",
            DETACH => "detach",
            READY => "ready",
            FINALIZE => "finalize",
            INIT => "init",
            ON_OUTPUT => "on_output",
            SERVE => "serve",
            _ => return None,
        })
    }
}
