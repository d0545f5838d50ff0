/* rte.h: many live sessions of one model, stepped together, in your process.
 *
 *     your threads --rte_inbox_push-->  [ engine: one tick = drain, HOT, DEFERRED, ENCODE ]  --rte_outbox_pop--> your threads
 *
 * You bring a model: stage functions that get a batch and a stream. The engine decides which sessions are in which
 * batch, orders the lanes, keeps time, and carries results out. It never blocks your frame and never ends your process.
 *
 * First steps
 *   rte_reference_model or your own rte_model -> rte_engine_new -> rte_engine_start (or rte_engine_tick in your loop)
 *   -> rte_inbox_push(RTE_ATTACH) -> rte_outbox_wait, rte_outbox_pop, rte_output_release -> rte_engine_free.
 *
 * Words
 *   session     one user's stream, named by a number of yours.
 *   life        from an accepted ATTACH or RESET to the next RESET or the end; its `generation` names it.
 *   row         one of model.max_sessions places: what a model indexes its state by.
 *   tick        one turn: messages in, one batched step, chunks out. HOT makes chunk N of every session that is due;
 *               with a pipeline DEFERRED finishes chunk N-1 meanwhile; ENCODE digests changed heavy values of single rows.
 *   key, value  what steers a session. A key is cheap (each step sees its value at once) or HEAVY (goes through ENCODE).
 *   chunk       what a step makes for one session; notices say what happened to it.
 *
 * Conventions
 *   Status      0 is RTE_OK. Positive: not now. Negative: an error; nothing happened and there is nothing to clean up, where
 *               the call does not say otherwise. Of any call: RTE_ERR_ARGUMENT where the engine is NULL, RTE_ERR_FORKED.
 *               What was wrong, in words: the call's rte_error; of calls without one, options.log at RTE_LOG_WARN.
 *   Descriptors rte_model, rte_engine_options, rte_engine_info, rte_session_info, rte_backend, rte_clock begin with
 *               struct_size, and may grow at the end. Set .struct_size = sizeof, leave the rest zero: zero is the
 *               default, now and later.
 *   Records     rte_value, rte_message, rte_output, rte_key, rte_stage, rte_error never change size, so arrays of them
 *               are safe for ever. Zero all that you do not use; reserved fields must be zero.
 *   Memory      "copies": yours again on return. "borrows": leave it alone until the time named. "takes": ours, on success.
 *   Threads     "Threads: any" may run concurrently with everything except rte_engine_free. "Callbacks" says in which
 *               callbacks a function may be called; what would dead-lock there returns RTE_ERR_DEADLOCK.
 *   Time        Nanoseconds of CLOCK_MONOTONIC, or of options.clock where there is one; timeouts are always of the former, and
 *               UINT64_MAX waits for ever.
 *   fork        In the child of a process that has made an engine each call that returns a status returns RTE_ERR_FORKED,
 *               and rte_engine_free and rte_output_release do nothing.
 *
 * Check once:   if (rte_abi_version() != RTE_ABI_VERSION) the header and the library do not belong together.
 *
 * Generated from the library's source: change it there.
 */

#ifndef RTE_H
#define RTE_H

#include <stddef.h>
#include <stdint.h>

#if defined(_WIN32)
#define RTE_API __declspec(dllimport)
#else
#define RTE_API
#endif

/// Is a cudaStream_t and a CUstream, or what your backend calls a stream; NULL on CPU lanes.
typedef struct CUstream_st *rte_stream;
/// Is a cudaEvent_t and a CUevent, or what your backend calls an event.
typedef struct CUevent_st *rte_event;

/// Bit of a key in rte_batch.changed.
#define RTE_KEY_BIT(key) (UINT64_C(1) << (key))

/// The number in the SONAME (`librte.so.0`): changes only with a break. Compare it with `rte_abi_version()`.
#define RTE_ABI_VERSION 0

/// Flag of a value: `data` is not copied: it stays yours and unchanged until `message.release` has run.
#define RTE_VALUE_BORROWED 1

/// Flag of a value: `data` is a device pointer; implies BORROWED. Needs lanes with a device (RTE_LANES_CUDA,
/// RTE_LANES_HOST), a key without a size (a column lies in the processor's memory), and a revision. Lanes wait for
/// `message.ready` before the first stage that is shown it; so do `seed` and stages of later ticks. The bytes are never
/// read here.
#define RTE_VALUE_DEVICE 2

/// Kind of a message: join. `values` are the context, which `seed` sees. Again for the same session: no effect, answered
/// RTE_ATTACHED with RTE_ALREADY.
#define RTE_ATTACH 1

/// Kind of a message: leave. Always allowed; of an unknown session: no effect, no answer.
#define RTE_DETACH 2

/// Kind of a message: a new life in the same row, conditioning cleared, pause kept. No values: the last context again.
/// Unknown session: as ATTACH. While the session drains: RTE_REJECTED with RTE_ERR_STATE.
#define RTE_RESET 3

/// Kind of a message: newest wins. Replaces the LATEST cheap values as a whole, or with RTE_PARTIAL only the keys it names;
/// SUM and OR keys accumulate; heavy keys that it does not name keep the last value pushed.
#define RTE_ACTION 4

/// Kind of a message: keep row and state, do not step.
#define RTE_PAUSE 5

/// Kind of a message: step again. SUM and OR input that came while paused is dropped, newest OR bits excepted.
#define RTE_RESUME 6

/// Flag of ACTION: leave the keys alone that it does not name.
#define RTE_PARTIAL 1

/// Flag of DETACH: step no more, but deliver what is in flight and queued before DETACHED. Until that is popped the
/// session counts as attached, and only a DETACH without this flag still has an effect.
#define RTE_DRAIN 2

/// Kind of an output: bytes of one session.
#define RTE_CHUNK 1

/// Kind of an output: the life was seeded; `generation` names it. flags: RTE_ALREADY.
#define RTE_ATTACHED 2

/// Kind of an output: a message had no effect. `status` says why: FULL, STATE (mid-run attach is off, or the session
/// drains), MEMORY, UNKNOWN, STALE, CLOSED (stop), or your seed's status: then the life is over, without RTE_DETACHED and
/// without your detach hook. UNKNOWN and STALE are told together: the newest, with the count in `dropped`.
#define RTE_REJECTED 3

/// Kind of an output: this life is over (DETACH, RESET; status RTE_CLOSED: stop), also one that was never seeded; nothing
/// of it comes after this.
#define RTE_DETACHED 4

/// Kind of an output: the row is quarantined until RESET or DETACH; `stage` and `status` say where and why.
#define RTE_ROW_FAILED 5

/// Kind of an output: a whole batch failed; `stage`, `status`; `row` is the first of the batch; `dropped` = times since the
/// last such notice.
#define RTE_TICK_FAILED 6

/// Kind of an output: the last one of this engine; `status` says why.
#define RTE_DEAD 7

/// Flag of RTE_ATTACHED: the session was attached already, and nothing has changed.
#define RTE_ALREADY 1

/// A stage number: `rte_model.seed`.
#define RTE_STAGE_SEED 4294967295

/// A stage number: `rte_model.detach`.
#define RTE_STAGE_DETACH 4294967294

/// A stage number: `rte_model.ready`.
#define RTE_STAGE_READY 4294967293

/// A stage number: `rte_model.finalize`.
#define RTE_STAGE_FINALIZE 4294967292

/// A stage number: `rte_model.init`.
#define RTE_STAGE_INIT 4294967291

/// A stage number: `rte_engine_options.on_output`.
#define RTE_STAGE_ON_OUTPUT 4294967290

