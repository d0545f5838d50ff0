//! Values that the engine borrows: who has pushed them, until when work that was shown them runs, and their releases.
//!
//! Those on the device have addresses that no one can read: whoever does, ends the test.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex};

use crate::driver::{RTE_VALUE_BORROWED, RTE_VALUE_DEVICE, rte_event, rte_value};
use crate::host::device::Device;

/// Where the device's memory begins: no address of the processor's.
const BASE: usize = 0xdead_0000_0000_0000;
/// Between the values of two messages, and between those of one.
const STRIDE: usize = 1 << 12;
const STEP: usize = 1 << 6;
/// Bytes of a value.
pub const SIZE: usize = size_of::<u64>();

/// Where a value lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// On the device.
    Device,
    /// With the host, which lends it.
    Borrowed,
    /// Copied at the push.
    Copied,
    /// Nowhere: its key is absent.
    Absent,
}

/// A value of a message.
#[derive(Clone, Copy, Debug)]
pub struct Item {
    pub key: u32,
    pub form: Form,
    pub revision: u64,
}

/// An event of the host's, dropped when the last message that named it was released.
pub struct Ready {
    device: Arc<Device>,
    event: AtomicU64,
    /// When it passes.
    pub at: u64,
    users: AtomicU64,
}

impl Ready {
    /// One that passes at this time.
    pub fn new(device: &Arc<Device>, at: u64) -> Arc<Ready> {
        let event = device.own_event(at).expose_provenance() as u64;
        Arc::new(Ready { device: device.clone(), event: AtomicU64::new(event), at, users: AtomicU64::new(0) })
    }

    /// The handle.
    pub fn event(&self) -> rte_event {
        std::ptr::with_exposed_provenance_mut(self.event.load(Relaxed) as usize)
    }

    /// A message that names it was not released yet.
    pub fn is_in_use(&self) -> bool {
        self.users.load(Relaxed) > 0
    }

    fn let_go(&self) {
        if self.users.fetch_sub(1, Relaxed) == 1 {
            self.drop_event();
        }
    }

    /// Nobody uses it any more.
    pub fn drop_event(&self) {
        self.device.drop_own_event(self.event());
    }
}

/// What one message has lent. Kept until the engine was freed.
pub struct Loan {
    /// The message's tag.
    pub number: u64,
    pub session: u64,
    pub ready: Option<Arc<Ready>>,
    items: Vec<Item>,
    /// By item: the bytes of those that the host lends or copies.
    bytes: [u8; SIZE],
    device: Arc<Device>,
    in_use_until: AtomicU64,
    releases: AtomicU64,
    released_at: AtomicU64,
    was_early: AtomicBool,
}

impl Loan {
    /// The item of a key.
    pub fn item(&self, key: u32) -> Option<Item> {
        self.items.iter().copied().find(|item| item.key == key)
    }

    /// The values, for a message.
    pub fn values(&self) -> Vec<rte_value> {
        self.items.iter().map(|item| self.value(*item)).collect()
    }

    fn value(&self, item: Item) -> rte_value {
        let (data, flags) = match item.form {
            Form::Device => (self.address(item.key), RTE_VALUE_DEVICE),
            Form::Borrowed => (self.bytes.as_ptr().addr(), RTE_VALUE_BORROWED),
            Form::Copied => (self.bytes.as_ptr().addr(), 0),
            Form::Absent => (0, 0),
        };
        let data = match item.form {
            Form::Borrowed | Form::Copied => self.bytes.as_ptr().cast(),
            _ => std::ptr::without_provenance(data),
        };
        let size = if item.form == Form::Absent { 0 } else { SIZE };
        rte_value { data, size, revision: item.revision, key: item.key, flags }
    }

    /// Where the device's value of a key is.
    pub fn address(&self, key: u32) -> usize {
        BASE + self.number as usize * STRIDE + key as usize * STEP
    }

    /// For `rte_message`.
    pub fn release_user(self: &Arc<Loan>) -> *mut c_void {
        Arc::as_ptr(self).cast_mut().cast()
    }

    /// How often its release has run.
    pub fn releases(&self) -> u64 {
        self.releases.load(Relaxed)
    }

    /// When it has.
    pub fn released_at(&self) -> Option<u64> {
        (self.releases() > 0).then(|| self.released_at.load(Relaxed))
    }

    /// Work that is done at `until` was shown it.
    pub fn use_until(&self, until: u64) {
        self.in_use_until.fetch_max(until, Relaxed);
    }

    fn release(&self) {
        let now = self.device.now();
        if self.in_use_until.load(Relaxed) > now {
            self.was_early.store(true, Relaxed);
        }
        self.released_at.store(now, Relaxed);
        if self.releases.fetch_add(1, Relaxed) == 0 {
            self.ready.iter().for_each(|ready| ready.let_go());
        }
    }
}

/// For `rte_message`.
pub unsafe extern "C-unwind" fn release(user: *mut c_void) {
    // SAFETY: `user` is a loan's `release_user`, and loans are kept until the engine was freed.
    unsafe { &*user.cast::<Loan>() }.release();
}

/// All loans of an engine, by number.
#[derive(Default)]
pub struct Loans {
    all: Mutex<Vec<Arc<Loan>>>,
}

impl Loans {
    /// The values of the next message.
    pub fn lend(&self, device: &Arc<Device>, session: u64, items: &[Item], ready: Option<Arc<Ready>>) -> Arc<Loan> {
        let mut all = self.all.lock().expect("nobody panics with the loans in hand");
        let number = all.len() as u64 + 1;
        let loan = Arc::new(Loan {
            number,
            session,
            ready,
            items: items.to_vec(),
            bytes: number.to_ne_bytes(),
            device: device.clone(),
            in_use_until: AtomicU64::new(0),
            releases: AtomicU64::new(0),
            released_at: AtomicU64::new(0),
            was_early: AtomicBool::new(false),
        });
        loan.ready.iter().for_each(|ready| _ = ready.users.fetch_add(1, Relaxed));
        all.push(loan.clone());
        loan
    }

    /// The loan that a value of the device's is of.
    pub fn by_address(&self, address: usize) -> Option<Arc<Loan>> {
        self.by_number((address.checked_sub(BASE)? / STRIDE) as u64)
    }

    /// The loan of this number.
    pub fn by_number(&self, number: u64) -> Option<Arc<Loan>> {
        self.all
            .lock()
            .expect("nobody panics with the loans in hand")
            .get(usize::try_from(number).ok()?.checked_sub(1)?)
            .cloned()
    }

    /// Once the engine was freed: what is wrong.
    pub fn complaints(&self) -> Vec<String> {
        let all = self.all.lock().expect("nobody panics with the loans in hand");
        let wrong = all.iter().filter(|loan| loan.releases() != 1 || loan.was_early.load(Relaxed));
        let say = |loan: &Arc<Loan>| {
            let (releases, was_early) = (loan.releases(), loan.was_early.load(Relaxed));
            format!("message {} was released {releases} times, too early: {was_early}", loan.number)
        };
        wrong.map(say).collect()
    }
}
