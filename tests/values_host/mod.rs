//! Messages whose values lie on a device, and a model that looks at what it is shown of them.
//!
//! - [`ledger`]: which value is whose, until when it is read, and when its release has run;
//! - [`model`]: stages that take time, fail as they are told, and note what they see;
//! - [`bench`]: an engine of that model;
//! - [`random`]: one that is told anything at all.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod bench;
pub mod ledger;
pub mod model;
pub mod random;
