//! Threads lanes on which calls hang and fail, while sessions join, leave and start anew, and the host stops or frees the
//! engine: who is told what, what is delivered, and that nothing is left.

mod driver;
mod host;
mod works_host;

use std::ffi::{c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;
use rte::abi::log::RTE_LOG_DEBUG;
use works_host::host::*;
use works_host::{FAILED, Place, Rule, Working, Works};

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

/// Of a model whose rows need no first state: nothing else stands between the two.
#[test]
fn a_prompt_of_a_new_life_is_not_encoded_while_the_old_one_is_being_detached() {
    for (is_seeded, leave) in [(false, RTE_RESET), (false, RTE_DETACH), (true, RTE_RESET)] {
        let works = if is_seeded { Works::new(0) } else { Works::without_seed(0) };
        let host = works.engine(&on_threads(c"turn"));
        attach(&host, 1, 10);
        until("it steps", || tick(&host).sessions() == [1]);
        works.rule(Place::Detach, 1, Rule::Hold);
        send(&host, leave, 1);
        if leave == RTE_DETACH {
            attach(&host, 1, 10);
        }
        prompt(&host, 1, 11);
        until("its detach hangs", || {
            assert!(tick_once(&host) >= OK);
            works.standing(Place::Detach, 1) == 1
        });
        (0..500).for_each(|_| assert!(tick_once(&host) >= OK));
        std::thread::sleep(std::time::Duration::from_millis(5));
        assert_eq!((works.standing(Place::Detach, 1), works.inside()), (1, 1), "seeded: {is_seeded}");
        works.let_go();
        until("it steps with its prompt", || {
            tick(&host).chunks.iter().any(|(session, _, said)| (*session, said.prompt) == (1, 11))
        });
        assert_eq!(stop(&host, FOR_EVER), OK);
        works.expect_order();
    }
}

// ---- a stop while something hangs

/// A resident, and one whose seed aside hangs.
fn behind_a_seed_aside(works: &'static Works, options: &rte_engine_options) -> Working {
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
    let mut came = Came::default();
    until("what was in flight", || {
        let (status, words) = stop_with_words(&host, 1_000_000);
        assert!(status == TIMEOUT && words.contains("stage seed (first row 1)"), "{status} {words}");
        came = pop_all(&host);
        !came.chunks.is_empty()
    });
    assert_eq!((came.sessions(), came.index_of(1)), (vec![1], Some(last + 1)));
    works.forget_all();
    assert_eq!(stop(&host, FOR_EVER), OK);
    let came = pop_all(&host);
    assert!(came.chunks.is_empty(), "{came:?}");
    // Its seed was over when it left.
    assert_eq!(came.told(), [(RTE_ATTACHED, 2), (RTE_DETACHED, 1), (RTE_DETACHED, 2)]);
    expect_no_threads(c"aside");
    assert_eq!(works.living(), 0);
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
            let is_woken = within_reason(|| {
                assert_eq!(stop(&host, 1_000_000), TIMEOUT);
                waiter.is_finished()
            });
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
            match place {
                Place::Seed => attach(&host, 2, 20),
                Place::Encode => prompt(&host, 1, 11),
                _ => {}
            }
            until("it hangs", || works.standing(place, session) == 1);
            assert_eq!(stop(&host, 1_000_000), TIMEOUT);
            // What was submitted beside it is over.
            let lag = usize::from(place == Place::Hot || (place == Place::Deferred && lanes == RTE_LANES_THREADS));
            until("the others are over", || {
                works.count(Place::Deferred, 1) + lag == works.count(Place::Hot, 1) && works.inside() == 1
            });
            drop(host);
            let (told, returned, calls) = (TOLD.load(SeqCst), works.returned(), works.calls().len());
            works.let_go();
            expect_no_threads(c"freed");
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
        expect_no_threads(c"gone");
        assert_eq!(works.calls().len(), calls, "{place:?}");
    }
}

// ---- seeds aside

