//! A loop of the test's own behind `model.serve`, and a small model of what the library promises it.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod model;

use std::any::Any;
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::ptr::null_mut;

use super::driver::*;
pub use rte::abi::serve::*;

pub const OK: i32 = 0;
pub const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
pub const TIMEOUT: i32 = rte_status_code::RTE_TIMEOUT as i32;
pub const CLOSED: i32 = rte_status_code::RTE_CLOSED as i32;
pub const ARGUMENT: i32 = rte_status_code::RTE_ERR_ARGUMENT as i32;
pub const STATE: i32 = rte_status_code::RTE_ERR_STATE as i32;
pub const FULL: i32 = rte_status_code::RTE_ERR_FULL as i32;
pub const UNKNOWN: i32 = rte_status_code::RTE_ERR_UNKNOWN as i32;
pub const UNAVAILABLE: i32 = rte_status_code::RTE_ERR_UNAVAILABLE as i32;
pub const DEADLOCK: i32 = rte_status_code::RTE_ERR_DEADLOCK as i32;
pub const CALLBACK: i32 = rte_status_code::RTE_ERR_CALLBACK as i32;
pub const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
pub const STALE: i32 = rte_status_code::RTE_ERR_STALE as i32;

/// Bytes of a chunk at most.
pub const CHUNK: usize = 64;

/// A message as the loop was shown it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Shown {
    pub kind: u32,
    pub flags: u32,
    pub session: u64,
    pub generation: u64,
    pub user: u64,
    pub tag: u64,
    pub values: Vec<(u32, Vec<u8>)>,
}

/// An engine as its own loop has it.
#[derive(Clone, Copy)]
pub struct Ends(pub *mut rte_engine);

// SAFETY: what is called through it says itself from which thread it may be.
unsafe impl Send for Ends {}

impl Ends {
    /// The next message, copied.
    pub fn pop(self) -> Result<Shown, i32> {
        self.pop_aligned(1)
    }

    /// As `pop`; its values are aligned so.
    pub fn pop_aligned(self, to: usize) -> Result<Shown, i32> {
        let mut message: rte_message = zeroed();
        // SAFETY: the engine lives; a valid place.
        match unsafe { rte_inbox_pop(self.0, &mut message) } {
            OK => {}
            status => return Err(status),
        }
        assert!(message.release.is_none() && message.ready.is_null() && message.reserved == [0; 2]);
        let values = (0..message.value_count).map(|at| {
            // SAFETY: the values of a message that was popped last.
            let value = unsafe { *message.values.add(at) };
            assert_eq!(value.flags, 0);
            assert!(value.data.addr().is_multiple_of(to) || value.size == 0, "values are aligned");
            // SAFETY: as above.
            (value.key, unsafe { std::slice::from_raw_parts(value.data.cast::<u8>(), value.size) }.to_vec())
        });
        let rte_message { kind, flags, session, generation, user, tag, .. } = message;
        Ok(Shown { kind, flags, session, generation, user, tag, values: values.collect() })
    }

    /// All that is there.
    pub fn pop_all(self) -> Vec<Shown> {
        std::iter::from_fn(|| self.pop().ok()).collect()
    }

    pub fn wait(self, timeout: u64) -> i32 {
        // SAFETY: the engine lives.
        unsafe { rte_inbox_wait(self.0, timeout) }
    }

    pub fn say(self, output: rte_output) -> i32 {
        // SAFETY: the engine lives; the data lives until the call returns.
        unsafe { rte_outbox_push(self.0, &output) }
    }

    /// A chunk of one byte that is its index.
    pub fn chunk(self, session: u64, index: u64) -> i32 {
        let byte = index as u8;
        self.say(rte_output { index, data: (&raw const byte).cast(), size: 1, ..output(RTE_CHUNK, session) })
    }

    pub fn tell(self, kind: u32, session: u64) -> i32 {
        self.say(output(kind, session))
    }

    pub fn push(self, message: rte_message, values: &[rte_value]) -> i32 {
        let message = rte_message { values: values.as_ptr(), value_count: values.len(), ..message };
        // SAFETY: the engine lives; the values live until the call returns.
        unsafe { rte_inbox_push(self.0, &message) }
    }

    /// Pushes a message that must get in.
    pub fn send(self, kind: u32, session: u64, tag: u64) {
        assert_eq!(self.push(rte_message { tag, ..message(kind, session) }, &[]), OK);
    }

    /// An attached session, told so; its generation.
    pub fn attach(self, session: u64) -> u64 {
        self.send(RTE_ATTACH, session, 0);
        let shown = self.pop().expect("the ATTACH");
        assert_eq!((shown.kind, shown.session), (RTE_ATTACH, session));
        assert_eq!(self.tell(RTE_ATTACHED, session), OK);
        assert_eq!(self.outputs(), [said(RTE_ATTACHED, session, 0, shown.generation)]);
        shown.generation
    }

