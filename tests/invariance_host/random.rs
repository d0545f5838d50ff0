//! Numbers that a seed gives, the same everywhere and always, and digests.

/// The splitmix64 generator.
pub struct Random(u64);

impl Random {
    /// The numbers of a seed.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        scramble(self.0)
    }

    /// A number from `low` to `high`, both included.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.next() % (high - low + 1)
    }

    /// The same for sizes.
    pub fn size(&mut self, low: usize, high: usize) -> usize {
        low + usize::try_from(self.between(0, (high - low) as u64)).expect("below a size")
    }

    /// Yes, so many times of a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.next() % 100 < chance
    }

    /// One of these.
    pub fn pick<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.size(0, items.len() - 1)]
    }
}

fn scramble(mut word: u64) -> u64 {
    word = (word ^ (word >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    word = (word ^ (word >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    word ^ (word >> 31)
}

/// A digest of all these words, in this order.
pub fn digest(words: impl IntoIterator<Item = u64>) -> u64 {
    words.into_iter().fold(0, |digest: u64, word| scramble(digest.wrapping_add(0x9e37_79b9_7f4a_7c15) ^ word))
}

/// A digest of bytes and their number.
pub fn digest_of_bytes(bytes: &[u8]) -> u64 {
    let word = |part: &[u8]| part.iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
    digest(bytes.chunks(8).map(word).chain([bytes.len() as u64]))
}