/// What a session that is being seeded aside does while the seed hangs, and what it is told in all.
#[test]
fn whoever_hangs_in_a_seed_aside_may_leave_start_anew_and_come_back_and_is_told_each_once() {
    type Deeds = &'static [u32];
    let courses: [(Deeds, &[u32], usize); 6] = [
        (&[RTE_DETACH], &[RTE_DETACHED], 1),
        (&[RTE_RESET], &[RTE_DETACHED, RTE_ATTACHED], 2),
        (&[RTE_RESET, RTE_RESET, RTE_RESET], &[RTE_DETACHED, RTE_DETACHED, RTE_DETACHED, RTE_ATTACHED], 2),
        (&[RTE_RESET, RTE_DETACH], &[RTE_DETACHED, RTE_DETACHED], 1),
        (&[RTE_DETACH, RTE_ATTACH, RTE_PAUSE, RTE_RESET, RTE_RESUME], &[RTE_DETACHED, RTE_DETACHED, RTE_ATTACHED], 2),
        (&[RTE_DETACH, RTE_ATTACH, RTE_DETACH, RTE_ATTACH], &[RTE_DETACHED, RTE_DETACHED, RTE_ATTACHED], 2),
    ];
    // In one drain, or each in a tick of its own; and what the seed comes to at last.
    for ((deeds, told, lives), spread) in courses.iter().flat_map(|course| [(course, false), (course, true)]) {
        for outcome in [None, Some(Rule::FailWhole(FAILED)), Some(Rule::FailRow(FAILED))] {
            let case = format!("{deeds:?}, spread: {spread}, {outcome:?}");
            let works = Works::new(RTE_MODEL_SEED_ASIDE);
            // No row but one beside the resident's: who comes back comes back there.
            let host = works.engine(&rte_engine_options { encode_lanes: 2, ..on_threads(c"anew") });
            attach(&host, 1, 10);
            until("the resident steps", || tick(&host).sessions() == [1]);
            for session in 3..=12 {
                attach(&host, session, session);
                until("it steps", || tick(&host).sessions().contains(&session));
            }
            works.rule(Place::Seed, 2, Rule::Hold);
            attach(&host, 2, 20);
            tick(&host);
            until("the seed hangs", || works.standing(Place::Seed, 2) == 1);
            let mut came = vec![];
            let mut next = 0;
            let mut note = |more: Came| {
                let index = more.index_of(1).unwrap_or_else(|| panic!("{case}: the resident has no chunk"));
                assert!(next == 0 || index == next, "{case}: {index}, not {next}");
                next = index + 1;
                came.extend(more.told().into_iter().filter(|(_, session)| *session == 2).map(|(kind, _)| kind));
                more.chunks.iter().any(|(session, ..)| *session == 2)
            };
            for deed in *deeds {
                send(&host, *deed, 2);
                if spread {
                    note(tick(&host));
                }
            }
            (0..20).for_each(|_| assert!(!note(tick(&host)), "{case}: not seeded yet"));
            assert_eq!(works.standing(Place::Seed, 2), 1, "{case}");
            // The hanging call fails; those after it do not.
            outcome.into_iter().for_each(|rule| works.rule(Place::Seed, 2, rule));
            works.let_go();
            until("the seed is over", || works.standing(Place::Seed, 2) == 0);
            works.forget_all();
            let stays = told.last() == Some(&RTE_ATTACHED);
            until("it is over", || {
                let steps = note(tick(&host));
                if stays { steps } else { host.info().retiring == 0 }
            });
            assert_eq!(came, *told, "{case}");
            // A life that was never seeded is not detached.
            let seeded = lives - usize::from(outcome.is_some());
            until("its lives are detached", || works.count(Place::Detach, 2) == seeded - usize::from(stays));
            assert_eq!(stop(&host, FOR_EVER), OK);
            assert_eq!(works.count(Place::Detach, 2), seeded, "{case}");
            expect_no_threads(c"anew");
            assert_eq!(works.living(), 0, "{case}");
            works.expect_order();
        }
    }
}

