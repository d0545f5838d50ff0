//! Answers in the order in which they were asked for.

use parking_lot::Mutex;

use super::{Reader, Writer};
use crate::message::{Envelope, Kind};
use crate::queue::ValueIn;
use crate::word::{Fault, Generation, Nanos, Row, Session, Status};

/// What a frame begins with.
const TICK: u8 = b'T';
const DUE: u8 = b'D';
const STOP: u8 = b'S';
pub(super) const END: u8 = b'E';
/// What answers begin with.
const NO: u8 = b'0';
const YES: u8 = b'1';
const FAILED: u8 = b'F';
const TIME: u8 = b't';
const MESSAGE: u8 = b'm';

/// What the engine was asked to do: one frame.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Call<'a> {
    /// A tick, or the rest of one.
    Tick(Option<&'a [u64]>),
    /// The stop, or the rest of it.
    Stop,
}

/// What a batch came to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Outcome {
    /// As a whole.
    pub result: Result<(), Fault>,
    /// Of single rows that failed.
    pub rows: Vec<(Row, Status)>,
}

/// A message of a record.
pub struct Delivery {
    /// Its fixed part.
    pub envelope: Envelope,
    /// Its values.
    pub values: Vec<Part>,
}

/// One of its values.
pub struct Part {
    /// Which key.
    pub key: u32,
    /// The host's word for what it says.
    pub revision: u64,
    /// It was lent, not copied.
    pub is_lent: bool,
    /// Its bytes.
    pub bytes: Box<[u8]>,
}

/// See the module's comment.
pub struct Tape(Mutex<Side>);

enum Side {
    Recording(Recorder),
    Playing(Player),
}

struct Recorder {
    /// `None` after an error: the record is cut off there.
    writer: Option<Writer>,
    frame: Vec<u8>,
    time: Nanos,
    is_rolling: bool,
    problem: Option<String>,
}

struct Player {
    record: Reader,
    frame: usize,
    /// In that frame.
    at: usize,
    time: Nanos,
    /// In a call. What is asked outside is not on record, and is as it really is.
    is_rolling: bool,
    problem: Option<String>,
}

impl Tape {
    /// Records to `writer`.
    pub fn record(writer: Writer) -> Tape {
        let writer = Some(writer);
        Tape(Mutex::new(Side::Recording(Recorder {
            writer,
            frame: Vec::with_capacity(1 << 12),
            time: 0,
            is_rolling: false,
            problem: None,
        })))
    }

    /// Plays `record`.
    pub fn play(record: Reader) -> Tape {
        Tape(Mutex::new(Side::Playing(Player { record, frame: 0, at: 0, time: 0, is_rolling: false, problem: None })))
    }

    /// Whether it plays: what lanes and consumers say is not asked then.
    pub fn plays(&self) -> bool {
        matches!(*self.0.lock(), Side::Playing(_))
    }

    /// What went wrong: it could not be written any further, or the engine asks for what is not there next.
    pub fn problem(&self) -> Option<String> {
        match &mut *self.0.lock() {
            Side::Recording(recorder) => recorder.problem.take(),
            Side::Playing(player) => player.problem.clone(),
        }
    }

    /// The run cannot go on.
    pub fn fail(&self, why: String) {
        if let Side::Playing(player) = &mut *self.0.lock() {
            player.problem.get_or_insert(why);
        }
    }

    // ---- frames

    /// A call begins: what is asked from now on belongs to it.
    pub fn begin(&self, call: Call<'_>) {
        match &mut *self.0.lock() {
            Side::Recording(recorder) => recorder.begin(call),
            // It was read by `next_call`.
            Side::Playing(player) => player.is_rolling = true,
        }
    }

    /// It is over.
    pub fn end(&self) {
        match &mut *self.0.lock() {
            Side::Recording(recorder) => recorder.end(),
            Side::Playing(player) => {
                player.is_rolling = false;
                player.end();
            }
        }
    }

    /// The last frame: how the engine ended.
    pub fn close(&self, death: Option<Fault>) {
        if let Side::Recording(recorder) = &mut *self.0.lock() {
            recorder.close(death);
        }
    }

    /// Playing: the next call and the sessions that are due in it, or how the engine ended.
    pub fn next_call(&self) -> Result<(bool, Option<Vec<u64>>), Option<Fault>> {
        let mut side = self.0.lock();
        let Side::Playing(player) = &mut *side else { return Err(None) };
        player.next_call()
    }

