//! The fake CUDA driver (`cuda/`) that the tests of CUDA lanes stand on does what it says: it orders work by streams and
//! events alone, reports each rule that is broken on purpose, and fails where it is told to.

mod support;

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;

use support::cuda::{self, BROKEN};
use support::{C_WARNINGS, Finished, Language, WARNINGS, root, run, scratch};

const PLAIN: &[&str] = &[];
const SANITIZERS: &[&str] = &["-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

static DRIVER: LazyLock<PathBuf> = LazyLock::new(|| cuda::build(&scratch("plain"), &[], PLAIN));
static WATCHED_DRIVER: LazyLock<PathBuf> = LazyLock::new(|| cuda::build(&scratch("watched"), &[], SANITIZERS));

/// The driver that was built so.
fn driver(options: &[&str]) -> &'static Path {
    if options.is_empty() { &DRIVER } else { &WATCHED_DRIVER }
}

/// Builds one of `cuda/checks`.
fn build(name: &str, folder: &Path, options: &[&str]) -> PathBuf {
    let driver = driver(options);
    let program = folder.join(name);
    let mut compiler = Command::new(Language::C.compiler());
    compiler.args(["-std=c11", "-D_GNU_SOURCE", "-g", "-O1"]).args(WARNINGS).args(C_WARNINGS).args(options);
    compiler.arg("-I").arg(root().join("tests/c")).arg("-I").arg(root().join("include"));
    compiler.arg(root().join("tests/cuda/checks").join(name).with_extension("c")).arg("-o").arg(&program);
    compiler.args(cuda::options(driver));
    run(compiler, folder).expect_success();
    program
}

/// Each line of a program of checks says `ok`, no two have one name, and there are as many as there should be.
fn expect_checks(name: &str, count: usize) {
    for options in [PLAIN, SANITIZERS] {
        let folder = scratch(&format!("{name} {}", options.len()));
        let mut command = Command::new(build(name, &folder, options));
        cuda::with_driver(&mut command, driver(options));
        let finished = run(command, &folder).expect_success();
        let names: Vec<&str> = finished.output.lines().filter_map(|line| line.strip_suffix(": ok")).collect();
        let distinct: BTreeSet<&str> = names.iter().copied().collect();
        assert_eq!((distinct.len(), names.len()), (count, count), "{}", finished.output);
        finished.expect("must come to its end", |it| it.output.ends_with(&format!("{count} checks, 0 failed\n")));
    }
}

#[test]
fn streams_events_gates_and_delays_keep_the_order_that_edges_give() {
    expect_checks("order", 50);
}

#[test]
fn memory_is_for_work_alone_until_that_was_seen_to_be_over() {
    expect_checks("memory", 48);
}

#[test]
fn each_rule_that_is_broken_is_reported_and_no_other() {
    expect_checks("rules", 89);
}

#[test]
fn what_is_made_to_fail_fails_as_on_a_machine() {
    expect_checks("failures", 56);
}

/// One thing that `cuda/checks/process.c` does, with an environment.
struct Process {
    program: PathBuf,
    folder: PathBuf,
}

impl Process {
    fn new(test: &str) -> Process {
        let folder = scratch(test);
        Process { program: build("process", &folder, PLAIN), folder }
    }

    fn run(&self, what: &str, environment: &[(&str, &str)]) -> Finished {
        let mut command = Command::new(&self.program);
        cuda::with_driver(command.arg(what).envs(environment.iter().copied()), driver(PLAIN));
        run(command, &self.folder)
    }

    fn expect(&self, what: &str, environment: &[(&str, &str)], code: i32, output: &str) -> Finished {
        let ends = |it: &Finished| it.code == Some(code) && it.output == output;
        self.run(what, environment).expect(&format!("must end with {code} and {output:?}"), ends)
    }
}

#[test]
fn the_environment_says_what_machine_it_is() {
    let process = Process::new("machine");
    process.expect("init", &[], 0, "0 2 12040\n");
    process.expect("init", &[("FAKE_CUDA_DEVICES", "5"), ("FAKE_CUDA_VERSION", "11020")], 0, "0 5 11020\n");
    process.expect("init", &[("FAKE_CUDA_DEVICES", "0")], 0, "0 0 12040\n");
    process.expect("init", &[("FAKE_CUDA_DEVICES", "none")], 0, "100 0 12040\n");
}

#[test]
fn the_environment_says_what_fails_is_held_and_is_late() {
    let process = Process::new("failures of the environment");
    process.expect("queries", &[("FAKE_CUDA_FAIL", "cuEventQuery:2:999")], 0, "0 999 0 \nend\n");
    process.expect("queries", &[("FAKE_CUDA_FAIL", "cuEventQuery:2:999:a")], 0, "0 999 999 \nend\n");
    process.expect("queries", &[("FAKE_CUDA_FAIL", "cuEventQuery:1:999:s")], 0, "999 999 999 \nend\n");
    process.expect("queries", &[("FAKE_CUDA_FAIL", "cuEventQuery:1:2,cuEventQuery:2:700")], 0, "2 700 700 \nend\n");
    process.expect("held", &[("FAKE_CUDA_HOLD", "2:0")], 0, "second 600\nend\n");
    process.expect("delays", &[("FAKE_CUDA_DELAY", "3:2000"), ("FAKE_CUDA_HOLD", "1:1000")], 0, "done\nend\n");
    process.run("", &[("FAKE_CUDA_FAIL", "cuNothing:1:2")]).expect("must be refused", |it| it.code.is_none());
}

