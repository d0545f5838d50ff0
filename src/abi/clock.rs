//! A host's clock as the engine's.

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use super::options::rte_clock;
use crate::engine::Failure;
use crate::time::{Clock, Wake};
use crate::word::{Nanos, Status};

pub(super) struct CClock {
    now: unsafe extern "C-unwind" fn(*mut c_void) -> u64,
    sleep_until: unsafe extern "C-unwind" fn(*mut c_void, u64),
    user: *mut c_void,
}

// SAFETY: the host promises that `now` may be called on any thread; `user` is its own.
unsafe impl Send for CClock {}
// SAFETY: as above.
unsafe impl Sync for CClock {}

impl CClock {
    pub(super) fn of(table: rte_clock) -> Result<Arc<dyn Clock>, Failure> {
        let missing = |name| Failure::new(Status::ARGUMENT, format!("options.clock.{name}: NULL"));
        Ok(Arc::new(CClock {
            now: table.now.ok_or_else(|| missing("now"))?,
            sleep_until: table.sleep_until.ok_or_else(|| missing("sleep_until"))?,
            user: table.user,
        }))
    }
}

impl Clock for CClock {
    fn now(&self) -> Nanos {
        // SAFETY: a callback of the host.
        unsafe { (self.now)(self.user) }
    }

    fn sleep_until(&self, at: Nanos, _: &AtomicBool, _: &Wake) {
        // SAFETY: a callback of the host.
        unsafe { (self.sleep_until)(self.user, at) }
    }
}
