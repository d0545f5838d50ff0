//! Threads lanes: a slow encode, and whoever comes and goes meanwhile, holds nobody up.

mod driver;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use driver::*;

const OK: i32 = 0;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const TIMEOUT: i32 = rte_status_code::RTE_TIMEOUT as i32;
const DEADLOCK: i32 = rte_status_code::RTE_ERR_DEADLOCK as i32;
/// The prompt of this session is encoded only when the gate is open.
const SLOW: u64 = 7;
/// This session is seeded only when the gate is open.
const SLOW_SEED: u64 = 8;
const PROMPT: u32 = 0;

/// What the stages share with the test.
#[derive(Default)]
struct World {
    is_open: Mutex<bool>,
    opened: Condvar,
    hot_waits: Mutex<bool>,
    hot_begun: AtomicU64,
    encodes_begun: AtomicU64,
    hot_calls: AtomicU64,
    seeds: AtomicU64,
    detaches: AtomicU64,
    engine: AtomicPtr<rte_engine>,
    stop_in_callback: AtomicI32,
    flags: u32,
    work: Duration,
}

impl World {
    fn of<'a>(user: *mut c_void) -> &'a World {
        // SAFETY: `user` is the test's world, which outlives its engine.
        unsafe { &*user.cast::<World>() }
    }

    fn pass(&self) {
        let mut is_open = self.is_open.lock().unwrap();
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap();
        }
    }

    fn open(&self) {
        *self.is_open.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = true;
        self.opened.notify_all();
    }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    let world = World::of(user);
    world.hot_begun.fetch_add(1, SeqCst);
    if *world.hot_waits.lock().unwrap() {
        world.pass();
    }
    std::thread::sleep(world.work);
    world.hot_calls.fetch_add(1, SeqCst);
    0
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    std::thread::sleep(World::of(user).work);
    // SAFETY: the arrays of a batch.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    0
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    let world = World::of(user);
    world.encodes_begun.fetch_add(1, SeqCst);
    let engine = world.engine.load(SeqCst);
    if !engine.is_null() {
        // SAFETY: what may be called in a callback, on whatever thread it is.
        world.stop_in_callback.store(unsafe { rte_engine_stop(engine, 1, std::ptr::null_mut()) }, SeqCst);
    }
    // SAFETY: the arrays of a batch.
    if unsafe { std::slice::from_raw_parts((*batch).session, (*batch).count as usize) }.contains(&SLOW) {
        world.pass();
    }
    0
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    let world = World::of(user);
    // SAFETY: the arrays of a batch.
    if unsafe { std::slice::from_raw_parts((*batch).session, (*batch).count as usize) }.contains(&SLOW_SEED) {
        world.pass();
    }
    // SAFETY: as above.
    world.seeds.fetch_add(unsafe { (*batch).count }.into(), SeqCst);
    0
}

unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the batch of a call.
    World::of(user).detaches.fetch_add(unsafe { (*batch).count }.into(), SeqCst);
    0
}

/// An engine whose gate is opened before it is freed, also where a test fails.
struct Gated<'a> {
    /// Dropped first.
    _opener: Opener<'a>,
    host: Host,
}

struct Opener<'a>(&'a World);

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

impl std::ops::Deref for Gated<'_> {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

fn engine(world: &World, encode_lanes: u32) -> Gated<'_> {
    engine_with(world, rte_engine_options { encode_lanes, ..options() })
}

fn engine_with(world: &World, options: rte_engine_options) -> Gated<'_> {
    let stages = [
        stage(RTE_HOT, hot),
        stage(RTE_DEFERRED, deferred),
        rte_stage { name: c"text".as_ptr(), ..stage(RTE_ENCODE, encode) },
    ];
    let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
    let user = std::ptr::from_ref(world).cast_mut().cast();
    let hooks = rte_model { flags: world.flags, seed: Some(seed), detach: Some(detach), ..model(&stages, 8, 64) };
    let model = rte_model { user, keys: keys.as_ptr(), key_count: 1, ..hooks };
    let host = Host::new(&model, &rte_engine_options { lanes: RTE_LANES_THREADS, ..options });
    assert_eq!(host.info().pipeline_depth_chunks, 2, "lanes overlap, so it is pipelined");
    Gated { _opener: Opener(world), host }
}

fn prompt(host: &Host, kind: u32, session: u64, tag: u64) {
    assert_eq!(host.push(rte_message { tag, ..message(kind, session) }, &[value(PROMPT, &tag.to_ne_bytes())]), OK);
}

