//! One session fails for ever. Alone it costs the others nothing; with a whole call at most three ticks. Who is told what
//! is exact, on each kind of lanes, pipelined or not, and whether a failed step may be tried again or not.

mod failure_host;
mod host;

use failure_host::model::{BAD, BAD_PROMPT, FROM, Failure, Place, STATUS};
use failure_host::run::{Run, Setting, Told};
use rte::abi::message::RTE_DETACH;
use rte::abi::model::RTE_STAGE_NONE;
use rte::abi::options::RTE_LANES_INLINE;
use rte::abi::output::{RTE_ATTACHED, RTE_DETACHED, RTE_REJECTED, RTE_ROW_FAILED};

const CLOSED: i32 = 3;
const COMPANY: [u64; 3] = [1, 2, 3];

fn attached(session: u64) -> Told {
    (RTE_ATTACHED, session, 0, RTE_STAGE_NONE)
}

fn detached(session: u64, status: i32) -> Told {
    (RTE_DETACHED, session, status, RTE_STAGE_NONE)
}

/// A company in which all are well, for some ticks.
fn company(setting: Setting, place: Place, is_whole: bool, with_bad: bool) -> Run {
    let mut run = Run::new(setting, Failure { place, is_whole });
    let all = COMPANY.into_iter().chain(with_bad.then_some(BAD));
    let all: Vec<u64> = if setting.bad_first { all.rev().collect() } else { all.collect() };
    all.iter().for_each(|session| run.attach(*session));
    run.tick(4);
    run.until(|run| run.chunks.len() == all.len());
    assert_eq!(run.news(), all.into_iter().map(attached).collect::<Vec<_>>());
    run
}

/// The failing one is well when it begins anew, the others go on, and all are told of the end.
fn recover(mut run: Run, expected_gaps: u64) {
    run.heal();
    run.reset(BAD);
    let (before, from) = (run.indexes(BAD).len(), run.delivered());
    run.until(|run| run.indexes(BAD).len() > before);
    run.tick(3);
    assert_eq!(run.news(), [detached(BAD, 0), attached(BAD)]);
    assert_eq!(run.indexes(BAD).last().unwrap()[..3], [0, 1, 2]);
    for session in COMPANY {
        assert!(run.lost(session).iter().all(|tick| *tick < from), "{session}: {:?}", run.lost(session));
        let lives = run.indexes(session);
        let (count, last) = (lives[0].len() as u64, *lives[0].last().unwrap());
        assert_eq!((lives.len(), last + 1 - count), (1, expected_gaps), "gaps of {session}");
    }
    let mut end = run.finish();
    end.sort();
    assert_eq!(end, COMPANY.into_iter().chain([BAD]).map(|session| detached(session, CLOSED)).collect::<Vec<_>>());
}

fn each(is_possible: impl Fn(&Setting) -> bool, check: impl Fn(Setting)) {
    for setting in Setting::all().filter(is_possible) {
        println!("{setting:?}");
        check(setting);
    }
}

/// HOT or DEFERRED.
fn a_step_fails(place: Place, is_whole: bool) {
    let is_possible = |setting: &Setting| setting.has_deferred || place != Place::Deferred;
    each(is_possible, |setting| {
        let mut run = company(setting, place, is_whole, true);
        run.tick(2 * FROM);
        assert_eq!(run.news(), [(RTE_ROW_FAILED, BAD, STATUS, place.stage())]);
        run.expect_quarantine();
        assert_eq!(run.indexes(BAD), [(0..FROM).collect::<Vec<_>>()], "it has all chunks that went well, and no other");
        let failed: Vec<_> = is_whole.then_some(((place.stage(), STATUS), 2)).into_iter().collect();
        assert_eq!(Vec::from_iter(run.failed.clone()), failed);
        let first = run.chunks[&BAD][FROM as usize - 1].tick + 1;
        let lost = if is_whole { vec![first, first + 1] } else { vec![] };
        for session in COMPANY {
            assert_eq!(run.lost(session), lost, "session {session}");
        }
        let is_retried = place == Place::Hot && setting.retry_safe;
        recover(run, if is_retried { 0 } else { lost.len() as u64 });
    });
}

#[test]
fn a_row_that_fails_hot_costs_the_others_nothing() {
    a_step_fails(Place::Hot, false);
}

#[test]
fn a_session_with_which_hot_fails_costs_the_others_two_ticks() {
    a_step_fails(Place::Hot, true);
}

#[test]
fn a_row_that_fails_deferred_costs_the_others_nothing() {
    a_step_fails(Place::Deferred, false);
}

#[test]
fn a_session_with_which_deferred_fails_costs_the_others_two_ticks() {
    a_step_fails(Place::Deferred, true);
}