/// A stage number: `rte_model.serve`.
#define RTE_STAGE_SERVE 4294967289

/// A stage number: none. In info: no stage is stalled.
#define RTE_STAGE_NONE 4294967280

/// A lane: the critical path: makes chunk N.
#define RTE_HOT 0

/// A lane: finishes chunk N-1 meanwhile.
#define RTE_DEFERRED 1

/// A lane: digests changed heavy values of single rows, at low priority. Nobody else waits for it where lanes overlap; on
/// inline lanes, where nothing does, everybody.
#define RTE_ENCODE 2

/// Element type of a key: bytes.
#define RTE_BYTES 0

/// Element type of a key: uint32_t.
#define RTE_U32 1

/// Element type of a key: int64_t.
#define RTE_I64 2

/// Element type of a key: float.
#define RTE_F32 3

/// Element type of a key: double.
#define RTE_F64 4

/// Merge rule of a key: a step sees the newest value, and keeps seeing it.
#define RTE_MERGE_LATEST 0

/// Merge rule of a key: a step sees the sum of all values since the last step, then 0 (mouse deltas). I64 saturates.
#define RTE_MERGE_SUM 1

/// Merge rule of a key: a step sees the bits of all values since the last step, then the newest (buttons: no tap is lost).
/// A button stays down until a message says otherwise: push the levels, and tell presses by what was 0 before.
#define RTE_MERGE_OR 2

/// Flag of a key: a change goes through ENCODE; until it is applied the row sits out and the others go on. An ACTION that
/// names heavy keys alone wants RTE_PARTIAL, or it lets go of the cheap ones.
#define RTE_KEY_HEAVY 1

/// As many keys as a model may have.
#define RTE_MAX_KEYS 64

/// Flag of a model: batches are the whole arena: count = max_sessions, row[i] = i, `mask` says which are real.
#define RTE_MODEL_DENSE 1

/// Flag of a model: refuse to attach while another session is seeded.
#define RTE_MODEL_NO_MIDRUN 2

/// Flag of a model: the last stage stores its own pointer in output[i], NULL on entry. It is the chunk's if the stage
/// returned RTE_OK, status[i] is 0 and output_size[i] is not; then release_output gets it once, also where the chunk is
/// lost. Else it stays yours. Needs release_output.
#define RTE_MODEL_OWN_OUTPUT 4

/// Flag of a model: a failed batch left no trace: it may be run again, whole or row by row.
#define RTE_MODEL_RETRY_SAFE 8

/// Flag of a model: seed runs on the ENCODE lane; its rows join when it is done, and nobody waits for them.
#define RTE_MODEL_SEED_ASIDE 16

/// Flag of a model: output[i] is device memory, and nobody waits for it here: the chunk comes as soon as its work is
/// enqueued, and its `ready` is the event behind which it is complete. Needs lanes with a device: RTE_LANES_CUDA, or
/// RTE_LANES_HOST with RTE_MODEL_OWN_OUTPUT; else UNAVAILABLE.
#define RTE_MODEL_DEVICE_OUTPUT 32

/// Flag of a model: the outputs of a batch are one block, of the batch's own: output[i] = output[0] + i * chunk_bytes, so
/// that a stage writes or copies them at one go. Each chunk is copied from there to its session's buffer when its batch has
/// passed. With DENSE the block is the arena's also where a row is run alone after failures, so of the rows that are run so
/// in one tick the last alone gives a chunk. Not with OWN_OUTPUT or DEVICE_OUTPUT.
#define RTE_MODEL_OUTPUT_BLOCK 64

/// Key of the built-in model: HEAVY, bytes of any number.
#define RTE_REFERENCE_PROMPT 0

/// Key of the built-in model: cheap, I64.
#define RTE_REFERENCE_ACTION 1

/// Key of the built-in model: I64; looked at in the context only; absent: derived from the session's id.
#define RTE_REFERENCE_SEED 2

/// Log level: something ended that should not have.
#define RTE_LOG_ERROR 1

/// Log level: something was lost, or failed for some; or a call that has no rte_error was a mistake, in words.
#define RTE_LOG_WARN 2

/// Log level: the engine begins and ends.
#define RTE_LOG_INFO 3

/// Log level: sessions come and go, and why one gives no chunk, when that begins.
#define RTE_LOG_DEBUG 4

/// Where stages run: RTE_LANES_CUDA if the driver sees a device, else RTE_LANES_INLINE, where a slow encode holds everybody
/// up: choose RTE_LANES_THREADS if yours are and run on the processor.
#define RTE_LANES_AUTO 0

/// Where stages run: at once, on the engine's thread; nothing overlaps.
#define RTE_LANES_INLINE 1

/// Where stages run: on a thread for each lane, beside the engine's.
#define RTE_LANES_THREADS 2

/// Where stages run: they are called on the engine's thread and enqueue on CUDA streams of options.device (non-blocking, HOT
/// of the highest priority, ENCODE of the lowest). The driver is looked for at run time: libcuda.so.1. None, or one that is
/// too old, or no device: rte_engine_new returns RTE_ERR_UNAVAILABLE, and the error says which. The device's primary
/// context, which the runtime API uses too, is current in every callback of the model but those that say otherwise; no
/// call of this library changes which context its caller finds current.
#define RTE_LANES_CUDA 3

/// Where stages run: streams of `options.backend`.
#define RTE_LANES_HOST 4

/// Pipelined if lanes overlap and there is a DEFERRED stage.
#define RTE_PIPELINE_AUTO 0

/// Pipelined: chunk N-1 is finished and delivered in the tick that makes chunk N.
#define RTE_PIPELINE_ON 1

/// Not pipelined: each tick delivers its own chunk.
#define RTE_PIPELINE_OFF 2

/// A slow consumer loses the oldest chunk of that session. (The newest alone: this, with outbox_depth 1.)
#define RTE_DROP_OLDEST 0

/// A slow consumer loses the newest chunk of that session.
#define RTE_DROP_NEWEST 1

/// Nothing is lost: a session whose ring has no room for its next chunk sits out until its consumer has taken one. It is
/// never more than outbox_depth chunks ahead of its consumer. (A consumer that keeps more than held_max outputs: until it
/// has released one.) With a pipeline the chunk in flight takes its place first, so a session with outbox_depth 1 steps in
/// every second tick. With `model.serve`: a push of a chunk that finds no room is refused with RTE_AGAIN.
#define RTE_HOLD 2

/// A tick that ends late: the next starts at once, the grid points missed are skipped and counted; on the grid after that.
#define RTE_SKIP 0

/// A tick that ends late: the next starts at once and is of the very next grid point, and so on until on the grid again, so
/// that no point goes without its tick. After options.max_catch_up such ticks running, one more is as with RTE_SKIP: of the
/// last point that has passed, those between missed; then as many may follow again. A tick on the grid ends a run. All
/// ticks that start at once count as late.
#define RTE_CATCH_UP 1

/// Flag of options: commit every row's output buffers at rte_engine_new, so that no join costs a frame.
#define RTE_PREFAULT 1

/// State of a session: waits for its seed, or for its row.
#define RTE_PENDING 1

/// State of a session: steps, if it is due and not paused.
#define RTE_READY 2

/// State of a session: sits out until its changed heavy values are applied.
#define RTE_ENCODING 3

/// State of a session: failed; waits for RESET or DETACH.
#define RTE_QUARANTINED 4

/// State of a session: RTE_HOLD: waits for its consumer.
#define RTE_HELD 5

/// The values of an `rte_status`. 0: done. Positive: not now. Negative: an error; nothing happened and there is nothing to
/// clean up, where the call does not say otherwise. Values are never reused.
typedef enum rte_status_code {
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
} rte_status_code;

