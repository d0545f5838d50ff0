//! Which rows have something to pop: one bit a row, taken in turn.
//!
//! A bit is set by whoever holds the row's token (see the outbox) and cleared by the consumer that takes it, so no two
//! consumers are ever at one row. The turn goes upward from the row popped last and starts at 0 again when all is
//! empty: fair among the rows that always have something, ascending for a consumer that empties the outbox each tick.
//! A row waits for at most one chunk of each other row.

use crate::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use crate::word::Row;

/// See the module's comment.
pub struct Ready {
    words: Box<[AtomicU64]>,
    /// One bit a word of `words`; a word that is not zero has its bit set, or will have before its setter returns. One
    /// that is zero may have it: from a setter whose row was taken before it came to this bit. Who meets that clears it.
    summary: Box<[AtomicU64]>,
    turn: AtomicUsize,
    /// A row was out of sight that nobody had taken; it is in sight again.
    resurfaced: AtomicBool,
}

impl Ready {
    /// No row of `max` is ready.
    pub fn new(max: u32) -> Ready {
        let zeros = |count: usize| (0..count).map(|_| AtomicU64::new(0)).collect::<Box<[_]>>();
        let words = zeros((max as usize).div_ceil(64));
        let summary = zeros(words.len().div_ceil(64));
        Ready { words, summary, turn: AtomicUsize::new(0), resurfaced: AtomicBool::new(false) }
    }

    /// `row` has something to pop. Release: so have all that its setter wrote before.
    pub fn set(&self, row: Row) {
        self.set_all(row.word(), row.bit());
    }

    /// The same of `rows`, a set of the 64 rows of one word.
    pub fn set_all(&self, word: usize, rows: u64) {
        self.words[word].fetch_or(rows, Ordering::SeqCst);
        self.summary[word / 64].fetch_or(1 << (word % 64), Ordering::SeqCst);
    }

    /// Takes the next row in turn.
    pub fn take(&self) -> Option<Row> {
        let turn = self.turn.load(Ordering::Relaxed);
        let found = self.take_from(turn).or_else(|| if turn > 0 { self.take_from(0) } else { None });
        // A hint: a lost update costs fairness for one pop, nothing else.
        self.turn.store(found.map_or(0, |row| row.at() + 1), Ordering::Relaxed);
        found
    }

    fn take_from(&self, from: usize) -> Option<Row> {
        let mut word = from / 64;
        let mut mask = !0u64 << (from % 64);
        while let Some(at) = self.next_word(word) {
            if at != word {
                mask = !0;
            }
            if let Some(bit) = self.take_bit(at, mask) {
                return Some(Row((at * 64) as u32 + bit));
            }
            (word, mask) = (at + 1, !0);
        }
        None
    }

    /// The first word from `word` on that may have a bit.
    fn next_word(&self, word: usize) -> Option<usize> {
        let mut group = word / 64;
        let mut bits = self.summary.get(group)?.load(Ordering::SeqCst) & (!0 << (word % 64));
        while bits == 0 {
            group += 1;
            bits = self.summary.get(group)?.load(Ordering::SeqCst);
        }
        Some(group * 64 + bits.trailing_zeros() as usize)
    }

    fn take_bit(&self, at: usize, mask: u64) -> Option<u32> {
        let word = &self.words[at];
        let all = word.load(Ordering::SeqCst);
        if all == 0 {
            self.retract(at);
        }
        let mut bits = all & mask;
        while bits != 0 {
            let bit = bits.trailing_zeros();
            let before = word.fetch_and(!(1 << bit), Ordering::SeqCst);
            if before >> bit & 1 != 0 {
                if before & !(1 << bit) == 0 {
                    self.retract(at);
                }
                return Some(bit);
            }
            bits = before & mask;
        }
        None
    }

    /// A word is zero: its summary bit goes, and comes back if somebody set the word meanwhile. In between that row was out
    /// of sight for all others.
    fn retract(&self, at: usize) {
        let (group, bit) = (&self.summary[at / 64], 1 << (at % 64));
        group.fetch_and(!bit, Ordering::SeqCst);
        if self.words[at].load(Ordering::SeqCst) != 0 {
            group.fetch_or(bit, Ordering::SeqCst);
            self.resurfaced.store(true, Ordering::SeqCst);
        }
    }

    /// Whether, since this was asked last, a row was out of sight of who looked, and is no more: who asks wakes them.
    pub fn has_resurfaced(&self) -> bool {
        self.resurfaced.load(Ordering::Relaxed) && self.resurfaced.swap(false, Ordering::SeqCst)
    }

    /// Whether no row is ready. A moment's truth.
    pub fn is_empty(&self) -> bool {
        self.summary.iter().all(|group| group.load(Ordering::SeqCst) == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_in_turn_and_from_the_lowest_after_all_was_taken() {
        let ready = Ready::new(5000);
        for row in [4999, 3, 70] {
            ready.set(Row(row));
        }
        assert_eq!(ready.take(), Some(Row(3)));
        ready.set(Row(3));
        assert_eq!([ready.take(), ready.take(), ready.take()], [Some(Row(70)), Some(Row(4999)), Some(Row(3))]);
        assert_eq!(ready.take(), None);
        assert!(ready.is_empty());
        ready.set(Row(9));
        ready.set(Row(1));
        assert_eq!([ready.take(), ready.take(), ready.take()], [Some(Row(1)), Some(Row(9)), None]);
    }

    #[test]
    fn whoever_takes_the_last_row_leaves_nothing_to_look_at() {
        let ready = Ready::new(5000);
        for row in [0, 63, 64, 4095, 4096, 4999] {
            ready.set(Row(row));
            assert!(!ready.is_empty());
            assert_eq!(ready.take(), Some(Row(row)));
            assert!(ready.is_empty());
        }
    }

    #[test]
    fn a_setter_that_is_late_with_its_summary_bit_leaves_nothing_behind() {
        let ready = Ready::new(100);
        ready.words[1].fetch_or(1, Ordering::SeqCst);
        ready.summary[0].fetch_or(2, Ordering::SeqCst);
        assert_eq!(ready.take(), Some(Row(64)));
        ready.summary[0].fetch_or(2, Ordering::SeqCst);
        assert!(!ready.is_empty());
        assert_eq!(ready.take(), None);
        assert!(ready.is_empty(), "or whoever waits would be woken for nothing, again and again");
    }
}
