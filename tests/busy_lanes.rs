//! Threads lanes on which calls hang and fail, while sessions join, leave and start anew, and the host stops or frees the
//! engine: who is told what, what is delivered, and that nothing is left.

mod driver;
mod host;
mod works_host;

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;
use rte::abi::log::RTE_LOG_DEBUG;
use works_host::host::*;
use works_host::{FAILED, Place, Rule, Works, note_line};

// ---- what is seen of a call when its rows have others already

/// What HOT said of a row is seen in the next tick, when the row may have been given to another life.
#[test]
fn a_row_that_fails_just_when_its_session_starts_anew_does_not_fail_the_new_life() {
    type Leave = (&'static str, fn(&Host), u64);
    let ways: [Leave; 3] = [
        ("reset", |host| send(host, RTE_RESET, 1), 1),
        ("left and came back", |host| [RTE_DETACH, RTE_ATTACH].iter().for_each(|kind| send(host, *kind, 1)), 1),
        (
            "another came in its place",
            |host| {
                send(host, RTE_DETACH, 1);
                send(host, RTE_ATTACH, 2);
            },
            2,
        ),
    ];
    for (name, leave, next) in ways {
        for is_seeded in [false, true] {
            for _ in 0..50 {
                let works = if is_seeded { Works::new(0) } else { Works::without_seed(0) };
                let host = works.engine(&on_threads(c"late"));
                send(&host, RTE_ATTACH, 1);
                tick(&host);
                tick(&host);
                until("HOT of both", || works.count(Place::Hot, 1) == 2);
                works.rule(Place::Hot, 1, Rule::FailRow(FAILED));
                tick(&host);
                until("the third", || works.count(Place::Hot, 1) == 3);
                std::thread::yield_now();
                works.forget(Place::Hot, 1);
                leave(&host);
                let mut came = Came::default();
                for _ in 0..4 {
                    let more = tick(&host);
                    came.notices.extend(more.notices);
                    came.chunks.extend(more.chunks);
                }
                let case = format!("{name}, seeded: {is_seeded}: {came:?}");
                assert!(!came.has(RTE_ROW_FAILED, next), "{case}");
                assert_eq!(host.info().quarantined, 0, "{case}");
                assert!(came.chunks.iter().any(|(session, index, _)| (*session, *index) == (next, 0)), "{case}");
                works.expect_order();
            }
        }
    }
}

// ---- a stop while something hangs

/// A resident, and one whose seed aside hangs.
fn behind_a_seed_aside(works: &'static Works, options: &rte_engine_options) -> Host {
    let host = works.engine(options);
    attach(&host, 1, 10);
    until("the resident steps", || tick(&host).sessions() == [1]);
    works.rule(Place::Seed, 2, Rule::Hold);
    attach(&host, 2, 20);
    tick(&host);
    until("the seed hangs", || works.standing(Place::Seed, 2) == 1);
    host
}

#[test]
fn a_stop_delivers_what_is_in_flight_though_a_seed_aside_hangs() {
    let works = Works::new(RTE_MODEL_SEED_ASIDE);
    let host = behind_a_seed_aside(works, &on_threads(c"aside"));
    let last = tick(&host).index_of(1).unwrap();
    let (status, words) = stop_with_words(&host, 20_000_000);
    assert!(status == TIMEOUT && words.contains("stage seed (first row 1)"), "{status} {words}");
    assert_eq!(pop_all(&host).index_of(1), Some(last + 1), "what was in flight");
    works.forget_all();
    assert_eq!(stop(&host, FOR_EVER), OK);
    let came = pop_all(&host);
    assert!(came.chunks.is_empty(), "{came:?}");
    // Its seed was over when it left.
    assert_eq!(came.told(), [(RTE_ATTACHED, 2), (RTE_DETACHED, 1), (RTE_DETACHED, 2)]);
    assert_eq!((works.living(), threads(c"aside")), (0, 0));
    works.expect_order();
}

/// Whoever waits for output has what a stop has delivered, though the stop itself has to wait.
#[test]
fn a_waiter_is_woken_for_what_a_stop_delivers_while_something_hangs() {
    for aside in [false, true] {
        let works = Works::new(if aside { RTE_MODEL_SEED_ASIDE } else { 0 });
        let host = if aside {
            behind_a_seed_aside(works, &on_threads(c"waiter"))
        } else {
            let host = works.engine(&on_threads(c"waiter"));
            attach(&host, 1, 10);
            attach(&host, 2, 20);
            until("both step", || tick(&host).sessions() == [1, 2]);
            works.rule(Place::Encode, 2, Rule::Hold);
            prompt(&host, 2, 21);
            tick(&host);
            until("the encode hangs", || works.standing(Place::Encode, 2) == 1);
            host
        };
        tick(&host);
        let engine = host.engine.expose_provenance();
        std::thread::scope(|scope| {
            let waiter = scope.spawn(move || {
                let engine = std::ptr::with_exposed_provenance_mut(engine);
                // SAFETY: the engine lives until the scope is over.
                unsafe { rte_outbox_wait(engine, FOR_EVER) }
            });
            assert_eq!(stop(&host, 20_000_000), TIMEOUT);
            let is_woken = within_reason(|| waiter.is_finished());
            let came = pop_all(&host);
            works.forget_all();
            assert_eq!(stop(&host, FOR_EVER), OK);
            assert_eq!(came.sessions(), [1], "aside: {aside}");
            assert!(is_woken, "the waiter sleeps on, aside: {aside}");
            assert_eq!(waiter.join().unwrap(), OK);
        });
    }
}

// ---- a free while something hangs

/// What the host has let go of is called no more, whatever comes back later.
#[test]
fn after_a_free_neither_on_output_nor_release_output_nor_the_log_is_called() {
    static TOLD: AtomicU64 = AtomicU64::new(0);
    unsafe extern "C-unwind" fn count_line(_: *mut c_void, _: u32, _: *const c_char) {
        TOLD.fetch_add(1, SeqCst);
    }
    unsafe extern "C-unwind" fn count(_: *mut c_void, output: *mut rte_output) {
        TOLD.fetch_add(1, SeqCst);
        // SAFETY: given to this call; released once.
        unsafe { rte_output_release(output, null_mut()) };
    }
    for lanes in [RTE_LANES_INLINE, RTE_LANES_THREADS] {
        for (place, session) in [(Place::Seed, 2), (Place::Hot, 1), (Place::Deferred, 1), (Place::Encode, 1)] {
            let works = Works::new(RTE_MODEL_OWN_OUTPUT);
            let (on_output, log) = (Some(count as _), Some(count_line as _));
            let options =
                rte_engine_options { lanes, on_output, log, log_level: RTE_LOG_DEBUG, ..on_threads(c"freed") };
            let host = works.engine(&options);
            attach(&host, 1, 10);
            start(&host);
            until("it steps", || works.returned() > 2);
            works.rule(place, session, Rule::Hold);
            works.rule(place, session, Rule::FailWhole(FAILED));
            if place == Place::Seed {
                attach(&host, 2, 20)
            } else {
                prompt(&host, 1, 11)
            }
            until("it hangs", || works.standing(place, session) == 1);
            assert_eq!(stop(&host, 1_000_000), TIMEOUT);
            drop(host);
            let (told, returned, calls) = (TOLD.load(SeqCst), works.returned(), works.calls().len());
            works.let_go();
            until("all is over", || threads(c"freed") == 0);
            let case = format!("{place:?} on lanes {lanes}");
            assert_eq!(works.calls().len(), calls, "{case}");
            assert_eq!(works.returned(), returned, "{case}");
            assert_eq!(TOLD.load(SeqCst), told, "{case}");
        }
    }
}

/// Of an engine that the host ticks, and that nobody drives any more.
#[test]
fn what_a_freed_engine_has_left_running_ends_with_the_call_that_hung() {
    for (place, session) in [(Place::Seed, 2), (Place::Hot, 1), (Place::Deferred, 1), (Place::Encode, 1)] {
        let works = Works::new(0);
        let host = works.engine(&rte_engine_options { encode_lanes: 3, ..on_threads(c"gone") });
        attach(&host, 1, 10);
        until("it steps", || tick(&host).sessions() == [1]);
        works.rule(place, session, Rule::Hold);
        if place == Place::Seed {
            attach(&host, 2, 20)
        } else {
            prompt(&host, 1, 11)
        }
        until("it hangs", || {
            assert!(tick_once(&host) >= OK);
            works.standing(place, session) == 1
        });
        assert_eq!(stop(&host, 1_000_000), TIMEOUT);
        drop(host);
        let calls = works.calls().len();
        until("who does not hang ends", || threads(c"gone") == 1);
        assert_eq!(works.standing(place, session), 1, "free has not waited");
        works.forget_all();
        until("all is over", || threads(c"gone") == 0);
        assert_eq!(works.calls().len(), calls, "{place:?}");
    }
}

// ---- a thread that cannot be made

/// What a program of `little_room` is told.
const ROOM: &str = "RTE_TEST_ROOM";

/// Room for none of the stacks, for some, for all.
#[cfg(target_os = "linux")]
#[test]
fn a_thread_that_cannot_be_made_is_named_and_nothing_is_left() {
    for is_ticked in [false, true] {
        let mut told: Vec<String> = vec![];
        for room in 0..80 {
            let program = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "little_room", "--ignored", "--nocapture"])
                .env(ROOM, format!("{room} {is_ticked}"))
                .output()
                .unwrap();
            let (out, err) = (String::from_utf8_lossy(&program.stdout), String::from_utf8_lossy(&program.stderr));
            assert!(program.status.success(), "room {room}: {out}{err}");
            let said = out.lines().find_map(|line| line.split_once("said: ")).expect("its words").1.to_string();
            if told.last() != Some(&said) {
                told.push(said);
            }
            if told.last().is_some_and(|said| said == "0") {
                break;
            }
        }
        println!("{told:#?}");
        let lanes = told.iter().filter(|said| said.starts_with("-6 no thread for the lane ")).count();
        let own = told.iter().filter(|said| said.starts_with("-6 no thread for the engine: ")).count();
        assert_eq!((lanes > 1, own, told.last().map(String::as_str)), (true, usize::from(!is_ticked), Some("0")));
    }
}

