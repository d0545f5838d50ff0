//! `model.serve`: the host owns the loop, and has the other ends of the same two queues.
//!
//! Here the loop is the test: what it is shown, what it may say, and what of that comes out.

mod driver;
mod random;
mod serve_host;

use std::collections::BTreeMap;
use std::ptr::{null, null_mut};
use std::sync::Mutex;

use driver::*;
use random::Random;
use serve_host::model::{Model, Policy, Sent};
use serve_host::*;

fn status(kind: u32, session: u64, status: i32) -> rte_output {
    rte_output { status, ..output(kind, session) }
}

// ---- who is here

#[test]
fn a_life_begins_with_its_pop_and_gets_a_row_a_generation_and_what_was_pushed() {
    let (status, rest) = run(2, &options(), |ends| {
        let bytes: Vec<u8> = (0..=255).cycle().take(5000).collect();
        let attach = rte_message { tag: 3, user: 4, ..message(RTE_ATTACH, 7) };
        assert_eq!(ends.push(attach, &[value(1, &bytes), value(0, b"")]), OK);
        let action = rte_message { tag: 5, flags: RTE_PARTIAL, ..message(RTE_ACTION, 7) };
        assert_eq!(ends.push(action, &[value(0, b"left")]), OK);
        assert!(ends.session(7).is_none());
        let values = vec![(1, bytes), (0, Vec::new())];
        let shown = Shown { kind: RTE_ATTACH, flags: 0, session: 7, generation: 1, user: 4, tag: 3, values };
        assert_eq!(ends.pop(), Ok(shown));
        assert_eq!(ends.session(7).map(|info| (info.state, info.row, info.user)), Some((RTE_PENDING, 0, 4)));
        assert_eq!(ends.outputs(), [], "the loop says ATTACHED, when it likes");
        assert_eq!(ends.tell(RTE_ATTACHED, 7), OK);
        assert_eq!(ends.outputs(), [said(RTE_ATTACHED, 7, 0, 1)]);
        let values = vec![(0, b"left".to_vec())];
        let action = Shown { kind: RTE_ACTION, flags: RTE_PARTIAL, session: 7, generation: 1, user: 4, tag: 5, values };
        assert_eq!(ends.pop(), Ok(action));
        assert_eq!(ends.session(7).map(|info| (info.state, info.tag)), Some((RTE_READY, 5)));
        assert_eq!(ends.pop(), Err(AGAIN));
        let info = ends.info();
        assert_eq!((info.attached, info.pending, info.health, info.lanes), (1, 0, 0, RTE_LANES_INLINE));
        OK
    });
    assert_eq!((status, rest), (OK, vec![said(RTE_DETACHED, 7, CLOSED.into(), 1)]));
}

#[test]
fn the_library_answers_who_cannot_get_in_and_who_is_not_there() {
    let (_, rest) = run(2, &options(), |ends| {
        let first = ends.attach(1);
        let second = ends.attach(2);
        assert_eq!((first, second), (1, 2));
        ends.send(RTE_ATTACH, 1, 70); // is here
        ends.send(RTE_ATTACH, 3, 71); // no row
        ends.send(RTE_RESET, 4, 72); // as an ATTACH
        for (kind, tag) in [(RTE_ACTION, 73), (RTE_PAUSE, 74), (RTE_RESUME, 75), (RTE_DETACH, 76)] {
            ends.send(kind, 9, tag);
        }
        for kind in [RTE_ACTION, RTE_RESET, RTE_DETACH, RTE_PAUSE] {
            assert_eq!(ends.push(rte_message { generation: 40, tag: 77, ..message(kind, 1) }, &[]), OK);
        }
        assert_eq!(ends.pop(), Err(AGAIN), "none of it is the loop's");
        assert_eq!(ends.wait(0), TIMEOUT);
        let mut outputs: Vec<_> = std::iter::from_fn(|| ends.output().ok()).map(|(output, _)| output).collect();
        let tags: Vec<_> = outputs.iter().map(|output| (output.tag, output.dropped, output.flags)).collect();
        assert_eq!(tags, [(70, 0, RTE_ALREADY), (71, 0, 0), (72, 0, 0), (75, 3, 0), (77, 4, 0)]);
        let outputs: Vec<_> = outputs.drain(..).map(|output| short(&output)).collect();
        let rejected = |session, status: i32| said(RTE_REJECTED, session, status.into(), 0);
        let expected = [
            said(RTE_ATTACHED, 1, 0, 1),
            rejected(3, FULL),
            rejected(4, FULL),
            rejected(9, UNKNOWN),
            rejected(1, STALE),
        ];
        assert_eq!(outputs, expected);
        // A row is free again when its life is over and its last chunk was taken.
        assert_eq!((ends.chunk(1, 0), ends.tell(RTE_DETACHED, 1)), (OK, OK));
        ends.send(RTE_ATTACH, 3, 0);
        assert_eq!(ends.pop(), Err(AGAIN));
        assert_eq!(ends.outputs(), [rejected(3, FULL), said(RTE_CHUNK, 1, 0, 1), said(RTE_DETACHED, 1, 0, 1)]);
        assert_eq!(ends.attach(3), 3);
        assert_eq!(ends.session(3).map(|info| info.row), Some(0));
        OK
    });
    assert_eq!(rest.len(), 2);
}