    /// Playing: what the engine died of then, if it did here: nothing more was asked in the call at hand, its last.
    pub fn death_here(&self) -> Option<Fault> {
        match &*self.0.lock() {
            Side::Playing(player) if player.is_rolling => player.death_here(),
            _ => None,
        }
    }

    /// Playing: the messages that the call at hand drains.
    pub fn deliveries(&self) -> Vec<Delivery> {
        match &mut *self.0.lock() {
            Side::Playing(player) => player.deliveries(),
            Side::Recording(_) => Vec::new(),
        }
    }

    // ---- answers

    /// A yes or no. Playing: that of the record, else `real`.
    pub fn bit(&self, real: bool) -> bool {
        match &mut *self.0.lock() {
            Side::Recording(recorder) => {
                recorder.put(&[if real { YES } else { NO }]);
                real
            }
            Side::Playing(player) if !player.is_rolling => real,
            Side::Playing(player) => {
                player.expect("a yes or no", |tag, _| (tag == YES || tag == NO).then_some(tag == YES))
            }
        }
    }

    /// A time.
    pub fn time(&self, real: impl FnOnce() -> Nanos) -> Nanos {
        match &mut *self.0.lock() {
            Side::Recording(recorder) => {
                let now = real();
                recorder.put_time(now);
                now
            }
            Side::Playing(player) if !player.is_rolling => real(),
            Side::Playing(player) => player.take_time(),
        }
    }

    /// What a batch came to, if that may be seen. Playing: whether it may be.
    pub fn outcome(&self, real: Option<Outcome>) -> bool {
        match &mut *self.0.lock() {
            Side::Recording(recorder) => {
                recorder.put_outcome(real.as_ref());
                real.is_some()
            }
            Side::Playing(player) if !player.is_rolling => real.is_some(),
            Side::Playing(player) => player.take_outcome(real),
        }
    }

    /// A message that was drained.
    pub fn message<'a>(&self, envelope: &Envelope, values: impl Iterator<Item = ValueIn<'a>>) {
        match &mut *self.0.lock() {
            Side::Recording(recorder) => recorder.put_message(envelope, values),
            Side::Playing(player) => player.skip_message(),
        }
    }
}

// ---- recording

impl Recorder {
    fn begin(&mut self, call: Call<'_>) {
        self.is_rolling = true;
        self.frame.clear();
        match call {
            Call::Tick(None) => self.frame.push(TICK),
            Call::Tick(Some(due)) => {
                self.frame.push(DUE);
                put_number(&mut self.frame, due.len() as u64);
                due.iter().for_each(|session| put_number(&mut self.frame, *session));
            }
            Call::Stop => self.frame.push(STOP),
        }
    }

    fn end(&mut self) {
        self.is_rolling = false;
        self.write();
    }

    fn close(&mut self, death: Option<Fault>) {
        self.frame.clear();
        self.frame.push(END);
        let (stage, status) = death.map_or((0, 0), |fault| (fault.stage, fault.status.0));
        put_number(&mut self.frame, u64::from(stage));
        put_number(&mut self.frame, u64::from(status as u32));
        self.write();
        if let Some(mut writer) = self.writer.take()
            && let Err(error) = writer.flush()
        {
            self.problem = Some(error.to_string());
        }
    }

    fn write(&mut self) {
        if let Some(writer) = &mut self.writer
            && let Err(error) = writer.frame(&self.frame)
        {
            self.problem = Some(error.to_string());
            self.writer = None;
        }
    }

    fn put(&mut self, bytes: &[u8]) {
        if self.is_rolling {
            self.frame.extend_from_slice(bytes);
        }
    }

    fn put_time(&mut self, now: Nanos) {
        if self.is_rolling {
            self.frame.push(TIME);
            put_number(&mut self.frame, now.wrapping_sub(self.time));
            self.time = now;
        }
    }

    fn put_outcome(&mut self, outcome: Option<&Outcome>) {
        let Some(outcome) = outcome else { return self.put(&[NO]) };
        if outcome.result.is_ok() && outcome.rows.is_empty() {
            return self.put(&[YES]);
        }
        if self.is_rolling {
            self.frame.push(FAILED);
            put_outcome(&mut self.frame, outcome);
        }
    }

