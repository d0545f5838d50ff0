//! What the last successful batch of a lane saw of a row, to say what has changed since.

use std::sync::Arc;

use super::{Block, Keys, Store, same};
use crate::word::{Generation, KeySet};

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

/// Of one row and one lane. A lent value is remembered by name only, so that it can be released in time.
pub struct Seen {
    generation: Generation,
    version: u64,
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
    /// Nothing seen.
    pub fn new(keys: &Keys) -> Seen {
        Seen {
            generation: Generation(0),
            version: 0,
            image: vec![0; keys.image_size()].into(),
            present: KeySet::NONE,
            blocks: (0..keys.len()).map(|_| Memo::Absent).collect(),
        }
    }

    /// Whether a batch with this version of this life saw just that: nothing has changed.
    pub fn is(&self, generation: Generation, version: u64) -> bool {
        self.generation == generation && self.version == version
    }

    /// Which keys differ from what `shown` shows. The first of a life: all that are present.
    pub fn changed<'a>(&self, generation: Generation, keys: &Keys, shown: impl Fn(usize) -> Shown<'a>) -> KeySet {
        let mut changed = KeySet::NONE;
        for (key, _) in keys.iter() {
            let shown = shown(key);
            let differs = match shown {
                _ if self.generation != generation => !matches!(shown, Shown::Absent),
                Shown::Bytes(bytes) => !self.present.has(key) || &self.image[keys.span(key)] != bytes,
                Shown::Block(block) => !self.blocks[key].shows(block),
                Shown::Absent => self.present.has(key) || !matches!(self.blocks[key], Memo::Absent),
            };
            changed.set(key, differs);
        }
        changed
    }

    /// A batch that showed this has succeeded.
    pub fn commit<'a>(
        &mut self,
        generation: Generation,
        version: u64,
        keys: &Keys,
        store: &mut Store,
        shown: impl Fn(usize) -> Shown<'a>,
    ) {
        (self.generation, self.version, self.present) = (generation, version, KeySet::NONE);
        for (key, _) in keys.iter() {
            let new = match shown(key) {
                Shown::Absent => Memo::Absent,
                Shown::Bytes(bytes) => {
                    self.present.add(key);
                    self.image[keys.span(key)].copy_from_slice(bytes);
                    Memo::Absent
                }
                Shown::Block(block) if block.is_lent() => {
                    Memo::Lent { identity: block.identity(), revision: block.revision() }
                }
                Shown::Block(block) => Memo::Copied(block.clone()),
            };
            if let Memo::Copied(old) = std::mem::replace(&mut self.blocks[key], new) {
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
