//! What is declared and not there yet: each answers RTE_ERR_UNAVAILABLE.

use std::ffi::c_void;

use super::guard::guard;
use super::model::rte_model;
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
