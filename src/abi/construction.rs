//! How an engine is made of a model and options: what does not go together is refused, then all that ticks will need is
//! allocated, and at last, when nothing more can fail, the host's objects are taken.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32};

use super::engine::rte_engine;
use super::guard::watch_forks;
use super::lanes::Kind;
use super::log::log_of;
use super::model::{CModel, rte_model};
use super::options::{
    self, Options, RTE_LANES_INLINE, RTE_PIPELINE_OFF, RTE_PIPELINE_ON, RTE_PREFAULT, rte_engine_options,
};
use super::outbox::on_output_of;
use crate::engine::{Body, Cohort, Engine, Failure, Plan, Serving, Settings, Shared};
use crate::lane::{Bell, Lanes, Target, Trouble};
use crate::model::{Manifest, Model};
use crate::output::Chunk;
use crate::queue::{Inbox, LIFE_NOTICES, Outbox, Sizes};
use crate::record::Writer;
use crate::telemetry::{Board, Counters, Gauges, Names, Scribe, Trace, Watch};
use crate::time::{Clock, Threads, Wake};
use crate::word::{Lane, Status};

/// As `rte_engine_new`, on the lanes that `wrap` makes of those that the options name: for tests of the engine.
///
/// # Safety
/// Both are NULL or descriptors whose pointers are valid for this call.
pub unsafe fn engine_with(
    model: *const rte_model,
    options: *const rte_engine_options,
    wrap: impl FnOnce(Box<dyn Lanes>) -> Box<dyn Lanes>,
) -> Result<*mut rte_engine, Failure> {
    // SAFETY: the caller's promise.
    let (model, options) = unsafe { (Arc::new(CModel::read(model)?), options::read(options)?) };
    let manifest = model.manifest();
    check_together(manifest, &options)?;
    // SAFETY: the caller's promise.
    let clock = unsafe { options::read_clock(&options.table)? };
    let (bell, watch, trouble) = (Bell::default(), Arc::new(Watch::default()), Arc::new(Trouble::default()));
    // SAFETY: the caller's promise.
    let kind = unsafe { Kind::of(&options.table, manifest, &bell, &watch, &trouble)? };
    watch_forks();
    check_room(manifest, options.depth)?;
    let shared = shared(&options, manifest.max_sessions, bell, watch, clock)?;
    model.follow(shared.watch.clone());
    let settings = settings(&options, manifest, &kind, trouble);
    let engine = if manifest.serves() {
        serving(shared, model.clone(), settings)?
    } else {
        stepped(shared, kind.model_of(model.clone()), settings, &options, &kind, wrap)?
    };
    model.take();
    kind.take();
    Ok(Arc::into_raw(engine).cast_mut().cast())
}

