//! Time: whose clock it is, how to sleep and be woken, and when the next tick is due.

mod beacon;
mod clock;
mod pace;
mod thread;
mod wake;

pub use beacon::Beacon;
pub use clock::{Clock, RealClock, real_now};
pub use pace::{Next, Overrun, Pace, Rate};
pub use thread::{Duty, ThreadMark, Threads};
pub use wake::Wake;
