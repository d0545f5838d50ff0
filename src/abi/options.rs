//! How an engine is to be: lanes, queues, time.

use std::ffi::{c_char, c_void};
use std::sync::Arc;

use super::descriptor;
use super::log::{RTE_LOG_DEBUG, rte_log_fn};
use super::manifest::{check_bits, check_zero};
use super::message::{rte_event, rte_stream};
use super::output::rte_output;
use super::status::rte_status;
use crate::engine::Failure;
use crate::queue::{Limits, MAX_BYTES, Policy};
use crate::time::Overrun;
use crate::word::Status;

/// Where stages run: RTE_LANES_CUDA if the driver sees a device, else RTE_LANES_INLINE, where a slow encode holds everybody
/// up: choose RTE_LANES_THREADS if yours are and run on the processor.
pub const RTE_LANES_AUTO: u32 = 0;
/// Where stages run: at once, on the engine's thread; nothing overlaps.
pub const RTE_LANES_INLINE: u32 = 1;
/// Where stages run: on a thread for each lane, beside the engine's.
pub const RTE_LANES_THREADS: u32 = 2;
/// Where stages run: they are called on the engine's thread and enqueue on CUDA streams of options.device (non-blocking, HOT
/// of the highest priority, ENCODE of the lowest). The driver is looked for at run time: libcuda.so.1. None, or one that is
/// too old, or no device: rte_engine_new returns RTE_ERR_UNAVAILABLE, and the error says which. The device's primary
/// context, which the runtime API uses too, is current in every callback of the model but those that say otherwise; no
/// call of this library changes which context its caller finds current.
pub const RTE_LANES_CUDA: u32 = 3;
/// Where stages run: streams of `options.backend`.
pub const RTE_LANES_HOST: u32 = 4;

/// Pipelined if lanes overlap and there is a DEFERRED stage.
pub const RTE_PIPELINE_AUTO: u32 = 0;
/// Pipelined: chunk N-1 is finished and delivered in the tick that makes chunk N.
pub const RTE_PIPELINE_ON: u32 = 1;
/// Not pipelined: each tick delivers its own chunk.
pub const RTE_PIPELINE_OFF: u32 = 2;

/// A slow consumer loses the oldest chunk of that session. (The newest alone: this, with outbox_depth 1.)
pub const RTE_DROP_OLDEST: u32 = 0;
/// A slow consumer loses the newest chunk of that session.
pub const RTE_DROP_NEWEST: u32 = 1;
/// Nothing is lost: a session whose ring has no room for its next chunk sits out until its consumer has taken one. It is
/// never more than outbox_depth chunks ahead of its consumer. (A consumer that keeps more than held_max outputs: until it
/// has released one.) With a pipeline the chunk in flight takes its place first, so a session with outbox_depth 1 steps in
/// every second tick. With `model.serve`: a push of a chunk that finds no room is refused with RTE_AGAIN.
pub const RTE_HOLD: u32 = 2;

/// A tick that ends late: the next starts at once, the grid points missed are skipped and counted; on the grid after that.
pub const RTE_SKIP: u32 = 0;
/// A tick that ends late: the next starts at once and is of the very next grid point, and so on until on the grid again, so
/// that no point goes without its tick. After options.max_catch_up such ticks running, one more is as with RTE_SKIP: of the
/// last point that has passed, those between missed; then as many may follow again. A tick on the grid ends a run. All
/// ticks that start at once count as late.
pub const RTE_CATCH_UP: u32 = 1;

/// Flag of options: commit every row's output buffers at rte_engine_new, so that no join costs a frame.
pub const RTE_PREFAULT: u32 = 1;