/// What came out of a tick: the chunks' index and heavy tag by session, and the kinds of notices.
#[derive(Default)]
struct Came {
    chunks: BTreeMap<u64, (u64, u64)>,
    notices: Vec<(u32, u64)>,
}

fn tick(host: &Host) -> Came {
    assert_eq!(host.tick(), OK);
    let mut came = Came::default();
    host.pop_all(|output| {
        if output.kind == RTE_CHUNK {
            assert!(came.chunks.insert(output.session, (output.index, output.heavy_tag)).is_none(), "one a tick");
        } else {
            came.notices.push((output.kind, output.session));
        }
    });
    came
}

/// Four sessions, of which the slow one is in the middle of an encode that waits for the gate.
fn with_a_slow_encode(world: &World, encode_lanes: u32) -> Gated<'_> {
    let host = engine(world, encode_lanes);
    for session in [1, 2, 3, SLOW] {
        prompt(&host, RTE_ATTACH, session, 10 + session);
    }
    tick(&host);
    assert_eq!(tick(&host).chunks.len(), 4);
    prompt(&host, RTE_ACTION, SLOW, 99);
    assert_eq!(tick(&host).chunks.len(), 4, "what was in flight is delivered");
    host
}

#[test]
fn bystanders_of_a_blocked_encode_miss_nothing() {
    let world = World::default();
    let host = with_a_slow_encode(&world, 1);
    let before = world.hot_calls.load(SeqCst);
    for index in 2..52 {
        let came = tick(&host);
        assert_eq!(came.chunks, BTreeMap::from([(1, (index, 11)), (2, (index, 12)), (3, (index, 13))]));
    }
    assert!(world.hot_calls.load(SeqCst) >= before + 49);
    world.open();
    let first = std::iter::from_fn(|| Some(tick(&host))).find_map(|came| came.chunks.get(&SLOW).copied());
    assert_eq!(first, Some((2, 99)), "its next chunk is made with the new prompt, and none is missing");
}

#[test]
fn who_leaves_resets_or_joins_meanwhile_stalls_nobody() {
    let world = World::default();
    let host = with_a_slow_encode(&world, 1);
    host.push(message(RTE_DETACH, SLOW), &[]);
    host.push(message(RTE_DETACH, 1), &[]);
    host.push(message(RTE_RESET, 2), &[]);
    prompt(&host, RTE_ATTACH, 20, 1);
    let came = tick(&host);
    for notice in [(RTE_DETACHED, SLOW), (RTE_DETACHED, 1), (RTE_DETACHED, 2), (RTE_ATTACHED, 20)] {
        assert!(came.notices.contains(&notice), "{notice:?} at this boundary");
    }
    assert_eq!(came.chunks.keys().copied().collect::<Vec<_>>(), [3]);
    // The new life of 2 begins when its row's own HOT, of the tick before, has passed; then it misses nothing either.
    let mut next_of_2 = 0;
    for index in 0..50 {
        let came = tick(&host);
        assert_eq!([20, 3].map(|session| came.chunks[&session].0), [index, index + 3]);
        match came.chunks.get(&2) {
            Some((index, _)) => {
                assert_eq!(*index, next_of_2);
                next_of_2 += 1;
            }
            None => assert_eq!(next_of_2, 0, "once it has begun"),
        }
    }
    assert!(next_of_2 > 0);
    assert_eq!(host.info().retiring, 1, "the row of the slow one waits for its own encode");
    world.open();
    while host.info().retiring > 0 {
        assert_eq!(tick(&host).chunks.len(), 3);
    }
}

/// Starts the engine with these sessions, of which SLOW begins an encode that waits for the gate. Gives all chunks of the
/// others that came meanwhile, not yet released.
fn started_behind_a_slow_encode(world: &World, host: &Host, sessions: &[u64]) -> Vec<rte_output> {
    sessions.iter().for_each(|session| prompt(host, RTE_ATTACH, *session, 1));
    prompt(host, RTE_ACTION, SLOW, 99);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, std::ptr::null_mut()) }, OK);
    let mut kept = Vec::new();
    let is_there = || world.encodes_begun.load(SeqCst) == 1 && host.info().encoding == 1;
    while !is_there() || host.info().live > 0 {
        match pop(host) {
            Some(output) if output.kind == RTE_CHUNK && output.session != SLOW => kept.push(output),
            Some(output) => release(output),
            None => std::thread::yield_now(),
        }
    }
    kept
}

