//! Why a session gives no chunk: a log at DEBUG says so, once when it begins, with what to do; each cause.

mod driver;
mod host;

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicI32, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use driver::*;
use host::device::Device;

const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const FAILED: i32 = -1001;
const NONE: &[&str] = &[];

/// What the callbacks are to answer from now on, and the lines of the log.
#[derive(Default)]
struct Play {
    ready: AtomicI32,
    seed: AtomicI32,
    hot: AtomicI32,
    row: AtomicI32,
    deferred: AtomicI32,
    /// Bytes of a chunk.
    size: AtomicU64,
    /// Streams, and the time at which work is done that is begun on those of seed and ENCODE.
    device: Option<Arc<Device>>,
    done_at: AtomicU64,
    lines: Mutex<Vec<String>>,
}

impl Play {
    fn new() -> &'static Play {
        Play::on(None)
    }

    fn on(device: Option<Arc<Device>>) -> &'static Play {
        let play = Play { device, size: AtomicU64::new(1), ..Play::default() };
        Box::leak(Box::new(play))
    }

    fn work(&self, stream: rte_stream) {
        self.device.iter().for_each(|device| _ = device.finish_at(stream, self.done_at.load(SeqCst)));
    }

    /// The lines about silence since the last time.
    fn lines(&self) -> Vec<String> {
        let lines = std::mem::take(&mut *self.lines.lock().unwrap());
        lines.into_iter().filter(|line| line.contains("gives no chunk") || line.contains("in the inbox")).collect()
    }

    #[track_caller]
    fn expect(&self, lines: &[impl AsRef<str>]) {
        assert_eq!(self.lines(), lines.iter().map(AsRef::as_ref).collect::<Vec<&str>>());
    }
}

fn play<'a>(user: *mut c_void) -> &'a Play {
    // SAFETY: never freed.
    unsafe { &*user.cast::<Play>() }
}

unsafe extern "C-unwind" fn log(user: *mut c_void, level: u32, text: *const c_char) {
    // SAFETY: a NUL-terminated line.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned();
    assert!(level <= rte::abi::log::RTE_LOG_DEBUG);
    play(user).lines.lock().unwrap().push(text);
}

unsafe extern "C-unwind" fn ready(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    play(user).ready.load(SeqCst)
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    play(user).work(stream);
    play(user).seed.load(SeqCst)
}

/// Session 13 is unlucky.
unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        for at in (0..(*batch).count as usize).filter(|at| *(*batch).session.add(*at) == 13) {
            *(*batch).status.add(at) = play(user).row.load(SeqCst);
        }
    }
    play(user).hot.load(SeqCst)
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        for at in 0..(*batch).count as usize {
            (*(*batch).output.add(at)).cast::<u8>().write(1);
            *(*batch).output_size.add(at) = play(user).size.load(SeqCst) as usize;
        }
    }
    play(user).deferred.load(SeqCst)
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    play(user).work(stream);
    0
}

/// Of two rows, inline, not pipelined, but where `options` and `flags` say otherwise.
fn engine(play: &'static Play, options: rte_engine_options, flags: u32) -> Host {
    let named = |name: &'static CStr, stage| rte_stage { name: name.as_ptr(), ..stage };
    let stages = [
        named(c"generate", stage(RTE_HOT, hot)),
        named(c"decode", stage(RTE_DEFERRED, deferred)),
        named(c"encode", stage(RTE_ENCODE, encode)),
    ];
    let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
    let user = std::ptr::from_ref(play).cast_mut().cast();
    let model = rte_model {
        flags,
        user,
        keys: keys.as_ptr(),
        key_count: 1,
        ready: Some(ready),
        seed: Some(seed),
        ..model(&stages, 2, 8)
    };
    let log_level = if options.log_level == 0 { rte::abi::log::RTE_LOG_DEBUG } else { options.log_level };
    let pipeline = if options.pipeline == 0 { RTE_PIPELINE_OFF } else { options.pipeline };
    Host::new(&model, &rte_engine_options { pipeline, log: Some(log), log_user: user, log_level, ..options })
}

