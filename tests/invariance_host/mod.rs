//! What the invariance test is made of.
//!
//! - [`digest`]: of words and bytes;
//! - [`keys`]: what steers the model;
//! - [`schedule`]: who sends what in which tick;
//! - [`loans`]: values that the engine borrows;
//! - [`model`]: a model whose chunks tell everything that it has seen;
//! - [`checks`]: what every batch must look like;
//! - [`run`]: a schedule on an engine, all sessions together or one alone.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod checks;
pub mod digest;
pub mod keys;
pub mod loans;
pub mod model;
pub mod run;
pub mod schedule;
