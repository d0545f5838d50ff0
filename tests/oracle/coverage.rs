//! What generated schedules exercise: in how many of them each kind of input and each kind of outcome occurs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use serde_json::Value;

use super::generate::{GHOST, MAX_ATTEMPTS, MAX_ENCODE_TICKS, MAX_SESSIONS, ROW_HOOKS};
use super::outcome::{Notice, Reason, TickResult};
use super::schedule::{Config, Fault, FaultScope, Gate, Hook, Request, TickInput, Values, Version};
use super::spec::{Spec, Switches};
use super::trace::Scenario;

/// Everything that is counted and has a fixed name.
const FIXED: &[&str] = &[
    "message att",
    "message det",
    "message rst",
    "message rst, last context",
    "message act",
    "message act, empty",
    "message sav true",
    "message sav false",
    "option drain",
    "option merge",
    "generation current",
    "generation stale",
    "generation of a stranger",
    "key prompt",
    "key image",
    "key move",
    "key jump",
    "key text",
    "value int",
    "value float",
    "value bool",
    "value string",
    "due",
    "due empty",
    "due ghost",
    "due paused",
    "cfg pipe true",
    "cfg pipe false",
    "cfg midrun true",
    "cfg midrun false",
    "cfg gate none",
    "cfg gate pending",
    "cfg gate first",
    "cfg heavy 1",
    "cfg heavy 2",
    "cfg safe true",
    "cfg safe false",
    "outcome attached",
    "outcome already",
    "outcome detached",
    "outcome tick_failed",
    "outcome row_failed hot",
    "outcome row_failed def",
    "outcome row_failed enc",
    "outcome stale",
    "outcome unknown",
];

/// Counts over many schedules.
pub struct Coverage {
    schedules: usize,
    counts: BTreeMap<String, usize>,
}

impl Default for Coverage {
    fn default() -> Self {
        Self { schedules: 0, counts: all_features().into_iter().map(|name| (name, 0)).collect() }
    }
}

/// Every name that is counted.
fn all_features() -> Vec<String> {
    let mut names: Vec<String> = FIXED.iter().map(ToString::to_string).collect();
    names.extend((1..=MAX_SESSIONS).map(|n| format!("cfg max {n}")));
    names.extend((1..=MAX_ATTEMPTS).map(|n| format!("cfg attempts {n}")));
    names.extend((1..=MAX_ENCODE_TICKS).map(|n| format!("encode ticks {n}")));
    for (hook, name, _) in Hook::NAMES {
        names.push(format!("fault {name}"));
        names.push(format!("fault {name}@"));
        if ROW_HOOKS.contains(&hook) {
            names.push(format!("fault {name}#"));
        }
        names.push(format!("outcome {name} failed"));
    }
    names.extend(Reason::NAMES.map(|(_, name)| format!("outcome rejected {name}")));
    names
}

impl Coverage {
    /// Counts one schedule.
    ///
    /// # Panics
    ///
    /// If it has something that is not on the list.
    pub fn count(&mut self, scenario: &Scenario) {
        self.schedules += 1;
        for name in features_of(scenario) {
            let count = self.counts.get_mut(&name);
            *count.unwrap_or_else(|| panic!("{name} is not on the list")) += 1;
        }
    }

    /// The names that occur in at most this percentage of the schedules.
    pub fn rarer_than(&self, percent: usize) -> Vec<&str> {
        let limit = self.schedules * percent;
        let rare = self.counts.iter().filter(|(_, n)| **n * 100 <= limit);
        rare.map(|(name, _)| name.as_str()).collect()
    }
}

impl fmt::Display for Coverage {
    /// A table: name, schedules, percentage.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{} schedules, of which have", self.schedules)?;
        for (name, count) in &self.counts {
            let percent = count * 100 / self.schedules.max(1);
            writeln!(f, "  {name:28} {count:6} {percent:4}%")?;
        }
        Ok(())
    }
}