fn push(host: &Host, kind: u32, session: u64) {
    assert_eq!(host.push(message(kind, session), &[]), 0);
}

fn ticks(host: &Host, count: u64) {
    (0..count).for_each(|_| assert_eq!(host.tick(), 0));
}

fn pop_all(host: &Host) {
    host.pop_all(|_| ());
}

/// With session 7 in row 0, which has given chunks; nothing of it is left to pop or to read.
fn steady(play: &'static Play, options: rte_engine_options) -> Host {
    let host = engine(play, options, 0);
    ticks(&host, 1);
    push(&host, RTE_ATTACH, 7);
    for _ in 0..3 {
        ticks(&host, 1);
        pop_all(&host);
    }
    play.expect(NONE);
    host
}

#[test]
fn a_session_that_gives_its_chunks_is_not_talked_of() {
    let play = Play::new();
    let host = engine(play, options(), 0);
    ticks(&host, 1);
    push(&host, RTE_ATTACH, 7);
    for _ in 0..20 {
        ticks(&host, 1);
        pop_all(&host);
    }
    play.expect(NONE);
}

#[test]
fn ready_says_not_yet_or_fails() {
    let play = Play::new();
    let host = engine(play, options(), 0);
    play.ready.store(AGAIN, SeqCst);
    ticks(&host, 3);
    push(&host, RTE_ATTACH, 7);
    ticks(&host, 5);
    play.expect(&[
        "tick 3: session 7 (row 0) gives no chunk: model.ready said RTE_AGAIN: it is asked again in each tick",
    ]);
    play.ready.store(FAILED, SeqCst);
    ticks(&host, 2);
    play.expect(NONE);
    push(&host, RTE_RESET, 7);
    ticks(&host, 2);
    let failed = "model.ready failed with status -1001: it is asked again in each tick";
    play.expect(&[&format!("tick 10: session 7 (row 0) gives no chunk: {failed}")]);
    play.ready.store(0, SeqCst);
    ticks(&host, 3);
    play.expect(NONE);
}

#[test]
fn a_seed_fails_and_is_tried_again() {
    let play = Play::new();
    let host = engine(play, options(), RTE_MODEL_RETRY_SAFE);
    play.seed.store(FAILED, SeqCst);
    ticks(&host, 1);
    push(&host, RTE_ATTACH, 7);
    ticks(&host, 2);
    let words = "its seed failed (1 of options.seed_attempts 3): RTE_TICK_FAILED says how";
    play.expect(&[&format!("tick 1: session 7 (row 0) gives no chunk: {words}")]);
    play.seed.store(0, SeqCst);
    ticks(&host, 2);
    play.expect(NONE);
}

#[test]
fn it_is_paused() {
    let play = Play::new();
    let host = steady(play, options());
    push(&host, RTE_PAUSE, 7);
    ticks(&host, 100);
    play.expect(&["tick 4: session 7 (row 0) gives no chunk: it is paused: push RTE_RESUME"]);
}

#[test]
fn it_is_not_due() {
    let play = Play::new();
    let host = steady(play, options());
    // SAFETY: the engine lives.
    (0..9).for_each(|_| assert_eq!(unsafe { rte_engine_step(host.engine, &8, 1, 0) }, 0));
    play.expect(&["tick 4: session 7 (row 0) gives no chunk: rte_engine_step was not given its id: name it in `due`"]);
}

#[test]
fn a_changed_value_is_in_encode() {
    let play = Play::new();
    let host = steady(play, options());
    assert_eq!(host.push(message(RTE_ACTION, 7), &[value(0, b"new")]), 0);
    ticks(&host, 5);
    let words = "a changed HEAVY value is in ENCODE (its 1.): it steps when that is applied";
    play.expect(&[&format!("tick 4: session 7 (row 0) gives no chunk: {words}")]);
}

