//! The library as a host uses it: through its exported functions alone, here with safe Rust around them.
//!
//! - [`engine`]: an engine, what is pushed into it, what is popped from it;
//! - [`batch`]: a batch as a stage sees it;
//! - [`device`]: a backend whose clock is set by the test;
//! - [`timed`]: threads lanes in the time of that clock;
//! - [`traffic`]: which callbacks are inside a model at once.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod batch;
pub mod device;
pub mod engine;
pub mod timed;
pub mod traffic;