/// An engine: many live sessions of one model. Made by `rte_engine_new`.
typedef struct rte_engine rte_engine;

/// What every call returns: one of `rte_status_code`, or a number of the host's own, -1000 or below.
typedef int32_t rte_status;

/// One key of the conditioning. A record: 32 bytes.
typedef struct rte_key {
    /// For messages; may be NULL. Copied.
    const char *name;
    /// Bytes. Non-zero: every value has exactly this size (a multiple of its element), and batches carry it as a column.
    size_t size;
    /// Element type, for merge rules and messages.
    uint32_t type;
    /// SUM: I64, F32, F64. OR: U32, I64, BYTES. Both need a size, and not HEAVY.
    uint32_t merge;
    /// RTE_KEY_HEAVY: needs an ENCODE stage.
    uint32_t flags;
    /// Must be zero.
    uint32_t reserved;
} rte_key;

/// One conditioning value. Its meaning and element type belong to its key (`rte_key`). A record: 32 bytes.
typedef struct rte_value {
    /// The bytes; may be NULL where size is 0.
    const void *data;
    /// Bytes. 0 makes the key absent. A key with a declared size takes that size or 0.
    size_t size;
    /// Non-zero: two values of a key with non-zero revisions are equal exactly if these are equal, whatever their bytes.
    /// Required with RTE_VALUE_DEVICE.
    uint64_t revision;
    /// Index into `rte_model.keys`.
    uint32_t key;
    /// RTE_VALUE_*.
    uint32_t flags;
} rte_value;

/// The rows that one call works on: plain data. A stage needs no rte call, and can be tested with a batch made by hand.
///
/// Arrays are by position i in 0..count, but `mask`, which is by row. They stay valid and unchanged until the batch's work
/// on its lane has passed, so asynchronous copies may read them; on HOT and DEFERRED their addresses are the same for every
/// batch of one slot, so graphs may capture them, and on CUDA lanes they are page-locked (a row that is run alone after
/// failures comes in a batch of its own, which is not).
/// A stage writes `*output[i]`, `output_size`, `frames` and `status`; all else is ours.
typedef struct rte_batch {
    /// Set by the library: look before you read a field newer than 0.1.
    uint32_t struct_size;
    /// Index into `model.stages`, or RTE_STAGE_*.
    uint32_t stage;
    /// HOT and DEFERRED: 0 or 1. HOT(N) writes latent[slot], DEFERRED(N) reads it, HOT(N+1) has the other (always 0 without
    /// a pipeline). 0 in seed, ENCODE and the hooks: keep buffers of their own for those.
    uint32_t slot;
    /// Rows; with RTE_MODEL_DENSE always max_sessions.
    uint32_t count;
    /// Ticks run before this one.
    uint64_t tick;
    /// Room of each output: `model.chunk_bytes`.
    size_t chunk_bytes;
    /// Ascending: index your state by it. DEFERRED(N) lacks the rows that left or failed since HOT(N), so positions differ
    /// between the two: keep nothing by position across stages.
    const uint32_t *row;
    /// Your names.
    const uint64_t *session;
    /// Of ATTACH.
    const uint64_t *user;
    /// Which life.
    const uint64_t *generation;
    /// Chunks made before this one.
    const uint64_t *age;
    /// Bit k: key k differs from what this row's last successful batch on this lane saw. The first of a life: all that are
    /// present. ENCODE: also those of the context, which seed saw, that are absent by now.
    const uint64_t *changed;
    /// value[i][key]; size 0 = absent. HOT and DEFERRED of one batch see the same: the cheap values of that tick and the
    /// heavy values applied then. ENCODE sees the heavy values to be applied, seed and ready the context.
    const struct rte_value *const *value;
    /// column[key]: count x keys[key].size bytes, zero where absent, aligned to 64; NULL for keys without a size.
    const void *const *column;
    /// By arena row, max_sessions bytes: 1 = in this batch. RTE_MODEL_DENSE: padding rows have session 0, no values, output
    /// NULL (with RTE_MODEL_OUTPUT_BLOCK their places in the block).
    const uint8_t *mask;
    /// In the lane that ends the chunk (DEFERRED, or HOT without it): chunk_bytes each, aligned to 64 (with
    /// RTE_MODEL_OUTPUT_BLOCK the first of them). NULL elsewhere.
    void **output;
    /// 0 on entry; left 0 = no chunk from this row in this tick. More than chunk_bytes fails the row with RTE_ERR_CALLBACK.
    size_t *output_size;
    /// `model.frames_per_chunk` on entry.
    uint32_t *frames;
    /// 0 on entry; anything else fails this row alone, RTE_ERR_DEAD too: as RTE_ERR_CALLBACK, for a stage says that it is dead by
    /// returning that. detach: on entry why the life ended: 0 asked for, RTE_CLOSED stop, else what had quarantined the row.
    rte_status *status;
} rte_batch;

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
typedef rte_status (*rte_stage_fn)(void *user, struct rte_batch *batch, rte_stream stream);

/// One stage. Stages of a lane run in the order of the array, as one unit: if one fails, the batch has failed. A record:
/// 32 bytes.
typedef struct rte_stage {
    /// For messages; may be NULL. Copied.
    const char *name;
    /// What it does.
    rte_stage_fn run;
    /// RTE_HOT, RTE_DEFERRED, RTE_ENCODE.
    uint32_t lane;
    /// Must be zero.
    uint32_t flags;
    /// Must be zero.
    uint64_t reserved;
} rte_stage;

/// What you bring: stages, and hooks, which may all be NULL. A descriptor: set struct_size, leave the rest zero.
///
/// With one HOT stage and no others this is a "Level 1" engine: seed = attach, the stage = step, finalize, detach.
typedef struct rte_model {
    /// sizeof(rte_model).
    uint32_t struct_size;
    /// RTE_MODEL_*.
    uint32_t flags;
    /// For logs and traces; may be NULL. Copied.
    const char *name;
    /// Given to every callback. rte_engine_new takes it, on success only: `destroy` gets it back.
    void *user;
    /// Rows of the arena: 1 to 65536.
    uint32_t max_sessions;
    /// 0 = 1.
    uint32_t frames_per_chunk;
    /// Action to generation; 0 = 1.
    uint32_t input_latency_chunks;
    /// At most RTE_MAX_KEYS.
    uint32_t key_count;
    /// Bytes of a chunk at most: 1 to 4 GiB.
    size_t chunk_bytes;
    /// Chunks a second as a fraction (30000/1001); 0/0 = as fast as work comes.
    uint32_t rate_num;
    /// See rate_num.
    uint32_t rate_den;
    /// All arrays and names are copied at rte_engine_new.
    const struct rte_key *keys;
    /// At least one HOT; none with `serve`.
    const struct rte_stage *stages;
    /// At most 256.
    uint32_t stage_count;
    /// Must be zero.
    uint32_t reserved0;
    /// Once, on the engine's thread, before any other; `streams` by lane (ENCODE: the first), NULL on inline and threads
    /// lanes. Not OK: rte_engine_start, run or the first tick returns it.
    rte_status (*init)(void *user, const rte_stream *streams);
    /// Seed gate: shown the pending rows. RTE_AGAIN = keep them pending. NULL = always ready.
    rte_stage_fn ready;
    /// HOT lane (ENCODE with RTE_MODEL_SEED_ASIDE): first state of the batch's rows. NULL: a row needs none.
    rte_stage_fn seed;
    /// HOT lane, one call a row, once for each successful seed: no work touches the row any more. Not OK: RTE_TICK_FAILED,
    /// freed all the same.
    rte_stage_fn detach;
    /// Engine's thread, stream NULL: the rows of the batch just collected that did not fail.
    rte_stage_fn finalize;
    /// RTE_MODEL_OWN_OUTPUT: once for each pointer that became a chunk's, when its consumer has released it, or it was lost,
    /// and `ready` and the consumer's stream have passed: in the tick after that, if not before. On any thread, also after
    /// rte_engine_free, but before `destroy`.
    void (*release_output)(void *user, void *data);
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
    rte_status (*serve)(void *user, struct rte_engine *engine);
    /// Once, after the last callback; not if rte_engine_new failed. The engine is gone: nothing may be called with it here.
    void (*destroy)(void *user);
} rte_model;

