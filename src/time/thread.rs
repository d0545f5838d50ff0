//! What the threads that an engine makes ask of the system, and how to tell threads apart.

use std::sync::OnceLock;

use crate::word::Status;

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

/// What a thread is for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Duty {
    /// A tick waits for it.
    Tick,
    /// Nobody does: it never stands before those, whatever the priority.
    Background,
}

/// How the threads that one engine makes are to be.
#[derive(Debug, Default)]
pub struct Threads {
    name: Box<str>,
    /// Bit c: may run on CPU c. 0: as it is.
    cpus: u64,
    /// 1..99: SCHED_FIFO. 0: as it is.
    priority: u32,
    /// The first thing that the system refused.
    refusal: OnceLock<String>,
}

impl Threads {
    /// Threads of this name, on these CPUs, with this priority.
    pub fn new(name: Box<str>, cpus: u64, priority: u32) -> Threads {
        Threads { name, cpus, priority, refusal: OnceLock::new() }
    }

    /// Of the engine's own thread; a lane's has the lane behind it.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What is asked that the system may refuse: the option and its value.
    pub fn asked(&self) -> Option<String> {
        match (self.cpus, self.priority) {
            (0, 0) => None,
            (0, priority) => Some(format!("options.priority: {priority}")),
            (cpus, _) => Some(format!("options.cpu_mask: {cpus:#x}")),
        }
    }

    /// One of them cannot be made: MEMORY, and `refusal` says so.
    pub fn lack(&self, which: &str, error: &std::io::Error) -> Status {
        let _ = self.refusal.set(format!("no thread for {which}: {error}"));
        Status::MEMORY
    }

    /// What the system has refused, in its words.
    pub fn refusal(&self) -> Option<&str> {
        self.refusal.get().map(String::as_str)
    }

    /// Makes the calling thread, one of ours, as it is to be. UNAVAILABLE: the system refuses; see `refusal`.
    pub fn prepare(&self, duty: Duty) -> Result<(), Status> {
        system::refine_timers();
        let placed = system::stay_on(self.cpus).map_err(|error| format!("options.cpu_mask: {:#x}: {error}", self.cpus));
        let ranked = placed.and_then(|()| {
            let ranked = system::rank(self.priority, duty);
            ranked.map_err(|error| format!("options.priority: {}: {error}", self.priority))
        });
        ranked.map_err(|refusal| {
            // Another thread's may be there already: any of them tells why.
            let _ = self.refusal.set(refusal);
            Status::UNAVAILABLE
        })
    }
}

/// The calls, each for the calling thread alone.
#[cfg(target_os = "linux")]
mod system {
    use std::io::{Error, Result};

    use super::Duty;

    /// To the nanosecond instead of the default 50 us grain.
    pub fn refine_timers() {
        // SAFETY: PR_SET_TIMERSLACK takes one number and touches the calling thread alone.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1usize) };
    }

    /// On those of `cpus` that the process may use; refused where it may use none of them.
    pub fn stay_on(cpus: u64) -> Result<()> {
        if cpus == 0 {
            return Ok(());
        }
        // SAFETY: a set of bits: zero is the empty one.
        let mut set: libc::cpu_set_t = unsafe { std::mem::zeroed() };
        for cpu in (0..64).filter(|cpu| cpus >> cpu & 1 != 0) {
            // SAFETY: a set has room for 1024.
            unsafe { libc::CPU_SET(cpu, &mut set) };
        }
        // SAFETY: 0 is the calling thread; a set of the size that is said.
        let code = unsafe { libc::sched_setaffinity(0, size_of_val(&set), &set) };
        if code == 0 { Ok(()) } else { Err(Error::last_os_error()) }
    }

    /// SCHED_FIFO, or for what may wait SCHED_OTHER: it has inherited that of the thread that made it.
    pub fn rank(priority: u32, duty: Duty) -> Result<()> {
        let (policy, priority) = match (priority, duty) {
            (0, _) => return Ok(()),
            (_, Duty::Background) => (libc::SCHED_OTHER, 0),
            (priority, Duty::Tick) => (libc::SCHED_FIFO, priority as libc::c_int),
        };
        // SAFETY: numbers: zero is a value of each.
        let mut param: libc::sched_param = unsafe { std::mem::zeroed() };
        param.sched_priority = priority;
        // SAFETY: the calling thread; `param` lives until the call returns.
        let code = unsafe { libc::pthread_setschedparam(libc::pthread_self(), policy, &param) };
        if code == 0 { Ok(()) } else { Err(Error::from_raw_os_error(code)) }
    }
}

/// Timers have no such grain; the rest is refused when an engine is made.
#[cfg(not(target_os = "linux"))]
mod system {
    use super::Duty;

    pub fn refine_timers() {}

    pub fn stay_on(_: u64) -> std::io::Result<()> {
        Ok(())
    }

    pub fn rank(_: u32, _: Duty) -> std::io::Result<()> {
        Ok(())
    }
}
