//! The other ends of the two queues: what `model.serve` calls.

use super::engine::rte_engine;
use super::guard::with_engine;
use super::message::*;
use super::output::*;
use super::status::rte_status;
use crate::engine::{Engine, Saying, Serving, What};
use crate::message::{Envelope, Kind};
use crate::output::Event;
use crate::time::real_now;
use crate::word::{Fault, Generation, Session, Status};

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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_inbox_pop(engine: *mut rte_engine, out: *mut rte_message) -> rte_status {
    with_engine(engine, |engine| {
        if out.is_null() {
            return refuse(engine, "rte_inbox_pop", Status::ARGUMENT, || "out: NULL".to_string());
        }
        let Some(mut serving) = engine.serving() else { return not_serving(engine, "rte_inbox_pop") };
        // What the library has to say of other messages is told.
        let popped = serving.pop();
        serving.hand_over();
        match popped {
            Ok(envelope) => {
                // SAFETY: the host gave a valid place for a message.
                unsafe { out.write_unaligned(message_record(&envelope, &serving)) };
                0
            }
            Err(status) => status.0,
        }
    })
}

/// Waits until rte_inbox_pop has something, or until a session whose chunk was refused with RTE_AGAIN has room; at most
/// `timeout_ns` nanoseconds, UINT64_MAX: as long as it takes. The stop ends it too. The values of the message that was
/// popped last stay readable.
///
/// RTE_OK: look. RTE_TIMEOUT. RTE_CLOSED: the stop was asked for, return soon. RTE_ERR_DEAD. RTE_ERR_STATE: not on the
/// thread of a running serve, or in a release or on_output.
/// Threads: model.serve's. Callbacks: model.serve alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_inbox_wait(engine: *mut rte_engine, timeout_ns: u64) -> rte_status {
    with_engine(engine, |engine| {
        let Some(mut serving) = engine.serving() else { return not_serving(engine, "rte_inbox_wait") };
        let deadline = (timeout_ns != u64::MAX).then(|| real_now().saturating_add(timeout_ns));
        serving.wait(deadline).map_or_else(|status| status.0, |()| 0)
    })
}

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
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_outbox_push(engine: *mut rte_engine, output: *const rte_output) -> rte_status {
    with_engine(engine, |engine| {
        if output.is_null() {
            return refuse(engine, "rte_outbox_push", Status::ARGUMENT, || "output: NULL".to_string());
        }
        let Some(mut serving) = engine.serving() else { return not_serving(engine, "rte_outbox_push") };
        // SAFETY: the host gave a valid output, whose data is NULL or `size` long.
        let output = unsafe { output.read_unaligned() };
        // SAFETY: as above.
        let result = unsafe { read_saying(engine, &output) };
        let result = result.and_then(|saying| serving.push(saying));
        serving.hand_over();
        match result {
            Ok(()) => 0,
            Err(status @ (Status::AGAIN | Status::DEAD)) => status.0,
            Err(status) => refuse(engine, "rte_outbox_push", status, || words(engine, &output, status)),
        }
    })
}

#[cold]
fn refuse(engine: &Engine, call: &str, status: Status, words: impl FnOnce() -> String) -> rte_status {
    engine.note_mistake(call, words);
    status.0
}

#[cold]
fn not_serving(engine: &Engine, call: &str) -> rte_status {
    let words = "not on the thread of a running model.serve, or in a release or on_output";
    refuse(engine, call, Status::STATE, || words.to_string())
}

/// Why `output` was refused with `status`: the field and its value.
fn words(engine: &Engine, output: &rte_output, status: Status) -> String {
    let rte_output { kind, session, generation, .. } = *output;
    match status {
        Status::UNKNOWN => format!("output.session: {session} is not here, or its RTE_DETACHED was pushed"),
        Status::STALE => format!("output.generation: {generation} is not the one of session {session} that lives"),
        Status::STATE => {
            format!("output.kind: {}, but session {session} was told that, or is not at that yet", kind_name(kind))
        }
        Status::UNAVAILABLE => "output.ready: set, but what serve pushes is complete".to_string(),
        _ => wrong_field(output, engine.model().manifest().chunk_bytes),
    }
}

