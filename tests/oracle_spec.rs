//! The oracle itself is right: it reproduces the worked values, the traces of the reference and the hand-made outcomes of
//! the engine; every switch matters; and the generator reaches everything.

mod oracle;
mod random;

use std::collections::BTreeMap;

use oracle::coverage::Coverage;
use oracle::generate;
use oracle::outcome::{Notice, Reason, SessionState, TickResult, sort_by_session};
use oracle::schedule::{Hook, TickInput};
use oracle::spec::{Spec, Switch, Switches};
use oracle::trace::{self, Expected, Scenario};
use oracle::{codec, digest, python};
use serde_json::{Value, json};

/// What the reference recorded.
const REFERENCE: [&str; 3] = ["hand_v020.jsonl", "hand_v030.jsonl", "rand_state_v030.jsonl"];

/// What the engine must do.
const ENGINE: &str = "hand_rte.jsonl";

fn reference_scenarios() -> Vec<Scenario> {
    let files = REFERENCE.iter();
    files.flat_map(|file| trace::load(&trace::path(file))).collect()
}

fn run(scenario: &Scenario, switches: Switches) -> Vec<TickResult> {
    let header = &scenario.header;
    let mut spec = Spec::new(&header.config, header.version, switches);
    let ticks = scenario.ticks.iter();
    ticks.map(|tick| spec.tick(&tick.input)).collect()
}

fn ticks_of(scenarios: &[Scenario]) -> usize {
    scenarios.iter().map(|scenario| scenario.ticks.len()).sum()
}

/// Compares what a trace has with what the oracle gives, tick by tick.
fn assert_reproduced(scenarios: &[Scenario], switches: Switches, check: impl Fn(&TickResult, &Expected, &str)) {
    for scenario in scenarios {
        let results = run(scenario, switches);
        for (tick, result) in scenario.ticks.iter().zip(&results) {
            let place = format!("{} tick {}", scenario.header.name, tick.input.number);
            let expected = tick.expected.as_ref().expect("a recorded tick");
            check(result, expected, &place);
        }
    }
    println!("{} scenarios, {} ticks reproduced", scenarios.len(), ticks_of(scenarios));
}

/// What references and engine are both compared on.
fn assert_same_course(result: &TickResult, expected: &Expected, place: &str) {
    assert_eq!(result.outputs, expected.outputs, "{place}: outputs");
    assert_eq!(result.rejected, expected.rejected, "{place}: rejected");
    assert_eq!(result.errors, expected.errors, "{place}: errors");
    assert_eq!(result.state, sorted_by_row(expected), "{place}: state");
    assert_eq!(result.paused, expected.paused, "{place}: paused");
    assert_eq!(result.unknown, expected.unknown, "{place}: unknown");
}

fn sorted_by_row(expected: &Expected) -> Vec<SessionState> {
    let mut state = expected.state.clone();
    state.sort_by_key(|state| state.row);
    state
}

#[test]
fn worked_values_are_reproduced() {
    let text = std::fs::read_to_string(trace::path("vectors.json")).expect("vectors.json");
    let vectors: Value = serde_json::from_str(&text).expect("JSON");
    for (session, seed) in vectors["derived_seed"].as_object().expect("a dict") {
        assert_eq!(json!(digest::derived_seed(session)), *seed, "{session}");
    }
    for entry in vectors["contribution"].as_array().expect("a list") {
        let key = entry[0].as_str().expect("a key").to_owned();
        let sum = digest::collapse([(&key, &entry[1])]);
        assert_eq!(json!(sum), entry[2], "{entry}");
    }
    for entry in vectors["combined"].as_array().expect("a list") {
        let sum = digest::collapse(entry[0].as_object().expect("a dict"));
        assert_eq!(json!(sum), entry[1], "{entry}");
    }
    for entry in vectors["value"].as_array().expect("a list") {
        let number = |index: usize| entry[index].as_i64().expect("a number");
        let byte = |index: usize| u8::try_from(number(index)).expect("a byte");
        let value = digest::chunk_value(number(0), number(1), byte(2), byte(3));
        assert_eq!(value, byte(4), "{entry}");
    }
}

