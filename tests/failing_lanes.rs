//! Threads lanes on which calls fail, several at once and on several lanes in one tick: who loses what is exact, and nothing
//! that a player did is lost.

mod driver;
mod host;
mod works_host;

use std::collections::BTreeMap;

use driver::*;
use works_host::host::*;
use works_host::{FAILED, Place, Rule, Said, Working, Works};

fn options(pipeline: u32) -> rte_engine_options {
    rte_engine_options { pipeline, ..on_threads(c"fails") }
}

/// HOT of each tick until now has begun, and what it is to come to is settled. These sessions are in all of them.
fn await_hot(works: &Works, host: &Host, sessions: &[u64]) {
    let ticks = host.info().ticks as usize;
    until("HOT of each tick", || sessions.iter().all(|session| works.count(Place::Hot, *session) == ticks));
}

/// An engine with these sessions, each of which steps.
fn stepping(works: &'static Works, options: &rte_engine_options, sessions: &[u64]) -> Working {
    let host = works.engine(options);
    sessions.iter().for_each(|session| attach(&host, *session, 10 * session));
    until("all step", || tick(&host).sessions() == sessions);
    host
}

/// By session: the chunks.
type Chunks = BTreeMap<u64, Vec<Said>>;

fn note(chunks: &mut Chunks, came: &Came) {
    came.chunks.iter().for_each(|(session, _, said)| chunks.entry(*session).or_default().push(*said));
}

fn ages(chunks: &Chunks, session: u64) -> Vec<u64> {
    chunks.get(&session).into_iter().flatten().map(|said| said.age).collect()
}

// ---- ENCODE

/// Nine rows on eight queues; some fail for good, some leave, and the engine is stopped twice meanwhile.
#[test]
fn nine_encodes_on_eight_lanes_hang_fail_and_leave_and_a_stop_names_one_of_them() {
    for round in 0..4 {
        let works = Works::new(0);
        let sessions: Vec<u64> = (1..=10).collect();
        let options = rte_engine_options { encode_lanes: 8, ..on_threads(c"nine") };
        let host = stepping(works, &options, &sessions);
        // Each in a batch of its own; the tenth goes on.
        let mut chunks = Chunks::new();
        for session in 1..=9 {
            works.rule(Place::Encode, session, Rule::Hold);
            prompt(&host, session, 100 + session);
            note(&mut chunks, &tick(&host));
        }
        until("eight hang", || (1..=9).filter(|session| works.standing(Place::Encode, *session) == 1).count() == 8);
        for session in [2, 3] {
            works.rule(Place::Encode, session, Rule::FailWhole(FAILED));
        }
        works.rule(Place::Encode, 4, Rule::FailRow(FAILED));
        send(&host, RTE_DETACH, 5);
        send(&host, RTE_RESET, 6);
        send(&host, RTE_DETACH, 9);
        for _ in 0..10 {
            let came = tick(&host);
            assert_eq!(came.sessions(), [10], "{came:?}");
        }
        let info = host.info();
        assert_eq!((info.encoding, info.retiring), (6, 3));
        let (status, words) = stop_with_words(&host, 1_000_000);
        assert!(status == TIMEOUT && words.contains("stage encode (first row "), "{words}");
        if round % 2 == 0 {
            (1..=9).for_each(|session| works.rule(Place::Detach, session, Rule::FailWhole(FAILED)));
        }
        works.forget(Place::Encode, 7);
        until("one comes back", || works.standing(Place::Encode, 7) == 0);
        assert_eq!(stop(&host, 1), TIMEOUT);
        if round == 3 {
            drop(host);
            assert_eq!(works.standing(Place::Encode, 1), 1, "free has not waited");
            works.let_go();
            expect_no_threads(c"nine");
            continue;
        }
        works.let_go();
        assert_eq!(stop(&host, FOR_EVER), OK);
        let came = pop_all(&host);
        let mut ended: Vec<u64> = came.told().iter().filter(|told| told.0 == RTE_DETACHED).map(|told| told.1).collect();
        ended.sort();
        // 5 and 9 have left before, and the new life of 6 was never seeded.
        assert_eq!(ended, [1, 2, 3, 4, 7, 8, 10], "{came:?}");
        assert_eq!(
            came.told().iter().filter(|told| told.0 == RTE_REJECTED).map(|told| told.1).collect::<Vec<_>>(),
            [6]
        );
        expect_no_threads(c"nine");
        // A detach that fails is not tried again, and its row is free: the model keeps what it kept.
        assert_eq!(works.living(), if round % 2 == 0 { 9 } else { 0 });
        works.expect_order();
    }
}

