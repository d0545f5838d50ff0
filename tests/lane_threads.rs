//! The threads of threads lanes: one that cannot be made is named, none is left behind, and a host that forks keeps them.
#![cfg(target_os = "linux")]

mod driver;
mod host;
mod works_host;

use std::ptr::null_mut;
use std::sync::Mutex;

use driver::*;
use works_host::host::*;
use works_host::{Place, Rule, Works, note_line};

/// What a program of `little_room` is told.
const ROOM: &str = "RTE_TEST_ROOM";

/// Room for none of the stacks, for some, for all.
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
        expect_no_threads(c"room");
        return;
    }
    expect_no_threads(c"room");
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
    expect_no_threads(c"room");
}

/// Each in another state when it is freed; most without a stop.
#[test]
fn a_thousand_engines_leave_no_thread_behind() {
    let works = Works::new(RTE_MODEL_SEED_ASIDE);
    let all = || std::fs::read_dir("/proc/self/task").unwrap().count();
    let before = all();
    let mut most = 0;
    for number in 0..1_000u64 {
        let host = works.engine(&rte_engine_options { encode_lanes: 1 + number as u32 % 8, ..on_threads(c"many") });
        match number % 8 {
            // Never driven.
            0 => continue,
            1 => assert_eq!(tick_once(&host), OK),
            2 => start(&host),
            phase => {
                (1..=3).for_each(|session| attach(&host, session, number));
                if phase % 2 == 0 {
                    start(&host);
                    prompt(&host, 2, number + 1);
                } else {
                    (0..phase).for_each(|_| assert!(tick_once(&host) >= OK));
                }
            }
        }
        most = most.max(threads(c"many"));
        if number % 5 == 0 {
            assert_eq!(stop(&host, FOR_EVER), OK);
            expect_no_threads(c"many");
        }
    }
    assert!(most >= 10, "{most}: the lanes of one engine");
    expect_no_threads(c"many");
    assert_eq!(works.living(), 0);
    // Those of other tests come and go.
    println!("{before} threads before, {} after", all());
    works.expect_order();
}

/// The child has no lanes; whatever it asks it is told so, at once, and the parent's go on.
#[test]
fn a_host_that_forks_while_its_lanes_are_busy_goes_on_and_its_child_waits_for_nothing() {
    const FORKED: i32 = rte_status_code::RTE_ERR_FORKED as i32;
    for is_ticked in [false, true] {
        let works = Works::new(0);
        let host = works.engine(&on_threads(c"fork"));
        attach(&host, 1, 10);
        if is_ticked {
            until("it steps", || tick(&host).sessions() == [1]);
        } else {
            start(&host);
            until("it steps", || !pop_all(&host).chunks.is_empty());
        }
        for place in [Place::Hot, Place::Deferred, Place::Encode] {
            works.rule(place, 1, Rule::Hold);
        }
        prompt(&host, 1, 11);
        until("it hangs", || {
            assert!(!is_ticked || tick_once(&host) >= OK);
            works.standing(Place::Hot, 1) + works.standing(Place::Deferred, 1) + works.standing(Place::Encode, 1) > 0
        });
        // SAFETY: the child calls the library, which tells it that it is one, and ends.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above; the engine is the parent's.
            unsafe {
                let told = [
                    rte_engine_tick(host.engine, FOR_EVER),
                    rte_engine_stop(host.engine, FOR_EVER, null_mut()),
                    rte_outbox_wait(host.engine, FOR_EVER),
                    rte_inbox_push(host.engine, &message(RTE_DETACH, 1)),
                ];
                rte_engine_free(host.engine);
                libc::_exit(i32::from(told != [FORKED; 4]));
            }
        }
        let mut status = -1;
        // SAFETY: our child; a valid place.
        until("the child ends", || unsafe { libc::waitpid(child, &mut status, libc::WNOHANG) } == child);
        assert!(libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0, "{status:#x}");
        works.let_go();
        until("the parent's goes on", || {
            assert!(!is_ticked || tick_once(&host) >= OK);
            pop_all(&host).chunks.iter().any(|(.., said)| said.prompt == 11)
        });
        assert_eq!(stop(&host, FOR_EVER), OK);
        expect_no_threads(c"fork");
        assert_eq!(works.living(), 0);
        works.expect_order();
    }
}
