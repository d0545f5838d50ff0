//! The model: what the host brings.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};

use super::engine::rte_engine;
use super::guard::{answer_of, give_back};
use super::manifest;
use super::message::{rte_stream, rte_value};
use super::status::rte_status;
use crate::batch::Batch;
use crate::engine::Failure;
use crate::model::{Call, Manifest, Model, RawEngine, RawStream};
use crate::telemetry::Watch;
use crate::word::{Lane, Status};

/// A stage number: `rte_model.seed`.
pub const RTE_STAGE_SEED: u32 = 0xffff_ffff;
/// A stage number: `rte_model.detach`.
pub const RTE_STAGE_DETACH: u32 = 0xffff_fffe;
/// A stage number: `rte_model.ready`.
pub const RTE_STAGE_READY: u32 = 0xffff_fffd;
/// A stage number: `rte_model.finalize`.
pub const RTE_STAGE_FINALIZE: u32 = 0xffff_fffc;
/// A stage number: `rte_model.init`.
pub const RTE_STAGE_INIT: u32 = 0xffff_fffb;
/// A stage number: `rte_engine_options.on_output`.
pub const RTE_STAGE_ON_OUTPUT: u32 = 0xffff_fffa;
/// A stage number: `rte_model.serve`.
pub const RTE_STAGE_SERVE: u32 = 0xffff_fff9;
/// A stage number: none. In info: no stage is stalled.
pub const RTE_STAGE_NONE: u32 = 0xffff_fff0;

/// The rows that one call works on: plain data. A stage needs no rte call, and can be tested with a batch made by hand.
///
/// Arrays are by position i in 0..count, but `mask`, which is by row. They stay valid and unchanged until the batch's work
/// on its lane has passed, so asynchronous copies may read them; on HOT and DEFERRED their addresses are the same for every
/// batch of one slot, so graphs may capture them, and on CUDA lanes they are page-locked (a row that is run alone after
/// failures comes in a batch of its own, which is not).
/// A stage writes `*output[i]`, `output_size`, `frames` and `status`; all else is ours.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_batch {
    /// Set by the library: look before you read a field newer than 0.1.
    pub struct_size: u32,
    /// Index into `model.stages`, or RTE_STAGE_*.
    pub stage: u32,
    /// HOT and DEFERRED: 0 or 1. HOT(N) writes latent[slot], DEFERRED(N) reads it, HOT(N+1) has the other (always 0 without
    /// a pipeline). 0 in seed, ENCODE and the hooks: keep buffers of their own for those.
    pub slot: u32,
    /// Rows; with RTE_MODEL_DENSE always max_sessions.
    pub count: u32,
    /// Ticks run before this one.
    pub tick: u64,
    /// Room of each output: `model.chunk_bytes`.
    pub chunk_bytes: usize,
    /// Ascending: index your state by it. DEFERRED(N) lacks the rows that left or failed since HOT(N), so positions differ
    /// between the two: keep nothing by position across stages.
    pub row: *const u32,
    /// Your names.
    pub session: *const u64,
    /// Of ATTACH.
    pub user: *const u64,
    /// Which life.
    pub generation: *const u64,
    /// Chunks made before this one.
    pub age: *const u64,
    /// Bit k: key k differs from what this row's last successful batch on this lane saw. The first of a life: all that are
    /// present. ENCODE: also those of the context, which seed saw, that are absent by now.
    pub changed: *const u64,
    /// value[i][key]; size 0 = absent. HOT and DEFERRED of one batch see the same: the cheap values of that tick and the
    /// heavy values applied then. ENCODE sees the heavy values to be applied, seed and ready the context.
    pub value: *const *const rte_value,
    /// column[key]: count x keys[key].size bytes, zero where absent, aligned to 64; NULL for keys without a size.
    pub column: *const *const c_void,
    /// By arena row, max_sessions bytes: 1 = in this batch. RTE_MODEL_DENSE: padding rows have session 0, no values, output
    /// NULL (with RTE_MODEL_OUTPUT_BLOCK their places in the block).
    pub mask: *const u8,
    /// In the lane that ends the chunk (DEFERRED, or HOT without it): chunk_bytes each, aligned to 64 (with
    /// RTE_MODEL_OUTPUT_BLOCK the first of them). NULL elsewhere.
    pub output: *mut *mut c_void,
    /// 0 on entry; left 0 = no chunk from this row in this tick. More than chunk_bytes fails the row with RTE_ERR_CALLBACK.
    pub output_size: *mut usize,
    /// `model.frames_per_chunk` on entry.
    pub frames: *mut u32,
    /// 0 on entry; anything else fails this row alone, RTE_ERR_DEAD too: as RTE_ERR_CALLBACK, for a stage says that it is dead by
    /// returning that. detach: on entry why the life ended: 0 asked for, RTE_CLOSED stop, else what had quarantined the row.
    pub status: *mut rte_status,
}

