//! Every dependency that the engine keeps, and the lie that takes it away.
//!
//! What work waits for on its lane stands in `Work::after`: the lanes leave it out. What the engine waits for before it
//! goes on, it asks the lanes: they say too early that a fence has passed. Not here: that an event is recorded again only
//! when it has passed (the lanes' own affair), and what concerns outputs in device memory, which the engine does not have.

use rte::word::Lane;

use super::options::{Options, Statuses};
use super::world::{Deed, Part, Violation};

/// What lanes that lie do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Lie {
    /// Such work does not wait for fences of that lane.
    After(Deed, Lane),
    /// `passed` says so at once of such work; `take` is honest.
    Passed(Deed),
    /// `take` gives the batch of such work back at once; `passed` is honest.
    Taken(Deed),
    /// Both: the dependency is gone, whichever of the engine's questions it was kept by.
    Over(Deed),
}

/// Which models show that a dependency is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Any,
    WithDeferred,
    WithoutDeferred,
    /// Seeds run on the ENCODE lane.
    Aside,
}

/// What comes of a lie.
#[derive(Clone, Copy)]
pub enum Expected {
    /// Within some seeds, this.
    Found(fn(Violation) -> bool),
    /// Nothing: the order of one lane's work implies the dependency.
    Implied,
}

/// How a dependency is taken away.
pub struct Removal {
    pub lie: Lie,
    pub shape: Shape,
    pub expected: Expected,
}

