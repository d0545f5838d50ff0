//! RTE_ERR_DEAD that a stage returns ends the engine. As the status of a row it is none: that row is quarantined as for any
//! number that is no status, whoever it was called with.

mod driver;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;

const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const CALLBACK: i32 = rte_status_code::RTE_ERR_CALLBACK as i32;
const LOST: i32 = -1000;
/// The session whose row says that it is dead.
const BAD: u64 = 7;

/// How many calls are to fail as a whole before.
struct World(AtomicU64);

unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's own world; the arrays of a batch.
    unsafe {
        let (world, batch) = (&*user.cast::<World>(), &*batch);
        if world.0.try_update(SeqCst, SeqCst, |calls| calls.checked_sub(1)).is_ok() {
            return LOST;
        }
        for at in 0..batch.count as usize {
            if *batch.session.add(at) == BAD {
                *batch.status.add(at) = DEAD;
            }
            *batch.output_size.add(at) = 1;
        }
    }
    0
}

#[test]
fn a_row_that_says_dead_is_quarantined_alone_and_with_others() {
    for failing_calls in [0, 2] {
        let world = World(AtomicU64::new(failing_calls));
        let stages = [stage(RTE_HOT, hot)];
        let model = rte_model { user: std::ptr::from_ref(&world).cast_mut().cast(), ..model(&stages, 2, 8) };
        let host = Host::new(&model, &options());
        for session in [BAD, 1] {
            assert_eq!(host.push(message(RTE_ATTACH, session), &[]), 0);
        }
        let (mut failed, mut chunks) = (Vec::new(), 0);
        for _ in 0..6 {
            host.tick();
            host.pop_all(|out| match out.kind {
                RTE_ROW_FAILED => failed.push((out.session, out.status)),
                RTE_CHUNK => chunks += u64::from(out.session == 1),
                _ => assert!(matches!(out.kind, RTE_ATTACHED | RTE_TICK_FAILED), "{}", out.kind),
            });
        }
        assert_eq!((failed, chunks, host.info().health), (vec![(BAD, CALLBACK)], 6 - failing_calls, 0));
    }
}
