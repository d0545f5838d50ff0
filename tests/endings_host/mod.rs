//! A model whose callbacks do what the test orders: hang at a gate, say DEAD, fail; and consumers that wait.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod host;

use std::ffi::c_void;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex};
use std::thread::JoinHandle;

use crate::driver::*;
use crate::host::device::Device;

pub const LANES: [u32; 3] = [RTE_LANES_INLINE, RTE_LANES_HOST, RTE_LANES_THREADS];
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
/// A status of the model's own.
pub const FAILED: i32 = -1000;

/// A callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Ready,
    Seed,
    Hot,
    Deferred,
    Encode,
    Detach,
    Finalize,
}

impl Place {
    pub const ALL: [Place; 7] =
        [Place::Ready, Place::Seed, Place::Hot, Place::Deferred, Place::Encode, Place::Detach, Place::Finalize];

    /// What notices and info call it.
    pub fn number(self) -> u32 {
        match self {
            Place::Ready => RTE_STAGE_READY,
            Place::Seed => RTE_STAGE_SEED,
            Place::Hot => 0,
            Place::Deferred => 1,
            Place::Encode => 2,
            Place::Detach => RTE_STAGE_DETACH,
            Place::Finalize => RTE_STAGE_FINALIZE,
        }
    }

    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }

    /// The row it is called for, when it was provoked.
    pub fn row(self) -> u32 {
        if matches!(self, Place::Ready | Place::Seed) { 2 } else { 1 }
    }

    /// Gives the engine a reason to call it, where sessions 1 and 2 are in rows 0 and 1 and 2 steps.
    pub fn provoke(self, host: &Host) {
        let status = match self {
            Place::Ready | Place::Seed => host.push(message(RTE_ATTACH, 3), &[]),
            Place::Encode => host.push(message(RTE_ACTION, 2), &[value(0, b"new")]),
            Place::Detach => host.push(message(RTE_DETACH, 2), &[]),
            Place::Hot | Place::Deferred | Place::Finalize => 0,
        };
        assert_eq!(status, 0);
    }
}

/// What a callback is to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Order {
    /// Return when the gate is open.
    Hang,
    Die,
    /// Leave by a panic, which a stage must not.
    Unwind,
    NotYet,
    FailRows,
    /// Fail as a whole, and for a single row say DEAD.
    DieAlone,
    /// Return this when the gate is open.
    HangThen(i32),
}

/// The model. Never freed: an engine that was left to its stuck thread may call it at any time.
pub struct Stage {
    orders: Mutex<Vec<(Place, Order)>>,
    is_open: Mutex<bool>,
    opened: Condvar,
    hanging: AtomicU64,
    calls: AtomicU64,
    gives_chunks: bool,
}

impl Stage {
    fn new(gives_chunks: bool) -> &'static Stage {
        let stage = Stage {
            orders: Mutex::default(),
            is_open: Mutex::default(),
            opened: Condvar::new(),
            hanging: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            gives_chunks,
        };
        Box::leak(Box::new(stage))
    }

    /// One that gives no chunks.
    pub fn silent() -> &'static Stage {
        Stage::new(false)
    }

    /// One that gives chunks of one byte.
    pub fn talking() -> &'static Stage {
        Stage::new(true)
    }

    /// From now on.
    pub fn order(&self, place: Place, order: Order) {
        self.orders.lock().unwrap().push((place, order));
    }

    /// Callbacks that stand at the gate.
    pub fn hanging(&self) -> u64 {
        self.hanging.load(SeqCst)
    }

    /// Calls that have begun.
    pub fn calls(&self) -> u64 {
        self.calls.load(SeqCst)
    }

    pub fn is_open(&self) -> bool {
        *self.is_open.lock().unwrap()
    }

    pub fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    /// An engine of this model, 500 times a second.
    pub fn engine(&'static self, lanes: u32, options: rte_engine_options) -> Host {
        self.engine_at(500, lanes, options)
    }

    pub fn engine_at(&'static self, rate: u32, lanes: u32, options: rte_engine_options) -> Host {
        let named = |name: &'static std::ffi::CStr, stage| rte_stage { name: name.as_ptr(), ..stage };
        let stages = [
            named(c"hot", stage(RTE_HOT, hot)),
            named(c"deferred", stage(RTE_DEFERRED, deferred)),
            named(c"encode", stage(RTE_ENCODE, encode)),
        ];
        let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
        let model = rte_model {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            rate_num: rate,
            rate_den: rate.min(1),
            keys: keys.as_ptr(),
            key_count: 1,
            ready: Some(ready),
            seed: Some(seed),
            detach: Some(detach),
            finalize: Some(finalize),
            ..model(&stages, 8, 8)
        };
        let is_host = lanes == RTE_LANES_HOST && options.backend.is_null();
        let backend = is_host.then(|| Device::new().table());
        let backend = backend.as_ref().map_or(options.backend, std::ptr::from_ref);
        Host::new(&model, &rte_engine_options { lanes, backend, stall_ns: 1, ..options })
    }

    fn hang(&self) {
        let mut is_open = self.is_open.lock().unwrap();
        self.hanging.fetch_add(1, SeqCst);
        while !*is_open {
            is_open = self.opened.wait(is_open).unwrap();
        }
        self.hanging.fetch_sub(1, SeqCst);
    }

    fn call(&self, place: Place, batch: &mut rte_batch) -> i32 {
        self.calls.fetch_add(1, SeqCst);
        let orders = self.orders.lock().unwrap().clone();
        match orders.iter().find(|(where_, _)| *where_ == place) {
            Some((_, Order::Die)) => return DEAD,
            Some((_, Order::Unwind)) => std::panic::resume_unwind(Box::new("out of a callback")),
            Some((_, Order::NotYet)) => return AGAIN,
            Some((_, Order::DieAlone)) => return if batch.count > 1 { FAILED } else { DEAD },
            Some((_, Order::Hang)) => self.hang(),
            Some((_, Order::HangThen(status))) => {
                self.hang();
                return *status;
            }
            Some((_, Order::FailRows)) => {
                // SAFETY: the arrays of a batch.
                unsafe { std::slice::from_raw_parts_mut(batch.status, batch.count as usize) }.fill(FAILED);
            }
            None => {}
        }
        if self.gives_chunks && place == Place::Deferred {
            for at in 0..batch.count as usize {
                // SAFETY: the arrays of a batch; a place for a chunk.
                unsafe {
                    (*batch.output.add(at)).cast::<u8>().write(1);
                    *batch.output_size.add(at) = 1;
                }
            }
        }
        0
    }
}

