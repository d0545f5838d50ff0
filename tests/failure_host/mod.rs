//! A company of sessions one of which fails, on each kind of lanes, and what its host sees.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod model;
pub mod run;
