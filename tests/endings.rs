//! How an engine ends: a stage that says DEAD, one that never returns, and a stop at a bad time. Whoever waits is woken,
//! what was delivered can be popped, info says why, and nothing that is called waits for what will not come.

mod driver;
mod endings_host;
mod host;

use std::ffi::{CStr, c_void};
use std::sync::Mutex;
use std::time::Duration;

use driver::*;
use endings_host::{FAILED, LANES, Order, Place, Stage, Waiters};
use host::device::Device;

const OK: i32 = 0;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const TIMEOUT: i32 = rte_status_code::RTE_TIMEOUT as i32;
const CLOSED: i32 = rte_status_code::RTE_CLOSED as i32;
const STATE: i32 = rte_status_code::RTE_ERR_STATE as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const UNKNOWN: i32 = rte_status_code::RTE_ERR_UNKNOWN as i32;
const FOR_EVER: u64 = u64::MAX;

fn start(host: &Host) {
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, std::ptr::null_mut()) }, OK);
}

fn stop(host: &Host, timeout_ns: u64) -> i32 {
    stop_with_words(host, timeout_ns).0
}

fn stop_with_words(host: &Host, timeout_ns: u64) -> (i32, String) {
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives; the message is NUL-terminated, whether it was written or is zero.
    unsafe {
        let status = rte_engine_stop(host.engine, timeout_ns, &mut error);
        (status, CStr::from_ptr(error.message.as_ptr()).to_string_lossy().into_owned())
    }
}

fn pop(host: &Host) -> Result<rte_output, i32> {
    let mut output = zeroed();
    // SAFETY: the engine lives; what was popped is copied, then released.
    unsafe {
        let status = rte_outbox_pop(host.engine, &mut output);
        let copy = output;
        rte_output_release(&mut output, std::ptr::null_mut());
        if status == OK { Ok(copy) } else { Err(status) }
    }
}

/// All that is left, and how it ends.
fn pop_all(host: &Host) -> (Vec<rte_output>, i32) {
    let mut outputs = vec![];
    loop {
        match pop(host) {
            Ok(output) => outputs.push(output),
            Err(status) => return (outputs, status),
        }
    }
}

fn wait(host: &Host) -> i32 {
    // SAFETY: the engine lives.
    unsafe { rte_outbox_wait(host.engine, FOR_EVER) }
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Session 1 is paused in row 0, session 2 steps in row 1.
fn two_sessions(host: &Host) {
    for (kind, session) in [(RTE_ATTACH, 1), (RTE_PAUSE, 1), (RTE_ATTACH, 2)] {
        assert_eq!(host.push(message(kind, session), &[]), OK);
    }
}

/// An engine of its own thread with them, of which nothing is left to pop.
fn started(stage: &'static Stage, lanes: u32) -> Host {
    let host = stage.engine(lanes, options());
    start(&host);
    two_sessions(&host);
    until(|| host.info().attached == 2 && host.info().paused == 1 && host.info().pending == 0);
    until(|| {
        host.pop_all(|_| ());
        pop(&host).is_err()
    });
    host
}

/// It is dead, and whoever asks is told so.
fn expect_dead(host: &Host) {
    assert_eq!(pop(host).err(), Some(DEAD));
    assert_eq!(wait(host), DEAD);
    assert_eq!(host.push(message(RTE_ATTACH, 7), &[]), DEAD);
    assert_eq!(host.info().health, DEAD);
}

#[test]
fn when_a_stage_returns_dead_three_waiters_return_and_everything_says_so() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| Place::ALL.map(|place| (lanes, place))) {
        let stage = Stage::silent();
        let host = started(stage, lanes);
        let waiters = Waiters::new(host.engine);
        stage.order(place, Order::Die);
        place.provoke(&host);
        let popped = waiters.join(DEAD);
        let dead: Vec<_> = popped.iter().filter(|(kind, ..)| *kind == RTE_DEAD).collect();
        assert_eq!(dead, [&(RTE_DEAD, 0, DEAD, place.number())], "{place:?} on lanes {lanes}");
        expect_dead(&host);
        assert_eq!(stop(&host, FOR_EVER), OK);
        expect_dead(&host);
    }
}

