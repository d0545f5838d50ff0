//! The threads that an engine makes are as its options say, the host's own are left alone, and what the system refuses is
//! told in its words.
#![cfg(target_os = "linux")]

mod driver;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::{CStr, CString, c_void};
use std::os::unix::process::CommandExt;
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;

const OK: i32 = 0;
const UNAVAILABLE: i32 = rte_status_code::RTE_ERR_UNAVAILABLE as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const PRIORITY: u32 = 7;
const CHANGED: u64 = 99;

/// What a thread finds itself to be.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Thread {
    name: String,
    cpus: u64,
    policy: i32,
    priority: i32,
}

impl Thread {
    fn here() -> Thread {
        let name = std::fs::read_to_string("/proc/thread-self/comm").unwrap().trim_end().to_string();
        // SAFETY: places of the right types; the calling thread.
        let (set, policy, param) = unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            assert_eq!(libc::sched_getaffinity(0, size_of_val(&set), &mut set), 0);
            let (mut policy, mut param) = (0, std::mem::zeroed::<libc::sched_param>());
            assert_eq!(libc::pthread_getschedparam(libc::pthread_self(), &mut policy, &mut param), 0);
            (set, policy, param)
        };
        // SAFETY: `set` has 1024 bits.
        let cpus = (0..64).filter(|cpu| unsafe { libc::CPU_ISSET(*cpu, &set) }).map(|cpu| 1 << cpu).sum();
        Thread { name, cpus, policy, priority: param.sched_priority }
    }
}

/// What the callbacks saw, by callback.
#[derive(Default)]
struct World {
    seen: Mutex<BTreeMap<&'static str, Thread>>,
    destroyed: AtomicU64,
}

impl World {
    fn note(user: *mut c_void, callback: &'static str) -> i32 {
        // SAFETY: the world outlives its engine.
        let world = unsafe { &*user.cast::<World>() };
        world.seen.lock().unwrap().insert(callback, Thread::here());
        0
    }

    fn of(&self, callback: &str) -> Thread {
        self.seen.lock().unwrap()[callback].clone()
    }
}

unsafe extern "C-unwind" fn init(user: *mut c_void, _: *const rte_stream) -> i32 {
    World::note(user, "init")
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    World::note(user, "seed")
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    World::note(user, "hot")
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    World::note(user, "deferred")
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    World::note(user, "encode")
}

unsafe extern "C-unwind" fn finalize(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    World::note(user, "finalize")
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: the world outlives its engine.
    unsafe { &*user.cast::<World>() }.destroyed.fetch_add(1, SeqCst);
}

/// An engine whose threads have a name of their own among those of this program.
fn engine(world: &World, name: &str, options: rte_engine_options) -> Host {
    let stages = [stage(RTE_HOT, hot), stage(RTE_DEFERRED, deferred), stage(RTE_ENCODE, encode)];
    let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
    let user = std::ptr::from_ref(world).cast_mut().cast();
    let model = rte_model {
        user,
        keys: keys.as_ptr(),
        key_count: 1,
        rate_num: 500,
        rate_den: 1,
        init: Some(init),
        seed: Some(seed),
        finalize: Some(finalize),
        destroy: Some(destroy),
        ..model(&stages, 2, 8)
    };
    let name = CString::new(name).unwrap();
    Host::new(&model, &rte_engine_options { thread_name: name.as_ptr(), ..options })
}

/// A status and the words for it.
fn told(call: impl FnOnce(*mut rte_error) -> i32) -> (i32, String) {
    let mut error: rte_error = zeroed();
    let status = call(&mut error);
    // SAFETY: NUL-terminated, whether it was written or is zero.
    (status, unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned())
}

fn start(host: &Host) -> (i32, String) {
    // SAFETY: the engine lives.
    told(|error| unsafe { rte_engine_start(host.engine, error) })
}

fn run(host: &Host) -> (i32, String) {
    // SAFETY: the engine lives.
    told(|error| unsafe { rte_engine_run(host.engine, error) })
}

fn stop(host: &Host) {
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, OK);
}

/// Lets each stage run; `turn` makes the engine go on.
fn exercise(host: &Host, turn: impl Fn()) {
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[value(0, b"one")]), OK);
    assert_eq!(host.push(rte_message { tag: CHANGED, ..message(RTE_ACTION, 1) }, &[value(0, b"two")]), OK);
    let mut is_encoded = false;
    while !is_encoded {
        turn();
        host.pop_all(|output| is_encoded |= output.kind == RTE_CHUNK && output.heavy_tag == CHANGED);
    }
}

/// The names of this process's threads that begin so, in order.
fn threads(name: &str) -> Vec<String> {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    // One that has ended meanwhile has no name.
    let names = tasks.filter_map(|comm| std::fs::read_to_string(comm).ok());
    let mut names: Vec<String> =
        names.map(|comm| comm.trim_end().to_string()).filter(|comm| comm.starts_with(name)).collect();
    names.sort();
    names
}

