//! options.encode_lanes on a backend: so many streams of ENCODE, each made once and freed once; a slow encode of one row does
//! not hold up another's while one of them is idle. And streams that the host lends: used, and left alone.

mod driver;
mod host;
mod random;
mod values_host;

use std::ffi::CStr;
use std::ptr::null_mut;

use driver::*;
use host::device::Function;
use values_host::bench::{Bench, ROWS, item, on_device};
use values_host::ledger::Form;
use values_host::model::*;

const ARGUMENT: i32 = rte_status_code::RTE_ERR_ARGUMENT as i32;
const BROKEN: i32 = rte_status_code::RTE_ERR_DEVICE as i32;

fn with(encode_lanes: u32, pipeline: u32) -> Bench {
    Bench::with(0, rte_engine_options { encode_lanes, pipeline, ..options() })
}

/// Whether HOT of a session has seen a message until now.
fn is_seen(shown: &[Shown], session: u64, number: u64) -> bool {
    shown.iter().any(|shown| (shown.who, shown.session, shown.number) == (Who::Hot, session, number))
}

#[test]
fn as_many_encodes_pass_by_slow_ones_as_there_are_idle_streams() {
    for encode_lanes in [0, 1, 2, 3, 8] {
        for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
            // Slow by their work, or by what their values wait for.
            for slow in 1..=3 {
                for waits in [false, true] {
                    let bench = with(encode_lanes, pipeline);
                    (0..4).for_each(|session| bench.attach(session));
                    bench.steps(3);
                    bench.set_length(Who::Encode, if waits { 0 } else { 100 });
                    let ready = waits.then(|| bench.ready_at(bench.now() + 101)).flatten();
                    for session in 1..=slow {
                        let ready = ready.clone();
                        let form = if waits { on_device(PROMPT, 1) } else { item(PROMPT, Form::Copied, 1) };
                        bench.act(session, &[form], ready);
                        // Each in a batch of its own.
                        bench.steps(1);
                    }
                    bench.set_length(Who::Encode, 1);
                    let quick = bench.act(0, &[item(PROMPT, Form::Copied, 1)], None);
                    bench.steps(5);
                    let passes = slow < u64::from(encode_lanes.max(1));
                    let case = format!("{encode_lanes} lanes, {slow} slow ones, {pipeline}, {waits}");
                    assert_eq!(is_seen(&bench.world.take_shown(), 0, quick.number), passes, "{case}");
                    bench.steps(320);
                    let shown = bench.world.take_shown();
                    assert!((1..=slow).all(|session| shown.iter().any(|shown| shown.session == session)), "{case}");
                    assert!(is_seen(&shown, 0, quick.number), "{case}");
                    bench.end();
                }
            }
        }
    }
}

#[test]
fn a_batch_goes_to_the_first_idle_stream_and_to_the_one_with_the_least_to_do() {
    let bench = with(3, RTE_PIPELINE_OFF);
    (0..4).for_each(|session| bench.attach(session));
    bench.steps(2);
    let encode_on = |session: u64, revision: u64, length: u64| {
        bench.set_length(Who::Encode, length);
        bench.world.take_shown();
        let loan = bench.act(session, &[item(PROMPT, Form::Copied, revision)], None);
        bench.steps(1);
        let shown = bench.shown(&loan);
        shown.iter().find(|shown| shown.who == Who::Encode).expect("it is encoded").stream
    };
    let first = bench.world.streams()[RTE_ENCODE as usize];
    // One after the other: always the first.
    for revision in 1..5 {
        assert_eq!(encode_on(0, revision, 0), first);
        bench.steps(2);
    }
    let (a, b, c) = (encode_on(0, 9, 100), encode_on(1, 9, 10), encode_on(2, 9, 100));
    assert!(a == first && a != b && b != c && a != c, "{a}, {b}, {c}");
    // All are busy, then the second one is idle, then behind two it is the others' turn.
    assert_eq!(encode_on(3, 9, 10), a, "as much to do as the others have");
    bench.steps(20);
    assert_eq!(encode_on(1, 10, 0), b);
    bench.steps(200);
    assert_eq!(encode_on(1, 11, 0), first);
    bench.end();
}