#[test]
fn numbers_follow_python() {
    for (text, expected) in [
        ("12", Some(12)),
        ("-0012", Some(-12)),
        ("+1_000", Some(1000)),
        ("\u{1c}\t7\u{a0}", Some(7)),
        ("\u{1c}7", None),
        ("1__0", None),
        ("_1", None),
        ("1_", None),
        ("- 1", None),
        ("+-1", None),
        ("", None),
        ("1.5", None),
        ("18446744073709551617", Some(1)),
    ] {
        assert_eq!(python::int(&json!(text)), expected, "{text:?}");
    }
    for (number, expected) in [
        (2.9, 2),
        (-2.9, -2),
        (0.5, 0),
        (-0.0, 0),
        (9007199254740992.0, 9007199254740992),
        (-9223372036854775808.0, i64::MIN),
        (18446744073709555712.0, 4096),
        (5e-324, 0),
    ] {
        assert_eq!(python::int(&json!(number)), Some(expected), "{number}");
    }
    for (value, expected) in [
        (json!([1, 1.0, true, null]), "[1, 1.0, True, None]"),
        (json!({"z": "it's", "y": "\"'\n"}), r#"{'z': "it's", 'y': '"\'\n'}"#),
        (json!([1e16, 1e-5, 1e-4, 1.5e300, 1e15]), "[1e+16, 1e-05, 0.0001, 1.5e+300, 1000000000000000.0]"),
    ] {
        assert_eq!(python::str(&value), expected);
    }
}

#[test]
fn identity_is_equality_in_python() {
    let mut interner = codec::Interner::default();
    let one = interner.encode("prompt", &json!(1));
    assert_eq!(interner.encode("prompt", &json!(1.0)), one);
    assert_eq!(interner.encode("prompt", &json!(true)), one);
    let text = interner.encode("prompt", &json!("1"));
    assert_eq!(text.contribution, one.contribution);
    assert_ne!(text.identity, one.identity);
    let zero = interner.identity(&json!(false));
    assert_eq!(interner.identity(&json!(-0.0)), zero);
    assert_ne!(interner.identity(&Value::Null), zero);
    // 2^53 + 1 is not the float next to it.
    let large = interner.identity(&json!(9007199254740993_i64));
    assert_ne!(interner.identity(&json!(9007199254740992.0)), large);
    let edge = interner.identity(&json!(9223372036854775808_u64));
    assert_eq!(interner.identity(&json!(9223372036854775808.0)), edge);
    assert_eq!(codec::Encoded::from_bytes(text.to_bytes()), text);
}

#[test]
fn all_off_is_the_reference() {
    let scenarios = reference_scenarios();
    assert_eq!(scenarios.len(), 238);
    assert_reproduced(&scenarios, Switches::NONE, |result, expected, place| {
        assert_same_course(result, expected, place);
        assert_eq!(result.calls_of(|_| true), expected.calls, "{place}: all calls");
        assert_eq!(result.stall, expected.stall, "{place}: stall");
        assert_eq!(result.dead, expected.dead, "{place}: dead");
        assert_eq!(result.in_flight, expected.in_flight, "{place}: in flight");
    });
}

#[test]
fn all_on_is_the_engine() {
    let scenarios = trace::load(&trace::path(ENGINE));
    assert_eq!(scenarios.len(), 30);
    assert_reproduced(&scenarios, Switches::ALL, |result, expected, place| {
        assert_same_course(result, expected, place);
        let is_other = |hook| matches!(hook, Hook::Detach | Hook::Finalize);
        let calls = result.calls_of(|hook| !is_other(hook));
        assert_eq!(calls, expected.calls, "{place}: calls");
        let others = result.calls_of(is_other);
        assert_eq!(others, expected.other_calls, "{place}: other calls");
        assert_eq!(result.notices_by_session(), sort_by_session(&expected.notices), "{place}: notices");
        assert_eq!(result.stale, expected.stale, "{place}: stale");
        assert_eq!(result.dead, None, "{place}: dead");
    });
}

/// Whether two courses of a tick differ in what the engine is compared on: not the calls of `detach`, and those of
/// `finalize` only where they are the point.
fn differs(a: &TickResult, b: &TickResult, switch: Switch) -> bool {
    let compared = |hook| match hook {
        Hook::Detach => false,
        Hook::Finalize => switch == Switch::Finalize,
        _ => true,
    };
    a.outputs != b.outputs
        || a.rejected != b.rejected
        || a.errors != b.errors
        || a.state != b.state
        || a.unknown != b.unknown
        || a.calls_of(compared) != b.calls_of(compared)
}

/// In how many scenarios and ticks turning off this switch alone changes the course.
fn effect(scenarios: &[Scenario], switch: Switch) -> (usize, usize) {
    let (mut changed_scenarios, mut changed_ticks) = (0, 0);
    for scenario in scenarios {
        let on = run(scenario, Switches::ALL);
        let off = run(scenario, Switches::ALL.without(switch));
        let pairs = on.iter().zip(&off);
        let ticks = pairs.filter(|(a, b)| differs(a, b, switch)).count();
        changed_scenarios += usize::from(ticks > 0);
        changed_ticks += ticks;
    }
    (changed_scenarios, changed_ticks)
}

#[test]
fn every_switch_matters() {
    let mut traces = reference_scenarios();
    traces.extend(trace::load(&trace::path(ENGINE)));
    let generated: Vec<Scenario> = (0..200).map(generate::schedule).collect();
    println!(
        "scenarios/ticks that change with one switch off: of {}/{} recorded, {}/{} generated",
        traces.len(),
        ticks_of(&traces),
        generated.len(),
        ticks_of(&generated)
    );
    for switch in Switch::ALL {
        let recorded = effect(&traces, switch);
        let random = effect(&generated, switch);
        println!("  {:16} {:4}/{:<6} {:4}/{:<6}", switch.name(), recorded.0, recorded.1, random.0, random.1);
        assert!(recorded.0 + random.0 > 0, "{} changes nothing", switch.name());
    }
}

#[test]
fn the_generator_reaches_everything() {
    let mut coverage = Coverage::default();
    let mut lengths: BTreeMap<usize, usize> = BTreeMap::new();
    for seed in 0..2000 {
        let scenario = generate::schedule(seed);
        *lengths.entry(scenario.ticks.len()).or_default() += 1;
        coverage.count(&scenario);
    }
    println!("{coverage}");
    let (shortest, longest) = (lengths.keys().next(), lengths.keys().last());
    assert!(shortest >= Some(&40) && longest <= Some(&60));
    assert_eq!(coverage.rarer_than(5), Vec::<&str>::new());
}

#[test]
fn a_seed_gives_one_schedule() {
    let text = generate::schedule(7).to_string();
    assert_eq!(text, generate::schedule(7).to_string());
    assert_ne!(text, generate::schedule(8).to_string());
}

#[test]
fn a_written_schedule_is_read_back() {
    for seed in 0..50 {
        let scenario = generate::schedule(seed);
        let read = trace::read(&scenario.to_string());
        assert_eq!(read.len(), 1);
        assert_eq!(read[0].header, scenario.header);
        assert_eq!(inputs(&read[0]), inputs(&scenario));
    }
}

fn inputs(scenario: &Scenario) -> Vec<&TickInput> {
    scenario.ticks.iter().map(|tick| &tick.input).collect()
}

/// Attaches a session; in the next drain it leaves with DRAIN and is sent a message. Gives what that second tick did.
fn while_leaving(message: &str) -> TickResult {
    let text = format!(
        r#"{{"scn":"leaving","ver":"rte","n":2,"cfg":{{}}}}
{{"t":0,"m":[["att","a",{{"seed":1,"prompt":"castle"}}]]}}
{{"t":1,"m":[["det","a",{{"drain":1}}],{message}]}}"#
    );
    let scenario = &trace::read(&text)[0];
    run(scenario, Switches::ALL).pop().expect("two ticks")
}

#[test]
fn a_leaving_session_heeds_only_a_detach_without_drain() {
    let already = Notice::Already("a".to_owned(), 1);
    let rejected = Notice::Rejected("a".to_owned(), 1, Reason::Draining);
    let detached = Notice::Detached("a".to_owned(), 1);
    for (message, answer) in [
        (r#"["att","a",{"seed":9}]"#, Some(already)),
        (r#"["rst","a",{"seed":9}]"#, Some(rejected)),
        (r#"["act","a",{"prompt":"sea"}]"#, None),
        (r#"["sav","a",false]"#, None),
        (r#"["det","a",{"drain":1}]"#, None),
    ] {
        let result = while_leaving(message);
        let mut notices: Vec<Notice> = answer.into_iter().collect();
        notices.push(detached.clone());
        assert_eq!(result.notices, notices, "{message}");
        assert_eq!(result.outputs, [("a".to_owned(), 106)], "{message}");
        assert!(result.state.is_empty(), "{message}");
    }
    let result = while_leaving(r#"["det","a"]"#);
    assert_eq!(result.notices, [detached]);
    assert_eq!(result.outputs, []);
}