/// Declares the dependencies, and for each of them a test of its name in the module that is given.
#[macro_export]
macro_rules! dependencies {
    ($($(#[$doc:meta])* $dependency:ident => $test:ident,)*) => {
        /// A dependency.
        #[derive(Clone, Copy, PartialEq, Eq, Debug)]
        pub enum Dependency { $($(#[$doc])* $dependency,)* }

        /// Calls `$make!` with all dependencies and the names of their tests.
        #[macro_export]
        macro_rules! for_each_dependency {
            ($make:ident) => { $make! { $($dependency => $test,)* } };
        }
    };
}

dependencies! {
    // ---- Work::after
    /// DEFERRED waits for its batch's HOT.
    HotBeforeDeferred => without_hot_before_deferred,
    /// ENCODE waits for its rows' HOT or seed.
    RowHotBeforeEncode => without_row_hot_before_encode,
    /// ENCODE waits for its rows' DEFERRED.
    RowDeferredBeforeEncode => without_row_deferred_before_encode,

    /// A seed on the ENCODE lane waits for the `detach` of the life before.
    DetachBeforeSeed => without_detach_before_seed,

    // ---- a row's next life
    /// `detach` waits for the row's HOT: on the same lane.
    RowHotBeforeDetach => without_row_hot_before_detach_nothing_changes,
    /// `detach` waits for the row's DEFERRED.
    RowDeferredBeforeDetach => without_row_deferred_before_detach,
    /// `detach` waits for the row's ENCODE.
    RowEncodeBeforeDetach => without_row_encode_before_detach,
    /// The seed of the row's next life waits for its DEFERRED.
    RowDeferredBeforeSeed => without_row_deferred_before_seed,
    /// The seed of the row's next life waits for its ENCODE.
    RowEncodeBeforeSeed => without_row_encode_before_seed,

    // ---- the next step
    /// HOT waits for the row's ENCODE.
    EncodeBeforeHot => without_encode_before_hot,
    /// HOT waits for the row's seed on the ENCODE lane.
    SeedBeforeHot => without_seed_before_hot,
    /// HOT waits for the DEFERRED of the batch before it in its slot.
    SlotDeferredBeforeHot => without_slot_deferred_before_hot,

    // ---- a batch is filled again
    /// HOT's, where it ends the chunk.
    HotBeforeItsBatch => without_hot_before_its_batch,
    /// HOT's that failed as a whole.
    LostHotBeforeItsBatch => without_lost_hot_before_its_batch,
    /// DEFERRED's.
    DeferredBeforeItsBatch => without_deferred_before_its_batch,
    /// ENCODE's.
    EncodeBeforeItsBatch => without_encode_before_its_batch,
    /// A seed's.
    SeedBeforeItsBatch => without_seed_before_its_batch,
    /// A detach's.
    DetachBeforeItsBatch => without_detach_before_its_batch,

    // ---- an output goes out, and its buffer is used again
    /// HOT's is complete.
    HotBeforeItsOutput => without_hot_before_its_output,
    /// DEFERRED's is complete.
    DeferredBeforeItsOutput => without_deferred_before_its_output,

    /// HOT's is written no more while a consumer has it.
    HotBeforeItsConsumer => without_hot_before_its_consumer,
    /// DEFERRED's is written no more while a consumer has it.
    DeferredBeforeItsConsumer => without_deferred_before_its_consumer,

    // ---- a lent value is given back
    /// One that HOT was shown.
    HotBeforeItsValues => without_hot_before_its_values,
    /// One that DEFERRED was shown.
    DeferredBeforeItsValues => without_deferred_before_its_values,
    /// One that ENCODE was shown.
    EncodeBeforeItsValues => without_encode_before_its_values,
    /// One that a seed was shown.
    SeedBeforeItsValues => without_seed_before_its_values,
}

impl Dependency {
    /// Why such work may wait for a fence of another lane; `None`: for no reason that is known here.
    pub fn of_after(deed: Deed, lane: Lane) -> Option<Dependency> {
        match (deed, lane) {
            (Deed::Deferred, Lane::Hot) => Some(Dependency::HotBeforeDeferred),
            (Deed::Encode, Lane::Hot) => Some(Dependency::RowHotBeforeEncode),
            (Deed::Encode, Lane::Deferred) => Some(Dependency::RowDeferredBeforeEncode),
            (Deed::Seed, Lane::Hot) => Some(Dependency::DetachBeforeSeed),
            (Deed::Seed, Lane::Deferred | Lane::Encode)
            | (Deed::Deferred, Lane::Deferred | Lane::Encode)
            | (Deed::Encode, Lane::Encode)
            | (Deed::Hot | Deed::Detach, _) => None,
        }
    }

    /// How it is taken away, and what comes of that.
    pub fn removal(self) -> Removal {
        use Expected::{Found, Implied};
        use Shape::{Any, Aside, WithDeferred, WithoutDeferred};
        let (lie, shape, expected) = match self {
            Dependency::HotBeforeDeferred => (Lie::After(Deed::Deferred, Lane::Hot), WithDeferred, Found(is_latent)),
            Dependency::RowHotBeforeEncode => (Lie::After(Deed::Encode, Lane::Hot), Any, Found(is_conditioning)),
            Dependency::RowDeferredBeforeEncode => {
                (Lie::After(Deed::Encode, Lane::Deferred), WithDeferred, Found(is_conditioning))
            }
            Dependency::DetachBeforeSeed => (Lie::After(Deed::Seed, Lane::Hot), Aside, Found(is_turnover)),
            Dependency::RowHotBeforeDetach => (Lie::Passed(Deed::Hot), WithDeferred, Implied),
            Dependency::RowDeferredBeforeDetach => (Lie::Over(Deed::Deferred), WithDeferred, Found(is_after_detach)),
            Dependency::RowEncodeBeforeDetach => (Lie::Passed(Deed::Encode), Any, Found(is_after_detach)),
            Dependency::RowDeferredBeforeSeed => (Lie::Over(Deed::Deferred), WithDeferred, Found(is_of_old_life)),
            Dependency::RowEncodeBeforeSeed => (Lie::Passed(Deed::Encode), Any, Found(is_of_old_life)),
            Dependency::EncodeBeforeHot => (Lie::Taken(Deed::Encode), Any, Found(is_conditioning)),
            Dependency::SeedBeforeHot => (Lie::Taken(Deed::Seed), Aside, Found(is_before_seed)),
            Dependency::SlotDeferredBeforeHot => (Lie::Over(Deed::Deferred), WithDeferred, Found(is_latent)),
            Dependency::HotBeforeItsBatch => (Lie::Over(Deed::Hot), WithoutDeferred, Found(is_of_arrays)),
            Dependency::LostHotBeforeItsBatch => (Lie::Taken(Deed::Hot), WithDeferred, Found(is_of_arrays)),
            Dependency::DeferredBeforeItsBatch => (Lie::Over(Deed::Deferred), WithDeferred, Found(is_of_arrays)),
            Dependency::EncodeBeforeItsBatch => (Lie::Taken(Deed::Encode), Any, Found(is_of_arrays)),
            Dependency::SeedBeforeItsBatch => (Lie::Taken(Deed::Seed), Any, Found(is_of_arrays)),
            Dependency::DetachBeforeItsBatch => (Lie::Taken(Deed::Detach), Any, Found(is_of_arrays)),
            Dependency::HotBeforeItsOutput => (Lie::Over(Deed::Hot), WithoutDeferred, Found(is_of_output)),
            Dependency::DeferredBeforeItsOutput => (Lie::Over(Deed::Deferred), WithDeferred, Found(is_of_output)),
            Dependency::HotBeforeItsConsumer => (Lie::Over(Deed::Hot), WithoutDeferred, Found(is_of_consumer)),
            Dependency::DeferredBeforeItsConsumer => (Lie::Over(Deed::Deferred), WithDeferred, Found(is_of_consumer)),
            Dependency::HotBeforeItsValues => (Lie::Over(Deed::Hot), WithoutDeferred, Found(is_of_value)),
            Dependency::DeferredBeforeItsValues => (Lie::Over(Deed::Deferred), WithDeferred, Found(is_of_value)),
            Dependency::EncodeBeforeItsValues => (Lie::Taken(Deed::Encode), Any, Found(is_of_value)),
            Dependency::SeedBeforeItsValues => (Lie::Taken(Deed::Seed), Any, Found(is_of_value)),
        };
        Removal { lie, shape, expected }
    }
}

impl Removal {
    /// The options of `seed`, fit to show what comes of the lie: a lane that lies about fences tells statuses at once.
    pub fn options(&self, seed: u64) -> Options {
        let options = Options { statuses: Statuses::AtReturn, ..Options::of(seed) };
        match self.shape {
            Shape::Any => options,
            Shape::WithDeferred => Options { has_deferred: true, ..options },
            Shape::WithoutDeferred => Options { has_deferred: false, ..options },
            Shape::Aside => Options { seeds_aside: true, ..options },
        }
    }
}

fn is_latent(violation: Violation) -> bool {
    violation == Violation::Latent
}

fn is_conditioning(violation: Violation) -> bool {
    matches!(violation, Violation::Order(Part::Conditioning) | Violation::Overlap(Part::Conditioning))
}

fn is_turnover(violation: Violation) -> bool {
    violation == Violation::Turnover
}

fn is_before_seed(violation: Violation) -> bool {
    violation == Violation::BeforeSeed
}

fn is_after_detach(violation: Violation) -> bool {
    violation == Violation::AfterDetach
}

fn is_of_old_life(violation: Violation) -> bool {
    violation == Violation::OldLife
}

fn is_of_arrays(violation: Violation) -> bool {
    violation == Violation::ArraysChanged
}

fn is_of_output(violation: Violation) -> bool {
    violation == Violation::OutputEarly
}

fn is_of_consumer(violation: Violation) -> bool {
    violation == Violation::OutputHeld
}

fn is_of_value(violation: Violation) -> bool {
    violation == Violation::ValueReleased
}
