//! What the library promises a loop and its consumers, said once more and as simply as it can be: one thread, no memory
//! of its own to save. What can be popped next is checked, not in which turn sessions come.

use std::collections::{BTreeMap, VecDeque};

use super::super::driver::*;
use super::*;

/// What happens to a chunk that finds no room.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Policy {
    DropOldest,
    DropNewest,
    Hold,
}

/// A message that is under way.
#[derive(Clone, Debug)]
pub struct Sent {
    pub kind: u32,
    pub flags: u32,
    pub session: u64,
    pub generation: u64,
    pub user: u64,
    pub tag: u64,
    pub values: Vec<(u32, Vec<u8>)>,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Told {
    Nothing,
    Attached,
    Failed(i32),
    Detached,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Left {
    No,
    Draining,
    Gone { tag: u64 },
}

#[derive(Clone, Debug)]
struct Life {
    row: u32,
    user: u64,
    generation: u64,
    tag: u64,
    age: u64,
    newest: Option<u64>,
    told: Told,
    left: Left,
    paused: bool,
}

/// A notice that is to come, with how many it stands for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Notice {
    pub said: Said,
    pub user: u64,
    pub tag: u64,
    pub row: u32,
    pub flags: u32,
    pub count: u64,
}

#[derive(Clone, PartialEq, Eq, Debug)]
struct Chunk {
    session: u64,
    user: u64,
    generation: u64,
    index: u64,
    tag: u64,
    bytes: Vec<u8>,
}

/// The ring of a row.
#[derive(Default)]
struct Ring {
    chunks: VecDeque<Chunk>,
    farewell: Option<Notice>,
    /// The life and number of the chunk that was popped last.
    last: (u64, u64),
}

#[derive(Default)]
struct Tally {
    count: u64,
    session: u64,
    tag: u64,
    is_out: bool,
}

/// See the module's comment.
pub struct Model {
    rows: u32,
    depth: usize,
    policy: Policy,
    inbox: VecDeque<Sent>,
    lives: BTreeMap<u64, Life>,
    generations: u64,
    notices: VecDeque<Notice>,
    rings: Vec<Ring>,
    /// UNKNOWN, STALE.
    tallies: [Tally; 2],
    /// How often each rule was used, by name.
    pub used: BTreeMap<&'static str, u64>,
}

impl Model {
    pub fn new(rows: u32, depth: usize, policy: Policy) -> Model {
        Model {
            rows,
            depth,
            policy,
            inbox: VecDeque::new(),
            lives: BTreeMap::new(),
            generations: 0,
            notices: VecDeque::new(),
            rings: (0..rows).map(|_| Ring::default()).collect(),
            tallies: Default::default(),
            used: BTreeMap::new(),
        }
    }

    fn uses(&mut self, rule: &'static str) {
        *self.used.entry(rule).or_default() += 1;
    }

    /// The life that a message to `session` would mean.
    pub fn generation(&self, session: u64) -> Option<u64> {
        self.lives.get(&session).map(|life| life.generation)
    }

    pub fn send(&mut self, sent: Sent) {
        self.inbox.push_back(sent);
    }

    // ---- the loop's pop

    pub fn pop(&mut self) -> Option<Shown> {
        self.tend();
        let shown = self.next_message();
        self.flush();
        shown
    }

    fn next_message(&mut self) -> Option<Shown> {
        while let Some(sent) = self.inbox.pop_front() {
            if self.admit(&sent) {
                let life = &self.lives[&sent.session];
                let Sent { kind, flags, session, tag, values, .. } = sent;
                let (generation, user) = (life.generation, life.user);
                return Some(Shown { kind, flags, session, generation, user, tag, values });
            }
        }
        None
    }

    /// Rows whose DETACHED waits for no chunk are free; what was counted is told.
    pub fn tend(&mut self) {
        let rings = &self.rings;
        self.lives.retain(|_, life| life.told != Told::Detached || rings[life.row as usize].farewell.is_some());
        self.flush();
    }

    fn flush(&mut self) {
        for (tally, status) in self.tallies.iter_mut().zip([UNKNOWN, STALE]) {
            if tally.count > 0 && !tally.is_out {
                let said = said(RTE_REJECTED, tally.session, status.into(), 0);
                self.notices.push_back(Notice { said, user: 0, tag: tally.tag, row: 0, flags: 0, count: tally.count });
                (tally.count, tally.is_out) = (0, true);
            }
        }
    }