/// The same, but it goes on: each is told once, and who has a right to its new prompt steps with it.
#[test]
fn nine_encodes_on_eight_lanes_come_to_what_each_of_them_came_to() {
    let works = Works::new(0);
    let sessions: Vec<u64> = (1..=10).collect();
    let host = stepping(works, &rte_engine_options { encode_lanes: 8, ..on_threads(c"ninth") }, &sessions);
    for session in 1..=9 {
        works.rule(Place::Encode, session, Rule::Hold);
        prompt(&host, session, 100 + session);
        tick(&host);
    }
    until("eight hang", || (1..=9).filter(|session| works.standing(Place::Encode, *session) == 1).count() == 8);
    for session in [2, 3] {
        works.rule(Place::Encode, session, Rule::FailWhole(FAILED));
    }
    works.rule(Place::Encode, 4, Rule::FailRow(FAILED));
    send(&host, RTE_DETACH, 5);
    send(&host, RTE_RESET, 6);
    tick(&host);
    works.let_go();
    let mut came = Came::default();
    let is_over = |came: &Came| {
        let has_new =
            |session| came.chunks.iter().any(|(who, _, said)| *who == session && said.prompt == 100 + session);
        [1, 7, 8, 9].into_iter().all(has_new) && [2, 3, 4].into_iter().all(|session| came.has(RTE_ROW_FAILED, session))
    };
    until("all is over", || {
        let more = tick(&host);
        came.chunks.extend(more.chunks);
        came.notices.extend(more.notices);
        is_over(&came) && came.has(RTE_ATTACHED, 6) && came.chunks.iter().any(|(session, ..)| *session == 6)
    });
    let failed = came.notices.iter().filter(|notice| notice.0 == RTE_TICK_FAILED).map(|notice| notice.4).sum::<u64>();
    assert_eq!(failed, 6, "three attempts each: {:?}", came.notices);
    assert_eq!([2, 3].map(|session| works.count(Place::Encode, session)), [3, 3]);
    assert_eq!(works.count(Place::Encode, 4), 1);
    // Between its second and its third attempt a row steps once.
    for session in [2, 3] {
        let own: Vec<_> = came.chunks.iter().filter(|(who, ..)| *who == session).collect();
        assert!(own.iter().all(|(.., said)| said.prompt == 10 * session), "{own:?}");
        assert_eq!(own.len(), 1, "{own:?}");
    }
    assert_eq!(host.info().quarantined, 3);
    works.forget_all();
    assert_eq!(stop(&host, FOR_EVER), OK);
    expect_no_threads(c"ninth");
    assert_eq!(works.living(), 0);
    works.expect_order();
}

// ---- HOT and DEFERRED

