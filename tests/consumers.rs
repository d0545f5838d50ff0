//! However a consumer takes outputs, by pops, waits, a descriptor or a callback, they are the same, each comes once, and
//! none is missed. `tests/c/consumers.c` says what is checked.

#![cfg(target_os = "linux")]

mod support;

use std::path::Path;

use support::{Watch, scratch};

/// Builds and runs the host; `count` checks must hold.
fn consumers(watch: Watch, arguments: &[&str], count: usize) {
    let folder = scratch(&format!("consumers-{}", arguments[0]));
    let source = Path::new("tests/c/consumers.c");
    let finished = watch.build_and_run_with(source, "c11", &folder, arguments).unwrap().expect_success();
    finished.expect("every check", |it| it.output.ends_with(&format!("{count} checks, 0 failed\n")));
}

#[test]
fn the_same_stream_comes_by_pop_by_wait_by_poll_and_by_callback() {
    consumers(Watch::Sanitizers, &["same"], 12);
}

#[test]
fn four_consumers_of_two_ways_get_each_chunk_once() {
    consumers(Watch::Plain, &["four", "400000"], 5);
    consumers(Watch::Sanitizers, &["four", "40000"], 5);
}

#[test]
fn no_wake_is_lost_over_a_million_chunks_with_a_descriptor() {
    consumers(Watch::Plain, &["poll", "1000000"], 5);
}

#[test]
fn no_wake_is_lost_over_a_million_chunks_with_a_wait() {
    consumers(Watch::Plain, &["wait", "1000000"], 5);
}
