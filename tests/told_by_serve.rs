//! Whoever is to hear something of a loop behind `model.serve` hears it at once: with on_output too, while the loop waits,
//! hangs, and when it dies.

mod driver;
mod serve_host;

use std::ffi::{CStr, c_void};
use std::ptr::null_mut;
use std::sync::Mutex;
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use driver::*;
use serve_host::*;

/// What takes so long hangs.
const HANG: Duration = Duration::from_secs(60);

/// What a callback has told, and what its calls returned.
struct Told {
    engine: Mutex<Ends>,
    to: Mutex<Sender<(Said, [i32; 3])>>,
}

unsafe extern "C-unwind" fn take(user: *mut c_void, output: *mut rte_output) {
    // SAFETY: the test's own `Told`; the record is ours until we return.
    unsafe {
        let told = &*user.cast::<Told>();
        let ends = *told.engine.lock().unwrap();
        let inside = [ends.pop().err().unwrap_or(OK), ends.wait(0), ends.tell(RTE_DETACHED, 1)];
        told.to.lock().unwrap().send((short(&*output), inside)).unwrap();
        rte_output_release(output, null_mut());
    }
}

fn with_callback(told: &Told) -> rte_engine_options {
    rte_engine_options {
        on_output: Some(take),
        on_output_user: std::ptr::from_ref(told).cast_mut().cast(),
        ..options()
    }
}

fn words(host: &Host) -> String {
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives; on error the message is NUL-terminated.
    unsafe {
        assert_eq!(rte_engine_stop(host.engine, 1, &mut error), TIMEOUT);
        CStr::from_ptr(error.message.as_ptr()).to_string_lossy().into_owned()
    }
}

#[test]
fn what_a_waiting_loop_is_not_shown_is_told_to_on_output_while_it_waits() {
    let (to, told) = channel();
    let user = Told { engine: Mutex::new(Ends(null_mut())), to: Mutex::new(to) };
    let (waits, is_waiting) = channel();
    let mut it = Loop::new(move |ends| {
        assert_eq!(ends.pop(), Err(AGAIN));
        loop {
            waits.send(()).unwrap();
            match ends.wait(u64::MAX) {
                OK => while ends.pop().is_ok() {},
                status => return status,
            }
        }
    });
    let host = Host::new(&it.model(1), &with_callback(&user));
    let ends = Ends(host.engine);
    *user.engine.lock().unwrap() = ends;
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, null_mut()) }, OK);
    for tag in 0..100 {
        is_waiting.recv_timeout(HANG).unwrap();
        ends.send(RTE_ACTION, 7, tag);
        let (said_of_it, _) = told.recv_timeout(HANG).expect("the callback is told, though no other message comes");
        assert_eq!(said_of_it, said(RTE_REJECTED, 7, UNKNOWN.into(), 0));
    }
    assert_eq!(ends.stop(u64::MAX), OK);
    it.check();
}

#[test]
fn a_loop_that_hangs_after_it_has_said_something_to_on_output_is_named_and_the_callback_is_no_loop() {
    let (to, told) = channel();
    let user = Told { engine: Mutex::new(Ends(null_mut())), to: Mutex::new(to) };
    let (go, gone) = channel();
    let mut it = Loop::new(move |ends| {
        assert_eq!(ends.wait(u64::MAX), OK);
        assert_eq!(ends.pop().map(|shown| shown.kind), Ok(RTE_ATTACH));
        assert_eq!(ends.tell(RTE_ATTACHED, 1), OK);
        gone.recv().unwrap();
        CLOSED
    });
    let host = Host::new(&it.model(1), &rte_engine_options { stall_ns: 1, ..with_callback(&user) });
    let ends = Ends(host.engine);
    *user.engine.lock().unwrap() = ends;
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, null_mut()) }, OK);
    ends.send(RTE_ATTACH, 1, 0);
    let attached = (said(RTE_ATTACHED, 1, 0, 1), [STATE; 3]);
    assert_eq!(told.recv_timeout(HANG).unwrap(), attached, "what is the loop's alone is refused");
    let begin = Instant::now();
    while ends.info().stalled_stage != RTE_STAGE_SERVE {
        assert!(begin.elapsed() < HANG, "info does not name the loop");
    }
    let words = words(&host);
    assert!(words.starts_with("model.serve has not come back to the inbox"), "{words}");
    go.send(()).unwrap();
    assert_eq!(ends.stop(u64::MAX), OK);
    it.check();
    assert_eq!(told.try_iter().map(|(said, _)| said).collect::<Vec<_>>(), [said(RTE_DETACHED, 1, CLOSED.into(), 1)]);
}

#[test]
fn what_was_said_of_messages_to_nobody_comes_out_before_the_death_of_the_loop() {
    let (status, rest) = run(1, &options(), |ends| {
        ends.attach(1);
        for round in 0..2 {
            ends.send(RTE_ACTION, 7 + round, 0);
            assert_eq!(ends.push(rte_message { generation: 9, ..message(RTE_PAUSE, 1) }, &[]), OK);
            assert_eq!(ends.pop(), Err(AGAIN));
        }
        -1234
    });
    let of = |session, status: i32| said(RTE_REJECTED, session, status.into(), 0);
    let rejected = [of(7, UNKNOWN), of(1, STALE), of(8, UNKNOWN), of(1, STALE)];
    assert_eq!((status, &rest[..4]), (DEAD, &rejected[..]));
    assert_eq!(rest[4..], [said(RTE_DEAD, 0, -1234, 0)]);
}

#[test]
fn what_was_said_of_a_message_to_nobody_does_not_wait_for_the_next_call_of_a_busy_loop() {
    run(1, &options(), |ends| {
        ends.attach(1);
        ends.send(RTE_ACTION, 7, 0);
        ends.send(RTE_ACTION, 1, 0);
        assert_eq!(ends.pop().map(|shown| shown.session), Ok(1));
        assert_eq!(ends.outputs(), [said(RTE_REJECTED, 7, UNKNOWN.into(), 0)], "while the loop works on");
        OK
    });
}
