//! A model whose outputs are pointers of its own, and the ledger that says where each of them must be.
//!
//! - [`ledger`]: who has which pointer, and until when;
//! - [`model`]: stages that hand pointers over, in all the ways in which a stage may.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod ledger;
pub mod model;
