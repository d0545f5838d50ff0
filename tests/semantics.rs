//! What a C host sees of an engine's life: the promises of `rte.h` that every host builds on, each by a user's name.
//!
//! The checks are in `c/semantics`, by topic; `c/semantics/world.h` is the model that they all use.

mod support;

use support::{Watch, expect_checks};

fn check(topic: &str, count: usize) {
    expect_checks(&format!("tests/c/semantics/{topic}.c"), &Watch::ALL, count);
}

#[test]
fn how_messages_merge() {
    check("merging", 57);
}

#[test]
fn who_gets_in_and_leaves() {
    check("lives", 62);
}

#[test]
fn what_slow_consumers_lose() {
    check("losses", 21);
}

#[test]
fn what_failures_cost() {
    check("failures", 43);
}
