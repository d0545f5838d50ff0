//! The rows: what each is, who lives in it, and which fences it waits for.
//!
//! Owned by the cohort, touched by the engine's thread alone. A row is an enum of its states; beside it, for iteration,
//! stands one bitset a state. [`Arena::turn`] is the only function that changes either.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use crate::conditioning::{Held, Keys, Store, Table, empty_table};
use crate::lane::Fence;
use crate::queue::LIFE_NOTICES;
use crate::rows::Rows;
use crate::word::{Fault, Generation, Nanos, Row, Session, Status};

/// One life of a session, from its ATTACH or RESET to the next RESET or its end. What a steady tick touches stands together,
/// first.
#[repr(C)]
pub struct Life {
    pub session: Session,
    pub user: u64,
    pub generation: Generation,
    /// Chunks made; -1 is told of a life that was not seeded by its state, not here.
    pub age: u64,
    /// Steps that gave no chunk because the model left its size 0.
    pub silent: u64,
    /// The newest ACTION, and when it was pushed, if no HOT was issued since.
    pub tag: u64,
    pub unseen_since: Option<Nanos>,
    /// The message whose heavy values are applied.
    pub heavy_tag: u64,
    /// Encodes started since its last HOT was issued.
    pub sat_out: u32,
    pub held: Held,
    /// Of the message that began it.
    pub begin_tag: u64,
    /// The message whose heavy values are wanted.
    pub wanted_tag: u64,
    /// By key, all of them: what seed sees, and a RESET without values again.
    pub context: Table,
    /// Heavy keys: what is to be applied.
    pub wanted: Table,
    pub seed_tries: u32,
    pub encode_tries: u32,
    pub encodes: u64,
    /// One of them has succeeded.
    pub has_encoded: bool,
    pub ticks_out: u64,
    /// Notices it has paid for and not used.
    pub credits: i64,
    /// Its DETACHED waits in the outbox for its last chunk.
    pub farewell_sent: bool,
    /// Of the DETACH that asked for a drain.
    pub drain_tag: u64,
}

impl Life {
    fn new(keys: &Keys) -> Life {
        Life {
            session: Session(0),
            user: 0,
            generation: Generation(0),
            age: 0,
            silent: 0,
            begin_tag: 0,
            tag: 0,
            unseen_since: None,
            heavy_tag: 0,
            wanted_tag: 0,
            context: empty_table(keys),
            held: Held::new(keys),
            wanted: empty_table(keys),
            seed_tries: 0,
            encode_tries: 0,
            sat_out: 0,
            encodes: 0,
            has_encoded: false,
            ticks_out: 0,
            credits: 0,
            farewell_sent: false,
            drain_tag: 0,
        }
    }

    /// Begins anew, in the same memory; the context stays.
    pub fn begin(&mut self, session: Session, user: u64, generation: Generation, tag: u64, store: &mut Store) {
        self.held.clear(store);
        store.clear(&mut self.wanted);
        (self.session, self.user, self.generation, self.begin_tag) = (session, user, generation, tag);
        (self.age, self.silent, self.tag, self.unseen_since) = (0, 0, 0, None);
        (self.heavy_tag, self.wanted_tag) = (0, 0);
        (self.seed_tries, self.encode_tries, self.sat_out, self.encodes, self.ticks_out) = (0, 0, 0, 0, 0);
        self.has_encoded = false;
        (self.credits, self.farewell_sent, self.drain_tag) = (LIFE_NOTICES, false, 0);
    }

    /// Gives up all values.
    fn end(&mut self, store: &mut Store) {
        self.held.clear(store);
        store.clear(&mut self.wanted);
        store.clear(&mut self.context);
    }
}

/// What `detach` is told of the life that has left.
#[derive(Clone, Copy)]
pub struct Left {
    pub session: Session,
    pub user: u64,
    pub generation: Generation,
    pub age: u64,
    /// Why: asked for, CLOSED, or what had quarantined the row.
    pub why: Option<Status>,
    /// Only then it is called.
    pub seeded: bool,
}

