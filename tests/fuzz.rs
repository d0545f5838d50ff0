//! The hosts of `fuzz/`, which do what bytes say, without a fuzzer: the checked-in inputs, and many made of them at random.
//! `make fuzz` runs the same under one.
//!
//! `RTE_FUZZ_INPUTS=n` runs so many instead, `RTE_FUZZ_SEED=n` one alone; each input's number is its seed.

mod backend;
mod driver;
mod random;

/// What they need of `churn`, and of `host`.
#[allow(dead_code)]
mod churn_host {
    pub mod fickle;
    pub mod ledger;
}
#[allow(dead_code)]
mod host {
    pub mod batch;
}
#[path = "../fuzz/src/bytes.rs"]
mod bytes;
#[path = "../fuzz/src/descriptors.rs"]
mod descriptors;
#[path = "../fuzz/src/messages.rs"]
mod messages;

use std::path::Path;

use random::{Random, mix};

/// Inputs that are not in the folder.
const INPUTS: u64 = 20_000;
/// No input is longer.
const LONGEST: usize = 1500;

fn below(random: &mut Random, bound: usize) -> usize {
    random.size(0, bound.max(1) - 1)
}

fn bytes_of(random: &mut Random, most: usize) -> Vec<u8> {
    (0..below(random, most)).map(|_| random.next() as u8).collect()
}

fn checked_in(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("fuzz/seeds").join(target);
    let mut paths: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    paths.sort();
    paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
}

/// One of `seeds` with a few changes, two of them put together, or something new.
fn mutated(seeds: &[Vec<u8>], number: u64) -> Vec<u8> {
    let random = &mut Random::new(mix(number));
    let mut input = match below(random, 4) {
        0 => bytes_of(random, 400),
        1 => {
            let [one, other] = [(); 2].map(|()| &seeds[below(random, seeds.len())]);
            let (end, begin) = (below(random, one.len()), below(random, other.len()));
            [&one[..end], &other[begin..]].concat()
        }
        _ => seeds[below(random, seeds.len())].clone(),
    };
    for _ in 0..below(random, 12) {
        let at = below(random, input.len() + 1);
        match below(random, 4) {
            0 => input.insert(at, random.next() as u8),
            1 => input.truncate(at.max(input.len() / 2)),
            2 => {
                let more = bytes_of(random, 24);
                input.splice(at..at, more);
            }
            _ => {
                if let Some(byte) = input.get_mut(at) {
                    *byte ^= 1 << below(random, 8);
                }
            }
        }
    }
    input.truncate(LONGEST);
    input
}

fn number_in(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().expect("a number"))
}

fn check(target: &str, run: fn(&[u8])) {
    let seeds = checked_in(target);
    assert!(seeds.len() > 3);
    seeds.iter().for_each(|seed| run(seed));
    let numbers = match number_in("RTE_FUZZ_SEED") {
        Some(number) => number..number + 1,
        None => 0..number_in("RTE_FUZZ_INPUTS").unwrap_or(INPUTS),
    };
    for number in numbers {
        let input = mutated(&seeds, number);
        if let Err(panic) = std::panic::catch_unwind(|| run(&input)) {
            eprintln!("{target}: RTE_FUZZ_SEED={number}: {input:?}");
            std::panic::resume_unwind(panic);
        }
    }
}

#[test]
fn descriptors_of_any_content_are_refused_or_work() {
    check("descriptors", descriptors::run);
}

#[test]
fn messages_of_any_content_are_refused_or_accounted_for() {
    check("messages", messages::run);
}