    fn admit(&mut self, sent: &Sent) -> bool {
        let known = self.lives.get(&sent.session).cloned();
        let life = known.clone().filter(|life| !matches!(life.left, Left::Gone { .. }));
        if sent.generation != 0 && life.as_ref().is_none_or(|life| life.generation != sent.generation) {
            self.uses("stale");
            return self.count(1, sent);
        }
        let is_draining = life.as_ref().is_some_and(|life| life.left == Left::Draining || life.told == Told::Detached);
        match (sent.kind, life) {
            (RTE_ATTACH, Some(life)) => {
                self.uses("already");
                self.notice(sent.session, &life, RTE_ATTACHED, 0, sent.tag).flags = RTE_ALREADY;
                false
            }
            (RTE_RESET, Some(life)) if is_draining => {
                self.uses("reset while draining");
                self.notice(sent.session, &life, RTE_REJECTED, STATE, sent.tag);
                false
            }
            (RTE_RESET, Some(life)) => {
                self.uses("reset");
                self.rings[life.row as usize].chunks.clear();
                self.notice(sent.session, &life, RTE_DETACHED, 0, sent.tag);
                self.begin(sent.session, life.row, life.user, life.paused);
                true
            }
            (RTE_ATTACH | RTE_RESET, None) => self.attach(sent, known),
            (RTE_DETACH, Some(life)) => self.detach(sent, life, is_draining),
            (RTE_DETACH, None) => false,
            (_, None) => {
                self.uses("unknown");
                self.count(0, sent)
            }
            (_, Some(_)) if is_draining => false,
            (kind, Some(_)) => {
                let life = self.lives.get_mut(&sent.session).unwrap();
                match kind {
                    RTE_ACTION => life.tag = sent.tag,
                    _ => life.paused = kind == RTE_PAUSE,
                }
                true
            }
        }
    }

    fn count(&mut self, kind: usize, sent: &Sent) -> bool {
        let tally = &mut self.tallies[kind];
        (tally.count, tally.session, tally.tag) = (tally.count + 1, sent.session, sent.tag);
        false
    }

    fn attach(&mut self, sent: &Sent, known: Option<Life>) -> bool {
        if let Some(life) = known {
            let Left::Gone { tag } = life.left else { unreachable!() };
            self.uses("attach ends a life that was left");
            self.rings[life.row as usize].chunks.clear();
            self.notice(sent.session, &life, RTE_DETACHED, 0, tag);
            self.lives.remove(&sent.session);
        }
        let free = (0..self.rows).find(|row| self.lives.values().all(|life| life.row != *row));
        let Some(row) = free else {
            self.uses("full");
            let said = said(RTE_REJECTED, sent.session, FULL.into(), 0);
            self.notices.push_back(Notice { said, user: sent.user, tag: sent.tag, row: 0, flags: 0, count: 0 });
            return false;
        };
        self.uses("attach");
        self.begin(sent.session, row, sent.user, false);
        true
    }

    fn begin(&mut self, session: u64, row: u32, user: u64, paused: bool) {
        self.generations += 1;
        let generation = self.generations;
        let (told, left) = (Told::Nothing, Left::No);
        let life = Life { row, user, generation, tag: 0, age: 0, newest: None, told, left, paused };
        self.lives.insert(session, life);
    }

    fn detach(&mut self, sent: &Sent, life: Life, is_draining: bool) -> bool {
        let drains = sent.flags & RTE_DRAIN != 0;
        if drains && is_draining {
            return false;
        }
        if drains {
            self.uses("drain");
            self.lives.get_mut(&sent.session).unwrap().left = Left::Draining;
            return true;
        }
        let ring = &mut self.rings[life.row as usize];
        ring.chunks.clear();
        if ring.farewell.take().is_some() {
            self.uses("detach calls a farewell back");
            self.notice(sent.session, &life, RTE_DETACHED, 0, sent.tag);
            self.lives.remove(&sent.session);
            return false;
        }
        self.uses("detach");
        self.lives.get_mut(&sent.session).unwrap().left = Left::Gone { tag: sent.tag };
        true
    }

    fn notice(&mut self, session: u64, life: &Life, kind: u32, status: i32, tag: u64) -> &mut Notice {
        let said = said(kind, session, status.into(), life.generation);
        self.notices.push_back(Notice { said, user: life.user, tag, row: life.row, flags: 0, count: 0 });
        self.notices.back_mut().unwrap()
    }

    // ---- the loop's push

    /// What `rte_outbox_push` returns.
    pub fn push(&mut self, output: &rte_output, bytes: &[u8]) -> i32 {
        self.flush();
        let (session, tag) = (output.session, output.tag);
        let Some(life) = self.lives.get(&session).cloned() else { return UNKNOWN };
        if life.told == Told::Detached {
            return UNKNOWN;
        }
        if output.generation != 0 && output.generation != life.generation {
            return STALE;
        }
        let is_in_order = match output.kind {
            RTE_CHUNK | RTE_ROW_FAILED => life.told == Told::Attached,
            RTE_ATTACHED | RTE_REJECTED => life.told == Told::Nothing,
            _ => true,
        };
        if !is_in_order {
            self.uses("out of order");
            return STATE;
        }
        match output.kind {
            RTE_CHUNK => return self.chunk(output, bytes, &life),
            RTE_ATTACHED => {
                self.notice(session, &life, RTE_ATTACHED, 0, tag);
                self.lives.get_mut(&session).unwrap().told = Told::Attached;
            }
            RTE_ROW_FAILED => {
                self.notice(session, &life, RTE_ROW_FAILED, output.status, tag);
                self.lives.get_mut(&session).unwrap().told = Told::Failed(output.status);
            }
            RTE_REJECTED => {
                self.notice(session, &life, RTE_REJECTED, output.status, tag);
                self.lives.remove(&session);
            }
            _ => self.farewell(session, &life, output.status, tag),
        }
        OK
    }

