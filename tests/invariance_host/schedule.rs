//! Random schedules: an engine, its model, and who sends what in which tick.
//!
//! A schedule is made so that a session alone can be compared with the same session among others. Whatever depends on
//! chance in the tests' machinery depends on a session's own messages, or on the number of the tick, never on who else
//! is there:
//!
//! - how long the consumer holds an output, in which ticks it takes nothing, who is due;
//! - when work is done. ENCODE is one stream, where a long encode would hold up a short one behind it. So all encodes
//!   that start in a tick end at one moment that was set beforehand, and no later tick's end before: see
//!   [`Setup::encode_end`]. HOT and DEFERRED are done so long after the begin of their tick, always.
//!
//! What cannot be compared is left out when the sessions run together: see `run::Room`.

use rte::abi::message::{RTE_ACTION, RTE_ATTACH, RTE_DETACH, RTE_DRAIN, RTE_PARTIAL, RTE_PAUSE, RTE_RESET, RTE_RESUME};
use rte::abi::model::{RTE_DEFERRED, RTE_HOT};

use super::digest::{digest, digest_of_bytes};
use super::keys::{self, BUTTONS, IMAGE, MOVE, PROMPT, SEED, STYLE, TEXT, WHEEL};
use crate::random::Random;

/// Room of a chunk.
pub const CHUNK_BYTES: usize = 64;

/// How long a tick is on the device.
pub const TICK: u64 = 8;

/// Names of sessions: any number is one.
const SESSIONS: [u64; 6] = [0, 1, 2, u64::MAX, 1 << 63, 0x9e37_79b9_7f4a_7c15];

/// Where the stages run, and how soon they are done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// On the calling thread.
    Inline,
    /// On streams; all is done when the next tick begins.
    Brisk,
    /// On streams; encodes take some ticks, and a pipelined HOT is still under way when the next tick begins.
    Slow,
}

/// An engine and its model.
#[derive(Clone, Debug)]
pub struct Setup {
    seed: u64,
    /// Rows of the arena.
    pub max_sessions: usize,
    /// `RTE_MODEL_DENSE`.
    pub is_dense: bool,
    /// `RTE_MODEL_OUTPUT_BLOCK`.
    pub is_block: bool,
    /// Whether DEFERRED ends the chunk, or HOT.
    pub has_deferred: bool,
    /// `RTE_PIPELINE_ON`, or off.
    pub is_pipelined: bool,
    /// The lanes.
    pub pace: Pace,
    /// The number of ENCODE's threads, where the stages run on threads and are seen in the time of streams; else 0.
    pub encode_threads: u32,
    /// How many chunks wait.
    pub outbox_depth: u32,
    /// How many outputs the consumer may hold.
    pub held_max: u32,
    /// What a slow consumer loses.
    pub drops_newest: bool,
    /// From the begin of a tick until its HOT is done, and its DEFERRED.
    pub latency: [u64; 2],
    chooses_due: bool,
    consumer_naps: bool,
    encode_ends: Vec<u64>,
}

/// Which life a message names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Life {
    /// Whichever is there.
    Any,
    /// The one that lived after the last tick.
    Current,
    /// One that never was.
    Wrong,
}

/// A value of a message.
#[derive(Clone, Debug)]
pub struct Value {
    /// Which key's.
    pub key: usize,
    /// Its bytes.
    pub bytes: Vec<u8>,
    /// The host's word for them; 0: none.
    pub revision: u64,
    /// `RTE_VALUE_BORROWED`.
    pub is_borrowed: bool,
}

/// A message.
#[derive(Clone, Debug)]
pub struct Message {
    /// `RTE_ATTACH` to `RTE_RESUME`.
    pub kind: u32,
    /// `RTE_DRAIN`, `RTE_PARTIAL`.
    pub flags: u32,
    /// To whom.
    pub session: u64,
    /// To which life.
    pub life: Life,
    /// Its number.
    pub tag: u64,
    /// What comes with it.
    pub values: Vec<Value>,
    /// A value has a wrong size: it cannot be pushed.
    pub is_ill_formed: bool,
}

/// See the module's comment.
pub struct Schedule {
    /// On what.
    pub setup: Setup,
    /// Who.
    pub sessions: Vec<u64>,
    /// Messages by tick.
    pub ticks: Vec<Vec<Message>>,
}

