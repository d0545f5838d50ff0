//! What is wrong gets the documented status, a message that names the field and its value, and leaves nothing behind.
//!
//! The cases are in `c/bad_input`, by topic, each a line that says what it is about.

mod support;

use support::{Watch, expect_checks};

fn check(topic: &str, count: usize) {
    expect_checks(&format!("tests/c/bad_input/{topic}.c"), &Watch::ALL, count);
}

#[test]
fn models() {
    check("model", 69);
}

#[test]
fn options() {
    check("options", 42);
}

#[test]
fn nulls() {
    check("nulls", 54);
}

#[test]
fn sizes_of_descriptors() {
    check("sizes", 45);
}

#[test]
fn messages() {
    check("messages", 40);
}

#[test]
fn wrong_states() {
    check("states", 51);
}

#[test]
fn calls_in_callbacks() {
    check("callbacks", 39);
}

#[test]
fn what_this_version_lacks() {
    check("later", 7);
}

/// Not under valgrind: the child may free nothing of its parent's, and so leaks all of it.
#[test]
fn a_forked_child() {
    expect_checks("tests/c/bad_input/fork.c", &[Watch::Plain, Watch::Sanitizers], 27);
}
