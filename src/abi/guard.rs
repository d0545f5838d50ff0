//! What stands around every export: no panic gets out, no call works in a forked child, no NULL handle is followed.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Once;
use std::sync::atomic::{AtomicBool, Ordering};

use super::status::{report, rte_error, rte_status};
use crate::engine::{Engine, Failure};
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

fn forked() -> Failure {
    Failure::new(Status::FORKED, "this process is a fork of the one that uses the library")
}

fn panicked() -> Failure {
    Failure::new(Status::DEAD, "a panic of the library's own")
}

/// What a cold call returns, and where it says why.
fn answer(result: Result<(), Failure>, error: *mut rte_error) -> rte_status {
    result.map_or_else(|failure| report(&failure, error), |()| 0)
}

/// As [`guard`], of a call that says why it failed.
pub(super) fn guard_cold(error: *mut rte_error, call: impl FnOnce() -> Result<(), Failure>) -> rte_status {
    if is_forked() {
        return report(&forked(), error);
    }
    answer(catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|_| Err(panicked())), error)
}

/// As [`with_engine`], of a call that says why it failed.
pub(super) fn with_engine_cold(
    engine: *const super::engine::rte_engine,
    error: *mut rte_error,
    call: impl FnOnce(&Engine) -> Result<(), Failure>,
) -> rte_status {
    let mut said = Ok(());
    let status = with_engine(engine, |engine| {
        said = call(engine);
        said.as_ref().map_or_else(|failure| failure.status.0, |()| 0)
    });
    let result = match (said, status) {
        (Ok(()), code) if code == Status::ARGUMENT.0 => Err(Failure::new(Status::ARGUMENT, "engine: NULL")),
        (Ok(()), code) if code == Status::FORKED.0 => Err(forked()),
        (Ok(()), code) if code == Status::DEAD.0 => Err(panicked()),
        (said, _) => said,
    };
    answer(result, error)
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