impl Setup {
    fn random(seed: u64, random: &mut Random) -> Self {
        let pace = random.pick(&[Pace::Inline, Pace::Brisk, Pace::Slow, Pace::Slow]);
        let is_pipelined = random.percent(60);
        let latency = if pace == Pace::Slow && is_pipelined {
            [random.between(TICK + 1, TICK + 4), random.between(4, TICK - 2)]
        } else {
            [random.between(0, 3), random.between(3, TICK - 2)]
        };
        let longest = if pace == Pace::Slow { random.between(1, 6) } else { 1 };
        let ends = std::iter::successors(Some(0), |end| Some(end + random.between(1, longest)));
        let encode_ends = ends.take_while(|end| *end < 60).collect();
        Self {
            seed,
            max_sessions: random.size(1, 6),
            is_dense: random.percent(40),
            is_block: false,
            has_deferred: random.percent(80),
            is_pipelined,
            pace,
            encode_threads: 0,
            outbox_depth: random.pick(&[1, 2, 4]),
            held_max: random.pick(&[1, 2]),
            drops_newest: random.percent(30),
            latency,
            chooses_due: random.percent(25),
            consumer_naps: random.percent(25),
            encode_ends,
        }
    }

    /// One row on streams, where an encode takes this many ticks from the first. The outbox keeps one chunk, and the consumer
    /// may hold one.
    pub fn one_row(encode_ticks: u64) -> Self {
        Self {
            seed: 0,
            max_sessions: 1,
            is_dense: false,
            is_block: false,
            has_deferred: true,
            is_pipelined: true,
            pace: Pace::Slow,
            encode_threads: 0,
            outbox_depth: 1,
            held_max: 1,
            drops_newest: false,
            latency: [0, 0],
            chooses_due: false,
            consumer_naps: false,
            encode_ends: vec![encode_ticks],
        }
    }

    /// When the work is done of a lane's stages that begin in this tick, if nothing is in their way.
    pub fn end(&self, lane: u32, tick: u64) -> u64 {
        match lane {
            RTE_HOT => tick * TICK + self.latency[0],
            RTE_DEFERRED => tick * TICK + self.latency[1],
            _ => self.encode_end(tick) * TICK,
        }
    }

    /// The tick at whose begin the encodes are done that start in this one. Never earlier for a later tick.
    fn encode_end(&self, tick: u64) -> u64 {
        let end = self.encode_ends[self.encode_ends.partition_point(|end| *end <= tick)..].first();
        end.copied().unwrap_or(tick + 1).max(tick + 1)
    }

    /// Who is due in a tick; `None`: everybody.
    pub fn due(&self, sessions: &[u64], tick: u64) -> Option<Vec<u64>> {
        let is_due = |session: &&u64| digest([self.seed, tick, **session]) % 100 < 70;
        self.chooses_due.then(|| sessions.iter().filter(is_due).copied().collect())
    }

    /// Whether the consumer takes nothing after a tick.
    pub fn consumer_sleeps(&self, tick: u64) -> bool {
        self.consumer_naps && digest([self.seed, tick]) % 100 < 35
    }

    /// For how many ticks the consumer holds a chunk of these bytes.
    pub fn holding_time(&self, bytes: &[u8]) -> u64 {
        (digest_of_bytes(bytes) % 8).saturating_sub(3)
    }
}

impl Schedule {
    /// The schedule of a seed.
    pub fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let setup = Setup::random(seed, &mut random);
        let first = random.size(0, SESSIONS.len() - 1);
        let count = random.size(2, SESSIONS.len());
        let sessions: Vec<u64> = SESSIONS.iter().cycle().skip(first).take(count).copied().collect();
        let mut writer = Writer { random, sessions, most: 0, slider: None, tag: 0 };
        writer.most = writer.random.between(1, 4);
        writer.slider = writer.random.percent(25).then(|| writer.session());
        let length = writer.random.between(28, 40);
        let ticks = (0..length).map(|tick| writer.tick(tick)).collect();
        Self { setup, sessions: writer.sessions, ticks }
    }

    /// The same on streams in any case.
    pub fn on_streams(mut self) -> Self {
        if self.setup.pace == Pace::Inline {
            self.setup.pace = Pace::Brisk;
        }
        self
    }

    /// The same for a model whose outputs are one block.
    pub fn with_block(mut self) -> Self {
        self.setup.is_block = true;
        self
    }

    /// The same on threads, so many of them for ENCODE, in the time of those streams.
    pub fn on_threads(self, encode_threads: u32) -> Self {
        let mut schedule = self.on_streams();
        schedule.setup.encode_threads = encode_threads;
        schedule
    }
}

