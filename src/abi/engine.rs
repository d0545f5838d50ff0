//! The engine: made, driven, stopped, freed.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32};

use super::backend::{HostStreams, Table};
use super::cuda;
use super::descriptor;
use super::guard::{guard, guard_cold, is_forked, watch_forks, with_engine, with_engine_cold};
use super::log::log_of;
use super::message::raw_stream;
use super::model::{CModel, rte_model};
use super::options::{
    self, Options, RTE_LANES_AUTO, RTE_LANES_CUDA, RTE_LANES_HOST, RTE_LANES_INLINE, RTE_LANES_THREADS,
    RTE_PIPELINE_OFF, RTE_PIPELINE_ON, RTE_PREFAULT, rte_engine_options,
};
use super::outbox::on_output_of;
use super::status::{rte_error, rte_status};
use crate::engine::{Body, Cohort, Engine, Failure, Plan, Serving, Settings, Shared};
use crate::lane::{
    Bell, CudaStreams, Equipment, InContext, InlineLanes, Lanes, Releases, StreamLanes, Target, ThreadLanes, Trouble,
};
use crate::model::Model;
use crate::queue::{Inbox, LIFE_NOTICES, Outbox, Sizes};
use crate::record::Writer;
use crate::telemetry::{Board, Counters, Gauges, Names, Scribe, Trace, Watch};
use crate::time::{Threads, Wake};
use crate::word::{Lane, Status};

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

/// As `rte_engine_new`, on the lanes that `wrap` makes of those that the options name: for tests of the engine.
///
/// # Safety
/// Both are NULL or descriptors whose pointers are valid for this call.
#[doc(hidden)]
pub unsafe fn engine_with(
    model: *const rte_model,
    options: *const rte_engine_options,
    wrap: impl FnOnce(Box<dyn Lanes>) -> Box<dyn Lanes>,
) -> Result<*mut rte_engine, Failure> {
    // SAFETY: the caller's promise.
    let (model, options) = unsafe { (CModel::read(model)?, options::read(options)?) };
    // SAFETY: the caller's promise.
    let clock = unsafe { options::read_clock(&options.table)? };
    let (trouble, serves) = (Arc::new(Trouble::default()), model.manifest().serves());
    // SAFETY: the caller's promise.
    let gpu = if serves { None } else { unsafe { cuda::open(&options.table, &trouble)? } };
    let lanes = match options.table.lanes {
        RTE_LANES_AUTO if gpu.is_some() => RTE_LANES_CUDA,
        RTE_LANES_AUTO => RTE_LANES_INLINE,
        lanes => lanes,
    };
    let (is_host, is_threaded) = (lanes == RTE_LANES_HOST, lanes == RTE_LANES_THREADS);
    // SAFETY: the caller's promise.
    let backend = if is_host { Some(unsafe { options::read_backend(&options.table)? }) } else { None };
    check_outputs(model.manifest(), lanes)?;
    let no_memory = || Failure::new(Status::MEMORY, "no memory for the engine's rows and queues");
    watch_forks();

    let manifest = model.manifest();
    check_together(manifest, &options)?;
    if least_bytes(manifest, options.depth).is_none_or(|bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_err()) {
        return Err(no_memory());
    }
    let plan = plan(&options, manifest, lanes != RTE_LANES_INLINE);
    let rows = manifest.max_sessions;
    let (parked, kicked) = (Arc::new(Wake::default()), Arc::new(AtomicBool::new(false)));
    let bell = Bell { kicked: kicked.clone(), parked: parked.clone() };
    let sizes = Sizes {
        rows,
        depth: options.depth,
        notices: LIFE_NOTICES as usize * (2 * rows as usize + options.limits.messages),
    };
    let watch = Arc::new(Watch::default());
    let shared = Arc::new(Shared {
        inbox: Inbox::new(options.limits).ok_or_else(no_memory)?,
        outbox: Arc::new(Outbox::new(sizes, options.policy, parked.clone())),
        board: Board::new(rows),
        counters: Counters::default(),
        gauges: Gauges::default(),
        watch: watch.clone(),
        parked: parked.clone(),
        paced: Wake::default(),
        stopping: AtomicBool::new(false),
        kicked: kicked.clone(),
        death: AtomicI32::new(0),
        log: log_of(options.table.log, options.table.log_user, options.table.log_level),
        on_output: on_output_of(&options.table),
        clock,
    });
    let threads = Arc::new(Threads::new(options.thread_name, options.table.cpu_mask, options.table.priority));
    let settings = Settings {
        rate: manifest.rate,
        overrun: options.overrun,
        threads: threads.clone(),
        has_lane_threads: is_threaded,
        trouble: trouble.clone(),
        takes_device_values: (is_host || gpu.is_some()) && options.record_path.is_none(),
        stall: if options.table.stall_ns == 0 { 1_000_000_000 } else { options.table.stall_ns },
        message_bytes: options.limits.message_bytes,
        lanes,
        plan,
    };
    let table = backend.map(|backend| Table::new(backend, kicked, parked));
    let owned = Arc::new(model);
    if serves {
        let serving = Serving::new(shared.clone(), owned.clone(), plan.quota, plan.prefault).ok_or_else(no_memory)?;
        owned.take();
        let engine = Engine::new(shared, owned, Body::Serving(serving), settings);
        return Ok(Arc::into_raw(engine).cast_mut().cast());
    }
    let model: Arc<dyn Model> = match &gpu {
        Some(gpu) => Arc::new(InContext::new(gpu.clone(), owned.clone())),
        None => owned.clone(),
    };
    let target = Target { model: model.clone(), watch };
    let encodes = options.table.encode_lanes.max(1) as usize;
    let mut equipment = Equipment::default();
    let lanes: Box<dyn Lanes> = if let Some(table) = &table {
        equipment.releases = Some(Arc::new(Releases(table.clone())));
        let streams = HostStreams::new(table.clone(), options.table.streams);
        Box::new(StreamLanes::new(target.clone(), Box::new(streams), encodes))
    } else if let Some(gpu) = gpu {
        equipment = cuda::equipment(&gpu, model.manifest());
        let streams = CudaStreams::new(gpu, options.table.streams.map(raw_stream));
        Box::new(StreamLanes::new(target.clone(), Box::new(streams), encodes))
    } else if is_threaded {
        Box::new(ThreadLanes::new(target.clone(), bell, encodes, rows, options.table.spin_ns, threads.clone()))
    } else {
        Box::new(InlineLanes::new(target.clone()))
    };
    let cohort = Cohort::new(shared.clone(), target, wrap(lanes), plan, equipment);
    let cohort = cohort.ok_or_else(|| match trouble.get() {
        Some((status, words)) => Failure::new(status, words),
        None => no_memory(),
    })?;
    let engine = Engine::new(shared, model.clone(), Body::Cohort(cohort), settings);
    if let Some(path) = &options.trace_path {
        let scribe = Scribe::create(path, names(model.manifest(), options.table.encode_lanes));
        let failed = |why| Failure::new(Status::ARGUMENT, format!("options.trace_path: {path}: {why}"));
        engine.trace_to(Trace::new(scribe.map_err(failed)?, threads), options.table.clock.is_null());
    }
    if let Some(path) = &options.record_path {
        let writer = Writer::create(path, &engine.facts());
        engine.record(
            writer.map_err(|why| Failure::new(Status::ARGUMENT, format!("options.record_path: {path}: {why}")))?,
        );
    }
    // The host's objects are taken on success only.
    owned.take();
    table.into_iter().for_each(|table| table.take());
    Ok(Arc::into_raw(engine).cast_mut().cast())
}

