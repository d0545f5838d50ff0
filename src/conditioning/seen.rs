//! What the last successful batch of a lane saw of a row, to say what has changed since.

use std::sync::Arc;

use super::{Block, Keys, Store, same};
use crate::word::{Generation, KeySet, Row};

/// What a batch shows a stage of one row and key.
#[derive(Clone, Copy)]
pub enum Shown<'a> {
    /// Nothing.
    Absent,
    /// A fixed-size cheap value, copied into the batch.
    Bytes(&'a [u8]),
    /// Any other.
    Block(&'a Arc<Block>),
}

/// Of one lane, by row.
pub struct Seen {
    /// Which version of which life: what most ticks ask of most rows, so it stands together.
    latest: Box<[(Generation, u64)]>,
    shown: Box<[Memory]>,
}

/// Of one row. A lent value is remembered by name only, so that it can be released in time.
struct Memory {
    image: Box<[u8]>,
    present: KeySet,
    blocks: Box<[Memo]>,
}

enum Memo {
    Absent,
    Copied(Arc<Block>),
    Lent { identity: u64, revision: u64 },
}

impl Seen {
    /// Of `max` rows: nothing seen.
    pub fn new(max: u32, keys: &Keys) -> Seen {
        let nothing = |_| Memory {
            image: vec![0; keys.image_size()].into(),
            present: KeySet::NONE,
            blocks: (0..keys.len()).map(|_| Memo::Absent).collect(),
        };
        Seen { latest: vec![(Generation(0), 0); max as usize].into(), shown: (0..max).map(nothing).collect() }
    }

    /// Whether a batch with this version of the life in `row` saw just that: nothing has changed.
    #[inline]
    pub fn is(&self, row: Row, generation: Generation, version: u64) -> bool {
        self.latest[row.at()] == (generation, version)
    }

    /// Which keys of `row` differ from what `shown` shows. The first of a life: all that are present.
    pub fn changed<'a>(
        &self,
        row: Row,
        generation: Generation,
        keys: &Keys,
        shown: impl Fn(usize) -> Shown<'a>,
    ) -> KeySet {
        let (Memory { image, present, blocks }, mut changed) = (&self.shown[row.at()], KeySet::NONE);
        let is_new = self.latest[row.at()].0 != generation;
        for (key, _) in keys.iter() {
            let shown = shown(key);
            let differs = match shown {
                _ if is_new => !matches!(shown, Shown::Absent),
                Shown::Bytes(bytes) => !present.has(key) || &image[keys.span(key)] != bytes,
                Shown::Block(block) => !blocks[key].shows(block),
                Shown::Absent => present.has(key) || !matches!(blocks[key], Memo::Absent),
            };
            changed.set(key, differs);
        }
        changed
    }

    /// A batch that showed this of `row` has succeeded.
    pub fn commit<'a>(
        &mut self,
        row: Row,
        generation: Generation,
        version: u64,
        keys: &Keys,
        store: &mut Store,
        shown: impl Fn(usize) -> Shown<'a>,
    ) {
        self.latest[row.at()] = (generation, version);
        let Memory { image, present, blocks } = &mut self.shown[row.at()];
        *present = KeySet::NONE;
        for (key, _) in keys.iter() {
            let new = match shown(key) {
                Shown::Absent => Memo::Absent,
                Shown::Bytes(bytes) => {
                    present.add(key);
                    image[keys.span(key)].copy_from_slice(bytes);
                    Memo::Absent
                }
                Shown::Block(block) if block.is_lent() => {
                    Memo::Lent { identity: block.identity(), revision: block.revision() }
                }
                Shown::Block(block) => Memo::Copied(block.clone()),
            };
            if let Memo::Copied(old) = std::mem::replace(&mut blocks[key], new) {
                store.give(old);
            }
        }
    }
}

impl Memo {
    fn shows(&self, value: &Arc<Block>) -> bool {
        match self {
            Memo::Absent => false,
            Memo::Copied(old) => same(Some(old), Some(value)),
            Memo::Lent { identity, revision } => {
                *identity == value.identity() || (*revision != 0 && *revision == value.revision())
            }
        }
    }
}