/// Lanes of your own (Vulkan, HIP, a simulator). A descriptor. All but set_wake and destroy are needed. Called from the
/// engine's thread; event_new, record, query, sync and event_free also on any thread that releases outputs, until the last
/// one is released. A status other than those named ends the engine with it; rte_engine_free then still waits, by `record`
/// and `sync`, for what is on the streams, as far as these go well.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_backend {
    /// sizeof(rte_backend).
    pub struct_size: u32,
    /// Must be zero.
    pub reserved: u32,
    /// Given to every function.
    pub user: *mut c_void,
    /// Makes a stream of a lane (RTE_HOT, RTE_DEFERRED; RTE_ENCODE: options.encode_lanes of them), when the engine is first
    /// driven.
    pub stream_new:
        Option<unsafe extern "C-unwind" fn(user: *mut c_void, lane: u32, out: *mut rte_stream) -> rte_status>,
    /// Frees one that stream_new made.
    pub stream_free: Option<unsafe extern "C-unwind" fn(user: *mut c_void, stream: rte_stream)>,
    /// Makes an event.
    pub event_new: Option<unsafe extern "C-unwind" fn(user: *mut c_void, out: *mut rte_event) -> rte_status>,
    /// Frees one; it may still be waited for only after an error.
    pub event_free: Option<unsafe extern "C-unwind" fn(user: *mut c_void, event: rte_event)>,
    /// The event passes when all that is enqueued on the stream now is done. Recorded again only after it has passed.
    pub record:
        Option<unsafe extern "C-unwind" fn(user: *mut c_void, event: rte_event, stream: rte_stream) -> rte_status>,
    /// What is enqueued on the stream from now on runs after the event's last record.
    pub wait:
        Option<unsafe extern "C-unwind" fn(user: *mut c_void, stream: rte_stream, event: rte_event) -> rte_status>,
    /// RTE_OK: passed. RTE_AGAIN: not yet.
    pub query: Option<unsafe extern "C-unwind" fn(user: *mut c_void, event: rte_event) -> rte_status>,
    /// Waits at most so long. RTE_OK: passed. RTE_TIMEOUT: not yet.
    pub sync: Option<unsafe extern "C-unwind" fn(user: *mut c_void, event: rte_event, timeout_ns: u64) -> rte_status>,
    /// May be NULL. Called once with a function to call, on any thread, when an event has passed, and at the end with NULL.
    /// Without it a parked engine looks every 100 us.
    pub set_wake: Option<
        unsafe extern "C-unwind" fn(
            user: *mut c_void,
            wake: Option<unsafe extern "C" fn(engine: *mut c_void)>,
            engine: *mut c_void,
        ),
    >,
    /// May be NULL. Once, after the last call of any other; not if rte_engine_new failed. The engine is gone: nothing may be
    /// called with it here.
    pub destroy: Option<unsafe extern "C-unwind" fn(user: *mut c_void)>,
}

/// Time of your own (replay, tests). A descriptor. Both functions are needed.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_clock {
    /// sizeof(rte_clock).
    pub struct_size: u32,
    /// Must be zero.
    pub reserved: u32,
    /// Given to both functions.
    pub user: *mut c_void,
    /// Nanoseconds; never goes back. On any thread: pushes are stamped with it (in one it may not free the engine).
    pub now: Option<unsafe extern "C-unwind" fn(user: *mut c_void) -> u64>,
    /// Sleeps until a grid point. May return early, also so that a stop is seen; it is called again until `now` has got
    /// there. An engine with nothing to do waits on its own.
    pub sleep_until: Option<unsafe extern "C-unwind" fn(user: *mut c_void, ns: u64)>,
}