    fn farewell(&mut self, session: u64, life: &Life, status: i32, tag: u64) {
        let ring = &mut self.rings[life.row as usize];
        if matches!(life.left, Left::Gone { .. }) {
            ring.chunks.clear();
        }
        let is_empty = ring.chunks.is_empty();
        self.notice(session, life, RTE_DETACHED, status, tag);
        if is_empty {
            self.lives.remove(&session);
            return;
        }
        self.uses("farewell");
        self.rings[life.row as usize].farewell = self.notices.pop_back();
        self.lives.get_mut(&session).unwrap().told = Told::Detached;
    }

    fn chunk(&mut self, output: &rte_output, bytes: &[u8], life: &Life) -> i32 {
        if life.newest.is_some_and(|newest| output.index <= newest) {
            self.uses("index");
            return ARGUMENT;
        }
        let (policy, depth) = (self.policy, self.depth);
        let ring = &mut self.rings[life.row as usize];
        let is_gone = matches!(life.left, Left::Gone { .. });
        let is_full = ring.chunks.len() == depth;
        let chunk = Chunk {
            session: output.session,
            user: life.user,
            generation: life.generation,
            index: output.index,
            tag: output.tag,
            bytes: bytes.to_vec(),
        };
        match policy {
            _ if is_gone => {}
            Policy::Hold if is_full => {
                self.uses("hold");
                return AGAIN;
            }
            Policy::DropNewest if is_full => self.uses("drop"),
            _ => {
                if is_full {
                    ring.chunks.pop_front();
                }
                ring.chunks.push_back(chunk);
                self.uses(if is_full { "drop" } else { "chunk" });
            }
        }
        let life = self.lives.get_mut(&output.session).unwrap();
        (life.newest, life.age) = (Some(output.index), life.age + 1);
        OK
    }

    // ---- consumers

    /// Checks what a consumer has popped.
    pub fn check_output(&mut self, output: &rte_output, bytes: &[u8]) {
        if output.kind != RTE_CHUNK {
            let expected = self.notices.pop_front();
            let rte_output { user, tag, row, flags, dropped, .. } = *output;
            let seen = Notice { said: short(output), user, tag, row, flags, count: dropped };
            assert_eq!(Some(seen), expected);
            for (tally, status) in self.tallies.iter_mut().zip([UNKNOWN, STALE]) {
                tally.is_out &= output.kind != RTE_REJECTED || output.status != status;
            }
            return;
        }
        assert!(self.notices.is_empty(), "notices come first");
        let ring = &mut self.rings[output.row as usize];
        let rte_output { session, user, generation, index, tag, dropped, .. } = *output;
        let seen = Chunk { session, user, generation, index, tag, bytes: bytes.to_vec() };
        assert_eq!(Some(seen), ring.chunks.pop_front());
        let missing = if ring.last.0 == generation { index - ring.last.1 - 1 } else { index };
        assert_eq!(dropped, missing);
        ring.last = (generation, index);
        if ring.chunks.is_empty() {
            self.notices.extend(ring.farewell.take());
        }
    }

    /// Whether there is nothing to pop.
    pub fn is_empty(&self) -> bool {
        self.notices.is_empty() && self.rings.iter().all(|ring| ring.chunks.is_empty())
    }

    // ---- what is said of a session

    pub fn check_info(&self, session: u64, info: Option<rte_session_info>) {
        let life = self.lives.get(&session);
        // Until the loop's next turn a life whose DETACHED came out is there, but nobody is told of it.
        let life = life.filter(|life| life.told != Told::Detached || self.rings[life.row as usize].farewell.is_some());
        let Some((info, life)) = info.zip(life) else {
            assert!(info.is_none() && life.is_none(), "{} of {session}: {life:?}", info.is_some());
            return;
        };
        let (state, status) = match life.told {
            Told::Nothing => (RTE_PENDING, 0),
            Told::Attached | Told::Detached => (RTE_READY, 0),
            Told::Failed(status) => (RTE_QUARANTINED, status),
        };
        let seen = (info.state, info.status, info.row, info.user, info.generation, info.age, info.tag, info.paused);
        let expected =
            (state, status, life.row, life.user, life.generation, life.age, life.tag, u32::from(life.paused));
        assert_eq!(seen, expected);
        assert_eq!(info.queued, self.rings[life.row as usize].chunks.len() as u64);
    }

    /// How many sessions are attached.
    pub fn attached(&self) -> u32 {
        self.lives.len() as u32
    }
}
