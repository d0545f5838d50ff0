//! The boundary: everything that C sees, and the only place with exported functions and raw pointers of the host.
//!
//! `include/rte.h` is generated from here, in the order of these modules; doc comments are the C documentation.
//! Each export runs inside [`guard`]: a panic of ours ends the engine, not the process.

#![allow(non_camel_case_types, clippy::missing_safety_doc)]

// In the order in which a reader of the header meets them; the blank lines keep it.
pub mod version;

pub mod status;

pub mod message;

pub mod output;

pub mod model;

pub mod reference;

pub mod replica;

pub mod log;

pub mod options;

pub mod engine;

pub mod inbox;

pub mod outbox;

pub mod serve;

pub mod info;

mod backend;
mod clock;
mod construction;
pub mod descriptor;
mod guard;
mod lanes;
mod manifest;
mod mistake;