    /// The next output, given back, and its bytes.
    pub fn output(self) -> Result<(rte_output, Vec<u8>), i32> {
        let mut output: rte_output = zeroed();
        // SAFETY: the engine lives; the bytes are read before the one release.
        unsafe {
            match rte_outbox_pop(self.0, &mut output) {
                OK => {}
                status => return Err(status),
            }
            let bytes = match output.size {
                0 => Vec::new(),
                size => std::slice::from_raw_parts(output.data.cast::<u8>(), size).to_vec(),
            };
            let seen = (output, bytes);
            rte_output_release(&mut output, null_mut());
            Ok(seen)
        }
    }

    /// All that can be popped, in short.
    pub fn outputs(self) -> Vec<Said> {
        std::iter::from_fn(|| self.output().ok()).map(|(output, _)| short(&output)).collect()
    }

    pub fn session(self, session: u64) -> Option<rte_session_info> {
        let mut info = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives; a valid place.
        (unsafe { rte_session_get_info(self.0, session, &mut info) } == OK).then_some(info)
    }

    pub fn info(self) -> rte_engine_info {
        let mut info = rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives; a valid place.
        assert_eq!(unsafe { rte_engine_get_info(self.0, &mut info) }, OK);
        info
    }

    pub fn stop(self, timeout: u64) -> i32 {
        // SAFETY: the engine lives.
        unsafe { rte_engine_stop(self.0, timeout, null_mut()) }
    }
}

/// An output in short: kind, session, status or the number of a chunk, generation.
pub type Said = (u32, u64, i64, u64);

pub fn said(kind: u32, session: u64, what: i64, generation: u64) -> Said {
    (kind, session, what, generation)
}

pub fn short(output: &rte_output) -> Said {
    let what = if output.kind == RTE_CHUNK { output.index as i64 } else { output.status.into() };
    (output.kind, output.session, what, output.generation)
}

pub fn output(kind: u32, session: u64) -> rte_output {
    rte_output { kind, session, ..zeroed() }
}

/// A loop as a closure.
type Body<'a> = dyn FnMut(Ends) -> i32 + Send + 'a;

/// What `model.serve` gets.
pub struct Loop<'a> {
    body: Box<Body<'a>>,
    panic: Option<Box<dyn Any + Send>>,
    pub destroyed: u32,
}

unsafe extern "C-unwind" fn serve(user: *mut c_void, engine: *mut rte_engine) -> i32 {
    // SAFETY: `user` is a loop that outlives its engine, and is used by this thread alone while it runs.
    let it = unsafe { &mut *user.cast::<Loop<'_>>() };
    catch_unwind(AssertUnwindSafe(|| (it.body)(Ends(engine)))).unwrap_or_else(|panic| {
        it.panic = Some(panic);
        -1000
    })
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: as above; the last callback.
    unsafe { &mut *user.cast::<Loop<'_>>() }.destroyed += 1;
}

impl<'a> Loop<'a> {
    pub fn new(body: impl FnMut(Ends) -> i32 + Send + 'a) -> Box<Loop<'a>> {
        Box::new(Loop { body: Box::new(body), panic: None, destroyed: 0 })
    }

    /// As a model of `rows` rows with two keys of any bytes.
    pub fn model(&mut self, rows: u32) -> rte_model {
        static KEYS: Keys = Keys([zero_key(), zero_key()]);
        rte_model {
            user: std::ptr::from_mut(self).cast(),
            serve: Some(serve),
            destroy: Some(destroy),
            keys: KEYS.0.as_ptr(),
            key_count: 2,
            ..super::driver::model(&[], rows, CHUNK)
        }
    }

    /// Fails the test if the loop did.
    pub fn check(&mut self) {
        if let Some(panic) = self.panic.take() {
            resume_unwind(panic);
        }
    }
}

struct Keys([rte_key; 2]);
// SAFETY: never written.
unsafe impl Sync for Keys {}

const fn zero_key() -> rte_key {
    rte_key { name: std::ptr::null(), size: 0, r#type: 0, merge: 0, flags: 0, reserved: 0 }
}

/// Runs `body` as the loop of an engine, on this thread, until it returns; gives what `rte_engine_run` returned and what
/// is left to pop.
#[track_caller]
pub fn run(rows: u32, options: &rte_engine_options, body: impl FnMut(Ends) -> i32 + Send) -> (i32, Vec<Said>) {
    let mut it = Loop::new(body);
    let host = Host::new(&it.model(rows), options);
    // SAFETY: the engine lives.
    let status = unsafe { rte_engine_run(host.engine, null_mut()) };
    it.check();
    let rest = Ends(host.engine).outputs();
    drop(host);
    assert_eq!(it.destroyed, 1);
    (status, rest)
}