/// A stage or hook.
///
/// Returns RTE_OK when the work is done or enqueued on `stream`; RTE_ERR_DEAD ends the engine; anything else fails the
/// whole batch. A model whose state is then still that of before says so with RTE_MODEL_RETRY_SAFE: ages and accumulated
/// values stay, and the next tick is the retry.
///
/// Never two at once on one lane (ENCODE with options.encode_lanes > 1: never for one row); different lanes overlap. What
/// of your state each may touch without a lock of yours:
/// - HOT, of its rows: HOT state and latent[slot]; it may read what ENCODE left.
/// - DEFERRED: latent[slot] and decoder state; it may read what ENCODE left.
/// - ENCODE: conditioning state. No HOT or DEFERRED of a row runs beside an ENCODE of the same row.
/// - seed and detach: all of the row. Nothing else of the row runs beside them.
///
/// What rows share (scratch, weights that change) is one lane's, or needs a lock. Seeds aside run on ENCODE.
///
/// Threads: the engine's; stages, seed and detach with RTE_LANES_THREADS: the lane's own. Callbacks: may call what says so.
/// Must not throw: a C++ exception that leaves it ends the process.
pub type rte_stage_fn =
    Option<unsafe extern "C-unwind" fn(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status>;

/// A lane: the critical path: makes chunk N.
pub const RTE_HOT: u32 = 0;
/// A lane: finishes chunk N-1 meanwhile.
pub const RTE_DEFERRED: u32 = 1;
/// A lane: digests changed heavy values of single rows, at low priority. Nobody else waits for it where lanes overlap; on
/// inline lanes, where nothing does, everybody.
pub const RTE_ENCODE: u32 = 2;

/// One stage. Stages of a lane run in the order of the array, as one unit: if one fails, the batch has failed. A record:
/// 32 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_stage {
    /// For messages; may be NULL. Copied.
    pub name: *const c_char,
    /// What it does.
    pub run: rte_stage_fn,
    /// RTE_HOT, RTE_DEFERRED, RTE_ENCODE.
    pub lane: u32,
    /// Must be zero.
    pub flags: u32,
    /// Must be zero.
    pub reserved: u64,
}

/// Element type of a key: bytes.
pub const RTE_BYTES: u32 = 0;
/// Element type of a key: uint32_t.
pub const RTE_U32: u32 = 1;
/// Element type of a key: int64_t.
pub const RTE_I64: u32 = 2;
/// Element type of a key: float.
pub const RTE_F32: u32 = 3;
/// Element type of a key: double.
pub const RTE_F64: u32 = 4;

/// Merge rule of a key: a step sees the newest value, and keeps seeing it.
pub const RTE_MERGE_LATEST: u32 = 0;
/// Merge rule of a key: a step sees the sum of all values since the last step, then 0 (mouse deltas). I64 saturates.
pub const RTE_MERGE_SUM: u32 = 1;
/// Merge rule of a key: a step sees the bits of all values since the last step, then the newest (buttons: no tap is lost).
/// A button stays down until a message says otherwise: push the levels, and tell presses by what was 0 before.
pub const RTE_MERGE_OR: u32 = 2;

/// Flag of a key: a change goes through ENCODE; until it is applied the row sits out and the others go on. An ACTION that
/// names heavy keys alone wants RTE_PARTIAL, or it lets go of the cheap ones.
pub const RTE_KEY_HEAVY: u32 = 1;

