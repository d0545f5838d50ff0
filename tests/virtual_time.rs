//! The grid holds in virtual time, whatever a step takes: points hit == elapsed * rate - missed, exactly.

mod driver;

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::Relaxed};

use driver::*;

/// A clock that passes only where a step takes time or the engine sleeps.
struct World {
    now: AtomicU64,
    random: AtomicU64,
    engine: AtomicPtr<rte_engine>,
    rate: (u32, u32),
    start: AtomicU64,
    steps: AtomicU64,
    overruns: AtomicU64,
    slept_past: AtomicU64,
}

const STEPS: u64 = 20_000;

impl World {
    fn random(&self) -> u64 {
        let next = self.random.load(Relaxed).wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        self.random.store(next, Relaxed);
        next >> 33
    }

    /// The grid point at or just before a time, from the definition.
    fn point_at(&self, time: u64) -> u64 {
        let (num, den) = (u128::from(self.rate.0), u128::from(self.rate.1));
        let elapsed = u128::from(time - self.start.load(Relaxed));
        // The last j with floor(j * 1e9 * den / num) <= elapsed.
        (((elapsed + 1) * num - 1) / (1_000_000_000 * den)) as u64
    }
}

unsafe extern "C-unwind" fn now(user: *mut c_void) -> u64 {
    // SAFETY: the world outlives its engine.
    unsafe { &*user.cast::<World>() }.now.load(Relaxed)
}

unsafe extern "C-unwind" fn sleep_until(user: *mut c_void, at: u64) {
    // SAFETY: as above.
    let world = unsafe { &*user.cast::<World>() };
    assert!(at > world.now.load(Relaxed), "the engine sleeps for the future only");
    world.now.store(at, Relaxed);
    // Now and then it wakes late, by less than a period: the tick is still that point's.
    if world.random() % 50 == 0 {
        world.slept_past.fetch_add(1, Relaxed);
        world.now.fetch_add(world.random() % 16_000_000, Relaxed);
    }
}

unsafe extern "C-unwind" fn step(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as above.
    let world = unsafe { &*user.cast::<World>() };
    let (engine, begin, steps) =
        (world.engine.load(Relaxed), world.now.load(Relaxed), world.steps.fetch_add(1, Relaxed));
    let mut info = rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() };
    // SAFETY: info may be asked for in a callback.
    assert_eq!(unsafe { rte_engine_get_info(engine, &mut info) }, 0);
    assert_eq!(info.ticks, steps);
    // The tick in progress has hit one more point than there are ticks behind it.
    assert_eq!(world.point_at(begin), info.ticks + info.missed_deadlines, "step {steps}");
    if steps + 1 == STEPS {
        // SAFETY: with timeout 0 it only asks.
        assert_eq!(unsafe { rte_engine_stop(engine, 0, std::ptr::null_mut()) }, RTE_TIMEOUT);
    }
    // One step in ten is longer than the period, up to eight periods.
    let overruns = world.random() % 10 == 0;
    world.overruns.fetch_add(u64::from(overruns), Relaxed);
    world.now.fetch_add(world.random() % if overruns { 140_000_000 } else { 12_000_000 }, Relaxed);
    0
}

const RTE_TIMEOUT: i32 = rte_status_code::RTE_TIMEOUT as i32;

fn run(rate: (u32, u32), seed: u64) {
    let begin = 1_000_000_007 + seed;
    let world = World {
        now: AtomicU64::new(begin),
        random: AtomicU64::new(seed),
        engine: AtomicPtr::default(),
        rate,
        start: AtomicU64::new(begin),
        steps: AtomicU64::new(0),
        overruns: AtomicU64::new(0),
        slept_past: AtomicU64::new(0),
    };
    let user = (&raw const world).cast_mut().cast::<c_void>();
    let clock = rte_clock {
        struct_size: size_of::<rte_clock>() as u32,
        user,
        now: Some(now),
        sleep_until: Some(sleep_until),
        ..zeroed()
    };
    let stages = [stage(RTE_HOT, step)];
    let model = rte_model { user, rate_num: rate.0, rate_den: rate.1, ..model(&stages, 1, 8) };
    let host = Host::new(&model, &rte_engine_options { clock: &clock, ..options() });
    world.engine.store(host.engine, Relaxed);
    host.push(message(RTE_ATTACH, 1), &[]);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, std::ptr::null_mut()) }, 0);
    let info = host.info();
    assert_eq!(info.ticks, STEPS);
    let hiccups = world.overruns.load(Relaxed) + world.slept_past.load(Relaxed);
    assert!(info.missed_deadlines > 0 && info.late_ticks > 0 && info.late_ticks <= hiccups + STEPS / 10);
    println!(
        "{}/{}: {} points hit, {} missed, {} late, in {} virtual seconds",
        rate.0,
        rate.1,
        info.ticks,
        info.missed_deadlines,
        info.late_ticks,
        (world.now.load(Relaxed) - begin) / 1_000_000_000
    );
}

#[test]
fn no_point_is_lost_or_counted_twice_at_60() {
    (0..5).for_each(|seed| run((60, 1), seed));
}

#[test]
fn no_point_is_lost_or_counted_twice_at_30000_over_1001() {
    (0..5).for_each(|seed| run((30_000, 1001), seed));
}
