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
        let is_over = || stop.load(Ordering::SeqCst);
        approach(at, self.spin, real_now, |until| wake.sleep(Some(until), is_over), is_over);
    }
}

/// Asleep until `spin` before `at`, the rest spinning. `sleep` says, as `is_over` does, whether to end early.
fn approach(
    at: Nanos,
    spin: Nanos,
    now: impl Fn() -> Nanos,
    sleep: impl FnOnce(Nanos) -> bool,
    is_over: impl Fn() -> bool,
) {
    if sleep(at.saturating_sub(spin)) {
        return;
    }
    while now() < at && !is_over() {
        std::hint::spin_loop();
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

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    /// Goes to 1000 ns from `begin` on a clock that passes in sleeps, and by 1 ns at each look. Until when it was asleep,
    /// if at all, how often it looked then, and when it ended.
    fn go(begin: Nanos, spin: Nanos, over_at: Nanos) -> (Option<Nanos>, u64, Nanos) {
        let (time, asleep, looks) = (Cell::new(begin), Cell::new(None), Cell::new(0));
        let now = || {
            looks.set(looks.get() + 1);
            time.replace(time.get() + 1)
        };
        let sleep = |until: Nanos| {
            if until > time.get() {
                time.set(until.min(over_at));
                asleep.set(Some(time.get()));
            }
            time.get() >= over_at
        };
        approach(1000, spin, now, sleep, || time.get() >= over_at);
        (asleep.get(), looks.get(), time.get())
    }

    const NEVER: Nanos = Nanos::MAX;

    #[test]
    fn the_last_so_many_nanoseconds_are_spun_and_no_more() {
        // A look at each of the nanoseconds that are left, and one at the grid point.
        assert_eq!(go(0, 0, NEVER), (Some(1000), 1, 1001));
        assert_eq!(go(0, 70, NEVER), (Some(930), 71, 1001));
        assert_eq!(go(0, 999, NEVER), (Some(1), 1000, 1001));
    }

    #[test]
    fn what_is_left_is_spun_where_it_is_less() {
        assert_eq!(go(990, 70, NEVER), (None, 11, 1001));
        assert_eq!(go(0, NEVER, NEVER), (None, 1001, 1001));
    }

    #[test]
    fn a_stop_ends_both() {
        assert_eq!(go(0, 70, 500), (Some(500), 0, 500));
        assert_eq!(go(0, 70, 940), (Some(930), 10, 940));
    }
}
