//! What goes in.

use std::ffi::c_void;

/// A CUDA stream as seen from here.
#[repr(C)]
pub struct CUstream_st {
    _opaque: [u8; 0],
}

/// A CUDA event as seen from here.
#[repr(C)]
pub struct CUevent_st {
    _opaque: [u8; 0],
}

/// Is a `cudaStream_t` and a `CUstream`, or what the host's backend calls a stream; NULL on CPU lanes.
pub type rte_stream = *mut CUstream_st;
/// Is a `cudaEvent_t` and a `CUevent`, or what the host's backend calls an event.
pub type rte_event = *mut CUevent_st;

/// One conditioning value. Its meaning and element type belong to its key (`rte_key`). A record: 32 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_value {
    /// The bytes; may be NULL where size is 0.
    pub data: *const c_void,
    /// Bytes. 0 makes the key absent. A key with a declared size takes that size or 0.
    pub size: usize,
    /// Non-zero: two values of a key with non-zero revisions are equal exactly if these are equal, whatever their bytes.
    /// Required with RTE_VALUE_DEVICE.
    pub revision: u64,
    /// Index into `rte_model.keys`.
    pub key: u32,
    /// RTE_VALUE_*.
    pub flags: u32,
}

/// Flag of a value: `data` is not copied: it stays yours and unchanged until `message.release` has run.
pub const RTE_VALUE_BORROWED: u32 = 1;
/// Flag of a value: `data` is a device pointer; implies BORROWED. Needs lanes with a device (RTE_LANES_CUDA,
/// RTE_LANES_HOST), a key without a size (a column lies in the processor's memory), and a revision. Lanes wait for
/// `message.ready` before the first stage that is shown it; so do `seed` and stages of later ticks. The bytes are never
/// read here.
pub const RTE_VALUE_DEVICE: u32 = 2;

/// Kind of a message: join. `values` are the context, which `seed` sees. Again for the same session: no effect, answered
/// RTE_ATTACHED with RTE_ALREADY.
pub const RTE_ATTACH: u32 = 1;
/// Kind of a message: leave. Always allowed; of an unknown session: no effect, no answer.
pub const RTE_DETACH: u32 = 2;
/// Kind of a message: a new life in the same row, conditioning cleared, pause kept. No values: the last context again.
/// Unknown session: as ATTACH. While the session drains: RTE_REJECTED with RTE_ERR_STATE.
pub const RTE_RESET: u32 = 3;
/// Kind of a message: newest wins. Replaces the LATEST cheap values as a whole, or with RTE_PARTIAL only the keys it names;
/// SUM and OR keys accumulate; heavy keys that it does not name keep the last value pushed.
pub const RTE_ACTION: u32 = 4;
/// Kind of a message: keep row and state, do not step.
pub const RTE_PAUSE: u32 = 5;
/// Kind of a message: step again. SUM and OR input that came while paused is dropped, newest OR bits excepted.
pub const RTE_RESUME: u32 = 6;

/// Flag of ACTION: leave the keys alone that it does not name.
pub const RTE_PARTIAL: u32 = 1;
/// Flag of DETACH: step no more, but deliver what is in flight and queued before DETACHED. Until that is popped the
/// session counts as attached, and only a DETACH without this flag still has an effect.
pub const RTE_DRAIN: u32 = 2;

/// A message to one session, for `rte_inbox_push`. A record: 96 bytes. Zero all that you do not use.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_message {
    /// RTE_ATTACH to RTE_RESUME.
    pub kind: u32,
    /// RTE_PARTIAL, RTE_DRAIN.
    pub flags: u32,
    /// Your name for the stream: any value.
    pub session: u64,
    /// 0: whichever life is current. Else the life meant (its RTE_ATTACHED named it); if that is not the current one:
    /// RTE_REJECTED with RTE_ERR_STALE, nothing changes. ATTACH: must be 0.
    pub generation: u64,
    /// Yours: comes back in each chunk made under this message, and in its notice.
    pub tag: u64,
    /// ATTACH, and RESET of an unknown session: yours, comes back in every batch, chunk and notice of the session.
    pub user: u64,
    /// Borrowed until return, and so are the bytes of values without RTE_VALUE_BORROWED. Each key at most once; only with
    /// ATTACH, RESET and ACTION.
    pub values: *const rte_value,
    /// At most RTE_MAX_KEYS.
    pub value_count: usize,
    /// RTE_VALUE_DEVICE values are complete after this event; NULL: they are now. Not to be destroyed or recorded again
    /// before `release` has run.
    pub ready: rte_event,
    /// May be NULL. Run exactly once, on any thread, when no work that may read the message's BORROWED values is left; not
    /// run if the push failed. It may call what a callback may call.
    pub release: Option<unsafe extern "C-unwind" fn(user: *mut c_void)>,
    /// Given to `release`.
    pub release_user: *mut c_void,
    /// Must be zero.
    pub reserved: [u64; 2],
}

pub(super) fn raw_event(event: rte_event) -> crate::model::RawEvent {
    crate::model::RawEvent(event.expose_provenance())
}

pub(super) fn raw_stream(stream: rte_stream) -> crate::model::RawStream {
    crate::model::RawStream(stream.expose_provenance())
}
