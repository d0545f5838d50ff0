//! What both tests of replay stand on: a backend whose events pass when they like, and what an output says.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::driver::*;

/// A number that depends on both, in which they do not show.
pub fn mix(state: u64, by: u64) -> u64 {
    let mixed = (state ^ by).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 31
}

/// Looks at events so far.
pub static LUCK: AtomicU64 = AtomicU64::new(1);

unsafe extern "C-unwind" fn stream_new(_: *mut c_void, lane: u32, out: *mut rte_stream) -> i32 {
    // SAFETY: a place for a handle.
    unsafe { *out = (lane as usize + 1) as rte_stream };
    0
}
unsafe extern "C-unwind" fn stream_free(_: *mut c_void, _: rte_stream) {}
unsafe extern "C-unwind" fn event_new(_: *mut c_void, out: *mut rte_event) -> i32 {
    // SAFETY: a place for a handle.
    unsafe { *out = 8 as rte_event };
    0
}
unsafe extern "C-unwind" fn event_free(_: *mut c_void, _: rte_event) {}
unsafe extern "C-unwind" fn record(_: *mut c_void, _: rte_event, _: rte_stream) -> i32 {
    0
}
unsafe extern "C-unwind" fn wait(_: *mut c_void, _: rte_stream, _: rte_event) -> i32 {
    0
}
unsafe extern "C-unwind" fn query(_: *mut c_void, _: rte_event) -> i32 {
    let luck = mix(LUCK.fetch_add(1, SeqCst), 7);
    i32::from(!luck.is_multiple_of(3))
}
unsafe extern "C-unwind" fn sync(_: *mut c_void, _: rte_event, _: u64) -> i32 {
    if mix(LUCK.fetch_add(1, SeqCst), 9).is_multiple_of(4) { rte_status_code::RTE_TIMEOUT as i32 } else { 0 }
}

/// Its functions.
pub fn backend() -> rte_backend {
    rte_backend {
        struct_size: size_of::<rte_backend>() as u32,
        stream_new: Some(stream_new),
        stream_free: Some(stream_free),
        event_new: Some(event_new),
        event_free: Some(event_free),
        record: Some(record),
        wait: Some(wait),
        query: Some(query),
        sync: Some(sync),
        ..zeroed()
    }
}

/// What was told, but addresses.
pub type Line = ([u64; 16], u64);

/// What `it` tells.
///
/// # Safety
/// It was popped, and not given back yet; a chunk has eight bytes at least.
pub unsafe fn line_of(it: &rte_output) -> Line {
    // SAFETY: the caller's promise.
    let data = if it.data.is_null() { 0 } else { unsafe { it.data.cast::<u64>().read() } };
    let line = [
        it.kind.into(),
        it.flags.into(),
        it.session,
        it.user,
        it.generation,
        it.index,
        it.dropped,
        it.tick,
        it.tag,
        it.heavy_tag,
        it.start_ns,
        it.done_ns,
        it.size as u64,
        u64::from(it.status as u32),
        it.stage.into(),
        it.row.into(),
    ];
    (line, data)
}