#[test]
fn it_has_failed() {
    let play = Play::new();
    let host = engine(play, options(), 0);
    ticks(&host, 1);
    push(&host, RTE_ATTACH, 13);
    play.row.store(FAILED, SeqCst);
    ticks(&host, 9);
    let words = "it failed (stage generate, status -1001): push RTE_RESET or RTE_DETACH";
    play.expect(&[&format!("tick 1: session 13 (row 0) gives no chunk: {words}")]);
}

#[test]
fn it_drains() {
    let play = Play::new();
    let host = steady(play, options());
    ticks(&host, 2);
    assert_eq!(host.push(rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, 7) }, &[]), 0);
    ticks(&host, 9);
    let words = "it drains: 2 queued, RTE_DETACHED comes when all were popped";
    play.expect(&[&format!("tick 6: session 7 (row 0) gives no chunk: {words}")]);
}

#[test]
fn hold_waits_for_a_pop_or_for_a_release() {
    let play = Play::new();
    let hold = rte_engine_options { outbox_policy: RTE_HOLD, outbox_depth: 2, held_max: 1, ..options() };
    let host = steady(play, hold);
    ticks(&host, 9);
    let words = "RTE_HOLD, 2 queued, 0 held, options.outbox_depth 2: pop them";
    play.expect(&[&format!("tick 6: session 7 (row 0) gives no chunk: {words}")]);
    let mut outputs: Vec<rte_output> = vec![];
    for _ in 0..20 {
        let mut output = zeroed();
        // SAFETY: the engine lives.
        if unsafe { rte_outbox_pop(host.engine, &mut output) } == 0 {
            outputs.push(output);
        }
        ticks(&host, 1);
    }
    assert_eq!(outputs.len(), 3, "held_max and outbox_depth");
    let words = "RTE_HOLD, 1 queued, 2 held: give those to rte_output_release";
    play.expect(&[format!("tick 14: session 7 (row 0) gives no chunk: {words}")]);
    // SAFETY: popped once.
    outputs.iter_mut().for_each(|output| unsafe { rte_output_release(output, std::ptr::null_mut()) });
    ticks(&host, 1);
    pop_all(&host);
    play.expect(NONE);
}

/// Pops and keeps all that there is.
fn keep(host: &Host, ticks_to_go: u64) -> Vec<rte_output> {
    let mut outputs = vec![];
    for _ in 0..ticks_to_go {
        ticks(host, 1);
        let mut output = zeroed();
        // SAFETY: the engine lives.
        while unsafe { rte_outbox_pop(host.engine, &mut output) } == 0 {
            outputs.push(output);
        }
    }
    outputs
}

#[test]
fn its_consumer_keeps_all_buffers() {
    for policy in [RTE_DROP_OLDEST, RTE_DROP_NEWEST] {
        let play = Play::new();
        let host = steady(play, rte_engine_options { outbox_policy: policy, ..options() });
        let mut outputs = keep(&host, 20);
        assert_eq!(outputs.len(), 6, "outbox_depth and held_max");
        let words = "lost, all its buffers are in use, 0 queued, 6 held: give those to rte_output_release";
        play.expect(&[&format!("tick 10: session 7 (row 0) gives no chunk: {words}")]);
        // SAFETY: popped once.
        outputs.iter_mut().for_each(|output| unsafe { rte_output_release(output, std::ptr::null_mut()) });
        ticks(&host, 1);
        play.expect(NONE);
    }
}

#[test]
fn a_slow_consumer_loses_the_oldest_or_the_newest() {
    for (policy, words) in [
        (RTE_DROP_OLDEST, "its oldest was lost by RTE_DROP_OLDEST, 4 queued, 0 held: pop and release faster"),
        (RTE_DROP_NEWEST, "lost by RTE_DROP_NEWEST, 4 queued, options.outbox_depth 4: pop faster"),
    ] {
        let play = Play::new();
        let host = steady(play, rte_engine_options { outbox_policy: policy, ..options() });
        ticks(&host, 20);
        play.expect(&[&format!("tick 8: session 7 (row 0) gives no chunk: {words}")]);
    }
}

