//! A trace as a file: the JSON of Chrome's trace viewer and of Perfetto.
//!
//! It is their array of events, one a line: of that both take one without an end, so what a process that died has left can
//! be opened. Ticks and each queue of work have a track; each life has one of its own (events `b`, `e` and `n`, whose id is
//! the generation), on which what it does instead of stepping stands inside the life.

use std::fmt::{Arguments, Display, Formatter};
use std::fs::File;
use std::io::{Error, Write};

use super::trace::{Doing, End, Fact, Kind, Worked};
use crate::word::{Fault, Generation, Nanos, Queue, Row, Session, hook};

/// Bytes that are written at once at least, but for the last of a look.
const ENOUGH: usize = 1 << 16;
/// Tracks.
const TICKS: u32 = 1;
const QUEUES: u32 = 2;
const SESSIONS: u32 = QUEUES + Queue::COUNT as u32;

/// What is in a trace, by name. Those of the host are text of any kind.
pub struct Names {
    /// The model's.
    pub model: Box<str>,
    /// The stages'.
    pub stages: Box<[Box<str>]>,
    /// Of the arena.
    pub rows: u32,
    /// There is a DEFERRED lane.
    pub has_deferred: bool,
    /// Queues of ENCODE.
    pub encodes: usize,
}

/// Writes facts down.
pub struct Scribe {
    sheet: Sheet,
    stages: Box<[Box<str>]>,
    /// By row, as far as it is written.
    lives: Box<[Option<Life>]>,
    /// As the counter says.
    stepped: Option<u32>,
    /// Facts that were left out, as far as that is written.
    left_out: u64,
}

/// A life in a row.
#[derive(Clone, Copy)]
struct Life {
    session: Session,
    generation: Generation,
    does: Doing,
}

/// The file and what is on its way there.
struct Sheet {
    file: File,
    /// Grows no more once it is warm.
    text: Vec<u8>,
    /// The latest time that was written.
    latest: Nanos,
    process: u32,
    /// Why nothing more is written.
    problem: Option<String>,
}

/// Nanoseconds as the microseconds that the format has.
struct Micros(Nanos);

impl Display for Micros {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}.{:03}", self.0 / 1000, self.0 % 1000)
    }
}

/// A host's text as JSON has it between quotes.
struct Escaped<'a>(&'a str);

impl Display for Escaped<'_> {
    fn fmt(&self, f: &mut Formatter<'_>) -> std::fmt::Result {
        self.0.chars().try_for_each(|letter| match letter {
            '"' | '\\' => write!(f, "\\{letter}"),
            letter if letter < ' ' => write!(f, "\\u{:04x}", u32::from(letter)),
            letter => write!(f, "{letter}"),
        })
    }
}

impl Sheet {
    /// One event. `rest`: its further fields, each with a comma before it.
    fn event(&mut self, phase: &str, track: u32, at: Nanos, name: impl Display, rest: Arguments<'_>) {
        self.latest = self.latest.max(at);
        let (comma, process, at) = (if self.text.ends_with(b"[\n") { "" } else { ",\n" }, self.process, Micros(at));
        // Into memory: that never fails.
        let _ = write!(
            self.text,
            "{comma}{{\"ph\":\"{phase}\",\"pid\":{process},\"tid\":{track},\"ts\":{at},\"name\":\"{name}\"{rest}}}"
        );
        if self.text.len() >= ENOUGH {
            self.flush();
        }
    }

    /// An event of a life's own track.
    fn of_life(&mut self, phase: &str, at: Nanos, Generation(id): Generation, name: impl Display, rest: Arguments<'_>) {
        self.event(phase, SESSIONS, at, name, format_args!(",\"cat\":\"session\",\"id\":\"{id:#x}\"{rest}"));
    }

    fn name_track(&mut self, track: u32, name: &str) {
        self.event("M", track, 0, "thread_name", format_args!(",\"args\":{{\"name\":\"{name}\"}}"));
        self.event("M", track, 0, "thread_sort_index", format_args!(",\"args\":{{\"sort_index\":{track}}}"));
    }

    fn flush(&mut self) {
        if self.problem.is_none() {
            self.problem = self.file.write_all(&self.text).err().map(|error| error.to_string());
        }
        self.text.clear();
    }
}

