//! A host that takes outputs by a callback gets them on the thread that drives the engine, in the tick in which they came
//! to be, up to the last one; and what would make that thread wait for itself is told instead.

mod driver;

use std::ffi::c_void;
use std::sync::Mutex;
use std::thread::ThreadId;

use driver::*;

#[derive(Default)]
struct Seen {
    engine: usize,
    /// What a callback keeps longer than it runs.
    kept: Vec<rte_output>,
    keeps: bool,
    /// kind, session, tick, thread.
    told: Vec<(u32, u64, u64, ThreadId)>,
    /// What calls in the callback returned.
    inside: [i32; 5],
}

// SAFETY: records of outputs, which may be released on any thread.
unsafe impl Send for Seen {}

unsafe extern "C-unwind" fn take(user: *mut c_void, output: *mut rte_output) {
    // SAFETY: the test's own `Seen`; the record is ours until we return, and each is released once.
    unsafe {
        let mut seen = (*user.cast::<Mutex<Seen>>()).lock().unwrap();
        let engine = seen.engine as *mut rte_engine;
        let output = &mut *output;
        let this = std::thread::current().id();
        seen.told.push((output.kind, output.session, output.tick, this));
        let mut other: rte_output = zeroed();
        seen.inside = [
            rte_engine_tick(engine, 0),
            rte_outbox_wait(engine, 1),
            rte_engine_stop(engine, 1, std::ptr::null_mut()),
            rte_outbox_pop(engine, &mut other),
            rte_inbox_push(engine, &message(RTE_PAUSE, 99)),
        ];
        if seen.keeps && output.kind == RTE_CHUNK {
            seen.kept.push(*output);
        } else {
            rte_output_release(output, std::ptr::null_mut());
        }
    }
}

unsafe extern "C-unwind" fn one_byte(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch, by position.
    unsafe {
        std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1);
        let dies_at = user as u64;
        if dies_at > 0 && (*batch).tick == dies_at { rte_status_code::RTE_ERR_DEAD as i32 } else { 0 }
    }
}

fn host(seen: &Mutex<Seen>, dies_at: u64, policy: u32) -> Host {
    let stages = [stage(RTE_HOT, one_byte)];
    let model = rte_model { user: dies_at as *mut c_void, ..model(&stages, 4, 8) };
    let user = std::ptr::from_ref(seen).cast_mut().cast();
    let options =
        rte_engine_options { on_output: Some(take), on_output_user: user, outbox_policy: policy, ..options() };
    let host = Host::new(&model, &options);
    seen.lock().unwrap().engine = host.engine as usize;
    host
}

const STATE: i32 = rte_status_code::RTE_ERR_STATE as i32;
const DEADLOCK: i32 = rte_status_code::RTE_ERR_DEADLOCK as i32;

#[test]
fn outputs_come_on_the_thread_that_ticks_in_their_tick_and_calls_that_would_wait_for_it_are_refused() {
    let seen = Mutex::new(Seen::default());
    let host = host(&seen, 0, RTE_DROP_OLDEST);
    host.push(message(RTE_ATTACH, 7), &[]);
    for _ in 0..3 {
        assert_eq!(host.tick(), 0);
    }
    host.push(message(RTE_DETACH, 7), &[]);
    assert_eq!(host.tick(), 0);
    let this = std::thread::current().id();
    let told: Vec<_> = seen.lock().unwrap().told.iter().filter(|(kind, ..)| *kind != RTE_REJECTED).copied().collect();
    let expected = [(RTE_ATTACHED, 0), (RTE_CHUNK, 0), (RTE_CHUNK, 1), (RTE_CHUNK, 2), (RTE_DETACHED, 3)];
    assert_eq!(told, expected.map(|(kind, tick)| (kind, 7, tick, this)));
    assert_eq!(seen.lock().unwrap().inside, [DEADLOCK, DEADLOCK, DEADLOCK, STATE, 0]);
}

#[test]
fn the_last_output_of_an_engine_that_dies_is_told_too() {
    let seen = Mutex::new(Seen::default());
    let host = host(&seen, 3, RTE_DROP_OLDEST);
    host.push(message(RTE_ATTACH, 7), &[]);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, std::ptr::null_mut()) }, rte_status_code::RTE_ERR_DEAD as i32);
    let told: Vec<u32> = seen.lock().unwrap().told.iter().map(|(kind, ..)| *kind).collect();
    assert_eq!(told.iter().filter(|kind| **kind == RTE_CHUNK).count(), 3);
    assert_eq!(*told.last().unwrap(), RTE_DEAD);
}

#[test]
fn with_hold_outputs_that_the_callback_keeps_hold_the_session_until_they_are_released() {
    let seen = Mutex::new(Seen { keeps: true, ..Seen::default() });
    let host = host(&seen, 0, RTE_HOLD);
    host.push(message(RTE_ATTACH, 7), &[]);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, std::ptr::null_mut()) }, 0);
    let mut next = 0;
    while next < 5000 {
        let kept = std::mem::take(&mut seen.lock().unwrap().kept);
        for mut output in kept {
            assert_eq!((output.index, output.dropped), (next, 0));
            next += 1;
            // SAFETY: released once, on a thread of the host.
            unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
        }
        std::thread::yield_now();
    }
    seen.lock().unwrap().keeps = false;
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    assert_eq!(host.info().dropped, 0);
    let kept = std::mem::take(&mut seen.lock().unwrap().kept);
    kept.into_iter().for_each(|mut output| {
        // SAFETY: as above.
        unsafe { rte_output_release(&mut output, std::ptr::null_mut()) }
    });
    assert_eq!(seen.lock().unwrap().told.last().unwrap().0, RTE_DETACHED);
}
