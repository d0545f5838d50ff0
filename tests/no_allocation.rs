//! A steady engine allocates nothing: not in a tick, a push, a pop or a release, nor where it is asked how it is.

mod driver;
mod process;

use std::ffi::{CStr, c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use driver::*;
use process::{alone, heap_calls};
use rte::abi::log::{RTE_LOG_DEBUG, RTE_LOG_INFO};

#[global_allocator]
static ALLOCATOR: process::Counting = process::Counting;

const ROWS: u32 = 64;
const MOVE: u32 = 0;
const BUTTONS: u32 = 1;
const TEXT: u32 = 2;
const PROMPT: u32 = 3;

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

unsafe extern "C-unwind" fn write_all(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        for at in 0..(*batch).count as usize {
            (*(*batch).output.add(at)).cast::<u8>().write(at as u8);
            *(*batch).output_size.add(at) = 1;
        }
    }
    0
}

static RELEASED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn count_release(_: *mut c_void) {
    RELEASED.fetch_add(1, Relaxed);
}

/// One frame of a host: input of every kind for every session, a tick, all outputs.
fn frame(host: &Host, number: u64) -> u64 {
    let (motion, buttons, lent) = ([1.5f32, -0.5], number as u32, [number as u8; 300]);
    let text = [number as u8; 40];
    for session in 0..u64::from(ROWS) {
        let values = [
            value(MOVE, bytemuck::cast_slice(&motion)),
            value(BUTTONS, &buttons.to_ne_bytes()),
            value(TEXT, &text[..(number % 40) as usize]),
        ];
        let action = rte_message { flags: RTE_PARTIAL, tag: number, ..message(RTE_ACTION, session) };
        assert_eq!(host.push(action, &values), 0);
    }
    let borrowed = rte_value { flags: RTE_VALUE_BORROWED, ..value(TEXT, &lent) };
    let action = rte_message { flags: RTE_PARTIAL, release: Some(count_release), ..message(RTE_ACTION, 5) };
    assert_eq!(host.push(action, &[borrowed]), 0);
    assert_eq!(host.tick(), 0);
    // The lent bytes are this frame's: a plain value takes their place before they go.
    assert_eq!(host.push(rte_message { flags: RTE_PARTIAL, ..message(RTE_ACTION, 5) }, &[value(TEXT, b"own")]), 0);
    assert_eq!(host.tick(), 0);
    assert_eq!(host.tick(), 0);
    assert_eq!(RELEASED.load(Relaxed), number + 1, "released as soon as no batch can read them");
    let mut chunks = 0;
    host.pop_all(|output| chunks += u64::from(output.kind == RTE_CHUNK));
    let (info, session) = (host.info(), session_info(host, number % u64::from(ROWS)));
    assert_eq!((info.attached, info.ticks, session.age), (ROWS, 3 * (number + 1), 3 * (number + 1)));
    assert!(info.tick_ns_p50 <= info.tick_ns_p99 && info.tick_ns_p99 <= info.tick_ns_max && info.action_ns_max > 0);
    chunks
}

fn session_info(host: &Host, session: u64) -> rte_session_info {
    let mut info = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
    // SAFETY: the engine lives; a valid place.
    assert_eq!(unsafe { rte_session_get_info(host.engine, session, &mut info) }, 0);
    info
}

fn check(pipeline: u32, flags: u32, trace: Option<&CStr>) {
    RELEASED.store(0, Relaxed);
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, write_all), stage(RTE_ENCODE, nothing)];
    let keys = [
        rte_key { r#type: RTE_F32, size: 8, merge: RTE_MERGE_SUM, ..zeroed() },
        rte_key { r#type: RTE_U32, size: 4, merge: RTE_MERGE_OR, ..zeroed() },
        zeroed(),
        rte_key { flags: RTE_KEY_HEAVY, ..zeroed() },
    ];
    let model = rte_model { keys: keys.as_ptr(), key_count: 4, flags, ..model(&stages, ROWS, 4096) };
    let trace_path = trace.map_or(std::ptr::null(), CStr::as_ptr);
    let host = Host::new(&model, &rte_engine_options { pipeline, trace_path, ..options() });
    for session in 0..u64::from(ROWS) {
        assert_eq!(host.push(message(RTE_ATTACH, session), &[value(PROMPT, b"a castle")]), 0);
    }
    let warm = 100;
    (0..warm).for_each(|number| _ = frame(&host, number));
    let before = heap_calls();
    let chunks: u64 = (warm..warm + 3400).map(|number| frame(&host, number)).sum();
    let calls = heap_calls() - before;
    println!("{} ticks, {chunks} chunks, {} pushes: {calls} calls of the allocator", 3400 * 3, 3400 * 66);
    assert_eq!(calls, 0);
    assert_eq!(chunks, 3400 * 3 * u64::from(ROWS));
}

static LINES: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn count_line(_: *mut c_void, _: u32, _: *const c_char) {
    LINES.fetch_add(1, Relaxed);
}

/// Sessions that give no chunk for one cause or another, which come and go: a log that does not ask costs nothing; one that
/// does is told.
fn check_silence(log_level: u32) -> (u64, u64) {
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, write_all), stage(RTE_ENCODE, nothing)];
    let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
    let model = rte_model { keys: keys.as_ptr(), key_count: 1, ..model(&stages, 8, 64) };
    let told = rte_engine_options { log: Some(count_line), log_level, outbox_policy: RTE_HOLD, ..options() };
    let host = Host::new(&model, &told);
    for session in 0..8 {
        assert_eq!(host.push(message(RTE_ATTACH, session), &[]), 0);
    }
    let round = |number: u64| {
        assert_eq!(host.push(message(if number.is_multiple_of(2) { RTE_PAUSE } else { RTE_RESUME }, 1), &[]), 0);
        assert_eq!(
            host.push(message(RTE_ACTION, 2), &[value(0, &number.to_ne_bytes()[..1 + (number % 3) as usize])]),
            0
        );
        assert_eq!(host.push(message(RTE_ACTION, 99), &[]), 0);
        let (due, count) = ([0, 1, 2, 3], if number.is_multiple_of(2) { 4 } else { 3 });
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_step(host.engine, due.as_ptr(), count, 0) }, 0);
        if number.is_multiple_of(8) {
            host.pop_all(|_| ());
        }
    };
    (0..100).for_each(round);
    let (before, lines) = (heap_calls(), LINES.load(Relaxed));
    (100..1100).for_each(round);
    (heap_calls() - before, LINES.load(Relaxed) - lines)
}

#[test]
fn ten_thousand_steady_ticks_with_pushes_and_pops_allocate_nothing() {
    alone("ten_thousand_steady_ticks_with_pushes_and_pops_allocate_nothing", || {
        assert_eq!(check_silence(RTE_LOG_INFO), (0, 0));
        let (_, lines) = check_silence(RTE_LOG_DEBUG);
        assert!(lines > 0 && lines < 100, "{lines} lines");
        check(RTE_PIPELINE_ON, 0, None);
        check(RTE_PIPELINE_OFF, 0, None);
        check(RTE_PIPELINE_ON, RTE_MODEL_DENSE, None);
        // Nor does the thread that writes a trace of them.
        let path = concat!(env!("CARGO_TARGET_TMPDIR"), "/no_allocation.json");
        let path = std::ffi::CString::new(path).unwrap();
        check(RTE_PIPELINE_ON, 0, Some(&path));
        let size = std::fs::metadata(path.to_str().unwrap()).unwrap().len();
        assert!(size > 2_000_000, "of ten thousand ticks {size} bytes");
    });
}
