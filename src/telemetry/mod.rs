//! What anybody may know of a running engine, without disturbing it.

mod board;
mod counters;
mod histogram;
mod log;
mod trace;
mod trace_file;
mod watch;

pub use board::{Board, Entry, State};
pub use counters::{Counters, Gauges};
pub use histogram::{Histogram, Spread};
pub use log::{Level, Log};
pub use trace::{Doing, End, Fact, Kind, Pen, Trace, Worked};
pub use trace_file::{Names, Scribe};
pub use watch::Watch;