/// What is right alone may not go with the model.
fn check_together(manifest: &crate::model::Manifest, options: &Options) -> Result<(), Failure> {
    let serves = manifest.serves();
    let wrong = |what: String| Err(Failure::new(Status::ARGUMENT, format!("options.{what}, but the model has serve")));
    match &options.table {
        table if serves && table.lanes > RTE_LANES_INLINE => wrong(format!("lanes: {}", table.lanes)),
        table if serves && table.pipeline == RTE_PIPELINE_ON => wrong("pipeline: RTE_PIPELINE_ON".to_string()),
        table if serves && !table.record_path.is_null() => wrong("record_path: set".to_string()),
        table if serves && !table.trace_path.is_null() => wrong("trace_path: set".to_string()),
        _ => Ok(()),
    }
}

/// Outputs on a device need lanes that have one, and such of ours a device that we know.
fn check_outputs(manifest: &crate::model::Manifest, lanes: u32) -> Result<(), Failure> {
    let no = |what: &str| {
        Err(Failure::new(Status::UNAVAILABLE, format!("model.flags: RTE_MODEL_DEVICE_OUTPUT, but {what}")))
    };
    match lanes {
        _ if !manifest.on_device => Ok(()),
        RTE_LANES_CUDA => Ok(()),
        RTE_LANES_HOST if manifest.owns_outputs => Ok(()),
        RTE_LANES_HOST => no("without RTE_MODEL_OWN_OUTPUT: the memory of options.backend's device is yours"),
        _ => no("the lanes have no device"),
    }
}

