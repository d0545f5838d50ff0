//! What the process has: blocks of the heap, descriptors, threads, pages. And a process for one test alone, so that
//! nothing else changes them.

#![allow(dead_code, reason = "each test program uses a part")]

use std::alloc::{GlobalAlloc, Layout, System};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

/// The system's allocator, counted: the whole program, the engine included.
pub struct Counting;

static CALLS: AtomicU64 = AtomicU64::new(0);
static BLOCKS: AtomicI64 = AtomicI64::new(0);
static BYTES: AtomicI64 = AtomicI64::new(0);

// SAFETY: the system's allocator, counted.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        BLOCKS.fetch_add(1, Relaxed);
        BYTES.fetch_add(layout.size() as i64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.alloc(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        CALLS.fetch_add(1, Relaxed);
        BYTES.fetch_add(size as i64 - layout.size() as i64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        CALLS.fetch_add(1, Relaxed);
        BLOCKS.fetch_sub(1, Relaxed);
        BYTES.fetch_sub(layout.size() as i64, Relaxed);
        // SAFETY: as the caller promises.
        unsafe { System.dealloc(block, layout) }
    }
}

/// Calls of the allocator so far.
pub fn heap_calls() -> u64 {
    CALLS.load(Relaxed)
}

/// What must be the same again when all that was made is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Possessions {
    /// Blocks of the heap, and their bytes.
    pub blocks: i64,
    pub bytes: i64,
    pub descriptors: usize,
    pub threads: usize,
}

impl Possessions {
    /// Of this process, now.
    pub fn now() -> Possessions {
        let (descriptors, threads) = (entries("/proc/self/fd"), entries("/proc/self/task"));
        Possessions { blocks: BLOCKS.load(Relaxed), bytes: BYTES.load(Relaxed), descriptors, threads }
    }

    /// As [`now`](Possessions::now), where threads were joined: the system shows one for a moment longer than that.
    pub fn when_threads_are(count: usize) -> Possessions {
        let begin = Instant::now();
        while entries("/proc/self/task") != count && begin.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        Possessions::now()
    }
}

fn entries(folder: &str) -> usize {
    std::fs::read_dir(folder).unwrap().count()
}

/// Pages of memory that the process has in use.
pub fn resident_pages() -> u64 {
    let statm = std::fs::read_to_string("/proc/self/statm").unwrap();
    statm.split(' ').nth(1).unwrap().parse().unwrap()
}

const ALONE: &str = "RTE_TEST_ALONE";
/// No such process works longer than a minute; what does, hangs.
const DEADLINE: Duration = Duration::from_secs(600);

/// Runs `body` of the test `name` of this program in a process of its own, of which it is the only test. It says nothing
/// on the error stream, and comes to its end in time.
#[track_caller]
pub fn alone(name: &str, body: impl FnOnce()) {
    if std::env::var_os(ALONE).is_some() {
        return body();
    }
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--nocapture", "--test-threads=1"]).env(ALONE, "1").env("RUST_BACKTRACE", "0");
    let paths = ["out", "err"].map(|stream| Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("{name}.{stream}")));
    let [output, errors] = paths.each_ref().map(|path| File::create(path).unwrap());
    let mut child = child.stdin(Stdio::null()).stdout(output).stderr(errors).spawn().unwrap();
    let begin = Instant::now();
    let status = loop {
        match child.try_wait().unwrap() {
            None if begin.elapsed() > DEADLINE => {
                child.kill().unwrap();
                child.wait().unwrap();
                break None;
            }
            None => std::thread::sleep(Duration::from_millis(5)),
            status => break status,
        }
    };
    let [said, complained] = paths.map(|path| String::from_utf8_lossy(&std::fs::read(path).unwrap()).into_owned());
    let is_well = status.is_some_and(|status| status.success()) && said.contains("1 passed") && complained.is_empty();
    let end = said.lines().rev().take(12).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>().join("\n");
    assert!(is_well, "{name}, alone: {status:?}, at the end of\n{end}\n{complained}");
    println!("{end}");
}

/// How many of something: `default`, or what the environment says in `variable`.
pub fn count_of(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |text| text.parse().expect("a number"))
}
