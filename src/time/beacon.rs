//! A descriptor that consumers poll (epoll, libuv) beside others of theirs.
//!
//! Lit by whoever makes something, if it is armed; put out and armed by a consumer that found nothing and then looks
//! again. So a system call is made only for a consumer that polls, and no light is missed. The only file that knows what
//! such a descriptor is.

use std::sync::atomic::{AtomicBool, Ordering, fence};

/// See the module's comment.
pub struct Beacon {
    descriptor: i32,
    /// A consumer found nothing: the next thing made is to be told.
    armed: AtomicBool,
    /// It is readable, or was: set after the write, so that whoever sees it reads what was written.
    lit: AtomicBool,
}

impl Beacon {
    /// An armed one; `None` where the system has none, or no more.
    #[cfg(target_os = "linux")]
    pub fn new() -> Option<Beacon> {
        // SAFETY: makes a descriptor of our own.
        let descriptor = unsafe { libc::eventfd(0, libc::EFD_NONBLOCK | libc::EFD_CLOEXEC) };
        (descriptor >= 0).then(|| Beacon { descriptor, armed: AtomicBool::new(true), lit: AtomicBool::new(false) })
    }

    /// An armed one; `None` where the system has none, or no more.
    #[cfg(not(target_os = "linux"))]
    pub fn new() -> Option<Beacon> {
        None
    }

    /// What is polled.
    pub fn descriptor(&self) -> i32 {
        self.descriptor
    }

    /// Something was made. The caller's write of it comes before a SeqCst fence that comes before this.
    pub fn light(&self) {
        if self.armed.load(Ordering::Relaxed) && self.armed.swap(false, Ordering::SeqCst) {
            write(self.descriptor);
            self.lit.store(true, Ordering::SeqCst);
        }
    }

    /// Nothing was found: tell when there is something. The caller looks again after this.
    pub fn arm(&self) {
        if self.lit.load(Ordering::Relaxed) && self.lit.swap(false, Ordering::SeqCst) {
            read(self.descriptor);
        }
        if !self.armed.load(Ordering::Relaxed) {
            self.armed.store(true, Ordering::Relaxed);
        }
        // Before the caller's second look: either it sees what was made or the maker sees that it is armed.
        fence(Ordering::SeqCst);
    }
}

#[cfg(target_os = "linux")]
fn write(descriptor: i32) {
    let one = 1u64;
    // SAFETY: eight bytes to a descriptor of ours; a full counter means that it is readable.
    unsafe { libc::write(descriptor, (&raw const one).cast(), 8) };
}

#[cfg(target_os = "linux")]
fn read(descriptor: i32) {
    let mut count = 0u64;
    // SAFETY: eight bytes from a descriptor of ours, which never blocks.
    unsafe { libc::read(descriptor, (&raw mut count).cast(), 8) };
}

#[cfg(not(target_os = "linux"))]
fn write(_: i32) {}

#[cfg(not(target_os = "linux"))]
fn read(_: i32) {}

impl Drop for Beacon {
    fn drop(&mut self) {
        #[cfg(target_os = "linux")]
        // SAFETY: ours, and nobody can ask for it any more.
        unsafe {
            libc::close(self.descriptor);
        }
    }
}
