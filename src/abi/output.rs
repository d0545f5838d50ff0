//! What comes out.

use std::ffi::c_void;

use super::message::rte_event;
use super::status::rte_status;

/// Kind of an output: bytes of one session.
pub const RTE_CHUNK: u32 = 1;
/// Kind of an output: the life was seeded; `generation` names it. flags: RTE_ALREADY.
pub const RTE_ATTACHED: u32 = 2;
/// Kind of an output: a message had no effect. `status` says why: FULL, STATE (mid-run attach is off, or the session
/// drains), MEMORY, UNKNOWN, STALE, CLOSED (stop), or your seed's status: then the life is over, without RTE_DETACHED and
/// without your detach hook. UNKNOWN and STALE are told together: the newest, with the count in `dropped`.
pub const RTE_REJECTED: u32 = 3;
/// Kind of an output: this life is over (DETACH, RESET; status RTE_CLOSED: stop), also one that was never seeded; nothing
/// of it comes after this.
pub const RTE_DETACHED: u32 = 4;
/// Kind of an output: the row is quarantined until RESET or DETACH; `stage` and `status` say where and why.
pub const RTE_ROW_FAILED: u32 = 5;
/// Kind of an output: a whole batch failed; `stage`, `status`; `row` is the first of the batch; `dropped` = times since the
/// last such notice.
pub const RTE_TICK_FAILED: u32 = 6;
/// Kind of an output: the last one of this engine; `status` says why.
pub const RTE_DEAD: u32 = 7;

/// Flag of RTE_ATTACHED: the session was attached already, and nothing has changed.
pub const RTE_ALREADY: u32 = 1;

/// One chunk or notice, from `rte_outbox_pop`. A record: 160 bytes. Give each to `rte_output_release`.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct rte_output {
    /// RTE_CHUNK to RTE_DEAD.
    pub kind: u32,
    /// RTE_ALREADY.
    pub flags: u32,
    /// Whose it is; 0 in notices that concern no session.
    pub session: u64,
    /// Of its ATTACH.
    pub user: u64,
    /// Which life; never reused in one engine. 0 in an RTE_REJECTED that never had one.
    pub generation: u64,
    /// Number of the chunk in this life, from 0; dropped and failed ones leave gaps.
    pub index: u64,
    /// RTE_CHUNK: chunks missing just before this one, whatever the cause; a step that left its size 0 is not missing.
    /// Notices that are told together: how many this one stands for, itself included.
    pub dropped: u64,
    /// The tick whose HOT made it, or in which it happened. Ticks run, from 0; missed grid points do not count.
    pub tick: u64,
    /// RTE_CHUNK: the newest ACTION that it takes into account, 0 before the first of a life. Notices: of the message.
    pub tag: u64,
    /// The tag of the message (an ATTACH or RESET, too) whose heavy values are the applied ones; 0: none had any.
    pub heavy_tag: u64,
    /// When HOT was issued, in nanoseconds of the engine's clock.
    pub start_ns: u64,
    /// When its completion was seen; 0 where `ready` is set.
    pub done_ns: u64,
    /// RTE_CHUNK: the bytes, aligned to 64. Yours to read until the release.
    pub data: *const c_void,
    /// Bytes.
    pub size: usize,
    /// Non-NULL: `data` is device memory, complete after this event.
    pub ready: rte_event,
    /// Ours: leave it alone.
    pub owner: *mut c_void,
    /// Notices: see the kind. RTE_OK else.
    pub status: rte_status,
    /// Frames in this chunk.
    pub frames: u32,
    /// Index into `model.stages`; RTE_STAGE_* for the hooks; RTE_STAGE_NONE where it says nothing.
    pub stage: u32,
    /// Row of the arena.
    pub row: u32,
    /// Zero.
    pub reserved: [u64; 3],
}
