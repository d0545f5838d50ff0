//! The grid holds in virtual time, whatever a step takes: points hit == elapsed * rate - missed, exactly; and which points
//! are hit is what a model of the two ways to go on after a late tick says.

mod driver;

use std::ffi::c_void;
use std::sync::Mutex;
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

/// A run whose course is written beforehand.
struct Course {
    now: AtomicU64,
    engine: AtomicPtr<rte_engine>,
    /// By tick: what its step takes.
    steps: Vec<u64>,
    /// By tick: how long after its grid point the sleep before it ends, if there is one.
    oversleeps: Vec<u64>,
    /// One in five ends half-way.
    sleeps: AtomicU64,
    /// By tick: when it began, and what was missed and late by then.
    seen: Mutex<Vec<Tick>>,
}

/// When a tick begins, and `missed_deadlines` and `late_ticks` as it begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Tick {
    begin: u64,
    missed: u64,
    late: u64,
}

const TICKS: usize = 3000;
const BEGIN: u64 = 77_000_000_007;

impl Course {
    /// Most steps fit into 16 ms. Some take a few of these, few a third of a second.
    fn random(seed: u64) -> Course {
        let mut state = seed;
        let mut random = |below: u64| {
            state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
            (state >> 33) % below
        };
        let mut steps = || match random(20) {
            0 => random(330_000_000),
            1..6 => random(60_000_000),
            _ => random(14_000_000),
        };
        let steps = (0..TICKS).map(|_| steps()).collect();
        let oversleeps = (0..TICKS).map(|_| if random(30) == 0 { random(40_000_000) } else { 0 }).collect();
        let (now, engine, sleeps) = (AtomicU64::new(BEGIN), AtomicPtr::default(), AtomicU64::new(0));
        Course { now, engine, steps, oversleeps, sleeps, seen: Mutex::default() }
    }

    /// What must be seen: of ticks that start at once, running, each is of the point after the one before, but every one
    /// after `most` such, which is of the last point that has passed. And by how much each but the first is after its point.
    fn expected(&self, rate: (u32, u32), most: u64) -> (Vec<Tick>, Vec<u64>) {
        let time = |point: u64| {
            BEGIN + u64::try_from(u128::from(point) * 1_000_000_000 * u128::from(rate.1) / u128::from(rate.0)).unwrap()
        };
        let (mut point, mut running) = (0, 0);
        let mut tick = Tick { begin: BEGIN, missed: 0, late: 0 };
        let (mut ticks, mut lateness) = (vec![tick], vec![]);
        for number in 1..TICKS {
            let end = tick.begin + self.steps[number - 1];
            point += 1;
            if time(point) > end {
                running = 0;
                tick.begin = time(point) + self.oversleeps[number];
            } else {
                running += 1;
                tick.begin = end;
                tick.late += 1;
                while running % (most + 1) == 0 && time(point + 1) <= end {
                    point += 1;
                    tick.missed += 1;
                }
            }
            ticks.push(tick);
            lateness.push(tick.begin - time(point));
        }
        (ticks, lateness)
    }
}

unsafe extern "C-unwind" fn course_now(user: *mut c_void) -> u64 {
    // SAFETY: the course outlives its engine.
    unsafe { &*user.cast::<Course>() }.now.load(Relaxed)
}

unsafe extern "C-unwind" fn course_sleep(user: *mut c_void, at: u64) {
    // SAFETY: as above.
    let course = unsafe { &*user.cast::<Course>() };
    let now = course.now.load(Relaxed);
    assert!(at > now, "the engine sleeps for the future only");
    let number = course.seen.lock().unwrap().len();
    assert!(number < TICKS, "a sleep for a tick that will not be");
    let is_short = course.sleeps.fetch_add(1, Relaxed) % 5 == 0;
    course.now.store(if is_short { now + (at - now) / 2 } else { at + course.oversleeps[number] }, Relaxed);
}

unsafe extern "C-unwind" fn course_step(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as above.
    let course = unsafe { &*user.cast::<Course>() };
    let engine = course.engine.load(Relaxed);
    let mut info = rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() };
    // SAFETY: info may be asked for in a callback.
    assert_eq!(unsafe { rte_engine_get_info(engine, &mut info) }, 0);
    let begin = course.now.load(Relaxed);
    let mut seen = course.seen.lock().unwrap();
    course.now.fetch_add(course.steps[seen.len()], Relaxed);
    seen.push(Tick { begin, missed: info.missed_deadlines, late: info.late_ticks });
    if seen.len() == TICKS {
        // SAFETY: with timeout 0 it only asks.
        assert_eq!(unsafe { rte_engine_stop(engine, 0, std::ptr::null_mut()) }, RTE_TIMEOUT);
    }
    0
}

/// Quantiles to 1/16, and the largest exactly.
fn expect_spread(values: &mut [u64], [p50, p99, max]: [u64; 3]) {
    values.sort();
    let is_near = |said: u64, percent: usize| {
        let true_one = values[(values.len() * percent).div_ceil(100) - 1];
        said >= true_one && said - true_one <= true_one / 16
    };
    assert!(is_near(p50, 50) && is_near(p99, 99) && max == values[values.len() - 1], "{p50} {p99} {max}");
}

/// Runs a course; `most` is what the options must come to.
fn follow(rate: (u32, u32), options: rte_engine_options, most: u64, seed: u64) {
    let course = Course::random(seed);
    let user = (&raw const course).cast_mut().cast::<c_void>();
    let clock = rte_clock {
        struct_size: size_of::<rte_clock>() as u32,
        user,
        now: Some(course_now),
        sleep_until: Some(course_sleep),
        ..zeroed()
    };
    let stages = [stage(RTE_HOT, course_step)];
    let model = rte_model { user, rate_num: rate.0, rate_den: rate.1, ..model(&stages, 1, 8) };
    let host = Host::new(&model, &rte_engine_options { clock: &clock, ..options });
    course.engine.store(host.engine, Relaxed);
    host.push(message(RTE_ATTACH, 1), &[]);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, std::ptr::null_mut()) }, 0);
    let (seen, (expected, mut lateness)) = (course.seen.lock().unwrap(), course.expected(rate, most));
    for number in 0..TICKS {
        assert_eq!(seen[number], expected[number], "tick {number} of course {seed} at {rate:?}, at most {most}");
    }
    let Tick { missed, late, .. } = expected[TICKS - 1];
    let info = host.info();
    assert_eq!(
        (info.ticks, info.missed_deadlines, info.late_ticks),
        (TICKS as u64, missed, late),
        "nothing after the last"
    );
    expect_spread(&mut lateness, [info.late_ns_p50, info.late_ns_p99, info.late_ns_max]);
    // Nothing but its step takes time in a tick.
    expect_spread(&mut course.steps.clone(), [info.tick_ns_p50, info.tick_ns_p99, info.tick_ns_max]);
    assert!(missed > 0 && late > 100, "a course that leaves nothing to be done: {missed} missed, {late} late");
}

#[test]
fn ticks_that_are_late_catch_up_by_so_many_and_then_skip() {
    for rate in [(60, 1), (30_000, 1001)] {
        for most in 1..=8 {
            let options = rte_engine_options { overrun: RTE_CATCH_UP, max_catch_up: most, ..options() };
            (0..2).for_each(|seed| follow(rate, options, most.into(), seed));
        }
        follow(rate, rte_engine_options { overrun: RTE_CATCH_UP, ..options() }, 4, 9);
        follow(rate, rte_engine_options { overrun: RTE_SKIP, max_catch_up: 3, ..options() }, 0, 9);
    }
}