/// In one tick HOT of this batch fails, and DEFERRED of the one before.
#[test]
fn hot_and_deferred_that_fail_in_one_tick_lose_a_batch_each_and_no_more() {
    for retry_safe in [0, RTE_MODEL_RETRY_SAFE] {
        for _ in 0..20 {
            let works = Works::new(retry_safe);
            let host = stepping(works, &options(RTE_PIPELINE_ON), &[1, 2]);
            let mut chunks = Chunks::new();
            // HOT of the tick before has passed and what it said will be seen.
            note(&mut chunks, &tick(&host));
            await_hot(works, &host, &[1]);
            works.rule(Place::Hot, 1, Rule::FailWhole(FAILED));
            works.rule(Place::Deferred, 1, Rule::FailWhole(FAILED - 1));
            let mut came = tick(&host);
            await_hot(works, &host, &[1]);
            works.forget_all();
            assert!(came.chunks.is_empty(), "DEFERRED of the batch before is lost: {came:?}");
            for _ in 0..4 {
                let more = tick(&host);
                note(&mut chunks, &more);
                came.notices.extend(more.notices);
            }
            let mut failed: Vec<_> =
                came.notices.iter().map(|notice| (notice.0, notice.2, notice.3, notice.4)).collect();
            // HOT may be seen to have failed at once, or in the next tick.
            failed.sort();
            assert_eq!(
                failed,
                [(RTE_TICK_FAILED, FAILED - 1, 1, 1), (RTE_TICK_FAILED, FAILED, 0, 1)],
                "retry safe: {retry_safe}"
            );
            for session in [1, 2] {
                let ages = ages(&chunks, session);
                let first = ages[0];
                // What DEFERRED lost is a gap; what HOT lost is one too, unless it is tried again.
                let after = if retry_safe == 0 { first + 3 } else { first + 2 };
                assert_eq!(ages, [first, after, after + 1, after + 2], "retry safe: {retry_safe}");
            }
            assert_eq!(stop(&host, FOR_EVER), OK);
            works.expect_order();
        }
    }
}

/// Whole calls fail at random; of a model that may be run again nothing is lost, on a pipeline too.
#[test]
fn no_tap_is_lost_by_hot_calls_that_fail_and_are_tried_again() {
    for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
        let works = Works::new(RTE_MODEL_RETRY_SAFE);
        let host = stepping(works, &options(pipeline), &[1, 2, 3]);
        let (mut chunks, mut pushed) = (Chunks::new(), BTreeMap::<u64, i64>::new());
        let mut failures = 0;
        for turn in 0..3_000u64 {
            // Now and then one or two in a row, sometimes more: the lane then tries its rows alone, and all succeed or fail.
            let fails = matches!(turn % 23, 3 | 9 | 10 | 15 | 16 | 17);
            if fails {
                (1..=3).for_each(|session| works.rule(Place::Hot, session, Rule::FailWhole(FAILED)));
            }
            for session in 1..=3 {
                if turn % (session + 1) == 0 {
                    tap(&host, session, 1 + turn as i64);
                    *pushed.entry(session).or_default() += 1 + turn as i64;
                }
            }
            let came = tick(&host);
            failures +=
                came.notices.iter().filter(|notice| notice.0 == RTE_TICK_FAILED).map(|notice| notice.4).sum::<u64>();
            assert!(!came.told().iter().any(|told| told.0 == RTE_ROW_FAILED), "{came:?}");
            note(&mut chunks, &came);
            await_hot(works, &host, &[1, 2, 3]);
            works.forget_all();
        }
        (0..4).for_each(|_| note(&mut chunks, &tick(&host)));
        for session in 1..=3 {
            let ages = ages(&chunks, session);
            assert!(ages.windows(2).all(|pair| pair[1] == pair[0] + 1), "no gap, no chunk twice");
            let seen: i64 = chunks[&session].iter().map(|said| said.taps).sum();
            assert_eq!(seen, pushed[&session], "session {session}");
        }
        assert!(failures > 400, "{failures}");
        assert_eq!(stop(&host, FOR_EVER), OK);
        works.expect_order();
    }
}