/// How an engine is to be. A descriptor: set struct_size, leave the rest zero; zero is the default, now and later.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_engine_options {
    /// sizeof(rte_engine_options).
    pub struct_size: u32,
    /// RTE_LANES_*.
    pub lanes: u32,
    /// RTE_PIPELINE_*.
    pub pipeline: u32,
    /// Which CUDA device, as the driver numbers those that it sees; looked at with CUDA lanes only.
    pub device: i32,
    /// RTE_LANES_HOST alone. Copied.
    pub backend: *const rte_backend,
    /// NULL = the real one. Copied.
    pub clock: *const rte_clock,
    /// By lane; NULL = ours. Borrowed until rte_engine_free. With RTE_LANES_CUDA and RTE_LANES_HOST alone. CUDA: of the
    /// device's primary context; a default stream, one of another device or one that is being captured is refused.
    pub streams: [rte_stream; 3],
    /// Messages; rounded up to a power of two, 8 to 65536; 0 = 1024. One session may use a quarter, all ACTIONs together
    /// three quarters.
    pub inbox_capacity: u32,
    /// Largest sum of copied values in a message; 0 = 64 KiB; at most 64 MiB.
    pub message_bytes: u32,
    /// Room for copied values larger than 192 bytes a message; 0 = 4 MiB; at most 512 MiB. Made larger where it could not
    /// hold four messages.
    pub inbox_bytes: u64,
    /// Chunks per session; at most 4096; 0 = 4. A session has outbox_depth + held_max + pipeline depth buffers of
    /// model.chunk_bytes (`session_bytes` in info), allocated and touched on the engine's thread when a row is first used;
    /// on CUDA lanes page-locked, which takes milliseconds, or, with RTE_MODEL_DEVICE_OUTPUT, of the device's memory.
    pub outbox_depth: u32,
    /// Outputs of one session that a consumer may hold at once; at most 4096; 0 = 2.
    pub held_max: u32,
    /// RTE_DROP_OLDEST, RTE_DROP_NEWEST, RTE_HOLD.
    pub outbox_policy: u32,
    /// RTE_SKIP, RTE_CATCH_UP.
    pub overrun: u32,
    /// With RTE_CATCH_UP: ticks running that may follow at once; 0 = 4.
    pub max_catch_up: u32,
    /// Whole-call failures of seed before a session is rejected; 0 = 3.
    pub seed_attempts: u32,
    /// Whole-call failures of ENCODE in a row before a row is quarantined; 0 = 3.
    pub encode_attempts: u32,
    /// So many encode batches of different rows at once; 0 = 1, at most 8. More than 1: not with RTE_LANES_INLINE, nor with
    /// a lent ENCODE stream.
    pub encode_lanes: u32,
    /// RTE_LOG_*; 0 = RTE_LOG_WARN.
    pub log_level: u32,
    /// NULL = silent.
    pub log: rte_log_fn,
    /// Given to `log`.
    pub log_user: *mut c_void,
    /// NULL: outputs are popped. Else it is given each output, in the order of pops, on the thread that drives the engine,
    /// in the tick in which it came to be; rte_outbox_pop and wait return RTE_ERR_STATE. The record is the callback's until
    /// it returns: release it (a copy of it, if you keep the data longer). The tick waits for it: be short. It may call what
    /// a callback may call.
    pub on_output: Option<unsafe extern "C-unwind" fn(user: *mut c_void, output: *mut rte_output)>,
    /// Given to `on_output`.
    pub on_output_user: *mut c_void,
    /// Of rte_engine_start's thread, and with the lane behind it of those of threads lanes; NULL = "rte". Copied; systems
    /// show the first 15 bytes.
    pub thread_name: *const c_char,
    /// Bit c: CPU c. Of all the threads that the engine makes: rte_engine_start's, those of threads lanes and a trace's; 0 =
    /// as the thread that makes them. CPUs that the process may not use are left out; none left = refused. Set before `init`.
    /// What the system refuses makes rte_engine_start (run, the first tick) fail with RTE_ERR_UNAVAILABLE. The caller's own
    /// thread is left as it is: rte_engine_run, tick and step without threads lanes refuse it. Linux; elsewhere UNAVAILABLE.
    pub cpu_mask: u64,
    /// 0 = as it is, 1..99 = SCHED_FIFO, of the threads that a tick waits for: all that cpu_mask is of but ENCODE's and a
    /// trace's, which are SCHED_OTHER: neither stands before a step. Set and refused as cpu_mask is.
    pub priority: u32,
    /// RTE_PREFAULT.
    pub flags: u32,
    /// A callback longer than this shows in info, also while it runs; 0 = 1 s.
    pub stall_ns: u64,
    /// Before a grid point (not with a clock of your own), or a fence of threads or CUDA lanes: spin at most this long, the
    /// rest asleep; 0 = never spin.
    pub spin_ns: u64,
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
    pub trace_path: *const c_char,
    /// NULL = none. A file that is made, or emptied: what rte_engine_replay reads. Written by the engine's thread, a
    /// megabyte at a time; complete after the stop. The way to report a bug. Copied.
    pub record_path: *const c_char,
    /// NULL = `device` says. Else the CUDA device with this UUID, as `nvidia-smi -L` prints it. Copied.
    pub device_uuid: *const c_char,
}