#[test]
fn a_reset_is_a_new_life_and_the_old_one_is_over_at_once() {
    run(1, &options(), |ends| {
        let attach = rte_message { user: 8, ..message(RTE_ATTACH, 1) };
        assert_eq!(ends.push(attach, &[]), OK);
        assert_eq!(ends.pop().map(|shown| shown.generation), Ok(1));
        assert_eq!((ends.tell(RTE_ATTACHED, 1), ends.chunk(1, 0), ends.chunk(1, 1)), (OK, OK, OK));
        ends.send(RTE_PAUSE, 1, 0);
        ends.send(RTE_RESET, 1, 5);
        assert_eq!(ends.pop().map(|shown| shown.kind), Ok(RTE_PAUSE));
        let shown = ends.pop().unwrap();
        assert_eq!((shown.kind, shown.generation, shown.user, shown.tag), (RTE_RESET, 2, 8, 5));
        let info = ends.session(1).unwrap();
        assert_eq!((info.state, info.generation, info.age, info.paused), (RTE_PENDING, 2, 0, 1), "the pause is kept");
        // What the loop still says to the old life is told apart by its generation.
        assert_eq!(ends.say(rte_output { generation: 1, ..output(RTE_DETACHED, 1) }), STALE);
        assert_eq!(ends.chunk(1, 2), STATE, "the new life was not told yet");
        assert_eq!(ends.say(rte_output { generation: 2, ..output(RTE_ATTACHED, 1) }), OK);
        assert_eq!(ends.chunk(1, 0), OK, "counted anew");
        let expected = [
            said(RTE_ATTACHED, 1, 0, 1),
            said(RTE_DETACHED, 1, 0, 1),
            said(RTE_ATTACHED, 1, 0, 2),
            said(RTE_CHUNK, 1, 0, 2),
        ];
        assert_eq!(ends.outputs(), expected);
        assert_eq!(ends.info().dropped, 2);
        OK
    });
}

#[test]
fn after_a_detach_nothing_comes_out_but_detached() {
    run(1, &options(), |ends| {
        ends.attach(1);
        assert_eq!((ends.chunk(1, 0), ends.chunk(1, 1)), (OK, OK));
        ends.send(RTE_DETACH, 1, 6);
        ends.send(RTE_DETACH, 1, 7);
        ends.send(RTE_ACTION, 1, 8);
        let shown = ends.pop().unwrap();
        assert_eq!((shown.kind, shown.flags, shown.generation, shown.tag), (RTE_DETACH, 0, 1, 6));
        assert_eq!(ends.pop(), Err(AGAIN), "the second changes nothing, the ACTION is for nobody");
        assert_eq!(ends.chunk(1, 2), OK, "a loop need not look");
        assert_eq!(ends.outputs(), [said(RTE_REJECTED, 1, UNKNOWN.into(), 0)]);
        assert_eq!(ends.tell(RTE_DETACHED, 1), OK);
        assert_eq!(ends.outputs(), [said(RTE_DETACHED, 1, 0, 1)]);
        assert_eq!((ends.chunk(1, 3), ends.tell(RTE_DETACHED, 1)), (UNKNOWN, UNKNOWN));
        assert_eq!(ends.info().dropped, 3);
        assert_eq!(ends.attach(1), 2, "its row is free at once");
        OK
    });
}