/// One of those programs.
#[cfg(target_os = "linux")]
#[test]
#[ignore = "a program of the test before"]
fn little_room() {
    let Ok(room) = std::env::var(ROOM) else { return };
    let (room, is_ticked) = room.split_once(' ').unwrap();
    let (room, is_ticked): (u64, bool) = (room.parse().unwrap(), is_ticked.parse().unwrap());
    let lines = Mutex::<Vec<String>>::default();
    let log_user = std::ptr::from_ref(&lines).cast_mut().cast();
    let options = rte_engine_options { encode_lanes: 3, log: Some(note_line), log_user, ..on_threads(c"room") };
    let host = Works::new(0).engine(&options);
    attach(&host, 1, 10);
    let pages = std::fs::read_to_string("/proc/self/statm").unwrap();
    let pages: u64 = pages.split(' ').next().unwrap().parse().unwrap();
    let limit = |bytes| {
        let limit = libc::rlimit { rlim_cur: bytes, rlim_max: libc::RLIM_INFINITY };
        // SAFETY: a valid place.
        assert_eq!(unsafe { libc::setrlimit(libc::RLIMIT_AS, &limit) }, 0);
    };
    limit(4096 * pages + (room << 19));
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives.
    let status = unsafe {
        if is_ticked { rte_engine_tick(host.engine, FOR_EVER) } else { rte_engine_start(host.engine, &mut error) }
    };
    limit(libc::RLIM_INFINITY);
    // SAFETY: NUL-terminated, whether it was written or is zero.
    let words = unsafe { std::ffi::CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned();
    // Where a call has no place for words, the log has them.
    let dead = |line: &String| line.split_once("the engine is dead: ").map(|(_, words)| words.to_string());
    let words = if is_ticked { lines.lock().unwrap().iter().find_map(dead).unwrap_or_default() } else { words };
    println!("said: {}", format!("{status} {words}").trim_end());
    if status == OK {
        assert_eq!(threads(c"room"), 5 + usize::from(!is_ticked));
        assert_eq!(stop(&host, FOR_EVER), OK);
        assert_eq!(threads(c"room"), 0);
        return;
    }
    assert_eq!(threads(c"room"), 0, "none is left");
    let own_is_missing = words.starts_with("no thread for the engine");
    let health = if own_is_missing { OK } else { MEMORY };
    assert_eq!(host.info().health, health);
    if own_is_missing {
        // As if nothing had been said.
        start(&host);
    }
    assert_eq!(stop(&host, FOR_EVER), OK);
    let came = pop_all(&host);
    assert_eq!(came.has(RTE_DEAD, 0), !own_is_missing, "{came:?}");
    drop(host);
    assert_eq!(threads(c"room"), 0);
}