/// Options that were read and checked.
pub(super) struct Options {
    pub table: rte_engine_options,
    pub policy: Policy,
    pub overrun: Overrun,
    pub limits: Limits,
    pub depth: usize,
    pub held: usize,
    pub thread_name: Box<str>,
    pub record_path: Option<Box<str>>,
    pub trace_path: Option<Box<str>>,
}

fn wrong(message: String) -> Failure {
    Failure::new(Status::ARGUMENT, message)
}

fn later(is_asked: bool, what: &str) -> Result<(), Failure> {
    if is_asked {
        Err(Failure::new(Status::UNAVAILABLE, format!("options.{what}: not in this version")))
    } else {
        Ok(())
    }
}

/// `value`, or `default` for 0; at most `most`.
fn number(name: &str, value: u64, default: u64, most: u64) -> Result<u64, Failure> {
    match value {
        0 => Ok(default),
        value if value > most => Err(wrong(format!("options.{name}: {value} is more than {most}"))),
        value => Ok(value),
    }
}

/// # Safety
/// `options` is NULL (defaults) or a descriptor whose pointers are valid for this call.
pub(super) unsafe fn read(options: *const rte_engine_options) -> Result<Options, Failure> {
    let defaults = rte_engine_options { struct_size: size_of::<rte_engine_options>() as u32, ..zeroed() };
    let options = if options.is_null() { &raw const defaults } else { options };
    // SAFETY: the caller's promise.
    let table = unsafe { descriptor::read(options, "options")? };
    check_choices(&table)?;
    check_later(&table)?;
    // SAFETY: the caller's promise.
    let thread_name = unsafe { descriptor::text(table.thread_name) };
    // SAFETY: the caller's promise.
    let record_path = (!table.record_path.is_null()).then(|| unsafe { descriptor::text(table.record_path) });
    // SAFETY: the caller's promise.
    let trace_path = (!table.trace_path.is_null()).then(|| unsafe { descriptor::text(table.trace_path) });
    let messages = number("inbox_capacity", table.inbox_capacity.into(), 1024, 65_536)?.max(8).next_power_of_two();
    Ok(Options {
        table,
        policy: match table.outbox_policy {
            RTE_DROP_NEWEST => Policy::DropNewest,
            RTE_HOLD => Policy::Hold,
            _ => Policy::DropOldest,
        },
        overrun: match (table.overrun, table.max_catch_up) {
            (RTE_CATCH_UP, 0) => Overrun::CatchUp(4),
            (RTE_CATCH_UP, most) => Overrun::CatchUp(most),
            _ => Overrun::Skip,
        },
        limits: Limits {
            messages: messages as usize,
            message_bytes: number("message_bytes", table.message_bytes.into(), 64 << 10, 64 << 20)? as usize,
            bytes: number("inbox_bytes", table.inbox_bytes, 4 << 20, MAX_BYTES)?,
        },
        depth: number("outbox_depth", table.outbox_depth.into(), 4, 4096)? as usize,
        held: number("held_max", table.held_max.into(), 2, 4096)? as usize,
        thread_name: if thread_name.is_empty() { "rte".into() } else { thread_name },
        record_path,
        trace_path,
    })
}