#[test]
fn an_attach_after_a_detach_that_the_loop_has_not_answered_ends_the_old_life_first() {
    for kind in [RTE_ATTACH, RTE_RESET] {
        run(1, &options(), |ends| {
            ends.attach(1);
            ends.send(RTE_DETACH, 1, 6);
            ends.send(kind, 1, 7);
            assert_eq!(ends.pop().map(|shown| shown.kind), Ok(RTE_DETACH));
            assert_eq!(ends.pop().map(|shown| (shown.kind, shown.generation)), Ok((kind, 2)));
            let (old, _) = ends.output().unwrap();
            assert_eq!((short(&old), old.tag), (said(RTE_DETACHED, 1, 0, 1), 6));
            assert_eq!(ends.tell(RTE_ATTACHED, 1), OK);
            assert_eq!(ends.outputs(), [said(RTE_ATTACHED, 1, 0, 2)]);
            OK
        });
    }
}

#[test]
fn a_session_that_drains_is_attached_until_its_last_chunk_was_taken() {
    run(1, &options(), |ends| {
        ends.attach(1);
        assert_eq!(ends.push(rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, 1) }, &[]), OK);
        assert_eq!(ends.pop().map(|shown| (shown.kind, shown.flags)), Ok((RTE_DETACH, RTE_DRAIN)));
        assert_eq!((ends.chunk(1, 0), ends.chunk(1, 1)), (OK, OK));
        let try_all = |ends: Ends| {
            for kind in [RTE_ATTACH, RTE_RESET, RTE_ACTION, RTE_PAUSE] {
                ends.send(kind, 1, 0);
            }
            assert_eq!(ends.push(rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, 1) }, &[]), OK);
            assert_eq!(ends.pop(), Err(AGAIN));
            let expected = [said(RTE_ATTACHED, 1, 0, 1), said(RTE_REJECTED, 1, STATE.into(), 1)];
            assert_eq!([ends.output().unwrap(), ends.output().unwrap()].map(|(output, _)| short(&output)), expected);
        };
        try_all(ends);
        assert_eq!(ends.tell(RTE_DETACHED, 1), OK);
        assert_eq!(ends.chunk(1, 2), UNKNOWN);
        try_all(ends);
        assert_eq!(ends.info().attached, 1);
        let expected = [said(RTE_CHUNK, 1, 0, 1), said(RTE_CHUNK, 1, 1, 1), said(RTE_DETACHED, 1, 0, 1)];
        assert_eq!(ends.outputs(), expected);
        assert!(ends.session(1).is_none());
        assert_eq!(ends.attach(1), 2);
        // Only a DETACH without DRAIN still has an effect: before the loop has said DETACHED, and after.
        for has_said in [false, true] {
            assert_eq!(ends.chunk(1, 0), OK);
            assert_eq!(ends.push(rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, 1) }, &[]), OK);
            assert_eq!(ends.pop().map(|shown| shown.flags), Ok(RTE_DRAIN));
            if has_said {
                assert_eq!(ends.tell(RTE_DETACHED, 1), OK);
            }
            ends.send(RTE_DETACH, 1, 0);
            assert_eq!(ends.pop().map(|shown| shown.kind), if has_said { Err(AGAIN) } else { Ok(RTE_DETACH) });
            assert_eq!(ends.tell(RTE_DETACHED, 1), if has_said { UNKNOWN } else { OK });
            assert_eq!(ends.outputs().len(), 1, "DETACHED alone");
            ends.attach(1);
        }
        OK
    });
}

// ---- what the loop may say