/// One key of the conditioning. A record: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_key {
    /// For messages; may be NULL. Copied.
    pub name: *const c_char,
    /// Bytes. Non-zero: every value has exactly this size (a multiple of its element), and batches carry it as a column.
    pub size: usize,
    /// Element type, for merge rules and messages.
    pub r#type: u32,
    /// SUM: I64, F32, F64. OR: U32, I64, BYTES. Both need a size, and not HEAVY.
    pub merge: u32,
    /// RTE_KEY_HEAVY: needs an ENCODE stage.
    pub flags: u32,
    /// Must be zero.
    pub reserved: u32,
}

/// As many keys as a model may have.
pub const RTE_MAX_KEYS: u32 = 64;

/// Flag of a model: batches are the whole arena: count = max_sessions, row[i] = i, `mask` says which are real.
pub const RTE_MODEL_DENSE: u32 = 1;
/// Flag of a model: refuse to attach while another session is seeded.
pub const RTE_MODEL_NO_MIDRUN: u32 = 2;
/// Flag of a model: the last stage stores its own pointer in output[i], NULL on entry. It is the chunk's if the stage
/// returned RTE_OK, status[i] is 0 and output_size[i] is not; then release_output gets it once, also where the chunk is
/// lost. Else it stays yours. Needs release_output.
pub const RTE_MODEL_OWN_OUTPUT: u32 = 4;
/// Flag of a model: a failed batch left no trace: it may be run again, whole or row by row.
pub const RTE_MODEL_RETRY_SAFE: u32 = 8;
/// Flag of a model: seed runs on the ENCODE lane; its rows join when it is done, and nobody waits for them.
pub const RTE_MODEL_SEED_ASIDE: u32 = 16;
/// Flag of a model: output[i] is device memory, and nobody waits for it here: the chunk comes as soon as its work is
/// enqueued, and its `ready` is the event behind which it is complete. Needs lanes with a device: RTE_LANES_CUDA, or
/// RTE_LANES_HOST with RTE_MODEL_OWN_OUTPUT; else UNAVAILABLE.
pub const RTE_MODEL_DEVICE_OUTPUT: u32 = 32;
/// Flag of a model: the outputs of a batch are one block, of the batch's own: output[i] = output[0] + i * chunk_bytes, so
/// that a stage writes or copies them at one go. Each chunk is copied from there to its session's buffer when its batch has
/// passed. With DENSE the block is the arena's also where a row is run alone after failures, so of the rows that are run so
/// in one tick the last alone gives a chunk. Not with OWN_OUTPUT or DEVICE_OUTPUT.
pub const RTE_MODEL_OUTPUT_BLOCK: u32 = 64;

