//! Every exported function as it is called in a callback, and what it may return there.

use std::ffi::c_char;
use std::ptr::{null, null_mut};

use rte::abi::log::rte_log_stderr;
use rte::abi::reference::rte_reference_model;
use rte::abi::replica::rte_replica_model;
use rte::abi::serve::*;
use rte::abi::version::{rte_abi_version, rte_version_string};

use crate::driver::*;

pub const OK: i64 = 0;
pub const AGAIN: i64 = 1;
pub const TIMEOUT: i64 = 2;
pub const CLOSED: i64 = 3;
pub const ARGUMENT: i64 = -1;
pub const STATE: i64 = -3;
pub const UNKNOWN: i64 = -5;
pub const DEADLOCK: i64 = -9;
pub const DEAD: i64 = -11;

/// A call and what it may return; `None`: it is not made there, for it may wait for what never comes, or rte.h forbids it.
pub struct Function {
    pub name: &'static str,
    /// # Safety
    /// The engine lives, where the function is one of an engine.
    pub call: unsafe fn(*mut rte_engine) -> i64,
    pub inside: &'static [i64],
    pub outside: Option<&'static [i64]>,
    pub needs_engine: bool,
}

/// Of an engine.
macro_rules! function {
    ($name:literal, $inside:expr, $outside:expr, |$engine:ident| $call:expr) => {
        Function {
            name: $name,
            call: |$engine| {
                #[allow(unused_unsafe, reason = "some functions are safe")]
                // SAFETY: the caller's promise; all places are valid.
                let status = unsafe { i64::from($call) };
                status
            },
            inside: &$inside,
            outside: $outside,
            needs_engine: true,
        }
    };
}

/// Of no engine.
macro_rules! free_function {
    ($name:literal, $allowed:expr, $call:expr) => {
        Function { outside: Some(&$allowed), needs_engine: false, ..function!($name, $allowed, None, |_engine| $call) }
    };
}

const DUE: [u64; 2] = [1, 2];

fn info() -> rte_engine_info {
    rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() }
}

fn session_info() -> rte_session_info {
    rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() }
}

unsafe fn made_and_destroyed() -> rte_status {
    let mut model = rte_model { struct_size: size_of::<rte_model>() as u32, ..zeroed() };
    // SAFETY: a valid place; the state that is made is given back.
    unsafe {
        let status = rte_reference_model(&mut model);
        model.destroy.expect("it has one")(model.user);
        status
    }
}

/// Another engine: made, ticked, popped, freed.
unsafe fn another_engine() -> rte_status {
    let mut model = rte_model { struct_size: size_of::<rte_model>() as u32, ..zeroed() };
    let mut engine = null_mut();
    // SAFETY: valid places; the engine is freed once.
    unsafe {
        assert_eq!(rte_reference_model(&mut model), 0);
        let small = rte_engine_options { inbox_capacity: 8, message_bytes: 8, inbox_bytes: 1, ..options() };
        let made = rte_engine_new(&model, &small, &mut engine, null_mut());
        let attached = rte_inbox_push(engine, &message(RTE_ATTACH, 5));
        let ticked = rte_engine_tick(engine, 0);
        let mut output = zeroed();
        let popped = rte_outbox_pop(engine, &mut output);
        rte_output_release(&mut output, null_mut());
        rte_engine_free(engine);
        made | attached | ticked | popped
    }
}

unsafe fn popped_and_released(engine: *mut rte_engine) -> rte_status {
    let mut output = zeroed();
    // SAFETY: the caller's promise; an output is released once.
    unsafe {
        let status = rte_outbox_pop(engine, &mut output);
        rte_output_release(&mut output, null_mut());
        status
    }
}

