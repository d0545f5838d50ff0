//! Conditioning values as the test model sees them: 16 bytes, a number to add up and a number to compare.

use std::collections::HashMap;

use serde_json::Value;

use super::{digest, python};

/// A value as a test model reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoded {
    /// What the value adds to the sum of its keys; the sum's low byte is what the reference model uses.
    pub contribution: i64,
    /// Equal for two values exactly when Python calls them equal. Never 0.
    pub identity: u64,
}

impl Encoded {
    /// The size of a value in bytes.
    pub const SIZE: usize = 16;

    /// The value as bytes: contribution, then identity, both little-endian.
    pub fn to_bytes(self) -> [u8; Self::SIZE] {
        let mut bytes = [0; Self::SIZE];
        bytes[..8].copy_from_slice(&self.contribution.to_le_bytes());
        bytes[8..].copy_from_slice(&self.identity.to_le_bytes());
        bytes
    }

    /// The value that [`Encoded::to_bytes`] wrote.
    pub fn from_bytes(bytes: [u8; Self::SIZE]) -> Self {
        let (contribution, identity) = bytes.split_at(8);
        Self {
            contribution: i64::from_le_bytes(contribution.try_into().expect("8 bytes")),
            identity: u64::from_le_bytes(identity.try_into().expect("8 bytes")),
        }
    }
}

/// Gives out identity numbers.
#[derive(Default)]
pub struct Interner {
    identities: HashMap<String, u64>,
    contributions: HashMap<(String, u64), i64>,
}

impl Interner {
    /// The identity number of a value: 1 for the first one seen, and so on.
    pub fn identity(&mut self, value: &Value) -> u64 {
        let next = self.identities.len() as u64 + 1;
        *self.identities.entry(python::canonical(value)).or_insert(next)
    }

    /// A key's value in the form the test model reads.
    ///
    /// # Panics
    ///
    /// If an equal value of the same key contributed something else. Python calls `[1]` and `[True]` equal, but they are
    /// not written alike and so hash differently: no 16 bytes can stand for such a pair.
    pub fn encode(&mut self, key: &str, value: &Value) -> Encoded {
        let identity = self.identity(value);
        let contribution = digest::contribution(key, value);
        let first = *self.contributions.entry((key.to_owned(), identity)).or_insert(contribution);
        assert_eq!(first, contribution, "{key}: two equal values contribute differently");
        Encoded { contribution, identity }
    }
}
