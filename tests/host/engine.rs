//! An engine through the exported functions.

use std::ffi::CStr;
use std::ops::Range;
use std::ptr::{null, null_mut};
use std::sync::Arc;

use rte::abi::engine::{
    engine_with, rte_engine, rte_engine_free, rte_engine_new, rte_engine_step, rte_engine_stop, rte_engine_tick,
};
use rte::abi::inbox::rte_inbox_push;
use rte::abi::info::{rte_engine_get_info, rte_engine_info, rte_session_get_info, rte_session_info};
use rte::abi::message::{rte_message, rte_value};
use rte::abi::model::rte_model;
use rte::abi::options::rte_engine_options;
use rte::abi::outbox::{rte_outbox_pop, rte_output_release};
use rte::abi::output::rte_output;
use rte::abi::status::{rte_error, rte_status, rte_status_code};

use super::device::Device;
use super::timed::{Ends, Timing};

/// Done.
pub const OK: rte_status = rte_status_code::RTE_OK as rte_status;
/// Not yet.
pub const AGAIN: rte_status = rte_status_code::RTE_AGAIN as rte_status;
/// Not in time.
pub const TIMEOUT: rte_status = rte_status_code::RTE_TIMEOUT as rte_status;
/// Stopped, and nothing is left.
pub const CLOSED: rte_status = rte_status_code::RTE_CLOSED as rte_status;

/// What a descriptor says of itself.
pub fn descriptor_size<T>() -> u32 {
    u32::try_from(size_of::<T>()).expect("descriptors are small")
}

/// A struct of the library's, nothing in it set.
///
/// # Safety
///
/// Zero is a value of each of its fields.
pub unsafe fn zeroed<T>() -> T {
    // SAFETY: the caller's promise.
    unsafe { std::mem::zeroed() }
}

/// A message before it is pushed.
#[derive(Clone, Copy, Default)]
pub struct Message<'a> {
    /// `RTE_ATTACH` to `RTE_RESUME`.
    pub kind: u32,
    /// `RTE_PARTIAL`, `RTE_DRAIN`.
    pub flags: u32,
    /// To whom.
    pub session: u64,
    /// To which life; 0 is any.
    pub generation: u64,
    /// Comes back in chunks and notices.
    pub tag: u64,
    /// The values that come with it: key and bytes.
    pub values: &'a [(usize, &'a [u8])],
}

/// What was popped, copied.
#[derive(Clone, Debug)]
pub struct Output {
    /// `RTE_CHUNK` to `RTE_DEAD`.
    pub kind: u32,
    /// `RTE_ALREADY`.
    pub flags: u32,
    /// Whose it is.
    pub session: u64,
    /// Of its ATTACH.
    pub user: u64,
    /// Which life.
    pub generation: u64,
    /// Number of a chunk in its life.
    pub index: u64,
    /// Chunks missing before this one; what a coalesced notice stands for.
    pub dropped: u64,
    /// The tick whose HOT made it, or in which it happened.
    pub tick: u64,
    /// The newest ACTION that a chunk takes into account.
    pub tag: u64,
    /// The message whose heavy values a chunk goes by.
    pub heavy_tag: u64,
    /// Frames of a chunk.
    pub frames: u32,
    /// When HOT was issued.
    pub start_ns: u64,
    /// Of a notice.
    pub status: rte_status,
    /// Of a failure.
    pub stage: u32,
    /// Row of the arena.
    pub row: u32,
    /// The bytes of a chunk.
    pub bytes: Vec<u8>,
}

/// An output in a consumer's hands; given back when dropped, also after its engine was freed.
pub struct Held {
    record: rte_output,
}

impl Held {
    /// Where the bytes of a chunk are; `None`: it has none.
    pub fn address(&self) -> Option<usize> {
        (!self.record.data.is_null()).then(|| self.record.data.addr())
    }

    /// The bytes of a chunk.
    pub fn bytes(&self) -> &[u8] {
        if self.record.data.is_null() {
            return &[];
        }
        // SAFETY: a chunk's bytes are readable until its release.
        unsafe { std::slice::from_raw_parts(self.record.data.cast::<u8>(), self.record.size) }
    }

    /// What it says.
    pub fn copy(&self) -> Output {
        let record = &self.record;
        Output {
            kind: record.kind,
            flags: record.flags,
            session: record.session,
            user: record.user,
            generation: record.generation,
            index: record.index,
            dropped: record.dropped,
            tick: record.tick,
            tag: record.tag,
            heavy_tag: record.heavy_tag,
            frames: record.frames,
            start_ns: record.start_ns,
            status: record.status,
            stage: record.stage,
            row: record.row,
            bytes: self.bytes().to_vec(),
        }
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        // SAFETY: a record that was popped, given back once.
        unsafe { rte_output_release(&mut self.record, null_mut()) };
    }
}

/// An engine driven by ticks; freed when dropped.
pub struct Engine {
    handle: *mut rte_engine,
}

impl Engine {
    /// Makes one. The error has the status and the library's words.
    ///
    /// # Safety
    ///
    /// Both descriptors point to what is valid now, and their callbacks to what is valid until the engine is freed.
    pub unsafe fn new(model: &rte_model, options: &rte_engine_options) -> Result<Self, (rte_status, String)> {
        let mut handle = null_mut();
        let mut error = rte_error { status: OK, message: [0; 252] };
        // SAFETY: the caller's promise, and two places to write to.
        let status = unsafe { rte_engine_new(model, options, &mut handle, &mut error) };
        if status == OK {
            return Ok(Self { handle });
        }
        // SAFETY: a failed call leaves a text that ends with a NUL.
        let text = unsafe { CStr::from_ptr(error.message.as_ptr()) };
        Err((status, text.to_string_lossy().into_owned()))
    }

