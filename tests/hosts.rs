//! Whole programs of users: they compile without a warning, and those that this version can serve run to a clean end.

mod support;

use std::path::Path;

use support::{Build, Watch, scratch};

const C: &str = "c99";
const CPP: &str = "c++17";

fn run_everywhere(host: &str, standard: &str, name: &str, said: &str) {
    let folder = scratch(name);
    for watch in Watch::ALL {
        if let Some(finished) = watch.build_and_run(Path::new(host), standard, &folder) {
            finished.expect_success().expect("must say what it did", |it| it.output.contains(said));
        }
    }
}

#[test]
fn hello() {
    run_everywhere("tests/hosts/01_hello.c", C, "hello", "session 8 chunk 0: ");
}

/// CUDA lanes are not in this version: it compiles and that is all.
#[test]
fn a_world_model_on_cuda_streams_compiles() {
    let folder = scratch("three_stages");
    Build { source: Path::new("tests/hosts/02_three_stages.cpp"), standard: CPP, options: &[], folder: &folder }
        .compile();
}

#[test]
fn a_scheduler_with_its_own_loop() {
    run_everywhere("tests/hosts/04_scheduler.cpp", CPP, "scheduler", "ok: scheduler");
}

/// As old as the header goes, and as the example is built.
#[test]
fn the_schedulers_are_c_plus_plus_11() {
    let folder = scratch("schedulers");
    for source in ["tests/hosts/04_scheduler.cpp", "examples_c/04_scheduler.cpp"] {
        Build { source: Path::new(source), standard: "c++11", options: &["-O2"], folder: &folder }.compile();
    }
}

#[test]
fn a_game_loop() {
    run_everywhere("tests/hosts/05_game_loop.c", C, "game_loop", "1000 ticks, 64000 chunks");
}

/// The example, for as few ticks as it takes. It checks what it shows: no bystander loses a picture to another's prompt, and
/// two of the sessions are bit for bit the same alone.
#[test]
fn a_world() {
    let folder = scratch("world");
    for watch in Watch::ALL {
        let source = Path::new("examples_c/03_world.c");
        let Some(finished) = watch.build_and_run_with(source, C, &folder, &["20", "world.png"]) else { continue };
        finished.expect_success().expect("must say what it did", |it| it.output.contains("\nok: 8 players, "));
    }
}

/// As the header says of a stage: a C++ exception that leaves it ends the process. It says so, and does not go on.
#[test]
fn a_stage_that_throws_ends_the_process() {
    let folder = scratch("throwing_stage");
    let finished = Watch::Plain.build_and_run(Path::new("tests/cpp/throwing_stage.cpp"), CPP, &folder).unwrap();
    finished.expect("must abort with a message", |it| {
        it.code.is_none() && it.output.is_empty() && it.errors.contains("foreign exception")
    });
}
