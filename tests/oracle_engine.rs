//! The engine does what the oracle says: driven through its exported functions, it gives the same chunks, notices, calls
//! and states in every tick of every schedule, on the recorded ones, the hand-made ones and random ones.
//!
//! On threads and CUDA lanes, too, whose answers come in the time of the tick: see [`host::timed`]. What a call came to is seen
//! there when its work is done, and the oracle says what that changes: see [`oracle::spec::Statuses`].
//!
//! `RTE_ORACLE_SCHEDULES=n` sets how many random schedules are run. `RTE_ORACLE_SEED=n` runs that one alone and prints
//! both sides of each tick.

mod host;
mod oracle;
mod oracle_host;
mod random;
mod support;

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use oracle::generate;
use oracle::outcome::TickResult;
use oracle::schedule::Hook;
use oracle::spec::{Spec, Statuses, Switch, Switches};
use oracle::trace::{self, Scenario};
use oracle_host::driver::{Driver, Lanes, Tally, is_refused, pushable};
use oracle_host::observed::Observed;
use rte::abi::status::{rte_status, rte_status_code};

/// What the references recorded.
const REFERENCE: [&str; 3] = ["hand_v020.jsonl", "hand_v030.jsonl", "rand_state_v030.jsonl"];

/// What the engine must do.
const ENGINE: &str = "hand_rte.jsonl";

/// Random schedules, if the environment says nothing else.
const SCHEDULES: u64 = 10_000;

/// Those on threads, which take longer.
const THREADS_SCHEDULES: u64 = 1_000;

/// Those on CUDA lanes.
const CUDA_SCHEDULES: u64 = 300;

/// Counts of what was compared.
#[derive(Default)]
struct Count {
    schedules: usize,
    ticks: usize,
    chunks: usize,
    lives: usize,
    seeded: usize,
}

impl Count {
    fn add(&mut self, seen: &[Observed], tally: Tally) {
        self.schedules += 1;
        self.ticks += seen.len();
        self.chunks += seen.iter().map(|tick| tick.outputs.len()).sum::<usize>();
        self.lives += tally.lives;
        self.seeded += tally.seeded;
    }

    fn print(&self, what: &str) {
        let Self { schedules, ticks, chunks, lives, seeded } = self;
        println!(
            "{what}: {schedules} schedules, {ticks} ticks, {chunks} chunks, {lives} lives ended, {seeded} of them seeded and \
             detached once: equal"
        );
    }
}

fn recorded(files: &[&str]) -> Vec<Scenario> {
    let scenarios = files.iter().flat_map(|file| trace::load(&trace::path(file)));
    scenarios.map(|scenario| pushable(&scenario)).collect()
}

fn generated(seed: u64) -> Scenario {
    pushable(&generate::schedule(seed))
}

fn oracle_of(scenario: &Scenario, switches: Switches, statuses: Statuses) -> Vec<TickResult> {
    let header = &scenario.header;
    let mut spec = Spec::new(&header.config, header.version, switches).seeing(statuses);
    scenario.ticks.iter().map(|tick| spec.tick(&tick.input)).collect()
}

/// A model with heavy keys and nothing that encodes them is not a model.
fn is_refused_model(scenario: &Scenario) -> bool {
    let config = &scenario.header.config;
    !config.has_encode && !config.heavy.is_empty()
}

/// Threads lanes of each kind, in turn.
fn threads(number: u64) -> Lanes {
    Lanes::Threads { encodes: 1 + (number % 3) as u32, hot_outlasts: number % 2 == 1 }
}

/// Runs a scenario on the engine and compares each tick with the oracle. Gives what the engine did.
fn compare(scenario: &Scenario, lanes: Lanes, count: &mut Count) -> Vec<Observed> {
    let mut driver = Driver::new(scenario, lanes).expect("an engine");
    let results = oracle_of(scenario, Switches::ALL, lanes.statuses());
    let expected: Vec<Observed> =
        results.iter().map(|result| lanes.comparable(Observed::expected(result, driver.names()))).collect();
    let place = |tick: usize| format!("{} on {lanes:?} lanes, tick {tick}", scenario.header.name);
    let check = |tick: usize, seen: &Observed, expected: &Observed| {
        let difference = || seen.difference(expected);
        assert!(seen == expected, "{}: engine and oracle differ:\n{}\n{scenario}", place(tick), difference());
    };
    let mut seen = Vec::new();
    for (at, (tick, expected)) in scenario.ticks.iter().zip(&expected).enumerate() {
        let observed = catch_unwind(AssertUnwindSafe(|| driver.tick(&tick.input))).unwrap_or_else(|panic| {
            println!("{}: the driver gives up\n{scenario}", place(at));
            resume_unwind(panic)
        });
        check(at, &observed, &expected.without_calls());
        seen.push(observed);
    }
    let tally = driver.finish(&mut seen);
    seen = seen.into_iter().map(|observed| lanes.comparable(observed)).collect();
    seen.iter().zip(&expected).enumerate().for_each(|(at, (seen, expected))| check(at, seen, expected));
    count.add(&seen, tally);
    seen
}