#[test]
fn each_notice_comes_once_in_a_life_and_in_order() {
    let failed = || rte_output { stage: 17, ..status(RTE_ROW_FAILED, 1, -1007) };
    run(1, &options(), |ends| {
        ends.send(RTE_ATTACH, 1, 0);
        assert_eq!(ends.tell(RTE_ATTACHED, 1), UNKNOWN, "nobody is here before the pop");
        ends.pop().unwrap();
        assert_eq!((ends.chunk(1, 0), ends.say(failed())), (STATE, STATE), "not told yet");
        assert_eq!((ends.tell(RTE_ATTACHED, 1), ends.tell(RTE_ATTACHED, 1)), (OK, STATE));
        assert_eq!(ends.say(status(RTE_REJECTED, 1, -1000)), STATE);
        assert_eq!(
            (ends.chunk(1, 4), ends.chunk(1, 4), ends.chunk(1, 3), ends.chunk(1, 9)),
            (OK, ARGUMENT, ARGUMENT, OK)
        );
        assert_eq!((ends.say(failed()), ends.say(failed()), ends.chunk(1, 10)), (OK, STATE, STATE));
        assert_eq!(ends.session(1).map(|info| (info.state, info.status)), Some((RTE_QUARANTINED, -1007)));
        assert_eq!(ends.info().quarantined, 1);
        assert_eq!(ends.say(status(RTE_DETACHED, 1, -1001)), OK, "a status of the loop's own");
        let all: Vec<_> = std::iter::from_fn(|| ends.output().ok()).map(|(output, _)| output).collect();
        let expected = [
            said(RTE_ATTACHED, 1, 0, 1),
            said(RTE_ROW_FAILED, 1, -1007, 1),
            said(RTE_CHUNK, 1, 4, 1),
            said(RTE_CHUNK, 1, 9, 1),
            said(RTE_DETACHED, 1, -1001, 1),
        ];
        assert_eq!(all.iter().map(short).collect::<Vec<_>>(), expected);
        assert_eq!((all[1].stage, all[2].dropped, all[3].dropped), (17, 4, 4));
        // A life that was refused, and one that was never told anything, are over with one notice.
        for (kind, code) in [(RTE_REJECTED, -4), (RTE_DETACHED, 0), (RTE_REJECTED, CLOSED)] {
            ends.send(RTE_ATTACH, 1, 0);
            let generation = ends.pop().unwrap().generation;
            assert_eq!((ends.say(status(kind, 1, code)), ends.tell(RTE_ATTACHED, 1)), (OK, UNKNOWN));
            assert_eq!(ends.outputs(), [said(kind, 1, code.into(), generation)]);
        }
        OK
    });
}

#[test]
fn a_chunk_says_what_the_loop_said_and_what_the_library_knows() {
    run(2, &options(), |ends| {
        ends.attach(5);
        assert_eq!(ends.push(rte_message { user: 31, ..message(RTE_ATTACH, 6) }, &[]), OK);
        ends.pop().unwrap();
        assert_eq!(ends.say(rte_output { tick: 11, tag: 2, ..output(RTE_ATTACHED, 6) }), OK);
        let bytes = [9u8; CHUNK];
        let given = rte_output {
            tag: 12,
            heavy_tag: 13,
            tick: 14,
            index: 3,
            frames: 15,
            data: bytes.as_ptr().cast(),
            size: CHUNK,
            // Not looked at.
            user: 1,
            dropped: 2,
            row: 3,
            start_ns: 4,
            done_ns: 5,
            ..output(RTE_CHUNK, 6)
        };
        assert_eq!(ends.say(given), OK);
        let (attached, _) = ends.output().unwrap();
        assert_eq!((attached.tick, attached.tag, attached.user, attached.row), (11, 2, 31, 1));
        let (chunk, data) = ends.output().unwrap();
        let seen = (chunk.user, chunk.generation, chunk.row, chunk.index, chunk.dropped, chunk.frames);
        assert_eq!(seen, (31, 2, 1, 3, 3, 15));
        assert_eq!((chunk.tag, chunk.heavy_tag, chunk.tick, chunk.size), (12, 13, 14, CHUNK));
        assert!(data == bytes && chunk.start_ns > 0 && chunk.done_ns >= chunk.start_ns);
        assert_eq!(ends.session(6).map(|info| (info.age, info.heavy_tag)), Some((1, 13)));
        let info = ends.info();
        assert_eq!((info.ticks, info.chunks, info.attached), (14, 1, 2));
        // What the loop alone could know is 0, though a chunk was made.
        assert_eq!([info.live, info.encoding, info.retiring, info.held], [0; 4]);
        assert_eq!([info.coalesced, info.failed_ticks, info.missed_deadlines, info.late_ticks], [0; 4]);
        assert_eq!([info.tick_ns_max, info.action_ns_max, info.late_ns_max], [0; 3]);
        assert_eq!(info.lane_ns_max, [0; 3]);
        OK
    });
}

