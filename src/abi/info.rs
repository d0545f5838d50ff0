//! What anybody may ask of an engine.

use std::sync::atomic::Ordering::Relaxed;

use super::descriptor;
use super::engine::rte_engine;
use super::guard::with_engine;
use super::status::rte_status;
use crate::engine::{Engine, Failure};
use crate::queue::Outbox;
use crate::telemetry::{Entry, State};
use crate::word::{Row, Session, Status, hook};

/// What is known of an engine. A descriptor: set struct_size. Times are nanoseconds; quantiles are exact to 1/16.
///
/// With model.serve `ticks` is the newest that its loop has named, and what the loop alone could know is 0: `live`,
/// `encoding`, `retiring`, `held`, `coalesced`, `failed_ticks`, the deadlines, and all times but `inbox_ns_*`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_engine_info {
    /// sizeof(rte_engine_info).
    pub struct_size: u32,
    /// RTE_OK; RTE_TIMEOUT: a callback runs longer than options.stall_ns; else why the engine is dead.
    pub health: rte_status,
    /// RTE_LANES_*: what AUTO became.
    pub lanes: u32,
    /// 1 or 2, fixed when the engine is made.
    pub pipeline_depth_chunks: u32,
    /// Of the model. Action to output = input_latency_chunks + pipeline_depth_chunks - 1.
    pub input_latency_chunks: u32,
    /// Which callback is stalled; RTE_STAGE_NONE: none.
    pub stalled_stage: u32,
    /// Of the model.
    pub max_sessions: u32,
    /// Sessions, draining ones too. This and the following as of the end of the last tick.
    pub attached: u32,
    /// Stepped in the last tick. With model.serve 0: its loop alone knows whom it steps, and when; see `attached`.
    pub live: u32,
    /// Not seeded yet.
    pub pending: u32,
    /// Sitting out until a changed value is applied.
    pub encoding: u32,
    /// Between PAUSE and RESUME.
    pub paused: u32,
    /// Failed, until RESET or DETACH.
    pub quarantined: u32,
    /// Rows whose last work is still under way; nobody steps in them.
    pub retiring: u32,
    /// Waiting for their consumer (RTE_HOLD).
    pub held: u32,
    /// The first row of the stalled callback's batch.
    pub stalled_row: u32,
    /// Of the model.
    pub chunk_bytes: usize,
    /// Output buffers of one session; 0 with RTE_MODEL_OWN_OUTPUT.
    pub session_bytes: usize,
    /// Of the model.
    pub rate_num: u32,
    /// Of the model.
    pub rate_den: u32,
    /// Ticks run. Of this and the following: since the engine was made.
    pub ticks: u64,
    /// Grid points skipped.
    pub missed_deadlines: u64,
    /// Ticks begun after their grid point, because the one before ended late.
    pub late_ticks: u64,
    /// Chunks made.
    pub chunks: u64,
    /// Of those: never popped, and never will be.
    pub dropped: u64,
    /// Pushes that returned RTE_AGAIN.
    pub refused: u64,
    /// ACTIONs that a newer one followed before any step saw them.
    pub coalesced: u64,
    /// Calls that failed as a whole.
    pub failed_ticks: u64,
    /// A tick, waits for the lanes included.
    pub tick_ns_p50: u64,
    /// See tick_ns_p50.
    pub tick_ns_p99: u64,
    /// See tick_ns_p50.
    pub tick_ns_max: u64,
    /// Begin of a tick after its grid point.
    pub late_ns_p50: u64,
    /// See late_ns_p50.
    pub late_ns_p99: u64,
    /// See late_ns_p50.
    pub late_ns_max: u64,
    /// By lane: a batch's work, from the first stage's begin to the end of what it enqueued; seeds are not in it.
    pub lane_ns_p50: [u64; 3],
    /// See lane_ns_p50.
    pub lane_ns_p99: [u64; 3],
    /// See lane_ns_p50.
    pub lane_ns_max: [u64; 3],
    /// A message's time in the inbox.
    pub inbox_ns_p50: u64,
    /// See inbox_ns_p50.
    pub inbox_ns_p99: u64,
    /// See inbox_ns_p50.
    pub inbox_ns_max: u64,
    /// From the push of an ACTION until the first chunk that takes it into account goes into the outbox.
    pub action_ns_p50: u64,
    /// See action_ns_p50.
    pub action_ns_p99: u64,
    /// See action_ns_p50.
    pub action_ns_max: u64,
}