/// What is right alone may not go with the model.
fn check_together(manifest: &Manifest, options: &Options) -> Result<(), Failure> {
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

/// What an engine of this shape takes at least. One that cannot be is refused by it: most of what is allocated later is
/// small, and could not be refused without ending the process.
fn least_bytes(manifest: &Manifest, depth: usize) -> Option<usize> {
    let keys = manifest.keys.iter().try_fold(0usize, |sum, (_, spec)| sum.checked_add(spec.size))?;
    // The columns of HOT, DEFERRED and a spare batch; what two lanes saw last; what the row holds, thrice.
    let of_a_row = keys.checked_mul(8)?.checked_add(2 * depth * size_of::<Chunk>())?;
    of_a_row.checked_mul(manifest.max_sessions as usize)
}

fn check_room(manifest: &Manifest, depth: usize) -> Result<(), Failure> {
    let is_there = |bytes| Vec::<u8>::new().try_reserve_exact(bytes).is_ok();
    if least_bytes(manifest, depth).is_some_and(is_there) { Ok(()) } else { Err(no_memory()) }
}

fn no_memory() -> Failure {
    Failure::new(Status::MEMORY, "no memory for the engine's rows and queues")
}

/// What is fixed from now on.
fn plan(options: &Options, manifest: &Manifest, lanes_overlap: bool) -> Plan {
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

fn settings(options: &Options, manifest: &Manifest, kind: &Kind, trouble: Arc<Trouble>) -> Settings {
    let table = &options.table;
    Settings {
        rate: manifest.rate,
        overrun: options.overrun,
        threads: Arc::new(Threads::new(options.thread_name.clone(), table.cpu_mask, table.priority)),
        has_lane_threads: matches!(kind, Kind::Threads),
        trouble,
        takes_device_values: kind.has_device() && options.record_path.is_none(),
        stall: if table.stall_ns == 0 { 1_000_000_000 } else { table.stall_ns },
        message_bytes: options.limits.message_bytes,
        lanes: kind.number(),
        plan: plan(options, manifest, !matches!(kind, Kind::Inline)),
    }
}

fn shared(
    options: &Options,
    rows: u32,
    bell: Bell,
    watch: Arc<Watch>,
    clock: Arc<dyn Clock>,
) -> Result<Arc<Shared>, Failure> {
    let notices = LIFE_NOTICES as usize * (2 * rows as usize + options.limits.messages);
    let sizes = Sizes { rows, depth: options.depth, notices };
    Ok(Arc::new(Shared {
        inbox: Inbox::new(options.limits).ok_or_else(no_memory)?,
        outbox: Arc::new(Outbox::new(sizes, options.policy, bell.parked.clone())),
        board: Board::new(rows),
        counters: Counters::default(),
        gauges: Gauges::default(),
        watch,
        parked: bell.parked,
        paced: Wake::default(),
        stopping: AtomicBool::new(false),
        kicked: bell.kicked,
        death: AtomicI32::new(0),
        log: log_of(options.table.log, options.table.log_user, options.table.log_level),
        on_output: on_output_of(&options.table),
        clock,
    }))
}

/// An engine whose model owns the loop.
fn serving(shared: Arc<Shared>, model: Arc<dyn Model>, settings: Settings) -> Result<Arc<Engine>, Failure> {
    let Plan { quota, prefault, .. } = settings.plan;
    let serving = Serving::new(shared.clone(), model.clone(), quota, prefault).ok_or_else(no_memory)?;
    Ok(Engine::new(shared, model, Body::Serving(serving), settings))
}

/// An engine that steps its model.
fn stepped(
    shared: Arc<Shared>,
    model: Arc<dyn Model>,
    settings: Settings,
    options: &Options,
    kind: &Kind,
    wrap: impl FnOnce(Box<dyn Lanes>) -> Box<dyn Lanes>,
) -> Result<Arc<Engine>, Failure> {
    let bell = Bell { kicked: shared.kicked.clone(), parked: shared.parked.clone() };
    let target = Target { model: model.clone(), watch: shared.watch.clone() };
    let lanes = wrap(kind.lanes(target.clone(), &options.table, bell, settings.threads.clone()));
    let cohort = Cohort::new(shared.clone(), target, lanes, settings.plan, kind.equipment(model.manifest()));
    let cohort = cohort.ok_or_else(|| match settings.trouble.get() {
        Some((status, words)) => Failure::new(status, words),
        None => no_memory(),
    })?;
    let engine = Engine::new(shared, model, Body::Cohort(cohort), settings);
    make_files(&engine, options)?;
    Ok(engine)
}

/// What is written of it.
fn make_files(engine: &Engine, options: &Options) -> Result<(), Failure> {
    let wrong = |name: &str, path: &str, why: std::io::Error| {
        Failure::new(Status::ARGUMENT, format!("options.{name}: {path}: {why}"))
    };
    if let Some(path) = &options.trace_path {
        let scribe = Scribe::create(path, names(engine.model().manifest(), options.table.encode_lanes));
        let scribe = scribe.map_err(|why| wrong("trace_path", path, why))?;
        engine.trace_to(Trace::new(scribe, engine.settings().threads.clone()), options.table.clock.is_null());
    }
    if let Some(path) = &options.record_path {
        let writer = Writer::create(path, &engine.facts());
        engine.record(writer.map_err(|why| wrong("record_path", path, why))?);
    }
    Ok(())
}

/// What its trace shows, by name.
fn names(manifest: &Manifest, encode_lanes: u32) -> Names {
    let encodes = if manifest.has(Lane::Encode) || manifest.seeds_aside { encode_lanes.max(1) } else { 0 };
    Names {
        model: manifest.name.clone(),
        stages: manifest.stages.iter().map(|stage| stage.name.clone()).collect(),
        rows: manifest.max_sessions,
        has_deferred: manifest.has(Lane::Deferred),
        encodes: encodes as usize,
    }
}