#[test]
fn what_was_delivered_before_the_death_stays_to_be_popped() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| Place::ALL.map(|place| (lanes, place))) {
        let stage = Stage::talking();
        let host = stage.engine(lanes, rte_engine_options { outbox_depth: 4096, ..options() });
        start(&host);
        two_sessions(&host);
        until(|| host.info().chunks >= 3);
        stage.order(place, Order::Die);
        place.provoke(&host);
        until(|| host.info().health == DEAD);
        assert_eq!(stop(&host, FOR_EVER), OK);
        let (outputs, end) = pop_all(&host);
        assert_eq!(end, DEAD);
        let chunks: Vec<_> = outputs.iter().filter(|output| output.kind == RTE_CHUNK).collect();
        // Who has left takes its chunks along.
        let left = if place == Place::Detach { 0 } else { host.info().chunks };
        assert_eq!(chunks.len() as u64, left, "{place:?} on lanes {lanes}");
        assert!(
            chunks.iter().zip(0..).all(|(chunk, index)| (chunk.session, chunk.index, chunk.dropped) == (2, index, 0))
        );
        let attached: Vec<_> = outputs[..2].iter().map(|output| (output.kind, output.session)).collect();
        assert_eq!(attached, [(RTE_ATTACHED, 1), (RTE_ATTACHED, 2)]);
        let last = outputs.last().unwrap();
        assert_eq!((last.kind, last.status, last.stage), (RTE_DEAD, DEAD, place.number()));
        expect_dead(&host);
    }
}

#[test]
fn notices_of_the_tick_that_kills_come_before_the_death() {
    for lanes in LANES {
        let stage = Stage::silent();
        let host = stage.engine(lanes, options());
        two_sessions(&host);
        assert_eq!(host.tick(), OK);
        host.pop_all(|_| ());
        for _ in 0..3 {
            assert_eq!(host.push(message(RTE_ACTION, 55), &[]), OK);
        }
        stage.order(Place::Ready, Order::Die);
        Place::Ready.provoke(&host);
        assert_eq!(host.tick(), DEAD);
        let (outputs, end) = pop_all(&host);
        let told: Vec<_> =
            outputs.iter().map(|output| (output.kind, output.session, output.status, output.dropped)).collect();
        assert_eq!(told, [(RTE_REJECTED, 55, UNKNOWN, 3), (RTE_DEAD, 0, DEAD, 0)]);
        assert_eq!(end, DEAD);
    }
}

/// Another lane's callback may never return; whoever drives and asks is told all the same.
#[test]
fn a_death_waits_for_nobody_else() {
    for is_ticked in [false, true] {
        let stage = Stage::silent();
        let host = stage.engine(RTE_LANES_THREADS, options());
        two_sessions(&host);
        if is_ticked {
            until(|| host.tick() == OK && host.info().live == 1);
        } else {
            start(&host);
            until(|| host.info().live == 1);
        }
        host.pop_all(|_| ());
        stage.order(Place::Encode, Order::Hang);
        Place::Encode.provoke(&host);
        until(|| {
            assert!(!is_ticked || host.tick() == OK);
            stage.hanging() == 1
        });
        let waiters = Waiters::new(host.engine);
        // Session 1 goes on, so that HOT runs beside the encode of 2.
        stage.order(Place::Hot, Order::Die);
        assert_eq!(host.push(message(RTE_RESUME, 1), &[]), OK);
        if is_ticked {
            // SAFETY: the engine lives.
            until(|| unsafe { rte_engine_tick(host.engine, 0) } == DEAD);
        }
        waiters.join(DEAD);
        expect_dead(&host);
        let (status, words) = stop_with_words(&host, 1_000_000);
        assert!(status == TIMEOUT && words.contains("stage encode (first row 1)"), "{status} {words}");
        drop(host); // at once
        assert_eq!(stage.hanging(), 1);
        stage.open();
    }
}