/// Makes a child model of one row for `rte_replica_model`: fills `child`, whose struct_size is set and the rest zero, as for
/// rte_engine_new. Its arrays and names are read after that: they may not be the function's own. Not OK: there is no child,
/// and nothing to clean up.
///
/// Threads: the caller's of rte_replica_model; later the lane's that seeds; never two at once. Callbacks: may call what a
/// callback may call.
typedef rte_status (*rte_replica_fn)(void *user, struct rte_model *child);

/// Lanes of your own (Vulkan, HIP, a simulator). A descriptor. All but set_wake and destroy are needed. Called from the
/// engine's thread; event_new, record, query, sync and event_free also on any thread that releases outputs, until the last
/// one is released. A status other than those named ends the engine with it; rte_engine_free then still waits, by `record`
/// and `sync`, for what is on the streams, as far as these go well.
typedef struct rte_backend {
    /// sizeof(rte_backend).
    uint32_t struct_size;
    /// Must be zero.
    uint32_t reserved;
    /// Given to every function.
    void *user;
    /// Makes a stream of a lane (RTE_HOT, RTE_DEFERRED; RTE_ENCODE: options.encode_lanes of them), when the engine is first
    /// driven.
    rte_status (*stream_new)(void *user, uint32_t lane, rte_stream *out);
    /// Frees one that stream_new made.
    void (*stream_free)(void *user, rte_stream stream);
    /// Makes an event.
    rte_status (*event_new)(void *user, rte_event *out);
    /// Frees one; it may still be waited for only after an error.
    void (*event_free)(void *user, rte_event event);
    /// The event passes when all that is enqueued on the stream now is done. Recorded again only after it has passed.
    rte_status (*record)(void *user, rte_event event, rte_stream stream);
    /// What is enqueued on the stream from now on runs after the event's last record.
    rte_status (*wait)(void *user, rte_stream stream, rte_event event);
    /// RTE_OK: passed. RTE_AGAIN: not yet.
    rte_status (*query)(void *user, rte_event event);
    /// Waits at most so long. RTE_OK: passed. RTE_TIMEOUT: not yet.
    rte_status (*sync)(void *user, rte_event event, uint64_t timeout_ns);
    /// May be NULL. Called once with a function to call, on any thread, when an event has passed, and at the end with NULL.
    /// Without it a parked engine looks every 100 us.
    void (*set_wake)(void *user, void (*wake)(void *engine), void *engine);
    /// May be NULL. Once, after the last call of any other; not if rte_engine_new failed. The engine is gone: nothing may be
    /// called with it here.
    void (*destroy)(void *user);
} rte_backend;

/// Time of your own (replay, tests). A descriptor. Both functions are needed.
typedef struct rte_clock {
    /// sizeof(rte_clock).
    uint32_t struct_size;
    /// Must be zero.
    uint32_t reserved;
    /// Given to both functions.
    void *user;
    /// Nanoseconds; never goes back. On any thread: pushes are stamped with it (in one it may not free the engine).
    uint64_t (*now)(void *user);
    /// Sleeps until a grid point. May return early, also so that a stop is seen; it is called again until `now` has got
    /// there. An engine with nothing to do waits on its own.
    void (*sleep_until)(void *user, uint64_t ns);
} rte_clock;

/// Takes a line. `text` is NUL-terminated UTF-8 without a newline, borrowed until return.
///
/// Threads: the engine's or the one in a call, with no lock held that others wait for. Callbacks: as any callback. Must
/// not throw.
typedef void (*rte_log_fn)(void *user, uint32_t level, const char *text);

/// One chunk or notice, from `rte_outbox_pop`. A record: 160 bytes. Give each to `rte_output_release`.
typedef struct rte_output {
    /// RTE_CHUNK to RTE_DEAD.
    uint32_t kind;
    /// RTE_ALREADY.
    uint32_t flags;
    /// Whose it is; 0 in notices that concern no session.
    uint64_t session;
    /// Of its ATTACH.
    uint64_t user;
    /// Which life; never reused in one engine. 0 in an RTE_REJECTED that never had one.
    uint64_t generation;
    /// Number of the chunk in this life, from 0; dropped and failed ones leave gaps.
    uint64_t index;
    /// RTE_CHUNK: chunks missing just before this one, whatever the cause; a step that left its size 0 is not missing.
    /// Notices that are told together: how many this one stands for, itself included.
    uint64_t dropped;
    /// The tick whose HOT made it, or in which it happened. Ticks run, from 0; missed grid points do not count.
    uint64_t tick;
    /// RTE_CHUNK: the newest ACTION that it takes into account, 0 before the first of a life. Notices: of the message.
    uint64_t tag;
    /// The tag of the message (an ATTACH or RESET, too) whose heavy values are the applied ones; 0: none had any.
    uint64_t heavy_tag;
    /// When HOT was issued, in nanoseconds of the engine's clock.
    uint64_t start_ns;
    /// When its completion was seen; 0 where `ready` is set.
    uint64_t done_ns;
    /// RTE_CHUNK: the bytes, aligned to 64. Yours to read until the release.
    const void *data;
    /// Bytes.
    size_t size;
    /// Non-NULL: `data` is device memory, complete after this event.
    rte_event ready;
    /// Ours: leave it alone.
    void *owner;
    /// Notices: see the kind. RTE_OK else.
    rte_status status;
    /// Frames in this chunk.
    uint32_t frames;
    /// Index into `model.stages`; RTE_STAGE_* for the hooks; RTE_STAGE_NONE where it says nothing.
    uint32_t stage;
    /// Row of the arena.
    uint32_t row;
    /// Zero.
    uint64_t reserved[3];
} rte_output;

