//! What differs from seed to seed: the model's shape, the engine's plan, and how the lanes behave.

use rte::word::Lane;

use crate::random::Random;

/// When the engine may see what calls have said.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Statuses {
    /// When `submit` returns, as with CUDA.
    AtReturn,
    /// When the work is done, as with threads.
    AtFence,
}

/// How fast which lane is.
#[derive(Clone, Copy, Debug)]
pub struct Temper {
    /// By lane: how likely its work is the next to go on.
    pub weights: [u64; Lane::COUNT],
    /// Steps of work between two questions of the engine, at most.
    pub steps: u64,
}

/// One run's.
#[derive(Clone, Debug)]
pub struct Options {
    pub seed: u64,
    pub rows: u32,
    pub has_deferred: bool,
    pub has_encode: bool,
    pub is_pipelined: bool,
    pub is_retry_safe: bool,
    pub seeds_aside: bool,
    /// The model has a `seed` hook; else its rows need no first state.
    pub has_seed: bool,
    /// The model has a `detach` hook.
    pub has_detach: bool,
    pub is_dense: bool,
    pub statuses: Statuses,
    pub encode_queues: usize,
    pub temper: Temper,
    /// One call in so many fails as a whole; one row in so many alone. 0: none.
    pub whole_failures: u64,
    pub row_failures: u64,
    pub ticks: u64,
    /// Chunks that a session's ring holds, and that a consumer may hold.
    pub depth: usize,
    pub held: usize,
    /// Chunks come out before they are complete, each with an event.
    pub on_device: bool,
    /// Consumers use chunks on streams of their own.
    pub has_streams: bool,
    /// Steps of their work between two looks of anybody, at most.
    pub consumer_steps: u64,
    /// Outputs that outlive the engine, at most.
    pub outliving: usize,
    /// Outputs are pointers of the model's own.
    pub owns_outputs: bool,
}

impl Options {
    /// Those of `seed`.
    pub fn of(seed: u64) -> Options {
        let mut random = Random::stream(seed, 1);
        let weights = std::array::from_fn(|_| random.pick(&[1, 4, 16]));
        let options = Options {
            seed,
            rows: 2 + random.below(3) as u32,
            has_deferred: !random.once_in(3),
            has_encode: !random.once_in(4),
            is_pipelined: !random.once_in(3),
            is_retry_safe: random.once_in(2),
            seeds_aside: random.once_in(4),
            has_seed: true,
            has_detach: true,
            is_dense: random.once_in(3),
            statuses: if random.once_in(4) { Statuses::AtFence } else { Statuses::AtReturn },
            encode_queues: 1 + random.below(3) as usize,
            temper: Temper { weights, steps: random.pick(&[1, 2, 6]) },
            whole_failures: random.pick(&[0, 16, 60]),
            row_failures: random.pick(&[0, 60, 200]),
            ticks: 20 + random.below(60),
            depth: 1 + random.below(3) as usize,
            held: random.below(3) as usize,
            on_device: random.once_in(2),
            has_streams: random.once_in(2),
            consumer_steps: random.pick(&[1, 2, 6]),
            outliving: random.below(4) as usize,
            owns_outputs: random.once_in(2),
        };
        Options {
            has_streams: options.has_streams || options.on_device,
            has_detach: !random.once_in(4),
            has_seed: options.seeds_aside || !random.once_in(4),
            ..options
        }
    }
}
