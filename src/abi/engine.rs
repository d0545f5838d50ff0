//! The engine: made, driven, stopped, freed.

use std::sync::Arc;

#[doc(hidden)]
pub use super::construction::engine_with;
use super::descriptor;
use super::guard::{guard, guard_cold, is_forked, with_engine, with_engine_cold};
use super::model::rte_model;
use super::options::rte_engine_options;
use super::status::{rte_error, rte_status};
use crate::engine::{Engine, Failure};
use crate::word::Status;

/// An engine: many live sessions of one model. Made by `rte_engine_new`.
pub struct rte_engine {
    _opaque: [u8; 0],
}

/// Makes an engine. Copies `model` and `options` (NULL = defaults) and allocates everything that ticks will need, but for a
/// row's output buffers: those at its first attach (or here, with RTE_PREFAULT). Takes `model->user` and
/// `options->backend->user`, on success only. Makes no thread and calls no callback. On CUDA lanes it holds the device's
/// primary context (and makes it, if nobody has) until the engine is freed and its last output is released.
///
/// Returns RTE_OK and stores the handle in `out`. Errors, with nothing stored but `error`: RTE_ERR_ARGUMENT,
/// RTE_ERR_VERSION, RTE_ERR_UNAVAILABLE, RTE_ERR_MEMORY; of the CUDA driver: RTE_ERR_DEVICE, in its words.
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_new(
    model: *const rte_model,
    options: *const rte_engine_options,
    out: *mut *mut rte_engine,
    error: *mut rte_error,
) -> rte_status {
    guard_cold(error, || {
        if out.is_null() {
            return Err(Failure::new(Status::ARGUMENT, "out: NULL"));
        }
        // SAFETY: the host's descriptors are NULL or valid, by the contract of this call.
        let engine = unsafe { engine_with(model, options, |lanes| lanes)? };
        // SAFETY: the host gave a valid place for a pointer.
        unsafe { out.write_unaligned(engine) };
        Ok(())
    })
}

/// Drives the engine on a thread of its own, at the model's rate, until it is stopped; or runs `model.serve` there. Returns
/// when `model.init` has.
///
/// RTE_ERR_STATE: it is driven already, or stopped. RTE_ERR_DEAD: it died before. RTE_ERR_DEADLOCK: in a callback of this
/// engine. RTE_ERR_MEMORY: no thread. RTE_ERR_UNAVAILABLE: the system refuses options.cpu_mask or options.priority; the
/// error says which, and how the system put it. RTE_ERR_DEVICE: the CUDA driver makes no stream, in its words. What `init`
/// or the backend's stream_new returned. After the last four the engine is dead, but where it was its own thread that could
/// not be made; whichever it was, none of our threads is left.
/// Threads: any. Callbacks: of another engine only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_start(engine: *mut rte_engine, error: *mut rte_error) -> rte_status {
    with_engine_cold(engine, error, |borrowed| {
        // SAFETY: the handle owns a count of the engine; the thread gets one of its own.
        let engine = unsafe {
            Arc::increment_strong_count(borrowed);
            Arc::from_raw(borrowed)
        };
        engine.start()
    })
}

/// Drives the engine on the calling thread, at the model's rate, until another thread stops it; or runs `model.serve` there.
///
/// Returns RTE_OK after the stop, RTE_ERR_DEAD if the engine died; else as `rte_engine_start`. RTE_ERR_UNAVAILABLE also,
/// with nothing changed: options.cpu_mask or options.priority is set, and without threads lanes no thread would heed it.
/// Threads: any. Callbacks: of another engine only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_run(engine: *mut rte_engine, error: *mut rte_error) -> rte_status {
    with_engine_cold(engine, error, |engine| engine.run())
}

/// One tick in the host's own loop. Does not pace: each call is one tick, the rate is information. Waits at most `wait_ns`
/// nanoseconds for the lanes.
///
/// RTE_OK: the tick is over, also where a stage failed (its notice tells). RTE_AGAIN: the lanes are still busy; the next
/// call goes on with this tick. RTE_CLOSED: stopped. RTE_ERR_DEAD. RTE_ERR_STATE: it is driven otherwise, another thread
/// is in its tick, or the model has `serve`. RTE_ERR_DEADLOCK: in a callback of this engine. At the first tick also what
/// `init`, streams and threads of lanes came to, and RTE_ERR_UNAVAILABLE, as for `rte_engine_run`.
/// Threads: always the same one. Callbacks: of another engine only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_tick(engine: *mut rte_engine, wait_ns: u64) -> rte_status {
    with_engine(engine, |engine| progress(engine.tick(None, wait_ns)))
}