/// How an engine is to be. A descriptor: set struct_size, leave the rest zero; zero is the default, now and later.
typedef struct rte_engine_options {
    /// sizeof(rte_engine_options).
    uint32_t struct_size;
    /// RTE_LANES_*.
    uint32_t lanes;
    /// RTE_PIPELINE_*.
    uint32_t pipeline;
    /// Which CUDA device, as the driver numbers those that it sees; looked at with CUDA lanes only.
    int32_t device;
    /// RTE_LANES_HOST alone. Copied.
    const struct rte_backend *backend;
    /// NULL = the real one. Copied.
    const struct rte_clock *clock;
    /// By lane; NULL = ours. Borrowed until rte_engine_free. With RTE_LANES_CUDA and RTE_LANES_HOST alone. CUDA: of the
    /// device's primary context; a default stream, one of another device or one that is being captured is refused.
    rte_stream streams[3];
    /// Messages; rounded up to a power of two, 8 to 65536; 0 = 1024. One session may use a quarter, all ACTIONs together
    /// three quarters.
    uint32_t inbox_capacity;
    /// Largest sum of copied values in a message; 0 = 64 KiB; at most 64 MiB.
    uint32_t message_bytes;
    /// Room for copied values larger than 192 bytes a message; 0 = 4 MiB; at most 512 MiB. Made larger where it could not
    /// hold four messages.
    uint64_t inbox_bytes;
    /// Chunks per session; at most 4096; 0 = 4. A session has outbox_depth + held_max + pipeline depth buffers of
    /// model.chunk_bytes (`session_bytes` in info), allocated and touched on the engine's thread when a row is first used;
    /// on CUDA lanes page-locked, which takes milliseconds, or, with RTE_MODEL_DEVICE_OUTPUT, of the device's memory.
    uint32_t outbox_depth;
    /// Outputs of one session that a consumer may hold at once; at most 4096; 0 = 2.
    uint32_t held_max;
    /// RTE_DROP_OLDEST, RTE_DROP_NEWEST, RTE_HOLD.
    uint32_t outbox_policy;
    /// RTE_SKIP, RTE_CATCH_UP.
    uint32_t overrun;
    /// With RTE_CATCH_UP: ticks running that may follow at once; 0 = 4.
    uint32_t max_catch_up;
    /// Whole-call failures of seed before a session is rejected; 0 = 3.
    uint32_t seed_attempts;
    /// Whole-call failures of ENCODE in a row before a row is quarantined; 0 = 3.
    uint32_t encode_attempts;
    /// So many encode batches of different rows at once; 0 = 1, at most 8. More than 1: not with RTE_LANES_INLINE, nor with
    /// a lent ENCODE stream.
    uint32_t encode_lanes;
    /// RTE_LOG_*; 0 = RTE_LOG_WARN.
    uint32_t log_level;
    /// NULL = silent.
    rte_log_fn log;
    /// Given to `log`.
    void *log_user;
    /// NULL: outputs are popped. Else it is given each output, in the order of pops, on the thread that drives the engine,
    /// in the tick in which it came to be; rte_outbox_pop and wait return RTE_ERR_STATE. The record is the callback's until
    /// it returns: release it (a copy of it, if you keep the data longer). The tick waits for it: be short. It may call what
    /// a callback may call.
    void (*on_output)(void *user, struct rte_output *output);
    /// Given to `on_output`.
    void *on_output_user;
    /// Of rte_engine_start's thread, and with the lane behind it of those of threads lanes; NULL = "rte". Copied; systems
    /// show the first 15 bytes.
    const char *thread_name;
    /// Bit c: CPU c. Of all the threads that the engine makes: rte_engine_start's, those of threads lanes and a trace's; 0 =
    /// as the thread that makes them. CPUs that the process may not use are left out; none left = refused. Set before `init`.
    /// What the system refuses makes rte_engine_start (run, the first tick) fail with RTE_ERR_UNAVAILABLE. The caller's own
    /// thread is left as it is: rte_engine_run, tick and step without threads lanes refuse it. Linux; elsewhere UNAVAILABLE.
    uint64_t cpu_mask;
    /// 0 = as it is, 1..99 = SCHED_FIFO, of the threads that a tick waits for: all that cpu_mask is of but ENCODE's and a
    /// trace's, which are SCHED_OTHER: neither stands before a step. Set and refused as cpu_mask is.
    uint32_t priority;
    /// RTE_PREFAULT.
    uint32_t flags;
    /// A callback longer than this shows in info, also while it runs; 0 = 1 s.
    uint64_t stall_ns;
    /// Before a grid point (not with a clock of your own), or a fence of threads or CUDA lanes: spin at most this long, the
    /// rest asleep; 0 = never spin.
    uint64_t spin_ns;
    /// NULL = none. A file that is made, or emptied: what happens, tick by tick, as JSON for https://ui.perfetto.dev and
    /// chrome://tracing: an array of events, one a line. Times (`ts`, `dur`) are microseconds of the engine's clock, in
    /// rte_engine_replay those of the replay. Tracks: "ticks", with missed deadlines, failed calls and rows, and the death;
    /// each lane's batches, with ENCODE's a track each ("ENCODE 1" and so on with encode_lanes > 1), from their begin to
    /// their end (on streams: from when the lane was free for them; with a clock of your own: from their submission until
    /// the engine saw their end), with `rows`, the tick of their submission and `work_ns`, which is what lane_ns in info is
    /// of; and each session's life, from the tick that took it in to the one that let it go, in it "pending", "encoding",
    /// "held", "paused", "quarantined" where it does not step, and "dropped" chunks. The last event, "end", says what info
    /// says, and how many facts were left out.
    ///
    /// The tick writes plain facts into a ring of two and a half megabytes; a thread of the trace's own writes the file, some
    /// hundredths of a second later. What comes faster than that, or than the disk, is left out, counted and said ("left
    /// out"); ticks and batches are left out first. Whole after the stop, which waits for it to be written. What a process
    /// has left that ended in the middle is an array without its end: both viewers open it. An error of the disk cuts the
    /// trace off and is logged at the stop. A file that cannot be made makes rte_engine_new fail with RTE_ERR_ARGUMENT. Not
    /// with `model.serve`. Copied.
    const char *trace_path;
    /// NULL = none. A file that is made, or emptied: what rte_engine_replay reads. Written by the engine's thread, a
    /// megabyte at a time; complete after the stop. The way to report a bug. Copied.
    const char *record_path;
    /// NULL = `device` says. Else the CUDA device with this UUID, as `nvidia-smi -L` prints it. Copied.
    const char *device_uuid;
} rte_engine_options;

/// Why a call failed, in words that name the field and its value: `"model.stages[1].lane: 7 is not a lane"`.
/// Written only on error; needs no initialisation; every `rte_error *` parameter may be NULL. 256 bytes.
typedef struct rte_error {
    /// What the call returned.
    rte_status status;
    /// NUL-terminated UTF-8, cut where it is too long.
    char message[252];
} rte_error;

/// A message to one session, for `rte_inbox_push`. A record: 96 bytes. Zero all that you do not use.
typedef struct rte_message {
    /// RTE_ATTACH to RTE_RESUME.
    uint32_t kind;
    /// RTE_PARTIAL, RTE_DRAIN.
    uint32_t flags;
    /// Your name for the stream: any value.
    uint64_t session;
    /// 0: whichever life is current. Else the life meant (its RTE_ATTACHED named it); if that is not the current one:
    /// RTE_REJECTED with RTE_ERR_STALE, nothing changes. ATTACH: must be 0.
    uint64_t generation;
    /// Yours: comes back in each chunk made under this message, and in its notice.
    uint64_t tag;
    /// ATTACH, and RESET of an unknown session: yours, comes back in every batch, chunk and notice of the session.
    uint64_t user;
    /// Borrowed until return, and so are the bytes of values without RTE_VALUE_BORROWED. Each key at most once; only with
    /// ATTACH, RESET and ACTION.
    const struct rte_value *values;
    /// At most RTE_MAX_KEYS.
    size_t value_count;
    /// RTE_VALUE_DEVICE values are complete after this event; NULL: they are now. Not to be destroyed or recorded again
    /// before `release` has run.
    rte_event ready;
    /// May be NULL. Run exactly once, on any thread, when no work that may read the message's BORROWED values is left; not
    /// run if the push failed. It may call what a callback may call.
    void (*release)(void *user);
    /// Given to `release`.
    void *release_user;
    /// Must be zero.
    uint64_t reserved[2];
} rte_message;

