//! What the host makes of its pushes, of the calls of its callbacks and of its pops, by the words of rte.h alone.

use std::collections::{BTreeMap, VecDeque};

use rte::abi::info::{
    RTE_ENCODING, RTE_HELD, RTE_PENDING, RTE_QUARANTINED, RTE_READY, rte_engine_info, rte_session_info,
};
use rte::abi::message::{RTE_ACTION, RTE_ATTACH, RTE_DETACH, RTE_DRAIN, RTE_PAUSE, RTE_RESET};
use rte::abi::status::rte_status;

use super::expect_spread;
use super::ring::{Policy, Ring, Shape};
use super::witness::{Call, Part, Place};
use crate::host::engine::{AGAIN, OK};

/// What is fixed.
#[derive(Clone, Copy, Debug)]
pub struct Terms {
    pub rows: usize,
    pub is_pipelined: bool,
    pub has_deferred: bool,
    pub is_retry_safe: bool,
    pub seeds_aside: bool,
    pub is_no_midrun: bool,
    pub seed_attempts: u32,
    pub encode_attempts: u32,
    /// What a call came to is seen when it returns, not when it is known to be done: ENCODE of lanes that are no threads.
    pub sees_returns: bool,
    pub shape: Shape,
}

/// A message that was taken.
#[derive(Clone, Debug)]
pub struct Letter {
    pub kind: u32,
    pub flags: u32,
    pub session: u64,
    pub generation: u64,
    pub tag: u64,
    pub user: u64,
    /// Of the heavy key; empty: it becomes absent.
    pub heavy: Option<Vec<u8>>,
    pub pushed: u64,
}

#[derive(Clone, Default, Debug)]
struct Life {
    generation: u64,
    user: u64,
    row: usize,
    context: Vec<u8>,
    wanted: Vec<u8>,
    applied: Vec<u8>,
    wanted_tag: u64,
    heavy_tag: u64,
    tag: u64,
    /// When the newest of the ACTIONs that no step has seen was pushed.
    unseen: Option<u64>,
    is_seeded: bool,
    /// Its seed is under way beside the ticks.
    is_starting: bool,
    seed_tries: u32,
    is_paused: bool,
    is_draining: bool,
    has_said_farewell: bool,
    failed: Option<rte_status>,
    /// The tag and the value that are in ENCODE.
    encoding: Option<(u64, Vec<u8>)>,
    encode_tries: u32,
    is_held: bool,
    age: u64,
    encodes: u64,
    ticks_out: u64,
    dropped: u64,
}

struct Encode {
    call: Call,
    is_told: bool,
}

/// See the module's comment.
pub struct Books {
    terms: Terms,
    lives: BTreeMap<u64, Life>,
    rings: Vec<Ring>,
    /// By row: when the last ENCODE that touched it is done; whose life it was that has left it, until when.
    encoded_until: Vec<u64>,
    retiring: Vec<Option<(u64, u64)>>,
    letters: VecDeque<Letter>,
    encodes: Vec<Encode>,
    asides: Vec<Encode>,
    /// The lives of the flight that is not delivered yet, and the push of the ACTION that each is the first to see.
    flight: BTreeMap<u64, Option<u64>>,
    /// Whole failures in a row, of HOT and DEFERRED.
    failures: [u32; 2],
    generations: u64,
    live: usize,
    pub ticks: u64,
    pub chunks: u64,
    pub popped: u64,
    pub dropped: u64,
    pub refused: u64,
    pub coalesced: u64,
    pub failed: u64,
    pub quarantines: u64,
    pub holds: u64,
    inbox: Vec<u64>,
    action: Vec<u64>,
    tick: Vec<u64>,
}

/// A tick as the host saw it.
pub struct Turn<'a> {
    /// Of the lanes' time, when it began.
    pub lanes: u64,
    /// Of the engine's clock: when it began, when its chunks were collected, when it was over.
    pub begin: u64,
    pub collected: u64,
    pub end: u64,
    pub due: Option<&'a [u64]>,
    pub calls: &'a [Call],
}

