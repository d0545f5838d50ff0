//! What a run came to, in numbers: each of them is to be reached often, or the runs show little.

use std::collections::BTreeMap;

/// What is counted.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Count {
    Seeds,
    Hots,
    Deferreds,
    Encodes,
    Detaches,
    /// Work that began while other work was under way.
    Overlaps,
    /// Rows that work was on, and those for which it failed.
    RowsTouched,
    RowsInVain,
    Chunks,
    /// Chunks that came out before they were complete.
    ChunksEarly,
    /// Pointers of the model's own that came back.
    Pointers,
    /// Enqueued on consumers' streams.
    Reads,
    /// Chunks that were given back with the stream of their last use, and those after the engine was gone.
    Released,
    ReleasedLate,
    /// Of chunks: made, and recorded again.
    Events,
    EventsAgain,
    ValuesLent,
    Attached,
    Detached,
    Rejected,
    RowsFailed,
    CallsFailed,
    /// Ticks, and those that found the lanes busy.
    Ticks,
    Resumed,
}

impl Count {
    /// All of them.
    pub const ALL: [Count; 24] = [
        Count::Seeds,
        Count::Hots,
        Count::Deferreds,
        Count::Encodes,
        Count::Detaches,
        Count::Overlaps,
        Count::RowsTouched,
        Count::RowsInVain,
        Count::Chunks,
        Count::ChunksEarly,
        Count::Pointers,
        Count::Reads,
        Count::Released,
        Count::ReleasedLate,
        Count::Events,
        Count::EventsAgain,
        Count::ValuesLent,
        Count::Attached,
        Count::Detached,
        Count::Rejected,
        Count::RowsFailed,
        Count::CallsFailed,
        Count::Ticks,
        Count::Resumed,
    ];
}

/// How much of what.
pub type Tally = BTreeMap<Count, u64>;