/// What is known of an engine. A descriptor: set struct_size. Times are nanoseconds; quantiles are exact to 1/16.
///
/// With model.serve `ticks` is the newest that its loop has named, and what the loop alone could know is 0: `live`,
/// `encoding`, `retiring`, `held`, `coalesced`, `failed_ticks`, the deadlines, and all times but `inbox_ns_*`.
typedef struct rte_engine_info {
    /// sizeof(rte_engine_info).
    uint32_t struct_size;
    /// RTE_OK; RTE_TIMEOUT: a callback runs longer than options.stall_ns; else why the engine is dead.
    rte_status health;
    /// RTE_LANES_*: what AUTO became.
    uint32_t lanes;
    /// 1 or 2, fixed when the engine is made.
    uint32_t pipeline_depth_chunks;
    /// Of the model. Action to output = input_latency_chunks + pipeline_depth_chunks - 1.
    uint32_t input_latency_chunks;
    /// Which callback is stalled; RTE_STAGE_NONE: none.
    uint32_t stalled_stage;
    /// Of the model.
    uint32_t max_sessions;
    /// Sessions, draining ones too. This and the following as of the end of the last tick.
    uint32_t attached;
    /// Stepped in the last tick. With model.serve 0: its loop alone knows whom it steps, and when; see `attached`.
    uint32_t live;
    /// Not seeded yet.
    uint32_t pending;
    /// Sitting out until a changed value is applied.
    uint32_t encoding;
    /// Between PAUSE and RESUME.
    uint32_t paused;
    /// Failed, until RESET or DETACH.
    uint32_t quarantined;
    /// Rows whose last work is still under way; nobody steps in them.
    uint32_t retiring;
    /// Waiting for their consumer (RTE_HOLD).
    uint32_t held;
    /// The first row of the stalled callback's batch.
    uint32_t stalled_row;
    /// Of the model.
    size_t chunk_bytes;
    /// Output buffers of one session; 0 with RTE_MODEL_OWN_OUTPUT.
    size_t session_bytes;
    /// Of the model.
    uint32_t rate_num;
    /// Of the model.
    uint32_t rate_den;
    /// Ticks run. Of this and the following: since the engine was made.
    uint64_t ticks;
    /// Grid points skipped.
    uint64_t missed_deadlines;
    /// Ticks begun after their grid point, because the one before ended late.
    uint64_t late_ticks;
    /// Chunks made.
    uint64_t chunks;
    /// Of those: never popped, and never will be.
    uint64_t dropped;
    /// Pushes that returned RTE_AGAIN.
    uint64_t refused;
    /// ACTIONs that a newer one followed before any step saw them.
    uint64_t coalesced;
    /// Calls that failed as a whole.
    uint64_t failed_ticks;
    /// A tick, waits for the lanes included.
    uint64_t tick_ns_p50;
    /// See tick_ns_p50.
    uint64_t tick_ns_p99;
    /// See tick_ns_p50.
    uint64_t tick_ns_max;
    /// Begin of a tick after its grid point.
    uint64_t late_ns_p50;
    /// See late_ns_p50.
    uint64_t late_ns_p99;
    /// See late_ns_p50.
    uint64_t late_ns_max;
    /// By lane: a batch's work, from the first stage's begin to the end of what it enqueued; seeds are not in it.
    uint64_t lane_ns_p50[3];
    /// See lane_ns_p50.
    uint64_t lane_ns_p99[3];
    /// See lane_ns_p50.
    uint64_t lane_ns_max[3];
    /// A message's time in the inbox.
    uint64_t inbox_ns_p50;
    /// See inbox_ns_p50.
    uint64_t inbox_ns_p99;
    /// See inbox_ns_p50.
    uint64_t inbox_ns_max;
    /// From the push of an ACTION until the first chunk that takes it into account goes into the outbox.
    uint64_t action_ns_p50;
    /// See action_ns_p50.
    uint64_t action_ns_p99;
    /// See action_ns_p50.
    uint64_t action_ns_max;
} rte_engine_info;

/// What is known of a session. A descriptor: set struct_size. As of the end of the last tick; `queued`, `held` and
/// `dropped`: now.
typedef struct rte_session_info {
    /// sizeof(rte_session_info).
    uint32_t struct_size;
    /// RTE_PENDING to RTE_HELD.
    uint32_t state;
    /// Row of the arena.
    uint32_t row;
    /// RTE_QUARANTINED: why.
    rte_status status;
    /// 1 between PAUSE and RESUME, in any state.
    uint32_t paused;
    /// Zero.
    uint32_t reserved0;
    /// Of its ATTACH.
    uint64_t user;
    /// Its current life.
    uint64_t generation;
    /// Chunks made in this life; 0 while RTE_PENDING.
    uint64_t age;
    /// The newest ACTION.
    uint64_t tag;
    /// The tag of the message (an ATTACH or RESET, too) whose heavy values are the applied ones; 0: none had any.
    uint64_t heavy_tag;
    /// Chunks in the outbox.
    uint64_t queued;
    /// Outputs that consumers hold, of its row.
    uint64_t held;
    /// Chunks of this life that were made and never popped.
    uint64_t dropped;
    /// Encodes started in this life.
    uint64_t encodes;
    /// Ticks of this life in which it was due and seeded, but sat out.
    uint64_t ticks_out;
} rte_session_info;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

/// The ABI version of the library that is loaded. `rte_abi_version() != RTE_ABI_VERSION`: the header and the library do
/// not belong together.
///
/// Threads: any. Callbacks: may be called in any.
RTE_API uint32_t rte_abi_version(void);

/// The release and what this build can do, as static text: `"0.1.0 (inline, threads, host, cuda)"`. Never NULL; do not free.
///
/// Threads: any. Callbacks: may be called in any.
RTE_API const char *rte_version_string(void);

/// What a status means, as static English text. Never NULL, also for unknown numbers; do not free.
///
/// Threads: any. Callbacks: may be called in any.
RTE_API const char *rte_status_message(rte_status status);

/// Fills `model` with a model that runs anywhere: each byte of a chunk is
/// (seed*131 + age*7 + action*3 + prompt*17) mod 251, where prompt is the sum of its bytes mod 256 and action is taken
/// mod 256. 8 rows, 64-byte chunks, 60 a second, HOT, DEFERRED and ENCODE, RETRY_SAFE; change what you like before
/// rte_engine_new. `model->struct_size` must be set. Its arrays are static. Its state, `model->user`, is allocated here:
/// rte_engine_new takes it; if that fails, or is never called, give it to `model->destroy`.
///
/// RTE_ERR_ARGUMENT: NULL. RTE_ERR_VERSION: a struct_size that is not known.
/// Threads: any. Callbacks: may be called in any.
RTE_API rte_status rte_reference_model(struct rte_model *model);

/// Fills `model` with `max_sessions` rows (1 to 65536), each a child model of one row (max_sessions 1) from `make`: what a
/// batched model must equal. The children of a batch run one after the other, each as row 0 of a batch of one, whose arrays
/// are not at the same addresses from batch to batch.
///
/// One child is made at once: keys, stages, chunk_bytes, rate and all else are as it says, RTE_MODEL_DENSE excepted. The
/// others are made when a row is seeded and no child is free, with the same keys, stages, hooks and chunk_bytes; else, or
/// where `make` or the child's `init` fails, the row is rejected. A child is free again after its `detach`; it is destroyed
/// where that, or its `seed`, has failed. A call of a child that fails as a whole fails that row alone (`ready`, `finalize`
/// and `detach`: is returned), and RTE_ERR_DEAD the engine.
///
/// `model->struct_size` must be set. Its state, `model->user`, is allocated here, with its arrays, and has the children:
/// rte_engine_new takes it; if that fails, or is never called, give it to `model->destroy`. `make` and `user` are used until
/// that has run. Before rte_engine_new change what you like but keys, stages and hooks; max_sessions not to more.
///
/// RTE_ERR_ARGUMENT: NULL, a number of rows that cannot be, or a child of more than one row or with `serve`.
/// RTE_ERR_UNAVAILABLE: a child with RTE_MODEL_OWN_OUTPUT. RTE_ERR_VERSION: a struct_size that is not known. What `make`
/// returned, and what rte_engine_new would say of its child.
/// Threads: any. Callbacks: may be called in any.
RTE_API rte_status rte_replica_model(struct rte_model *model, uint32_t max_sessions, rte_replica_fn make, void *user);