fn compare_on_threads(scenario: &Scenario, count: &mut Count) {
    for number in 0..6 {
        compare(scenario, threads(number), count);
    }
}

#[test]
fn the_engine_equals_the_oracle_on_the_recorded_schedules() {
    let (mut count, mut on_threads, mut refused) = (Count::default(), Count::default(), 0);
    for mut scenario in recorded(&REFERENCE) {
        if is_refused_model(&scenario) {
            let (status, message) = Driver::new(&scenario, Lanes::Device).err().expect("no engine for such a model");
            assert_eq!(status, rte_status_code::RTE_ERR_ARGUMENT as rte_status, "{message}");
            refused += 1;
            // The same schedule for a model that can encode.
            scenario.header.config.has_encode = true;
        }
        compare(&scenario, Lanes::Device, &mut count);
        compare_on_threads(&scenario, &mut on_threads);
    }
    count.print("recorded, on streams");
    on_threads.print("recorded, on threads");
    println!("{refused} of them with a model that is refused without an ENCODE stage, and was given one");
    assert_eq!((count.schedules, refused), (238, 5));
}

#[test]
fn the_engine_equals_the_hand_made_outcomes() {
    let (mut count, mut on_threads) = (Count::default(), Count::default());
    for scenario in recorded(&[ENGINE]) {
        compare_on_threads(&scenario, &mut on_threads);
        let seen = compare(&scenario, Lanes::Device, &mut count);
        for (tick, seen) in scenario.ticks.iter().zip(seen) {
            let place = format!("{} tick {}", scenario.header.name, tick.input.number);
            let expected = tick.expected.as_ref().expect("a recorded tick");
            assert_eq!(seen.outputs, expected.outputs, "{place}: outputs");
            assert_eq!(seen.calls, expected.calls, "{place}: calls");
            assert_eq!(seen.paused, expected.paused, "{place}: paused");
            assert_eq!((seen.unknown, seen.stale), (expected.unknown, expected.stale), "{place}: unknown, stale");
            let finalized = expected.other_calls.iter().filter(|call| call.starts_with(Hook::Finalize.letter()));
            assert!(seen.finalized.iter().eq(finalized), "{place}: finalize");
        }
    }
    count.print("hand-made, on streams");
    on_threads.print("hand-made, on threads");
    assert_eq!(count.schedules, 30);
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Whether encodes last as long as on inline lanes: each is done when the next tick begins.
fn encodes_like_inline(scenario: &Scenario) -> bool {
    let config = &scenario.header.config;
    let lasts_one = |ticks: Option<i64>| ticks.unwrap_or(config.encode_ticks) == 1;
    // Two encodes of one tick end one after the other on a stream.
    let is_alone = |result: &TickResult| result.calls_of(|hook| hook == Hook::Encode).len() <= 1;
    scenario.ticks.iter().all(|tick| lasts_one(tick.input.encode_ticks))
        && oracle_of(scenario, Switches::ALL, Statuses::AtReturn).iter().all(is_alone)
}

#[test]
fn the_engine_equals_the_oracle_on_random_schedules() {
    if let Some(seed) = number_of("RTE_ORACLE_SEED") {
        return show(seed, Lanes::Device);
    }
    let (mut device, mut inline) = (Count::default(), Count::default());
    for seed in 0..number_of("RTE_ORACLE_SCHEDULES").unwrap_or(SCHEDULES) {
        let scenario = generated(seed);
        compare(&scenario, Lanes::Device, &mut device);
        if seed % 4 == 0 && encodes_like_inline(&scenario) {
            compare(&scenario, Lanes::Inline, &mut inline);
        }
    }
    device.print("random, on streams");
    inline.print("random, on inline lanes");
    assert!(inline.schedules > 0);
}

#[test]
fn the_engine_equals_the_oracle_on_random_schedules_on_threads() {
    if let Some(seed) = number_of("RTE_ORACLE_SEED") {
        return show(seed, threads(seed));
    }
    let mut count = Count::default();
    for seed in 0..number_of("RTE_ORACLE_SCHEDULES").unwrap_or(THREADS_SCHEDULES) {
        compare(&generated(seed), threads(seed), &mut count);
    }
    count.print("random, on threads");
}

/// CUDA lanes of each kind, in turn.
fn cuda(number: u64) -> Lanes {
    Lanes::Cuda { encodes: 1 + (number % 3) as u32, hot_outlasts: number % 2 == 1 }
}

/// On the driver of the tests, which takes a random time for everything.
#[test]
fn the_engine_equals_the_oracle_on_cuda_lanes() {
    if !support::cuda::is_inside("the_engine_equals_the_oracle_on_cuda_lanes", &[("FAKE_CUDA_DELAY", "1:50")]) {
        return;
    }
    if let Some(seed) = number_of("RTE_ORACLE_SEED") {
        return show(seed, cuda(seed));
    }
    let mut count = Count::default();
    for (number, scenario) in recorded(&[ENGINE]).into_iter().enumerate() {
        compare(&scenario, cuda(number as u64), &mut count);
    }
    for seed in 0..number_of("RTE_ORACLE_SCHEDULES").unwrap_or(CUDA_SCHEDULES) {
        compare(&generated(seed), cuda(seed), &mut count);
    }
    count.print("hand-made and random, on CUDA lanes");
}

/// Prints a random schedule, both sides of each tick, and in the end what was called.
fn show(seed: u64, lanes: Lanes) {
    let scenario = generated(seed);
    println!("{lanes:?}: {scenario}");
    let mut driver = Driver::new(&scenario, lanes).expect("an engine");
    let mut seen = Vec::new();
    for (tick, result) in scenario.ticks.iter().zip(oracle_of(&scenario, Switches::ALL, lanes.statuses())) {
        println!("tick {}: oracle {:?}", tick.input.number, Observed::expected(&result, driver.names()));
        seen.push(driver.tick(&tick.input));
        println!("tick {}: engine {:?}", tick.input.number, seen.last());
    }
    println!("{:?}", driver.finish(&mut seen));
    for (tick, seen) in scenario.ticks.iter().zip(&seen) {
        println!("tick {}: calls {:?} {:?}, failed {:?}", tick.input.number, seen.calls, seen.finalized, seen.errors);
    }
    compare(&scenario, lanes, &mut Count::default());
}

/// Whether the engine differs from what the oracle gives without a rule. Calls of finalize are looked at only where
/// they are the point.
fn differs(engine: &Observed, oracle: &Observed, switch: Switch) -> bool {
    let comparable = |side: &Observed| {
        let mut side = side.clone();
        if switch != Switch::Finalize {
            side.finalized.clear();
        }
        // The reference has no notices.
        side.notices.clear();
        side.failed_calls.clear();
        side.stale = 0;
        side
    };
    comparable(engine) != comparable(oracle)
}

#[test]
fn without_any_one_rule_the_oracle_differs_from_the_engine() {
    let mut scenarios = recorded(&REFERENCE);
    scenarios.extend(recorded(&[ENGINE]));
    scenarios.retain(|scenario| !is_refused_model(scenario));
    let recorded = scenarios.len();
    scenarios.extend((0..300).map(generated));
    let mut effects: BTreeMap<&str, [usize; 2]> = BTreeMap::new();
    let mut ill_formed = 0;
    for (at, scenario) in scenarios.iter().enumerate() {
        let mut driver = Driver::new(scenario, Lanes::Device).expect("an engine");
        let mut engine: Vec<Observed> = scenario.ticks.iter().map(|tick| driver.tick(&tick.input)).collect();
        let messages = scenario.ticks.iter().flat_map(|tick| &tick.input.messages);
        ill_formed += messages.filter(|message| is_refused(message)).count();
        let oracles = Switch::ALL.map(|switch| {
            let oracle = oracle_of(scenario, Switches::ALL.without(switch), Statuses::AtReturn);
            oracle.iter().map(|result| Observed::expected(result, driver.names())).collect::<Vec<_>>()
        });
        driver.finish(&mut engine);
        for (switch, oracle) in Switch::ALL.into_iter().zip(oracles) {
            let differs = engine.iter().zip(&oracle).any(|(engine, oracle)| differs(engine, oracle, switch));
            effects.entry(switch.name()).or_default()[usize::from(at >= recorded)] += usize::from(differs);
        }
    }
    println!(
        "schedules on which the engine differs from the oracle with one rule off: of {recorded} recorded and hand-made, \
         of {} random; {ill_formed} messages were ill-formed",
        scenarios.len() - recorded
    );
    for switch in Switch::ALL {
        let [recorded, random] = effects[switch.name()];
        println!("  {:16} {recorded:4} {random:4}", switch.name());
        assert!(recorded + random > 0, "{} makes no difference", switch.name());
    }
}
