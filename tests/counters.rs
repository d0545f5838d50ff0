//! What the engine counts is what its host counts: each field of both infos after each tick of random runs, on each kind of
//! lanes, with sessions that come, go, drain, fail and change, consumers that are slow, and floods that are refused.

mod counters_host;
mod host;
mod random;

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};

use counters_host::run::{Total, run};
use rte::abi::options::{RTE_LANES_HOST, RTE_LANES_INLINE, RTE_LANES_THREADS};

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

/// `RTE_COUNTER_SEED=n` runs one alone; `RTE_COUNTER_RUNS` says how many there are.
fn check(lanes: u32, runs: u64) {
    let seeds = match number("RTE_COUNTER_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RTE_COUNTER_RUNS").unwrap_or(runs),
    };
    let mut total = Total::default();
    for seed in seeds.clone() {
        if let Err(panic) = catch_unwind(AssertUnwindSafe(|| run(seed, lanes, &mut total))) {
            eprintln!("RTE_COUNTER_SEED={seed}, lanes {lanes}");
            resume_unwind(panic);
        }
    }
    println!("lanes {lanes}: {} runs: {total:?}", seeds.count());
    let Total { ticks, chunks, dropped, refused, coalesced, failed, quarantines, holds } = total;
    let all = [ticks, chunks, dropped, refused, coalesced, failed, quarantines, holds];
    assert!(all.iter().all(|count| *count > 0), "a counter that is never counted is not compared");
}

#[test]
fn on_inline_lanes() {
    check(RTE_LANES_INLINE, 400);
}

#[test]
fn on_a_hosts_lanes() {
    check(RTE_LANES_HOST, 400);
}

#[test]
fn on_threads_lanes() {
    check(RTE_LANES_THREADS, 100);
}