/// State of a session: waits for its seed, or for its row.
pub const RTE_PENDING: u32 = 1;
/// State of a session: steps, if it is due and not paused.
pub const RTE_READY: u32 = 2;
/// State of a session: sits out until its changed heavy values are applied.
pub const RTE_ENCODING: u32 = 3;
/// State of a session: failed; waits for RESET or DETACH.
pub const RTE_QUARANTINED: u32 = 4;
/// State of a session: RTE_HOLD: waits for its consumer.
pub const RTE_HELD: u32 = 5;

/// What is known of a session. A descriptor: set struct_size. As of the end of the last tick; `queued`, `held` and
/// `dropped`: now.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_session_info {
    /// sizeof(rte_session_info).
    pub struct_size: u32,
    /// RTE_PENDING to RTE_HELD.
    pub state: u32,
    /// Row of the arena.
    pub row: u32,
    /// RTE_QUARANTINED: why.
    pub status: rte_status,
    /// 1 between PAUSE and RESUME, in any state.
    pub paused: u32,
    /// Zero.
    pub reserved0: u32,
    /// Of its ATTACH.
    pub user: u64,
    /// Its current life.
    pub generation: u64,
    /// Chunks made in this life; 0 while RTE_PENDING.
    pub age: u64,
    /// The newest ACTION.
    pub tag: u64,
    /// The tag of the message (an ATTACH or RESET, too) whose heavy values are the applied ones; 0: none had any.
    pub heavy_tag: u64,
    /// Chunks in the outbox.
    pub queued: u64,
    /// Outputs that consumers hold, of its row.
    pub held: u64,
    /// Chunks of this life that were made and never popped.
    pub dropped: u64,
    /// Encodes started in this life.
    pub encodes: u64,
    /// Ticks of this life in which it was due and seeded, but sat out.
    pub ticks_out: u64,
}

/// What is known of the engine now. Writes `info->struct_size` bytes. Takes some microseconds, allocates nothing and disturbs
/// nobody: fit for each frame.
///
/// RTE_ERR_ARGUMENT: NULL. RTE_ERR_VERSION: a struct_size that is not known.
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_engine_get_info(engine: *const rte_engine, info: *mut rte_engine_info) -> rte_status {
    with_engine(engine, |engine| {
        // SAFETY: the host gave NULL or a descriptor.
        unsafe { descriptor::write(info, "info", engine_info(engine)) }
            .map_or_else(|failure| refuse(engine, "rte_engine_get_info", failure), |()| 0)
    })
}

#[cold]
fn refuse(engine: &Engine, call: &str, failure: Failure) -> rte_status {
    engine.note_mistake(call, || failure.message);
    failure.status.0
}

