//! An engine with nothing to do does nothing, and begins at once when there is something.

mod driver;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use driver::*;

unsafe extern "C-unwind" fn one_byte(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    0
}

/// Waits until the engine has run more than `ticks`, which it must.
fn ticks_after(host: &Host, ticks: u64) -> u64 {
    loop {
        let now = host.info().ticks;
        if now > ticks {
            return now;
        }
        std::thread::yield_now();
    }
}

/// Waits for the next output, which must come, and says what kind it was of.
fn next_kind(host: &Host) -> u32 {
    // SAFETY: the engine lives; the output is released once.
    unsafe {
        let mut output = zeroed();
        while rte_outbox_pop(host.engine, &mut output) != 0 {
            assert_eq!(rte_outbox_wait(host.engine, u64::MAX), 0);
        }
        let kind = output.kind;
        rte_output_release(&mut output, std::ptr::null_mut());
        kind
    }
}

#[test]
fn a_free_running_engine_ticks_once_for_each_message_that_gives_nobody_work() {
    let stages = [stage(RTE_HOT, one_byte)];
    let host = Host::new(&model(&stages, 4, 8), &options());
    start(&host);
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), 0);
    assert_eq!(next_kind(&host), RTE_ATTACHED);
    assert_eq!(next_kind(&host), RTE_CHUNK);
    assert_eq!(host.push(message(RTE_DETACH, 1), &[]), 0);
    while next_kind(&host) != RTE_DETACHED {}
    let before = host.info().ticks;
    let mut ticks = before;
    for _ in 0..500 {
        assert_eq!(host.push(message(RTE_DETACH, 9), &[]), 0);
        ticks = ticks_after(&host, ticks);
    }
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    let run = host.info().ticks - before;
    // The tick of the DETACH may not have been counted yet when `before` was read.
    assert!((500..=501).contains(&run), "{run} ticks for 500 messages");
}

/// Session 13 fails.
unsafe extern "C-unwind" fn one_byte_but_of_13(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        let batch = &*batch;
        for at in 0..batch.count as usize {
            *batch.output_size.add(at) = 1;
            *batch.status.add(at) = if *batch.session.add(at) == 13 { 5 } else { 0 };
        }
    }
    0
}

#[test]
fn so_does_one_whose_sessions_cannot_step_whatever_they_wait_for() {
    type Way = (&'static str, &'static [(u32, u32, u64)], fn(&rte_engine_info) -> bool);
    let ways: [Way; 5] = [
        ("a paused session", &[(RTE_ATTACH, 0, 1), (RTE_PAUSE, 0, 1)], |info| info.paused == 1 && info.live == 0),
        ("a quarantined one", &[(RTE_ATTACH, 0, 13)], |info| info.quarantined == 1),
        ("one that drains to nobody", &[(RTE_ATTACH, 0, 1), (RTE_DETACH, RTE_DRAIN, 1)], |info| info.live == 0),
        ("one that is held", &[(RTE_ATTACH, 0, 1)], |info| info.held == 1),
        ("two, for two reasons", &[(RTE_ATTACH, 0, 1), (RTE_ATTACH, 0, 2), (RTE_PAUSE, 0, 2)], |info| {
            info.held == 1 && info.paused == 1
        }),
    ];
    for (name, messages, is_so) in ways {
        let stages = [stage(RTE_HOT, one_byte_but_of_13)];
        let options = rte_engine_options { outbox_policy: RTE_HOLD, outbox_depth: 2, ..options() };
        let host = Host::new(&model(&stages, 4, 8), &options);
        start(&host);
        for (kind, flags, session) in messages {
            let ticks = host.info().ticks;
            assert_eq!(host.push(rte_message { flags: *flags, ..message(*kind, *session) }, &[]), 0);
            ticks_after(&host, ticks);
        }
        while !is_so(&host.info()) {
            std::thread::yield_now();
        }
        let before = host.info().ticks;
        let mut ticks = before;
        for _ in 0..200 {
            assert_eq!(host.push(message(RTE_DETACH, 9), &[]), 0);
            ticks = ticks_after(&host, ticks);
        }
        // Gauges are set within a tick.
        assert!((200..=202).contains(&(ticks - before)), "{name}: {} ticks for 200 messages", ticks - before);
    }
}

/// A clock that stands still but for sleeps.
struct Still {
    now: AtomicU64,
    sleeps: AtomicU64,
}

unsafe extern "C-unwind" fn now(user: *mut c_void) -> u64 {
    // SAFETY: the clock outlives its engine.
    unsafe { &*user.cast::<Still>() }.now.load(SeqCst)
}

