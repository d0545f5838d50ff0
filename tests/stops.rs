//! A stop at a bad time: of an engine that is idle, for whatever reason, that nobody pops, that just fails or hangs. It ends,
//! tells everybody, and leaves what was delivered to be popped.

mod driver;
mod endings_host;
mod host;

use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;

use driver::*;
use endings_host::host::*;
use endings_host::{FAILED, LANES, Order, Place, Stage, Waiters};

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
        until(|| host.info().live == 4 && host.info().dropped >= 40);
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

/// Of an engine that is ticked: a stop waits for one on another thread, as long as it may.
#[test]
fn a_stop_waits_for_one_on_another_thread() {
    let stage = Stage::silent();
    let host = stage.engine(RTE_LANES_INLINE, options());
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
    assert_eq!(host.tick(), OK);
    stage.order(Place::Detach, Order::Hang);
    let engine = host.engine.expose_provenance();
    let stop_there = move || {
        let engine = std::ptr::with_exposed_provenance_mut(engine);
        // SAFETY: the engine lives until all have returned.
        unsafe { rte_engine_stop(engine, FOR_EVER, std::ptr::null_mut()) }
    };
    std::thread::scope(|scope| {
        let first = scope.spawn(stop_there);
        until(|| stage.hanging() == 1);
        let second = scope.spawn(stop_there);
        for timeout in [0, 1_000_000] {
            let (status, words) = stop_with_words(&host, timeout);
            assert!(status == TIMEOUT && words.contains("stage detach (first row 0)"), "{words}");
        }
        stage.open();
        assert_eq!([first, second].map(|stop| stop.join().unwrap()), [OK; 2]);
    });
    assert_eq!(stop(&host, FOR_EVER), OK);
}

/// The lines of a log.
unsafe extern "C-unwind" fn note_line(user: *mut c_void, level: u32, text: *const c_char) {
    // SAFETY: `user` is the test's, which outlives the engine; the text is NUL-terminated.
    let (lines, text) = unsafe { (&*user.cast::<Mutex<Vec<String>>>(), CStr::from_ptr(text)) };
    lines.lock().unwrap().push(format!("{level}: {}", text.to_string_lossy()));
}

/// A stop, or a free, on another thread than the one that is in its tick.
#[test]
fn while_another_thread_is_in_its_tick_a_stop_does_nothing_or_asks_and_a_free_asks_and_says_so() {
    for by_free in [false, true] {
        let lines: Mutex<Vec<String>> = Mutex::default();
        let log_user = std::ptr::from_ref(&lines).cast_mut().cast();
        let stage = Stage::silent();
        let options = rte_engine_options { log: Some(note_line), log_user, ..options() };
        let host = stage.engine(RTE_LANES_INLINE, options);
        assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
        assert_eq!(host.tick(), OK);
        stage.order(Place::Hot, Order::HangThen(OK));
        let engine = host.engine.expose_provenance();
        std::thread::scope(|scope| {
            let ticking = scope.spawn(move || {
                let engine = std::ptr::with_exposed_provenance_mut(engine);
                // SAFETY: the engine lives until the scope is over.
                unsafe { rte_engine_tick(engine, u64::MAX) }
            });
            until(|| stage.hanging() == 1);
            for timeout in [1, 1_000_000, FOR_EVER] {
                let (status, words) = stop_with_words(&host, timeout);
                assert_eq!(
                    (status, words.starts_with("another thread is in rte_engine_tick")),
                    (STATE, true),
                    "{words}"
                );
                assert_eq!(host.push(message(RTE_ATTACH, 2), &[]), OK, "nothing has happened");
            }
            if by_free {
                // SAFETY: a mistake that is told: the engine stays.
                (0..2).for_each(|_| unsafe { rte_engine_free(host.engine) });
            } else {
                assert_eq!(stop(&host, 0), TIMEOUT, "it was asked for");
            }
            assert_eq!(host.push(message(RTE_ATTACH, 3), &[]), STATE);
            stage.open();
            assert_eq!(ticking.join().unwrap(), OK, "the tick ends as any other");
        });
        let told = "1: rte_engine_free while another thread is in rte_engine_tick, step or replay: only the stop was asked for";
        assert_eq!(*lines.lock().unwrap(), if by_free { vec![told] } else { vec![] });
        assert_eq!(host.tick(), CLOSED);
        assert_eq!(stop(&host, FOR_EVER), OK);
        let (outputs, end) = pop_all(&host);
        let rejected = |output: &&rte_output| (output.kind, output.status, output.session) == (RTE_REJECTED, CLOSED, 2);
        assert_eq!((outputs.iter().filter(rejected).count(), end), (3, CLOSED));
    }
}