impl Scribe {
    /// Makes the file, or empties it, and writes what tracks there are.
    pub fn create(path: &str, names: Names) -> Result<Scribe, Error> {
        let mut sheet = Sheet {
            file: File::create(path)?,
            text: Vec::with_capacity(2 * ENOUGH),
            latest: 0,
            process: std::process::id(),
            problem: None,
        };
        sheet.text.extend_from_slice(b"[\n");
        let model = Escaped(&names.model);
        sheet.event("M", 0, 0, "process_name", format_args!(",\"args\":{{\"name\":\"rte {model}\"}}"));
        sheet.name_track(TICKS, "ticks");
        sheet.name_track(track_of(Queue::HOT), "HOT");
        if names.has_deferred {
            sheet.name_track(track_of(Queue::DEFERRED), "DEFERRED");
        }
        for number in 0..names.encodes {
            let name = if names.encodes > 1 { format!("ENCODE {}", number + 1) } else { "ENCODE".to_string() };
            sheet.name_track(track_of(Queue::encode(number)), &name);
        }
        sheet.name_track(SESSIONS, "sessions");
        sheet.file.write_all(&sheet.text)?;
        sheet.text.clear();
        let lives = vec![None; names.rows as usize].into();
        Ok(Scribe { sheet, stages: names.stages, lives, stepped: None, left_out: 0 })
    }

    /// Writes one down.
    pub fn write(&mut self, fact: &Fact) {
        match *fact {
            Fact::Tick { tick, begun, ended, stepped, is_late, chunks, dropped } => {
                let took = Micros(ended.saturating_sub(begun));
                let args =
                    format_args!("\"tick\":{tick},\"stepped\":{stepped},\"chunks\":{chunks},\"dropped\":{dropped}");
                let rest = format_args!(",\"dur\":{took},\"cat\":\"tick\",\"args\":{{{args},\"late\":{is_late}}}");
                self.sheet.event("X", TICKS, begun, "tick", rest);
                if self.stepped.replace(stepped) != Some(stepped) {
                    let rest = format_args!(",\"args\":{{\"sessions\":{stepped}}}");
                    self.sheet.event("C", TICKS, begun, "stepped", rest);
                }
            }
            Fact::Missed { at, points } => {
                let rest = format_args!(",\"s\":\"t\",\"cat\":\"deadline\",\"args\":{{\"points\":{points}}}");
                self.sheet.event("i", TICKS, at, "missed", rest);
            }
            Fact::Batch(batch) => self.batch(&batch),
            Fact::Row { at, row, session, generation, does } => {
                self.row(at, row, Some(Life { session, generation, does }));
            }
            Fact::Free { at, row } => self.row(at, row, None),
            Fact::Dropped { at, row, chunks } => {
                // Of a life whose begin found no place nothing is told.
                if let Some(Life { generation, .. }) = self.lives[row.at()] {
                    let args = format_args!(",\"args\":{{\"chunks\":{chunks}}}");
                    self.sheet.of_life("n", at, generation, "dropped", args);
                }
            }
            Fact::Failed { at, tick, fault, row, session } => self.failure(at, tick, fault, row, session),
        }
    }

    fn batch(&mut self, batch: &Worked) {
        let name = match (batch.is, batch.queue) {
            (Kind::Seed, _) => "seed",
            (Kind::Detach, _) => "detach",
            (Kind::Stages, Queue::HOT) => "HOT",
            (Kind::Stages, Queue::DEFERRED) => "DEFERRED",
            (Kind::Stages, _) => "ENCODE",
        };
        let Worked { rows, tick, begun, ended, work, session: Session(first), status, .. } = *batch;
        let took = Micros(ended.saturating_sub(begun));
        let args = format_args!("\"tick\":{tick},\"rows\":{rows},\"first_session\":\"{first}\",\"work_ns\":{work}");
        let rest = format_args!(",\"dur\":{took},\"cat\":\"lane\",\"args\":{{{args},\"status\":{status}}}");
        self.sheet.event("X", track_of(batch.queue), begun, name, rest);
    }

    fn failure(&mut self, at: Nanos, tick: u64, fault: Fault, Row(row): Row, session: Option<Session>) {
        let (stage, status) = (Escaped(stage_name(&self.stages, fault.stage)), fault.status);
        let args = format_args!("\"tick\":{tick},\"stage\":\"{stage}\",\"status\":{status},\"row\":{row}");
        let rest = format_args!(",\"s\":\"p\",\"cat\":\"failure\",\"args\":{{{args}");
        match session {
            None => self.sheet.event("i", TICKS, at, "call failed", format_args!("{rest}}}")),
            Some(Session(session)) => {
                self.sheet.event("i", TICKS, at, "row failed", format_args!("{rest},\"session\":\"{session}\"}}"));
            }
        }
    }