/// What a row is.
pub enum State {
    Free,
    /// Waits to be seeded.
    Pending {
        life: Box<Life>,
    },
    /// Is being seeded aside: nobody waits for it.
    Starting {
        life: Box<Life>,
    },
    Ready {
        life: Box<Life>,
    },
    /// Sits out until its encode's fence; `tag`: the message whose heavy values that encode was given.
    Encoding {
        life: Box<Life>,
        tag: u64,
    },
    /// Steps no more until RESET or DETACH.
    Quarantined {
        life: Box<Life>,
        fault: Fault,
    },
    /// Nobody lives here; work on the row is still under way. `next`: who has claimed it.
    Retiring {
        left: Left,
        next: Option<Box<Life>>,
    },
}

impl State {
    /// Of those that are not [`State::Ready`], which most are: out of their way.
    #[cold]
    fn life(&self) -> Option<&Life> {
        match self {
            State::Free | State::Retiring { next: None, .. } => None,
            State::Pending { life }
            | State::Starting { life }
            | State::Ready { life }
            | State::Encoding { life, .. }
            | State::Quarantined { life, .. }
            | State::Retiring { next: Some(life), .. } => Some(life),
        }
    }

    #[cold]
    fn life_mut(&mut self) -> Option<&mut Life> {
        match self {
            State::Free | State::Retiring { next: None, .. } => None,
            State::Pending { life }
            | State::Starting { life }
            | State::Ready { life }
            | State::Encoding { life, .. }
            | State::Quarantined { life, .. }
            | State::Retiring { next: Some(life), .. } => Some(life),
        }
    }
}

/// The rows of each state, for iteration.
pub struct ByState {
    pub free: Rows,
    pub pending: Rows,
    pub starting: Rows,
    pub ready: Rows,
    pub encoding: Rows,
    pub quarantined: Rows,
    pub retiring: Rows,
}

/// The last work of each lane that touched a row.
#[derive(Clone, Copy, Default)]
pub struct RowFences {
    /// Of the life before: the row is free, but a seed on another lane than HOT is to wait for it.
    pub detach: Option<Fence>,
    /// Seed, HOT.
    pub hot: Option<Fence>,
    pub deferred: Option<Fence>,
    pub encode: Option<Fence>,
}

/// Session ids are numbers of the host: one multiplication spreads them well enough, and is several times faster than
/// the standard hasher, which guards against ids chosen to collide.
#[derive(Default)]
pub struct SessionHasher(u64);

impl Hasher for SessionHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, _: &[u8]) {
        unreachable!("a session is one number");
    }

    fn write_u64(&mut self, number: u64) {
        let product = u128::from(number) * 0x9e37_79b9_7f4a_7c15;
        self.0 = (product >> 64) as u64 ^ product as u64;
    }
}

/// Where each session is.
pub type Sessions = HashMap<Session, Row, BuildHasherDefault<SessionHasher>>;

/// See the module's comment.
pub struct Arena {
    states: Box<[State]>,
    pub by: ByState,
    /// Between PAUSE and RESUME, in any state.
    pub paused: Rows,
    /// Leaving after their last chunk.
    pub draining: Rows,
    /// HOLD: sat out in the last tick, for want of room.
    pub held: Rows,
    /// Whose wanted heavy values may differ from the applied ones.
    pub touched: Rows,
    /// Of which something is to be said anew at the end of the tick.
    pub news: Rows,
    pub fences: Box<[RowFences]>,
    sessions: Sessions,
    #[allow(clippy::vec_box, reason = "lives move as boxes between here and the rows")]
    spare: Vec<Box<Life>>,
    max: u32,
}