/// HOT and DEFERRED both look for who it is that makes them fail, in one tick, while an encode is blocked.
#[test]
fn both_lanes_try_their_rows_alone_in_one_tick_while_an_encode_hangs() {
    for retry_safe in [0, RTE_MODEL_RETRY_SAFE] {
        let works = Works::new(retry_safe);
        // Only where they are of one batch may both be due at once.
        let host = stepping(works, &options(RTE_PIPELINE_OFF), &[1, 2, 3, 4, 5]);
        works.rule(Place::Encode, 5, Rule::Hold);
        prompt(&host, 5, 51);
        tick(&host);
        until("the encode hangs", || works.standing(Place::Encode, 5) == 1);
        let before = tick(&host).index_of(3).unwrap();
        let mut came = Came::default();
        works.rule(Place::Deferred, 1, Rule::FailWhole(FAILED));
        (0..2).for_each(|_| came.notices.extend(tick(&host).notices));
        works.rule(Place::Hot, 2, Rule::FailWhole(FAILED));
        (0..2).for_each(|_| came.notices.extend(tick(&host).notices));
        let calls = works.calls().len();
        let last = tick(&host);
        let alone = |place, who: &[u64]| works.calls()[calls..].contains(&(place, who.to_vec()));
        for session in 1..=4 {
            assert!(alone(Place::Hot, &[session]), "{:?}", &works.calls()[calls..]);
            assert_eq!(alone(Place::Deferred, &[session]), session != 2, "{:?}", &works.calls()[calls..]);
        }
        assert_eq!(last.sessions(), [3, 4]);
        // The ticks of DEFERRED are a gap; those of HOT only where it may not be run again.
        assert_eq!(last.index_of(3), Some(before + if retry_safe == 0 { 5 } else { 3 }));
        assert_eq!(last.told(), [(RTE_ROW_FAILED, 2), (RTE_ROW_FAILED, 1)]);
        let failed: Vec<_> = came.notices.iter().map(|notice| (notice.0, notice.3, notice.4)).collect();
        assert_eq!(
            failed,
            [(RTE_TICK_FAILED, 1, 1), (RTE_TICK_FAILED, 1, 1), (RTE_TICK_FAILED, 0, 1), (RTE_TICK_FAILED, 0, 1)]
        );
        for next in 1..10 {
            let came = tick(&host);
            assert_eq!((came.sessions(), came.index_of(3)), (vec![3, 4], Some(last.index_of(3).unwrap() + next)));
        }
        assert_eq!(works.standing(Place::Encode, 5), 1);
        works.let_go();
        until("5 steps with its prompt", || {
            tick(&host).chunks.iter().any(|(session, _, said)| (*session, said.prompt) == (5, 51))
        });
        assert_eq!(stop(&host, FOR_EVER), OK);
        assert_eq!(works.living(), 0);
        works.expect_order();
    }
}

// ---- rte_engine_step

/// Who is due alternates; each session is what it is alone, and one that is not due is not stepped.
#[test]
fn sessions_that_are_due_in_turns_step_in_their_turns_alone() {
    for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
        let works = Works::new(0);
        let host = stepping(works, &options(pipeline), &[1, 2, 3, 4]);
        step(&host, &[]);
        let mut next: BTreeMap<u64, u64> = pop_all(&host).chunks.iter().map(|chunk| (chunk.0, chunk.1 + 1)).collect();
        step(&host, &[]);
        assert!(pop_all(&host).chunks.is_empty(), "nothing is in flight");
        if next.is_empty() {
            step(&host, &[1, 2, 3, 4]);
            next = pop_all(&host).chunks.iter().map(|chunk| (chunk.0, chunk.1 + 1)).collect();
        }
        let mut expected: Vec<Vec<u64>> = vec![];
        for turn in 0..600u64 {
            let due: Vec<u64> = (1..=4).filter(|session| (turn >> (session - 1)) % 3 == 0).collect();
            // Unknown and doubled ones are no matter.
            let asked: Vec<u64> = due.iter().rev().chain(&due).copied().chain([99]).collect();
            step(&host, &asked);
            expected.push(due);
            let came = pop_all(&host);
            let lag = usize::from(pipeline == RTE_PIPELINE_ON);
            let of = expected.len().checked_sub(1 + lag).map(|at| expected[at].clone()).unwrap_or_default();
            assert_eq!(came.sessions(), of, "turn {turn}, pipeline {pipeline}");
            for (session, index, _) in &came.chunks {
                assert_eq!(*index, next[session], "session {session} in turn {turn}");
                *next.get_mut(session).unwrap() += 1;
            }
        }
        assert_eq!(stop(&host, FOR_EVER), OK);
        works.expect_order();
    }
}
