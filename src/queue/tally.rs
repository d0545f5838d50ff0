//! How many outputs of one row consumers have given back, of all its pools: counted here by whoever does.
//!
//! It has no single owner: the row's channel reads it, each pool of the row adds to it, and any of them may be the last
//! to go, on any thread. So it counts its owners itself, and the last frees it. (The standard library's `Arc` would do
//! but for its fence, which the thread sanitizer does not know.)

use std::ptr::NonNull;

use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// One owner's part: see the module's comment.
pub struct Tally(NonNull<Counts>);

struct Counts {
    returned: AtomicU64,
    owners: AtomicUsize,
}

// SAFETY: there are only atomics in it.
unsafe impl Send for Tally {}
// SAFETY: as above.
unsafe impl Sync for Tally {}

impl Tally {
    fn counts(&self) -> &Counts {
        // SAFETY: we are counted among its owners.
        unsafe { self.0.as_ref() }
    }

    /// A consumer has given one back. Release: whoever counts it knows that it had been taken.
    pub fn add(&self) {
        self.counts().returned.fetch_add(1, Ordering::Release);
    }

    /// How many there are. A moment's truth.
    pub fn count(&self) -> u64 {
        self.counts().returned.load(Ordering::Acquire)
    }
}

impl Default for Tally {
    fn default() -> Tally {
        let counts = Box::new(Counts { returned: AtomicU64::new(0), owners: AtomicUsize::new(1) });
        Tally(NonNull::from(Box::leak(counts)))
    }
}

impl Clone for Tally {
    fn clone(&self) -> Tally {
        // Relaxed: whoever the new owner is, it has this from us.
        self.counts().owners.fetch_add(1, Ordering::Relaxed);
        Tally(self.0)
    }
}

impl Drop for Tally {
    fn drop(&mut self) {
        // Release: our counting is over. Acquire: and that of all others, if we are the last.
        if self.counts().owners.fetch_sub(1, Ordering::AcqRel) == 1 {
            // SAFETY: from `Box::leak`; no owner is left, and only one can have been the last.
            drop(unsafe { Box::from_raw(self.0.as_ptr()) });
        }
    }
}
