//! Scenarios as JSON Lines: a header line, then one line for each tick. Reads the recorded traces, writes schedules.

use std::fmt;
use std::path::{Path, PathBuf};

use serde_json::{Map, Value, json};

use super::outcome::{Failure, Notice, Phase, Reason, SessionState};
use super::schedule::{Config, Fault, Gate, Hook, Message, Request, SessionName, TickInput, Values, Version};

/// What a scenario says about itself.
#[derive(Clone, Debug, PartialEq)]
pub struct Header {
    /// Its name.
    pub name: String,
    /// The program it describes.
    pub version: Version,
    /// How that is built.
    pub config: Config,
}

/// A header and its ticks.
#[derive(Clone, Debug)]
pub struct Scenario {
    /// The header line.
    pub header: Header,
    /// The tick lines.
    pub ticks: Vec<Tick>,
}

/// One tick of a scenario.
#[derive(Clone, Debug)]
pub struct Tick {
    /// What to replay.
    pub input: TickInput,
    /// What was recorded; generated schedules have none.
    pub expected: Option<Expected>,
}

/// What a trace says came out of a tick. Absent fields are empty.
#[derive(Clone, Debug, Default)]
pub struct Expected {
    /// `o`: chunks.
    pub outputs: Vec<(SessionName, u8)>,
    /// `x`: rejected attaches and resets.
    pub rejected: Vec<(SessionName, Reason)>,
    /// `c`: calls in their text form. For the references all of them, for the engine those of seed, gate and lanes.
    pub calls: Vec<String>,
    /// `xf`: calls of detach and finalize, for the engine.
    pub other_calls: Vec<String>,
    /// `e`: kinds of failures.
    pub errors: Vec<Failure>,
    /// `dead`: what killed the loop.
    pub dead: Option<Failure>,
    /// `w`: tick-lengths blocked.
    pub stall: i64,
    /// `s`: attached sessions.
    pub state: Vec<SessionState>,
    /// `q`: rows in flight.
    pub in_flight: Option<Vec<usize>>,
    /// `off`: paused sessions.
    pub paused: Vec<SessionName>,
    /// `n`: notices.
    pub notices: Vec<Notice>,
    /// `u`: messages to unknown sessions.
    pub unknown: u64,
    /// `st`: stale messages.
    pub stale: u64,
}

/// A file of the traces folder.
pub fn path(file: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/traces").join(file)
}

/// The scenarios of a file.
///
/// # Panics
///
/// If the file is not there or not a trace.
pub fn load(path: &Path) -> Vec<Scenario> {
    let text = std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
    read(&text)
}

/// The scenarios of a text. Ticks without an output have nothing recorded.
///
/// # Panics
///
/// If it is not a trace.
pub fn read(text: &str) -> Vec<Scenario> {
    let mut scenarios: Vec<Scenario> = Vec::new();
    for line in text.lines() {
        let line: Value = serde_json::from_str(line).expect("a JSON line");
        let line = line.as_object().expect("an object");
        if line.contains_key("scn") {
            scenarios.push(Scenario { header: read_header(line), ticks: Vec::new() });
        } else {
            let scenario = scenarios.last_mut().expect("a header first");
            scenario
                .ticks
                .push(Tick { input: read_input(line), expected: line.contains_key("o").then(|| read_expected(line)) });
        }
    }
    scenarios
}

fn read_header(line: &Map<String, Value>) -> Header {
    let version = text(&line["ver"]);
    let version = Version::NAMES.iter().find(|(_, name)| *name == version);
    Header {
        name: text(&line["scn"]),
        version: version.expect("a known version").0,
        config: read_config(line["cfg"].as_object().expect("a configuration")),
    }
}

