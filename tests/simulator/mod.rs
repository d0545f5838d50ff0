//! A simulator of lanes that overlap, for the engine's cohort: a model that records, lanes that run what was recorded in
//! any permitted order, a world that knows what must not happen, and a host that keeps all of them busy.

pub mod dependency;
pub mod options;
pub mod schedule;
pub mod world;

mod arrays;
mod host;
mod lanes;
mod model;
mod random;
