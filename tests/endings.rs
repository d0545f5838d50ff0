//! An engine that dies, or of which a callback never returns: whoever waits is woken, what was delivered can be popped, info
//! says why, and nothing that is called waits for what will not come.

mod driver;
mod endings_host;
mod host;

use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::time::Duration;

use driver::*;
use endings_host::host::*;
use endings_host::{FAILED, LANES, Order, Place, Stage, Waiters};
use host::device::Device;

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
        two_sessions(&host);
        start(&host);
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

/// What is left of a freed engine: the callback that hangs. When it returns after all, nothing of the host's is called.
#[test]
fn after_a_free_no_callback_begins() {
    for (lanes, place) in LANES.into_iter().flat_map(|lanes| Place::ALL.map(|place| (lanes, place))) {
        let stage = Stage::silent();
        let host = started_as(c"freed", stage, lanes);
        stage.order(place, Order::Hang);
        place.provoke(&host);
        until(|| stage.hanging() == 1);
        assert_eq!(stop(&host, 1_000_000), TIMEOUT);
        drop(host);
        let calls = stage.calls();
        stage.open();
        until(|| threads("freed") == 0);
        assert_eq!((stage.hanging(), stage.calls()), (0, calls), "{place:?} on lanes {lanes}");
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

/// Our own mistake, of whatever thread: as a stage that says DEAD.
#[test]
fn a_panic_of_ours_is_the_end_whoever_drives() {
    for (lanes, is_ticked) in LANES.into_iter().flat_map(|lanes| [(lanes, false), (lanes, true)]) {
        let stage = Stage::silent();
        let host = if is_ticked { stage.engine(lanes, options()) } else { started(stage, lanes) };
        if is_ticked {
            two_sessions(&host);
            until(|| host.tick() == OK && host.info().live == 1);
            host.pop_all(|_| ());
        }
        let waiters = Waiters::new(host.engine);
        // SAFETY: a handle is an engine, which lives.
        unsafe { &*host.engine.cast::<rte::engine::Engine>() }.poison();
        assert_eq!(waiters.join(DEAD), [(RTE_DEAD, 0, DEAD, RTE_STAGE_NONE)]);
        assert_eq!(stop(&host, FOR_EVER), OK);
        expect_dead(&host);
    }
}

/// Calls of a device that hangs.
static DEVICE_CALLS: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn never(_: *mut c_void, _: rte_event, timeout_ns: u64) -> i32 {
    DEVICE_CALLS.fetch_add(1, SeqCst);
    std::thread::sleep(Duration::from_nanos(timeout_ns.min(1_000_000)));
    TIMEOUT
}

unsafe extern "C-unwind" fn not_yet(_: *mut c_void, _: rte_event) -> i32 {
    DEVICE_CALLS.fetch_add(1, SeqCst);
    AGAIN
}

/// All its callbacks have returned, but the work that they have enqueued is never done.
#[test]
fn a_device_that_hangs_holds_neither_stop_nor_free() {
    for is_ticked in [false, true] {
        let backend = rte_backend { query: Some(not_yet), sync: Some(never), ..Device::new().table() };
        let thread_name = c"hung".as_ptr();
        let options = rte_engine_options { backend: &backend, thread_name, ..options() };
        let host = Stage::silent().engine(RTE_LANES_HOST, options);
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
        drop(host);
        let calls = DEVICE_CALLS.load(SeqCst);
        until(|| threads("hung") == 0);
        // One may have been on its way.
        assert!(DEVICE_CALLS.load(SeqCst) <= calls + 1);
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
            let calls = stage.calls();
            stage.open();
            assert_eq!(run.join().unwrap(), DEAD);
            assert_eq!(stage.calls(), calls);
        });
    }
}
