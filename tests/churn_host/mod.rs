//! Hosts of which much comes and goes.
//!
//! - [`comings`]: sessions, on one engine; [`settled`]: lanes on which it does the same each time;
//! - [`engines`]: engines, in one process;
//! - [`failures`]: lives, of a model that fails in every way; [`fickle`]: that model; [`ledger`]: what was told of them.

pub mod comings;
pub mod engines;
pub mod failures;
pub mod fickle;
pub mod ledger;
pub mod settled;