/// What leaves the engine as it was. A tick on another thread than the one that ticks is forbidden.
pub const ASKS: &[Function] = &[
    free_function!("rte_abi_version", [0], rte_abi_version()),
    free_function!("rte_version_string", [0], rte_version_string().is_null() as i32),
    free_function!("rte_status_message", [0], rte_status_message(-9).is_null() as i32),
    free_function!("rte_log_stderr", [0], {
        rte_log_stderr(null_mut(), 1, null::<c_char>());
        0
    }),
    free_function!("rte_reference_model", [OK], made_and_destroyed()),
    free_function!("another engine", [OK], another_engine()),
    free_function!("rte_engine_new(NULL)", [ARGUMENT], rte_engine_new(null(), null(), &mut null_mut(), null_mut())),
    free_function!("rte_replica_model", [ARGUMENT], rte_replica_model(null_mut(), 1, None, null_mut())),
    function!("rte_engine_start", [DEADLOCK, STATE], None, |engine| rte_engine_start(engine, null_mut())),
    function!("rte_engine_run", [DEADLOCK, STATE], None, |engine| rte_engine_run(engine, null_mut())),
    function!("rte_engine_tick", [DEADLOCK], None, |engine| rte_engine_tick(engine, 0)),
    function!("rte_engine_step", [DEADLOCK], None, |engine| rte_engine_step(engine, DUE.as_ptr(), DUE.len(), 0)),
    function!("rte_engine_replay", [DEADLOCK], Some(&[ARGUMENT, STATE]), |engine| {
        rte_engine_replay(engine, c"none".as_ptr(), null_mut())
    }),
    function!("rte_engine_stop, with time", [DEADLOCK], None, |engine| rte_engine_stop(engine, 1, null_mut())),
    function!("rte_engine_stop, for ever", [DEADLOCK], None, |engine| rte_engine_stop(engine, u64::MAX, null_mut())),
    function!("rte_inbox_push", [OK, AGAIN, STATE], Some(&[OK, AGAIN, STATE]), |engine| {
        rte_inbox_push(engine, &message(RTE_ACTION, 1))
    }),
    function!("rte_inbox_push of what is none", [ARGUMENT], Some(&[ARGUMENT]), |engine| {
        rte_inbox_push(engine, &message(99, 1))
    }),
    function!("rte_outbox_wait", [OK, TIMEOUT, CLOSED, STATE], Some(&[OK, TIMEOUT, CLOSED, STATE]), |engine| {
        rte_outbox_wait(engine, 0)
    }),
    function!("rte_outbox_wait, with time", [DEADLOCK], Some(&[OK, TIMEOUT, CLOSED, STATE]), |engine| {
        rte_outbox_wait(engine, 1)
    }),
    function!("rte_outbox_wait, for ever", [DEADLOCK], None, |engine| rte_outbox_wait(engine, u64::MAX)),
    function!("rte_outbox_pop", [OK, AGAIN, CLOSED, STATE], Some(&[OK, AGAIN, CLOSED, STATE]), |engine| {
        popped_and_released(engine)
    }),
    function!("rte_outbox_fd", [OK], Some(&[OK]), |engine| (rte_outbox_fd(engine) < -1) as i32),
    function!("rte_engine_get_info", [OK], Some(&[OK]), |engine| rte_engine_get_info(engine, &mut info())),
    function!("rte_session_get_info", [OK, UNKNOWN], Some(&[OK, UNKNOWN]), |engine| {
        rte_session_get_info(engine, 1, &mut session_info())
    }),
    function!("rte_inbox_pop", [STATE], Some(&[STATE]), |engine| rte_inbox_pop(engine, &mut zeroed())),
    function!("rte_inbox_wait", [STATE], Some(&[STATE]), |engine| rte_inbox_wait(engine, u64::MAX)),
    function!("rte_outbox_push", [STATE], Some(&[STATE]), |engine| rte_outbox_push(engine, &zeroed())),
];

/// What ends it. In a push nothing may be freed, nor by a consumer while others use it.
pub const STOP: &[Function] =
    &[function!("rte_engine_stop, without time", [OK, TIMEOUT], Some(&[OK, TIMEOUT, STATE]), |engine| {
        rte_engine_stop(engine, 0, null_mut())
    })];
pub const FREE: &[Function] = &[function!("rte_engine_free", [0], None, |engine| {
    rte_engine_free(engine);
    0
})];