#[test]
fn the_model_leaves_its_size_0() {
    let play = Play::new();
    let host = steady(play, options());
    play.size.store(0, SeqCst);
    ticks(&host, 20);
    play.expect(&["tick 4: session 7 (row 0) gives no chunk: stage decode left its output_size 0"]);
}

#[test]
fn the_whole_batch_fails() {
    for (name, stage) in
        [("generate", (|play| &play.hot) as fn(&Play) -> &AtomicI32), ("decode", |play| &play.deferred)]
    {
        let play = Play::new();
        let host = steady(play, options());
        stage(play).store(FAILED, SeqCst);
        ticks(&host, 10);
        let words = format!("the whole batch failed (stage {name}, status -1001): RTE_TICK_FAILED tells");
        play.expect(&[&format!("tick 4: session 7 (row 0) gives no chunk: {words}")]);
    }
}

#[test]
fn the_pipeline_fills() {
    let play = Play::new();
    let host = engine(play, rte_engine_options { pipeline: RTE_PIPELINE_ON, ..options() }, 0);
    ticks(&host, 1);
    push(&host, RTE_ATTACH, 7);
    ticks(&host, 3);
    let words = "the pipeline fills: what this tick makes comes with the next";
    play.expect(&[&format!("tick 1: session 7 (row 0) gives no chunk: {words}")]);
    assert_eq!(host.info().chunks, 2);
}

/// On streams: what is begun in the ticks before `done_at` is done then.
#[test]
fn its_seed_or_its_row_is_not_done_yet() {
    let device = Device::new();
    let play = Play::on(Some(device.clone()));
    let backend = device.table();
    let on_streams = rte_engine_options { lanes: RTE_LANES_HOST, backend: &backend, ..options() };
    let host = engine(play, on_streams, RTE_MODEL_SEED_ASIDE);
    let ticks_until = |time: u64| {
        while device.now() < time {
            assert_eq!(host.tick(), 0);
            pop_all(&host);
            device.set_now(device.now() + 1);
        }
    };
    push(&host, RTE_ATTACH, 7);
    push(&host, RTE_ATTACH, 8);
    play.lines();
    play.done_at.store(5, SeqCst);
    ticks_until(8);
    let aside = "its seed runs on the ENCODE lane: it joins when that is done";
    play.expect(
        &[7, 8].map(|session| format!("tick 0: session {session} (row {}) gives no chunk: {aside}", session - 7)),
    );
    play.done_at.store(20, SeqCst);
    assert_eq!(host.push(message(RTE_ACTION, 8), &[value(0, b"new")]), 0);
    ticks_until(10);
    let encode = "a changed HEAVY value is in ENCODE (its 1.): it steps when that is applied";
    play.expect(&[format!("tick 8: session 8 (row 1) gives no chunk: {encode}")]);
    push(&host, RTE_DETACH, 8);
    push(&host, RTE_ATTACH, 9);
    ticks_until(30);
    let row = "its row still has work of the life before: it is seeded when that is over";
    let lines =
        [(10, row), (20, aside)].map(|(tick, why)| format!("tick {tick}: session 9 (row 1) gives no chunk: {why}"));
    play.expect(&lines);
}

#[test]
fn nobody_drives() {
    let play = Play::new();
    let host = engine(play, rte_engine_options { stall_ns: 1, ..options() }, 0);
    for session in 7..9 {
        push(&host, RTE_ATTACH, session);
    }
    play.expect(&[
        "session 7 has a message in the inbox, and nobody drives the engine: call rte_engine_start, run or tick",
    ]);
    ticks(&host, 1);
    for _ in 0..2 {
        // Longer ago than stall_ns by now, whatever the clock's grain.
        while play.lines().is_empty() {
            push(&host, RTE_ACTION, 8);
        }
        (0..20).for_each(|_| push(&host, RTE_ACTION, 8));
        play.expect(NONE);
        ticks(&host, 1);
    }
}

