//! The outbox: what the host pops.

use std::ffi::c_void;

use super::engine::rte_engine;
use super::guard::with_engine;
use super::message::rte_stream;
use super::options::rte_engine_options;
use super::output::*;
use super::status::rte_status;
use crate::engine::{Engine, OnOutput};
use crate::model::RawStream;
use crate::output::{Chunk, Event, Notice, Output, Stamp};
use crate::queue::{Lease, Popped};
use crate::time::real_now;
use crate::word::{Status, hook};

/// Pops one output into `out`. Never blocks. Notices come before chunks, each session's chunks in order, sessions in turn.
/// The chunk's bytes are yours to read until you give the output to `rte_output_release`; a session of which you hold
/// options.held_max outputs may lose its next chunks.
///
/// RTE_AGAIN: empty. RTE_CLOSED: stopped and empty. RTE_ERR_DEAD: died and empty. RTE_ERR_ARGUMENT: NULL. RTE_ERR_STATE: the
/// engine has options.on_output. On all but RTE_OK nothing was written.
/// Threads: any, any number of them. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_outbox_pop(engine: *mut rte_engine, out: *mut rte_output) -> rte_status {
    with_engine(engine, |engine| {
        if out.is_null() {
            engine.note_mistake("rte_outbox_pop", || "out: NULL".to_string());
            return Status::ARGUMENT.0;
        }
        if engine.shared.on_output.is_some() {
            return takes_outputs(engine, "rte_outbox_pop");
        }
        // SAFETY: the host gave a valid place for an output.
        match engine.shared.outbox.pop_as(|output| unsafe { out.write_unaligned(record(output)) }) {
            Popped::Output(()) => 0,
            Popped::Empty => Status::AGAIN.0,
            Popped::Ended(status) => status.0,
        }
    })
}

/// Waits until there is something to pop, at most `timeout_ns` nanoseconds; UINT64_MAX: as long as it takes.
///
/// RTE_OK: look (another thread may be faster). RTE_TIMEOUT. RTE_CLOSED: stopped and empty. RTE_ERR_DEAD: died and empty.
/// RTE_ERR_DEADLOCK: with a timeout, in a callback of this engine. RTE_ERR_STATE: the engine has options.on_output.
/// Threads: any, any number of them. Callbacks: with timeout 0.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_outbox_wait(engine: *mut rte_engine, timeout_ns: u64) -> rte_status {
    with_engine(engine, |engine| {
        if timeout_ns > 0 && engine.is_inside() {
            engine.note_mistake("rte_outbox_wait", || "in a callback of the same engine: pass timeout 0".to_string());
            return Status::DEADLOCK.0;
        }
        if engine.shared.on_output.is_some() {
            return takes_outputs(engine, "rte_outbox_wait");
        }
        let deadline = (timeout_ns != u64::MAX).then(|| real_now().saturating_add(timeout_ns));
        match engine.shared.outbox.wait(deadline) {
            None => Status::TIMEOUT.0,
            Some(Popped::Ended(status)) => status.0,
            Some(_) => 0,
        }
    })
}

#[cold]
fn takes_outputs(engine: &Engine, call: &str) -> rte_status {
    engine.note_mistake(call, || "options.on_output is set, and gets all outputs".to_string());
    Status::STATE.0
}

/// A file descriptor to poll (epoll, libuv) for output. Readable from the first output after a pop returned RTE_AGAIN (or
/// after this call) until a pop returns it again, and after the last output: poll, then pop until RTE_AGAIN. The engine
/// makes a system call only for a consumer that waits. Ours: do not read, write or close it; closed by rte_engine_free.
///
/// -1: NULL, the engine has options.on_output, there are no descriptors left, or the system has none (other than Linux).
/// RTE_ERR_FORKED in a forked child.
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_outbox_fd(engine: *mut rte_engine) -> libc::intptr_t {
    let status = with_engine(engine, |engine| {
        let descriptor = if engine.shared.on_output.is_none() { engine.shared.outbox.descriptor() } else { None };
        descriptor.unwrap_or(-1)
    });
    // A NULL engine's status is -1, too.
    status as libc::intptr_t
}

