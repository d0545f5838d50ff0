//! The two queues between the host's threads and the engine's, and the memory that travels through them.

mod channel;
mod inbox;
#[cfg(all(test, loom))]
mod interleavings;
mod offer;
mod outbox;
mod pool;
mod ready;
mod ring;
mod shelf;
mod slot;
mod tally;
mod tokens;

pub use inbox::{Inbox, Incoming, Kind, Limits, MAX_BYTES, Parcel, Refused, ValueIn, Values};
pub use offer::Offer;
pub use outbox::{LIFE_NOTICES, Outbox, Policy, Popped, SHARED_NOTICES, Sizes};
pub use pool::{Device, Lease, Passage, Pool, ReleaseFence};
pub use ready::Ready;
pub use ring::{Ring, Take};
pub use tally::Tally;
