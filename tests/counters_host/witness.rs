//! A model whose callbacks note each call, and fail where the host has ordered it.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use rte::abi::message::rte_stream;
use rte::abi::model::{
    RTE_BYTES, RTE_DEFERRED, RTE_ENCODE, RTE_HOT, RTE_KEY_HEAVY, RTE_MODEL_DENSE, RTE_MODEL_NO_MIDRUN,
    RTE_MODEL_RETRY_SAFE, RTE_MODEL_SEED_ASIDE, rte_batch, rte_key, rte_model, rte_stage, rte_stage_fn,
};
use rte::abi::options::rte_clock;
use rte::abi::status::rte_status;

use crate::host::batch::Batch;
use crate::host::device::Device;
use crate::host::engine::{AGAIN, OK, descriptor_size, zeroed};

pub const CHUNK_BYTES: usize = 16;
/// What a call fails with as a whole, and a row alone.
pub const CALL: rte_status = -1001;
pub const ROW: rte_status = -1002;

/// A callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs)]
pub enum Place {
    Ready,
    Seed,
    Hot,
    Deferred,
    Encode,
    Detach,
    Finalize,
}

/// A row of a call.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    pub row: usize,
    pub session: u64,
    pub generation: u64,
    /// What its status was set to.
    pub status: rte_status,
    /// Bytes that it gave.
    pub size: usize,
}

/// A call, and what it returned.
#[derive(Clone, Debug)]
pub struct Call {
    pub place: Place,
    pub parts: Vec<Part>,
    pub status: rte_status,
    /// On the ENCODE lane: the time of the lanes at which it is done.
    pub done_at: u64,
}

/// What is to fail in the next tick.
#[derive(Clone, Default, Debug)]
pub struct Orders {
    /// Calls that fail as a whole; `ready` says AGAIN, or fails.
    pub calls: Vec<Place>,
    pub is_gated: bool,
    /// Rows that fail alone: of this session, in this callback.
    pub rows: Vec<(Place, u64)>,
    /// Whoever runs with this session fails as a whole.
    pub poison: Option<(Place, u64)>,
    /// Sessions that give no bytes.
    pub silent: Vec<u64>,
    /// Until when ENCODE takes, by the time of the lanes.
    pub encode_until: u64,
    /// Nanoseconds that a call takes by the engine's clock.
    pub takes: u64,
}

#[derive(Clone, Copy)]
pub struct Nature {
    pub rows: u32,
    pub is_dense: bool,
    pub is_retry_safe: bool,
    pub has_deferred: bool,
    pub seeds_aside: bool,
    pub is_no_midrun: bool,
}

pub struct Witness {
    nature: Nature,
    /// Streams; inline and on threads there are none.
    device: Option<Arc<Device>>,
    /// On threads: the time of the lanes.
    is_timed: bool,
    /// The engine's clock.
    now: AtomicU64,
    state: Mutex<(Orders, Vec<Call>)>,
}

impl Witness {
    pub fn new(nature: Nature, device: Option<Arc<Device>>, is_timed: bool) -> Arc<Witness> {
        Arc::new(Witness { nature, device, is_timed, now: AtomicU64::new(1_000_000), state: Mutex::default() })
    }

    pub fn stages(&self) -> Vec<rte_stage> {
        let stage = |run: rte_stage_fn, lane| rte_stage { name: std::ptr::null(), run, lane, flags: 0, reserved: 0 };
        let mut stages = vec![stage(Some(hot), RTE_HOT), stage(Some(encode), RTE_ENCODE)];
        if self.nature.has_deferred {
            stages.push(stage(Some(deferred), RTE_DEFERRED));
        }
        stages
    }