/// Each way to end an engine whose seed aside hangs, with its session in each state.
#[test]
fn an_engine_whose_seed_aside_hangs_stops_or_is_freed_whatever_its_session_has_done() {
    let deeds: [&[u32]; 4] = [&[], &[RTE_DETACH], &[RTE_RESET], &[RTE_DETACH, RTE_ATTACH, RTE_RESET, RTE_PAUSE]];
    for deeds in deeds {
        for is_freed in [false, true] {
            for is_drained in [false, true] {
                let works = Works::new(RTE_MODEL_SEED_ASIDE);
                let host = behind_a_seed_aside(works, &on_threads(c"ends"));
                deeds.iter().for_each(|deed| send(&host, *deed, 2));
                let mut told = vec![];
                if is_drained {
                    (0..3).for_each(|_| told.extend(tick(&host).told()));
                }
                let case = format!("{deeds:?}, freed: {is_freed}, drained: {is_drained}");
                // A HOT that began before the seed may be about to return; then the seed has run longest.
                until("the seed has run longest", || stop_with_words(&host, 0).1.contains("stage seed (first row 1)"));
                for timeout in [0, 1, 1_000_000] {
                    let (status, words) = stop_with_words(&host, timeout);
                    assert!(status == TIMEOUT && words.contains("stage seed (first row 1)"), "{case}: {words}");
                }
                assert_eq!(host.push(message(RTE_DETACH, 1), &[]), rte_status_code::RTE_ERR_STATE as i32);
                assert_eq!(tick_once(&host), CLOSED);
                if is_freed {
                    drop(host);
                    assert_eq!(works.standing(Place::Seed, 2), 1, "{case}: free has waited");
                    works.let_go();
                    expect_no_threads(c"ends");
                    continue;
                }
                works.let_go();
                assert_eq!(stop(&host, FOR_EVER), OK, "{case}");
                told.extend(pop_all(&host).told());
                let own = told.iter().filter(|(_, session)| *session == 2);
                let of = |kind| own.clone().filter(|told| told.0 == kind).count();
                // What was drained has begun a life each, and each has ended once; what was not is answered.
                let begins = deeds.iter().filter(|deed| matches!(**deed, RTE_ATTACH | RTE_RESET)).count();
                let lives = 1 + begins;
                assert_eq!(of(RTE_DETACHED) + of(RTE_REJECTED), lives, "{case}: {told:?}");
                assert!(of(RTE_ATTACHED) <= 1, "{case}: {told:?}");
                assert_eq!((works.living(), works.count(Place::Seed, 2)), (0, works.count(Place::Detach, 2)), "{case}");
                expect_no_threads(c"ends");
                works.expect_order();
            }
        }
    }
}

// ---- a frame loop

/// Where a tick that waits for nothing is stuck: what hangs, and whether on a pipeline.
const PHASES: [(Place, u64, u32); 5] = [
    (Place::Hot, 1, RTE_PIPELINE_ON),
    (Place::Seed, 2, RTE_PIPELINE_ON),
    (Place::Deferred, 1, RTE_PIPELINE_ON),
    (Place::Hot, 1, RTE_PIPELINE_OFF),
    (Place::Deferred, 1, RTE_PIPELINE_OFF),
];

/// How the host ends it there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    /// It never does: the tick goes on.
    Goes,
    /// A stop that has time until all is over.
    Stops,
    /// Stops that only ask, until one says that it is over.
    Asks,
    /// A stop that runs out of time, another, and a free.
    Abandons,
    /// A free alone, which waits.
    Frees,
}