#[test]
fn what_is_wrong_is_refused_and_nothing_comes_of_it() {
    let (_, rest) = run(1, &options(), |ends| {
        ends.attach(1);
        let byte = [7u8; CHUNK + 1];
        let chunk = |index| rte_output { data: byte.as_ptr().cast(), size: 1, index, ..output(RTE_CHUNK, 1) };
        let wrong = [
            output(0, 1),
            output(RTE_TICK_FAILED, 1),
            output(RTE_DEAD, 1),
            output(99, 1),
            rte_output { flags: RTE_ALREADY, ..chunk(0) },
            rte_output { reserved: [0, 0, 1], ..chunk(0) },
            rte_output { size: 0, ..chunk(0) },
            rte_output { size: CHUNK + 1, ..chunk(0) },
            rte_output { data: null(), ..chunk(0) },
            rte_output { status: -1000, ..chunk(0) },
            status(RTE_ATTACHED, 1, -1000),
            status(RTE_REJECTED, 1, 0),
            status(RTE_REJECTED, 1, AGAIN),
            status(RTE_DETACHED, 1, TIMEOUT),
            status(RTE_DETACHED, 1, -15),
            status(RTE_ROW_FAILED, 1, 0),
            status(RTE_ROW_FAILED, 1, CLOSED),
            rte_output { data: byte.as_ptr().cast(), ..output(RTE_DETACHED, 1) },
            rte_output { size: 1, ..output(RTE_DETACHED, 1) },
        ];
        for (at, output) in wrong.into_iter().enumerate() {
            assert_eq!(ends.say(output), ARGUMENT, "case {at}");
        }
        let event = std::ptr::without_provenance_mut(64);
        assert_eq!(ends.say(rte_output { ready: event, ..chunk(0) }), UNAVAILABLE);
        assert_eq!(ends.say(rte_output { generation: 9, ..chunk(0) }), STALE);
        assert_eq!(ends.say(rte_output { session: 2, generation: 9, ..chunk(0) }), UNKNOWN);
        // SAFETY: the engine lives; what is NULL is refused.
        unsafe {
            assert_eq!((rte_inbox_pop(ends.0, null_mut()), rte_outbox_push(ends.0, null())), (ARGUMENT, ARGUMENT));
            let mut message = zeroed();
            assert_eq!(rte_inbox_pop(null_mut(), &mut message), ARGUMENT);
            assert_eq!((rte_inbox_wait(null_mut(), 0), rte_outbox_push(null_mut(), &chunk(0))), (ARGUMENT, ARGUMENT));
        }
        assert_eq!(ends.outputs(), []);
        assert_eq!(ends.say(chunk(u64::MAX)), OK, "any number");
        assert_eq!(ends.say(chunk(u64::MAX)), ARGUMENT, "but none after it");
        OK
    });
    assert_eq!(rest, [said(RTE_CHUNK, 1, -1, 1), said(RTE_DETACHED, 1, CLOSED.into(), 1)]);
}

// ---- slow consumers

#[test]
fn a_slow_consumer_loses_chunks_by_policy_or_the_loop_is_told() {
    let lost = |policy, expected: [Option<(i64, u64)>; 3]| {
        let options = rte_engine_options { outbox_depth: 2, outbox_policy: policy, ..options() };
        run(1, &options, |ends| {
            ends.attach(1);
            let results = [0, 1, 2, 3].map(|index| ends.chunk(1, index));
            let room = if policy == RTE_HOLD { AGAIN } else { OK };
            assert_eq!(results, [OK, OK, room, room]);
            let seen = [(); 3].map(|()| ends.output().ok().map(|(output, _)| (output.index as i64, output.dropped)));
            assert_eq!(seen, expected);
            assert_eq!(ends.info().dropped, if policy == RTE_HOLD { 0 } else { 2 });
            OK
        });
    };
    lost(RTE_DROP_OLDEST, [Some((2, 2)), Some((3, 0)), None]);
    lost(RTE_DROP_NEWEST, [Some((0, 0)), Some((1, 0)), None]);
    lost(RTE_HOLD, [Some((0, 0)), Some((1, 0)), None]);
}

