//! The arithmetic and the state of the built-in model. `abi` makes a C table of it.
//!
//! Each byte of a chunk is `(seed*131 + age*7 + action*3 + prompt*17) mod 251`. Each number is kept by row, and only the
//! lane that owns it touches it; they are atomics because lanes may overlap, not because they are shared.

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

const MODULUS: i64 = 251;

/// One number a row.
type ByRow = Box<[AtomicU8]>;

/// State of the built-in model.
pub struct Reference {
    seeds: ByRow,
    prompts: ByRow,
    latents: [ByRow; 2],
}

impl Reference {
    /// Room for `rows` rows.
    pub fn new(rows: usize) -> Reference {
        let numbers = || (0..rows).map(|_| AtomicU8::new(0)).collect::<ByRow>();
        Reference { seeds: numbers(), prompts: numbers(), latents: [numbers(), numbers()] }
    }

    /// First state of a row. Without a seed it is derived from the session's id.
    pub fn seed(&self, row: usize, session: u64, seed: Option<i64>, prompt: &[u8]) {
        let seed = seed.unwrap_or((session % 9973) as i64);
        self.seeds[row].store(seed.rem_euclid(MODULUS) as u8, Relaxed);
        self.encode(row, prompt);
    }

    /// A new prompt.
    pub fn encode(&self, row: usize, prompt: &[u8]) {
        let sum = prompt.iter().fold(0u8, |sum, byte| sum.wrapping_add(*byte));
        self.prompts[row].store(sum, Relaxed);
    }

    /// One step: what the chunk will be filled with.
    pub fn step(&self, row: usize, slot: usize, age: u64, action: i64) {
        let (seed, prompt) = (self.seeds[row].load(Relaxed), self.prompts[row].load(Relaxed));
        let sum = i64::from(seed) * 131
            + (age % MODULUS as u64) as i64 * 7
            + action.rem_euclid(256) * 3
            + i64::from(prompt) * 17;
        self.latents[slot][row].store((sum % MODULUS) as u8, Relaxed);
    }

    /// What the step in `slot` made.
    pub fn decode(&self, row: usize, slot: usize) -> u8 {
        self.latents[slot][row].load(Relaxed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_chunk_is_what_the_formula_says() {
        let model = Reference::new(2);
        model.seed(1, 0, Some(-77), b"");
        model.step(1, 0, 3, 255);
        let plain = (-77i64 * 131 + 3 * 7 + 255 * 3).rem_euclid(251);
        assert_eq!(i64::from(model.decode(1, 0)), plain);
        model.encode(1, &[200, 100]);
        model.step(1, 1, 3, -1);
        assert_eq!(i64::from(model.decode(1, 1)), (plain + 44 * 17) % 251);
    }
}
