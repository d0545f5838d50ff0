//! Every dependency that the engine keeps, and the lie that takes it away.
//!
//! What work waits for on its lane stands in `Work::after`: the lanes leave it out. What the engine waits for before it
//! goes on, it asks the lanes: they say too early that a fence has passed. What an output waits for before its buffer is
//! used again, it asks its marks: those say so too early. Not here: that an event is recorded again only when it has passed
//! (the lanes' own affair; that nobody has it any more is the engine's).

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
    /// Both, of rows that are run alone.
    OverAlone(Deed),
    /// A chunk's event says at once that it has passed, where its buffer is asked for.
    Completed,
    /// A consumer's stream does not wait for a chunk's event.
    Ready,
    /// A mark on a consumer's stream says at once that it has passed.
    Released,
    /// A chunk's event is recorded again while somebody has it.
    Recorded,
}

/// Which models show that a dependency is gone.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Shape {
    Any,
    WithDeferred,
    WithoutDeferred,
    /// Seeds run on the ENCODE lane.
    Aside,
    /// They do, and a life ends without a call.
    AsideWithoutDetach,
    /// Rows need no seed.
    WithoutSeed,
    /// Outputs stay on the device.
    Device,
    DeviceWithPointers,
    DeviceWithDeferred,
    DeviceWithoutDeferred,
    /// DEFERRED runs its rows alone now and then.
    DeviceAlone,
    /// Outputs are the host's memory, and used on streams.
    Streams,
    StreamsWithPointers,
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

    /// The first ENCODE of a life that needed no seed waits for the `detach` of the life before.
    DetachBeforeEncode => without_detach_before_encode,

    // ---- a row's next life
    /// `detach` waits for the row's HOT: on the same lane. All that touches a row in its HOT is submitted before its
    /// `detach`, and to the same queue, so no order of work can tell whether the engine has waited, too.
    RowHotBeforeDetach => without_row_hot_before_detach_nothing_changes,
    /// Where there is no `detach`, the seed of the row's next life waits for its HOT: it may be on another lane.
    RowHotBeforeSeed => without_row_hot_before_seed,
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

    // ---- outputs on a device: nobody waits for a batch when its chunks go out
    /// HOT waits for the DEFERRED of the batch before it in its slot.
    DeviceDeferredBeforeSlot => without_device_deferred_before_its_slot,
    /// And for its rows that DEFERRED has run alone.
    DeviceAloneBeforeSlot => without_device_alone_before_its_slot,
    /// The arrays of such a DEFERRED are filled again.
    DeviceDeferredBeforeItsBatch => without_device_deferred_before_its_batch,
    /// Those of one that was run alone.
    DeviceAloneBeforeItsBatch => without_device_alone_before_its_batch,
    /// Those of a HOT that ends the chunk.
    DeviceHotBeforeItsBatch => without_device_hot_before_its_batch,
    /// A buffer that such a DEFERRED fills is filled again.
    DeviceDeferredBeforeItsBuffer => without_device_deferred_before_its_buffer,
    /// One that HOT fills.
    DeviceHotBeforeItsBuffer => without_device_hot_before_its_buffer,
    /// A lent value that DEFERRED was shown is given back.
    DeviceDeferredBeforeItsValues => without_device_deferred_before_its_values,
    /// One that HOT was shown.
    DeviceHotBeforeItsValues => without_device_hot_before_its_values,
    /// A consumer's stream waits for the chunk's event.
    DeviceReadyBeforeItsReader => without_device_ready_before_its_reader,
    /// A buffer is taken when the batch that filled it is done. The lane that ends chunks implies it: a batch gets its
    /// buffers for those that the batch before it in its slot gave away, none of which was filled by a later batch than
    /// that; and it is not filled before that one is done (`DeviceDeferredBeforeSlot`). A row's buffers go with a new quota
    /// only when the row is free.
    DeviceWriterBeforeItsBuffer => without_device_writer_before_its_buffer_nothing_changes,
    /// And what its consumer has enqueued.
    DeviceReaderBeforeItsBuffer => without_device_reader_before_its_buffer,
    /// A pointer of the model's own comes back when the batch that writes there is done.
    DeviceWriterBeforeItsPointer => without_device_writer_before_its_pointer,
    /// And what its consumer has enqueued.
    DeviceReaderBeforeItsPointer => without_device_reader_before_its_pointer,
    /// An event is recorded again when no chunk has it.
    DeviceChunkBeforeItsEvent => without_device_chunk_before_its_event,

    // ---- outputs in the host's memory, used on streams
    /// A buffer is used again when what its consumer has enqueued is done.
    ReaderBeforeItsBuffer => without_reader_before_its_buffer,
    /// A pointer of the model's own comes back then.
    ReaderBeforeItsPointer => without_reader_before_its_pointer,
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
        use Shape::{Any, Aside, AsideWithoutDetach, Device, DeviceAlone, DeviceWithDeferred, DeviceWithoutDeferred};
        use Shape::{DeviceWithPointers, Streams, StreamsWithPointers, WithDeferred, WithoutDeferred, WithoutSeed};
        let (lie, shape, expected) = match self {
            Dependency::HotBeforeDeferred => (Lie::After(Deed::Deferred, Lane::Hot), WithDeferred, Found(is_latent)),
            Dependency::RowHotBeforeEncode => (Lie::After(Deed::Encode, Lane::Hot), Any, Found(is_conditioning)),
            Dependency::RowDeferredBeforeEncode => {
                (Lie::After(Deed::Encode, Lane::Deferred), WithDeferred, Found(is_conditioning))
            }
            Dependency::DetachBeforeSeed => (Lie::After(Deed::Seed, Lane::Hot), Aside, Found(is_turnover)),
            Dependency::DetachBeforeEncode => (Lie::After(Deed::Encode, Lane::Hot), WithoutSeed, Found(is_turnover)),
            Dependency::RowHotBeforeDetach => (Lie::Passed(Deed::Hot), WithDeferred, Implied),
            Dependency::RowHotBeforeSeed => (Lie::Passed(Deed::Hot), AsideWithoutDetach, Found(is_of_old_life)),
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
            Dependency::DeviceDeferredBeforeSlot => (Lie::Over(Deed::Deferred), DeviceWithDeferred, Found(is_latent)),
            Dependency::DeviceAloneBeforeSlot => (Lie::OverAlone(Deed::Deferred), DeviceAlone, Found(is_latent)),
            Dependency::DeviceDeferredBeforeItsBatch => {
                (Lie::Over(Deed::Deferred), DeviceWithDeferred, Found(is_of_arrays))
            }
            Dependency::DeviceAloneBeforeItsBatch => (Lie::OverAlone(Deed::Deferred), DeviceAlone, Found(is_of_arrays)),
            Dependency::DeviceHotBeforeItsBatch => (Lie::Over(Deed::Hot), DeviceWithoutDeferred, Found(is_of_arrays)),
            Dependency::DeviceDeferredBeforeItsBuffer => {
                (Lie::Over(Deed::Deferred), DeviceWithDeferred, Found(is_of_writer))
            }
            Dependency::DeviceHotBeforeItsBuffer => (Lie::Over(Deed::Hot), DeviceWithoutDeferred, Found(is_of_writer)),
            Dependency::DeviceDeferredBeforeItsValues => {
                (Lie::Over(Deed::Deferred), DeviceWithDeferred, Found(is_of_value))
            }
            Dependency::DeviceHotBeforeItsValues => (Lie::Over(Deed::Hot), DeviceWithoutDeferred, Found(is_of_value)),
            Dependency::DeviceReadyBeforeItsReader => (Lie::Ready, Device, Found(is_of_output)),
            Dependency::DeviceWriterBeforeItsBuffer => (Lie::Completed, Device, Implied),
            Dependency::DeviceWriterBeforeItsPointer => (Lie::Completed, DeviceWithPointers, Found(is_of_pointer)),
            Dependency::DeviceReaderBeforeItsPointer => (Lie::Released, DeviceWithPointers, Found(is_of_pointer)),
            Dependency::DeviceReaderBeforeItsBuffer => (Lie::Released, Device, Found(is_of_consumer)),
            Dependency::DeviceChunkBeforeItsEvent => (Lie::Recorded, Device, Found(is_of_event)),
            Dependency::ReaderBeforeItsBuffer => (Lie::Released, Streams, Found(is_of_consumer)),
            Dependency::ReaderBeforeItsPointer => (Lie::Released, StreamsWithPointers, Found(is_of_pointer)),
        };
        Removal { lie, shape, expected }
    }
}