fn read_config(entries: &Map<String, Value>) -> Config {
    let mut config = Config::default();
    for (key, value) in entries {
        match key.as_str() {
            "max" => config.max_sessions = count(value),
            "pipe" => config.pipelined = flag(value),
            "midrun" => config.midrun = flag(value),
            "gate" => config.gate = read_gate(value),
            "heavy" => config.heavy = items(value, text),
            "enc" => config.has_encode = flag(value),
            "ek" => config.encode_ticks = integer(value),
            "sync" => config.drain_blocks = text(value) == "complete",
            "safe" => config.retry_safe = flag(value),
            "attempts" => config.attempts = u32::try_from(count(value)).expect("small"),
            _ => panic!("unknown configuration key {key}"),
        }
    }
    config
}

fn read_gate(value: &Value) -> Option<Gate> {
    if value.is_null() {
        return None;
    }
    let needed = count(&value[1]);
    match value[0].as_str() {
        Some("pending") => Some(Gate::Pending(needed)),
        Some("first") => Some(Gate::First(needed)),
        _ => panic!("unknown gate {value}"),
    }
}

fn read_input(line: &Map<String, Value>) -> TickInput {
    TickInput {
        number: integer(&line["t"]),
        messages: list(line, "m", read_message),
        faults: list(line, "f", |fault| Fault::from_text(&text(fault)).expect("a fault")),
        encode_ticks: line.get("ek").map(integer),
        due: line.get("due").map(|due| items(due, text)),
    }
}

/// `[kind, session, payload?, options?]`.
fn read_message(value: &Value) -> Message {
    let kind = text(&value[0]);
    let payload = || value[2].as_object().cloned();
    let options = &value[if kind == "det" { 2 } else { 3 }];
    let option = |name: &str| options[name].as_u64().unwrap_or(0);
    let request = match kind.as_str() {
        "att" => Request::Attach(payload()),
        "det" => Request::Detach { drain: option("drain") != 0 },
        "rst" => Request::Reset(payload()),
        "act" => Request::Action { values: payload(), merge: option("merge") != 0 },
        "sav" => Request::SetActive(flag(&value[2])),
        _ => panic!("unknown message {value}"),
    };
    Message { session: text(&value[1]), request, generation: option("g") }
}

fn read_expected(line: &Map<String, Value>) -> Expected {
    let errors = line.get("e").map(text).unwrap_or_default();
    Expected {
        outputs: list(line, "o", |pair| {
            let value = u8::try_from(count(&pair[1])).expect("a byte");
            (text(&pair[0]), value)
        }),
        rejected: list(line, "x", |pair| (text(&pair[0]), reason(&pair[1]))),
        calls: list(line, "c", text),
        other_calls: list(line, "xf", text),
        errors: errors.split('+').filter(|name| !name.is_empty()).map(failure).collect(),
        dead: line.get("dead").map(|kind| failure(&text(kind))),
        stall: line.get("w").map_or(0, integer),
        state: line["s"].as_object().expect("a state").iter().map(|(name, state)| read_state(name, state)).collect(),
        in_flight: line.get("q").filter(|rows| !rows.is_null()).map(|rows| items(rows, count)),
        paused: list(line, "off", text),
        notices: list(line, "n", read_notice),
        unknown: line.get("u").map_or(0, |n| count(n) as u64),
        stale: line.get("st").map_or(0, |n| count(n) as u64),
    }
}

/// `[row, age, phase, applied]`.
fn read_state(name: &str, value: &Value) -> SessionState {
    let phase = text(&value[2]);
    let phase = Phase::NAMES.iter().find(|(_, known)| *known == phase);
    SessionState {
        session: name.to_owned(),
        row: count(&value[0]),
        age: integer(&value[1]),
        phase: phase.expect("a known phase").0,
        applied: value[3].as_object().expect("applied values").clone(),
    }
}

/// `[kind, session, generation, what?]`, or `["tick_failed", what]`.
fn read_notice(value: &Value) -> Notice {
    let kind = text(&value[0]);
    if kind == "tick_failed" {
        return Notice::TickFailed(hook(&value[1]));
    }
    let session = text(&value[1]);
    let generation = count(&value[2]) as u64;
    match kind.as_str() {
        "attached" => Notice::Attached(session, generation),
        "already" => Notice::Already(session, generation),
        "rejected" => Notice::Rejected(session, generation, reason(&value[3])),
        "detached" => Notice::Detached(session, generation),
        "row_failed" => Notice::RowFailed(session, generation, hook(&value[3])),
        _ => panic!("unknown notice {value}"),
    }
}

