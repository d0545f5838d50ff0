//! `device.sh` is for a machine with a GPU, which tests cannot count on. Here it is seen that it says what is missing and
//! fails nobody, and that what it would build and run there is sound, as far as that shows without a device.

#![cfg(target_os = "linux")]

mod support;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use support::cuda::{driver, with_driver};
use support::{Build, Finished, library, root, run, scratch};

/// Runs the script with a library and an environment in which a GPU of this machine is not seen.
fn script(library: &Path, folder: &Path, environment: impl FnOnce(&mut Command)) -> Finished {
    let mut bash = Command::new("bash");
    bash.arg("tests/device.sh").arg(library).current_dir(root()).env("CUDA_VISIBLE_DEVICES", "");
    environment(&mut bash);
    run(bash, folder)
}

fn says_at_its_end(finished: Finished, code: i32, words: &str) {
    finished.expect(words, |it| {
        it.code == Some(code) && it.output.lines().last().is_some_and(|line| line.starts_with(words))
    });
}

#[test]
fn without_a_gpu_it_skips_and_says_why() {
    says_at_its_end(script(&library(), &scratch("no_gpu"), |_| ()), 0, "skipped: ");
}

#[test]
fn without_nvcc_it_skips_and_says_why() {
    let folder = scratch("no_nvcc");
    let fake = driver(&folder, &[]);
    let finished = script(&library(), &folder, |bash| {
        with_driver(bash.env("NVCC", ""), &fake);
    });
    says_at_its_end(finished, 0, "skipped: there is a GPU, but no nvcc");
}

#[test]
fn without_a_library_it_fails_and_says_so() {
    let folder = scratch("no_library");
    says_at_its_end(script(&folder.join("librte.so"), &folder, |_| ()), 2, "no library: ");
}

/// As the script builds them, on the fake driver in the device's place.
#[test]
fn the_suites_that_it_runs_pass_on_cuda_lanes() {
    let folder = scratch("suites");
    let fake = driver(&folder, &[]);
    for (source, arguments, end) in [
        ("tests/c/semantics/merging.c", &[][..], "57 checks, 0 failed\n"),
        ("tests/c/semantics/lives.c", &[], "62 checks, 0 failed\n"),
        ("tests/c/semantics/losses.c", &[], "21 checks, 0 failed\n"),
        ("tests/c/semantics/failures.c", &[], "43 checks, 0 failed\n"),
        ("tests/c/stress.c", &["20"], "ok: stress\n"),
        ("tests/c/consumers.c", &["same"], "12 checks, 0 failed\n"),
        ("tests/c/consumers.c", &["four", "2000"], "5 checks, 0 failed\n"),
    ] {
        let options = ["-O1", "-D_GNU_SOURCE", "-include", "tests/cuda/on_device.h"];
        let program = Build { source: Path::new(source), standard: "c11", options: &options, folder: &folder }.link();
        let mut command = Command::new(program);
        with_driver(command.args(arguments).current_dir(&folder), &fake);
        run(command, &folder).expect_success().expect("must come to its end", |it| it.output.ends_with(end));
    }
}

#[test]
fn what_it_measures_with_works() {
    let folder = scratch("measures");
    let fake = driver(&folder, &[]);
    for (source, rows) in [("tests/cuda/calls.c", 13), ("tests/cuda/ticks.c", 4)] {
        let options = ["-O1", "-DQUICKLY"];
        let program = Build { source: Path::new(source), standard: "c11", options: &options, folder: &folder }.link();
        let mut command = Command::new(program);
        with_driver(&mut command, &fake);
        let finished = run(command, &folder).expect_success();
        let count = finished.output.lines().filter(|line| line.starts_with("| ")).count();
        finished.expect("a row for each", |_| count == rows);
    }
}

/// Folders in which `cuda_runtime.h` lies where a toolkit is installed.
fn toolkit() -> Option<PathBuf> {
    let homes = ["CUDA_HOME", "CUDA_PATH"].into_iter().filter_map(std::env::var_os).map(PathBuf::from);
    let usual = ["/usr/local/cuda", "/opt/cuda", "/usr"].map(PathBuf::from);
    let mut folders = homes.chain(usual).map(|home| home.join("include"));
    folders.find(|folder| folder.join("cuda_runtime.h").exists())
}

#[test]
fn the_host_side_of_the_example_compiles_where_there_is_a_toolkit() {
    let Some(toolkit) = toolkit() else {
        println!("not compiled: no cuda_runtime.h here");
        return;
    };
    let folder = scratch("example");
    let mut compiler = Command::new("g++");
    compiler.args(["-std=c++17", "-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Werror"]);
    compiler.arg("-I").arg(root().join("include")).arg("-isystem").arg(toolkit);
    compiler.arg("-c").arg(root().join("examples_c/06_cuda.cpp")).arg("-o").arg(folder.join("06_cuda.o"));
    run(compiler, &folder).expect_success();
}

#[test]
fn it_is_sound_shell_where_there_is_a_checker() {
    let asked = Command::new("shellcheck").arg("--version").stdout(Stdio::null()).status();
    if !asked.is_ok_and(|status| status.success()) {
        println!("not checked: no shellcheck here");
        return;
    }
    let mut checker = Command::new("shellcheck");
    checker.arg(root().join("tests/device.sh"));
    run(checker, &scratch("shell")).expect_success();
}
