//! Atomics and cells of what threads share: the standard library's, or in a build with `--cfg loom` those of a checker
//! that runs a test in every order, and with every value, that the memory model permits.

#[cfg(not(loom))]
pub use std::sync::{Condvar, Mutex, atomic};

#[cfg(loom)]
pub use self::checked::{UnsafeCell, atomic};
#[cfg(loom)]
pub use loom::sync::{Condvar, Mutex};

/// A cell whose accesses the checker can see: each begins and ends with a call.
#[cfg(not(loom))]
pub struct UnsafeCell<T>(std::cell::UnsafeCell<T>);

#[cfg(not(loom))]
impl<T> UnsafeCell<T> {
    /// Holds `value`.
    pub fn new(value: T) -> UnsafeCell<T> {
        UnsafeCell(std::cell::UnsafeCell::new(value))
    }

    /// Lets `access` read what is in it.
    #[inline(always)]
    pub fn with<R>(&self, access: impl FnOnce(*const T) -> R) -> R {
        access(self.0.get())
    }

    /// Lets `access` read or write what is in it.
    #[inline(always)]
    pub fn with_mut<R>(&self, access: impl FnOnce(*mut T) -> R) -> R {
        access(self.0.get())
    }
}

#[cfg(loom)]
mod checked {
    pub use loom::cell::UnsafeCell;

    /// The checker's atomics, but for two things that it would miss.
    ///
    /// It looks for another order only where the last access to the same atomic was another thread's, and one's own look
    /// before one's own store hides those: so each access is one to `STEPS` too. And it lets a SeqCst load see the value
    /// that an atomic was made with although a SeqCst store came later, unless the first was a SeqCst store itself.
    pub mod atomic {
        pub use std::sync::atomic::Ordering;

        pub use loom::sync::atomic::fence;

        loom::lazy_static! {
            static ref STEPS: loom::sync::atomic::AtomicUsize = loom::sync::atomic::AtomicUsize::new(0);
        }

        /// Before the first thread: whoever makes `STEPS` comes before all that use it.
        pub fn begin() {
            STEPS.fetch_add(1, Ordering::Relaxed);
        }

        macro_rules! atomics {
            ($($name:ident: $value:ty),*) => {$(
                /// See the module's comment.
                #[derive(Debug)]
                pub struct $name(loom::sync::atomic::$name);

                impl $name {
                    /// Holds `value`.
                    pub fn new(value: $value) -> $name {
                        let atomic = loom::sync::atomic::$name::new(value);
                        atomic.store(value, Ordering::SeqCst);
                        $name(atomic)
                    }
                }

                impl Default for $name {
                    fn default() -> $name {
                        $name::new(Default::default())
                    }
                }

                impl std::ops::Deref for $name {
                    type Target = loom::sync::atomic::$name;

                    fn deref(&self) -> &loom::sync::atomic::$name {
                        STEPS.fetch_add(1, Ordering::Relaxed);
                        &self.0
                    }
                }
            )*};
        }

        atomics!(AtomicBool: bool, AtomicI32: i32, AtomicI64: i64, AtomicU32: u32, AtomicU64: u64, AtomicUsize: usize);
    }
}

/// Runs `test` in every order of its threads' steps that has at most so many preemptions (or `LOOM_MAX_PREEMPTIONS`).
#[cfg(all(test, loom))]
pub fn in_every_order(preemptions: usize, test: impl Fn() + Send + Sync + 'static) {
    let mut builder = loom::model::Builder::new();
    builder.preemption_bound.get_or_insert(preemptions);
    // Making a queue is many steps, too.
    builder.max_branches = 10_000;
    builder.check(move || {
        atomic::begin();
        test();
    });
}
