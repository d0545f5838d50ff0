//! Lines for people.

use std::ffi::{CStr, CString, c_char, c_void};

use super::guard::give_back;
use crate::telemetry::{Level, Log};

/// Log level: something ended that should not have.
pub const RTE_LOG_ERROR: u32 = 1;
/// Log level: something was lost, or failed for some; or a call that has no rte_error was a mistake, in words.
pub const RTE_LOG_WARN: u32 = 2;
/// Log level: the engine begins and ends.
pub const RTE_LOG_INFO: u32 = 3;
/// Log level: sessions come and go, and why one gives no chunk, when that begins.
pub const RTE_LOG_DEBUG: u32 = 4;

/// Takes a line. `text` is NUL-terminated UTF-8 without a newline, borrowed until return.
///
/// Threads: the engine's or the one in a call, with no lock held that others wait for. Callbacks: as any callback. Must
/// not throw.
pub type rte_log_fn = Option<unsafe extern "C-unwind" fn(user: *mut c_void, level: u32, text: *const c_char)>;

/// A ready `rte_log_fn` that writes to the standard error stream: `rte warn: text`. `user` is not used.
///
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C-unwind" fn rte_log_stderr(user: *mut c_void, level: u32, text: *const c_char) {
    let _ = user;
    if text.is_null() {
        return;
    }
    let name = ["error", "warn", "info", "debug"].get(level.wrapping_sub(1) as usize).unwrap_or(&"log");
    // SAFETY: a NUL-terminated string, by the contract of a log function.
    let text = unsafe { CStr::from_ptr(text) }.to_string_lossy();
    // A closed stream is no reason to end the process, as eprintln! would.
    drop(std::io::Write::write_all(&mut std::io::stderr(), format!("rte {name}: {text}\n").as_bytes()));
}

/// A host's log function and its user pointer.
struct Sink {
    write: unsafe extern "C-unwind" fn(*mut c_void, u32, *const c_char),
    user: *mut c_void,
}

// SAFETY: the host promises that its log function may be called on any thread of the engine; `user` is its own.
unsafe impl Send for Sink {}
// SAFETY: as above.
unsafe impl Sync for Sink {}

impl Sink {
    fn write(&self, level: Level, line: &str) {
        let line = CString::new(line.replace('\0', " ")).unwrap_or_default();
        // SAFETY: a callback of the host, with a NUL-terminated line.
        give_back(|| unsafe { (self.write)(self.user, level as u32, line.as_ptr()) });
    }
}

/// The engine's log as the host wants it.
pub(super) fn log_of(write: rte_log_fn, user: *mut c_void, level: u32) -> Log {
    let Some(write) = write else { return Log::default() };
    let level = match level {
        RTE_LOG_ERROR => Level::Error,
        RTE_LOG_INFO => Level::Info,
        RTE_LOG_DEBUG => Level::Debug,
        _ => Level::Warn,
    };
    let sink = Sink { write, user };
    Log::new(level, Box::new(move |level, line| sink.write(level, line)))
}
