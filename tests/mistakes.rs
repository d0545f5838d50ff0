//! The likeliest mistakes of the first day: what the README says that comes of each is what comes. And the words for what is
//! wrong with a call that returns a status alone.

mod driver;
mod serve_host;
mod support;

use std::ffi::{CStr, c_char, c_void};
use std::path::Path;
use std::sync::Mutex;

use driver::*;
use rte::abi::log::{RTE_LOG_DEBUG, RTE_LOG_WARN};
use rte::abi::serve::{rte_inbox_pop, rte_inbox_wait, rte_outbox_push};
use support::{Watch, read, scratch};

/// The rows of the README's table.
fn rows_of_readme() -> Vec<String> {
    let readme = read("README.md");
    let (_, rest) =
        readme.split_once("| mistake | what comes back | what it says |\n|---|---|---|\n").expect("the table");
    rest.lines().take_while(|line| line.starts_with('|')).map(str::to_string).collect()
}

#[test]
fn the_words_in_the_readme_are_those_of_the_library() {
    let rows = rows_of_readme();
    let folder = scratch("mistakes");
    for watch in Watch::ALL {
        let Some(finished) = watch.build_and_run(Path::new("tests/c/mistakes.c"), "c99", &folder) else { continue };
        let finished = finished.expect_success();
        let said: Vec<&str> = finished.output.lines().collect();
        for (at, (said, row)) in said.iter().zip(&rows).enumerate() {
            assert_eq!(said, row, "row {at}");
        }
        assert_eq!(said.len(), rows.len(), "{}", finished.output);
        assert!(rows.len() >= 10 && said.iter().all(|row| row.contains(": ") && !row.contains("`another`")));
    }
}

const ARGUMENT: i32 = rte_status_code::RTE_ERR_ARGUMENT as i32;
const UNAVAILABLE: i32 = rte_status_code::RTE_ERR_UNAVAILABLE as i32;
const TOO_LARGE: i32 = rte_status_code::RTE_ERR_TOO_LARGE as i32;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;

