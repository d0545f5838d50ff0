//! The keys that a model declares, and where their values lie.

use crate::word::KeySet;

/// As many keys as a `KeySet` has bits.
pub const MAX_KEYS: usize = 64;

/// Element type of a key's values, for the merge rules.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Element {
    Bytes,
    U32,
    I64,
    F32,
    F64,
}

/// What a step sees of several values that came since the last step.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Merge {
    /// The newest, and it keeps seeing it.
    Latest,
    /// Their sum, then 0.
    Sum,
    /// Their bits, then the newest.
    Or,
}

/// One declared key.
#[derive(Clone, Debug)]
pub struct KeySpec {
    /// For messages.
    pub name: Box<str>,
    /// Non-zero: every value has exactly this size, and batches carry it as a column.
    pub size: usize,
    /// Element type.
    pub element: Element,
    /// Merge rule.
    pub merge: Merge,
    /// A change goes through ENCODE.
    pub heavy: bool,
}

/// All keys of a model, and what follows from them. Immutable.
pub struct Keys {
    specs: Box<[KeySpec]>,
    offsets: Box<[usize]>,
    image_size: usize,
    heavy: KeySet,
    fixed: KeySet,
    latest: KeySet,
    merging: KeySet,
}

impl Keys {
    /// The layout of `specs`, which were checked where they came in: at most [`MAX_KEYS`], merging ones sized and cheap.
    pub fn new(specs: Vec<KeySpec>) -> Keys {
        let (mut heavy, mut fixed, mut latest, mut merging) = (KeySet::NONE, KeySet::NONE, KeySet::NONE, KeySet::NONE);
        let mut offsets = vec![0; specs.len()];
        let mut image_size = 0;
        for (key, spec) in specs.iter().enumerate() {
            heavy.set(key, spec.heavy);
            if spec.heavy {
                continue;
            }
            latest.set(key, spec.merge == Merge::Latest);
            merging.set(key, spec.merge != Merge::Latest);
            if spec.size > 0 {
                fixed.add(key);
                offsets[key] = image_size;
                image_size += spec.size;
            }
        }
        Keys { specs: specs.into(), offsets: offsets.into(), image_size, heavy, fixed, latest, merging }
    }

    /// How many.
    pub fn len(&self) -> usize {
        self.specs.len()
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.specs.is_empty()
    }

    /// What was declared of `key`.
    pub fn spec(&self, key: usize) -> &KeySpec {
        &self.specs[key]
    }

    /// All of them, by key.
    pub fn iter(&self) -> impl Iterator<Item = (usize, &KeySpec)> {
        self.specs.iter().enumerate()
    }

    /// Bytes of all fixed-size cheap values together.
    pub fn image_size(&self) -> usize {
        self.image_size
    }

    /// Where the value of a fixed-size cheap `key` lies in an image.
    pub fn span(&self, key: usize) -> std::ops::Range<usize> {
        self.offsets[key]..self.offsets[key] + self.specs[key].size
    }

    /// Keys whose change goes through ENCODE.
    pub fn heavy(&self) -> KeySet {
        self.heavy
    }

    /// Cheap keys of a declared size: they live in images.
    pub fn fixed(&self) -> KeySet {
        self.fixed
    }

    /// Cheap keys of which a step sees the newest value.
    pub fn latest(&self) -> KeySet {
        self.latest
    }

    /// Keys that accumulate: SUM and OR.
    pub fn merging(&self) -> KeySet {
        self.merging
    }
}