/// What occurs in one schedule.
fn features_of(scenario: &Scenario) -> BTreeSet<String> {
    let config = &scenario.header.config;
    let mut spec = Spec::new(config, Version::Rte, Switches::ALL);
    let mut found = BTreeSet::new();
    config_features(config, &mut found);
    let mut paused: Vec<String> = Vec::new();
    for tick in &scenario.ticks {
        let input = &tick.input;
        message_features(input, &spec, &mut found);
        found.extend(input.faults.iter().map(fault_feature));
        let encode_ticks = input.encode_ticks.unwrap_or(config.encode_ticks);
        found.insert(format!("encode ticks {encode_ticks}"));
        due_features(input, &paused, &mut found);
        let result = spec.tick(input);
        outcome_features(&result, &mut found);
        paused = result.paused;
    }
    found
}

fn config_features(config: &Config, found: &mut BTreeSet<String>) {
    let gate = match config.gate {
        None => "none",
        Some(Gate::Pending(_)) => "pending",
        Some(Gate::First(_)) => "first",
    };
    found.extend([
        format!("cfg max {}", config.max_sessions),
        format!("cfg attempts {}", config.attempts),
        format!("cfg pipe {}", config.pipelined),
        format!("cfg midrun {}", config.midrun),
        format!("cfg gate {gate}"),
        format!("cfg heavy {}", config.heavy.len()),
        format!("cfg safe {}", config.retry_safe),
    ]);
}

/// `spec` stands before the tick.
fn message_features(input: &TickInput, spec: &Spec, found: &mut BTreeSet<String>) {
    let mut drained = TickInput { number: input.number, faults: input.faults.clone(), ..TickInput::default() };
    for message in &input.messages {
        match &message.request {
            Request::Attach(_) => {
                found.insert("message att".to_owned());
            }
            Request::Detach { drain } => {
                found.insert("message det".to_owned());
                if *drain {
                    found.insert("option drain".to_owned());
                }
            }
            Request::Reset(context) => {
                let last = context.as_ref().is_some_and(Values::is_empty);
                let mark = if last { ", last context" } else { "" };
                found.insert(format!("message rst{mark}"));
            }
            Request::Action { values, merge } => {
                action_features(values.as_ref().expect("well-formed"), found);
                if *merge {
                    found.insert("option merge".to_owned());
                }
            }
            Request::SetActive(active) => {
                found.insert(format!("message sav {active}"));
            }
        }
        if message.generation != 0 {
            let kind = match spec.generation_after(&drained, &message.session) {
                None => "of a stranger",
                Some(living) if living == message.generation => "current",
                Some(_) => "stale",
            };
            found.insert(format!("generation {kind}"));
        }
        drained.messages.push(message.clone());
    }
}

fn action_features(values: &Values, found: &mut BTreeSet<String>) {
    let mark = if values.is_empty() { ", empty" } else { "" };
    found.insert(format!("message act{mark}"));
    for (key, value) in values {
        found.insert(format!("key {key}"));
        let kind = match value {
            Value::Bool(_) => "bool",
            Value::String(_) => "string",
            Value::Number(number) if number.is_f64() => "float",
            _ => "int",
        };
        found.insert(format!("value {kind}"));
    }
}

fn fault_feature(fault: &Fault) -> String {
    let mark = match fault.scope {
        FaultScope::AnyCall => "",
        FaultScope::CallWith(_) => "@",
        FaultScope::RowOf(_) => "#",
    };
    format!("fault {}{mark}", fault.hook.name())
}

fn due_features(input: &TickInput, paused: &[String], found: &mut BTreeSet<String>) {
    let Some(due) = &input.due else { return };
    found.insert("due".to_owned());
    if due.is_empty() {
        found.insert("due empty".to_owned());
    }
    if due.iter().any(|name| name == GHOST) {
        found.insert("due ghost".to_owned());
    }
    if due.iter().any(|name| paused.contains(name)) {
        found.insert("due paused".to_owned());
    }
}

fn outcome_features(result: &TickResult, found: &mut BTreeSet<String>) {
    for notice in &result.notices {
        let what = match notice {
            Notice::Rejected(_, _, reason) => format!(" {}", reason.name()),
            Notice::RowFailed(_, _, hook) => format!(" {}", hook.name()),
            _ => String::new(),
        };
        found.insert(format!("outcome {}{what}", notice.kind()));
    }
    for call in result.calls.iter().filter(|call| call.failed) {
        found.insert(format!("outcome {} failed", call.hook.name()));
    }
    if result.stale > 0 {
        found.insert("outcome stale".to_owned());
    }
    if result.unknown > 0 {
        found.insert("outcome unknown".to_owned());
    }
}