/// Session 1 changes its prompt in the same tick: it is in the same call.
fn an_encode_fails(is_whole: bool) {
    each(
        |_| true,
        |setting| {
            let mut run = company(setting, Place::Encode, is_whole, true);
            run.prompt(1, 77, b"good");
            run.prompt(BAD, 78, BAD_PROMPT);
            let changed = run.ticks;
            run.until(|run| run.engine.info().quarantined == 1);
            run.tick(4);
            assert_eq!(run.news(), [(RTE_ROW_FAILED, BAD, STATUS, Place::Encode.stage())]);
            run.expect_quarantine();
            let failed: Vec<_> = is_whole.then_some(((Place::Encode.stage(), STATUS), 3)).into_iter().collect();
            assert_eq!(Vec::from_iter(run.failed.clone()), failed, "each attempt is told");
            assert!(run.chunks[&BAD].iter().all(|chunk| chunk.heavy_tag == BAD), "what was not encoded is not shown");
            // It sits out two attempts at most; then it steps once with what it had.
            let steps_between = run.chunks[&BAD].iter().filter(|chunk| chunk.tick >= changed).count();
            assert_eq!(steps_between, if is_whole { 1 } else { 0 });
            assert!(run.chunks[&1].iter().any(|chunk| chunk.heavy_tag == 77));
            for session in [2, 3] {
                assert_eq!(run.lost(session), [], "nobody waits for an encode");
            }
            if setting.lanes == RTE_LANES_INLINE {
                let lost = if is_whole { vec![changed, changed + 1] } else { vec![changed] };
                assert_eq!(run.lost(1), lost, "it sits out its own encode, and what was in its way");
            }
            recover(run, 0);
        },
    );
}

#[test]
fn a_row_that_fails_encode_is_quarantined_and_nobody_waits() {
    an_encode_fails(false);
}

#[test]
fn a_session_with_which_encode_fails_is_tried_alone_and_nobody_waits() {
    an_encode_fails(true);
}

/// Session 4 joins in the same tick: it is in the same call.
fn a_seed_fails(is_whole: bool) {
    each(
        |_| true,
        |setting| {
            let mut run = company(setting, Place::Seed, is_whole, false);
            let joined = run.ticks;
            let both = if setting.bad_first { [BAD, 4] } else { [4, BAD] };
            both.iter().for_each(|session| run.attach(*session));
            run.tick(1);
            let rejected = (RTE_REJECTED, BAD, STATUS, RTE_STAGE_NONE);
            run.until(|run| run.told.contains(&rejected) && run.chunks.contains_key(&4));
            let mut news = run.news();
            if !is_whole {
                let first = if setting.bad_first { [rejected, attached(4)] } else { [attached(4), rejected] };
                assert_eq!(news, first, "in the order of their rows");
            }
            news.sort();
            assert_eq!(news, [attached(4), rejected], "one answer each");
            let failed: Vec<_> = is_whole.then_some(((Place::Seed.stage(), STATUS), 3)).into_iter().collect();
            assert_eq!(Vec::from_iter(run.failed.clone()), failed, "each attempt is told");
            if !setting.seed_aside {
                assert_eq!(
                    run.chunks[&4][0].tick,
                    joined + u64::from(is_whole),
                    "seeded with the others, or next in its own call"
                );
            }
            assert!(run.engine.session_info(BAD).is_none() && !run.chunks.contains_key(&BAD));
            for session in COMPANY {
                assert_eq!(run.lost(session), [], "residents never wait for one that fails");
            }
            again_after_a_reset(run);
        },
    );
}

/// Well at first, it begins anew and fails: the old life is told to be over, the new one to be refused.
fn again_after_a_reset(mut run: Run) {
    run.heal();
    run.attach(BAD);
    run.until(|run| run.chunks.contains_key(&BAD));
    assert_eq!(run.news(), [attached(BAD)], "the row is free for the next");
    run.model.is_failing.store(true, std::sync::atomic::Ordering::SeqCst);
    run.reset(BAD);
    let rejected = (RTE_REJECTED, BAD, STATUS, RTE_STAGE_NONE);
    run.until(|run| run.told.iter().filter(|told| **told == rejected).count() == 2);
    assert_eq!(run.news(), [detached(BAD, 0), rejected]);
    assert_eq!(run.indexes(BAD).len(), 1);
    run.push(RTE_DETACH, BAD, 0, b"");
    run.tick(3);
    assert_eq!(run.news(), [], "it is gone");
    for session in COMPANY.into_iter().chain([4]) {
        assert_eq!(run.lost(session), []);
    }
    let mut end = run.finish();
    end.sort();
    assert_eq!(end, [1, 2, 3, 4].map(|session| detached(session, CLOSED)));
}

#[test]
fn a_row_that_fails_seed_is_rejected_and_nobody_waits() {
    a_seed_fails(false);
}

#[test]
fn a_session_with_which_seed_fails_is_tried_alone_and_nobody_waits() {
    a_seed_fails(true);
}
