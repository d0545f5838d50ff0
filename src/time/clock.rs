//! Whose time it is: the machine's, or one of the host's (tests, replay).

use std::sync::atomic::{AtomicBool, Ordering};

use super::Wake;
use crate::word::Nanos;

/// Where an engine gets its time from.
pub trait Clock: Send + Sync {
    /// Now.
    fn now(&self) -> Nanos;

    /// Sleeps until a grid point, or until `stop` is set (its setter notifies `wake`). May return early.
    fn sleep_until(&self, at: Nanos, stop: &AtomicBool, wake: &Wake);
}

/// CLOCK_MONOTONIC.
pub struct RealClock {
    /// The last nanoseconds before a grid point are not slept but spun away.
    pub spin: Nanos,
}

impl Clock for RealClock {
    fn now(&self) -> Nanos {
        real_now()
    }

    fn sleep_until(&self, at: Nanos, stop: &AtomicBool, wake: &Wake) {
        if wake.sleep(Some(at.saturating_sub(self.spin)), || stop.load(Ordering::SeqCst)) {
            return;
        }
        while real_now() < at && !stop.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    }
}

/// CLOCK_MONOTONIC in nanoseconds; elsewhere than on Unix the time since the first call.
#[cfg(unix)]
pub fn real_now() -> Nanos {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is a valid place; CLOCK_MONOTONIC always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC in nanoseconds; elsewhere than on Unix the time since the first call.
#[cfg(not(unix))]
pub fn real_now() -> Nanos {
    static START: std::sync::OnceLock<std::time::Instant> = std::sync::OnceLock::new();
    START.get_or_init(std::time::Instant::now).elapsed().as_nanos() as u64
}