struct Writer {
    random: Random,
    sessions: Vec<u64>,
    /// Messages of a tick.
    most: u64,
    /// A session whose prompt changes all the time.
    slider: Option<u64>,
    tag: u64,
}

impl Writer {
    fn session(&mut self) -> u64 {
        self.random.pick(&self.sessions)
    }

    fn tick(&mut self, tick: u64) -> Vec<Message> {
        let mut messages = Vec::new();
        if tick == 0 {
            messages = self.sessions.clone().into_iter().map(|session| self.attach(session)).collect();
        }
        if let (Some(session), true) = (self.slider, self.random.percent(80)) {
            let values = vec![self.value(PROMPT)];
            messages.push(self.message(session, RTE_ACTION, RTE_PARTIAL, values));
        }
        for _ in 0..self.random.between(0, self.most) {
            let message = self.any();
            if message.kind == RTE_DETACH && self.random.percent(60) {
                // Somebody comes in the same tick, perhaps the one who has left.
                let next = self.session();
                let next = self.attach(next);
                messages.extend([message, next]);
            } else {
                messages.push(message);
            }
        }
        messages
    }

    fn any(&mut self) -> Message {
        let session = self.session();
        let mut message = match self.random.between(0, 99) {
            0..22 => self.attach(session),
            22..32 => {
                let flags = if self.random.percent(50) { RTE_DRAIN } else { 0 };
                self.message(session, RTE_DETACH, flags, Vec::new())
            }
            32..41 => {
                let values = if self.random.percent(40) { Vec::new() } else { self.context() };
                self.message(session, RTE_RESET, 0, values)
            }
            41..85 => self.action(session),
            85..91 => self.message(session, RTE_PAUSE, 0, Vec::new()),
            _ => self.message(session, RTE_RESUME, 0, Vec::new()),
        };
        let may_name_current = matches!(message.kind, RTE_ACTION | RTE_PAUSE | RTE_RESUME);
        message.life = match self.random.between(0, 99) {
            0..3 if message.kind != RTE_ATTACH => Life::Wrong,
            3..20 if may_name_current => Life::Current,
            _ => Life::Any,
        };
        message
    }

    fn attach(&mut self, session: u64) -> Message {
        let values = self.context();
        self.message(session, RTE_ATTACH, 0, values)
    }

    fn action(&mut self, session: u64) -> Message {
        let keys = [(PROMPT, 30), (IMAGE, 12), (STYLE, 40), (TEXT, 35), (MOVE, 40), (WHEEL, 30), (BUTTONS, 40)];
        let values = self.values(&keys);
        let flags = if self.random.percent(40) { RTE_PARTIAL } else { 0 };
        let mut message = self.message(session, RTE_ACTION, flags, values);
        if self.random.percent(3) {
            message.values.retain(|value| value.key != STYLE);
            message.values.push(Value { key: STYLE, bytes: vec![1; 3], revision: 0, is_borrowed: false });
            message.is_ill_formed = true;
        }
        message
    }

    fn context(&mut self) -> Vec<Value> {
        self.values(&[(SEED, 80), (PROMPT, 60), (IMAGE, 40), (STYLE, 20), (TEXT, 30), (MOVE, 10), (BUTTONS, 10)])
    }

    fn values(&mut self, chances: &[(usize, u64)]) -> Vec<Value> {
        let keys: Vec<usize> =
            chances.iter().filter(|(_, chance)| self.random.percent(*chance)).map(|(key, _)| *key).collect();
        keys.into_iter().map(|key| self.value(key)).collect()
    }

    fn value(&mut self, key: usize) -> Value {
        let bytes = keys::random_bytes(&mut self.random, key);
        let revision = if self.random.percent(20) { digest_of_bytes(&bytes).max(1) } else { 0 };
        Value { key, bytes, revision, is_borrowed: self.random.percent(40) }
    }

    fn message(&mut self, session: u64, kind: u32, flags: u32, values: Vec<Value>) -> Message {
        self.tag += 1;
        Message { kind, flags, session, life: Life::Any, tag: self.tag, values, is_ill_formed: false }
    }
}