/// A ready `rte_log_fn` that writes to the standard error stream: `rte warn: text`. `user` is not used.
///
/// Threads: any. Callbacks: may be called in any.
RTE_API void rte_log_stderr(void *user, uint32_t level, const char *text);

/// Makes an engine. Copies `model` and `options` (NULL = defaults) and allocates everything that ticks will need, but for a
/// row's output buffers: those at its first attach (or here, with RTE_PREFAULT). Takes `model->user` and
/// `options->backend->user`, on success only. Makes no thread and calls no callback. On CUDA lanes it holds the device's
/// primary context (and makes it, if nobody has) until the engine is freed and its last output is released.
///
/// Returns RTE_OK and stores the handle in `out`. Errors, with nothing stored but `error`: RTE_ERR_ARGUMENT,
/// RTE_ERR_VERSION, RTE_ERR_UNAVAILABLE, RTE_ERR_MEMORY; of the CUDA driver: RTE_ERR_DEVICE, in its words.
/// Threads: any. Callbacks: may be called in any.
RTE_API rte_status rte_engine_new(const struct rte_model *model, const struct rte_engine_options *options, struct rte_engine **out, struct rte_error *error);

/// Drives the engine on a thread of its own, at the model's rate, until it is stopped; or runs `model.serve` there. Returns
/// when `model.init` has.
///
/// RTE_ERR_STATE: it is driven already, or stopped. RTE_ERR_DEAD: it died before. RTE_ERR_DEADLOCK: in a callback of this
/// engine. RTE_ERR_MEMORY: no thread. RTE_ERR_UNAVAILABLE: the system refuses options.cpu_mask or options.priority; the
/// error says which, and how the system put it. RTE_ERR_DEVICE: the CUDA driver makes no stream, in its words. What `init`
/// or the backend's stream_new returned. After the last four the engine is dead, but where it was its own thread that could
/// not be made; whichever it was, none of our threads is left.
/// Threads: any. Callbacks: of another engine only.
RTE_API rte_status rte_engine_start(struct rte_engine *engine, struct rte_error *error);

/// Drives the engine on the calling thread, at the model's rate, until another thread stops it; or runs `model.serve` there.
///
/// Returns RTE_OK after the stop, RTE_ERR_DEAD if the engine died; else as `rte_engine_start`. RTE_ERR_UNAVAILABLE also,
/// with nothing changed: options.cpu_mask or options.priority is set, and without threads lanes no thread would heed it.
/// Threads: any. Callbacks: of another engine only.
RTE_API rte_status rte_engine_run(struct rte_engine *engine, struct rte_error *error);

/// One tick in the host's own loop. Does not pace: each call is one tick, the rate is information. Waits at most `wait_ns`
/// nanoseconds for the lanes.
///
/// RTE_OK: the tick is over, also where a stage failed (its notice tells). RTE_AGAIN: the lanes are still busy; the next
/// call goes on with this tick. RTE_CLOSED: stopped. RTE_ERR_DEAD. RTE_ERR_STATE: it is driven otherwise, another thread
/// is in its tick, or the model has `serve`. RTE_ERR_DEADLOCK: in a callback of this engine. At the first tick also what
/// `init`, streams and threads of lanes came to, and RTE_ERR_UNAVAILABLE, as for `rte_engine_run`.
/// Threads: always the same one. Callbacks: of another engine only.
RTE_API rte_status rte_engine_tick(struct rte_engine *engine, uint64_t wait_ns);

/// A tick in which only the sessions in `due` are stepped; ids that are not attached are ignored, paused ones stay paused.
/// Everything else of a tick happens: messages, encodes, what is in flight. After RTE_AGAIN the next call goes on with the
/// same tick, and does not look at its `due`. `due` is borrowed until return; NULL only with `due_count` 0.
///
/// Returns as `rte_engine_tick`; RTE_ERR_ARGUMENT for a NULL `due` with a count.
/// Threads: the one of rte_engine_tick. Callbacks: of another engine only.
RTE_API rte_status rte_engine_step(struct rte_engine *engine, const uint64_t *due, size_t due_count, uint64_t wait_ns);

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
RTE_API rte_status rte_engine_replay(struct rte_engine *engine, const char *path, struct rte_error *error);

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
RTE_API rte_status rte_engine_stop(struct rte_engine *engine, uint64_t timeout_ns, struct rte_error *error);

/// Stops without limit, then frees. After a stop that returned RTE_TIMEOUT: leaks what the stuck thread may touch, and
/// returns at once. What that thread is in may return later: no callback of the model, not even `destroy`, no on_output, no
/// log and no function of the backend begins any more, and `rte_engine_run` returns RTE_ERR_DEAD. In a callback of this
/// engine, or while another thread is in rte_engine_tick, step or replay: only asks for the stop and logs an error; free it
/// later, on that thread.
/// NULL is fine. Outputs not yet released stay valid; waits for the streams on which others were. No other call on this
/// engine may run or come after.
///
/// Threads: any; of an engine driven by tick or step: that thread. Callbacks: see above.
RTE_API void rte_engine_free(struct rte_engine *engine);

/// Pushes one message. Never blocks, also before the engine is driven. Copies the message, its values and their bytes;
/// BORROWED bytes are borrowed until `message->release` has run. Messages of one thread keep their order.
///
/// RTE_OK: taken; what comes of it a notice tells. RTE_AGAIN: no room now (in the inbox, for this session, for its notices).
/// RTE_ERR_ARGUMENT: NULL; an unknown kind, flag or key; a key twice; a value of the wrong size; values with a kind that
/// has none; a generation with ATTACH; a non-zero reserved field; a DEVICE value of a key with a size, or without a
/// revision; `ready` without a DEVICE value. RTE_ERR_TOO_LARGE: more copied bytes than options.message_bytes.
/// RTE_ERR_UNAVAILABLE: DEVICE values or `ready` on lanes without a device, or with options.record_path. RTE_ERR_STATE:
/// after stop. RTE_ERR_DEAD. On all but RTE_OK nothing was taken, and the release does not run. Which field is wrong, a log
/// at WARN is told.
/// Threads: any, any number of them. Callbacks: may be called in any.
RTE_API rte_status rte_inbox_push(struct rte_engine *engine, const struct rte_message *message);

/// Pops one output into `out`. Never blocks. Notices come before chunks, each session's chunks in order, sessions in turn.
/// The chunk's bytes are yours to read until you give the output to `rte_output_release`; a session of which you hold
/// options.held_max outputs may lose its next chunks.
///
/// RTE_AGAIN: empty. RTE_CLOSED: stopped and empty. RTE_ERR_DEAD: died and empty. RTE_ERR_ARGUMENT: NULL. RTE_ERR_STATE: the
/// engine has options.on_output. On all but RTE_OK nothing was written.
/// Threads: any, any number of them. Callbacks: may be called in any.
RTE_API rte_status rte_outbox_pop(struct rte_engine *engine, struct rte_output *out);