impl Books {
    pub fn new(terms: Terms) -> Books {
        Books {
            terms,
            lives: BTreeMap::new(),
            rings: vec![Ring::default(); terms.rows],
            encoded_until: vec![0; terms.rows],
            retiring: vec![None; terms.rows],
            letters: VecDeque::new(),
            encodes: vec![],
            asides: vec![],
            flight: BTreeMap::new(),
            failures: [0; 2],
            generations: 0,
            live: 0,
            ticks: 0,
            chunks: 0,
            popped: 0,
            dropped: 0,
            refused: 0,
            coalesced: 0,
            failed: 0,
            quarantines: 0,
            holds: 0,
            inbox: vec![],
            action: vec![],
            tick: vec![],
        }
    }

    pub fn take(&mut self, letter: Letter) {
        self.letters.push_back(letter);
    }

    /// The living generation of a session; 0: none.
    pub fn generation(&self, session: u64) -> u64 {
        self.lives.get(&session).map_or(0, |life| life.generation)
    }

    // ---- consumers

    /// A chunk was popped; gives its row, and the buffers that it is in.
    pub fn pop(&mut self, session: u64, generation: u64) -> (usize, u64) {
        let life = self.lives.get(&session).expect("a chunk of a life that is over");
        assert_eq!(life.generation, generation);
        self.popped += 1;
        (life.row, self.rings[life.row].pop())
    }

    pub fn release(&mut self, (row, number): (usize, u64)) {
        self.rings[row].release(number);
    }

    // ---- the tick

    pub fn turn(&mut self, turn: &Turn) {
        let gone: Vec<u64> =
            self.lives.iter().filter(|(_, life)| self.has_parted(life)).map(|(session, _)| *session).collect();
        gone.into_iter().for_each(|session| self.leave(session, turn.lanes));
        for letter in std::mem::take(&mut self.letters) {
            self.inbox.push(turn.begin - letter.pushed);
            self.read(letter, turn.lanes);
        }
        self.resolve_asides(turn.lanes);
        self.resolve(turn.lanes);
        for row in 0..self.terms.rows {
            self.retire(row, turn.lanes);
        }
        let of = |place: Place| turn.calls.iter().filter(move |call| call.place == place);
        let at_once = [Place::Ready, Place::Detach, Place::Finalize];
        for place in at_once.into_iter().chain((!self.terms.seeds_aside).then_some(Place::Seed)) {
            self.failed += of(place).filter(|call| ![OK, AGAIN].contains(&call.status)).count() as u64;
        }
        of(Place::Seed)
            .for_each(|call| if self.terms.seeds_aside { self.start(call) } else { self.seed(call, turn.lanes) });
        of(Place::Encode).for_each(|call| self.encode(call));
        self.settle_values(turn);
        let hot: Vec<&Call> = of(Place::Hot).collect();
        let marks = self.board(&hot, turn);
        let deferred: Vec<&Call> = of(Place::Deferred).collect();
        let landed = self.fly(&hot, marks);
        let (last, marks) = if self.terms.has_deferred {
            let sound = self.judge(1, &deferred);
            let marks = if self.terms.is_pipelined { std::mem::replace(&mut self.flight, landed.1) } else { landed.1 };
            (sound.unwrap_or_default(), marks)
        } else {
            landed
        };
        for part in last.iter().filter(|part| part.size > 0) {
            self.deliver(part, marks.get(&part.generation).copied().flatten(), turn.collected);
        }
        self.say_farewells();
        self.ticks += 1;
        self.tick.push(turn.end - turn.begin);
    }

    fn is_retiring(&self, row: usize) -> bool {
        self.retiring[row].is_some()
    }

    fn is_taken(&self, row: usize) -> bool {
        self.lives.values().any(|life| life.row == row)
    }

    /// The work of the life before is over: who has claimed the row finds it free.
    fn retire(&mut self, row: usize, lanes: u64) {
        let Some((left, until)) = self.retiring[row] else { return };
        if until > lanes {
            return;
        }
        self.retiring[row] = None;
        if self.lives.iter().any(|(session, life)| life.row == row && *session != left) {
            self.rings[row].renew();
        }
    }

