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

    /// What it says now. A quantile is the upper edge of its bucket, at most `max`.
    pub fn spread(&self) -> Spread {
        let counts: Vec<u64> = self.buckets.iter().map(|bucket| bucket.load(Ordering::Relaxed)).collect();
        let (total, max) = (counts.iter().sum::<u64>(), self.max.load(Ordering::Relaxed));
        let quantile = |percent: u64| {
            let rank = (total * percent).div_ceil(100).max(1);
            let mut seen = 0;
            let found = counts.iter().position(|count| {
                seen += count;
                seen >= rank
            });
            found.map_or(0, |bucket| upper_edge(bucket).min(max))
        };
        Spread { p50: quantile(50), p99: quantile(99), max }
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
}
