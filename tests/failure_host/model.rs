//! A model that fails for one session, in one place, alone or with the whole call.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use rte::abi::message::rte_stream;
use rte::abi::model::{RTE_DEFERRED, RTE_ENCODE, RTE_HOT, RTE_STAGE_SEED, rte_batch, rte_stage};
use rte::abi::status::rte_status;

use crate::host::batch::{Batch, Member};
use crate::host::device::Device;
use crate::host::engine::OK;

pub const ROWS: usize = 8;
pub const CHUNK_BYTES: usize = 16;
/// The session that fails.
pub const BAD: u64 = 9;
/// How.
pub const STATUS: rte_status = -1001;
/// In HOT and DEFERRED: from this chunk on.
pub const FROM: u64 = 5;
/// In ENCODE: with this prompt.
pub const BAD_PROMPT: &[u8] = b"bad";
pub const PROMPT: usize = 0;

/// Where it fails.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Seed,
    Hot,
    Deferred,
    Encode,
}

impl Place {
    /// What notices call it.
    pub fn stage(self) -> u32 {
        match self {
            Place::Seed => RTE_STAGE_SEED,
            Place::Hot => 0,
            Place::Encode => 1,
            Place::Deferred => 2,
        }
    }

    /// Of its work on a device, where a tick comes each 10.
    fn length(self) -> u64 {
        match self {
            Place::Seed => 5,
            Place::Hot => 3,
            Place::Deferred => 4,
            Place::Encode => 15,
        }
    }
}

/// What fails for ever.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Failure {
    pub place: Place,
    /// The call returns it; else the row alone is marked.
    pub is_whole: bool,
}

/// See the module's comment.
pub struct Model {
    pub failure: Failure,
    pub is_failing: AtomicBool,
    pub has_deferred: bool,
    pub device: Option<Arc<Device>>,
    /// By generation: seeds that succeeded, and detaches.
    pub lives: Mutex<BTreeMap<u64, (u64, u64)>>,
}

impl Model {
    pub fn stages(&self) -> Vec<rte_stage> {
        let stage = |lane, run: StageFn| rte_stage { name: null(), run: Some(run), lane, flags: 0, reserved: 0 };
        let mut stages = vec![stage(RTE_HOT, hot), stage(RTE_ENCODE, encode)];
        if self.has_deferred {
            stages.push(stage(RTE_DEFERRED, deferred));
        }
        stages
    }

    fn fails(&self, place: Place, batch: &Batch, member: Member) -> bool {
        let is_there = match place {
            Place::Seed => true,
            Place::Hot | Place::Deferred => member.age >= FROM,
            Place::Encode => batch.value(member, PROMPT) == Some(BAD_PROMPT),
        };
        place == self.failure.place && member.session == BAD && is_there && self.is_failing.load(SeqCst)
    }

    fn call(&self, place: Place, batch: &mut Batch, stream: rte_stream) -> rte_status {
        if let Some(device) = &self.device {
            device.enqueue(stream, place.length());
        }
        let (bad, good): (Vec<Member>, Vec<Member>) =
            batch.members().into_iter().partition(|member| self.fails(place, batch, *member));
        if self.failure.is_whole && !bad.is_empty() {
            return STATUS;
        }
        bad.into_iter().for_each(|member| batch.fail(member, STATUS));
        for member in good {
            if batch.has_output(member) {
                batch.write(member, &chunk(member.session, member.age));
            }
            if place == Place::Seed {
                self.lives.lock().unwrap().entry(member.generation).or_default().0 += 1;
            }
        }
        OK
    }
}

/// The bytes of a chunk.
pub fn chunk(session: u64, index: u64) -> Vec<u8> {
    [session.to_ne_bytes(), index.to_ne_bytes()].concat()
}

type StageFn = unsafe extern "C-unwind" fn(*mut c_void, *mut rte_batch, rte_stream) -> rte_status;

/// # Safety
/// What the engine gives a callback of this model.
unsafe fn run(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream, place: Place) -> rte_status {
    // SAFETY: the caller's promise; the model outlives its engine.
    let (model, mut batch) = unsafe { (&*user.cast::<Model>(), Batch::new(batch, ROWS)) };
    model.call(place, &mut batch, stream)
}

macro_rules! callbacks {
    ($($name:ident: $place:expr),*) => {$(
        pub unsafe extern "C-unwind" fn $name(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
            // SAFETY: a callback of the engine's.
            unsafe { run(user, batch, stream, $place) }
        }
    )*};
}

callbacks!(seed: Place::Seed, hot: Place::Hot, deferred: Place::Deferred, encode: Place::Encode);

pub unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> rte_status {
    // SAFETY: a callback of the engine's; the model outlives its engine.
    let (model, batch) = unsafe { (&*user.cast::<Model>(), Batch::new(batch, ROWS)) };
    for member in batch.members() {
        model.lives.lock().unwrap().entry(member.generation).or_default().1 += 1;
    }
    OK
}
