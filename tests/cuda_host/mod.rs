//! A host whose model runs kernels on the driver of the tests (`cuda/`): the process must have found that one, so each
//! test runs in a child of the test program, which [`fake::under`] starts.
//!
//! - [`fake`]: the driver, and what tests tell it;
//! - [`model`]: stages that enqueue kernels and copies, and the same arithmetic on the processor beside them;
//! - [`bench`]: an engine with that model, its sessions and their consumer.

#![allow(dead_code, reason = "each test program uses a part")]

pub mod bench;
pub mod fake;
pub mod model;
