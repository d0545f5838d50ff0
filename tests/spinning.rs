//! Before a grid point and before a fence of threads lanes an engine spins so long and sleeps the rest. Seen from outside,
//! by what the system says of its thread, not by how long anything takes.
#![cfg(target_os = "linux")]

mod driver;

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicPtr, AtomicU64, Ordering::SeqCst};

use driver::*;

const OK: i32 = 0;
const FOR_EVER: u64 = u64::MAX;
const TICKS: u64 = 100;

/// Whose thread is looked at, and what was seen.
#[derive(Default)]
struct World {
    engine: AtomicPtr<rte_engine>,
    /// The engine's thread.
    thread: AtomicI64,
    /// A step lasts until that thread was seen asleep; else for so many looks at it.
    looks: u64,
    asleep: AtomicU64,
    steps: AtomicU64,
    /// How often the thread had gone to sleep of itself at the first step, and at the last.
    sleeps: [AtomicI64; 2],
}

impl World {
    fn of<'a>(user: *mut c_void) -> &'a World {
        // SAFETY: the world outlives its engine.
        unsafe { &*user.cast::<World>() }
    }
}

fn this_thread() -> i64 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

/// Whether the system has put that thread to sleep.
fn is_asleep(thread: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap();
    // After the name, which stands in brackets.
    stat.rsplit_once(") ").unwrap().1.starts_with('S')
}

/// How often the calling thread has gone to sleep of itself.
fn sleeps() -> i64 {
    // SAFETY: numbers; a valid place.
    unsafe {
        let mut usage: libc::rusage = std::mem::zeroed();
        assert_eq!(libc::getrusage(libc::RUSAGE_THREAD, &mut usage), 0);
        usage.ru_nvcsw
    }
}

fn host(world: &World, hot: StageFn, rate: u32, options: rte_engine_options) -> Host {
    let stages = [stage(RTE_HOT, hot)];
    let user = std::ptr::from_ref(world).cast_mut().cast();
    let model = rte_model { user, rate_num: rate, rate_den: rate.min(1), init: Some(init), ..model(&stages, 1, 8) };
    let host = Host::new(&model, &options);
    world.engine.store(host.engine, SeqCst);
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
    host
}

type StageFn = unsafe extern "C-unwind" fn(*mut c_void, *mut rte_batch, rte_stream) -> i32;

unsafe extern "C-unwind" fn init(user: *mut c_void, _: *const rte_stream) -> i32 {
    World::of(user).thread.store(this_thread(), SeqCst);
    0
}

// ---- a fence

/// On the lane's thread, while the engine's waits for it.
unsafe extern "C-unwind" fn watch(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    let world = World::of(user);
    let thread = world.thread.load(SeqCst);
    let mut looks = 0;
    while looks < world.looks || world.looks == 0 {
        looks += 1;
        if is_asleep(thread) {
            world.asleep.fetch_add(1, SeqCst);
            break;
        }
    }
    world.steps.fetch_add(1, SeqCst);
    0
}

/// Ticks, of whose fences this many were waited for asleep.
fn waits_asleep(spin_ns: u64, looks: u64) -> u64 {
    let world = World { looks, ..World::default() };
    let host = host(&world, watch, 0, rte_engine_options { lanes: RTE_LANES_THREADS, spin_ns, ..options() });
    for _ in 0..TICKS {
        assert_eq!(host.tick(), OK);
    }
    assert_eq!(world.steps.load(SeqCst), TICKS);
    world.asleep.load(SeqCst)
}

#[test]
fn a_fence_is_waited_for_asleep() {
    assert_eq!(waits_asleep(0, 0), TICKS);
}

#[test]
fn a_fence_is_waited_for_awake_if_asked() {
    // The system may have its own reasons to make a thread wait, now and then.
    let asleep = waits_asleep(FOR_EVER, 20);
    assert!(asleep < TICKS / 10, "asleep in {asleep} of {TICKS} ticks");
}

#[test]
fn a_fence_that_takes_longer_is_waited_for_asleep_after_that() {
    assert_eq!(waits_asleep(50_000, 0), TICKS);
    // Also where the wait is cut into pieces, each shorter than the time to spin.
    let world = World::default();
    let host =
        host(&world, watch, 0, rte_engine_options { lanes: RTE_LANES_THREADS, spin_ns: 25_000_000, ..options() });
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, std::ptr::null_mut()) }, OK);
    while world.steps.load(SeqCst) < 3 {
        std::thread::yield_now();
    }
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, OK);
}

// ---- a grid point

unsafe extern "C-unwind" fn count(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    let world = World::of(user);
    let step = world.steps.fetch_add(1, SeqCst) + 1;
    if step == 1 {
        world.sleeps[0].store(sleeps(), SeqCst);
    }
    if step == TICKS {
        world.sleeps[1].store(sleeps(), SeqCst);
        // SAFETY: with timeout 0 it only asks.
        unsafe { rte_engine_stop(world.engine.load(SeqCst), 0, std::ptr::null_mut()) };
    }
    0
}

/// How often the engine slept in a run, and how many of its ticks had to be waited for.
fn run(spin_ns: u64) -> (u64, u64) {
    let world = World::default();
    let host = host(&world, count, 500, rte_engine_options { spin_ns, ..options() });
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, std::ptr::null_mut()) }, OK);
    let [first, last] = world.sleeps.each_ref().map(|sleeps| sleeps.load(SeqCst));
    ((last - first) as u64, TICKS - 1 - host.info().late_ticks)
}

#[test]
fn a_grid_point_is_waited_for_asleep() {
    let (sleeps, waits) = run(0);
    assert!(sleeps >= waits / 2, "{sleeps} sleeps in {waits} waits");
}

#[test]
fn a_grid_point_is_waited_for_awake_if_asked() {
    let (sleeps, waits) = run(FOR_EVER);
    assert!(sleeps < TICKS / 10, "{sleeps} sleeps in {waits} waits");
}

/// The rest of a period is slept.
#[test]
fn before_a_grid_point_it_sleeps_until_it_spins() {
    let (sleeps, waits) = run(200_000);
    assert!(sleeps >= waits / 2, "{sleeps} sleeps in {waits} waits");
}