fn zeroed() -> rte_engine_options {
    // SAFETY: numbers, pointers and nullable functions: zero is a value of each.
    unsafe { std::mem::zeroed() }
}

fn check_choices(table: &rte_engine_options) -> Result<(), Failure> {
    let choice = |name: &str, value: u32, most: u32| {
        if value > most { Err(wrong(format!("options.{name}: {value} is not one of 0..={most}"))) } else { Ok(()) }
    };
    choice("lanes", table.lanes, RTE_LANES_HOST)?;
    choice("pipeline", table.pipeline, RTE_PIPELINE_OFF)?;
    choice("outbox_policy", table.outbox_policy, RTE_HOLD)?;
    choice("overrun", table.overrun, RTE_CATCH_UP)?;
    choice("log_level", table.log_level, RTE_LOG_DEBUG)?;
    choice("encode_lanes", table.encode_lanes, 8)?;
    choice("priority", table.priority, 99)?;
    check_bits("options.flags", table.flags, RTE_PREFAULT)?;
    let is_host = table.lanes == RTE_LANES_HOST;
    if is_host == table.backend.is_null() {
        let what = if is_host { "NULL, but lanes is RTE_LANES_HOST" } else { "set, but lanes is not RTE_LANES_HOST" };
        return Err(wrong(format!("options.backend: {what}")));
    }
    if table.encode_lanes > 1 && table.lanes == RTE_LANES_INLINE {
        return Err(wrong(format!(
            "options.encode_lanes: {}, but on inline lanes nothing overlaps",
            table.encode_lanes
        )));
    }
    if table.encode_lanes > 1 && !table.streams[2].is_null() {
        return Err(wrong(format!("options.encode_lanes: {}, but streams[RTE_ENCODE] lends one", table.encode_lanes)));
    }
    match table.streams.iter().position(|stream| !stream.is_null()) {
        Some(at) if !is_host && table.lanes != RTE_LANES_CUDA => {
            Err(wrong(format!("options.streams[{at}]: set, but only RTE_LANES_CUDA and RTE_LANES_HOST take streams")))
        }
        _ => Ok(()),
    }
}

fn check_later(table: &rte_engine_options) -> Result<(), Failure> {
    // No call for these is known on other systems.
    later(cfg!(not(target_os = "linux")) && table.cpu_mask != 0, &format!("cpu_mask: {:#x}", table.cpu_mask))?;
    later(cfg!(not(target_os = "linux")) && table.priority != 0, &format!("priority: {}", table.priority))
}

/// # Safety
/// `options.backend` is valid for this call.
pub(super) unsafe fn read_backend(table: &rte_engine_options) -> Result<rte_backend, Failure> {
    // SAFETY: the caller's promise.
    let backend = unsafe { descriptor::read(table.backend, "options.backend")? };
    check_zero("options.backend.reserved", backend.reserved.into())?;
    let needed = [
        ("stream_new", backend.stream_new.is_some()),
        ("stream_free", backend.stream_free.is_some()),
        ("event_new", backend.event_new.is_some()),
        ("event_free", backend.event_free.is_some()),
        ("record", backend.record.is_some()),
        ("wait", backend.wait.is_some()),
        ("query", backend.query.is_some()),
        ("sync", backend.sync.is_some()),
    ];
    match needed.iter().find(|(_, is_there)| !is_there) {
        Some((name, _)) => Err(wrong(format!("options.backend.{name}: NULL"))),
        None => Ok(backend),
    }
}

/// # Safety
/// `options.clock` is NULL or valid for this call.
pub(super) unsafe fn read_clock(table: &rte_engine_options) -> Result<Arc<dyn crate::time::Clock>, Failure> {
    if table.clock.is_null() {
        return Ok(Arc::new(crate::time::RealClock { spin: table.spin_ns }));
    }
    // SAFETY: the caller's promise.
    let clock = unsafe { descriptor::read(table.clock, "options.clock")? };
    check_zero("options.clock.reserved", clock.reserved.into())?;
    super::clock::CClock::of(clock)
}
