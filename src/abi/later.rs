//! What is declared and not there yet: each answers RTE_ERR_UNAVAILABLE.

use std::ffi::c_void;

use super::engine::rte_engine;
use super::guard::{guard, with_engine};
use super::message::rte_message;
use super::model::rte_model;
use super::output::rte_output;
use super::status::rte_status;
use crate::word::Status;

/// Makes a child model of one row for `rte_replica_model`.
pub type rte_replica_fn = Option<unsafe extern "C-unwind" fn(user: *mut c_void, child: *mut rte_model) -> rte_status>;

/// The oracle for a batched model: max_sessions children of one row each. RTE_ERR_UNAVAILABLE in this version.
///
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_replica_model(
    model: *mut rte_model,
    max_sessions: u32,
    make: rte_replica_fn,
    user: *mut c_void,
) -> rte_status {
    let _ = (model, max_sessions, make, user);
    guard(|| Status::UNAVAILABLE.0)
}

/// The inbox's other end, for model.serve alone. RTE_ERR_UNAVAILABLE in this version.
///
/// Threads: model.serve's. Callbacks: model.serve alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_inbox_pop(engine: *mut rte_engine, out: *mut rte_message) -> rte_status {
    let _ = out;
    with_engine(engine, |_| Status::UNAVAILABLE.0)
}

/// Waits for a message, for model.serve alone. RTE_ERR_UNAVAILABLE in this version.
///
/// Threads: model.serve's. Callbacks: model.serve alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_inbox_wait(engine: *mut rte_engine, timeout_ns: u64) -> rte_status {
    let _ = timeout_ns;
    with_engine(engine, |_| Status::UNAVAILABLE.0)
}

/// The outbox's other end, for model.serve alone. RTE_ERR_UNAVAILABLE in this version.
///
/// Threads: model.serve's. Callbacks: model.serve alone.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_outbox_push(engine: *mut rte_engine, output: *const rte_output) -> rte_status {
    let _ = output;
    with_engine(engine, |_| Status::UNAVAILABLE.0)
}
