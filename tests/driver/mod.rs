//! A host in Rust that uses the exported C functions and nothing else.

#![allow(dead_code, reason = "each test program uses a part")]

use std::ffi::{CStr, c_void};

pub use rte::abi::engine::*;
pub use rte::abi::inbox::*;
pub use rte::abi::info::*;
pub use rte::abi::message::*;
pub use rte::abi::model::*;
pub use rte::abi::options::*;
pub use rte::abi::outbox::*;
pub use rte::abi::output::*;
pub use rte::abi::status::*;

/// A zero descriptor or record.
pub fn zeroed<T>() -> T {
    // SAFETY: used for the C structs of rte.h alone, of which zero is a value.
    unsafe { std::mem::zeroed() }
}

/// A model with these stages, keys and hooks still to be set.
pub fn model(stages: &[rte_stage], max_sessions: u32, chunk_bytes: usize) -> rte_model {
    rte_model {
        struct_size: size_of::<rte_model>() as u32,
        max_sessions,
        chunk_bytes,
        stages: stages.as_ptr(),
        stage_count: stages.len() as u32,
        ..zeroed()
    }
}

/// A stage of a lane.
pub fn stage(lane: u32, run: unsafe extern "C-unwind" fn(*mut c_void, *mut rte_batch, rte_stream) -> i32) -> rte_stage {
    rte_stage { lane, run: Some(run), ..zeroed() }
}

/// Options, all defaults, but that a machine's device makes no difference.
pub fn options() -> rte_engine_options {
    let struct_size = size_of::<rte_engine_options>() as u32;
    rte_engine_options { struct_size, lanes: RTE_LANES_INLINE, ..zeroed() }
}

/// A value of a key.
pub fn value(key: u32, bytes: &[u8]) -> rte_value {
    rte_value { key, data: bytes.as_ptr().cast(), size: bytes.len(), ..zeroed() }
}

/// A message without values.
pub fn message(kind: u32, session: u64) -> rte_message {
    rte_message { kind, session, ..zeroed() }
}

/// An engine that is freed when it is dropped.
pub struct Host {
    pub engine: *mut rte_engine,
}

impl Host {
    /// Panics with the engine's words if it cannot be made.
    pub fn new(model: &rte_model, options: &rte_engine_options) -> Host {
        let (mut engine, mut error): (*mut rte_engine, rte_error) = (std::ptr::null_mut(), zeroed());
        // SAFETY: valid descriptors and places.
        let status = unsafe { rte_engine_new(model, options, &mut engine, &mut error) };
        // SAFETY: on error the message is NUL-terminated.
        assert_eq!(status, 0, "{:?}", unsafe { CStr::from_ptr(error.message.as_ptr()) });
        Host { engine }
    }

    /// Pushes a message with values.
    pub fn push(&self, message: rte_message, values: &[rte_value]) -> i32 {
        let message = rte_message { values: values.as_ptr(), value_count: values.len(), ..message };
        // SAFETY: the engine lives; the values live until the call returns.
        unsafe { rte_inbox_push(self.engine, &message) }
    }

    /// One whole tick.
    pub fn tick(&self) -> i32 {
        // SAFETY: the engine lives and is ticked by one thread.
        unsafe { rte_engine_tick(self.engine, u64::MAX) }
    }

    /// Pops everything; each output is shown, then released.
    pub fn pop_all(&self, mut each: impl FnMut(&rte_output)) {
        let mut output = zeroed();
        // SAFETY: the engine lives; each output is released once.
        unsafe {
            while rte_outbox_pop(self.engine, &mut output) == 0 {
                each(&output);
                rte_output_release(&mut output, std::ptr::null_mut());
            }
        }
    }

    /// What the engine says of itself.
    pub fn info(&self) -> rte_engine_info {
        let mut info = rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives; a valid place.
        assert_eq!(unsafe { rte_engine_get_info(self.engine, &mut info) }, 0);
        info
    }
}

impl Drop for Host {
    fn drop(&mut self) {
        // SAFETY: made by `new`, freed once.
        unsafe { rte_engine_free(self.engine) };
    }
}

/// The engine gets a thread of its own.
pub fn start(host: &Host) {
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, std::ptr::null_mut()) }, 0);
}

/// Stops it, or asks only: what that comes to.
pub fn stop(host: &Host, timeout_ns: u64) -> i32 {
    stop_with_words(host, timeout_ns).0
}

/// The same, and what it says of it.
pub fn stop_with_words(host: &Host, timeout_ns: u64) -> (i32, String) {
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives; the message is NUL-terminated, whether it was written or is zero.
    unsafe {
        let status = rte_engine_stop(host.engine, timeout_ns, &mut error);
        (status, CStr::from_ptr(error.message.as_ptr()).to_string_lossy().into_owned())
    }
}
