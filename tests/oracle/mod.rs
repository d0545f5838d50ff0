//! The test oracle: an executable specification of the tick, the recorded traces it was taken from, and a generator of
//! random schedules.
//!
//! - [`schedule`]: what goes into a scenario: configuration, messages, faults;
//! - [`outcome`]: what comes out of a tick;
//! - [`trace`]: reads and writes scenarios as JSON Lines;
//! - [`spec`]: runs a scenario, with one switch per rule in which the engine departs from the reference;
//! - [`generate`], [`coverage`]: random schedules, and the count of what they exercise;
//! - [`digest`], [`python`]: the numbers of the reference model and the Python rules behind them;
//! - [`codec`]: conditioning values as the 16 bytes a test model gives to the engine.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod codec;
pub mod coverage;
pub mod digest;
pub mod generate;
pub mod outcome;
pub mod python;
pub mod schedule;
pub mod spec;
pub mod trace;
