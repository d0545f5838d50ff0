//! A backend whose work is done as soon as it is enqueued: a stage runs when it is called, and each event has passed.

use std::ffi::c_void;

use rte::abi::message::{rte_event, rte_stream};
use rte::abi::options::rte_backend;

/// All of its functions but `set_wake` and `destroy`.
pub fn backend() -> rte_backend {
    // SAFETY: numbers, pointers and nullable functions.
    let empty: rte_backend = unsafe { std::mem::zeroed() };
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
        ..empty
    }
}

unsafe extern "C-unwind" fn stream_new(_: *mut c_void, lane: u32, out: *mut rte_stream) -> i32 {
    // SAFETY: the engine's place for a stream; any number but 0 names one.
    unsafe { out.write(std::ptr::without_provenance_mut(1 + lane as usize)) };
    0
}

unsafe extern "C-unwind" fn stream_free(_: *mut c_void, _: rte_stream) {}

unsafe extern "C-unwind" fn event_new(_: *mut c_void, out: *mut rte_event) -> i32 {
    // SAFETY: the engine's place for an event; any number but 0 names one.
    unsafe { out.write(std::ptr::without_provenance_mut(1)) };
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
    0
}

unsafe extern "C-unwind" fn sync(_: *mut c_void, _: rte_event, _: u64) -> i32 {
    0
}