impl Arena {
    /// `max` free rows.
    pub fn new(max: u32, keys: &Keys) -> Arena {
        let none = || Rows::new(max);
        let mut free = none();
        (0..max).for_each(|row| free.set(Row(row), true));
        let by = ByState {
            free,
            pending: none(),
            starting: none(),
            ready: none(),
            encoding: none(),
            quarantined: none(),
            retiring: none(),
        };
        Arena {
            states: (0..max).map(|_| State::Free).collect(),
            by,
            paused: none(),
            draining: none(),
            held: none(),
            touched: none(),
            news: none(),
            fences: vec![RowFences::default(); max as usize].into(),
            // Twice the room: so that removals never make an insertion allocate.
            sessions: HashMap::with_capacity_and_hasher(2 * max as usize, Default::default()),
            // A life a row, and one more: a RESET begins the new one before the old one's memory is back.
            spare: (0..max + 1).map(|_| Box::new(Life::new(keys))).collect(),
            max,
        }
    }

    /// Puts `row` into `state`; returns what it was.
    pub fn turn(&mut self, row: Row, state: State) -> State {
        let old = std::mem::replace(&mut self.states[row.at()], state);
        self.set_of(&old).remove(row);
        let index = row.at();
        let new = std::mem::replace(&mut self.states[index], State::Free);
        self.set_of(&new).add(row);
        self.states[index] = new;
        self.news.add(row);
        debug_assert_eq!(self.counts().iter().sum::<u32>(), self.max, "a row is in one set");
        old
    }

    fn set_of(&mut self, state: &State) -> &mut Rows {
        match state {
            State::Free => &mut self.by.free,
            State::Pending { .. } => &mut self.by.pending,
            State::Starting { .. } => &mut self.by.starting,
            State::Ready { .. } => &mut self.by.ready,
            State::Encoding { .. } => &mut self.by.encoding,
            State::Quarantined { .. } => &mut self.by.quarantined,
            State::Retiring { .. } => &mut self.by.retiring,
        }
    }

    fn counts(&self) -> [u32; 7] {
        let ByState { free, pending, starting, ready, encoding, quarantined, retiring } = &self.by;
        [free, pending, starting, ready, encoding, quarantined, retiring].map(Rows::len)
    }

    /// What `row` is.
    pub fn state(&self, row: Row) -> &State {
        &self.states[row.at()]
    }

    /// Who lives in `row`, or has claimed it.
    #[inline]
    pub fn life(&self, row: Row) -> Option<&Life> {
        match &self.states[row.at()] {
            State::Ready { life } => Some(life),
            other => other.life(),
        }
    }

    /// Who lives in `row`, or has claimed it.
    #[inline]
    pub fn life_mut(&mut self, row: Row) -> Option<&mut Life> {
        match &mut self.states[row.at()] {
            State::Ready { life } => Some(life),
            other => other.life_mut(),
        }
    }

    /// Whether the life `generation` is still in `row`.
    pub fn lives(&self, row: Row, generation: Generation) -> bool {
        self.life(row).is_some_and(|life| life.generation == generation)
    }

    /// Moves the life of `row` to another state of a living row.
    pub fn change(&mut self, row: Row, into: impl FnOnce(Box<Life>) -> State) {
        match self.turn(row, State::Free) {
            State::Pending { life }
            | State::Starting { life }
            | State::Ready { life }
            | State::Encoding { life, .. }
            | State::Quarantined { life, .. } => drop(self.turn(row, into(life))),
            other => drop(self.turn(row, other)),
        }
    }

    /// Where `session` is.
    pub fn find(&self, session: Session) -> Option<Row> {
        self.sessions.get(&session).copied()
    }

    /// How many sessions are attached.
    pub fn attached(&self) -> u32 {
        self.sessions.len() as u32
    }

    /// How many rows are seeded: ready, encoding or quarantined.
    pub fn seeded(&self) -> u32 {
        self.by.ready.len() + self.by.encoding.len() + self.by.quarantined.len()
    }

    /// Whether `row` is.
    pub fn is_seeded(&self, row: Row) -> bool {
        self.by.ready.has(row) || self.by.encoding.has(row) || self.by.quarantined.has(row)
    }