/// Waits until there is something to pop, at most `timeout_ns` nanoseconds; UINT64_MAX: as long as it takes.
///
/// RTE_OK: look (another thread may be faster). RTE_TIMEOUT. RTE_CLOSED: stopped and empty. RTE_ERR_DEAD: died and empty.
/// RTE_ERR_DEADLOCK: with a timeout, in a callback of this engine. RTE_ERR_STATE: the engine has options.on_output.
/// Threads: any, any number of them. Callbacks: with timeout 0.
RTE_API rte_status rte_outbox_wait(struct rte_engine *engine, uint64_t timeout_ns);

/// A file descriptor to poll (epoll, libuv) for output. Readable from the first output after a pop returned RTE_AGAIN (or
/// after this call) until a pop returns it again, and after the last output: poll, then pop until RTE_AGAIN. The engine
/// makes a system call only for a consumer that waits. Ours: do not read, write or close it; closed by rte_engine_free.
///
/// -1: NULL, the engine has options.on_output, there are no descriptors left, or the system has none (other than Linux).
/// RTE_ERR_FORKED in a forked child.
/// Threads: any. Callbacks: may be called in any.
RTE_API ptrdiff_t rte_outbox_fd(struct rte_engine *engine);

/// Gives an output back. Its memory is reused, and the record zeroed, so that a second release of the same record does
/// nothing. `after`: the stream of your last use of the data: on lanes with a device an event is recorded there at once, and the
/// memory reused when it has passed; inline and threads lanes know no streams: finish with the data before. NULL = now. NULL
/// `output` is fine. The last release after rte_engine_free waits for such events before the memory goes.
///
/// Threads: any, also after rte_engine_free. Callbacks: may be called in any.
RTE_API void rte_output_release(struct rte_output *output, rte_stream after);

/// The next message, for `model.serve`. Never blocks. Its values are readable until the next rte_inbox_pop, or until serve
/// returns. Copied ones are aligned to 8; BORROWED ones are where they were, and the library runs their release when the
/// message is given up, once. `generation` and `user` are those of the session's life; the flags of values are 0, and
/// `release` is NULL.
///
/// The library says who is here; these it deals with itself, and never shows:
/// - ATTACH, and RESET of an unknown session, with no row free: RTE_REJECTED with RTE_ERR_FULL. A row is free once all
///   chunks of the life before were popped or dropped.
/// - ATTACH of a session that is here: RTE_ATTACHED with RTE_ALREADY.
/// - A generation that no longer lives: RTE_REJECTED with RTE_ERR_STALE; ACTION, PAUSE or RESUME of no session: with
///   RTE_ERR_UNKNOWN; DETACH of none: nothing.
///
/// What it shows:
/// - ATTACH: a new life, with a row. Answer RTE_ATTACHED or RTE_REJECTED, now or later.
/// - RESET: of a session that is here, the life before is over: its chunks were dropped and its RTE_DETACHED told. Forget
///   it; this is as an ATTACH. No values: the context of before, which is yours to keep.
/// - DETACH: nothing more of the session comes out: its chunks were dropped, and so is what you still push of it. With
///   RTE_DRAIN: deliver what you have begun. Answer RTE_DETACHED. Until then its row is taken; a new ATTACH of the session
///   ends the old life first (with RTE_DRAIN: is answered RTE_ALREADY, a RESET RTE_REJECTED with RTE_ERR_STATE).
/// - ACTION, PAUSE, RESUME: for you to act on. Nothing was merged.
///
/// RTE_AGAIN: there is none. RTE_CLOSED: the stop was asked for, return soon; what is in the inbox the library answers.
/// RTE_ERR_DEAD. RTE_ERR_ARGUMENT: NULL. RTE_ERR_STATE: not on the thread of a running serve, or in a release or in
/// options.on_output. On all but RTE_OK nothing was written; with RTE_AGAIN, RTE_CLOSED and RTE_ERR_DEAD the message before
/// was given up all the same.
/// Threads: model.serve's. Callbacks: model.serve alone.
RTE_API rte_status rte_inbox_pop(struct rte_engine *engine, struct rte_message *out);

/// Waits until rte_inbox_pop has something, or until a session whose chunk was refused with RTE_AGAIN has room; at most
/// `timeout_ns` nanoseconds, UINT64_MAX: as long as it takes. The stop ends it too. The values of the message that was
/// popped last stay readable.
///
/// RTE_OK: look. RTE_TIMEOUT. RTE_CLOSED: the stop was asked for, return soon. RTE_ERR_DEAD. RTE_ERR_STATE: not on the
/// thread of a running serve, or in a release or on_output.
/// Threads: model.serve's. Callbacks: model.serve alone.
RTE_API rte_status rte_inbox_wait(struct rte_engine *engine, uint64_t timeout_ns);

/// Says something to one session, for `model.serve`: a chunk or a notice. Copies. Never blocks. Looked at are:
/// - all kinds: `kind`, `session`, `generation` (0: whichever life is current), `tag`, `tick` (your own count; notices, the
///   library's too, carry the newest one named, and so does info). `flags` and `reserved` must be zero.
/// - RTE_CHUNK: `data`, `size` (1 to model.chunk_bytes), `index` (above that of the life's chunk before; what is left out
///   consumers see as dropped), `heavy_tag`, `frames` (0: the model's). `status` must be 0.
/// - RTE_REJECTED, RTE_DETACHED, RTE_ROW_FAILED: `status`; the last: `stage`, any number. Notices have no data.
///
/// The library fills in the rest: `user`, `generation`, `row`, `dropped`; `start_ns`, when serve last came back from
/// rte_inbox_wait or rte_inbox_pop; `done_ns`, now.
///
/// A life is told RTE_ATTACHED or RTE_REJECTED first, once, and then gets chunks; RTE_REJECTED ends it. RTE_ROW_FAILED comes
/// after RTE_ATTACHED, once, and no chunk after it. RTE_DETACHED, at any time, asked for or not, ends the life: it comes out
/// after its last chunk, and until that is popped the session counts as attached.
///
/// RTE_OK: taken. A slow consumer loses chunks by options.outbox_policy, and they are counted. RTE_AGAIN: nothing was
/// taken, there is no room: with RTE_HOLD alone.
/// RTE_ERR_ARGUMENT: NULL, or one of the above is wrong. RTE_ERR_UNKNOWN: no such session, or its RTE_DETACHED was pushed.
/// RTE_ERR_STALE: `generation` is not the one that lives. RTE_ERR_STATE: the life was told that, or is not at that yet; not
/// on the thread of a running serve, or in a release or on_output. RTE_ERR_UNAVAILABLE: `ready`. RTE_ERR_DEAD.
/// Threads: model.serve's. Callbacks: model.serve alone.
RTE_API rte_status rte_outbox_push(struct rte_engine *engine, const struct rte_output *output);

/// What is known of the engine now. Writes `info->struct_size` bytes. Takes some microseconds, allocates nothing and disturbs
/// nobody: fit for each frame.
///
/// RTE_ERR_ARGUMENT: NULL. RTE_ERR_VERSION: a struct_size that is not known.
/// Threads: any. Callbacks: may be called in any.
RTE_API rte_status rte_engine_get_info(const struct rte_engine *engine, struct rte_engine_info *info);

/// What is known of a session. Looks at every row: not for each frame and session. Writes `info->struct_size` bytes.
///
/// RTE_ERR_UNKNOWN: not attached at the end of the last tick, or its RTE_DETACHED or RTE_REJECTED was queued since; after a
/// RESET it is the new life that is shown. RTE_ERR_ARGUMENT, RTE_ERR_VERSION as for `rte_engine_get_info`.
/// Threads: any. Callbacks: may be called in any.
RTE_API rte_status rte_session_get_info(const struct rte_engine *engine, uint64_t session, struct rte_session_info *info);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* RTE_H */
