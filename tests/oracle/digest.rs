//! The numbers of the reference model: digests, derived seeds, what a value contributes, and the value of a chunk.

use serde_json::{Map, Value};
use sha2::{Digest, Sha256};

use super::python;

/// Conditioning or context: keys and their values, in the order they were written.
pub type Values = Map<String, Value>;

/// Derived seeds are below this.
const SEEDS: u64 = 9973;

/// The values a chunk can have are below this.
const CHUNK_VALUES: i128 = 251;

/// The seed of a session whose context names none: the SHA-256 of its name as a big-endian number, mod 9973.
pub fn derived_seed(session: &str) -> i64 {
    let remainder =
        Sha256::digest(session.as_bytes()).iter().fold(0, |sum, byte| (sum * 256 + u64::from(*byte)) % SEEDS);
    remainder.cast_signed()
}

/// The seed that a context names, if it does. Seeds are expected to fit 64 bits.
pub fn explicit_seed(context: &Values) -> Option<i64> {
    let seed = context.get("seed").filter(|seed| !seed.is_null())?;
    Some(python::int(seed).expect("a seed is an integer"))
}

/// What one entry adds to a sum: the integer that Python makes of the value (wrapped to 64 bits), else the last byte of
/// the SHA-256 of `key=value`.
pub fn contribution(key: &str, value: &Value) -> i64 {
    python::int(value).unwrap_or_else(|| {
        let text = format!("{key}={}", python::str(value));
        let digest = Sha256::digest(text.as_bytes());
        i64::from(*digest.last().expect("32 bytes"))
    })
}

/// The low byte of the sum of what the entries contribute.
pub fn collapse<'a>(entries: impl IntoIterator<Item = (&'a String, &'a Value)>) -> u8 {
    let sum = entries.into_iter().fold(0i64, |sum, (key, value)| sum.wrapping_add(contribution(key, value)));
    sum.to_le_bytes()[0]
}

/// The byte that fills a chunk.
pub fn chunk_value(seed: i64, age: i64, cheap: u8, heavy: u8) -> u8 {
    let sum = i128::from(seed) * 131 + i128::from(age) * 7 + i128::from(cheap) * 3 + i128::from(heavy) * 17;
    u8::try_from(sum.rem_euclid(CHUNK_VALUES)).expect("below 251")
}