impl Removal {
    /// The options of `seed`, fit to show what comes of the lie: a lane that lies about fences tells statuses at once.
    pub fn options(&self, seed: u64) -> Options {
        let options =
            Options { statuses: Statuses::AtReturn, on_device: false, owns_outputs: false, ..Options::of(seed) };
        let options = Options { has_seed: true, ..options };
        let device = Options { on_device: true, has_streams: true, ..options.clone() };
        match self.shape {
            Shape::Any => Options { has_detach: true, ..options },
            Shape::WithDeferred => Options { has_deferred: true, has_detach: true, ..options },
            Shape::WithoutDeferred => Options { has_deferred: false, ..options },
            Shape::Aside => Options { seeds_aside: true, has_detach: true, ..options },
            Shape::WithoutSeed => {
                Options { has_encode: true, seeds_aside: false, has_seed: false, has_detach: true, ..options }
            }
            Shape::AsideWithoutDetach => {
                Options { has_deferred: true, seeds_aside: true, has_detach: false, ..options }
            }
            Shape::Device => device,
            Shape::DeviceWithDeferred => Options { has_deferred: true, ..device },
            Shape::DeviceWithoutDeferred => Options { has_deferred: false, ..device },
            Shape::DeviceAlone => Options { has_deferred: true, whole_failures: 3, ..device },
            Shape::DeviceWithPointers => Options { owns_outputs: true, ..device },
            Shape::Streams => Options { has_streams: true, ..options },
            Shape::StreamsWithPointers => Options { has_streams: true, owns_outputs: true, ..options },
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

fn is_of_writer(violation: Violation) -> bool {
    violation == Violation::OutputReused
}

fn is_of_pointer(violation: Violation) -> bool {
    violation == Violation::PointerEarly
}

fn is_of_event(violation: Violation) -> bool {
    violation == Violation::EventReused
}

fn is_of_value(violation: Violation) -> bool {
    violation == Violation::ValueReleased
}