    /// Makes one whose lanes are seen in the time of a clock.
    ///
    /// # Safety
    ///
    /// As of [`Engine::new`].
    pub unsafe fn timed(
        model: &rte_model,
        options: &rte_engine_options,
        clock: &Arc<Device>,
        ends: Ends,
    ) -> Result<Self, (rte_status, String)> {
        let wrap = |lanes| Timing::of(lanes, clock.clone(), ends);
        // SAFETY: the caller's promise.
        let handle = unsafe { engine_with(model, options, wrap) };
        handle.map(|handle| Self { handle }).map_err(|failure| (failure.status.0, failure.message))
    }

    /// Pushes a message whose values are copied.
    pub fn push(&self, message: &Message) -> rte_status {
        let values = message.values.iter().map(|(key, bytes)| rte_value {
            data: bytes.as_ptr().cast(),
            size: bytes.len(),
            revision: 0,
            key: u32::try_from(*key).expect("keys are few"),
            flags: 0,
        });
        let values: Vec<rte_value> = values.collect();
        let raw = rte_message {
            kind: message.kind,
            flags: message.flags,
            session: message.session,
            generation: message.generation,
            tag: message.tag,
            user: 0,
            values: if values.is_empty() { null() } else { values.as_ptr() },
            value_count: values.len(),
            ready: null_mut(),
            release: None,
            release_user: null_mut(),
            reserved: [0; 2],
        };
        // SAFETY: values and their bytes live until the call is over, and it copies them.
        unsafe { self.push_raw(&raw) }
    }

    /// Pushes a message.
    ///
    /// # Safety
    ///
    /// The message's pointers keep what the header asks of them.
    pub unsafe fn push_raw(&self, message: &rte_message) -> rte_status {
        // SAFETY: the engine lives, and the caller's promise.
        unsafe { rte_inbox_push(self.handle, message) }
    }

    /// One tick, which waits for nothing.
    pub fn tick(&mut self) -> rte_status {
        // SAFETY: the engine lives.
        unsafe { rte_engine_tick(self.handle, 0) }
    }

    /// One tick of these sessions, which waits for nothing.
    pub fn step(&mut self, due: &[u64]) -> rte_status {
        // SAFETY: the engine lives, and `due` until the call is over.
        unsafe { rte_engine_step(self.handle, due.as_ptr(), due.len(), 0) }
    }

    /// One tick of these sessions, or of all. While the lanes are busy the time of `clock` moves on, and the tick goes on;
    /// it must not take longer than `time`. Gives how it ended.
    pub fn tick_through(&mut self, due: Option<&[u64]>, clock: Option<&Device>, time: Range<u64>) -> rte_status {
        if let Some(clock) = clock {
            clock.set_now(time.start);
        }
        loop {
            let status = match due {
                None => self.tick(),
                Some(due) => self.step(due),
            };
            if status != AGAIN {
                return status;
            }
            let clock = clock.expect("inline lanes are never busy");
            clock.set_now(clock.now() + 1);
            assert!(clock.now() < time.end, "the tick of {time:?} waits for more than its own work");
        }
    }

    /// One output, or why there is none. The library has its record back.
    pub fn pop(&self) -> Result<Output, rte_status> {
        self.pop_held().map(|held| held.copy())
    }

    /// One output for as long as it is held, or why there is none.
    pub fn pop_held(&self) -> Result<Held, rte_status> {
        // SAFETY: numbers and pointers.
        let mut record: rte_output = unsafe { zeroed() };
        // SAFETY: the engine lives, and there is a place for the output.
        match unsafe { rte_outbox_pop(self.handle, &mut record) } {
            OK => Ok(Held { record }),
            status => Err(status),
        }
    }

    /// Everything that there is to pop, and the status that ended it.
    pub fn pop_all(&self) -> (Vec<Output>, rte_status) {
        let mut outputs = Vec::new();
        loop {
            match self.pop() {
                Ok(output) => outputs.push(output),
                Err(status) => return (outputs, status),
            }
        }
    }

    /// What is known of the engine.
    pub fn info(&self) -> rte_engine_info {
        // SAFETY: numbers.
        let mut info = rte_engine_info { struct_size: descriptor_size::<rte_engine_info>(), ..unsafe { zeroed() } };
        // SAFETY: the engine lives, and there is a place for the answer.
        assert_eq!(unsafe { rte_engine_get_info(self.handle, &mut info) }, OK);
        info
    }

    /// What is known of a session; `None`: it is not attached.
    pub fn session_info(&self, session: u64) -> Option<rte_session_info> {
        // SAFETY: numbers.
        let mut info = rte_session_info { struct_size: descriptor_size::<rte_session_info>(), ..unsafe { zeroed() } };
        // SAFETY: the engine lives, and there is a place for the answer.
        match unsafe { rte_session_get_info(self.handle, session, &mut info) } {
            OK => Some(info),
            status => {
                assert_eq!(status, rte_status_code::RTE_ERR_UNKNOWN as rte_status);
                None
            }
        }
    }

    /// Stops it, waiting at most so many nanoseconds.
    pub fn stop_within(&mut self, timeout_ns: u64) -> rte_status {
        // SAFETY: the engine lives.
        unsafe { rte_engine_stop(self.handle, timeout_ns, null_mut()) }
    }

    /// Stops it, however long that takes.
    pub fn stop(&mut self) -> rte_status {
        // SAFETY: the engine lives.
        unsafe { rte_engine_stop(self.handle, u64::MAX, null_mut()) }
    }
}

impl Drop for Engine {
    fn drop(&mut self) {
        // SAFETY: the engine lives until here.
        unsafe { rte_engine_free(self.handle) };
    }
}