/// The first field that is wrong, whoever is there.
fn wrong_field(output: &rte_output, chunk_bytes: usize) -> String {
    let rte_output { kind, flags, reserved, size, status, index, .. } = *output;
    const ZERO: &str = "zero the output before you set its fields";
    if flags != 0 {
        return format!("output.flags: {flags:#x} must be zero: {ZERO}");
    }
    if let Some(at) = reserved.iter().position(|word| *word != 0) {
        return format!("output.reserved[{at}]: {:#x} must be zero: {ZERO}", reserved[at]);
    }
    let name = kind_name(kind);
    match kind {
        RTE_CHUNK if !(1..=chunk_bytes).contains(&size) => {
            format!("output.size: {size}, but a chunk has 1 to {chunk_bytes} bytes (model.chunk_bytes)")
        }
        RTE_CHUNK if output.data.is_null() => format!("output.data: NULL, but size is {size}"),
        RTE_CHUNK if status != 0 => format!("output.status: {status}, but {name} has none"),
        RTE_CHUNK => format!("output.index: {index} is not above that of the chunk before"),
        RTE_ATTACHED | RTE_REJECTED | RTE_DETACHED | RTE_ROW_FAILED => {
            if size != 0 || !output.data.is_null() {
                format!("output.data: set, or size {size} is, but {name} has none")
            } else {
                format!("output.status: {status} is none that {name} has")
            }
        }
        _ => format!("output.kind: {kind} is none that serve pushes: {ZERO}"),
    }
}

fn kind_name(kind: u32) -> &'static str {
    match kind {
        RTE_CHUNK => "RTE_CHUNK",
        RTE_ATTACHED => "RTE_ATTACHED",
        RTE_REJECTED => "RTE_REJECTED",
        RTE_DETACHED => "RTE_DETACHED",
        RTE_ROW_FAILED => "RTE_ROW_FAILED",
        _ => "no kind",
    }
}

fn message_record(envelope: &Envelope, serving: &Serving) -> rte_message {
    let (kind, flags) = match envelope.kind {
        Kind::Attach => (RTE_ATTACH, 0),
        Kind::Detach { drain } => (RTE_DETACH, if drain { RTE_DRAIN } else { 0 }),
        Kind::Reset => (RTE_RESET, 0),
        Kind::Action { partial } => (RTE_ACTION, if partial { RTE_PARTIAL } else { 0 }),
        Kind::Pause => (RTE_PAUSE, 0),
        Kind::Resume => (RTE_RESUME, 0),
    };
    let values = serving.values();
    rte_message {
        kind,
        flags,
        session: envelope.session.0,
        generation: envelope.generation.0,
        tag: envelope.tag,
        user: envelope.user,
        values: if values.is_empty() { std::ptr::null() } else { values.as_ptr().cast() },
        value_count: values.len(),
        ready: std::ptr::null_mut(),
        release: None,
        release_user: std::ptr::null_mut(),
        reserved: [0; 2],
    }
}

/// # Safety
/// `output.data` is NULL or `output.size` long, for as long as what is returned.
unsafe fn read_saying<'a>(engine: &Engine, output: &rte_output) -> Result<Saying<'a>, Status> {
    if output.flags != 0 || output.reserved != [0; 3] {
        return Err(Status::ARGUMENT);
    }
    if !output.ready.is_null() {
        return Err(Status::UNAVAILABLE);
    }
    // SAFETY: the caller's promise.
    let what = unsafe { read_what(engine, output)? };
    Ok(Saying {
        session: Session(output.session),
        generation: Generation(output.generation),
        tag: output.tag,
        tick: output.tick,
        what,
    })
}

/// # Safety
/// As for `read_saying`.
unsafe fn read_what<'a>(engine: &Engine, output: &rte_output) -> Result<What<'a>, Status> {
    let manifest = engine.model().manifest();
    if output.kind == RTE_CHUNK {
        let is_right = (1..=manifest.chunk_bytes).contains(&output.size) && !output.data.is_null();
        if !is_right || output.status != 0 {
            return Err(Status::ARGUMENT);
        }
        return Ok(What::Chunk {
            index: output.index,
            heavy_tag: output.heavy_tag,
            frames: if output.frames == 0 { manifest.frames_per_chunk } else { output.frames },
            // SAFETY: the caller's promise.
            bytes: unsafe { std::slice::from_raw_parts(output.data.cast(), output.size) },
        });
    }
    if !output.data.is_null() || output.size != 0 {
        return Err(Status::ARGUMENT);
    }
    let status = Status(output.status);
    let is_error = Status::of_callback(output.status) == Err(status);
    Ok(What::Notice(match output.kind {
        RTE_ATTACHED if output.status == 0 => Event::Attached { already: false },
        RTE_REJECTED if is_error || status == Status::CLOSED => Event::Rejected(status),
        RTE_DETACHED if output.status == 0 => Event::Detached(None),
        RTE_DETACHED if is_error || status == Status::CLOSED => Event::Detached(Some(status)),
        RTE_ROW_FAILED if is_error => Event::RowFailed(Fault { stage: output.stage, status }),
        _ => return Err(Status::ARGUMENT),
    }))
}