#[test]
fn a_process_that_broke_a_rule_ends_badly_unless_told_otherwise() {
    let process = Process::new("modes");
    process.expect("", &[], 0, "end\n");
    let reported = process.expect("break", &[], BROKEN, "end\n");
    assert!(reported.errors.starts_with("fake_cuda: default_stream: cuStreamQuery: "), "{}", reported.errors);
    process.expect("break", &[("FAKE_CUDA_MODE", "count")], 0, "end\n");
    process.expect("break", &[("FAKE_CUDA_FORGIVE", "race,default_stream")], 0, "end\n");
    process.run("break", &[("FAKE_CUDA_MODE", "abort")]).expect("must abort", |it| it.code.is_none());
}

#[test]
fn what_is_left_at_the_end_is_reported_piece_by_piece() {
    let process = Process::new("left");
    let finished = process.expect("leave", &[], BROKEN, "end\n");
    let left = |what: &str| {
        let lines = finished.errors.lines().filter(|line| line.starts_with("fake_cuda: left_behind: "));
        lines.filter(|line| line.contains(what)).count()
    };
    assert_eq!(left("fake_cuda: stream 1 "), 1, "{}", finished.errors);
    assert_eq!(left("fake_cuda: event 1 "), 1, "{}", finished.errors);
    assert_eq!(left(": 10 bytes at "), 2, "{}", finished.errors);
    assert_eq!(left(": 100 bytes at "), 1, "{}", finished.errors);
    assert_eq!(left("the primary context of device 0, retained 1 times"), 1, "{}", finished.errors);
    assert_eq!(left("fake_cuda: context 2 "), 1, "{}", finished.errors);
    assert_eq!(left(""), 7, "{}", finished.errors);
}

#[test]
fn the_log_is_written_to_a_file() {
    let process = Process::new("log");
    let path = process.folder.join("log");
    let log = path.to_str().unwrap();
    process.expect("held", &[("FAKE_CUDA_HOLD", "2:0"), ("FAKE_CUDA_LOG", log)], 0, "second 600\nend\n");
    process.expect("break", &[("FAKE_CUDA_LOG", log)], BROKEN, "end\n");
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "1 create cuStreamCreateWithPriority stream=1 thread=1");
    let of = |wanted: &str| lines.iter().filter(|line| line.split_once(' ').unwrap().1.starts_with(wanted)).count();
    assert_eq!(of("enqueue cuLaunchHostFunc op=1 stream=1 thread=1"), 1, "{text}");
    assert_eq!(of("end cuLaunchHostFunc op=2 stream=2"), 1, "{text}");
    assert_eq!(of("seen cuStreamSynchronize stream=2 thread=1"), 1, "{text}");
    assert!(lines.last().unwrap().starts_with("fake_cuda: default_stream: "), "{text}");
}

/// The names that a variant of the driver exports.
fn exported(driver: &Path) -> BTreeSet<String> {
    let output = Command::new("nm").args(["-D", "--defined-only"]).arg(driver.join("libcuda.so.1")).output().unwrap();
    assert!(output.status.success());
    let text = String::from_utf8(output.stdout).unwrap();
    text.lines().filter_map(|line| line.split(' ').nth(2)).map(str::to_string).collect()
}

#[test]
fn a_driver_may_lack_what_older_ones_lack() {
    let folder = scratch("lacking");
    let whole = exported(&DRIVER);
    let lacking = exported(&cuda::driver(&folder, &["cuStreamGetCtx", "cuMemHostRegister_v2"]));
    let missing: Vec<&String> = whole.difference(&lacking).collect();
    assert_eq!(missing, ["cuMemHostRegister_v2", "cuStreamGetCtx"]);
    let strange: Vec<&String> =
        whole.iter().filter(|name| !name.starts_with("cu") && !name.starts_with("fake_cuda_")).collect();
    assert!(strange.is_empty(), "{strange:?}");
}

/// What a process in Rust loads by name is the fake, with the settings that it was given.
#[test]
fn a_test_in_rust_may_use_it_in_a_process_of_its_own() {
    let settings = [("FAKE_CUDA_DEVICES", "7")];
    if !cuda::is_inside("a_test_in_rust_may_use_it_in_a_process_of_its_own", &settings) {
        return;
    }
    // SAFETY: the types that the headers have; a place for the count.
    unsafe {
        let init: extern "C" fn(u32) -> i32 = cuda::function(c"cuInit");
        let count_devices: unsafe extern "C" fn(*mut i32) -> i32 = cuda::function(c"cuDeviceGetCount");
        let count_calls: unsafe extern "C" fn(*const std::ffi::c_char) -> u64 = cuda::function(c"fake_cuda_calls");
        let mut count = 0;
        assert_eq!((init(0), count_devices(&mut count), count), (0, 0, 7));
        assert_eq!(count_calls(std::ptr::null()), 2);
    }
}
