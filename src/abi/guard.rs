//! What stands around every export: no panic gets out, no call works in a forked child, no NULL handle is followed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use super::status::rte_status;
use crate::engine::Engine;
use crate::word::Status;

static FORKED: AtomicBool = AtomicBool::new(false);

/// From now on a child of fork knows that it is one.
pub(super) fn watch_forks() {
    static ONCE: Once = Once::new();
    extern "C" fn in_child() {
        FORKED.store(true, Ordering::Relaxed);
    }
    ONCE.call_once(|| {
        #[cfg(unix)]
        // SAFETY: the handler is async-signal-safe, and the library is never unloaded (-z nodelete).
        unsafe {
            libc::pthread_atfork(None, None, Some(in_child));
        }
    });
}

/// Runs a call that has no engine.
pub(super) fn guard(call: impl FnOnce() -> rte_status) -> rte_status {
    if FORKED.load(Ordering::Relaxed) {
        return Status::FORKED.0;
    }
    catch_unwind(AssertUnwindSafe(call)).unwrap_or(Status::DEAD.0)
}

/// Runs a call on an engine. NULL: ARGUMENT. A panic: the engine is dead.
pub(super) fn with_engine(
    engine: *const super::engine::rte_engine,
    call: impl FnOnce(&Engine) -> rte_status,
) -> rte_status {
    if engine.is_null() {
        return Status::ARGUMENT.0;
    }
    if FORKED.load(Ordering::Relaxed) {
        return Status::FORKED.0;
    }
    // SAFETY: a handle that is not NULL is one of rte_engine_new's that was not freed; it holds a count of the engine.
    let engine = unsafe { &*engine.cast::<Engine>() };
    catch_unwind(AssertUnwindSafe(|| call(engine))).unwrap_or_else(|_| {
        engine.poison();
        Status::DEAD.0
    })
}

/// Whether this is a forked child.
pub(super) fn is_forked() -> bool {
    FORKED.load(Ordering::Relaxed)
}