#[test]
fn who_holds_all_buffers_loses_its_own_next_chunks_alone() {
    for policy in [RTE_DROP_OLDEST, RTE_DROP_NEWEST, RTE_HOLD] {
        let options = rte_engine_options { outbox_depth: 2, held_max: 1, outbox_policy: policy, ..options() };
        run(2, &options, |ends| {
            ends.attach(1);
            ends.attach(2);
            let mut held: [rte_output; 3] = zeroed();
            for (index, output) in held.iter_mut().enumerate() {
                assert_eq!(ends.chunk(1, index as u64), OK);
                // SAFETY: the engine lives; released below.
                assert_eq!(unsafe { rte_outbox_pop(ends.0, output) }, OK);
            }
            assert_eq!(ends.session(1).map(|info| info.held), Some(3));
            let is_held = policy == RTE_HOLD;
            assert_eq!(ends.chunk(1, 3), if is_held { AGAIN } else { OK });
            assert_eq!(ends.wait(0), TIMEOUT, "there is no room");
            assert_eq!(ends.chunk(2, 0), OK, "nobody else's quota is touched");
            assert_eq!(ends.outputs(), [said(RTE_CHUNK, 2, 0, 2)]);
            // SAFETY: popped above.
            unsafe { rte_output_release(&mut held[1], null_mut()) };
            if is_held {
                assert_eq!(ends.wait(u64::MAX), OK, "there is room");
            }
            assert_eq!(ends.chunk(1, if is_held { 3 } else { 4 }), OK);
            let (chunk, _) = ends.output().unwrap();
            assert_eq!((chunk.index, chunk.dropped), if is_held { (3, 0) } else { (4, 1) });
            for output in &mut held {
                // SAFETY: popped above; a second release does nothing.
                unsafe { rte_output_release(output, null_mut()) };
            }
            OK
        });
    }
}

// ---- everything at once

const MESSAGES: u64 = 10_000;
const ROWS: u32 = 4;
const DEPTH: u32 = 3;
const INBOX: u32 = 64;

/// One run of random messages, turns of the loop and pops: each equals the small model.
fn random_run(seed: u64, policy: Policy) -> BTreeMap<&'static str, u64> {
    let number = match policy {
        Policy::DropOldest => RTE_DROP_OLDEST,
        Policy::DropNewest => RTE_DROP_NEWEST,
        Policy::Hold => RTE_HOLD,
    };
    let options = rte_engine_options { outbox_policy: number, outbox_depth: DEPTH, inbox_capacity: INBOX, ..options() };
    println!("seed {seed}, {policy:?}");
    let mut model = Model::new(ROWS, DEPTH as usize, policy);
    let used = Mutex::new(BTreeMap::new());
    let (status, _) = run(ROWS, &options, |ends| {
        let mut random = Random::new(seed);
        let (mut messages, mut index) = (0, 0);
        while messages < MESSAGES {
            match random.below(16) {
                0..3 => messages += random_push(ends, &mut model, &mut random, messages),
                3..5 => assert_eq!(ends.pop_aligned(8).ok(), model.pop()),
                5..13 => {
                    index += 1;
                    random_say(ends, &mut model, &mut random, index);
                }
                13 => {
                    let session = random.below(6);
                    model.check_info(session, ends.session(session));
                    assert_eq!(ends.info().attached, model.attached());
                }
                _ => (0..random.below(5)).for_each(|_| pop_one(ends, &mut model)),
            }
        }
        while let Some(shown) = model.pop() {
            assert_eq!(ends.pop(), Ok(shown));
        }
        assert_eq!(ends.pop(), Err(AGAIN));
        while !model.is_empty() {
            pop_one(ends, &mut model);
        }
        assert_eq!(ends.output().err(), Some(AGAIN));
        check_places(ends);
        *used.lock().unwrap() = std::mem::take(&mut model.used);
        OK
    });
    assert_eq!(status, OK);
    used.into_inner().unwrap()
}

/// Each place for a notice that was paid for and not used has been given back.
fn check_places(ends: Ends) {
    (0..6).for_each(|session| _ = ends.tell(RTE_DETACHED, session));
    while ends.output().is_ok() {}
    let mut told = 0;
    // An ATTACH pays for three, of which a REJECTED that nobody pops keeps one.
    while ends.push(message(RTE_ATTACH, 0), &[]) == OK {
        ends.pop().unwrap();
        assert_eq!(ends.say(status(RTE_REJECTED, 0, -1000)), OK);
        told += 1;
    }
    assert_eq!(told, 3 * (2 * ROWS + INBOX) - 2);
}

