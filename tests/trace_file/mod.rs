//! A trace file as a viewer reads it: parsed, held against the format, and asked.

#![allow(dead_code, reason = "each test program uses a part")]

use std::collections::BTreeMap;
use std::path::Path;

use rte::abi::info::rte_engine_info;
use serde_json::Value;

/// One event. Times in nanoseconds.
#[derive(Clone, Debug)]
pub struct Event {
    pub phase: String,
    pub process: u64,
    pub track: u64,
    pub at: u64,
    pub length: u64,
    pub name: String,
    pub id: String,
    pub args: Value,
}

impl Event {
    pub fn end(&self) -> u64 {
        self.at + self.length
    }

    /// A number of its arguments.
    pub fn number(&self, name: &str) -> u64 {
        self.args[name].as_u64().unwrap_or_else(|| panic!("{name} of {self:?}"))
    }

    /// Whether `other` lies in it.
    pub fn covers(&self, other: &Event) -> bool {
        self.at <= other.at && other.end() <= self.end()
    }
}

/// A stretch of a life: the life itself, or what it does in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Stretch {
    pub id: String,
    pub name: String,
    pub begin: u64,
    pub end: u64,
}

/// All of a trace, each event of it checked.
pub struct TraceFile {
    pub events: Vec<Event>,
    /// Track names.
    tracks: BTreeMap<String, u64>,
}

impl TraceFile {
    pub fn read(path: &Path) -> TraceFile {
        TraceFile::of(&std::fs::read_to_string(path).unwrap())
    }

    /// Panics where it is not as the format says.
    pub fn of(text: &str) -> TraceFile {
        let json: Value = serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}:\n{text}"));
        let events: Vec<Event> = json.as_array().expect("an array of events").iter().map(event).collect();
        assert_eq!(text.lines().count(), events.len() + 2, "an event a line");
        assert!(events.iter().all(|event| event.process == events[0].process));
        let named = events.iter().filter(|event| event.name == "thread_name");
        let tracks: BTreeMap<_, _> =
            named.map(|event| (event.args["name"].as_str().unwrap().to_string(), event.track)).collect();
        let file = TraceFile { events, tracks };
        file.check_tracks();
        file.stretches();
        file
    }

    fn check_tracks(&self) {
        for event in self.events.iter().filter(|event| event.phase != "M") {
            assert!(self.tracks.values().any(|track| *track == event.track), "a track without a name: {event:?}");
        }
        for track in self.tracks.values() {
            let mut slices: Vec<&Event> =
                self.events.iter().filter(|event| event.phase == "X" && event.track == *track).collect();
            slices.sort_by_key(|event| (event.at, event.length));
            // Nothing of these tracks stands inside another: none overlap.
            for pair in slices.windows(2) {
                assert!(pair[0].end() <= pair[1].at, "{:?} and {:?}", pair[0], pair[1]);
            }
        }
    }

    /// The slices of a track, by their begin.
    pub fn slices(&self, track: &str) -> Vec<&Event> {
        let Some(number) = self.tracks.get(track) else { return Vec::new() };
        let is_there = |event: &&Event| event.phase == "X" && event.track == *number;
        let mut slices: Vec<&Event> = self.events.iter().filter(is_there).collect();
        slices.sort_by_key(|event| (event.at, event.length));
        slices
    }

    /// The tracks.
    pub fn tracks(&self) -> Vec<&str> {
        self.tracks.keys().map(String::as_str).collect()
    }

    /// Events that are no slices, by name.
    pub fn instants(&self, name: &str) -> Vec<&Event> {
        let is_one = |event: &&Event| matches!(event.phase.as_str(), "i" | "n") && event.name == name;
        self.events.iter().filter(is_one).collect()
    }

    /// The last event.
    pub fn last(&self) -> &Event {
        self.events.last().unwrap()
    }

    /// Lives and what they do, of which each begin has its end, in the order of their ends.
    pub fn stretches(&self) -> Vec<Stretch> {
        let mut open: BTreeMap<&str, Vec<&Event>> = BTreeMap::new();
        let mut stretches = Vec::new();
        for event in &self.events {
            let stack = open.entry(&event.id).or_default();
            match event.phase.as_str() {
                "b" => {
                    assert!(stack.len() < 2 && stack.last().is_none_or(|outer| outer.at <= event.at), "{event:?}");
                    assert_eq!(stack.is_empty(), event.name.starts_with("session "), "{event:?}");
                    stack.push(event);
                }
                "e" => {
                    let begin = stack.pop().unwrap_or_else(|| panic!("an end without a begin: {event:?}"));
                    assert!(begin.name == event.name && begin.at <= event.at, "{begin:?} and {event:?}");
                    let (id, name) = (event.id.clone(), event.name.clone());
                    stretches.push(Stretch { id, name, begin: begin.at, end: event.at });
                }
                "n" => assert!(!stack.is_empty(), "outside a life: {event:?}"),
                _ => {}
            }
        }
        assert!(open.values().all(Vec::is_empty), "a begin without an end: {open:?}");
        stretches
    }

    /// Of stretches with this name.
    pub fn doing(&self, name: &str) -> Vec<Stretch> {
        self.stretches().into_iter().filter(|stretch| stretch.name == name).collect()
    }

    /// What it counts is what the engine has counted.
    pub fn agrees_with(&self, info: &rte_engine_info) {
        let sum = |events: &[&Event], name: &str| events.iter().map(|event| event.number(name)).sum::<u64>();
        let (ticks, last) = (self.slices("ticks"), self.last());
        let totals = [
            ("ticks", info.ticks),
            ("chunks", info.chunks),
            ("dropped", info.dropped),
            ("missed_deadlines", info.missed_deadlines),
            ("late_ticks", info.late_ticks),
            ("failed_ticks", info.failed_ticks),
            ("left_out", 0),
        ];
        for (name, count) in totals {
            assert_eq!(last.number(name), count, "{name}");
        }
        assert_eq!(ticks.len() as u64, info.ticks);
        assert!(ticks.iter().zip(0..).all(|(tick, number)| tick.number("tick") == number));
        assert_eq!(sum(&self.instants("missed"), "points"), info.missed_deadlines);
        assert_eq!(self.instants("call failed").len() as u64, info.failed_ticks);
        assert_eq!(ticks.iter().filter(|tick| tick.args["late"] == true).count() as u64, info.late_ticks);
        // The stop delivers what is in flight after the last tick, at most a chunk a session.
        let (chunks, most) = (sum(&ticks, "chunks"), u64::from(info.max_sessions));
        assert!(chunks <= info.chunks && info.chunks <= chunks + most, "{chunks} of {}", info.chunks);
        // A life that ended in the drain it began in, or at the stop, has no track of its own any more.
        assert!(sum(&self.instants("dropped"), "chunks") <= sum(&ticks, "dropped"));
        assert!(sum(&ticks, "dropped") <= info.dropped);
    }

    /// Of the batches of a lane none of which failed, this is what the lane's histogram says.
    pub fn lane_agrees_with(&self, info: &rte_engine_info, lane: u32) {
        let name = ["HOT", "DEFERRED", "ENCODE"][lane as usize];
        let is_of_lane = |event: &&Event| event.phase == "X" && event.name == name;
        let mut works: Vec<u64> = self.events.iter().filter(is_of_lane).map(|event| event.number("work_ns")).collect();
        works.sort_unstable();
        let lane = lane as usize;
        assert_eq!(works.last().copied().unwrap_or(0), info.lane_ns_max[lane], "{name}");
        for (percent, said) in [(50, info.lane_ns_p50[lane]), (99, info.lane_ns_p99[lane])] {
            let rank = (works.len() * percent).div_ceil(100).max(1);
            let exact = works.get(rank - 1).copied().unwrap_or(0);
            assert!(exact <= said && said <= exact + exact / 16, "{name}: {percent} %: {exact}, said {said}");
        }
    }
}

