//! The engine keeps every dependency between the lanes, whatever order they run in: on lanes that report status at once
//! and work later, in any order that FIFO and `Work::after` permit, nothing is ever touched too early; nor are outputs that
//! come out before they are complete, and that consumers use later on streams of their own. And each of those dependencies
//! is needed: taking it away is found.
//!
//! `RTE_SIMULATOR_SEEDS=n` sets how many random schedules are run; `RTE_SIMULATOR_SEED=n` runs that one alone.

mod random;
mod simulator;

use simulator::dependency::{Dependency, Expected};
use simulator::options::Options;
use simulator::schedule::run;
use simulator::tally::{Count, Tally};

/// Random schedules, if the environment says nothing else.
const SEEDS: u64 = 10_000;

/// Schedules within which a dependency that was taken away must be found, and for which one that is implied is not.
const LYING_SEEDS: u64 = 1_000;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

#[test]
fn no_permitted_order_of_work_touches_anything_too_early() {
    let seeds = match number("RTE_SIMULATOR_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RTE_SIMULATOR_SEEDS").unwrap_or(SEEDS),
    };
    let (mut tally, schedules) = (Tally::new(), seeds.end - seeds.start);
    for seed in seeds {
        let options = Options::of(seed);
        let outcome = run(&options, None);
        assert!(outcome.violations.is_empty(), "{options:?}: {:?}", outcome.violations);
        outcome.tally.into_iter().for_each(|(what, count)| *tally.entry(what).or_default() += count);
    }
    println!("{schedules} schedules: 0 violations; {tally:?}");
    let is_rare = |count: &Count| tally.get(count).is_none_or(|times| *times < SEEDS / 2);
    assert!(schedules < SEEDS || !Count::ALL.iter().any(is_rare), "each of these is to happen often");
}

/// Takes `dependency` away until that is found.
fn check(dependency: Dependency) {
    let removal = dependency.removal();
    for seed in 0..LYING_SEEDS {
        let violations = run(&removal.options(seed), Some(removal.lie)).violations;
        match removal.expected {
            Expected::Found(is_it) if violations.iter().any(|violation| is_it(*violation)) => {
                println!("{dependency:?}: found by schedule {seed}");
                return;
            }
            Expected::Found(_) => {}
            Expected::Implied => assert!(violations.is_empty(), "{dependency:?}: schedule {seed}: {violations:?}"),
        }
    }
    let is_implied = matches!(removal.expected, Expected::Implied);
    assert!(is_implied, "{dependency:?}: not found within {LYING_SEEDS} schedules");
}

macro_rules! tests {
    ($($dependency:ident => $test:ident,)*) => {
        $(#[test] fn $test() { check(Dependency::$dependency) })*
    };
}

for_each_dependency!(tests);
