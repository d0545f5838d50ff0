//! What anybody may know of a running engine, without disturbing it.

mod board;
mod counters;
mod histogram;
mod log;
mod watch;

pub use board::{Board, Entry, State};
pub use counters::{Counters, Gauges};
pub use histogram::{Histogram, Spread};
pub use log::{Level, Log};
pub use watch::Watch;