/// Whether the system lets a thread of this process do that.
fn may(attempt: impl FnOnce() -> i32 + Send) -> bool {
    std::thread::scope(|scope| scope.spawn(|| attempt() == 0).join().unwrap())
}

fn may_use(cpus: u64) -> bool {
    may(|| {
        // SAFETY: a set of bits, of which those below 64 are set; the calling thread.
        unsafe {
            let mut set: libc::cpu_set_t = std::mem::zeroed();
            (0..64).filter(|cpu| cpus >> cpu & 1 != 0).for_each(|cpu| libc::CPU_SET(cpu, &mut set));
            libc::sched_setaffinity(0, size_of_val(&set), &set)
        }
    })
}

fn may_be_realtime() -> bool {
    may(|| {
        // SAFETY: numbers; the calling thread.
        unsafe {
            let mut param: libc::sched_param = std::mem::zeroed();
            param.sched_priority = PRIORITY as i32;
            libc::pthread_setschedparam(libc::pthread_self(), libc::SCHED_FIFO, &param)
        }
    })
}

/// Some CPU that this process may use, and some that it may not. A machine may have all that a mask can name.
fn cpus() -> (u64, Option<u64>) {
    let usable = Thread::here().cpus;
    (1 << (63 - usable.leading_zeros()), (0..64).map(|cpu| 1 << cpu).rev().find(|cpu| !may_use(*cpu)))
}

const LANES: [u32; 2] = [RTE_LANES_INLINE, RTE_LANES_THREADS];

/// By callback: the name of its thread.
fn names(lanes: u32, name: &str) -> [(&'static str, String); 6] {
    let lane = |lane: &str| if lanes == RTE_LANES_THREADS { format!("{name} {lane}") } else { name.to_string() };
    [
        ("init", name.to_string()),
        ("finalize", name.to_string()),
        ("seed", lane("hot")),
        ("hot", lane("hot")),
        ("deferred", lane("deferred")),
        ("encode", lane("encode 0")),
    ]
}

#[test]
fn threads_are_named_and_on_their_cpus() {
    let (cpu, other) = cpus();
    let before = Thread::here();
    // A CPU that may not be used does not matter beside one that may.
    for (lanes, cpu_mask) in LANES.into_iter().flat_map(|lanes| [(lanes, cpu), (lanes, cpu | other.unwrap_or(0))]) {
        let world = World::default();
        let host = engine(&world, "cpus", rte_engine_options { lanes, cpu_mask, ..options() });
        assert_eq!(start(&host).0, OK);
        exercise(&host, std::thread::yield_now);
        let all: BTreeSet<String> = names(lanes, "cpus").into_iter().map(|(_, name)| name).collect();
        assert_eq!(threads("cpus"), Vec::from_iter(all), "one thread each, and no other");
        stop(&host);
        assert!(threads("cpus").is_empty());
        for (callback, name) in names(lanes, "cpus") {
            let expected = Thread { name, cpus: cpu, ..before.clone() };
            assert_eq!(world.of(callback), expected, "{callback} on lanes {lanes}");
        }
    }
    assert_eq!(Thread::here(), before);
}

#[test]
fn a_lanes_threads_are_numbered() {
    let world = World::default();
    let options = rte_engine_options { lanes: RTE_LANES_THREADS, encode_lanes: 3, ..options() };
    let host = engine(&world, "many", options);
    assert_eq!(start(&host).0, OK);
    let all = ["many", "many deferred", "many encode 0", "many encode 1", "many encode 2", "many hot"];
    assert_eq!(threads("many"), all);
    stop(&host);
}

#[test]
fn no_cpu_that_may_be_used_is_refused_and_nothing_is_left() {
    let (_, Some(cpu_mask)) = cpus() else { return println!("every CPU that a mask can name may be used here") };
    for lanes in LANES {
        let world = World::default();
        let host = engine(&world, "none", rte_engine_options { lanes, cpu_mask, ..options() });
        let words = format!("options.cpu_mask: {cpu_mask:#x}: Invalid argument (os error 22)");
        assert_eq!(start(&host), (UNAVAILABLE, words));
        expect_end(&world, host, "none");
    }
}

/// After a refusal no callback was called, no thread is left, the engine says why it is dead, and can be freed.
fn expect_end(world: &World, host: Host, name: &str) {
    assert!(threads(name).is_empty(), "a thread is left");
    assert!(world.seen.lock().unwrap().is_empty(), "init is not called");
    assert_eq!(host.info().health, UNAVAILABLE);
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), DEAD);
    stop(&host);
    assert_eq!(world.destroyed.load(SeqCst), 0);
    drop(host);
    assert_eq!(world.destroyed.load(SeqCst), 1);
}

