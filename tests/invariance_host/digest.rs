//! Digests.

use crate::random::mix;

/// A digest of all these words, in this order.
pub fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0, |digest: u64, word| mix(digest ^ word))
}

/// A digest of bytes and their number.
pub fn digest_of_bytes(bytes: &[u8]) -> u64 {
    let word = |part: &[u8]| part.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    digest(bytes.chunks(8).map(word).chain([bytes.len() as u64]))
}
