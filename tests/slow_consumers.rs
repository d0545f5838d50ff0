//! A consumer that is behind costs nobody but its own session, and what it costs that one is as the policy says.

mod driver;

use std::collections::VecDeque;
use std::ffi::c_void;

use driver::*;

const DEPTH: u32 = 4;
const HELD: u32 = 2;

/// Writes the number of its step into the chunk, and remembers nothing.
unsafe extern "C-unwind" fn count(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch, by position.
    unsafe {
        let batch = &*batch;
        for at in 0..batch.count as usize {
            (*batch.output.add(at)).cast::<u64>().write(*batch.age.add(at));
            *batch.output_size.add(at) = 8;
        }
    }
    0
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

/// An engine with sessions 0..`sessions`, ticked by the test.
fn host(sessions: u64, policy: u32, pipeline: u32) -> Host {
    let keys = [rte_key { size: 8, r#type: RTE_I64, ..zeroed() }];
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, count)];
    let model = rte_model { keys: keys.as_ptr(), key_count: 1, ..model(&stages, 4, 8) };
    let options =
        rte_engine_options { outbox_policy: policy, outbox_depth: DEPTH, held_max: HELD, pipeline, ..options() };
    let host = Host::new(&model, &options);
    for session in 0..sessions {
        assert_eq!(host.push(message(RTE_ATTACH, session), &[]), 0);
    }
    host
}

fn pop(host: &Host) -> Option<rte_output> {
    let mut output = zeroed();
    // SAFETY: the engine lives.
    let status = unsafe { rte_outbox_pop(host.engine, &mut output) };
    assert!(status == 0 || status == RTE_AGAIN);
    (status == 0).then_some(output)
}

const RTE_AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;

fn release(mut output: rte_output) {
    // SAFETY: each is released once.
    unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
}

fn session(host: &Host, session: u64) -> rte_session_info {
    let mut info = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
    // SAFETY: the engine lives; a valid place.
    assert_eq!(unsafe { rte_session_get_info(host.engine, session, &mut info) }, 0);
    info
}

#[test]
fn with_hold_a_consumer_that_takes_16_of_60_is_never_far_behind_and_loses_nothing() {
    for (pipeline, depth_chunks) in [(RTE_PIPELINE_OFF, 1), (RTE_PIPELINE_ON, 2)] {
        let host = host(1, RTE_HOLD, pipeline);
        let (mut next, mut held_ticks) = (0, 0);
        for tick in 0..6000u64 {
            assert_eq!(host.tick(), 0);
            let info = session(&host, 0);
            held_ticks += u64::from(info.state == RTE_HELD);
            if (tick + 1) * 16 / 60 == tick * 16 / 60 {
                continue;
            }
            let Some(chunk) = std::iter::from_fn(|| pop(&host)).find(|output| {
                let is_chunk = output.kind == RTE_CHUNK;
                if !is_chunk {
                    release(*output);
                }
                is_chunk
            }) else {
                continue;
            };
            assert_eq!((chunk.index, chunk.dropped), (next, 0), "nothing is dropped");
            let newer = info.age - chunk.index - 1;
            assert!(newer <= u64::from(DEPTH) + depth_chunks, "{newer} newer chunks were made");
            next += 1;
            release(chunk);
        }
        assert!(next >= 1590, "the consumer got {next} of the 1600 it could take");
        assert!(held_ticks > 4000, "the session sat out in {held_ticks} ticks");
        assert_eq!(session(&host, 0).ticks_out, held_ticks, "and all of them were counted");
        assert_eq!(host.info().dropped, 0);
    }
}

#[test]
fn with_hold_an_action_reaches_the_chunk_that_is_made_next() {
    let host = host(1, RTE_HOLD, RTE_PIPELINE_ON);
    for tag in 1..200u64 {
        for _ in 0..tag % 7 {
            assert_eq!(host.tick(), 0);
        }
        let made = session(&host, 0).age;
        let number = tag.to_ne_bytes();
        assert_eq!(host.push(rte_message { tag, ..message(RTE_ACTION, 0) }, &[value(0, &number)]), 0);
        // Takes all there is: the session goes on.
        for _ in 0..4 {
            while let Some(chunk) = pop(&host) {
                if chunk.kind == RTE_CHUNK && chunk.index >= made {
                    assert_eq!(chunk.tag, tag, "chunk {} of {made} made before", chunk.index);
                }
                release(chunk);
            }
            assert_eq!(host.tick(), 0);
        }
    }
}

#[test]
fn with_hold_a_session_whose_outputs_are_kept_sits_out_alone_until_one_is_released() {
    let host = host(3, RTE_HOLD, RTE_PIPELINE_ON);
    let (mut kept, mut next) = (VecDeque::new(), [0; 3]);
    for tick in 0..3000u64 {
        assert_eq!(host.tick(), 0);
        while let Some(output) = pop(&host) {
            if output.kind != RTE_CHUNK {
                release(output);
                continue;
            }
            assert_eq!((output.index, output.dropped), (next[output.session as usize], 0));
            next[output.session as usize] += 1;
            if output.session == 1 { kept.push_back(output) } else { release(output) }
        }
        // Of every 60 ticks it releases in 16.
        if (tick + 1) * 16 / 60 != tick * 16 / 60
            && let Some(output) = kept.pop_front()
        {
            release(output);
        }
        assert!(kept.len() <= (DEPTH + HELD) as usize, "{} outputs are kept", kept.len());
    }
    assert!(next[0] >= 2998 && next[0] == next[2], "the others got a chunk in each tick");
    assert!((800..820).contains(&next[1]), "the slow one got as many as it gave back: {}", next[1]);
    assert_eq!(host.info().dropped, 0);
    kept.into_iter().for_each(release);
}

#[test]
fn with_drop_oldest_a_dead_consumer_of_one_session_loses_that_ones_chunks_alone() {
    let host = host(3, RTE_DROP_OLDEST, RTE_PIPELINE_ON);
    let (mut kept, mut next) = (Vec::new(), [0; 3]);
    for _ in 0..1000 {
        assert_eq!(host.tick(), 0);
        while let Some(output) = pop(&host) {
            match (output.kind, output.session) {
                (RTE_CHUNK, 1) => kept.push(output),
                (RTE_CHUNK, session) => {
                    assert_eq!((output.index, output.dropped), (next[session as usize], 0));
                    next[session as usize] += 1;
                    release(output);
                }
                _ => release(output),
            }
        }
    }
    assert_eq!((next[0], next[2]), (999, 999), "the others get every chunk");
    let dead = session(&host, 1);
    // The newest chunk is still in flight.
    assert_eq!(dead.dropped, dead.age - 1 - kept.len() as u64 - dead.queued, "the loss is counted exactly");
    assert_eq!(kept.len() as u64, u64::from(DEPTH + HELD), "it got what its buffers allow");
    kept.into_iter().for_each(release);
    assert_eq!(host.tick(), 0);
    assert_eq!(host.tick(), 0);
    let fresh = std::iter::from_fn(|| pop(&host)).filter(|output| output.session == 1).last().unwrap();
    assert_eq!((fresh.index, fresh.dropped), (1000, 0), "and once it gives them back it is up to date");
}

#[test]
fn with_hold_a_stop_does_not_wait_for_the_consumer_and_what_was_made_can_still_be_popped() {
    let host = host(2, RTE_HOLD, RTE_PIPELINE_ON);
    for _ in 0..100 {
        assert_eq!(host.tick(), 0);
    }
    assert_eq!(host.info().held, 2);
    // SAFETY: the engine lives and is ticked by this thread.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    let (mut chunks, mut detached) = ([0u64; 2], 0);
    host.pop_all(|output| match output.kind {
        RTE_CHUNK => {
            assert_eq!(output.index, chunks[output.session as usize]);
            chunks[output.session as usize] += 1;
        }
        RTE_DETACHED => detached += 1,
        _ => {}
    });
    assert_eq!((chunks, detached), ([u64::from(DEPTH); 2], 2));
}

/// Every second chunk is left out: its size stays 0.
unsafe extern "C-unwind" fn count_every_other(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch, by position.
    unsafe {
        let batch = &*batch;
        for at in 0..batch.count as usize {
            *batch.output_size.add(at) = if (*batch.age.add(at)).is_multiple_of(2) { 0 } else { 8 };
        }
    }
    0
}

/// A session that is held for what is in flight goes on when that comes to nothing: no pop will tell it so.
#[test]
fn with_hold_a_chunk_that_is_left_out_holds_nobody_for_ever() {
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, count_every_other)];
    let model = model(&stages, 4, 8);
    let more = rte_engine_options { outbox_policy: RTE_HOLD, outbox_depth: 1, pipeline: RTE_PIPELINE_ON, ..options() };
    let host = Host::new(&model, &more);
    assert_eq!(host.push(message(RTE_ATTACH, 0), &[]), 0);
    // SAFETY: the engine lives; a deadline for a hang alone.
    unsafe {
        assert_eq!(rte_engine_start(host.engine, std::ptr::null_mut()), 0);
        let mut next = 1;
        while next < 200 {
            assert_eq!(rte_outbox_wait(host.engine, 60_000_000_000), 0, "chunk {next} never comes");
            while let Some(output) = pop(&host) {
                if output.kind == RTE_CHUNK {
                    assert_eq!(output.index, next);
                    next += 2;
                }
                release(output);
            }
        }
    }
}