fn list<T>(line: &Map<String, Value>, key: &str, read: impl Fn(&Value) -> T) -> Vec<T> {
    line.get(key).map(|value| items(value, read)).unwrap_or_default()
}

fn items<T>(value: &Value, read: impl Fn(&Value) -> T) -> Vec<T> {
    value.as_array().expect("a list").iter().map(read).collect()
}

fn text(value: &Value) -> String {
    value.as_str().expect("a string").to_owned()
}

fn flag(value: &Value) -> bool {
    value.as_bool().expect("a flag")
}

fn integer(value: &Value) -> i64 {
    value.as_i64().expect("an integer")
}

fn count(value: &Value) -> usize {
    usize::try_from(integer(value)).expect("not negative")
}

fn reason(value: &Value) -> Reason {
    Reason::from_name(&text(value)).expect("a known reason")
}

fn hook(value: &Value) -> Hook {
    Hook::from_name(&text(value)).expect("a known hook")
}

fn failure(name: &str) -> Failure {
    Failure::from_name(name).expect("a known failure")
}

impl fmt::Display for Scenario {
    /// The scenario's inputs as JSON Lines, so that a failing schedule can be kept and looked at.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let version = Version::NAMES.iter().find(|(version, _)| *version == self.header.version);
        let header = json!({
            "scn": self.header.name,
            "ver": version.expect("a known version").1,
            "n": self.ticks.len(),
            "cfg": write_config(&self.header.config),
        });
        writeln!(f, "{header}")?;
        for tick in &self.ticks {
            writeln!(f, "{}", write_input(&tick.input))?;
        }
        Ok(())
    }
}

fn write_config(config: &Config) -> Value {
    let gate = match config.gate {
        None => Value::Null,
        Some(Gate::Pending(needed)) => json!(["pending", needed]),
        Some(Gate::First(needed)) => json!(["first", needed]),
    };
    json!({
        "max": config.max_sessions,
        "pipe": config.pipelined,
        "midrun": config.midrun,
        "gate": gate,
        "heavy": config.heavy,
        "enc": config.has_encode,
        "ek": config.encode_ticks,
        "sync": if config.drain_blocks { "complete" } else { "none" },
        "safe": config.retry_safe,
        "attempts": config.attempts,
    })
}

fn write_input(input: &TickInput) -> Value {
    let mut line = Map::new();
    line.insert("t".to_owned(), json!(input.number));
    if !input.messages.is_empty() {
        let messages: Vec<Value> = input.messages.iter().map(write_message).collect();
        line.insert("m".to_owned(), messages.into());
    }
    if !input.faults.is_empty() {
        let faults: Vec<String> = input.faults.iter().map(Fault::to_string).collect();
        line.insert("f".to_owned(), faults.into());
    }
    if let Some(ticks) = input.encode_ticks {
        line.insert("ek".to_owned(), json!(ticks));
    }
    if let Some(due) = &input.due {
        line.insert("due".to_owned(), json!(due));
    }
    line.into()
}

fn write_message(message: &Message) -> Value {
    let payload = |values: &Option<Values>| Some(values.clone().map_or(Value::Null, Value::Object));
    let (kind, payload, option) = match &message.request {
        Request::Attach(context) => ("att", payload(context), None),
        Request::Detach { drain } => ("det", None, drain.then_some("drain")),
        Request::Reset(context) => ("rst", payload(context), None),
        Request::Action { values, merge } => ("act", payload(values), merge.then_some("merge")),
        Request::SetActive(active) => ("sav", Some(json!(active)), None),
    };
    let mut options = Map::new();
    if message.generation != 0 {
        options.insert("g".to_owned(), json!(message.generation));
    }
    if let Some(option) = option {
        options.insert(option.to_owned(), json!(1));
    }
    let mut items = vec![json!(kind), json!(message.session)];
    items.extend(payload);
    if !options.is_empty() {
        items.push(options.into());
    }
    items.into()
}