    /// The row that a new session gets: the lowest free one, else the lowest retiring one that nobody claims.
    pub fn vacancy(&self) -> Option<Row> {
        let unclaimed = |row: &Row| matches!(self.state(*row), State::Retiring { next: None, .. });
        self.by.free.first().or_else(|| self.by.retiring.iter().find(unclaimed))
    }

    /// Memory for a life.
    pub fn spare_life(&mut self, keys: &Keys) -> Box<Life> {
        self.spare.pop().unwrap_or_else(|| Box::new(Life::new(keys)))
    }

    /// Gives a life's memory back.
    pub fn bury(&mut self, mut life: Box<Life>, store: &mut Store) {
        life.end(store);
        self.spare.push(life);
    }

    /// `life` is to live in `row`, a vacancy or one whose life was just taken out: at once, or when it has retired.
    pub fn house(&mut self, row: Row, life: Box<Life>) {
        self.sessions.insert(life.session, row);
        match self.turn(row, State::Free) {
            State::Retiring { left, .. } => self.turn(row, State::Retiring { left, next: Some(life) }),
            _ => self.turn(row, State::Pending { life }),
        };
    }

    /// Takes the life out of `row`, which retires, or goes on retiring. A pause stays with the row: a RESET keeps it.
    pub fn evict(&mut self, row: Row, why: Option<Status>) -> Option<Box<Life>> {
        let seeded = self.is_seeded(row);
        let (life, why) = match self.turn(row, State::Free) {
            State::Retiring { left, next } => {
                self.turn(row, State::Retiring { left, next: None });
                return self.forget(row, next?);
            }
            State::Quarantined { life, fault } => (life, why.or(Some(fault.status))),
            State::Pending { life }
            | State::Starting { life }
            | State::Ready { life }
            | State::Encoding { life, .. } => (life, why),
            State::Free => return None,
        };
        let Life { session, user, generation, age, .. } = *life;
        let left = Left { session, user, generation, age, why, seeded };
        self.turn(row, State::Retiring { left, next: None });
        self.forget(row, life)
    }

    fn forget(&mut self, row: Row, life: Box<Life>) -> Option<Box<Life>> {
        self.sessions.remove(&life.session);
        self.draining.remove(row);
        self.held.remove(row);
        self.touched.remove(row);
        Some(life)
    }

    /// The life that has left `row` was seeded after all: its seed ran aside, and was seen to have succeeded only now.
    pub fn was_seeded(&mut self, row: Row, generation: Generation) {
        if let State::Retiring { left, .. } = &mut self.states[row.at()] {
            left.seeded |= left.generation == generation;
        }
    }

    /// The work on a retiring row is over: free, or its claimant's.
    pub fn vacate(&mut self, row: Row) {
        self.fences[row.at()] = RowFences::default();
        match self.turn(row, State::Free) {
            State::Retiring { next: Some(life), .. } => drop(self.turn(row, State::Pending { life })),
            State::Retiring { next: None, .. } => {}
            other => drop(self.turn(row, other)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;
    use std::hash::BuildHasher;

    use super::*;

    /// The table looks at the lowest bits first, then at the highest seven.
    #[test]
    fn ids_that_differ_in_few_bits_wherever_they_are_do_not_crowd_together() {
        let hasher = BuildHasherDefault::<SessionHasher>::default();
        for shift in [0, 16, 32, 48, 54] {
            let hashes: Vec<u64> = (0..1024u64).map(|n| hasher.hash_one(Session(n << shift))).collect();
            let lowest: HashSet<u64> = hashes.iter().map(|hash| hash % 2048).collect();
            let highest: HashSet<u64> = hashes.iter().map(|hash| hash >> 57).collect();
            // As many as of random numbers would be 806 and 128.
            assert!(lowest.len() > 700 && highest.len() > 100, "{shift}: {} {}", lowest.len(), highest.len());
        }
    }
}
