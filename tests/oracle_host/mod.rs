//! Drives the engine through a scenario of the oracle, and puts what it did beside what the oracle says.
//!
//! - [`keys`]: the names of a scenario as declared keys, its values as bytes;
//! - [`model`]: the reference model as a host's model, with the scenario's faults;
//! - [`observed`]: what a tick gave, in the form in which both sides are compared;
//! - [`ledger`]: that every life begins and ends as it should;
//! - [`driver`]: an engine, its model and its lanes, tick by tick.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod driver;
pub mod keys;
pub mod ledger;
pub mod model;
pub mod observed;
