//! What is said of each session: written by the engine at the end of a tick, read whole by any thread.
//!
//! A sequence lock a row: odd while it is written. The writer never waits; a reader that meets a write looks again.

use std::sync::atomic::{AtomicU64, Ordering, fence};

use crate::word::{Generation, Row, Session, Status};

/// What a session is doing. Same numbers as `RTE_PENDING` and following.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum State {
    Pending = 1,
    Ready = 2,
    Encoding = 3,
    Quarantined = 4,
    Held = 5,
}

/// What is said of one session.
#[derive(Clone, Copy, Debug)]
#[allow(missing_docs)]
pub struct Entry {
    pub session: Session,
    pub user: u64,
    pub generation: Generation,
    pub state: State,
    pub paused: bool,
    pub status: Option<Status>,
    pub age: u64,
    pub tag: u64,
    pub heavy_tag: u64,
    pub encodes: u64,
    pub ticks_out: u64,
}

const WORDS: usize = 9;
/// Which of them is the age.
const AGE: usize = 4;

struct Slot {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

/// One entry a row.
pub struct Board {
    slots: Box<[Slot]>,
}

impl Board {
    /// Nobody is anywhere.
    pub fn new(rows: u32) -> Board {
        let slot = |_| Slot { sequence: AtomicU64::new(0), words: Default::default() };
        Board { slots: (0..rows).map(slot).collect() }
    }

    /// Says `entry` of `row`. The engine's thread alone.
    pub fn write(&self, row: Row, entry: Option<&Entry>) {
        let slot = &self.slots[row.at()];
        let sequence = slot.sequence.load(Ordering::Relaxed);
        slot.sequence.store(sequence + 1, Ordering::Relaxed);
        // Release: no word is written before the sequence is odd.
        fence(Ordering::Release);
        let words = entry.map_or([0; WORDS], Entry::words);
        slot.words.iter().zip(words).for_each(|(word, new)| word.store(new, Ordering::Relaxed));
        slot.sequence.store(sequence + 2, Ordering::Release);
    }

    /// Says a new age of `row`, of which all else is as it was: what most ticks do to most rows. The engine's thread alone.
    pub fn write_age(&self, row: Row, age: u64) {
        let slot = &self.slots[row.at()];
        // One word: a reader has the old or the new one, and both go with the rest.
        slot.words[AGE].store(age, Ordering::Relaxed);
    }

    /// Where `session` is and what is said of it. Looks at every row: not for a hot path.
    pub fn find(&self, session: Session) -> Option<(Row, Entry)> {
        (0..self.slots.len() as u32).map(Row).find_map(|row| {
            let entry = self.read(row)?;
            (entry.session == session).then_some((row, entry))
        })
    }

    /// Whether that is said of `row` which says it of the life `generation`: else what was read of the row elsewhere since it
    /// was found may be of another.
    pub fn is_of(&self, row: Row, generation: Generation) -> bool {
        self.read(row).is_some_and(|entry| entry.generation == generation)
    }

    fn read(&self, row: Row) -> Option<Entry> {
        let slot = &self.slots[row.at()];
        loop {
            let before = slot.sequence.load(Ordering::Acquire);
            let words = slot.words.each_ref().map(|word| word.load(Ordering::Relaxed));
            // Acquire: the words were read before the sequence is read again.
            fence(Ordering::Acquire);
            if before.is_multiple_of(2) && slot.sequence.load(Ordering::Relaxed) == before {
                return Entry::of_words(words);
            }
            std::thread::yield_now();
        }
    }
}

impl Entry {
    fn words(&self) -> [u64; WORDS] {
        let status = self.status.map_or(0, |status| status.0 as u32);
        let bits = self.state as u64 | u64::from(self.paused) << 8 | u64::from(status) << 32;
        let Entry { session, user, generation, age, tag, heavy_tag, encodes, ticks_out, .. } = *self;
        [bits, session.0, user, generation.0, age, tag, heavy_tag, encodes, ticks_out]
    }

    fn of_words(words: [u64; WORDS]) -> Option<Entry> {
        let [bits, session, user, generation, age, tag, heavy_tag, encodes, ticks_out] = words;
        let state = match bits & 0xff {
            1 => State::Pending,
            2 => State::Ready,
            3 => State::Encoding,
            4 => State::Quarantined,
            5 => State::Held,
            _ => return None,
        };
        let status = (bits >> 32) as u32 as i32;
        Some(Entry {
            session: Session(session),
            user,
            generation: Generation(generation),
            state,
            paused: bits >> 8 & 1 != 0,
            status: (status != 0).then_some(Status(status)),
            age,
            tag,
            heavy_tag,
            encodes,
            ticks_out,
        })
    }
}
