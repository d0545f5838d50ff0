//! A steady loop behind `model.serve` allocates nothing: not for a message, a chunk, a wait, a pop or a release.

mod driver;
mod process;
mod serve_host;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use driver::*;
use process::{alone, heap_calls};
use serve_host::*;

#[global_allocator]
static ALLOCATOR: process::Counting = process::Counting;

const SESSIONS: u64 = 64;

static RELEASED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn count_release(_: *mut c_void) {
    RELEASED.fetch_add(1, Relaxed);
}

/// One turn: input of every kind, a chunk for each session, all outputs. How many chunks came.
fn turn(ends: Ends, number: u64, index: &mut u64) -> u64 {
    let (small, large) = ([number as u8; 40], [number as u8; 1000]);
    for session in 0..SESSIONS {
        let action = rte_message { tag: number, ..message(RTE_ACTION, session) };
        assert_eq!(ends.push(action, &[value(0, &small[..(number % 41) as usize]), value(1, &large)]), OK);
    }
    let lent = rte_value { flags: RTE_VALUE_BORROWED, ..value(0, &large) };
    assert_eq!(ends.push(rte_message { release: Some(count_release), ..message(RTE_ACTION, 5) }, &[lent]), OK);
    ends.send(if number.is_multiple_of(2) { RTE_PAUSE } else { RTE_RESUME }, 7, 0);
    ends.send(RTE_ACTION, SESSIONS, 0); // of nobody
    let (mut shown, mut message): (u64, rte_message) = (0, zeroed());
    // SAFETY: the engine lives, and so do the values until the next pop.
    unsafe {
        while rte_inbox_pop(ends.0, &mut message) == OK {
            shown += 1;
            if message.value_count == 2 {
                assert_eq!((*message.values.add(1)).data.cast::<u8>().add(999).read(), number as u8);
            }
        }
    }
    assert_eq!(shown, SESSIONS + 2);
    // The second finds no room with HOLD, and drops one without.
    for index in [*index, *index + 1] {
        for session in 0..SESSIONS {
            assert!([OK, AGAIN].contains(&ends.chunk(session, index)));
        }
    }
    *index += 2;
    assert_eq!(ends.wait(0), TIMEOUT);
    let mut chunks = 0;
    let mut output: rte_output = zeroed();
    // SAFETY: the engine lives; each output is released once.
    unsafe {
        while rte_outbox_pop(ends.0, &mut output) == OK {
            chunks += u64::from(output.kind == RTE_CHUNK);
            rte_output_release(&mut output, null_mut());
        }
    }
    let room = ends.wait(0);
    assert!([OK, TIMEOUT].contains(&room));
    chunks
}

#[test]
fn ten_thousand_steady_turns_allocate_nothing() {
    alone("ten_thousand_steady_turns_allocate_nothing", || {
        for policy in [RTE_DROP_OLDEST, RTE_HOLD] {
            let options = rte_engine_options { outbox_policy: policy, outbox_depth: 1, ..options() };
            run(SESSIONS as u32, &options, |ends| {
                (0..SESSIONS).for_each(|session| _ = ends.attach(session));
                let mut index = 0;
                (0..100).for_each(|number| _ = turn(ends, number, &mut index));
                let (before, released) = (heap_calls(), RELEASED.load(Relaxed));
                let chunks: u64 = (100..10_100).map(|number| turn(ends, number, &mut index)).sum();
                let calls = heap_calls() - before;
                println!(
                    "10000 turns, {chunks} chunks, {} messages: {calls} calls of the allocator",
                    10_000 * (SESSIONS + 3)
                );
                assert_eq!((calls, chunks), (0, 10_000 * SESSIONS));
                assert_eq!(RELEASED.load(Relaxed) - released, 10_000);
                OK
            });
        }
    });
}
