//! A host that counts for itself what the engine counts: from what it pushed, what its callbacks were called with and said,
//! and what it popped.
//!
//! - [`witness`]: the model, whose callbacks note each call, and fail where the host has ordered it;
//! - [`books`]: what the host makes of that, by the words of rte.h alone;
//! - [`ring`]: chunks that wait and outputs in hand, by row;
//! - [`run`]: a random run, and the comparison after each tick.

pub mod books;
pub mod ring;
pub mod run;
pub mod witness;

/// What must be exact or, where the library keeps a range, within that: quantiles of so many values, to 1/16.
pub fn expect_spread(values: &mut [u64], said: [u64; 3], what: &str) {
    values.sort_unstable();
    let [p50, p99, max] = said;
    let Some(largest) = values.last().copied() else {
        assert_eq!(said, [0; 3], "{what}: nothing was recorded");
        return;
    };
    assert_eq!(max, largest, "{what}: the largest");
    for (percent, said) in [(50, p50), (99, p99)] {
        let exact = values[(values.len() * percent).div_ceil(100) - 1];
        assert!(
            (exact..=exact + exact / 16).contains(&said),
            "{what}: {percent} per cent are at most {exact}, not {said}"
        );
    }
}
