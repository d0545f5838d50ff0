//! What calls return, and how errors say more.

use std::ffi::{CStr, c_char};

use crate::engine::Failure;
use crate::word::Status;

/// What every call returns: one of `rte_status_code`, or a number of the host's own, -1000 or below.
pub type rte_status = i32;

/// The values of an `rte_status`. 0: done. Positive: not now. Negative: an error; nothing happened and there is nothing to
/// clean up, where the call does not say otherwise. Values are never reused.
#[repr(C)]
#[derive(Clone, Copy)]
pub enum rte_status_code {
    /// Done.
    RTE_OK = 0,
    /// Full, empty, or still busy: ask again.
    RTE_AGAIN = 1,
    /// Not within the time given.
    RTE_TIMEOUT = 2,
    /// Stopped, and nothing is left.
    RTE_CLOSED = 3,
    /// A NULL, a size, a kind, a key, a non-zero reserved field.
    RTE_ERR_ARGUMENT = -1,
    /// A struct_size that this library does not know, or a field in its tail that it does not know.
    RTE_ERR_VERSION = -2,
    /// Not in this state: started twice, push after stop.
    RTE_ERR_STATE = -3,
    /// No free row.
    RTE_ERR_FULL = -4,
    /// No such session.
    RTE_ERR_UNKNOWN = -5,
    /// No memory, or no thread.
    RTE_ERR_MEMORY = -6,
    /// A driver or backend said no; the message has its words.
    RTE_ERR_DEVICE = -7,
    /// This machine or this version of the library has none of that.
    RTE_ERR_UNAVAILABLE = -8,
    /// The call would wait for the thread that makes it.
    RTE_ERR_DEADLOCK = -9,
    /// A callback threw, or returned a number that is not a status, or says that it wrote past a buffer's end.
    RTE_ERR_CALLBACK = -10,
    /// The engine ended (device lost, panic, a stage said so); only stop, pop, info and free still work.
    RTE_ERR_DEAD = -11,
    /// This is the child of a fork of the process that uses the library.
    RTE_ERR_FORKED = -12,
    /// The message names a generation that no longer lives.
    RTE_ERR_STALE = -13,
    /// More copied bytes than options.message_bytes: pass them BORROWED.
    RTE_ERR_TOO_LARGE = -14,
    /// -1000 and below are yours: stages return them, notices carry them back unchanged.
    RTE_ERR_HOST = -1000,
}

/// What a status means, as static English text. Never NULL, also for unknown numbers; do not free.
///
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub extern "C" fn rte_status_message(status: rte_status) -> *const c_char {
    text(status).as_ptr()
}

fn text(status: rte_status) -> &'static CStr {
    match status {
        0 => c"ok",
        1 => c"not now: full, empty or still busy",
        2 => c"not within the time given",
        3 => c"stopped, and nothing is left",
        -1 => c"invalid argument",
        -2 => c"unknown struct_size, or a field that this library does not know",
        -3 => c"not in this state",
        -4 => c"no free row",
        -5 => c"no such session",
        -6 => c"no memory",
        -7 => c"a driver or backend failed",
        -8 => c"not available on this machine or in this version",
        -9 => c"the call would wait for its own thread",
        -10 => c"a callback threw, or returned what is not a status",
        -11 => c"the engine is dead",
        -12 => c"this process is a fork of the one that uses the library",
        -13 => c"that generation no longer lives",
        -14 => c"more copied bytes than options.message_bytes",
        status if status <= Status::HOST.0 => c"a status of the host",
        _ => c"not a status",
    }
}

/// Why a call failed, in words that name the field and its value: `"model.stages[1].lane: 7 is not a lane"`.
/// Written only on error; needs no initialisation; every `rte_error *` parameter may be NULL. 256 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_error {
    /// What the call returned.
    pub status: rte_status,
    /// NUL-terminated UTF-8, cut where it is too long.
    pub message: [c_char; 252],
}

/// Writes `failure` where the host wants it, and returns its status.
pub(super) fn report(failure: &Failure, error: *mut rte_error) -> rte_status {
    if !error.is_null() {
        let mut message = [0; 252];
        let mut end = failure.message.len().min(message.len() - 1);
        while !failure.message.is_char_boundary(end) {
            end -= 1;
        }
        for (place, byte) in message.iter_mut().zip(&failure.message.as_bytes()[..end]) {
            *place = *byte as c_char;
        }
        // SAFETY: the host gave a valid place for one rte_error; it need not be initialised.
        unsafe { error.write_unaligned(rte_error { status: failure.status.0, message }) };
    }
    failure.status.0
}