    /// A heavy key and a cheap one.
    pub fn keys() -> [rte_key; 2] {
        let key = |flags| rte_key { name: std::ptr::null(), size: 0, r#type: RTE_BYTES, merge: 0, flags, reserved: 0 };
        [key(RTE_KEY_HEAVY), key(0)]
    }

    /// Without its stages and keys. The witness outlives the engine.
    pub fn table(&self) -> rte_model {
        let Nature { is_dense, is_retry_safe, seeds_aside, is_no_midrun, rows, .. } = self.nature;
        let flags = [
            (is_dense, RTE_MODEL_DENSE),
            (is_retry_safe, RTE_MODEL_RETRY_SAFE),
            (seeds_aside, RTE_MODEL_SEED_ASIDE),
            (is_no_midrun, RTE_MODEL_NO_MIDRUN),
        ];
        rte_model {
            struct_size: descriptor_size::<rte_model>(),
            flags: flags.into_iter().filter(|(is_set, _)| *is_set).fold(0, |all, (_, flag)| all | flag),
            user: std::ptr::from_ref(self).cast_mut().cast(),
            max_sessions: rows,
            chunk_bytes: CHUNK_BYTES,
            ready: Some(ready),
            seed: Some(seed),
            detach: Some(detach),
            finalize: Some(finalize),
            // SAFETY: numbers, pointers, and functions that may be absent.
            ..unsafe { zeroed() }
        }
    }

    pub fn clock(&self) -> rte_clock {
        rte_clock {
            struct_size: descriptor_size::<rte_clock>(),
            reserved: 0,
            user: std::ptr::from_ref(self).cast_mut().cast(),
            now: Some(now),
            sleep_until: Some(sleep_until),
        }
    }

    pub fn now(&self) -> u64 {
        self.now.load(Relaxed)
    }

    pub fn pass(&self, time: u64) {
        self.now.fetch_add(time, Relaxed);
    }

    fn state(&self) -> MutexGuard<'_, (Orders, Vec<Call>)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// From now on.
    pub fn order(&self, orders: Orders) {
        self.state().0 = orders;
    }

    pub fn encode_until(&self) -> u64 {
        self.state().0.encode_until
    }

    pub fn takes(&self) -> u64 {
        self.state().0.takes
    }

    /// Since the last time.
    pub fn take_calls(&self) -> Vec<Call> {
        std::mem::take(&mut self.state().1)
    }

    fn call(&self, place: Place, batch: &mut Batch, stream: rte_stream) -> rte_status {
        let mut state = self.state();
        let orders = state.0.clone();
        self.pass(orders.takes);
        let ends_chunk = place == if self.nature.has_deferred { Place::Deferred } else { Place::Hot };
        let mut parts = Vec::new();
        for member in batch.members() {
            let fails = orders.rows.contains(&(place, member.session));
            // What detach finds in its row's status is no answer.
            let status = if fails && place != Place::Detach { ROW } else { OK };
            if fails && !matches!(place, Place::Detach | Place::Ready | Place::Finalize) {
                batch.fail(member, ROW);
            }
            let size = if ends_chunk && !orders.silent.contains(&member.session) { CHUNK_BYTES } else { 0 };
            if size > 0 {
                batch.write(member, &[1; CHUNK_BYTES]);
            }
            let (row, session, generation) = (member.row, member.session, member.generation);
            parts.push(Part { row, session, generation, status, size });
        }
        let is_poisoned = orders
            .poison
            .is_some_and(|(where_, session)| where_ == place && parts.iter().any(|part| part.session == session));
        let status = match place {
            Place::Ready if orders.is_gated => AGAIN,
            _ if orders.calls.contains(&place) || is_poisoned => CALL,
            _ => OK,
        };
        let is_beside = place == Place::Encode || place == Place::Seed && self.nature.seeds_aside;
        let done_at = match &self.device {
            Some(device) if is_beside => device.finish_at(stream, orders.encode_until),
            None if is_beside && self.is_timed => orders.encode_until,
            _ => 0,
        };
        state.1.push(Call { place, parts, status, done_at });
        status
    }
}

macro_rules! callbacks {
    ($($name:ident: $place:expr),*) => {$(
        unsafe extern "C-unwind" fn $name(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> i32 {
            // SAFETY: the witness outlives its engine; the batch of a call.
            unsafe {
                let witness = &*user.cast::<Witness>();
                witness.call($place, &mut Batch::new(batch, witness.nature.rows as usize), stream)
            }
        }
    )*};
}

callbacks!(
    ready: Place::Ready,
    seed: Place::Seed,
    hot: Place::Hot,
    deferred: Place::Deferred,
    encode: Place::Encode,
    detach: Place::Detach,
    finalize: Place::Finalize
);

unsafe extern "C-unwind" fn now(user: *mut c_void) -> u64 {
    // SAFETY: the witness outlives its engine.
    unsafe { &*user.cast::<Witness>() }.now()
}

unsafe extern "C-unwind" fn sleep_until(_: *mut c_void, _: u64) {
    unreachable!("the host ticks");
}
