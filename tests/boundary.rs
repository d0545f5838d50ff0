//! Nothing takes the host down: a panic ends its engine and no more, and no call in a callback hangs or crashes.
//!
//! What runs `alone` has a process of its own, which must end in time and say nothing on its error stream.

mod boundary_host;
mod driver;
mod process;
mod support;

use std::path::Path;
use std::process::Command;

use boundary_host::{neighbours, panics, reentry};
use process::alone;
use support::{Build, Watch, library, run, scratch};

#[test]
fn a_panic_in_a_callback_ends_its_engine_and_no_more() {
    alone("a_panic_in_a_callback_ends_its_engine_and_no_more", panics::in_callbacks);
}

#[test]
fn a_panic_where_an_output_is_given_back_ends_nothing() {
    alone("a_panic_where_an_output_is_given_back_ends_nothing", panics::in_releases_of_outputs);
}

#[test]
fn a_panic_of_the_library_s_own_ends_its_engine_and_no_more() {
    alone("a_panic_of_the_library_s_own_ends_its_engine_and_no_more", panics::in_lanes);
}

#[test]
fn every_function_returns_in_every_callback() {
    alone("every_function_returns_in_every_callback", reentry::everything_everywhere);
}

#[test]
fn every_function_returns_in_every_callback_of_an_engine_that_dies() {
    alone("every_function_returns_in_every_callback_of_an_engine_that_dies", reentry::everything_at_the_end);
}

#[test]
fn two_engines_are_driven_in_turns_by_one_thread() {
    neighbours::in_turns();
}

#[test]
fn an_engine_is_driven_inside_a_callback_of_another() {
    alone("an_engine_is_driven_inside_a_callback_of_another", neighbours::one_inside_the_other);
}

#[test]
fn a_log_function_that_frees_the_engine_comes_to_an_end() {
    alone("a_log_function_that_frees_the_engine_comes_to_an_end", neighbours::a_log_that_frees_the_engine);
}

#[test]
fn the_library_stays_when_it_is_unloaded_under_a_living_engine() {
    let folder = scratch("unload");
    for options in [&["-O1", "-Wl,--as-needed"][..], &["-O1", "-Wl,--as-needed", "-fsanitize=address,undefined"]] {
        let source = Path::new("tests/c/boundary/unload.c");
        let program = Build { source, standard: "c99", options, folder: &folder }.link();
        let mut command = Command::new(program);
        command.arg(library());
        run(command, &folder).expect_success().expect("each check", |it| it.output.ends_with("4 checks, 0 failed\n"));
    }
}

/// As the header says: it ends the process with a message, and nothing goes on.
#[test]
fn an_exception_that_leaves_any_callback_ends_the_process() {
    const EVERYWHERE: [&str; 15] = [
        "hot",
        "deferred",
        "encode",
        "ready",
        "seed",
        "detach",
        "finalize",
        "init",
        "release_output",
        "destroy",
        "release",
        "log",
        "on_output",
        "now",
        "sleep_until",
    ];
    const OF_A_BACKEND: [&str; 10] = [
        "stream_new",
        "stream_free",
        "event_new",
        "event_free",
        "record",
        "wait",
        "query",
        "sync",
        "set_wake",
        "destroy_backend",
    ];
    const LANES: [&str; 3] = ["1", "2", "4"];
    let folder = scratch("throws");
    let source = Path::new("tests/cpp/boundary/throws.cpp");
    let program = Build { source, standard: "c++17", options: &["-O1"], folder: &folder }.link();
    let everywhere = EVERYWHERE.iter().flat_map(|callback| LANES.map(|lanes| (*callback, lanes)));
    for (callback, lanes) in everywhere.chain(OF_A_BACKEND.map(|callback| (callback, "4"))) {
        let mut command = Command::new(&program);
        command.args([callback, lanes]);
        run(command, &folder).expect("must abort with a message", |it| {
            it.code.is_none() && it.output.is_empty() && it.errors.contains("foreign exception")
        });
    }
}

#[test]
fn an_exception_through_the_wrapper_ends_nothing() {
    let folder = scratch("wrapped");
    for watch in [Watch::Plain, Watch::Sanitizers] {
        let finished = watch.build_and_run(Path::new("tests/cpp/boundary/wrapped.cpp"), "c++17", &folder);
        let is_well = |it: &support::Finished| it.output.ends_with("ok: wrapped\n");
        finished.into_iter().for_each(|finished| drop(finished.expect_success().expect("each check", is_well)));
    }
}

/// The whole of the boundary's source, by exported function.
fn exports() -> Vec<(String, String)> {
    let folder = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src/abi");
    let files = std::fs::read_dir(folder).unwrap().map(|entry| std::fs::read_to_string(entry.unwrap().path()).unwrap());
    let bodies = |text: String| {
        let parts: Vec<String> = text.split("#[unsafe(no_mangle)]").skip(1).map(str::to_string).collect();
        parts.into_iter().map(|part| {
            let name = part.split("fn ").nth(1).unwrap().split('(').next().unwrap().to_string();
            (name, part.split("\n}\n").next().unwrap().to_string())
        })
    };
    files.flat_map(bodies).collect()
}

/// With what `guard`'s own test says of these four, the tests above hold for each exported function.
#[test]
fn every_exported_function_stands_in_a_guard() {
    const NO_STATE: [&str; 4] = ["rte_abi_version", "rte_version_string", "rte_status_message", "rte_log_stderr"];
    let exports = exports();
    assert_eq!(exports.len(), 24);
    for (name, body) in exports.iter().filter(|(name, _)| !NO_STATE.contains(&name.as_str())) {
        let guards = ["guard(|", "guard_cold(", "with_engine(", "with_engine_cold("];
        assert!(guards.iter().any(|guard| body.contains(guard)), "{name} is in no guard:\n{body}");
    }
}