#[test]
fn each_stream_is_made_once_and_freed_once() {
    for encode_lanes in [0, 1, 2, 3, 8] {
        let mut bench = with(encode_lanes, RTE_PIPELINE_ON);
        assert_eq!(bench.world.device.calls().stream_new, 0, "not before it is driven");
        bench.attach(1);
        bench.steps(20);
        let queues = u64::from(2 + encode_lanes.max(1));
        let calls = bench.world.device.calls();
        assert_eq!((calls.stream_new, calls.stream_free), (queues, 0));
        let mut streams = bench.world.streams();
        streams.sort_unstable();
        assert!(streams[0] != 0 && streams[0] != streams[1] && streams[1] != streams[2]);
        bench.stop();
        bench.host = None;
        assert_eq!(bench.world.device.calls().stream_free, queues);
        bench.end();
    }
}

#[test]
fn a_stream_that_cannot_be_made_leaves_none_behind() {
    for made in 0..5 {
        let bench = with(3, RTE_PIPELINE_ON);
        bench.attach(1);
        bench.world.device.fail_after(made, Function::StreamNew, BROKEN);
        assert_eq!(bench.tick(), BROKEN);
        assert!(bench.world.take_shown().is_empty());
        assert_eq!(bench.world.device.calls().stream_new, made);
        bench.end();
    }
}

#[test]
fn streams_that_are_lent_are_used_and_left_alone() {
    for lent in 0..8u64 {
        for encode_lanes in [0, 1, 3] {
            let is_lent = |lane: usize| lent & 1 << lane != 0;
            if is_lent(RTE_ENCODE as usize) && encode_lanes > 1 {
                continue; // refused: see below
            }
            let mut streams: [rte_stream; 3] = [null_mut(); 3];
            let more = rte_engine_options { encode_lanes, pipeline: RTE_PIPELINE_ON, ..options() };
            let bench = Bench::prepared(0, more, |device, options| {
                (0..3).filter(|lane| is_lent(*lane)).for_each(|lane| options.streams[lane] = device.consumer_stream());
                streams = options.streams;
            });
            bench.set_length(Who::Hot, 1);
            bench.push(RTE_ATTACH, 1, &[on_device(PROMPT, 1)], bench.ready_at(5));
            bench.run_until(20);
            bench.act(1, &[on_device(PROMPT, 2)], bench.ready_at(30));
            bench.run_until(50);
            let seen = bench.world.streams();
            for lane in (0..3).filter(|lane| is_lent(*lane)) {
                assert_eq!(seen[lane], streams[lane].addr());
            }
            let shown = bench.world.take_shown();
            for (lane, who) in [Who::Hot, Who::Deferred, Who::Encode].into_iter().enumerate() {
                let mut of_lane = shown.iter().filter(|shown| shown.who == who).peekable();
                assert!(of_lane.peek().is_some() && of_lane.all(|shown| shown.stream == seen[lane]), "{who:?}");
            }
            let queues = 2 + u64::from(encode_lanes.max(1));
            assert_eq!(bench.world.device.calls().stream_new, queues - u64::from(lent.count_ones()));
            bench.end();
        }
    }
}

#[test]
fn several_encode_lanes_and_a_lent_stream_of_theirs_are_refused() {
    let world = World::new(ROWS);
    let (stages, keys) = (stages(), keys());
    let model = values_model(&world, &stages, &keys, 0);
    let table = world.device.table();
    for (encode_lanes, lane, words) in
        [(2, RTE_ENCODE, "options.encode_lanes: 2, but streams[RTE_ENCODE] lends one"), (9, RTE_HOT, "encode_lanes")]
    {
        let mut options = rte_engine_options { lanes: RTE_LANES_HOST, backend: &table, encode_lanes, ..options() };
        options.streams[lane as usize] = world.device.consumer_stream();
        let (mut engine, mut error): (*mut rte_engine, rte_error) = (null_mut(), zeroed());
        // SAFETY: valid descriptors and places.
        let status = unsafe { rte_engine_new(&model, &options, &mut engine, &mut error) };
        // SAFETY: on error the message is NUL-terminated.
        let text = unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy();
        assert_eq!(status, ARGUMENT, "{text}");
        assert!(text.contains(words), "{text}");
    }
    assert_eq!(world.device.calls(), Default::default());
    // SAFETY: nobody took the count that the table has.
    unsafe { std::sync::Arc::decrement_strong_count(std::sync::Arc::as_ptr(&world.device)) };
}
