//! Sleeping until something happened, without missing it and without a system call where nobody sleeps.
//!
//! The order that makes it work: the sleeper counts itself in, *then* looks whether there is something; the other side
//! makes something, *then* looks whether anybody is counted. Both looks are SeqCst, so at least one of them sees the
//! other. The only file that knows how a thread is put to sleep.

use crate::sync::atomic::{AtomicU32, Ordering, fence};
use crate::word::Nanos;

/// Any number of sleepers, any number of wakers.
pub struct Wake {
    sleepers: AtomicU32,
    /// Grows with each wake-up that somebody may have been asleep for.
    epoch: AtomicU32,
    #[cfg(any(loom, not(target_os = "linux")))]
    portable: (crate::sync::Mutex<()>, crate::sync::Condvar),
}

impl Default for Wake {
    fn default() -> Wake {
        Wake {
            sleepers: AtomicU32::new(0),
            epoch: AtomicU32::new(0),
            #[cfg(any(loom, not(target_os = "linux")))]
            portable: Default::default(),
        }
    }
}

impl Wake {
    /// Wakes all sleepers. A system call only if there are any.
    pub fn notify(&self) {
        fence(Ordering::SeqCst);
        if self.sleepers.load(Ordering::SeqCst) > 0 {
            self.epoch.fetch_add(1, Ordering::SeqCst);
            self.wake_all();
        }
    }

    /// Sleeps until `ready` says yes (true) or `deadline` of the real clock has passed (false). `ready` is asked after
    /// each wake-up, also after those meant for others.
    pub fn sleep(&self, deadline: Option<Nanos>, mut ready: impl FnMut() -> bool) -> bool {
        if ready() {
            return true;
        }
        self.sleepers.fetch_add(1, Ordering::SeqCst);
        fence(Ordering::SeqCst);
        let woken = loop {
            let epoch = self.epoch.load(Ordering::SeqCst);
            if ready() {
                break true;
            }
            if deadline.is_some_and(|deadline| super::real_now() >= deadline) {
                break false;
            }
            self.sleep_while(epoch, deadline);
        };
        self.sleepers.fetch_sub(1, Ordering::SeqCst);
        woken
    }

    #[cfg(all(target_os = "linux", not(loom)))]
    fn wake_all(&self) {
        // SAFETY: a futex call on a word that lives as long as `self`.
        unsafe {
            libc::syscall(libc::SYS_futex, self.epoch.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, i32::MAX)
        };
    }

    /// Returns when woken, at the deadline, or early; at once if `epoch` has passed.
    #[cfg(all(target_os = "linux", not(loom)))]
    fn sleep_while(&self, epoch: u32, deadline: Option<Nanos>) {
        let until = deadline.map(|at| libc::timespec {
            tv_sec: (at / 1_000_000_000) as libc::time_t,
            tv_nsec: (at % 1_000_000_000) as libc::c_long,
        });
        let until = until.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        // WAIT_BITSET, unlike WAIT, takes an absolute time of CLOCK_MONOTONIC.
        let operation = libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG;
        // SAFETY: a futex call on a word that lives as long as `self`; `until` is null or outlives the call.
        unsafe { libc::syscall(libc::SYS_futex, self.epoch.as_ptr(), operation, epoch, until, 0usize, u32::MAX) };
    }

    #[cfg(any(loom, not(target_os = "linux")))]
    fn wake_all(&self) {
        drop(self.portable.0.lock());
        self.portable.1.notify_all();
    }

    #[cfg(any(loom, not(target_os = "linux")))]
    fn sleep_while(&self, epoch: u32, deadline: Option<Nanos>) {
        // Nobody panics with the lock.
        let Ok(guard) = self.portable.0.lock() else { return };
        if self.epoch.load(Ordering::SeqCst) == epoch {
            match deadline {
                None => drop(self.portable.1.wait(guard)),
                Some(at) => {
                    let left = std::time::Duration::from_nanos(at.saturating_sub(super::real_now()));
                    drop(self.portable.1.wait_timeout(guard, left));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn no_wake_up_is_lost() {
        const TURNS: u64 = 20_000;
        let (wake, ball) = (Arc::new(Wake::default()), Arc::new(AtomicU64::new(0)));
        let other = {
            let (wake, ball) = (wake.clone(), ball.clone());
            std::thread::spawn(move || {
                for turn in 0..TURNS {
                    assert!(wake.sleep(None, || ball.load(Ordering::SeqCst) == 2 * turn + 1));
                    ball.store(2 * turn + 2, Ordering::SeqCst);
                    wake.notify();
                }
            })
        };
        for turn in 0..TURNS {
            ball.store(2 * turn + 1, Ordering::SeqCst);
            wake.notify();
            assert!(wake.sleep(None, || ball.load(Ordering::SeqCst) == 2 * turn + 2));
        }
        other.join().unwrap();
    }

    #[test]
    fn a_deadline_that_has_passed_does_not_sleep() {
        assert!(!Wake::default().sleep(Some(0), || false));
    }
}

/// In every order of their steps; of the portable way to sleep, which the other must equal.
#[cfg(all(test, loom))]
mod interleavings {
    use std::sync::Arc;

    use loom::thread;

    use super::*;
    use crate::sync::atomic::AtomicBool;
    use crate::sync::in_every_order;

    fn make(wake: &Wake, thing: &AtomicBool) {
        thing.store(true, Ordering::Relaxed);
        wake.notify();
    }

    fn sleep(wake: &Wake, thing: &AtomicBool) {
        assert!(wake.sleep(None, || thing.load(Ordering::Relaxed)));
    }

    /// Each waits for a thing of its own. One that slept on would be a deadlock, which the checker reports.
    #[test]
    fn nobody_sleeps_through_what_was_made_for_him() {
        for sleepers in [1, 2] {
            in_every_order(3, move || {
                let wake = Arc::new(Wake::default());
                let things: Vec<_> = (0..2).map(|_| Arc::new(AtomicBool::new(false))).collect();
                let others: Vec<_> = things[..sleepers]
                    .iter()
                    .map(|thing| {
                        let (wake, thing) = (wake.clone(), thing.clone());
                        thread::spawn(move || sleep(&wake, &thing))
                    })
                    .collect();
                things.iter().for_each(|thing| make(&wake, thing));
                others.into_iter().for_each(|other| other.join().unwrap());
            });
        }
    }

    #[test]
    fn any_of_two_makers_wakes_and_who_has_what_it_wants_is_not_woken() {
        in_every_order(3, || {
            let (wake, thing) = (Arc::new(Wake::default()), Arc::new(AtomicBool::new(false)));
            let makers = [(); 2].map(|()| {
                let (wake, thing) = (wake.clone(), thing.clone());
                thread::spawn(move || make(&wake, &thing))
            });
            sleep(&wake, &thing);
            makers.into_iter().for_each(|maker| maker.join().unwrap());
            assert_eq!(wake.sleepers.load(Ordering::Relaxed), 0);
        });
    }
}
