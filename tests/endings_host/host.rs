//! An engine whose callbacks follow orders, as its host drives and asks it.

use std::ffi::CStr;

use super::Stage;
use crate::driver::*;

pub const OK: i32 = 0;
pub const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
pub const TIMEOUT: i32 = rte_status_code::RTE_TIMEOUT as i32;
pub const CLOSED: i32 = rte_status_code::RTE_CLOSED as i32;
pub const STATE: i32 = rte_status_code::RTE_ERR_STATE as i32;
pub const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
pub const UNKNOWN: i32 = rte_status_code::RTE_ERR_UNKNOWN as i32;
pub const FOR_EVER: u64 = u64::MAX;

pub fn pop(host: &Host) -> Result<rte_output, i32> {
    let mut output = zeroed();
    // SAFETY: the engine lives; what was popped is copied, then released.
    unsafe {
        let status = rte_outbox_pop(host.engine, &mut output);
        let copy = output;
        rte_output_release(&mut output, std::ptr::null_mut());
        if status == OK { Ok(copy) } else { Err(status) }
    }
}

/// All that is left, and how it ends.
pub fn pop_all(host: &Host) -> (Vec<rte_output>, i32) {
    let mut outputs = vec![];
    loop {
        match pop(host) {
            Ok(output) => outputs.push(output),
            Err(status) => return (outputs, status),
        }
    }
}

pub fn wait(host: &Host) -> i32 {
    // SAFETY: the engine lives.
    unsafe { rte_outbox_wait(host.engine, FOR_EVER) }
}

pub fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

/// Session 1 is paused in row 0, session 2 steps in row 1.
pub fn two_sessions(host: &Host) {
    for (kind, session) in [(RTE_ATTACH, 1), (RTE_PAUSE, 1), (RTE_ATTACH, 2)] {
        assert_eq!(host.push(message(kind, session), &[]), OK);
    }
}

/// An engine of its own thread with them, of which nothing is left to pop.
pub fn started(stage: &'static Stage, lanes: u32) -> Host {
    started_as(c"rte", stage, lanes)
}

/// The same, of which the threads are called so.
pub fn started_as(name: &CStr, stage: &'static Stage, lanes: u32) -> Host {
    let host = stage.engine(lanes, rte_engine_options { thread_name: name.as_ptr(), ..options() });
    start(&host);
    two_sessions(&host);
    until(|| host.info().attached == 2 && host.info().paused == 1 && host.info().pending == 0);
    until(|| {
        host.pop_all(|_| ());
        pop(&host).is_err()
    });
    host
}

/// How many threads of this process are called so.
#[cfg(target_os = "linux")]
pub fn threads(name: &str) -> usize {
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    // One that has ended meanwhile has no name.
    tasks.filter_map(|comm| std::fs::read_to_string(comm).ok()).filter(|comm| comm.starts_with(name)).count()
}

/// Elsewhere it is not known.
#[cfg(not(target_os = "linux"))]
pub fn threads(_: &str) -> usize {
    0
}

/// It is dead, and whoever asks is told so.
pub fn expect_dead(host: &Host) {
    assert_eq!(pop(host).err(), Some(DEAD));
    assert_eq!(wait(host), DEAD);
    assert_eq!(host.push(message(RTE_ATTACH, 7), &[]), DEAD);
    assert_eq!(host.info().health, DEAD);
}