/// Gives an output back. Its memory is reused, and the record zeroed, so that a second release of the same record does
/// nothing. `after`: the stream of your last use of the data: on lanes with a device an event is recorded there at once, and the
/// memory reused when it has passed; inline and threads lanes know no streams: finish with the data before. NULL = now. NULL
/// `output` is fine. The last release after rte_engine_free waits for such events before the memory goes.
///
/// Threads: any, also after rte_engine_free. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_output_release(output: *mut rte_output, after: rte_stream) {
    if output.is_null() || super::guard::is_forked() {
        return;
    }
    super::guard::guard(|| {
        // SAFETY: the host gave a record that pop has filled, or one that is zero.
        let owner = unsafe { (&raw const (*output).owner).read_unaligned() };
        // SAFETY: as above; a record is plain data.
        unsafe { output.write_bytes(0, 1) };
        if !owner.is_null() {
            // SAFETY: the owner of a record that pop filled, taken once: the record no longer has it.
            let mut lease = unsafe { Lease::from_consumer(owner.expose_provenance()) };
            if !after.is_null() {
                lease.used_on(RawStream(after.expose_provenance()));
            }
        }
        0
    });
}

/// A host's function as what takes the engine's outputs.
pub(super) fn on_output_of(table: &rte_engine_options) -> Option<OnOutput> {
    struct User(*mut c_void);
    // SAFETY: given back to the host as it came, on the thread that drives the engine.
    unsafe impl Send for User {}
    // SAFETY: as above.
    unsafe impl Sync for User {}
    impl User {
        fn pointer(&self) -> *mut c_void {
            self.0
        }
    }
    let (function, user) = (table.on_output?, User(table.on_output_user));
    Some(Box::new(move |output| {
        let mut record = record(output);
        // SAFETY: a callback of the host; the record lives until it returns.
        unsafe { function(user.pointer(), &mut record) };
    }))
}

#[inline(always)]
fn record(output: Output) -> rte_output {
    match output {
        Output::Chunk(chunk, missing) => chunk_record(chunk, missing),
        Output::Notice(notice) => notice_record(&notice),
    }
}

fn blank(kind: u32) -> rte_output {
    // SAFETY: numbers and pointers: zero is a value of each.
    rte_output { kind, stage: hook::NONE, ..unsafe { std::mem::zeroed() } }
}

#[inline(always)]
fn chunk_record(chunk: Chunk, missing: u64) -> rte_output {
    let Chunk { stamp, size, data } = chunk;
    let Stamp { session, user, generation, row, index, tick, tag, heavy_tag, start, done, frames, .. } = stamp;
    rte_output {
        session: session.0,
        user,
        generation: generation.0,
        index,
        dropped: missing,
        tick,
        tag,
        heavy_tag,
        start_ns: start,
        done_ns: done,
        data: std::ptr::with_exposed_provenance::<c_void>(data.address()),
        size,
        ready: std::ptr::with_exposed_provenance_mut(data.completion().map_or(0, |event| event.0)),
        owner: std::ptr::with_exposed_provenance_mut(data.to_consumer()),
        frames,
        row: row.0,
        ..blank(RTE_CHUNK)
    }
}

fn notice_record(notice: &Notice) -> rte_output {
    let (kind, flags, status, stage) = match notice.event {
        Event::Attached { already } => (RTE_ATTACHED, if already { RTE_ALREADY } else { 0 }, None, hook::NONE),
        Event::Rejected(status) => (RTE_REJECTED, 0, Some(status), hook::NONE),
        Event::Detached(status) => (RTE_DETACHED, 0, status, hook::NONE),
        Event::RowFailed(fault) => (RTE_ROW_FAILED, 0, Some(fault.status), fault.stage),
        Event::TickFailed(fault) => (RTE_TICK_FAILED, 0, Some(fault.status), fault.stage),
        Event::Dead(fault) => (RTE_DEAD, 0, Some(fault.status), fault.stage),
    };
    rte_output {
        flags,
        session: notice.session.0,
        user: notice.user,
        generation: notice.generation.0,
        dropped: notice.count,
        tick: notice.tick,
        tag: notice.tag,
        status: status.map_or(0, |status| status.0),
        stage,
        row: notice.row.0,
        ..blank(kind)
    }
}