/// What you bring: stages, and hooks, which may all be NULL. A descriptor: set struct_size, leave the rest zero.
///
/// With one HOT stage and no others this is a "Level 1" engine: seed = attach, the stage = step, finalize, detach.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_model {
    /// sizeof(rte_model).
    pub struct_size: u32,
    /// RTE_MODEL_*.
    pub flags: u32,
    /// For logs and traces; may be NULL. Copied.
    pub name: *const c_char,
    /// Given to every callback. rte_engine_new takes it, on success only: `destroy` gets it back.
    pub user: *mut c_void,
    /// Rows of the arena: 1 to 65536.
    pub max_sessions: u32,
    /// 0 = 1.
    pub frames_per_chunk: u32,
    /// Action to generation; 0 = 1.
    pub input_latency_chunks: u32,
    /// At most RTE_MAX_KEYS.
    pub key_count: u32,
    /// Bytes of a chunk at most: 1 to 4 GiB.
    pub chunk_bytes: usize,
    /// Chunks a second as a fraction (30000/1001); 0/0 = as fast as work comes.
    pub rate_num: u32,
    /// See rate_num.
    pub rate_den: u32,
    /// All arrays and names are copied at rte_engine_new.
    pub keys: *const rte_key,
    /// At least one HOT; none with `serve`.
    pub stages: *const rte_stage,
    /// At most 256.
    pub stage_count: u32,
    /// Must be zero.
    pub reserved0: u32,
    /// Once, on the engine's thread, before any other; `streams` by lane (ENCODE: the first), NULL on inline and threads
    /// lanes. Not OK: rte_engine_start, run or the first tick returns it.
    pub init: Option<unsafe extern "C-unwind" fn(user: *mut c_void, streams: *const rte_stream) -> rte_status>,
    /// Seed gate: shown the pending rows. RTE_AGAIN = keep them pending. NULL = always ready.
    pub ready: rte_stage_fn,
    /// HOT lane (ENCODE with RTE_MODEL_SEED_ASIDE): first state of the batch's rows. NULL: a row needs none.
    pub seed: rte_stage_fn,
    /// HOT lane, one call a row, once for each successful seed: no work touches the row any more. Not OK: RTE_TICK_FAILED,
    /// freed all the same.
    pub detach: rte_stage_fn,
    /// Engine's thread, stream NULL: the rows of the batch just collected that did not fail.
    pub finalize: rte_stage_fn,
    /// RTE_MODEL_OWN_OUTPUT: once for each pointer that became a chunk's, when its consumer has released it, or it was lost,
    /// and `ready` and the consumer's stream have passed: in the tick after that, if not before. On any thread, also after
    /// rte_engine_free, but before `destroy`.
    pub release_output: Option<unsafe extern "C-unwind" fn(user: *mut c_void, data: *mut c_void)>,
    /// "Level 2": your own loop instead of stages, on rte_engine_start's thread or in rte_engine_run, once. It has the other
    /// ends of the two queues: rte_inbox_wait, rte_inbox_pop, rte_outbox_push; these say what it is to do. Used beside it:
    /// name, user, max_sessions, frames_per_chunk, keys (neither HEAVY nor merging), chunk_bytes, destroy; rate and
    /// input_latency_chunks are information. Stages, hooks and flags: refused.
    ///
    /// Return when rte_inbox_wait or rte_inbox_pop says RTE_CLOSED, with that or RTE_OK. RTE_OK before a stop was asked for:
    /// as if it had been. Then each session that is left gets RTE_DETACHED with RTE_CLOSED after its last chunk; one that
    /// was told nothing yet, and each ATTACH and RESET in the inbox: RTE_REJECTED. Anything else ends the engine: RTE_DEAD
    /// names the status and RTE_STAGE_SERVE.
    ///
    /// In it rte_engine_start, run, tick, step, and rte_engine_stop and rte_outbox_wait with a timeout are
    /// RTE_ERR_DEADLOCK. rte_engine_stop with timeout 0 is fine. While it waits it is at rest; when it has not come to
    /// the inbox for longer than options.stall_ns it is stalled.
    pub serve: Option<unsafe extern "C-unwind" fn(user: *mut c_void, engine: *mut rte_engine) -> rte_status>,
    /// Once, after the last callback; not if rte_engine_new failed. The engine is gone: nothing may be called with it here.
    pub destroy: Option<unsafe extern "C-unwind" fn(user: *mut c_void)>,
}

/// A host's table as the engine's [`Model`].
pub(super) struct CModel {
    table: rte_model,
    stages: Box<[rte_stage]>,
    manifest: Manifest,
    /// The engine's: the host may have freed it while something hung. Then nothing is given back to it any more.
    watch: OnceLock<Arc<Watch>>,
    /// The engine was made: `destroy` is owed.
    is_taken: AtomicBool,
}

// SAFETY: the host promises that its callbacks may be called from the engine's threads, lanes overlapping; the pointers in
// the table are given back to it, not followed.
unsafe impl Send for CModel {}
// SAFETY: as above.
unsafe impl Sync for CModel {}

impl CModel {
    /// # Safety
    /// `model` is NULL or a descriptor whose pointers are valid for this call.
    pub(super) unsafe fn read(model: *const rte_model) -> Result<CModel, Failure> {
        // SAFETY: the caller's promise.
        let (table, stages, manifest) = unsafe {
            let table = super::descriptor::read(model, "model")?;
            let stages = manifest::read_stages(&table)?;
            let manifest = manifest::read(&table, &stages)?;
            (table, stages, manifest)
        };
        Ok(CModel { table, stages: stages.into(), manifest, watch: OnceLock::new(), is_taken: AtomicBool::new(false) })
    }

    /// What the host has filled.
    pub(super) fn table(&self) -> &rte_model {
        &self.table
    }

