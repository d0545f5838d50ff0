//! Numbers out of bytes: mostly such as are worth a try.

/// What is left to read. When there is nothing more, all numbers are 0.
pub struct Bytes<'a>(pub &'a [u8]);

const NOTABLE: [u64; 24] = [
    0,
    1,
    2,
    3,
    4,
    7,
    8,
    31,
    63,
    64,
    65,
    255,
    256,
    257,
    4096,
    4097,
    65_535,
    65_536,
    65_537,
    1 << 31,
    (1 << 32) - 1,
    1 << 32,
    (1 << 32) + 1,
    u64::MAX,
];

impl Bytes<'_> {
    /// Whether there is nothing more.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The next one.
    pub fn byte(&mut self) -> u8 {
        let Some((first, rest)) = self.0.split_first() else { return 0 };
        self.0 = rest;
        *first
    }

    /// One of 0..`bound`.
    pub fn below(&mut self, bound: usize) -> usize {
        usize::from(self.byte()) % bound
    }

    /// One in four.
    pub fn is_rare(&mut self) -> bool {
        self.byte() % 4 == 3
    }

    fn raw(&mut self, bytes: usize) -> u64 {
        (0..bytes).fold(0, |number, _| number << 8 | u64::from(self.byte()))
    }

    /// Any number.
    pub fn number(&mut self) -> u64 {
        match self.byte() {
            kind @ 0..=191 => NOTABLE[usize::from(kind) % NOTABLE.len()],
            192..=223 => self.raw(1),
            224..=239 => self.raw(2),
            240..=247 => self.raw(4),
            _ => self.raw(8),
        }
    }
}
