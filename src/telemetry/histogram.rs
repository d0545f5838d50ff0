//! Durations by their size: recording is one addition, neither allocates nor locks.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::word::Nanos;

/// Each power of two is cut into so many steps: a value is known to 1/16, about 6 per cent.
const STEPS: usize = 16;
const STEP_BITS: u32 = STEPS.trailing_zeros();
const BUCKETS: usize = (64 - STEP_BITS as usize + 1) * STEPS;

/// Written by the engine's thread, read by any.
pub struct Histogram {
    buckets: Box<[AtomicU64]>,
    max: AtomicU64,
}

/// What a histogram says. Zero where nothing was recorded.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Spread {
    /// Half of the values are at most this.
    pub p50: Nanos,
    /// 99 of 100 are.
    pub p99: Nanos,
    /// All are; exact.
    pub max: Nanos,
}

impl Default for Histogram {
    fn default() -> Histogram {
        Histogram { buckets: (0..BUCKETS).map(|_| AtomicU64::new(0)).collect(), max: AtomicU64::new(0) }
    }
}

impl Histogram {
    /// Counts one value.
    pub fn record(&self, value: Nanos) {
        let bucket = &self.buckets[bucket_of(value)];
        // One writer: a load and a store are enough, and cheaper than a locked addition.
        bucket.store(bucket.load(Ordering::Relaxed) + 1, Ordering::Relaxed);
        if value > self.max.load(Ordering::Relaxed) {
            self.max.store(value, Ordering::Relaxed);
        }
    }

    /// What it says now. A quantile is the upper edge of its bucket, at most `max`. Looks twice at the buckets up to that of
    /// the largest value, and keeps nothing.
    pub fn spread(&self) -> Spread {
        let max = self.max.load(Ordering::Relaxed);
        let counts = || self.buckets[..=bucket_of(max)].iter().map(|bucket| bucket.load(Ordering::Relaxed));
        let total = counts().sum::<u64>();
        let rank = |percent: u64| (total * percent).div_ceil(100).max(1);
        let (mut seen, mut p50, mut p99) = (0, None, None);
        // What is recorded meanwhile makes them more: each rank of the first look is found in the second.
        for (bucket, count) in counts().enumerate() {
            seen += count;
            if p50.is_none() && seen >= rank(50) {
                p50 = Some(bucket);
            }
            if seen >= rank(99) {
                p99 = Some(bucket);
                break;
            }
        }
        let [p50, p99] = [p50, p99].map(|bucket| bucket.map_or(0, |bucket| upper_edge(bucket).min(max)));
        Spread { p50, p99, max }
    }
}

fn bucket_of(value: Nanos) -> usize {
    if value < STEPS as u64 {
        return value as usize;
    }
    let power = value.ilog2() - STEP_BITS;
    (power as usize + 1) * STEPS + (value >> power) as usize - STEPS
}

fn upper_edge(bucket: usize) -> Nanos {
    if bucket < STEPS {
        return bucket as u64;
    }
    let (power, step) = (bucket / STEPS - 1, bucket % STEPS);
    let above = (STEPS + step + 1) as u128;
    u64::try_from((above << power) - 1).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_value_lies_in_a_bucket_whose_edge_is_near() {
        for value in
            (0..64).flat_map(|bit| [1u64 << bit, (1u64 << bit) | (1 << bit >> 1), (1u64 << bit) - 1]).chain([u64::MAX])
        {
            let edge = upper_edge(bucket_of(value));
            assert!(edge >= value && edge - value <= value / 16, "{value} {edge}");
        }
    }

    #[test]
    fn quantiles_are_of_what_was_recorded() {
        let histogram = Histogram::default();
        assert_eq!(histogram.spread(), Spread::default());
        (1..=100).for_each(|value| histogram.record(value * 1000));
        let spread = histogram.spread();
        assert_eq!(spread.max, 100_000);
        assert!((50_000..54_000).contains(&spread.p50) && (99_000..=100_000).contains(&spread.p99));
    }

    #[test]
    fn few_values_small_ones_and_the_largest_have_quantiles() {
        let histogram = Histogram::default();
        histogram.record(0);
        assert_eq!(histogram.spread(), Spread::default());
        histogram.record(7);
        assert_eq!(histogram.spread(), Spread { p50: 0, p99: 7, max: 7 });
        histogram.record(u64::MAX);
        assert_eq!(histogram.spread(), Spread { p50: 7, p99: u64::MAX, max: u64::MAX });
        (0..200).for_each(|_| histogram.record(7));
        assert_eq!(histogram.spread(), Spread { p50: 7, p99: 7, max: u64::MAX });
    }
}
