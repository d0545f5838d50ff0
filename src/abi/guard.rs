//! What stands around every export: no panic gets out, no call works in a forked child, no NULL handle is followed. And
//! around the host's callbacks: a panic of one (it may be written in Rust) is no panic of ours.

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

/// What a callback of the host answers; a panic of it is DEAD.
pub(super) fn answer_of(callback: impl FnOnce() -> rte_status) -> rte_status {
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or(Status::DEAD.0)
}

/// Runs a callback of the host on which nothing hangs: that gives something back, or writes a line. A panic of it ends here.
pub(super) fn give_back(callback: impl FnOnce()) {
    drop(catch_unwind(AssertUnwindSafe(callback)));
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

#[cfg(test)]
mod tests {
    use std::panic::resume_unwind;
    use std::ptr::{null, null_mut};

    use super::super::engine::*;
    use super::super::inbox::rte_inbox_push;
    use super::super::info::{rte_engine_get_info, rte_engine_info};
    use super::super::message::{RTE_ATTACH, rte_message};
    use super::super::model::rte_model;
    use super::super::outbox::{rte_outbox_pop, rte_outbox_wait, rte_output_release};
    use super::super::output::{RTE_DEAD, rte_output};
    use super::super::reference::rte_reference_model;
    use super::*;

    const OK: rte_status = 0;
    const DEAD: rte_status = Status::DEAD.0;

    /// A panic without the hook's message.
    fn fall<T>() -> T {
        resume_unwind(Box::new("on purpose"))
    }

    fn zeroed<T>() -> T {
        // SAFETY: used for the C structs of rte.h alone, of which zero is a value.
        unsafe { std::mem::zeroed() }
    }

    fn words(error: &rte_error) -> String {
        error.message.iter().take_while(|byte| **byte != 0).map(|byte| *byte as u8 as char).collect()
    }

    fn engine() -> *mut rte_engine {
        let mut model = rte_model { struct_size: size_of::<rte_model>() as u32, ..zeroed() };
        let mut engine = null_mut();
        // SAFETY: valid places.
        unsafe {
            assert_eq!(rte_reference_model(&mut model), OK);
            assert_eq!(rte_engine_new(&model, null(), &mut engine, null_mut()), OK);
        }
        engine
    }

    fn health(engine: *mut rte_engine) -> rte_status {
        let mut info = rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_get_info(engine, &mut info) }, OK);
        info.health
    }

    fn push(engine: *mut rte_engine) -> rte_status {
        // SAFETY: the engine lives.
        unsafe { rte_inbox_push(engine, &rte_message { kind: RTE_ATTACH, session: 7, ..zeroed() }) }
    }

    /// Pops all; gives the last kind, and why there is no more.
    fn pop_all(engine: *mut rte_engine) -> (u32, rte_status) {
        let (mut last, mut output) = (0, zeroed::<rte_output>());
        // SAFETY: the engine lives; each output is released once.
        unsafe {
            loop {
                match rte_outbox_pop(engine, &mut output) {
                    OK => last = output.kind,
                    status => return (last, status),
                }
                rte_output_release(&mut output, null_mut());
            }
        }
    }

    #[test]
    fn a_panic_in_a_call_without_an_engine_is_its_status() {
        let mut error = rte_error { status: 1, message: [0; 252] };
        assert_eq!(guard(fall), DEAD);
        assert_eq!(guard_cold(&mut error, fall), DEAD);
        assert_eq!((error.status, words(&error).as_str()), (DEAD, "a panic of the library's own"));
        assert_eq!(guard_cold(null_mut(), fall), DEAD);
    }

    #[test]
    fn a_panic_in_a_callback_is_an_answer_or_nothing() {
        assert_eq!((answer_of(fall), answer_of(|| -1234)), (DEAD, -1234));
        give_back(fall);
    }

    #[test]
    fn a_panic_in_a_call_ends_an_engine_that_nobody_drives() {
        let (engine, other) = (engine(), engine());
        let mut error = rte_error { status: 1, message: [0; 252] };
        assert_eq!(push(engine), OK);
        // SAFETY: the engines live until they are freed.
        unsafe {
            assert_eq!(rte_engine_tick(engine, 0), OK);
            assert_eq!(with_engine_cold(engine, &mut error, |_| fall()), DEAD);
            assert_eq!((error.status, words(&error).as_str()), (DEAD, "a panic of the library's own"));
            assert_eq!(with_engine(engine, |_| fall()), DEAD, "once more");
            assert_eq!((push(engine), health(engine)), (DEAD, DEAD));
            assert_eq!(pop_all(engine), (RTE_DEAD, DEAD));
            assert_eq!(rte_outbox_wait(engine, u64::MAX), DEAD);
            assert_eq!((rte_engine_tick(engine, 0), rte_engine_start(engine, null_mut())), (DEAD, DEAD));
            assert_eq!(rte_engine_stop(engine, u64::MAX, null_mut()), OK);
            assert_eq!(pop_all(engine), (0, DEAD), "nothing comes after the end");
            rte_engine_free(engine);
            assert_eq!((push(other), rte_engine_tick(other, 0), health(other)), (OK, OK, OK));
            rte_engine_free(other);
        }
    }

    #[test]
    fn a_panic_in_a_call_ends_an_engine_that_is_asleep_and_wakes_who_waits() {
        struct Handle(*mut rte_engine);
        // SAFETY: as rte.h says of the functions that are called with it.
        unsafe impl Send for Handle {}

        let engine = engine();
        // SAFETY: the engine lives until it is freed, when all threads were joined.
        unsafe {
            assert_eq!(rte_engine_start(engine, null_mut()), OK);
            let handle = Handle(engine);
            let waiter = std::thread::spawn(move || {
                let handle = handle;
                while rte_outbox_wait(handle.0, u64::MAX) == OK {
                    assert_eq!(pop_all(handle.0), (RTE_DEAD, DEAD));
                }
            });
            assert_eq!(with_engine(engine, |_| fall()), DEAD);
            waiter.join().unwrap();
            assert_eq!((push(engine), health(engine)), (DEAD, DEAD));
            assert_eq!(rte_engine_stop(engine, u64::MAX, null_mut()), OK);
            assert_eq!(pop_all(engine), (0, DEAD));
            rte_engine_free(engine);
        }
    }
}
