//! An engine of that model, as its host drives and asks it.

use std::ffi::CStr;
use std::time::{Duration, Instant};

use super::{PROMPT, Said, TAPS};
use crate::driver::*;

pub const OK: i32 = 0;
pub const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
pub const TIMEOUT: i32 = rte_status_code::RTE_TIMEOUT as i32;
pub const CLOSED: i32 = rte_status_code::RTE_CLOSED as i32;
pub const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
pub const MEMORY: i32 = rte_status_code::RTE_ERR_MEMORY as i32;
pub const FOR_EVER: u64 = u64::MAX;
/// Who has to wait so long hangs.
const HANGS: Duration = Duration::from_secs(20);

/// Threads lanes of these names.
pub fn on_threads(name: &'static CStr) -> rte_engine_options {
    rte_engine_options { lanes: RTE_LANES_THREADS, thread_name: name.as_ptr(), outbox_depth: 64, ..options() }
}

/// A tick, or the rest of one, that waits for nothing.
pub fn tick_once(host: &Host) -> i32 {
    // SAFETY: the engine lives and is ticked by one thread.
    unsafe { rte_engine_tick(host.engine, 0) }
}

/// A whole tick of these sessions.
pub fn step(host: &Host, due: &[u64]) {
    // SAFETY: the engine lives and is ticked by one thread; `due` lives until the call returns.
    assert_eq!(unsafe { rte_engine_step(host.engine, due.as_ptr(), due.len(), FOR_EVER) }, OK);
}

pub fn until(what: &str, is_so: impl FnMut() -> bool) {
    assert!(within_reason(is_so), "never: {what}");
}

/// Whether it comes to be so.
pub fn within_reason(mut is_so: impl FnMut() -> bool) -> bool {
    let begin = Instant::now();
    while !is_so() {
        if begin.elapsed() > HANGS {
            return false;
        }
        std::thread::yield_now();
    }
    true
}

/// Messages with a prompt, or taps.
pub fn attach(host: &Host, session: u64, prompt: u64) {
    assert_eq!(host.push(message(RTE_ATTACH, session), &[value(PROMPT, &prompt.to_ne_bytes())]), OK);
}

pub fn prompt(host: &Host, session: u64, prompt: u64) {
    let act = rte_message { tag: prompt, ..message(RTE_ACTION, session) };
    assert_eq!(host.push(act, &[value(PROMPT, &prompt.to_ne_bytes())]), OK);
}

pub fn tap(host: &Host, session: u64, taps: i64) {
    let act = rte_message { flags: RTE_PARTIAL, ..message(RTE_ACTION, session) };
    assert_eq!(host.push(act, &[value(TAPS, &taps.to_ne_bytes())]), OK);
}

pub fn send(host: &Host, kind: u32, session: u64) {
    assert_eq!(host.push(message(kind, session), &[]), OK);
}

/// What was popped: the chunks, in their order, and the notices.
#[derive(Default, Debug)]
pub struct Came {
    pub chunks: Vec<(u64, u64, Said)>,
    pub notices: Vec<Notice>,
}

/// Kind, session, status, stage; of an event that stands for many: how many.
pub type Notice = (u32, u64, i32, u32, u64);

impl Came {
    /// Whose chunks they are.
    pub fn sessions(&self) -> Vec<u64> {
        self.chunks.iter().map(|(session, ..)| *session).collect()
    }

    /// The kinds and sessions of the notices.
    pub fn told(&self) -> Vec<(u32, u64)> {
        self.notices.iter().map(|notice| (notice.0, notice.1)).collect()
    }

    pub fn has(&self, kind: u32, session: u64) -> bool {
        self.told().contains(&(kind, session))
    }

    pub fn index_of(&self, session: u64) -> Option<u64> {
        self.chunks.iter().find(|(who, ..)| *who == session).map(|(_, index, _)| *index)
    }
}

/// All that is there; each chunk is what its stamp says.
pub fn pop_all(host: &Host) -> Came {
    let mut came = Came::default();
    host.pop_all(|output| {
        if output.kind != RTE_CHUNK {
            let count = if output.kind == RTE_TICK_FAILED { output.dropped } else { 0 };
            came.notices.push((output.kind, output.session, output.status, output.stage, count));
            return;
        }
        assert_eq!(output.size, size_of::<Said>());
        // SAFETY: what the model wrote, readable until the release.
        let said = unsafe { output.data.cast::<Said>().read_unaligned() };
        assert_eq!((said.session, said.generation, said.age), (output.session, output.generation, output.index));
        came.chunks.push((output.session, output.index, said));
    });
    came
}

/// A whole tick, and what came of it.
pub fn tick(host: &Host) -> Came {
    assert_eq!(host.tick(), OK);
    pop_all(host)
}

/// How many threads of this process are called so.
pub fn threads(name: &CStr) -> usize {
    let name = name.to_str().unwrap();
    let tasks = std::fs::read_dir("/proc/self/task").unwrap().map(|task| task.unwrap().path().join("comm"));
    // One that has ended meanwhile has no name.
    let names = tasks.filter_map(|comm| std::fs::read_to_string(comm).ok());
    names.filter(|comm| comm.trim_end() == name || comm.starts_with(&format!("{name} "))).count()
}

/// All threads of an engine with this name have ended. (One that was joined is seen for a moment still.)
pub fn expect_no_threads(name: &CStr) {
    until("its threads have ended", || threads(name) == 0);
}
