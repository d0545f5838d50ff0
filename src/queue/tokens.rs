//! Who may be at a row: one token a row, which its holder hands on by what it tells others, or gives back.

use crate::sync::atomic::{AtomicU64, Ordering};
use crate::word::Row;

/// See the module's comment.
pub struct Tokens {
    /// One bit a row, set = somebody has it.
    words: Box<[AtomicU64]>,
}

impl Tokens {
    /// Those of `max` rows; nobody has any.
    pub fn new(max: u32) -> Tokens {
        Tokens { words: (0..max.div_ceil(64)).map(|_| AtomicU64::new(0)).collect() }
    }

    /// Asks for those of `rows`, a set of the 64 rows of one word; the caller has those that are returned. Of each other
    /// one, whoever gives it back after this sees what the caller has done before: Release, and the Acquire below.
    pub fn claim(&self, word: usize, rows: u64) -> u64 {
        rows & !self.words[word].fetch_or(rows, Ordering::AcqRel)
    }

    /// As [`Tokens::claim`], of one row.
    pub fn claim_one(&self, row: Row) -> bool {
        self.claim(row.word(), row.bit()) != 0
    }

    /// The caller gives that of `row` back. It looks once more whether there is something to do: see above.
    pub fn give_back(&self, row: Row) {
        self.words[row.word()].fetch_and(!row.bit(), Ordering::AcqRel);
    }
}
