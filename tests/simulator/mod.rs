//! A simulator of lanes that overlap, for the engine's cohort: a model that records, lanes that run what was recorded in
//! any permitted order, consumers that use chunks on streams of their own, a world that knows what must not happen, and a
//! host that keeps all of them busy.

pub mod dependency;
pub mod options;
pub mod schedule;
pub mod tally;
pub mod world;

mod arrays;
mod consumers;
mod hands;
mod host;
mod lanes;
mod model;
mod timeline;