    fn read(&mut self, letter: Letter, lanes: u64) {
        let Letter { kind, session, tag, .. } = letter;
        if letter.generation != 0 && letter.generation != self.generation(session) {
            return;
        }
        let Some(life) = self.lives.get_mut(&session) else {
            if [RTE_ATTACH, RTE_RESET].contains(&kind) {
                self.attach(letter);
            }
            return;
        };
        match kind {
            RTE_ATTACH => {}
            RTE_RESET if life.is_draining => {}
            RTE_RESET => self.reset(letter, lanes),
            RTE_DETACH if letter.flags & RTE_DRAIN == 0 => {
                self.purge(session);
                self.leave(session, lanes);
            }
            RTE_DETACH if life.is_draining => {}
            RTE_DETACH => {
                let is_carried = self.flight.contains_key(&life.generation);
                if self.rings[life.row].queued > 0 || is_carried {
                    life.is_draining = true;
                } else {
                    self.leave(session, lanes);
                }
            }
            _ if life.is_draining => {}
            RTE_ACTION => {
                if let Some(heavy) = letter.heavy {
                    (life.wanted, life.wanted_tag) = (heavy, tag);
                }
                life.tag = tag;
                self.coalesced += u64::from(life.unseen.replace(letter.pushed).is_some());
            }
            kind => life.is_paused = kind == RTE_PAUSE,
        }
    }

    fn attach(&mut self, letter: Letter) {
        let is_closed = self.terms.is_no_midrun && self.lives.values().any(|life| life.is_seeded);
        if self.lives.len() == self.terms.rows || is_closed {
            return;
        }
        let mut rows = (0..self.terms.rows).filter(|row| !self.is_taken(*row));
        let row = rows.clone().find(|row| !self.is_retiring(*row)).or_else(|| rows.next()).expect("a row");
        if !self.is_retiring(row) {
            self.rings[row].renew();
        }
        self.begin(row, letter.session, letter.user, letter.tag, letter.heavy.unwrap_or_default());
    }

    fn reset(&mut self, letter: Letter, lanes: u64) {
        let old = self.lives[&letter.session].clone();
        let others = self.lives.iter().filter(|(session, life)| **session != letter.session && life.is_seeded).count();
        if self.terms.is_no_midrun && others > 0 {
            return;
        }
        self.purge(letter.session);
        self.leave(letter.session, lanes);
        self.begin(old.row, letter.session, old.user, letter.tag, letter.heavy.unwrap_or(old.context));
        self.lives.get_mut(&letter.session).expect("it has just begun").is_paused = old.is_paused;
    }

    fn begin(&mut self, row: usize, session: u64, user: u64, tag: u64, context: Vec<u8>) {
        self.generations += 1;
        let heavy_tag = if context.is_empty() { 0 } else { tag };
        let life = Life {
            generation: self.generations,
            user,
            row,
            wanted: context.clone(),
            context,
            wanted_tag: heavy_tag,
            heavy_tag,
            ..Life::default()
        };
        self.lives.insert(session, life);
    }

    fn purge(&mut self, session: u64) {
        let ring = &mut self.rings[self.lives[&session].row];
        self.dropped += ring.queued;
        ring.queued = 0;
    }

    fn leave(&mut self, session: u64, lanes: u64) {
        let Some(life) = self.lives.remove(&session) else { return };
        self.flight.remove(&life.generation);
        // What a seed beside the ticks came to is looked at in the next step of a tick.
        if !self.is_retiring(life.row) && (self.encoded_until[life.row] > lanes || life.is_starting) {
            self.retiring[life.row] = Some((session, self.encoded_until[life.row]));
        }
    }

    /// Of a life that drains: whether its RTE_DETACHED is out.
    fn has_parted(&self, life: &Life) -> bool {
        life.has_said_farewell && self.rings[life.row].queued == 0
    }

    fn say_farewells(&mut self) {
        for life in self.lives.values_mut() {
            life.has_said_farewell |= life.is_draining && !self.flight.contains_key(&life.generation);
        }
    }

    // ---- calls

    fn living(&mut self, part: &Part) -> Option<&mut Life> {
        self.lives.get_mut(&part.session).filter(|life| life.generation == part.generation)
    }