#[test]
fn who_says_dead_when_it_is_tried_alone_ends_the_engine() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| [(lanes, Place::Hot), (lanes, Place::Deferred)]) {
        let stage = Stage::silent();
        let host = started(stage, lanes);
        assert_eq!(host.push(message(RTE_RESUME, 1), &[]), OK);
        until(|| host.info().live == 2);
        stage.order(place, Order::DieAlone);
        until(|| host.info().health == DEAD);
        let (outputs, end) = pop_all(&host);
        let told: Vec<_> = outputs.iter().map(|output| (output.kind, output.status, output.stage)).collect();
        let failed = (RTE_TICK_FAILED, FAILED, place.number());
        let dead = (RTE_DEAD, DEAD, place.number());
        assert!(told == [failed, failed, dead] || told == [failed, dead], "{told:?}");
        assert_eq!(
            outputs.iter().filter(|output| output.kind == RTE_TICK_FAILED).map(|output| output.dropped).sum::<u64>(),
            2
        );
        assert_eq!(end, DEAD);
    }
}

/// It must not; what it leaves behind is dead, and can be stopped and freed.
#[test]
fn what_unwinds_out_of_a_callback_ends_the_engine_and_nothing_else() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| Place::ALL.map(|place| (lanes, place))) {
        for is_ticked in [false, true] {
            let stage = Stage::silent();
            let host = if is_ticked { stage.engine(lanes, options()) } else { started(stage, lanes) };
            if is_ticked {
                two_sessions(&host);
                until(|| host.tick() == OK && host.info().live == 1);
            }
            stage.order(place, Order::Unwind);
            place.provoke(&host);
            until(|| if is_ticked { host.tick() == DEAD } else { host.info().health == DEAD });
            assert_eq!(stop(&host, FOR_EVER), OK, "{place:?} on lanes {lanes}, ticked: {is_ticked}");
            let info = host.info();
            assert_eq!((info.health, info.stalled_stage), (DEAD, RTE_STAGE_NONE));
            let (outputs, end) = pop_all(&host);
            assert_eq!((outputs.last().map(|output| output.kind), end), (Some(RTE_DEAD), DEAD));
        }
    }
}

/// What info says while it hangs, then what a stop says.
fn expect_stalled(host: &Host, place: Place) {
    until(|| host.info().stalled_stage == place.number());
    let info = host.info();
    let row = place.row();
    assert_eq!((info.health, info.stalled_stage, info.stalled_row), (TIMEOUT, place.number(), row), "{place:?}");
    let (status, words) = stop_with_words(host, 1_000_000);
    let named = format!("stage {} (first row {row})", place.name());
    assert!(status == TIMEOUT && words.contains(&named), "{place:?}: {status} {words}");
    assert_eq!(host.info().stalled_stage, place.number());
}

#[test]
fn a_stage_that_hangs_is_named_and_free_returns_at_once() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| Place::ALL.map(|place| (lanes, place))) {
        let stage = Stage::silent();
        let host = started(stage, lanes);
        stage.order(place, Order::Hang);
        place.provoke(&host);
        until(|| stage.hanging() == 1);
        expect_stalled(&host, place);
        drop(host);
        assert_eq!(stage.hanging(), 1, "free has not waited");
        stage.open();
    }
}

#[test]
fn a_stage_that_hung_for_a_while_is_forgotten_and_the_stop_goes_on() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| Place::ALL.map(|place| (lanes, place))) {
        let stage = Stage::silent();
        let host = started(stage, lanes);
        stage.order(place, Order::Hang);
        place.provoke(&host);
        until(|| stage.hanging() == 1);
        expect_stalled(&host, place);
        stage.open();
        assert_eq!(stop(&host, FOR_EVER), OK);
        let info = host.info();
        assert_eq!((info.health, info.stalled_stage), (OK, RTE_STAGE_NONE), "{place:?} on lanes {lanes}");
        assert_eq!(pop_all(&host).1, CLOSED);
    }
}

#[test]
fn a_hang_in_the_detach_of_the_stop_itself_is_named_too() {
    for lanes in LANES {
        let stage = Stage::silent();
        let host = started(stage, lanes);
        stage.order(Place::Detach, Order::Hang);
        assert_eq!(stop(&host, 0), TIMEOUT);
        until(|| stage.hanging() == 1);
        // Of both sessions, the first.
        until(|| host.info().stalled_stage == RTE_STAGE_DETACH);
        assert_eq!(host.info().stalled_row, 0);
        let (status, words) = stop_with_words(&host, 1_000_000);
        assert!(status == TIMEOUT && words.contains("stage detach (first row 0)"), "{words}");
        drop(host);
        stage.open();
    }
}