#[test]
fn the_caller_of_run_and_tick_is_left_alone_and_told_where_nobody_would_heed() {
    let (cpu, _) = cpus();
    let asked = [
        (rte_engine_options { cpu_mask: cpu, ..options() }, format!("options.cpu_mask: {cpu:#x}: ")),
        (rte_engine_options { priority: PRIORITY, ..options() }, format!("options.priority: {PRIORITY}: ")),
    ];
    for (options, words) in asked {
        let world = World::default();
        let host = engine(&world, "caller", options);
        let before = Thread::here();
        for _ in 0..2 {
            assert_eq!(host.tick(), UNAVAILABLE);
            let (status, told) = run(&host);
            assert_eq!(status, UNAVAILABLE);
            assert!(told.starts_with(&words) && told.contains("the caller's"), "{told}");
        }
        assert_eq!(Thread::here(), before);
        assert_eq!(host.info().health, OK, "nothing has changed");
        if options.cpu_mask != 0 {
            assert_eq!(start(&host).0, OK);
            assert_eq!(host.tick(), rte_status_code::RTE_ERR_STATE as i32);
        }
        stop(&host);
    }
}

#[test]
fn the_lanes_of_a_ticked_engine_are_on_their_cpus() {
    let (cpu, other) = cpus();
    let world = World::default();
    let lanes = RTE_LANES_THREADS;
    let host = engine(&world, "tick", rte_engine_options { lanes, cpu_mask: cpu, ..options() });
    let before = Thread::here();
    exercise(&host, || assert_eq!(host.tick(), OK));
    assert_eq!(Thread::here(), before);
    for (callback, name) in names(lanes, "tick") {
        let is_ours = name != "tick";
        let expected = if is_ours { Thread { name, cpus: cpu, ..before.clone() } } else { before.clone() };
        assert_eq!(world.of(callback), expected, "{callback}");
    }
    stop(&host);
    let Some(cpu_mask) = other else { return };
    for is_run in [false, true] {
        let world = World::default();
        let host = engine(&world, "ticked", rte_engine_options { lanes, cpu_mask, ..options() });
        assert_eq!(if is_run { run(&host).0 } else { host.tick() }, UNAVAILABLE);
        expect_end(&world, host, "ticked");
    }
}

#[test]
fn what_a_tick_waits_for_is_realtime_where_that_is_permitted() {
    for lanes in LANES {
        let world = World::default();
        let before = Thread::here();
        let host = engine(&world, "fifo", rte_engine_options { lanes, priority: PRIORITY, ..options() });
        let (status, words) = start(&host);
        if !may_be_realtime() {
            assert_eq!((status, words.as_str()), (UNAVAILABLE, REFUSED));
            expect_end(&world, host, "fifo");
            continue;
        }
        assert_eq!(status, OK, "{words}");
        exercise(&host, std::thread::yield_now);
        stop(&host);
        for (callback, name) in names(lanes, "fifo") {
            let is_realtime = lanes == RTE_LANES_INLINE || callback != "encode";
            let (policy, priority) =
                if is_realtime { (libc::SCHED_FIFO, PRIORITY as i32) } else { (libc::SCHED_OTHER, 0) };
            let expected = Thread { name, policy, priority, ..before.clone() };
            assert_eq!(world.of(callback), expected, "{callback} on lanes {lanes}");
        }
        assert_eq!(Thread::here(), before);
    }
}

const REFUSED: &str = "options.priority: 7: Operation not permitted (os error 1)";
const CHILD: &str = "in_a_process_without_rights";

#[test]
fn a_process_without_rights_is_told_so() {
    const CAP_SYS_NICE: libc::c_ulong = 23;
    let mut child = Command::new(std::env::current_exe().unwrap());
    child.args([CHILD, "--exact", "--ignored"]);
    // SAFETY: system calls alone, on the child.
    unsafe {
        child.pre_exec(|| {
            let none = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            libc::setrlimit(libc::RLIMIT_RTPRIO, &none);
            // What is not in this set is not had after exec, whoever it is. Who may not change it has no such right.
            libc::prctl(libc::PR_CAPBSET_DROP, CAP_SYS_NICE, 0, 0, 0);
            libc::prctl(libc::PR_CAP_AMBIENT, libc::PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0);
            Ok(())
        });
    }
    let output = child.output().unwrap();
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && said.contains("1 passed"), "{said}{}", String::from_utf8_lossy(&output.stderr));
}

#[test]
#[ignore = "run by the test above in a process of its own"]
fn in_a_process_without_rights() {
    assert!(!may_be_realtime(), "the process has the right all the same");
    for (lanes, encode_lanes) in [(RTE_LANES_INLINE, 1), (RTE_LANES_THREADS, 8)] {
        let world = World::default();
        let options = rte_engine_options { lanes, encode_lanes, priority: PRIORITY, ..options() };
        let host = engine(&world, "child", options);
        assert_eq!(start(&host), (UNAVAILABLE, REFUSED.to_string()));
        expect_end(&world, host, "child");
    }
    // With a host's loop it is the lanes' threads that are refused.
    let world = World::default();
    let options = rte_engine_options { lanes: RTE_LANES_THREADS, priority: PRIORITY, ..options() };
    let host = engine(&world, "child", options);
    assert_eq!(run(&host), (UNAVAILABLE, REFUSED.to_string()));
    expect_end(&world, host, "child");
}