    fn quarantine(&mut self, part: &Part, status: rte_status) {
        if let Some(life) = self.living(part).filter(|life| life.is_seeded && life.failed.is_none()) {
            life.failed = Some(status);
            life.encoding = None;
            self.quarantines += 1;
        }
    }

    /// Encodes that are done: what they were given is applied.
    fn resolve(&mut self, lanes: u64) {
        let (done, running) =
            std::mem::take(&mut self.encodes).into_iter().partition(|encode| encode.call.done_at <= lanes);
        self.encodes = running;
        for Encode { call, is_told } in done {
            self.failed += u64::from(call.status != OK && !is_told);
            for part in &call.parts {
                let attempts = self.terms.encode_attempts;
                let Some(life) = self.living(part).filter(|life| life.encoding.is_some()) else { continue };
                let (tag, value) = life.encoding.take().expect("one that encodes");
                if call.status != OK {
                    life.encode_tries += 1;
                    if life.encode_tries >= attempts {
                        self.quarantine(part, call.status);
                    }
                } else if part.status != OK {
                    self.quarantine(part, part.status);
                } else {
                    (life.applied, life.heavy_tag, life.encode_tries) = (value, tag, 0);
                }
            }
        }
    }

    /// A seed on the ENCODE lane.
    fn start(&mut self, call: &Call) {
        for part in &call.parts {
            self.encoded_until[part.row] = call.done_at;
            self.living(part).expect("who is seeded is there").is_starting = true;
        }
        let is_told = self.terms.sees_returns;
        self.failed += u64::from(is_told && call.status != OK);
        self.asides.push(Encode { call: call.clone(), is_told });
    }

    fn resolve_asides(&mut self, lanes: u64) {
        let (done, running) =
            std::mem::take(&mut self.asides).into_iter().partition(|aside| aside.call.done_at <= lanes);
        self.asides = running;
        for Encode { call, is_told } in done {
            self.failed += u64::from(call.status != OK && !is_told);
            self.seed(&call, lanes);
        }
    }

    fn seed(&mut self, call: &Call, lanes: u64) {
        for part in &call.parts {
            let (attempts, is_aside) = (self.terms.seed_attempts, self.terms.seeds_aside);
            let Some(life) = self.living(part) else {
                assert!(is_aside, "who is seeded is there");
                continue;
            };
            assert!(!life.is_seeded);
            life.is_starting = false;
            life.seed_tries += u32::from(call.status != OK);
            if call.status == OK && part.status == OK {
                life.is_seeded = true;
                life.applied = life.context.clone();
            } else if call.status == OK || life.seed_tries >= attempts {
                self.leave(part.session, lanes);
            }
        }
    }

    fn encode(&mut self, call: &Call) {
        for part in &call.parts {
            self.encoded_until[part.row] = call.done_at;
            let life = self.living(part).expect("who encodes is there");
            life.encodes += 1;
            life.encoding = Some((life.wanted_tag, life.wanted.clone()));
        }
        let is_told = self.terms.sees_returns;
        self.failed += u64::from(is_told && call.status != OK);
        self.encodes.push(Encode { call: call.clone(), is_told });
    }

    fn steps(&self, session: u64, life: &Life, due: Option<&[u64]>) -> bool {
        life.is_seeded
            && life.failed.is_none()
            && !life.is_paused
            && !life.is_draining
            && due.is_none_or(|due| due.contains(&session))
    }

    /// Of those who step with the value that they want: the newest message that wanted it is that of the applied one.
    fn settle_values(&mut self, turn: &Turn) {
        let sessions: Vec<u64> =
            self.lives.iter().filter(|(id, life)| self.steps(**id, life, turn.due)).map(|(id, _)| *id).collect();
        for session in sessions {
            let life = self.lives.get_mut(&session).expect("it is there");
            if life.encoding.is_none() && life.wanted == life.applied {
                (life.heavy_tag, life.encode_tries) = (life.wanted_tag, 0);
            }
        }
    }