fn engine_info(engine: &Engine) -> rte_engine_info {
    let (shared, manifest, facts) = (&engine.shared, engine.model().manifest(), engine.settings());
    let (counters, gauges) = (&shared.counters, &shared.gauges);
    let stalled = shared.watch.running().filter(|(_, _, since)| *since > engine.settings().stall);
    let health = engine.death().map_or(if stalled.is_some() { Status::TIMEOUT.0 } else { 0 }, |status| status.0);
    let lanes = counters.lanes.each_ref().map(|lane| lane.spread());
    let [tick, late, inbox, action] =
        [&counters.tick, &counters.lateness, &counters.inbox, &counters.action].map(|histogram| histogram.spread());
    rte_engine_info {
        struct_size: size_of::<rte_engine_info>() as u32,
        health,
        lanes: facts.lanes,
        pipeline_depth_chunks: if facts.plan.pipelined { 2 } else { 1 },
        input_latency_chunks: manifest.input_latency_chunks,
        stalled_stage: stalled.map_or(hook::NONE, |(stage, _, _)| stage),
        max_sessions: manifest.max_sessions,
        attached: gauges.attached.load(Relaxed),
        live: gauges.live.load(Relaxed),
        pending: gauges.pending.load(Relaxed),
        encoding: gauges.encoding.load(Relaxed),
        paused: gauges.paused.load(Relaxed),
        quarantined: gauges.quarantined.load(Relaxed),
        retiring: gauges.retiring.load(Relaxed),
        held: gauges.held.load(Relaxed),
        stalled_row: stalled.map_or(0, |(_, row, _)| row),
        chunk_bytes: manifest.chunk_bytes,
        session_bytes: if manifest.owns_outputs {
            0
        } else {
            facts.plan.quota * manifest.chunk_bytes.next_multiple_of(crate::memory::LINE)
        },
        rate_num: manifest.rate.map_or(0, |rate| rate.num),
        rate_den: manifest.rate.map_or(0, |rate| rate.den),
        ticks: counters.ticks.load(Relaxed),
        missed_deadlines: counters.missed_deadlines.load(Relaxed),
        late_ticks: counters.late_ticks.load(Relaxed),
        chunks: counters.chunks.load(Relaxed),
        dropped: shared.outbox.dropped(),
        refused: counters.refused.load(Relaxed),
        coalesced: counters.coalesced.load(Relaxed),
        failed_ticks: counters.failed_ticks.load(Relaxed),
        tick_ns_p50: tick.p50,
        tick_ns_p99: tick.p99,
        tick_ns_max: tick.max,
        late_ns_p50: late.p50,
        late_ns_p99: late.p99,
        late_ns_max: late.max,
        lane_ns_p50: lanes.map(|lane| lane.p50),
        lane_ns_p99: lanes.map(|lane| lane.p99),
        lane_ns_max: lanes.map(|lane| lane.max),
        inbox_ns_p50: inbox.p50,
        inbox_ns_p99: inbox.p99,
        inbox_ns_max: inbox.max,
        action_ns_p50: action.p50,
        action_ns_p99: action.p99,
        action_ns_max: action.max,
    }
}

/// What is known of a session. Looks at every row: not for each frame and session. Writes `info->struct_size` bytes.
///
/// RTE_ERR_UNKNOWN: not attached at the end of the last tick, or its RTE_DETACHED or RTE_REJECTED was queued since; after a
/// RESET it is the new life that is shown. RTE_ERR_ARGUMENT, RTE_ERR_VERSION as for `rte_engine_get_info`.
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_session_get_info(
    engine: *const rte_engine,
    session: u64,
    info: *mut rte_session_info,
) -> rte_status {
    with_engine(engine, |engine| {
        // SAFETY: the host gave NULL or a descriptor.
        if let Err(failure) = unsafe { descriptor::check(info, "info") } {
            return refuse(engine, "rte_session_get_info", failure);
        }
        let shared = &engine.shared;
        let said = loop {
            let Some((row, entry)) = shared.board.find(Session(session)) else { return Status::UNKNOWN.0 };
            let (has_parted, said) = (shared.outbox.has_parted(row), session_info(&shared.outbox, row, &entry));
            // The row may have changed hands between these looks.
            match shared.board.is_of(row, entry.generation) {
                true if has_parted => return Status::UNKNOWN.0,
                true => break said,
                false => {}
            }
        };
        // SAFETY: the host gave NULL or a descriptor.
        unsafe { descriptor::write(info, "info", said) }
            .map_or_else(|failure| refuse(engine, "rte_session_get_info", failure), |()| 0)
    })
}

fn session_info(outbox: &Outbox, row: Row, entry: &Entry) -> rte_session_info {
    rte_session_info {
        struct_size: size_of::<rte_session_info>() as u32,
        state: match entry.state {
            State::Pending => RTE_PENDING,
            State::Ready => RTE_READY,
            State::Encoding => RTE_ENCODING,
            State::Quarantined => RTE_QUARANTINED,
            State::Held => RTE_HELD,
        },
        row: row.0,
        status: entry.status.map_or(0, |status| status.0),
        paused: entry.paused.into(),
        reserved0: 0,
        user: entry.user,
        generation: entry.generation.0,
        age: entry.age,
        tag: entry.tag,
        heavy_tag: entry.heavy_tag,
        queued: outbox.queued(row) as u64,
        held: outbox.held(row),
        dropped: outbox.dropped_of(row),
        encodes: entry.encodes,
        ticks_out: entry.ticks_out,
    }
}