/// What can be popped is waited for no longer, also where the tick that told it never ends.
#[test]
fn a_waiter_is_woken_while_a_stage_hangs() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| Place::ALL.map(|place| (lanes, place))) {
        let stage = Stage::talking();
        let host = stage.engine(lanes, options());
        two_sessions(&host);
        until(|| host.tick() == OK && host.info().live == 1);
        host.pop_all(|_| ());
        let waiters = Waiters::new(host.engine);
        stage.order(place, Order::Hang);
        assert_eq!(host.push(message(RTE_DETACH, 1), &[]), OK);
        place.provoke(&host);
        let engine = host.engine.expose_provenance();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let engine = std::ptr::with_exposed_provenance_mut(engine);
                // SAFETY: the engine is ticked by this thread alone, and lives until it is done.
                until(|| unsafe { rte_engine_tick(engine, FOR_EVER) == OK } && stage.is_open());
            });
            until(|| stage.hanging() == 1);
            println!("{place:?} on lanes {lanes}");
            let detached = (RTE_DETACHED, 1, OK, RTE_STAGE_NONE);
            until(|| waiters.popped().contains(&detached));
            let has_chunk = || waiters.popped().iter().any(|(kind, ..)| *kind == RTE_CHUNK);
            until(|| place != Place::Finalize || has_chunk());
            assert_eq!(stage.hanging(), 1);
            stage.open();
        });
        assert_eq!(stop(&host, FOR_EVER), OK);
        waiters.join(CLOSED);
    }
}

/// A callback that the stop waits for comes to nothing.
#[test]
fn what_fails_while_it_is_being_stopped_is_told() {
    let places = Place::ALL.into_iter().filter(|place| *place != Place::Ready);
    for (place, lanes) in places.flat_map(|place| LANES.map(|lanes| (place, lanes))) {
        for status in [FAILED, DEAD] {
            let stage = Stage::silent();
            let host = started(stage, lanes);
            stage.order(place, Order::HangThen(status));
            place.provoke(&host);
            until(|| stage.hanging() == 1);
            assert_eq!(stop(&host, 1_000_000), TIMEOUT);
            stage.open();
            assert_eq!(stop(&host, FOR_EVER), OK);
            let (outputs, end) = pop_all(&host);
            let name = format!("{place:?} on lanes {lanes}, {status}");
            if status == DEAD {
                let last = outputs.last().unwrap();
                assert_eq!((last.kind, last.stage, end), (RTE_DEAD, place.number(), DEAD), "{name}");
                continue;
            }
            assert_eq!(end, CLOSED, "{name}");
            let failed = outputs.iter().filter(|output| output.kind == RTE_TICK_FAILED);
            assert!(failed.clone().all(|output| (output.stage, output.status) == (place.number(), FAILED)), "{name}");
            assert_eq!(failed.map(|output| output.dropped).sum::<u64>(), host.info().failed_ticks, "{name}");
            assert!(host.info().failed_ticks > 0, "{name}");
            let ends = outputs.iter().filter(|output| matches!(output.kind, RTE_DETACHED | RTE_REJECTED));
            let mut ends: Vec<u64> = ends.map(|output| output.session).collect();
            ends.sort();
            assert_eq!(ends, if place == Place::Seed { vec![1, 2, 3] } else { vec![1, 2] }, "{name}");
        }
    }
}

unsafe extern "C-unwind" fn never(_: *mut c_void, _: rte_event, timeout_ns: u64) -> i32 {
    std::thread::sleep(Duration::from_nanos(timeout_ns.min(1_000_000)));
    TIMEOUT
}

unsafe extern "C-unwind" fn not_yet(_: *mut c_void, _: rte_event) -> i32 {
    AGAIN
}