/// A tick that waits for nothing never does, whichever lanes are slow; and it may be broken off wherever it is.
#[test]
fn a_tick_that_is_stuck_somewhere_is_gone_on_with_stopped_or_freed() {
    for (place, session, pipeline) in PHASES {
        for end in [End::Goes, End::Stops, End::Asks, End::Abandons, End::Frees] {
            let case = format!("{place:?}, pipeline {pipeline}, {end:?}");
            let works = Works::new(0);
            let host = works.engine(&rte_engine_options { pipeline, ..on_threads(c"phase") });
            attach(&host, 1, 10);
            until("it steps", || tick(&host).sessions() == [1]);
            let last = tick(&host).index_of(1).unwrap();
            // HOT of the tick before must have passed, or it is what hangs.
            until("HOT", || works.count(Place::Hot, 1) as u64 == host.info().ticks);
            works.rule(place, session, Rule::Hold);
            if place == Place::Seed {
                attach(&host, 2, 20);
            }
            let mut came = Came::default();
            let pop = |came: &mut Came| {
                let more = pop_all(&host);
                came.chunks.extend(more.chunks);
                came.notices.extend(more.notices);
            };
            until("it hangs", || {
                let status = tick_once(&host);
                assert!(status >= OK);
                pop(&mut came);
                let hangs = works.standing(place, session) == 1 && works.inside() == 1 && status == AGAIN;
                // With a pipeline the tick that has begun a HOT ends beside it: the one after is stuck. (Counted when it hangs.)
                let is_ended = || works.count(Place::Hot, 1) as u64 == host.info().ticks;
                hangs && ((place, pipeline) != (Place::Hot, RTE_PIPELINE_ON) || is_ended())
            });
            // As if the other lanes were slow, too.
            prompt(&host, 1, 11);
            let ticks = host.info().ticks;
            (0..500).for_each(|_| assert_eq!(tick_once(&host), AGAIN, "{case}"));
            assert_eq!(host.info().ticks, ticks, "{case}");
            let named = format!("stage {} (first row {})", place.name(), session - 1);
            match end {
                End::Goes => {
                    works.let_go();
                    until("its next prompt", || {
                        assert!(tick_once(&host) >= OK);
                        pop(&mut came);
                        came.chunks.iter().any(|(who, _, said)| (*who, said.prompt) == (1, 11))
                    });
                    assert_eq!(stop(&host, FOR_EVER), OK);
                }
                End::Stops => {
                    let (status, words) = stop_with_words(&host, 1_000_000);
                    assert!(status == TIMEOUT && words.contains(&named), "{case}: {words}");
                    assert_eq!(tick_once(&host), CLOSED);
                    works.let_go();
                    assert_eq!(stop(&host, FOR_EVER), OK);
                }
                End::Asks => {
                    (0..100).for_each(|_| assert_eq!(stop(&host, 0), TIMEOUT, "{case}"));
                    works.let_go();
                    until("it has stopped", || stop(&host, 0) == OK);
                }
                End::Abandons => {
                    (0..3).for_each(|_| assert_eq!(stop(&host, 1), TIMEOUT, "{case}"));
                    pop(&mut came);
                    drop(host);
                    assert_eq!(works.standing(place, session), 1, "{case}: free has waited");
                    works.let_go();
                    expect_no_threads(c"phase");
                    works.expect_order();
                    continue;
                }
                End::Frees => {
                    std::thread::scope(|scope| {
                        scope.spawn(|| {
                            std::thread::yield_now();
                            works.let_go();
                        });
                        drop(host);
                    });
                    expect_no_threads(c"phase");
                    assert_eq!(works.living(), 0, "{case}");
                    works.expect_order();
                    continue;
                }
            }
            pop(&mut came);
            let indices: Vec<u64> = came.chunks.iter().filter(|chunk| chunk.0 == 1).map(|chunk| chunk.1).collect();
            let all: Vec<u64> = (last + 1..=last + indices.len() as u64).collect();
            assert!(!all.is_empty() && indices == all, "{case}: {indices:?} after {last}");
            assert_eq!(came.has(RTE_ATTACHED, 2), place == Place::Seed, "{case}: its seed has succeeded");
            assert!(came.has(RTE_DETACHED, 1) && came.has(RTE_DETACHED, 2) == (place == Place::Seed), "{case}");
            expect_no_threads(c"phase");
            assert_eq!(works.living(), 0, "{case}");
            works.expect_order();
        }
    }
}

// ---- an engine that has nothing to do but to wait

/// Nobody tells when a gate opens: it is asked, also while a call that nobody waits for goes on.
#[test]
fn a_gate_that_opens_while_an_encode_or_a_seed_aside_hangs_lets_its_session_in() {
    for place in [Place::Encode, Place::Seed, Place::Detach] {
        let works = Works::gated(if place == Place::Seed { RTE_MODEL_SEED_ASIDE } else { 0 });
        let host = works.engine(&rte_engine_options { encode_lanes: 2, ..on_threads(c"gate") });
        start(&host);
        works.open_gate(true);
        works.rule(place, 1, Rule::Hold);
        attach(&host, 1, 10);
        if place != Place::Seed {
            until("it steps", || !pop_all(&host).chunks.is_empty());
        }
        match place {
            Place::Encode => prompt(&host, 1, 11),
            Place::Detach => send(&host, RTE_DETACH, 1),
            _ => {}
        }
        until("it hangs", || works.standing(place, 1) == 1 && host.info().live == 0);
        works.open_gate(false);
        let asked = works.asked();
        attach(&host, 2, 20);
        until("the gate is asked", || works.asked() > asked);
        let ticks = host.info().ticks;
        until("that tick is over", || host.info().ticks > ticks || host.info().pending > 0);
        std::thread::sleep(std::time::Duration::from_millis(5));
        works.open_gate(true);
        if place == Place::Detach {
            // Its seed is behind what hangs: but it is let in.
            let asked = works.asked();
            until("it is let in", || works.asked() > asked);
        } else {
            until(&format!("2 steps while {place:?} of 1 hangs"), || pop_all(&host).sessions().contains(&2));
        }
        assert_eq!(works.standing(place, 1), 1);
        works.let_go();
        assert_eq!(stop(&host, FOR_EVER), OK);
        works.expect_order();
    }
}