    /// Who steps, and who sits out. What each life is the first to see.
    fn board(&mut self, hot: &[&Call], turn: &Turn) -> BTreeMap<u64, Option<u64>> {
        let stepped: Vec<u64> = hot.iter().flat_map(|call| &call.parts).map(|part| part.session).collect();
        self.live = stepped.len();
        let can: Vec<u64> =
            self.lives.iter().filter(|(id, life)| self.steps(**id, life, turn.due)).map(|(id, _)| *id).collect();
        assert!(stepped.iter().all(|session| can.contains(session)), "somebody steps who cannot");
        let mut marks = BTreeMap::new();
        for (session, life) in &mut self.lives {
            let sits_out = can.contains(session) && !stepped.contains(session);
            life.ticks_out += u64::from(sits_out);
            life.is_held = sits_out && life.encoding.is_none();
            self.holds += u64::from(life.is_held);
            assert!(!life.is_held || self.terms.shape.policy == Policy::Hold, "{session} sits out for nothing");
            if stepped.contains(session) {
                marks.insert(life.generation, life.unseen.take());
            }
        }
        marks
    }

    /// What HOT came to: the parts that go on, and their marks.
    fn fly(&mut self, hot: &[&Call], marks: BTreeMap<u64, Option<u64>>) -> (Vec<Part>, BTreeMap<u64, Option<u64>>) {
        let sound = self.judge(0, hot);
        let is_lost = sound.is_none();
        for (generation, pushed) in &marks {
            let is_sound = sound.iter().flatten().any(|part| part.generation == *generation);
            let Some(life) = self.lives.values_mut().find(|life| life.generation == *generation) else { continue };
            let is_back = is_lost && self.terms.is_retry_safe;
            life.age += u64::from(is_sound || is_lost && !is_back);
            if is_back {
                life.unseen = life.unseen.or(*pushed);
            }
        }
        let sound = sound.unwrap_or_default();
        let marks = marks.into_iter().filter(|(generation, _)| sound.iter().any(|part| part.generation == *generation));
        let marks = marks.collect();
        (sound, marks)
    }

    /// The rows of a lane's calls that did not fail; none where all is lost.
    fn judge(&mut self, lane: usize, calls: &[&Call]) -> Option<Vec<Part>> {
        if calls.is_empty() {
            return Some(vec![]);
        }
        let is_isolated = self.failures[lane] >= 2;
        let failure = |call: &Call, part: &Part| if call.status == OK { part.status } else { call.status };
        let parts: Vec<(Part, rte_status)> =
            calls.iter().flat_map(|call| call.parts.iter().map(|part| (*part, failure(call, part)))).collect();
        let is_lost = if is_isolated { parts.iter().all(|(_, status)| *status != OK) } else { calls[0].status != OK };
        assert!(is_isolated || calls.len() == 1, "a batch is one call");
        self.failures[lane] = if is_lost && !is_isolated { self.failures[lane] + 1 } else { 0 };
        self.failed += u64::from(is_lost);
        if is_lost {
            return None;
        }
        parts.iter().filter(|(_, status)| *status != OK).for_each(|(part, status)| self.quarantine(part, *status));
        Some(parts.into_iter().filter(|(_, status)| *status == OK).map(|(part, _)| part).collect())
    }

    fn deliver(&mut self, part: &Part, pushed: Option<u64>, collected: u64) {
        let shape = self.terms.shape;
        let lost = self.rings[part.row].push(shape);
        assert!(lost == 0 || shape.policy != Policy::Hold, "HOLD loses nothing");
        self.chunks += 1;
        self.dropped += lost;
        self.action.extend(pushed.map(|pushed| collected - pushed));
        self.living(part).expect("who gives a chunk is there").dropped += lost;
    }

    // ---- the comparison