/// A tick in which only the sessions in `due` are stepped; ids that are not attached are ignored, paused ones stay paused.
/// Everything else of a tick happens: messages, encodes, what is in flight. After RTE_AGAIN the next call goes on with the
/// same tick, and does not look at its `due`. `due` is borrowed until return; NULL only with `due_count` 0.
///
/// Returns as `rte_engine_tick`; RTE_ERR_ARGUMENT for a NULL `due` with a count.
/// Threads: the one of rte_engine_tick. Callbacks: of another engine only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_step(
    engine: *mut rte_engine,
    due: *const u64,
    due_count: usize,
    wait_ns: u64,
) -> rte_status {
    with_engine(engine, |engine| {
        let due = match (due.is_null(), due_count) {
            (_, 0) => &[],
            (true, count) => {
                engine.note_mistake("rte_engine_step", || format!("due: NULL, but due_count is {count}"));
                return Status::ARGUMENT.0;
            }
            // SAFETY: the host gave an array of `due_count` ids.
            (false, count) => unsafe { std::slice::from_raw_parts(due, count) },
        };
        progress(engine.tick(Some(due), wait_ns))
    })
}

fn progress(result: Result<bool, Status>) -> rte_status {
    match result {
        Ok(true) => 0,
        Ok(false) => Status::AGAIN.0,
        Err(status) => status.0,
    }
}

/// A fourth way to drive an engine that is not driven yet: runs what options.record_path of another one wrote, on the
/// calling thread, as fast as the model is. `model` and `options` have to be as they were, lanes too, but record_path
/// NULL: rte_engine_new would empty the file. The model is called with the same batches and makes the same chunks, with
/// the same times in them; then the engine is as after a stop. Its consumer is not waited for: take outputs with
/// options.on_output, or on another thread. What was lent is copied here. Borrows `path` until return.
///
/// RTE_ERR_ARGUMENT: NULL, no such file, not a record, cut off or damaged (of an engine that was not stopped, say), of
/// another engine: the message names what differs. RTE_ERR_STATE: driven already or stopped, it records, messages were
/// pushed to it, or the model has `serve`; or the run left the record, with what was asked for when: the model is another,
/// or does not repeat itself. RTE_ERR_DEAD: the record ends so. RTE_ERR_DEADLOCK: in a callback of this
/// engine. What `init` returned, or else as `rte_engine_start`.
/// Threads: any. Callbacks: of another engine only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_replay(
    engine: *mut rte_engine,
    path: *const std::ffi::c_char,
    error: *mut rte_error,
) -> rte_status {
    with_engine_cold(engine, error, |engine| {
        if path.is_null() {
            return Err(Failure::new(Status::ARGUMENT, "path: NULL"));
        }
        // SAFETY: a C string, borrowed until return.
        engine.replay(&unsafe { descriptor::text(path) })
    })
}

/// Stops the engine. Pushes are refused with RTE_ERR_STATE from now on, each ATTACH and RESET still in the inbox is
/// answered RTE_REJECTED with RTE_CLOSED; delivers what is in flight, detaches all sessions, joins our threads. After
/// RTE_OK no callback runs or will run, but `destroy` and releases at rte_engine_free; what was delivered can still be
/// popped. Calling it again is fine.
///
/// Waits at most `timeout_ns` nanoseconds, UINT64_MAX: as long as it takes. RTE_TIMEOUT: the error names the stage that has
/// not returned; call again, or free. With timeout 0 it only asks (RTE_TIMEOUT if there was anything to wait for), and may
/// then be called from a callback; else that is RTE_ERR_DEADLOCK. RTE_ERR_STATE, and the engine goes on as if nothing had
/// been said: another thread is in rte_engine_tick, step or replay. To ask is possible even then: the next rte_engine_tick
/// returns RTE_CLOSED, for its thread to stop (a replay does not look). While none is in one, timeout 0 is the stop itself,
/// on the calling thread, as far as it gets without waiting.
/// Threads: any; of an engine driven by tick or step: that thread. Callbacks: with timeout 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_stop(
    engine: *mut rte_engine,
    timeout_ns: u64,
    error: *mut rte_error,
) -> rte_status {
    with_engine_cold(engine, error, |engine| engine.stop(timeout_ns))
}

/// Stops without limit, then frees. After a stop that returned RTE_TIMEOUT: leaks what the stuck thread may touch, and
/// returns at once. What that thread is in may return later: no callback of the model, not even `destroy`, no on_output, no
/// log and no function of the backend begins any more, and `rte_engine_run` returns RTE_ERR_DEAD. In a callback of this
/// engine, or while another thread is in rte_engine_tick, step or replay: only asks for the stop and logs an error; free it
/// later, on that thread.
/// NULL is fine. Outputs not yet released stay valid; waits for the streams on which others were. No other call on this
/// engine may run or come after.
///
/// Threads: any; of an engine driven by tick or step: that thread. Callbacks: see above.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_free(engine: *mut rte_engine) {
    if engine.is_null() || is_forked() {
        return;
    }
    let mut is_over = false;
    with_engine(engine, |engine| {
        if engine.is_inside() {
            engine.refuse_free("in a callback of the same engine");
        } else if !engine.abandon() {
            is_over = engine.stop(u64::MAX).is_ok();
            if !is_over {
                engine.refuse_free("while another thread is in rte_engine_tick, step or replay");
            }
        }
        0
    });
    if is_over {
        with_engine(engine, |engine| {
            engine.let_go();
            0
        });
        guard(|| {
            // SAFETY: the handle's own count, given up once: the host may not use the handle again.
            drop(unsafe { Arc::from_raw(engine.cast::<Engine>()) });
            0
        });
    }
}
