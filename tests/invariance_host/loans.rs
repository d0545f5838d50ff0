//! Values that the engine borrows. Each loan knows until when work that was given it runs, so it can tell when its
//! release came too early; and when the release has come, its bytes are overwritten, so whoever reads them later gives
//! another chunk.

use std::collections::HashMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::host::device::Device;

/// What a released value reads as.
const GONE: u8 = 0xdd;

/// The borrowed values of one message. Kept until the engine is freed.
pub struct Loan {
    values: Vec<Box<[AtomicU8]>>,
    device: Option<Arc<Device>>,
    /// When the last work is done that was given one of them.
    in_use_until: AtomicU64,
    releases: AtomicU64,
    was_early: AtomicBool,
    is_pushed: AtomicBool,
}

/// All loans of a run. Used by one thread.
#[derive(Default)]
pub struct Loans {
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    all: Vec<Arc<Loan>>,
    by_address: HashMap<usize, Arc<Loan>>,
}

impl Loan {
    /// Where a value is.
    pub fn address(&self, at: usize) -> *const c_void {
        self.values[at].as_ptr().cast()
    }

    /// For `rte_message`.
    pub fn release_user(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// The push has succeeded: a release is owed.
    pub fn owe_release(&self) {
        self.is_pushed.store(true, Relaxed);
    }

    fn is_released(&self) -> bool {
        self.releases.load(Relaxed) > 0
    }

    fn release(&self) {
        self.releases.fetch_add(1, Relaxed);
        let now = self.device.as_ref().map_or(0, |device| device.now());
        if self.in_use_until.load(Relaxed) > now {
            self.was_early.store(true, Relaxed);
        }
        self.values.iter().flatten().for_each(|byte| byte.store(GONE, Relaxed));
    }

    /// What is wrong with it once the engine was freed.
    fn complaint(&self) -> Option<String> {
        let (releases, owed) = (self.releases.load(Relaxed), u64::from(self.is_pushed.load(Relaxed)));
        let was_early = self.was_early.load(Relaxed);
        (releases != owed || was_early)
            .then(|| format!("a loan was released {releases} times and not {owed}, too early: {was_early}"))
    }
}

impl Loans {
    /// Puts values where the engine may borrow them.
    pub fn lend(&self, values: &[&[u8]], device: Option<Arc<Device>>) -> Arc<Loan> {
        let copy = |value: &&[u8]| value.iter().map(|byte| AtomicU8::new(*byte)).collect();
        let loan = Arc::new(Loan {
            values: values.iter().map(copy).collect(),
            device,
            in_use_until: AtomicU64::new(0),
            releases: AtomicU64::new(0),
            was_early: AtomicBool::new(false),
            is_pushed: AtomicBool::new(false),
        });
        let mut state = self.state.lock().expect("nobody panics with the loans in hand");
        state.all.push(loan.clone());
        for value in loan.values.iter().filter(|value| !value.is_empty()) {
            state.by_address.insert(value.as_ptr().addr(), loan.clone());
        }
        loan
    }

    /// Work that is done at `until` was given the value at this address. False: its release has run.
    pub fn mark(&self, address: usize, until: u64) -> bool {
        let state = self.state.lock().expect("nobody panics with the loans in hand");
        state.by_address.get(&address).is_none_or(|loan| {
            loan.in_use_until.fetch_max(until, Relaxed);
            !loan.is_released()
        })
    }

    /// Once the engine was freed: how many releases have run, and what is wrong.
    pub fn finish(&self) -> (u64, Vec<String>) {
        let state = self.state.lock().expect("nobody panics with the loans in hand");
        let releases = state.all.iter().map(|loan| loan.releases.load(Relaxed)).sum();
        (releases, state.all.iter().filter_map(|loan| loan.complaint()).collect())
    }
}

/// For `rte_message`.
pub unsafe extern "C-unwind" fn release(user: *mut c_void) {
    // SAFETY: `user` is a loan's `release_user`, and loans are kept until the engine was freed.
    unsafe { &*user.cast::<Loan>() }.release();
}