    fn put_message<'a>(&mut self, envelope: &Envelope, values: impl Iterator<Item = ValueIn<'a>>) {
        if !self.is_rolling {
            return;
        }
        self.frame.push(MESSAGE);
        let start = self.frame.len();
        self.frame.extend_from_slice(&[0; 4]);
        for number in [
            kind_number(envelope.kind),
            envelope.session.0,
            envelope.generation.0,
            envelope.user,
            envelope.tag,
            envelope.pushed,
        ] {
            put_number(&mut self.frame, number);
        }
        for value in values {
            let (bytes, is_lent) = match &value.content {
                Ok(bytes) => (*bytes, 0),
                Err(lent) => (lent.bytes(), 1),
            };
            for number in [u64::from(value.key), value.revision, is_lent, bytes.len() as u64] {
                put_number(&mut self.frame, number);
            }
            self.frame.extend_from_slice(bytes);
        }
        let size = (self.frame.len() - start - 4) as u32;
        self.frame[start..start + 4].copy_from_slice(&size.to_le_bytes());
    }
}

fn put_outcome(frame: &mut Vec<u8>, outcome: &Outcome) {
    let (stage, status) = outcome.result.map_or_else(|fault| (fault.stage, fault.status.0), |()| (0, 0));
    put_number(frame, u64::from(stage));
    put_number(frame, u64::from(status as u32));
    put_number(frame, outcome.rows.len() as u64);
    for (row, status) in &outcome.rows {
        put_number(frame, u64::from(row.0));
        put_number(frame, u64::from(status.0 as u32));
    }
}

/// Seven bits a byte, the lowest first.
fn put_number(bytes: &mut Vec<u8>, mut number: u64) {
    while number >= 0x80 {
        bytes.push(number as u8 | 0x80);
        number >>= 7;
    }
    bytes.push(number as u8);
}

fn take_number(bytes: &[u8], at: &mut usize) -> Option<u64> {
    let (mut number, mut shift) = (0u64, 0);
    loop {
        let byte = *bytes.get(*at)?;
        *at += 1;
        number |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte < 0x80 {
            return Some(number);
        }
        shift += 7;
    }
}

// ---- playing

impl Player {
    fn body(&self) -> &[u8] {
        self.record.frame(self.frame)
    }

    fn next_call(&mut self) -> Result<(bool, Option<Vec<u64>>), Option<Fault>> {
        if self.problem.is_some() {
            return Err(None);
        }
        let body = self.record.frame(self.frame);
        let mut at = 1;
        let call = match body[0] {
            TICK => Ok((false, None)),
            DUE => {
                let mut number = || take_number(body, &mut at);
                let count = number().unwrap_or(0);
                Ok((false, Some((0..count).map_while(|_| number()).collect())))
            }
            STOP => Ok((true, None)),
            _ => Err(death_of(body)),
        };
        self.at = at;
        call
    }

    /// See [`Tape::death_here`].
    fn death_here(&self) -> Option<Fault> {
        let is_last = self.at >= self.body().len() && self.frame + 2 == self.record.len() && self.problem.is_none();
        if is_last { death_of(self.record.frame(self.frame + 1)) } else { None }
    }

    fn end(&mut self) {
        if self.at < self.body().len() && self.problem.is_none() {
            self.problem = Some(format!("call {}: the record goes on where the engine is done", self.frame));
        }
        self.frame += 1;
    }

    /// The next answer, if it is of the kind that is asked for. Else the run has left the record: any answer will do.
    fn expect<T: Default>(&mut self, what: &str, take: impl FnOnce(u8, &mut Player) -> Option<T>) -> T {
        let tag = self.body().get(self.at).copied();
        if tag.is_none() && self.death_here().is_some() {
            // Any answer will do: who asks looks next whether it is dead.
            return T::default();
        }
        self.at += 1;
        let taken = tag.filter(|_| self.problem.is_none()).and_then(|tag| take(tag, self));
        taken.unwrap_or_else(|| {
            let message = format!(
                "call {}: the engine asks for {what} where the record has {}: another model, or one that is not repeatable",
                self.frame,
                name_of(tag)
            );
            self.problem.get_or_insert(message);
            T::default()
        })
    }

    fn number(&mut self) -> Option<u64> {
        let mut at = self.at;
        let number = take_number(self.body(), &mut at);
        self.at = at;
        number
    }

    fn take_time(&mut self) -> Nanos {
        self.expect("a time", |tag, player| {
            (tag == TIME).then(|| player.number()).flatten().map(|ahead| {
                player.time = player.time.wrapping_add(ahead);
                player.time
            })
        })
    }