unsafe extern "C-unwind" fn log(user: *mut c_void, level: u32, text: *const c_char) {
    // SAFETY: `user` is the test's list, which outlives the engine; a NUL-terminated line.
    let (lines, text) = unsafe { (&*user.cast::<Mutex<Vec<(u32, String)>>>(), CStr::from_ptr(text)) };
    lines.lock().unwrap().push((level, text.to_string_lossy().into_owned()));
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

/// An engine whose log, at this level, goes to `lines`.
fn engine(lines: &Mutex<Vec<(u32, String)>>, log_level: u32) -> Host {
    let stages = [stage(RTE_HOT, nothing)];
    let keys = [
        rte_key { name: c"steer".as_ptr(), r#type: RTE_F32, size: 8, ..zeroed() },
        rte_key { name: c"path".as_ptr(), r#type: RTE_F64, ..zeroed() },
    ];
    let model = rte_model { keys: keys.as_ptr(), key_count: 2, ..model(&stages, 2, 8) };
    let log_user = std::ptr::from_ref(lines).cast_mut().cast();
    let told =
        rte_engine_options { log: Some(log), log_user, log_level, inbox_capacity: 8, message_bytes: 64, ..options() };
    Host::new(&model, &told)
}

#[test]
fn what_is_wrong_with_a_message_is_told_with_field_and_value() {
    let lines = Mutex::default();
    let host = engine(&lines, RTE_LOG_WARN);
    let act = message(RTE_ACTION, 7);
    let (eight, long) = ([0; 8], [0; 72]);
    let zero = "zero the message before you set its fields";
    let null = rte_value { size: 8, ..zeroed() };
    let on_device = rte_value { flags: RTE_VALUE_DEVICE, ..value(0, &eight) };
    let flagged = rte_value { flags: 8, ..value(0, &eight) };
    let unready = std::ptr::without_provenance_mut(8);
    type Case<'a> = (rte_message, &'a [rte_value], i32, String);
    let steer = [value(0, &eight)];
    let cases: &[Case] = &[
        (message(9, 7), &[], ARGUMENT, format!("message.kind: 9 is not a kind: {zero}")),
        (
            rte_message { flags: RTE_DRAIN, ..act },
            &[],
            ARGUMENT,
            format!("message.flags: 0x2, but RTE_ACTION knows 0x1: {zero}"),
        ),
        (
            rte_message { reserved: [0, 5], ..act },
            &[],
            ARGUMENT,
            format!("message.reserved[1]: 0x5 must be zero: {zero}"),
        ),
        (
            rte_message { generation: 3, ..message(RTE_ATTACH, 7) },
            &[],
            ARGUMENT,
            "message.generation: 3, but RTE_ATTACH begins a new life: leave it 0".into(),
        ),
        (message(RTE_PAUSE, 7), &steer, ARGUMENT, "message.value_count: 1, but RTE_PAUSE has none".into()),
        (act, &[steer[0]; 65], ARGUMENT, "message.value_count: 65 is more than 64".into()),
        (
            rte_message { ready: unready, ..act },
            &[],
            UNAVAILABLE,
            "message.ready: set, but the lanes have no device".into(),
        ),
        (act, &[value(2, &eight)], ARGUMENT, "message.values[0].key: 2, but model.key_count is 2".into()),
        (act, &[steer[0]; 2], ARGUMENT, "message.values[1].key: 0 (steer) is in the message already".into()),
        (act, &[flagged], ARGUMENT, "message.values[0].flags: 0x8 has unknown bits".into()),
        (
            act,
            &[on_device],
            UNAVAILABLE,
            "message.values[0].flags: RTE_VALUE_DEVICE, but the lanes have no device".into(),
        ),
        (act, &[null], ARGUMENT, "message.values[0].data: NULL, but size is 8".into()),
        (act, &[value(0, &eight[..4])], ARGUMENT, "message.values[0].size: 4, but key 0 (steer) takes 8".into()),
        (
            act,
            &[value(1, &long[..4])],
            ARGUMENT,
            "message.values[0].size: 4, but key 1 (path) takes a multiple of 8".into(),
        ),
        (
            act,
            &[value(1, &long)],
            TOO_LARGE,
            "message.values: 72 bytes are more than options.message_bytes 64: pass them RTE_VALUE_BORROWED".into(),
        ),
    ];
    for (number, (message, values, status, words)) in (1..).zip(cases) {
        assert_eq!(host.push(*message, values), *status, "{words}");
        let told = std::mem::take(&mut *lines.lock().unwrap());
        // The first eight, then those of which the number is a power of two.
        let is_told = number <= 8 || u64::is_power_of_two(number);
        assert_eq!(told.len(), usize::from(is_told), "{number}: {told:?}");
        assert!(told.iter().all(|line| *line == (RTE_LOG_WARN, format!("rte_inbox_push: {words}"))), "{told:?}");
        // Once more, on an engine that has told of nothing yet.
        let host = engine(&lines, RTE_LOG_WARN);
        assert_eq!(host.push(*message, values), *status, "{words}");
        let told = std::mem::take(&mut *lines.lock().unwrap());
        assert_eq!(told, [(RTE_LOG_WARN, format!("rte_inbox_push: {words}"))]);
    }
    assert_eq!(host.push(message(9, 7), &[]), ARGUMENT);
    let line = format!("rte_inbox_push: message.kind: 9 is not a kind: {zero} (16 such lines by now)");
    assert_eq!(*lines.lock().unwrap(), [(RTE_LOG_WARN, line)]);
}

#[test]
fn a_push_that_is_refused_says_for_want_of_what() {
    let lines = Mutex::default();
    let host = engine(&lines, RTE_LOG_DEBUG);
    let refused = |kind: u32, pushes: u64| {
        let mut refused = 0;
        for at in 0..pushes {
            refused += u64::from(host.push(message(kind, at), &[]) == AGAIN);
        }
        let told = std::mem::take(&mut *lines.lock().unwrap());
        let told: Vec<_> = told.into_iter().filter(|(_, line)| line.contains("RTE_AGAIN")).collect();
        assert!(told.iter().all(|(level, _)| *level == RTE_LOG_DEBUG));
        (refused, told.into_iter().map(|(_, line)| line).collect::<Vec<_>>())
    };
    let words = "no room in the inbox, of which a session may use a quarter and ACTIONs three: push once a tick";
    let said = |refused: u64, words: &str| format!("rte_inbox_push: RTE_AGAIN, {words} ({refused} refused by now)");
    let (count, told) = refused(RTE_ACTION, 12);
    assert_eq!((count, told), (6, [1, 2, 4].map(|count| said(count, words)).to_vec()));
    assert_eq!(host.tick(), 0);
    // Nobody pops: each ATTACH takes the room of three notices, two of which it gives back when it is answered.
    let mut all = vec![];
    for _ in 0..100 {
        all.extend(refused(RTE_ATTACH, 1).1);
        assert_eq!(host.tick(), 0);
    }
    let notices = "no room for the notices of one more life: pop what is there";
    assert!(all.contains(&said(8, notices)) && all.iter().all(|line| line.contains(notices)), "{all:?}");
}

/// Calls that return a status alone, at the wrong time.
#[test]
fn a_call_at_the_wrong_time_says_why() {
    let lines = Mutex::default();
    let host = engine(&lines, RTE_LOG_WARN);
    let state = rte_status_code::RTE_ERR_STATE as i32;
    let expect = |status: i32, wanted: i32, line: &str| {
        assert_eq!(status, wanted, "{line}");
        assert_eq!(std::mem::take(&mut *lines.lock().unwrap()), [(RTE_LOG_WARN, line.to_string())]);
    };
    let (mut output, mut pushed): (rte_output, rte_message) = (zeroed(), zeroed());
    let mut info: rte_engine_info = zeroed();
    let serve = "not on the thread of a running model.serve, or in a release or on_output";
    // SAFETY: the engine lives; valid places.
    unsafe {
        expect(rte_inbox_pop(host.engine, &mut pushed), state, &format!("rte_inbox_pop: {serve}"));
        expect(rte_inbox_wait(host.engine, 0), state, &format!("rte_inbox_wait: {serve}"));
        output.kind = RTE_CHUNK;
        expect(rte_outbox_push(host.engine, &output), state, &format!("rte_outbox_push: {serve}"));
        let words = format!("rte_engine_get_info: info.struct_size: 0, but this library knows {}", size_of_val(&info));
        let version = rte_status_code::RTE_ERR_VERSION as i32;
        expect(rte_engine_get_info(host.engine, &mut info), version, &format!("{words}: set it to sizeof"));
        assert_eq!(rte_engine_start(host.engine, std::ptr::null_mut()), 0);
        let words = "the engine is driven already: one engine is driven in one way, once";
        expect(rte_engine_tick(host.engine, 0), state, &format!("rte_engine_tick: {words}"));
        expect(rte_engine_step(host.engine, std::ptr::null(), 0, 0), state, &format!("rte_engine_step: {words}"));
    }
}

/// An attached session 1 has said `chunk`: what is wrong then.
fn wrong_sayings(chunk: rte_output) -> Vec<(rte_output, i32, String)> {
    use serve_host::{STALE, STATE, UNKNOWN, output};
    let zero = "zero the output before you set its fields";
    let unready = std::ptr::without_provenance_mut(8);
    vec![
        (rte_output { flags: 1, ..chunk }, ARGUMENT, format!("output.flags: 0x1 must be zero: {zero}")),
        (
            rte_output { reserved: [0, 0, 5], ..chunk },
            ARGUMENT,
            format!("output.reserved[2]: 0x5 must be zero: {zero}"),
        ),
        (
            rte_output { ready: unready, ..chunk },
            UNAVAILABLE,
            "output.ready: set, but what serve pushes is complete".into(),
        ),
        (output(99, 1), ARGUMENT, format!("output.kind: 99 is none that serve pushes: {zero}")),
        (
            rte_output { size: 65, ..chunk },
            ARGUMENT,
            "output.size: 65, but a chunk has 1 to 64 bytes (model.chunk_bytes)".into(),
        ),
        (rte_output { data: std::ptr::null(), ..chunk }, ARGUMENT, "output.data: NULL, but size is 1".into()),
        (rte_output { status: -3, ..chunk }, ARGUMENT, "output.status: -3, but RTE_CHUNK has none".into()),
        (
            rte_output { size: 1, ..output(RTE_DETACHED, 1) },
            ARGUMENT,
            "output.data: set, or size 1 is, but RTE_DETACHED has none".into(),
        ),
        (output(RTE_REJECTED, 1), ARGUMENT, "output.status: 0 is none that RTE_REJECTED has".into()),
        (output(RTE_CHUNK, 2), ARGUMENT, "output.size: 0, but a chunk has 1 to 64 bytes (model.chunk_bytes)".into()),
        (
            rte_output { session: 2, ..chunk },
            UNKNOWN,
            "output.session: 2 is not here, or its RTE_DETACHED was pushed".into(),
        ),
        (
            rte_output { generation: 5, ..chunk },
            STALE,
            "output.generation: 5 is not the one of session 1 that lives".into(),
        ),
        (
            output(RTE_ATTACHED, 1),
            STATE,
            "output.kind: RTE_ATTACHED, but session 1 was told that, or is not at that yet".into(),
        ),
        (chunk, ARGUMENT, "output.index: 0 is not above that of the chunk before".into()),
    ]
}

#[test]
fn what_is_wrong_with_what_a_loop_of_the_hosts_pops_and_pushes_is_told_with_field_and_value() {
    use serve_host::{Ends, Loop, OK, output};
    let lines: Mutex<Vec<(u32, String)>> = Mutex::default();
    let told = || lines.lock().unwrap().drain(..).collect::<Vec<_>>();
    // So few that each is told.
    for from in (0..14).step_by(4) {
        let mut it = Loop::new(|ends: Ends| {
            let byte = 1u8;
            let chunk = rte_output { data: (&raw const byte).cast(), size: 1, ..output(RTE_CHUNK, 1) };
            ends.attach(1);
            assert_eq!(ends.say(chunk), OK);
            for (output, status, words) in wrong_sayings(chunk).iter().skip(from).take(4) {
                assert_eq!(told(), []);
                assert_eq!(ends.say(*output), *status, "{words}");
                assert_eq!(told(), [(RTE_LOG_WARN, format!("rte_outbox_push: {words}"))]);
            }
            // SAFETY: the engine lives.
            unsafe {
                assert_eq!(serve_host::rte_inbox_pop(ends.0, std::ptr::null_mut()), ARGUMENT);
                assert_eq!(told(), [(RTE_LOG_WARN, "rte_inbox_pop: out: NULL".to_string())]);
                assert_eq!(serve_host::rte_outbox_push(ends.0, std::ptr::null()), ARGUMENT);
                assert_eq!(told(), [(RTE_LOG_WARN, "rte_outbox_push: output: NULL".to_string())]);
            }
            assert_eq!(ends.pop(), Err(AGAIN), "which is no mistake");
            assert_eq!(told(), []);
            OK
        });
        let log_user = std::ptr::from_ref(&lines).cast_mut().cast();
        let logged = rte_engine_options { log: Some(log), log_user, log_level: RTE_LOG_WARN, ..options() };
        let host = Host::new(&it.model(1), &logged);
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_run(host.engine, std::ptr::null_mut()) }, OK);
        it.check();
    }
    assert!(told().is_empty());
}