    /// Its stages.
    pub(super) fn stages(&self) -> &[rte_stage] {
        &self.stages
    }

    /// The engine is made: from now on `user` is the model's.
    pub(super) fn take(&self) {
        self.is_taken.store(true, Ordering::Relaxed);
    }

    /// It is the model of an engine that has this one.
    pub(super) fn follow(&self, watch: Arc<Watch>) {
        let _ = self.watch.set(watch);
    }
}

impl Drop for CModel {
    fn drop(&mut self) {
        if let (true, Some(destroy)) = (*self.is_taken.get_mut(), self.table.destroy) {
            // SAFETY: the last callback: everything that calls the model held it.
            give_back(|| unsafe { destroy(self.table.user) });
        }
    }
}

impl Model for CModel {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn init(&self, streams: [RawStream; Lane::COUNT]) -> Result<(), Status> {
        let Some(init) = self.table.init else { return Ok(()) };
        let streams = streams.map(stream_of);
        // SAFETY: a callback of the host, on the engine's thread, with three streams.
        Status::of_callback(answer_of(|| unsafe { init(self.table.user, streams.as_ptr()) }))
    }

    fn release_output(&self, address: usize) {
        if let Some(release) = self.table.release_output
            && !self.watch.get().is_some_and(|watch| watch.is_abandoned())
        {
            // SAFETY: a callback of the host, once with each pointer that it stored.
            give_back(|| unsafe { release(self.table.user, std::ptr::with_exposed_provenance_mut(address)) });
        }
    }

    fn call(&self, call: Call, batch: &mut Batch, stream: RawStream) -> Result<(), Status> {
        let hook = match call {
            Call::Ready => self.table.ready,
            Call::Seed => self.table.seed,
            Call::Stage(stage) => self.stages[stage as usize].run,
            Call::Detach => self.table.detach,
            Call::Finalize => self.table.finalize,
        };
        let Some(hook) = hook else { return Ok(()) };
        let mut view = view(batch, call);
        // SAFETY: a callback of the host; `view` points into `batch`, whose addresses outlive the batch's work.
        let code = answer_of(|| unsafe { hook(self.table.user, &mut view, stream_of(stream)) });
        if call == Call::Ready && code == Status::AGAIN.0 {
            return Err(Status::AGAIN);
        }
        Status::of_callback(code)
    }

    fn serve(&self, engine: RawEngine) -> Result<(), Status> {
        let Some(serve) = self.table.serve else { return Ok(()) };
        // SAFETY: a callback of the host, with the handle that it has of the engine.
        let code = unsafe { serve(self.table.user, std::ptr::with_exposed_provenance_mut(engine.0)) };
        if code == Status::CLOSED.0 { Err(Status::CLOSED) } else { Status::of_callback(code) }
    }
}

fn stream_of(stream: RawStream) -> rte_stream {
    std::ptr::with_exposed_provenance_mut(stream.0)
}

/// A batch as C sees it.
fn view(batch: &mut Batch, call: Call) -> rte_batch {
    let (tick, slot) = (batch.tick, batch.slot);
    let arrays = batch.arrays();
    rte_batch {
        struct_size: size_of::<rte_batch>() as u32,
        stage: call.number(),
        slot,
        count: arrays.count,
        tick,
        chunk_bytes: arrays.chunk_bytes,
        row: std::ptr::with_exposed_provenance(arrays.row),
        session: std::ptr::with_exposed_provenance(arrays.session),
        user: std::ptr::with_exposed_provenance(arrays.user),
        generation: std::ptr::with_exposed_provenance(arrays.generation),
        age: std::ptr::with_exposed_provenance(arrays.age),
        changed: std::ptr::with_exposed_provenance(arrays.changed),
        value: std::ptr::with_exposed_provenance(arrays.value),
        column: std::ptr::with_exposed_provenance(arrays.column),
        mask: std::ptr::with_exposed_provenance(arrays.mask),
        output: std::ptr::with_exposed_provenance_mut(arrays.output),
        output_size: std::ptr::with_exposed_provenance_mut(arrays.output_size),
        frames: std::ptr::with_exposed_provenance_mut(arrays.frames),
        status: std::ptr::with_exposed_provenance_mut(arrays.status),
    }
}
