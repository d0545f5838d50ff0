//! What steers a session: values by key, how newer ones merge with older ones, and what differs.
//!
//! Who owns what: the engine's thread owns every [`Block`] table and [`Held`]; a batch shares blocks by counting them.
//! Blocks are immutable. The [`Store`] takes a block back when its last holder gives it up, and that is the one place
//! where a lent value is handed back to its owner ([`Release`]).

mod block;
mod held;
mod keys;
mod lent;
mod seen;

pub use block::{Block, Payload, Store, same};
pub use held::Held;
pub use keys::{Element, KeySpec, Keys, MAX_KEYS, Merge};
pub use lent::{Lent, Release};
pub use seen::{Seen, Shown};

use std::sync::Arc;

/// Blocks by key; `None` is absent.
pub type Table = Box<[Option<Arc<Block>>]>;

/// A table with nothing in it.
pub fn empty_table(keys: &Keys) -> Table {
    vec![None; keys.len()].into()
}

/// What a stage is to see of one row: fixed-size cheap values in `image`, all others in `blocks`.
#[derive(Clone, Copy)]
pub struct View<'a> {
    /// The fixed-size cheap values, at their keys' offsets; zero where absent.
    pub image: &'a [u8],
    /// Which of those are present.
    pub present: crate::word::KeySet,
    /// By key: heavy values and cheap ones of variable size.
    pub blocks: &'a [Option<Arc<Block>>],
}