/// All its callbacks have returned, but the work that they have enqueued is never done.
#[test]
fn a_device_that_hangs_holds_neither_stop_nor_free() {
    for is_ticked in [false, true] {
        let backend = rte_backend { query: Some(not_yet), sync: Some(never), ..Device::new().table() };
        let host = Stage::silent().engine(RTE_LANES_HOST, rte_engine_options { backend: &backend, ..options() });
        two_sessions(&host);
        if is_ticked {
            // SAFETY: the engine lives.
            until(|| unsafe { rte_engine_tick(host.engine, 0) } == AGAIN);
        } else {
            start(&host);
            assert_eq!(wait(&host), OK);
        }
        let (status, words) = stop_with_words(&host, 5_000_000);
        assert_eq!((status, words.as_str()), (TIMEOUT, "the engine is still working"));
        assert_eq!(stop(&host, 1), TIMEOUT);
    }
}

#[test]
fn a_frame_loop_is_not_held_up_by_a_stage_that_hangs() {
    for place in [Place::Hot, Place::Deferred, Place::Encode, Place::Detach, Place::Seed] {
        let stage = Stage::silent();
        let host = stage.engine(RTE_LANES_THREADS, options());
        // SAFETY: the engine lives.
        let tick = || unsafe { rte_engine_tick(host.engine, 0) };
        two_sessions(&host);
        until(|| tick() == OK && host.info().live == 1);
        stage.order(place, Order::Hang);
        place.provoke(&host);
        until(|| {
            assert!(tick() >= OK);
            stage.hanging() == 1
        });
        expect_stalled(&host, place);
        assert_eq!(tick(), CLOSED);
        assert_eq!(host.push(message(RTE_ATTACH, 9), &[]), STATE);
        host.pop_all(|_| ());
        assert_eq!(pop(&host).err(), Some(AGAIN));
        drop(host);
        assert_eq!(stage.hanging(), 1, "free has not waited");
        stage.open();
    }
}

#[test]
fn who_runs_an_engine_that_hangs_is_stopped_from_elsewhere() {
    for lanes in LANES {
        let stage = Stage::silent();
        let host = stage.engine(lanes, options());
        two_sessions(&host);
        stage.order(Place::Hot, Order::Hang);
        let engine = Mutex::new(host.engine.expose_provenance());
        std::thread::scope(|scope| {
            let run = scope.spawn(|| {
                let engine = std::ptr::with_exposed_provenance_mut(*engine.lock().unwrap());
                // SAFETY: the engine is freed while it hangs: then it is left to this thread.
                unsafe { rte_engine_run(engine, std::ptr::null_mut()) }
            });
            until(|| stage.hanging() == 1);
            expect_stalled(&host, Place::Hot);
            drop(host);
            stage.open();
            assert_eq!(run.join().unwrap(), OK);
        });
    }
}

#[test]
fn a_stop_wakes_three_waiters() {
    for lanes in LANES {
        let host = started(Stage::silent(), lanes);
        let waiters = Waiters::new(host.engine);
        assert_eq!(stop(&host, FOR_EVER), OK);
        let mut popped = waiters.join(CLOSED);
        popped.sort();
        assert_eq!(popped, [1, 2].map(|session| (RTE_DETACHED, session, CLOSED, RTE_STAGE_NONE)));
    }
}

/// Idle in each way that there is.
#[test]
fn an_idle_engine_stops_whatever_it_is_idle_for() {
    type Idle = (&'static str, fn(&Host, &Stage));
    let ways: [Idle; 5] = [
        ("nobody", |_, _| ()),
        ("a paused session", |host, _| {
            assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
            assert_eq!(host.push(message(RTE_PAUSE, 1), &[]), OK);
            until(|| host.info().paused == 1 && host.info().pending == 0);
        }),
        ("a gated session", |host, stage| {
            stage.order(Place::Ready, Order::NotYet);
            assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
            until(|| host.info().pending == 1);
        }),
        ("a quarantined session", |host, stage| {
            stage.order(Place::Hot, Order::FailRows);
            assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
            until(|| host.info().quarantined == 1);
        }),
        ("a draining session whose consumer is gone", |host, _| {
            assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
            until(|| host.info().chunks > 0);
            assert_eq!(host.push(rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, 1) }, &[]), OK);
            until(|| host.info().live == 0);
        }),
    ];
    for (lanes, rate) in LANES.into_iter().flat_map(|lanes| [(lanes, 0), (lanes, 200)]) {
        for (name, way) in ways {
            println!("lanes {lanes}, rate {rate}: {name}");
            let stage = Stage::talking();
            let host = stage.engine_at(rate, lanes, options());
            start(&host);
            way(&host, stage);
            assert_eq!(stop(&host, FOR_EVER), OK);
            assert_eq!(stop(&host, FOR_EVER), OK, "again");
            assert_eq!(pop_all(&host).1, CLOSED);
        }
        let host = Stage::silent().engine_at(rate, lanes, options());
        assert_eq!(stop(&host, FOR_EVER), OK, "never driven");
        assert_eq!(pop(&host).err(), Some(CLOSED));
    }
}