/// An event with all the fields that its phase asks for, and no strange ones.
fn event(json: &Value) -> Event {
    let object = json.as_object().unwrap_or_else(|| panic!("no event: {json}"));
    let text = |name: &str| object.get(name).and_then(Value::as_str).unwrap_or_else(|| panic!("{name} of {json}"));
    let number = |name: &str| object.get(name).and_then(Value::as_f64).unwrap_or_else(|| panic!("{name} of {json}"));
    let whole = |name: &str| object.get(name).and_then(Value::as_u64).unwrap_or_else(|| panic!("{name} of {json}"));
    let nanos = |name: &str| {
        let micros = number(name);
        assert!(micros >= 0.0, "{name} of {json}");
        (micros * 1000.0).round() as u64
    };
    let (phase, mut fields) = (text("ph"), vec!["ph", "pid", "tid", "ts", "name"]);
    fields.extend(match phase {
        "X" => &["dur", "cat"][..],
        "i" => &["s", "cat"],
        "C" | "M" => &[],
        "b" | "e" | "n" => &["cat", "id"],
        _ => panic!("an unknown phase: {json}"),
    });
    assert!(object.keys().all(|key| key == "args" || fields.contains(&key.as_str())), "a field too many: {json}");
    assert!(fields.iter().all(|name| object.contains_key(*name)), "a field is missing: {json}");
    match phase {
        "i" => assert!(matches!(text("s"), "g" | "p" | "t"), "{json}"),
        "C" => assert!(object["args"].as_object().unwrap().values().all(Value::is_number), "{json}"),
        "M" => {
            assert!(matches!(text("name"), "process_name" | "thread_name" | "thread_sort_index"), "{json}");
            assert!(object["args"].is_object(), "{json}");
        }
        _ => {}
    }
    Event {
        process: whole("pid"),
        phase: phase.to_string(),
        track: whole("tid"),
        at: nanos("ts"),
        length: if phase == "X" { nanos("dur") } else { 0 },
        name: text("name").to_string(),
        id: if fields.contains(&"id") { text("id").to_string() } else { String::new() },
        args: object.get("args").cloned().unwrap_or_default(),
    }
}
