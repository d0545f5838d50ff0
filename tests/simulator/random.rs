//! Numbers that a seed determines.

/// SplitMix64.
pub struct Random(u64);

impl Random {
    /// The numbers of `seed`; each `stream` of a seed has its own.
    pub fn new(seed: u64, stream: u64) -> Random {
        let mut random = Random(seed ^ stream.wrapping_mul(0xd134_2543_de82_ef95));
        random.next();
        random
    }

    /// The next number.
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ mixed >> 31
    }

    /// One of `0..count`.
    pub fn below(&mut self, count: u64) -> u64 {
        self.next() % count
    }

    /// True once in `count` times; 0: never.
    pub fn once_in(&mut self, count: u64) -> bool {
        count > 0 && self.below(count) == 0
    }

    /// One of `items`.
    pub fn of<T: Copy>(&mut self, items: &[T]) -> T {
        items[self.below(items.len() as u64) as usize]
    }
}
