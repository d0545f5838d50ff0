//! What an engine's own thread asks of the system, and how to tell threads apart.

/// Names one thread of this process while it lives.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ThreadMark(usize);

impl ThreadMark {
    /// No thread.
    pub const NONE: ThreadMark = ThreadMark(0);

    /// The calling thread. Neither allocates nor calls the system, on the host's threads too.
    pub fn current() -> ThreadMark {
        thread_local!(static HERE: u8 = const { 0 });
        ThreadMark(HERE.with(|here| std::ptr::from_ref(here).addr()))
    }

    /// As a number that can be shared.
    pub fn number(self) -> usize {
        self.0
    }
}

/// On our own thread only: timers to the nanosecond instead of the default 50 us grain. A system without has no such grain.
pub fn prepare_thread() {
    #[cfg(target_os = "linux")]
    // SAFETY: PR_SET_TIMERSLACK takes one number and touches the calling thread alone.
    unsafe {
        libc::prctl(libc::PR_SET_TIMERSLACK, 1usize);
    }
}
