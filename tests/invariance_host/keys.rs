//! What steers the model: one key of each kind.

use std::ptr::null;

use rte::abi::model::{
    RTE_BYTES, RTE_F32, RTE_I64, RTE_KEY_HEAVY, RTE_MERGE_LATEST, RTE_MERGE_OR, RTE_MERGE_SUM, RTE_U32, rte_key,
};

use crate::random::Random;

/// A key of the model.
pub struct Key {
    /// Bytes of each value; 0: any number.
    pub size: usize,
    kind: u32,
    merge: u32,
    /// Goes through ENCODE.
    pub is_heavy: bool,
}

/// The keys, by index.
pub const KEYS: [Key; 8] = [
    latest(8, RTE_I64),
    heavy(0),
    heavy(32),
    latest(4, RTE_U32),
    latest(0, RTE_BYTES),
    Key { size: 8, kind: RTE_F32, merge: RTE_MERGE_SUM, is_heavy: false },
    Key { size: 8, kind: RTE_I64, merge: RTE_MERGE_SUM, is_heavy: false },
    Key { size: 4, kind: RTE_U32, merge: RTE_MERGE_OR, is_heavy: false },
];

/// Cheap, and of the context alone: no step ever sees it.
pub const SEED: usize = 0;
/// Heavy, of any size.
pub const PROMPT: usize = 1;
/// Heavy, of a fixed size: batches have a column of it.
pub const IMAGE: usize = 2;
/// Cheap, of a fixed size.
pub const STYLE: usize = 3;
/// Cheap, of any size.
pub const TEXT: usize = 4;
/// A sum of two floats.
pub const MOVE: usize = 5;
/// A sum of integers.
pub const WHEEL: usize = 6;
/// Bits.
pub const BUTTONS: usize = 7;

const fn latest(size: usize, kind: u32) -> Key {
    Key { size, kind, merge: RTE_MERGE_LATEST, is_heavy: false }
}

const fn heavy(size: usize) -> Key {
    Key { size, kind: RTE_BYTES, merge: RTE_MERGE_LATEST, is_heavy: true }
}

/// The keys for `rte_model`.
pub fn declared() -> [rte_key; KEYS.len()] {
    KEYS.map(|key| rte_key {
        name: null(),
        size: key.size,
        r#type: key.kind,
        merge: key.merge,
        flags: if key.is_heavy { RTE_KEY_HEAVY } else { 0 },
        reserved: 0,
    })
}

/// The bytes of a value. Heavy ones are few, so that a value comes back and nothing is to be encoded.
pub fn random_bytes(random: &mut Random, key: usize) -> Vec<u8> {
    if random.percent(12) {
        return Vec::new(); // absent
    }
    match key {
        SEED => random.between(0, 999).to_le_bytes().to_vec(),
        PROMPT => vec![random.pick(b"abcd"); random.pick(&[3, 3, 40])],
        IMAGE => vec![random.pick(b"xyz"); KEYS[IMAGE].size],
        STYLE => random.between(0, 3).to_le_bytes()[..KEYS[STYLE].size].to_vec(),
        // Some do not fit into a cell of the inbox.
        TEXT => vec![random.pick(b"0123456789"); random.pick(&[1, 5, 24, 300])],
        MOVE => [random.between(0, 999), random.between(0, 999)]
            .iter()
            .flat_map(|number| (*number as f32 / 7.0 - 70.0).to_le_bytes())
            .collect(),
        WHEEL => random.pick(&[-3, 1, 20, i64::MAX]).to_le_bytes().to_vec(),
        BUTTONS => (1u32 << random.between(0, 31)).to_le_bytes().to_vec(),
        _ => unreachable!("no key {key}"),
    }
}
