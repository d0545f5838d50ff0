//! A set of rows: one bit a row, ascending iteration, cost by words that are not empty.

use crate::word::Row;

/// A set of rows of one arena. Fixed size, no allocation after [`Rows::new`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rows {
    words: Box<[u64]>,
    count: u32,
}

impl Rows {
    /// An empty set of rows `0..max`.
    pub fn new(max: u32) -> Rows {
        Rows { words: vec![0; max.div_ceil(64) as usize].into(), count: 0 }
    }

    /// How many are in it.
    pub fn len(&self) -> u32 {
        self.count
    }

    /// Whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Whether `row` is in it.
    pub fn has(&self, row: Row) -> bool {
        self.words[row.word()] & row.bit() != 0
    }

    /// Adds `row`; false if it was in.
    pub fn add(&mut self, row: Row) -> bool {
        let (word, bit) = (&mut self.words[row.word()], row.bit());
        let new = *word & bit == 0;
        *word |= bit;
        self.count += u32::from(new);
        new
    }

    /// Takes `row` out; false if it was not in.
    pub fn remove(&mut self, row: Row) -> bool {
        let (word, bit) = (&mut self.words[row.word()], row.bit());
        let had = *word & bit != 0;
        *word &= !bit;
        self.count -= u32::from(had);
        had
    }

    /// Adds or removes `row`.
    pub fn set(&mut self, row: Row, present: bool) {
        if present {
            self.add(row)
        } else {
            self.remove(row)
        };
    }

    /// Empties it.
    pub fn clear(&mut self) {
        if self.count > 0 {
            self.words.fill(0);
            self.count = 0;
        }
    }

    /// Makes it the same set as `other`.
    pub fn copy_from(&mut self, other: &Rows) {
        self.words.copy_from_slice(&other.words);
        self.count = other.count;
    }

    /// Makes it `a` without the rows of `b`.
    pub fn difference(&mut self, a: &Rows, b: &Rows) {
        self.combine(a, b, |a, b| a & !b);
    }

    /// Makes it the rows that are in both `a` and `b`.
    pub fn intersection(&mut self, a: &Rows, b: &Rows) {
        self.combine(a, b, |a, b| a & b);
    }

    /// Adds the rows of `other`.
    pub fn unite(&mut self, other: &Rows) {
        self.count = 0;
        for (word, more) in self.words.iter_mut().zip(&other.words) {
            *word |= more;
            self.count += word.count_ones();
        }
    }

    /// Makes it `row` alone.
    pub fn set_only(&mut self, row: Row) {
        self.clear();
        self.add(row);
    }

    /// Takes the rows of `other` out.
    pub fn subtract(&mut self, other: &Rows) {
        if other.count == 0 {
            return;
        }
        self.count = 0;
        for (word, out) in self.words.iter_mut().zip(&other.words) {
            *word &= !out;
            self.count += word.count_ones();
        }
    }

    fn combine(&mut self, a: &Rows, b: &Rows, each: impl Fn(u64, u64) -> u64) {
        self.count = 0;
        for (word, (a, b)) in self.words.iter_mut().zip(a.words.iter().zip(&b.words)) {
            *word = each(*a, *b);
            self.count += word.count_ones();
        }
    }

    /// The lowest row.
    pub fn first(&self) -> Option<Row> {
        self.next(0)
    }

    /// The lowest row that is `from` or above. With it a loop may change the set as it goes.
    pub fn next(&self, from: u32) -> Option<Row> {
        if self.count == 0 {
            return None;
        }
        let mut at = from as usize / 64;
        let mut word = self.words.get(at)? & (!0 << (from % 64));
        while word == 0 {
            at += 1;
            word = *self.words.get(at)?;
        }
        Some(Row((at * 64) as u32 + word.trailing_zeros()))
    }

    /// Its rows, ascending.
    pub fn iter(&self) -> impl Iterator<Item = Row> + '_ {
        let mut words = self.words.iter();
        let (mut base, mut word) = (0u32.wrapping_sub(64), 0u64);
        std::iter::from_fn(move || {
            while word == 0 {
                word = *words.next()?;
                base = base.wrapping_add(64);
            }
            let row = Row(base + word.trailing_zeros());
            word &= word - 1;
            Some(row)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_come_back_ascending_and_once() {
        let mut rows = Rows::new(130);
        for row in [129, 0, 64, 63, 0] {
            rows.add(Row(row));
        }
        assert_eq!(rows.iter().map(|r| r.0).collect::<Vec<_>>(), [0, 63, 64, 129]);
        assert_eq!(rows.len(), 4);
        assert!(rows.remove(Row(63)) && !rows.remove(Row(63)));
        assert_eq!(rows.next(1), Some(Row(64)));
        let mut rest = Rows::new(130);
        let mut low = Rows::new(130);
        low.add(Row(0));
        rest.difference(&rows, &low);
        assert_eq!(rest.iter().map(|r| r.0).collect::<Vec<_>>(), [64, 129]);
    }
}