    fn take_outcome(&mut self, real: Option<Outcome>) -> bool {
        let frame = self.frame;
        let said = self.expect("what a batch came to", |tag, player| match tag {
            NO => Some(None),
            YES => Some(Some(Outcome { result: Ok(()), rows: Vec::new() })),
            FAILED => player.read_outcome().map(Some),
            _ => None,
        });
        if let (Some(said), Some(real)) = (&said, &real)
            && said != real
        {
            self.problem.get_or_insert(format!("call {frame}: a batch came to {real:?}; in the record to {said:?}"));
        }
        said.is_some()
    }

    fn read_outcome(&mut self) -> Option<Outcome> {
        let (stage, status, count) = (self.number()? as u32, self.number()? as u32 as i32, self.number()?);
        let rows = (0..count).map(|_| Some((Row(self.number()? as u32), Status(self.number()? as u32 as i32))));
        let rows = rows.collect::<Option<Vec<_>>>()?;
        let result = if status == 0 { Ok(()) } else { Err(Fault { stage, status: Status(status) }) };
        Some(Outcome { result, rows })
    }

    fn skip_message(&mut self) {
        self.expect("a message", |tag, player| {
            let size = player.body().get(player.at..player.at + 4).filter(|_| tag == MESSAGE)?;
            let size = u32::from_le_bytes(size.try_into().ok()?) as usize;
            player.at += 4 + size;
            Some(())
        });
    }

    /// All messages of the frame at hand, from where it is on.
    fn deliveries(&self) -> Vec<Delivery> {
        let (body, mut at, mut found) = (self.body(), self.at, Vec::new());
        while let Some(tag) = body.get(at).copied() {
            at += 1;
            let read = match tag {
                MESSAGE => read_message(body, &mut at).map(|message| found.push(message)),
                TIME => take_number(body, &mut at).map(|_| ()),
                FAILED => skip_outcome(body, &mut at),
                _ => Some(()),
            };
            if read.is_none() {
                break;
            }
        }
        found
    }
}

/// What the last frame says that the engine died of, if it did.
fn death_of(end: &[u8]) -> Option<Fault> {
    let mut at = 1;
    let (stage, status) = (take_number(end, &mut at)?, take_number(end, &mut at)?);
    (status != 0).then_some(Fault { stage: stage as u32, status: Status(status as u32 as i32) })
}

fn skip_outcome(body: &[u8], at: &mut usize) -> Option<()> {
    let mut number = || take_number(body, at);
    let (_, _, count) = (number()?, number()?, number()?);
    (0..2 * count).try_for_each(|_| number().map(|_| ()))
}

fn read_message(body: &[u8], at: &mut usize) -> Option<Delivery> {
    let size = u32::from_le_bytes(body.get(*at..*at + 4)?.try_into().ok()?) as usize;
    *at += 4;
    let end = at.checked_add(size).filter(|end| *end <= body.len())?;
    let mut number = || take_number(body, at);
    let [kind, session, generation, user, tag, pushed] =
        [number()?, number()?, number()?, number()?, number()?, number()?];
    let envelope = Envelope {
        kind: kind_of(kind)?,
        session: Session(session),
        generation: Generation(generation),
        user,
        tag,
        pushed,
    };
    let mut values = Vec::new();
    while *at < end {
        let mut number = || take_number(body, at);
        let (key, revision, is_lent, size) = (number()? as u32, number()?, number()?, number()? as usize);
        let bytes = body.get(*at..at.checked_add(size)?)?.into();
        *at += size;
        values.push(Part { key, revision, is_lent: is_lent != 0, bytes });
    }
    Some(Delivery { envelope, values })
}

fn name_of(tag: Option<u8>) -> &'static str {
    match tag {
        None => "nothing more",
        Some(NO | YES) => "a yes or no",
        Some(FAILED) => "a failure",
        Some(TIME) => "a time",
        Some(MESSAGE) => "a message",
        Some(_) => "something else",
    }
}

fn kind_number(kind: Kind) -> u64 {
    match kind {
        Kind::Attach => 1,
        Kind::Detach { drain: false } => 2,
        Kind::Detach { drain: true } => 3,
        Kind::Reset => 4,
        Kind::Action { partial: false } => 5,
        Kind::Action { partial: true } => 6,
        Kind::Pause => 7,
        Kind::Resume => 8,
    }
}

fn kind_of(number: u64) -> Option<Kind> {
    Some(match number {
        1 => Kind::Attach,
        2 => Kind::Detach { drain: false },
        3 => Kind::Detach { drain: true },
        4 => Kind::Reset,
        5 => Kind::Action { partial: false },
        6 => Kind::Action { partial: true },
        7 => Kind::Pause,
        8 => Kind::Resume,
        _ => return None,
    })
}