/// What comes and goes with each tick is told the 1st, 2nd, 4th, 8th... time; a new life begins anew.
#[test]
fn what_flickers_is_told_ever_more_rarely() {
    let play = Play::new();
    let host = steady(play, options());
    let flicker = |times: u64| {
        for _ in 0..times {
            // SAFETY: the engine lives.
            assert_eq!(unsafe { rte_engine_step(host.engine, std::ptr::null(), 0, 0) }, 0);
            ticks(&host, 1);
            pop_all(&host);
        }
        play.lines().into_iter().map(|line| line.split("`due`").nth(1).unwrap().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(flicker(1000).len(), 10);
    assert_eq!(flicker(24), [" (1024 times by now)"]);
    push(&host, RTE_RESET, 7);
    assert_eq!(flicker(3), ["", " (2 times by now)"]);
}

#[test]
fn a_message_has_no_effect() {
    let play = Play::new();
    let host = steady(play, options());
    let act = |session: u64, generation: u64, tag: u64| {
        assert_eq!(host.push(rte_message { generation, tag, ..message(RTE_ACTION, session) }, &[]), 0);
        ticks(&host, 1);
        pop_all(&host);
        std::mem::take(&mut *play.lines.lock().unwrap())
    };
    assert_eq!(act(7, 1, 20), NONE);
    let nobody = "it is not attached: push RTE_ATTACH first";
    assert_eq!(act(99, 0, 21), [format!("tick 5: session 99: a message (tag 21) has no effect: {nobody}")]);
    let stale = "it names generation 7, but 1 lives: take that of RTE_ATTACHED, or 0 (2 such messages by now)";
    assert_eq!(act(7, 7, 22), [format!("tick 6: session 7: a message (tag 22) has no effect: {stale}")]);
    assert_eq!(act(99, 0, 23), NONE);
    let named = "it is not attached, and the message names generation 5 (4 such messages by now)";
    assert_eq!(act(98, 5, 24), [format!("tick 8: session 98: a message (tag 24) has no effect: {named}")]);
}

#[test]
fn who_comes_and_goes_is_told_in_the_words_of_the_header() {
    let play = Play::new();
    let host = engine(play, options(), 0);
    let told = || {
        ticks(&host, 1);
        let lines = std::mem::take(&mut *play.lines.lock().unwrap());
        lines.into_iter().filter(|line| line.contains("RTE_") && !line.contains("gives no chunk")).collect::<Vec<_>>()
    };
    push(&host, RTE_ATTACH, 13);
    assert_eq!(told(), ["tick 0: session 13: RTE_ATTACHED"]);
    play.row.store(FAILED, SeqCst);
    assert_eq!(told(), ["tick 1: session 13: RTE_ROW_FAILED with status -1001"]);
    push(&host, RTE_RESET, 13);
    assert_eq!(
        told(),
        [
            "tick 2: session 13: RTE_DETACHED",
            "tick 2: session 13: RTE_ATTACHED",
            "tick 2: session 13: RTE_ROW_FAILED with status -1001"
        ]
    );
    push(&host, RTE_DETACH, 13);
    play.seed.store(FAILED, SeqCst);
    push(&host, RTE_ATTACH, 8);
    assert_eq!(told(), ["tick 3: session 13: RTE_DETACHED"]);
    assert_eq!(told(), NONE);
    assert_eq!(told(), ["tick 5: session 8: RTE_REJECTED with status -1001"]);
}

/// Nothing is said to a log that does not ask.
#[test]
fn at_info_there_is_no_such_line() {
    let play = Play::new();
    let host = steady(play, rte_engine_options { log_level: rte::abi::log::RTE_LOG_INFO, ..options() });
    push(&host, RTE_PAUSE, 7);
    ticks(&host, 3);
    play.expect(NONE);
}