    /// From `at` on this life is in `row`, or none.
    fn row(&mut self, at: Nanos, row: Row, life: Option<Life>) {
        let before = std::mem::replace(&mut self.lives[row.at()], life);
        let is_same = |other: Option<Life>, one: Life| other.is_some_and(|other| other.generation == one.generation);
        let does =
            |other: Option<Life>, one: Life| is_same(other, one) && other.is_some_and(|other| other.does == one.does);
        if let Some(old) = before {
            if !does(life, old) {
                self.state("e", at, old);
            }
            if !is_same(life, old) {
                self.sheet.of_life(
                    "e",
                    at,
                    old.generation,
                    format_args!("session {}", old.session.0),
                    format_args!(""),
                );
            }
        }
        if let Some(new) = life {
            if !is_same(before, new) {
                let args = format_args!(",\"args\":{{\"session\":\"{}\",\"row\":{}}}", new.session.0, row.0);
                self.sheet.of_life("b", at, new.generation, format_args!("session {}", new.session.0), args);
            }
            if !does(before, new) {
                self.state("b", at, new);
            }
        }
    }

    fn state(&mut self, phase: &str, at: Nanos, life: Life) {
        let name = match life.does {
            Doing::Steps => return,
            Doing::Waits => "pending",
            Doing::Encodes => "encoding",
            Doing::IsQuarantined => "quarantined",
            Doing::IsHeld => "held",
            Doing::IsPaused => "paused",
        };
        self.sheet.of_life(phase, at, life.generation, name, format_args!(""));
    }

    /// So many facts were left out so far.
    pub fn lacks(&mut self, left_out: u64) {
        let more = left_out - std::mem::replace(&mut self.left_out, left_out);
        if more > 0 {
            let rest = format_args!(",\"s\":\"p\",\"cat\":\"trace\",\"args\":{{\"facts\":{more}}}");
            self.sheet.event("i", TICKS, self.sheet.latest, "left out", rest);
        }
    }

    /// All that was written is in the file.
    pub fn flush(&mut self) {
        self.sheet.flush();
    }

    /// The last event, and the end of the file. How many facts were left out, or what could not be written.
    pub fn end(mut self, end: Option<End>) -> Result<u64, String> {
        let at = end.map_or(self.sheet.latest, |end| end.at.max(self.sheet.latest));
        for row in (0..self.lives.len() as u32).map(Row) {
            self.row(at, row, None);
        }
        if let Some(fault) = end.and_then(|end| end.death) {
            let (stage, status) = (Escaped(stage_name(&self.stages, fault.stage)), fault.status);
            let args = format_args!("\"stage\":\"{stage}\",\"status\":{status}");
            let rest = format_args!(",\"s\":\"g\",\"cat\":\"failure\",\"args\":{{{args}}}");
            self.sheet.event("i", TICKS, at, "dead", rest);
        }
        self.totals(at, &end.unwrap_or_default());
        self.sheet.text.extend_from_slice(b"\n]\n");
        self.sheet.flush();
        self.sheet.problem.map_or(Ok(self.left_out), Err)
    }

    fn totals(&mut self, at: Nanos, end: &End) {
        let End { ticks, chunks, dropped, late_ticks, .. } = end;
        let (missed, failed, lacks) = (end.missed_deadlines, end.failed_ticks, self.left_out);
        let args =
            format_args!("\"ticks\":{ticks},\"chunks\":{chunks},\"dropped\":{dropped},\"late_ticks\":{late_ticks}");
        let more = format_args!("\"missed_deadlines\":{missed},\"failed_ticks\":{failed},\"left_out\":{lacks}");
        let rest = format_args!(",\"s\":\"p\",\"cat\":\"trace\",\"args\":{{{args},{more}}}");
        self.sheet.event("i", TICKS, at, "end", rest);
    }
}

fn stage_name(stages: &[Box<str>], stage: u32) -> &str {
    hook::name(stage).unwrap_or_else(|| stages.get(stage as usize).map_or("none", |name| name))
}

fn track_of(queue: Queue) -> u32 {
    QUEUES + queue.at() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_have_nanoseconds_and_texts_of_the_host_are_escaped() {
        assert_eq!(Micros(1_234_005).to_string(), "1234.005");
        assert_eq!(Escaped("a \"b\"\\\n\u{1}é").to_string(), "a \\\"b\\\"\\\\\\u000a\\u0001é");
    }
}