fn pop(host: &Host) -> Option<rte_output> {
    let mut output = zeroed();
    // SAFETY: the engine lives.
    (unsafe { rte_outbox_pop(host.engine, &mut output) } == OK).then_some(output)
}

fn release(mut output: rte_output) {
    // SAFETY: each is released once.
    unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
}

#[test]
fn an_engine_that_waits_for_a_slow_encode_alone_sleeps_and_hears_of_who_comes() {
    let world = World::default();
    let host = engine(&world, 1);
    started_behind_a_slow_encode(&world, &host, &[SLOW]);
    for leaves in [false, true] {
        if leaves {
            host.push(message(RTE_DETACH, SLOW), &[]);
            while host.info().retiring == 0 {
                std::thread::yield_now();
            }
        }
        let before = host.info().ticks;
        let mut ticks = before;
        for _ in 0..100 {
            host.push(message(RTE_DETACH, 55), &[]);
            while host.info().ticks == ticks {
                std::thread::yield_now();
            }
            ticks = host.info().ticks;
        }
        // One that had begun before may be among them.
        assert!((100..=102).contains(&(ticks - before)), "{} ticks for 100 messages", ticks - before);
    }
    prompt(&host, RTE_ATTACH, 20, 1);
    while pop(&host).is_none_or(|output| (output.kind, output.session) != (RTE_CHUNK, 20)) {
        std::thread::yield_now();
    }
    assert!(!*world.is_open.lock().unwrap());
}

#[test]
fn a_release_is_heard_of_while_an_encode_goes_on() {
    let world = World::default();
    let options = rte_engine_options { outbox_policy: RTE_HOLD, outbox_depth: 1, held_max: 1, ..options() };
    let host = engine_with(&world, options);
    let mut kept = started_behind_a_slow_encode(&world, &host, &[1, SLOW]);
    // Whoever is held by its full ring goes on, until it has no buffer left.
    while host.info().held == 0 || kept.len() < 2 {
        kept.extend(pop(&host));
        std::thread::yield_now();
    }
    let next = kept.last().unwrap().index + 1;
    kept.into_iter().for_each(release);
    while pop(&host).is_none_or(|output| (output.kind, output.session, output.index) != (RTE_CHUNK, 1, next)) {
        std::thread::yield_now();
    }
    assert!(!*world.is_open.lock().unwrap());
}

#[test]
fn with_two_encode_lanes_a_second_encode_passes_by() {
    let world = World::default();
    let host = with_a_slow_encode(&world, 2);
    prompt(&host, RTE_ACTION, 1, 77);
    let begin = Instant::now();
    while tick(&host).chunks.get(&1).is_none_or(|(_, heavy_tag)| *heavy_tag != 77) {
        assert!(begin.elapsed() < Duration::from_secs(60), "the second encode waits for the first");
    }
    assert!(!*world.is_open.lock().unwrap());
    world.open();
}

#[test]
fn residents_do_not_wait_for_a_seed_aside() {
    let world = World { flags: RTE_MODEL_SEED_ASIDE, ..World::default() };
    let host = engine(&world, 1);
    prompt(&host, RTE_ATTACH, 1, 1);
    while !tick(&host).notices.contains(&(RTE_ATTACHED, 1)) {}
    let mut next = std::iter::from_fn(|| Some(tick(&host))).find_map(|came| came.chunks.get(&1).copied()).unwrap().0;
    prompt(&host, RTE_ATTACH, SLOW_SEED, 2);
    for _ in 0..50 {
        let came = tick(&host);
        next += 1;
        assert_eq!((came.chunks, came.notices), (BTreeMap::from([(1, (next, 1))]), vec![]));
    }
    assert_eq!(host.info().pending, 1);
    world.open();
    while !tick(&host).chunks.contains_key(&SLOW_SEED) {}
    assert_eq!(world.seeds.load(SeqCst), 2);
}

