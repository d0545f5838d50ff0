//! Whole programs of users: they compile without a warning, and those that this version can serve run to a clean end.

mod support;
mod trace_file;

use std::path::Path;

use support::{Build, Watch, root, scratch};
use trace_file::TraceFile;

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

/// Its kernels are declared and no more (06_cuda has some): it compiles, and that is all.
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
/// two of the sessions are bit for bit the same alone. Its trace shows one encode, of the session that sits out for it.
#[test]
fn a_world() {
    let folder = scratch("world");
    for watch in Watch::ALL {
        let source = Path::new("examples_c/03_world.c");
        let Some(finished) = watch.build_and_run_with(source, C, &folder, &["20", "world.png", "world.json"]) else {
            continue;
        };
        finished.expect_success().expect("must say what it did", |it| it.output.contains("\nok: 8 players, "));
        let folder = folder.join(watch.folder());
        let trace = TraceFile::read(&folder.join("world.json"));
        let (encoding, changing) = (trace.doing("encoding"), trace.doing("session 2"));
        assert!(encoding.len() == 1 && changing.len() == 1 && encoding[0].id == changing[0].id, "{encoding:?}");
        let encodes = trace.slices("ENCODE").into_iter().filter(|slice| slice.name == "ENCODE").count();
        assert_eq!((encodes, trace.instants("dropped").len()), (1, 0));
        let ticks = trace.slices("ticks");
        // Until all are seeded nobody steps; then all do, but one for a while.
        let stepped = ticks.iter().map(|tick| tick.number("stepped"));
        assert!(stepped.skip_while(|stepped| *stepped == 0).all(|stepped| stepped >= 7));
        let picture = folder.join("timeline.png");
        let mut python = std::process::Command::new("python3");
        python.arg(root().join("examples_c/timeline.py")).args([&folder.join("world.json"), &picture]);
        assert!(python.status().unwrap().success());
        let bytes = std::fs::read(&picture).unwrap();
        let size = [16, 20].map(|at| u32::from_be_bytes(bytes[at..at + 4].try_into().unwrap()));
        assert!(bytes.starts_with(b"\x89PNG\r\n\x1a\n") && size[0] == 1640 && size[1] > 700, "{size:?}");
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