unsafe extern "C-unwind" fn sleep_until(user: *mut c_void, at: u64) {
    // SAFETY: as above.
    let clock = unsafe { &*user.cast::<Still>() };
    clock.now.fetch_max(at, SeqCst);
    clock.sleeps.fetch_add(1, SeqCst);
}

#[test]
fn grid_points_that_pass_while_nobody_is_there_are_not_missed() {
    let clock = Still { now: AtomicU64::new(1), sleeps: AtomicU64::new(0) };
    let user = (&raw const clock).cast_mut().cast::<c_void>();
    let table = rte_clock {
        struct_size: size_of::<rte_clock>() as u32,
        user,
        now: Some(now),
        sleep_until: Some(sleep_until),
        ..zeroed()
    };
    let stages = [stage(RTE_HOT, one_byte)];
    let model = rte_model { rate_num: 60, rate_den: 1, ..model(&stages, 4, 8) };
    let host = Host::new(&model, &rte_engine_options { clock: &table, outbox_depth: 4096, ..options() });
    start(&host);
    for _ in 0..20 {
        let ticks = ticks_after(&host, 0);
        // An hour goes by, and somebody comes.
        clock.now.fetch_add(3_600_000_000_007, SeqCst);
        assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), 0);
        assert_eq!(next_kind(&host), RTE_ATTACHED);
        while next_kind(&host) != RTE_CHUNK {}
        assert_eq!(host.push(message(RTE_DETACH, 1), &[]), 0);
        while next_kind(&host) != RTE_DETACHED {}
        assert!(host.info().ticks > ticks);
    }
    let info = host.info();
    println!("{} ticks, {} sleeps, over {} hours", info.ticks, clock.sleeps.load(SeqCst), 20);
    assert_eq!(info.missed_deadlines, 0);
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

/// A free-running engine on inline lanes with one key that is HEAVY.
fn with_a_prompt(flags: u32) -> Host {
    let stages = [stage(RTE_HOT, one_byte), stage(RTE_ENCODE, nothing)];
    let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
    let model = rte_model { flags, keys: keys.as_ptr(), key_count: 1, seed: Some(nothing), ..model(&stages, 4, 8) };
    let host = Host::new(&model, &options());
    start(&host);
    host
}

/// Nobody tells of work that has ended before the engine could go to sleep.
#[test]
fn an_engine_whose_only_session_encodes_does_not_sleep_for_ever() {
    let host = with_a_prompt(0);
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), 0);
    for tag in 1..50 {
        assert_eq!(host.push(rte_message { tag, ..message(RTE_ACTION, 1) }, &[value(0, &[tag as u8])]), 0);
        let mut is_encoded = false;
        while !is_encoded {
            host.pop_all(|output| is_encoded |= output.kind == RTE_CHUNK && output.heavy_tag == tag);
            std::thread::yield_now();
        }
    }
}

#[test]
fn an_engine_whose_only_session_is_seeded_aside_does_not_sleep_for_ever() {
    let host = with_a_prompt(RTE_MODEL_SEED_ASIDE);
    for session in 1..50 {
        assert_eq!(host.push(message(RTE_ATTACH, session), &[]), 0);
        while next_kind(&host) != RTE_ATTACHED {}
        assert_eq!(host.push(message(RTE_DETACH, session), &[]), 0);
        while next_kind(&host) != RTE_DETACHED {}
    }
}

/// `user` says whether.
unsafe extern "C-unwind" fn may_begin(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's flag.
    if unsafe { &*user.cast::<AtomicBool>() }.load(SeqCst) { 0 } else { rte_status_code::RTE_AGAIN as i32 }
}

#[test]
fn a_session_that_is_not_ready_yet_begins_when_it_is_though_nobody_says_so() {
    let is_open = AtomicBool::new(false);
    let stages = [stage(RTE_HOT, one_byte)];
    let user = (&raw const is_open).cast_mut().cast::<c_void>();
    let host = Host::new(&rte_model { user, ready: Some(may_begin), ..model(&stages, 4, 8) }, &options());
    start(&host);
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), 0);
    while host.info().pending == 0 {
        std::thread::yield_now();
    }
    is_open.store(true, SeqCst);
    assert_eq!(next_kind(&host), RTE_ATTACHED);
}

#[test]
fn an_idle_engine_stops_at_once() {
    let stages = [stage(RTE_HOT, one_byte)];
    for rate in [(0, 0), (1, 3600)] {
        let model = rte_model { rate_num: rate.0, rate_den: rate.1, ..model(&stages, 4, 8) };
        let host = Host::new(&model, &options());
        start(&host);
        ticks_after(&host, 0);
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    }
}