#[test]
fn who_leaves_while_it_is_seeded_aside_is_detached_once() {
    for is_reset in [false, true] {
        let world = World { flags: RTE_MODEL_SEED_ASIDE, ..World::default() };
        let host = engine(&world, 1);
        prompt(&host, RTE_ATTACH, SLOW_SEED, 2);
        tick(&host);
        let leave = if is_reset { RTE_RESET } else { RTE_DETACH };
        host.push(message(leave, SLOW_SEED), &[]);
        assert_eq!(tick(&host).notices, [(RTE_DETACHED, SLOW_SEED)]);
        assert_eq!(world.detaches.load(SeqCst), 0, "its seed is still running");
        world.open();
        while world.detaches.load(SeqCst) == 0 {
            tick(&host);
        }
        while is_reset && !tick(&host).chunks.contains_key(&SLOW_SEED) {}
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, OK);
        let lives = 1 + u64::from(is_reset);
        assert_eq!((world.seeds.load(SeqCst), world.detaches.load(SeqCst)), (lives, lives));
    }
}

#[test]
fn a_stop_that_runs_out_of_time_names_the_stage_and_may_be_called_again() {
    let world = World::default();
    let host = with_a_slow_encode(&world, 1);
    while world.encodes_begun.load(SeqCst) == 0 {
        std::thread::yield_now();
    }
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives; on error the message is NUL-terminated.
    let message = unsafe {
        assert_eq!(rte_engine_stop(host.engine, 1_000_000, &mut error), TIMEOUT);
        CStr::from_ptr(error.message.as_ptr()).to_string_lossy().into_owned()
    };
    assert!(message.contains("stage text"), "{message}");
    assert_eq!(host.push(driver::message(RTE_ATTACH, 40), &[]), rte_status_code::RTE_ERR_STATE as i32);
    world.open();
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, &mut error) }, OK);
    let mut detached = 0;
    host.pop_all(|output| detached += u64::from(output.kind == RTE_DETACHED));
    assert_eq!(detached, 4);
}

#[test]
fn a_frame_loop_that_never_waits_goes_on_with_the_same_tick() {
    let world = World { hot_waits: Mutex::new(true), ..World::default() };
    let host = engine(&world, 1);
    prompt(&host, RTE_ATTACH, 1, 1);
    let tick_once = || {
        // SAFETY: the engine lives and is ticked by one thread.
        unsafe { rte_engine_tick(host.engine, 0) }
    };
    while world.hot_begun.load(SeqCst) == 0 {
        assert!(tick_once() >= OK);
    }
    // HOT stands still. A tick that was begun before may end; then none does.
    while tick_once() == OK {}
    for _ in 0..100 {
        assert_eq!(tick_once(), AGAIN);
    }
    let stuck = host.info().ticks;
    world.open();
    while host.info().ticks < stuck + 3 {
        assert!(tick_once() >= OK);
    }
}

#[test]
fn what_hot_came_to_in_the_next_tick_is_said_of_who_does_not_step_in_it() {
    let world = World { hot_waits: Mutex::new(true), ..World::default() };
    let host = engine(&world, 1);
    let age = || {
        let mut info = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives; a valid place.
        assert_eq!(unsafe { rte_session_get_info(host.engine, 1, &mut info) }, OK);
        info.age
    };
    prompt(&host, RTE_ATTACH, 1, 1);
    tick(&host);
    assert_eq!(age(), 0, "HOT stands still");
    world.open();
    // SAFETY: the engine lives and is ticked by one thread; nobody is due.
    assert_eq!(unsafe { rte_engine_step(host.engine, std::ptr::null(), 0, u64::MAX) }, OK);
    assert_eq!(age(), 1);
}

#[test]
fn a_callback_on_a_lane_is_inside_the_engine() {
    let world = World::default();
    let host = engine(&world, 1);
    world.engine.store(host.engine, SeqCst);
    prompt(&host, RTE_ATTACH, 1, 1);
    tick(&host);
    prompt(&host, RTE_ACTION, 1, 2);
    while tick(&host).chunks.get(&1).is_none_or(|(_, heavy_tag)| *heavy_tag != 2) {}
    assert_eq!(world.stop_in_callback.load(SeqCst), DEADLOCK);
}

/// Printed, not asserted: a tick takes as long as the longer of the two, not as both.
#[test]
fn hot_and_deferred_overlap() {
    let world = World { work: Duration::from_millis(5), ..World::default() };
    let host = engine(&world, 1);
    prompt(&host, RTE_ATTACH, 1, 1);
    tick(&host);
    tick(&host);
    let begin = Instant::now();
    (0..50).for_each(|_| _ = tick(&host));
    println!("HOT and DEFERRED of 5 ms each: {:.2} ms a tick", begin.elapsed().as_secs_f64() * 1000.0 / 50.0);
}