fn pop_one(ends: Ends, model: &mut Model) {
    match ends.output() {
        Ok((output, bytes)) => model.check_output(&output, &bytes),
        Err(status) => assert!(status == AGAIN && model.is_empty()),
    }
}

fn random_push(ends: Ends, model: &mut Model, random: &mut Random, number: u64) -> u64 {
    let kinds = [RTE_ATTACH, RTE_ATTACH, RTE_DETACH, RTE_DETACH, RTE_RESET, RTE_ACTION, RTE_PAUSE, RTE_RESUME];
    let (kind, session) = (random.pick(&kinds), random.below(6));
    let generation = match random.below(8) {
        _ if kind == RTE_ATTACH => 0,
        0 => 1 + random.below(300),
        1 => model.generation(session).unwrap_or(0),
        _ => 0,
    };
    let flags = if kind == RTE_DETACH && random.below(2) == 0 { RTE_DRAIN } else { 0 };
    let bytes = vec![number as u8; random.pick(&[0, 8, 40, 700])];
    let has_value = matches!(kind, RTE_ATTACH | RTE_RESET | RTE_ACTION) && random.below(2) == 0;
    let (user, tag) = (number * 3, number + 1);
    let sent = rte_message { flags, generation, user, tag, ..message(kind, session) };
    let values = [value(1, &bytes)];
    let values = if has_value { &values[..] } else { &[] };
    match ends.push(sent, values) {
        OK => {
            let values = if has_value { vec![(1, bytes)] } else { Vec::new() };
            model.send(Sent { kind, flags, session, generation, user, tag, values });
            1
        }
        // A quarter of the inbox is a session's: the loop has to have a turn.
        AGAIN => {
            assert_eq!(ends.pop().ok(), model.pop());
            pop_one(ends, model);
            0
        }
        status => panic!("a push returned {status}"),
    }
}

fn random_say(ends: Ends, model: &mut Model, random: &mut Random, index: u64) {
    let kind = match random.below(32) {
        0..20 => RTE_CHUNK,
        20..28 => RTE_ATTACHED,
        28 => RTE_REJECTED,
        29 => RTE_ROW_FAILED,
        _ => RTE_DETACHED,
    };
    let session = random.below(6);
    let generation = match random.below(6) {
        0 => 1 + random.below(300),
        1 => model.generation(session).unwrap_or(0),
        _ => 0,
    };
    let bytes = vec![index as u8; 1 + random.below(CHUNK as u64) as usize];
    let mut said = rte_output { generation, tag: index, ..output(kind, session) };
    match kind {
        RTE_CHUNK => {
            // Mostly the next, with gaps; sometimes an old one.
            said.index = if random.below(10) == 0 { index / 2 } else { index };
            (said.data, said.size) = (bytes.as_ptr().cast(), bytes.len());
        }
        RTE_REJECTED | RTE_ROW_FAILED => said.status = -1000 - index as i32,
        RTE_DETACHED => said.status = random.pick(&[0, CLOSED, -1001]),
        _ => {}
    }
    assert_eq!(ends.say(said), model.push(&said, &bytes));
}

#[test]
fn ten_thousand_random_messages_do_what_the_small_model_says() {
    for policy in [Policy::DropOldest, Policy::DropNewest, Policy::Hold] {
        let mut used: BTreeMap<&str, u64> = BTreeMap::new();
        for seed in 1..=4 {
            random_run(seed, policy).into_iter().for_each(|(rule, count)| *used.entry(rule).or_default() += count);
        }
        println!("{policy:?}: {used:?}");
        let rules = [
            "already",
            "attach",
            "attach ends a life that was left",
            "chunk",
            "detach",
            "detach calls a farewell back",
            "drain",
            "farewell",
            "full",
            "index",
            "out of order",
            "reset",
            "reset while draining",
            "stale",
            "unknown",
            if policy == Policy::Hold { "hold" } else { "drop" },
        ];
        for rule in rules {
            assert!(used.get(rule).is_some_and(|count| *count >= 50), "{rule} was hardly used: {used:?}");
        }
    }
}