#[test]
fn a_stop_with_full_outboxes_and_no_consumer_ends_and_all_stays_to_be_popped() {
    const DEPTH: u64 = 3;
    for (lanes, policy) in LANES.into_iter().flat_map(|lanes| [(lanes, RTE_DROP_OLDEST), (lanes, RTE_DROP_NEWEST)]) {
        let stage = Stage::talking();
        let host =
            stage.engine(lanes, rte_engine_options { outbox_depth: DEPTH as u32, outbox_policy: policy, ..options() });
        start(&host);
        for session in 1..=4 {
            assert_eq!(host.push(message(RTE_ATTACH, session), &[]), OK);
        }
        // One leaves when its last chunk was popped, which it never is.
        until(|| host.info().dropped >= 40);
        assert_eq!(host.push(rte_message { flags: RTE_DRAIN, tag: 7, ..message(RTE_DETACH, 4) }, &[]), OK);
        until(|| host.info().live == 3);
        assert_eq!(stop(&host, FOR_EVER), OK);
        let (outputs, end) = pop_all(&host);
        assert_eq!(end, CLOSED);
        for session in 1..=4 {
            let own: Vec<_> = outputs.iter().filter(|output| output.session == session).collect();
            let kinds: Vec<u32> = own.iter().map(|output| output.kind).collect();
            assert_eq!(kinds, [RTE_ATTACHED, RTE_CHUNK, RTE_CHUNK, RTE_CHUNK, RTE_DETACHED], "session {session}");
            let last = own.last().unwrap();
            assert_eq!((last.status, last.tag), if session == 4 { (OK, 7) } else { (CLOSED, 0) });
        }
        let info = host.info();
        assert_eq!(info.chunks, info.dropped + 4 * DEPTH, "each chunk that was made is accounted for");
    }
}

/// Outputs in a consumer's hands outlive the engine, and giving them back then is fine.
#[test]
fn a_stop_does_not_wait_for_what_a_consumer_holds() {
    for lanes in LANES {
        let stage = Stage::talking();
        let host = stage.engine(lanes, options());
        start(&host);
        two_sessions(&host);
        let mut held: Vec<rte_output> = vec![];
        // All buffers of session 2: until it loses chunks for want of one.
        until(|| host.info().chunks > 0);
        while host.info().dropped == 0 || held.len() < 4 {
            let mut output = zeroed();
            // SAFETY: the engine lives.
            if unsafe { rte_outbox_pop(host.engine, &mut output) } == OK {
                held.push(output);
            }
        }
        assert_eq!(stop(&host, FOR_EVER), OK);
        drop(host);
        for mut output in held {
            if output.kind == RTE_CHUNK {
                // SAFETY: a chunk is readable until it is released.
                assert_eq!(unsafe { std::slice::from_raw_parts(output.data.cast::<u8>(), output.size) }, [1]);
            }
            // SAFETY: popped once, released once.
            unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
        }
    }
}

#[test]
fn stops_from_many_threads_all_return() {
    for lanes in LANES {
        let host = started(Stage::talking(), lanes);
        let engine = host.engine.expose_provenance();
        let stop = || {
            let engine = std::ptr::with_exposed_provenance_mut(engine);
            // SAFETY: the engine lives until all have returned.
            unsafe { rte_engine_stop(engine, FOR_EVER, std::ptr::null_mut()) }
        };
        std::thread::scope(|scope| {
            let stops = [0; 4].map(|_| scope.spawn(stop));
            assert_eq!(stops.map(|stop| stop.join().unwrap()), [OK; 4]);
        });
    }
}
