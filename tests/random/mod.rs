//! Numbers that a seed gives, the same everywhere and always: SplitMix64.

// Each test program uses a part.
#![allow(dead_code)]

/// What the state grows by.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// The numbers of one seed.
#[derive(Clone, Copy, Default)]
pub struct Random(u64);

impl Random {
    /// The numbers of `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// The numbers of `seed` for one of those who draw; each `stream` has its own.
    pub fn stream(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        random.next();
        random
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        let number = mix(self.0);
        self.0 = self.0.wrapping_add(STEP);
        number
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// One of `low..=high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// The same for sizes.
    pub fn size(&mut self, low: usize, high: usize) -> usize {
        low + self.below((high - low) as u64 + 1) as usize
    }

    /// Yes, so many times of a hundred.
    pub fn percent(&mut self, chance: u64) -> bool {
        self.below(100) < chance
    }

    /// Yes, once in `count` times; 0: never.
    pub fn once_in(&mut self, count: u64) -> bool {
        count > 0 && self.below(count) == 0
    }

    /// One of these.
    pub fn pick<T: Clone>(&mut self, items: &[T]) -> T {
        items[self.size(0, items.len() - 1)].clone()
    }
}

/// A number whose bits all depend on all of `number`: the first one of that seed.
pub fn mix(number: u64) -> u64 {
    let mixed = number.wrapping_add(STEP);
    let mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    mixed ^ mixed >> 31
}