    pub fn compare(
        &mut self,
        info: &rte_engine_info,
        session_info: impl Fn(u64) -> Option<rte_session_info>,
        ids: &[u64],
    ) {
        let count = |of: &dyn Fn(&Life) -> bool| self.lives.values().filter(|life| of(life)).count() as u64;
        let retiring = self.retiring.iter().flatten().count() as u64;
        let expected = [
            ("ticks", info.ticks, self.ticks),
            ("chunks", info.chunks, self.chunks),
            ("dropped", info.dropped, self.dropped),
            ("refused", info.refused, self.refused),
            ("coalesced", info.coalesced, self.coalesced),
            ("failed_ticks", info.failed_ticks, self.failed),
            ("missed_deadlines", info.missed_deadlines, 0),
            ("late_ticks", info.late_ticks, 0),
            ("attached", info.attached.into(), self.lives.len() as u64),
            ("live", info.live.into(), self.live as u64),
            ("pending", info.pending.into(), count(&|life| !life.is_seeded)),
            ("encoding", info.encoding.into(), count(&|life| life.encoding.is_some())),
            ("paused", info.paused.into(), count(&|life| life.is_paused)),
            ("quarantined", info.quarantined.into(), count(&|life| life.failed.is_some())),
            ("retiring", info.retiring.into(), retiring),
            ("held", info.held.into(), count(&|life| life.is_held && life.failed.is_none())),
            ("max_sessions", info.max_sessions.into(), self.terms.rows as u64),
            ("pipeline_depth_chunks", info.pipeline_depth_chunks.into(), if self.terms.is_pipelined { 2 } else { 1 }),
            ("health", info.health as u64, 0),
        ];
        for (name, said, counted) in expected {
            assert_eq!(said, counted, "info.{name} is not what the host counted");
        }
        let queued: u64 = self.rings.iter().map(|ring| ring.queued).sum();
        assert_eq!(self.chunks, self.popped + self.dropped + queued, "each chunk is somewhere");
        for id in ids {
            match (session_info(*id), self.lives.get(id)) {
                (None, None) => {}
                // RTE_DETACHED is out, or goes out with the next pop: where chunks were lost that looks for them first.
                (None | Some(_), Some(life)) if self.has_parted(life) => {}
                (Some(info), Some(life)) => self.compare_session(*id, &info, life),
                (info, life) => {
                    let info = info.map(|info| (info.state, info.generation, info.age, info.queued));
                    panic!("session {id}: state, generation, age and queued are {info:?}; {life:?}")
                }
            }
        }
    }

    fn compare_session(&self, id: u64, info: &rte_session_info, life: &Life) {
        let state = match life {
            Life { is_seeded: false, .. } => RTE_PENDING,
            Life { failed: Some(_), .. } => RTE_QUARANTINED,
            Life { encoding: Some(_), .. } => RTE_ENCODING,
            Life { is_held: true, .. } => RTE_HELD,
            _ => RTE_READY,
        };
        let ring = &self.rings[life.row];
        let expected = [
            ("state", info.state.into(), state.into()),
            ("row", info.row.into(), life.row as u64),
            ("status", info.status as u64, life.failed.unwrap_or_default() as u64),
            ("paused", info.paused.into(), life.is_paused.into()),
            ("user", info.user, life.user),
            ("generation", info.generation, life.generation),
            ("age", info.age, life.age),
            ("tag", info.tag, life.tag),
            ("heavy_tag", info.heavy_tag, life.heavy_tag),
            ("queued", info.queued, ring.queued),
            ("held", info.held, ring.held),
            ("dropped", info.dropped, life.dropped),
            ("encodes", info.encodes, life.encodes),
            ("ticks_out", info.ticks_out, life.ticks_out),
        ];
        for (name, said, counted) in expected {
            assert_eq!(said, counted, "session {id}: {name} is not what the host counted: {life:?}");
        }
    }

    /// What the library says of all times, at the end.
    pub fn compare_times(&mut self, info: &rte_engine_info) {
        expect_spread(&mut self.inbox, [info.inbox_ns_p50, info.inbox_ns_p99, info.inbox_ns_max], "inbox_ns");
        expect_spread(&mut self.action, [info.action_ns_p50, info.action_ns_p99, info.action_ns_max], "action_ns");
        expect_spread(&mut self.tick, [info.tick_ns_p50, info.tick_ns_p99, info.tick_ns_max], "tick_ns");
        assert_eq!([info.late_ns_p50, info.late_ns_p99, info.late_ns_max], [0; 3], "the host ticks: there is no grid");
        for lane in 0..3 {
            let [p50, p99, max] = [info.lane_ns_p50[lane], info.lane_ns_p99[lane], info.lane_ns_max[lane]];
            assert!(p50 <= p99 && p99 <= max, "lane {lane}: {p50} {p99} {max}");
        }
    }
}