macro_rules! callbacks {
    ($($name:ident: $place:expr),*) => {$(
        unsafe extern "C-unwind" fn $name(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
            // SAFETY: the model is never freed; the batch of a call.
            unsafe { (*user.cast::<Stage>()).call($place, &mut *batch) }
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

/// What was popped: kind, session, status, stage.
pub type Told = (u32, u64, i32, u32);

/// Three threads that wait for outputs, for ever.
pub struct Waiters {
    threads: Vec<JoinHandle<i32>>,
    popped: Arc<Mutex<Vec<Told>>>,
}

impl Waiters {
    /// All of them are asleep.
    pub fn new(engine: *mut rte_engine) -> Waiters {
        let engine = engine.expose_provenance();
        let (numbers, popped): (Arc<[AtomicI64; 3]>, Arc<Mutex<Vec<Told>>>) = Default::default();
        let spawn = |at: usize| {
            let (numbers, popped) = (numbers.clone(), popped.clone());
            std::thread::spawn(move || {
                numbers[at].store(this_thread(), SeqCst);
                wait_for_the_end(engine, &popped)
            })
        };
        let threads = [0, 1, 2].map(spawn).into();
        let is_waiting = |number: &AtomicI64| number.load(SeqCst) != 0 && is_asleep(number.load(SeqCst));
        while !numbers.iter().all(is_waiting) {
            std::thread::yield_now();
        }
        Waiters { threads, popped }
    }

    /// What they have popped by now.
    pub fn popped(&self) -> Vec<Told> {
        self.popped.lock().unwrap().clone()
    }

    /// All have returned, with this. What they have popped.
    pub fn join(self, end: i32) -> Vec<Told> {
        for thread in self.threads {
            assert_eq!(thread.join().unwrap(), end);
        }
        let popped = self.popped.lock().unwrap();
        popped.clone()
    }
}

fn wait_for_the_end(engine: usize, popped: &Mutex<Vec<Told>>) -> i32 {
    let engine = std::ptr::with_exposed_provenance_mut::<rte_engine>(engine);
    // SAFETY: the engine lives until all have returned; each output is released once.
    unsafe {
        loop {
            let status = rte_outbox_wait(engine, u64::MAX);
            if status != 0 {
                return status;
            }
            let mut output = zeroed();
            while rte_outbox_pop(engine, &mut output) == 0 {
                popped.lock().unwrap().push((output.kind, output.session, output.status, output.stage));
                rte_output_release(&mut output, std::ptr::null_mut());
            }
        }
    }
}

#[cfg(target_os = "linux")]
fn this_thread() -> i64 {
    // SAFETY: no arguments.
    unsafe { libc::syscall(libc::SYS_gettid) }
}

#[cfg(target_os = "linux")]
fn is_asleep(thread: i64) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{thread}/stat")).unwrap_or_default();
    // After the name, which stands in brackets.
    stat.rsplit_once(") ").is_some_and(|(_, state)| state.starts_with('S'))
}

/// Elsewhere it is not known whether they sleep already; it must not matter.
#[cfg(not(target_os = "linux"))]
fn this_thread() -> i64 {
    1
}

#[cfg(not(target_os = "linux"))]
fn is_asleep(_: i64) -> bool {
    true
}
