//! Whoever was told DETACHED may come back at once, however the threads were scheduled.

mod driver;
mod serve_host;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;
use serve_host::{Loop, OK, TIMEOUT};

const SESSIONS: u64 = 16;
const LIVES: u64 = 250_000;

unsafe extern "C-unwind" fn one_byte(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    0
}

struct Engine(*mut rte_engine);
// SAFETY: any thread may push, pop and wait.
unsafe impl Sync for Engine {}

impl Engine {
    fn push(&self, kind: u32, flags: u32, session: u64) {
        // SAFETY: the engine lives; no values.
        assert_eq!(unsafe { rte_inbox_push(self.0, &rte_message { flags, ..message(kind, session) }) }, 0);
    }

    /// Answers each notice with the next message of that session, until all lives were lived. `leaves`: with a DETACH when
    /// it was told ATTACHED.
    fn consume(&self, lives: &AtomicU64, leaves: bool) {
        let mut output = zeroed();
        // SAFETY: the engine lives; each output is released once.
        while lives.load(SeqCst) < LIVES && unsafe { rte_outbox_wait(self.0, u64::MAX) } == 0 {
            // SAFETY: as above.
            while unsafe { rte_outbox_pop(self.0, &mut output) } == 0 {
                match output.kind {
                    RTE_ATTACHED => {
                        assert_eq!(output.flags, 0, "session {} was told that it had left", output.session);
                        if leaves {
                            self.push(RTE_DETACH, RTE_DRAIN, output.session);
                        }
                    }
                    RTE_DETACHED => {
                        lives.fetch_add(1, SeqCst);
                        self.push(RTE_ATTACH, 0, output.session);
                    }
                    kind => assert_eq!(kind, RTE_CHUNK),
                }
                // SAFETY: as above.
                unsafe { rte_output_release(&mut output, null_mut()) };
            }
        }
    }
}

#[test]
fn nobody_who_was_told_detached_is_still_there() {
    let stages = [stage(RTE_HOT, one_byte)];
    let host = Host::new(&model(&stages, SESSIONS as u32, 8), &options());
    live(&host, true);
}

#[test]
fn nobody_whom_the_hosts_own_loop_has_told_detached_is_still_there() {
    let mut it = Loop::new(|ends| {
        loop {
            while let Ok(shown) = ends.pop() {
                assert_eq!(shown.kind, RTE_ATTACH);
                let said = [ends.tell(RTE_ATTACHED, shown.session), ends.chunk(shown.session, 0)];
                assert_eq!((said, ends.tell(RTE_DETACHED, shown.session)), ([OK; 2], OK));
            }
            // A loop that is awake meets consumers in the middle of their pops.
            match ends.wait(0) {
                OK | TIMEOUT => {}
                status => return status,
            }
        }
    });
    let host = Host::new(&it.model(SESSIONS as u32), &options());
    live(&host, false);
    drop(host);
    it.check();
}

fn live(host: &Host, leaves: bool) {
    let (engine, lives) = (Engine(host.engine), AtomicU64::new(0));
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, null_mut()) }, 0);
    (0..SESSIONS).for_each(|session| engine.push(RTE_ATTACH, 0, session));
    std::thread::scope(|scope| (0..3).for_each(|_| _ = scope.spawn(|| engine.consume(&lives, leaves))));
}
