//! The library itself under the thread and the address sanitizer, in programs of C: nothing to report, and what is wrong
//! on purpose is reported.
//!
//! The library is built once more for each of them, into a folder of its own that is kept from run to run.

mod support;

use std::path::{Path, PathBuf};
use std::process::Command;

use support::{C_WARNINGS, Finished, WARNINGS, has_tool, link_options_to, root, run, scratch};

/// What is looked for, in the library and in the program.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Sanitizer {
    Thread,
    Address,
}

impl Sanitizer {
    fn name(self) -> &'static str {
        match self {
            Sanitizer::Thread => "thread",
            Sanitizer::Address => "address",
        }
    }

    /// What the compiler is told. The standard library is as it was shipped, without.
    fn flags(self) -> String {
        let mismatch = if self == Sanitizer::Thread { " -Cunsafe-allow-abi-mismatch=sanitizer" } else { "" };
        format!("-Zsanitizer={}{mismatch}", self.name())
    }

    /// The instrumented library. Two tests that want it at once: cargo lets one build and the other wait.
    fn library(self) -> PathBuf {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("sanitized").join(self.name());
        std::fs::create_dir_all(&folder).unwrap();
        let target = format!("{}-unknown-linux-gnu", std::env::consts::ARCH);
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["build", "--quiet", "--locked", "--lib", "--target", &target, "--target-dir"]).arg(&folder);
        cargo.arg("--manifest-path").arg(root().join("Cargo.toml"));
        cargo.env("RUSTC_BOOTSTRAP", "1").env("RUSTFLAGS", self.flags()).env_remove("CARGO_ENCODED_RUSTFLAGS");
        cargo.env("CARGO_INCREMENTAL", "0").env("CARGO_PROFILE_DEV_DEBUG", "line-tables-only");
        let status = cargo.status().unwrap();
        assert!(status.success(), "{cargo:?}: {status}");
        folder.join(target).join("debug").join("librte.so")
    }

    /// Builds a program of C and runs it; `option`: of the sanitizer. `None`: there is no clang here.
    fn build_and_run(self, source: &str, standard: &str, option: &str) -> Option<Finished> {
        if !has_tool("clang") {
            return None;
        }
        let source = Path::new(source);
        let folder = scratch(&format!("{} {}", self.name(), source.file_stem().unwrap().display()));
        let program = folder.join(source.file_stem().unwrap());
        let mut clang = Command::new("clang");
        clang.arg(format!("-std={standard}")).args(WARNINGS).args(C_WARNINGS).args(["-g", "-O1", "-rdynamic"]);
        clang.arg(format!("-fsanitize={}", self.name())).arg("-I").arg(root().join("include"));
        clang.arg(root().join(source)).arg("-o").arg(&program).args(link_options_to(&self.library(), &folder));
        if self == Sanitizer::Thread {
            clang.arg(root().join("tests/c/sanitizers/memory.c"));
        }
        run(clang, &folder).expect_success();
        let finished = run(with_option(Command::new(&program), option, &folder), &folder);
        if !finished.errors.contains("unexpected memory mapping") {
            return Some(finished);
        }
        // Where addresses are more random than this thread sanitizer can bear.
        let mut fixed = Command::new("setarch");
        fixed.arg("-R").arg(&program);
        Some(run(with_option(fixed, option, &folder), &folder))
    }
}

fn with_option(mut command: Command, option: &str, folder: &Path) -> Command {
    command.current_dir(folder);
    // A request that cannot be met is the library's to answer, as without them.
    command.env("ASAN_OPTIONS", format!("allocator_may_return_null=1:{option}")).env("TSAN_OPTIONS", option);
    command
}

fn expect_clean(sanitizer: Sanitizer, source: &str, standard: &str, last: &str) {
    if let Some(finished) = sanitizer.build_and_run(source, standard, "") {
        let finished = finished.expect_success();
        let is_clean = |it: &Finished| it.errors.is_empty() && it.output.ends_with(last);
        finished.expect("must come to its end with nothing to report", is_clean);
    }
}

fn expect_report(sanitizer: Sanitizer, source: &str, report: &str) {
    // Frames by the file they lie in, not by function.
    let Some(finished) = sanitizer.build_and_run(source, "c11", "symbolize=0") else { return };
    // The access itself is the library's: an interceptor that it calls would lie in the program.
    let is_ours = |line: &str| line.trim_start().starts_with("#0 ") && line.contains("librte.so");
    finished.expect("must be reported", |it| {
        it.code != Some(0) && it.errors.contains(report) && it.errors.lines().any(is_ours)
    });
}

#[test]
fn many_threads_at_one_engine_race_for_nothing() {
    expect_clean(Sanitizer::Thread, "tests/c/stress.c", "c11", "ok: stress\n");
}

#[test]
fn no_memory_is_used_that_is_not_there_and_none_is_left() {
    expect_clean(Sanitizer::Address, "tests/c/stress.c", "c11", "ok: stress\n");
    expect_clean(Sanitizer::Address, "tests/c/semantics/lives.c", "c99", " checks, 0 failed\n");
    expect_clean(Sanitizer::Address, "tests/c/bad_input/sizes.c", "c99", " checks, 0 failed\n");
}

/// Else the tests above would pass with a library that is not watched.
#[test]
fn a_mistake_is_reported_where_the_library_meets_it() {
    expect_report(Sanitizer::Thread, "tests/c/sanitizers/race.c", "data race");
    expect_report(Sanitizer::Address, "tests/c/sanitizers/use_after_free.c", "heap-use-after-free");
}