/// What its trace shows, by name.
fn names(manifest: &crate::model::Manifest, encode_lanes: u32) -> Names {
    let encodes = if manifest.has(Lane::Encode) || manifest.seeds_aside { encode_lanes.max(1) } else { 0 };
    Names {
        model: manifest.name.clone(),
        stages: manifest.stages.iter().map(|stage| stage.name.clone()).collect(),
        rows: manifest.max_sessions,
        has_deferred: manifest.has(Lane::Deferred),
        encodes: encodes as usize,
    }
}

/// What an engine of this shape takes at least. One that cannot be is refused by it: most of what is allocated later is
/// small, and could not be refused without ending the process.
fn least_bytes(manifest: &crate::model::Manifest, depth: usize) -> Option<usize> {
    let keys = manifest.keys.iter().try_fold(0usize, |sum, (_, spec)| sum.checked_add(spec.size))?;
    // The columns of HOT, DEFERRED and a spare batch; what two lanes saw last; what the row holds, thrice.
    let of_a_row = keys.checked_mul(8)?.checked_add(2 * depth * size_of::<crate::output::Chunk>())?;
    of_a_row.checked_mul(manifest.max_sessions as usize)
}

fn plan(options: &Options, manifest: &crate::model::Manifest, lanes_overlap: bool) -> Plan {
    let or = |value: u32, default: u32| if value == 0 { default } else { value };
    let pipelined = match options.table.pipeline {
        RTE_PIPELINE_ON => true,
        RTE_PIPELINE_OFF => false,
        _ => lanes_overlap && manifest.has(Lane::Deferred),
    };
    Plan {
        pipelined,
        seed_attempts: or(options.table.seed_attempts, 3),
        encode_attempts: or(options.table.encode_attempts, 3),
        quota: options.depth + options.held + if pipelined { 2 } else { 1 },
        prefault: options.table.flags & RTE_PREFAULT != 0,
    }
}

/// Drives the engine on a thread of its own, at the model's rate, until it is stopped; or runs `model.serve` there. Returns
/// when `model.init` has.
///
/// RTE_ERR_STATE: it is driven already, or stopped. RTE_ERR_MEMORY: no thread. RTE_ERR_DEADLOCK: in a callback of this
/// engine. RTE_ERR_UNAVAILABLE: the system refuses options.cpu_mask or options.priority; the error says which, and how the
/// system put it. What `init` or the backend's stream_new returned. After the last two the engine is dead; whichever it
/// was, none of our threads is left.
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
/// is in its tick, or the model has `serve`. RTE_ERR_DEADLOCK: in a callback of this engine. At the first tick what `init`
/// returned, and RTE_ERR_UNAVAILABLE as for `rte_engine_run`.
/// Threads: always the same one. Callbacks: of another engine only.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_tick(engine: *mut rte_engine, wait_ns: u64) -> rte_status {
    with_engine(engine, |engine| progress(engine.tick(None, wait_ns)))
}

/// A tick in which only the sessions in `due` are stepped; ids that are not attached are ignored, paused ones stay paused.
/// Everything else of a tick happens: messages, encodes, what is in flight. After RTE_AGAIN the next call goes on with the
/// same tick, and does not look at its `due`. `due` is borrowed until return; NULL only with `due_count` 0.
///
/// Returns as `rte_engine_tick`; RTE_ERR_ARGUMENT for a NULL `due`.
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
            (true, _) => return Status::ARGUMENT.0,
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
/// calling thread, as fast as the model is. `model` and `options` have to be as they were, lanes too. The model is called
/// with the same batches and makes the same chunks, with the same times in them; then the engine is as after a stop. Its
/// consumer is not waited for: take outputs with options.on_output, or on another thread. What was lent is copied here.
/// Borrows `path` until return.
///
/// RTE_ERR_ARGUMENT: NULL, no such file, not a record, cut off or damaged (of an engine that was not stopped, say), of
/// another engine: the message names what differs. RTE_ERR_STATE: driven already or stopped; or the run left the record,
/// with what was asked for when: the model is another, or does not repeat itself. RTE_ERR_DEAD: the record ends so.
/// RTE_ERR_DEADLOCK: in a callback of this engine. What `init` returned.
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
/// returns at once. What that thread is in may return later: no callback of the model, not even `destroy`, and no function
/// of the backend begins any more, and `rte_engine_run` returns RTE_ERR_DEAD. In a callback of this engine, or while another
/// thread is in rte_engine_tick, step or replay: only asks for the stop and logs an error; free it later, on that thread.
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
