//! The boundary: everything that C sees, and the only place with exported functions and raw pointers of the host.
//!
//! `include/rte.h` is generated from here, in the order of these modules; doc comments are the C documentation.
//! Each export runs inside [`guard`]: a panic of ours ends the engine, not the process.

#![allow(non_camel_case_types, clippy::missing_safety_doc)]

pub mod engine;
pub mod inbox;
pub mod info;
pub mod later;
pub mod log;
pub mod message;
pub mod model;
pub mod options;
pub mod outbox;
pub mod output;
pub mod reference;
pub mod status;
pub mod version;

mod backend;
mod clock;
mod descriptor;
mod guard;
mod manifest;
