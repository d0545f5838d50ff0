//! What goes in: a push, a message and a question each get the answer that is true at that moment, also from a callback in
//! the middle of a tick, beside a consumer that stands still, and at the end.

mod driver;
mod serve_host;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use driver::*;
use serve_host::{AGAIN, CLOSED, DEAD, Ends, OK, STATE};

const TOO_LARGE: i32 = rte_status_code::RTE_ERR_TOO_LARGE as i32;

/// What the callbacks do.
struct Play<'a> {
    hot: Box<dyn FnMut(&rte_batch) -> i32 + 'a>,
    seed: Box<dyn FnMut(&rte_batch) -> i32 + 'a>,
}

impl<'a> Play<'a> {
    fn new(hot: impl FnMut(&rte_batch) -> i32 + 'a) -> Play<'a> {
        Play { hot: Box::new(hot), seed: Box::new(|_| OK) }
    }

    fn host(&mut self, keys: &[rte_key], max_sessions: u32, options: &rte_engine_options) -> Host {
        let stages = [stage(RTE_HOT, hot)];
        let model = rte_model {
            user: std::ptr::from_mut(self).cast(),
            keys: keys.as_ptr(),
            key_count: keys.len() as u32,
            seed: Some(seed),
            ..model(&stages, max_sessions, 8)
        };
        Host::new(&model, options)
    }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's `Play`, which outlives its engine; callbacks of one lane never overlap; the arrays of a batch.
    unsafe {
        std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1);
        ((*user.cast::<Play<'_>>()).hot)(&*batch)
    }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as above.
    unsafe { ((*user.cast::<Play<'_>>()).seed)(&*batch) }
}

/// An engine as its callbacks, and other threads, have it: once it is made.
#[derive(Default)]
struct Later(AtomicU64);

impl Later {
    fn set(&self, host: &Host) {
        self.0.store(host.engine.expose_provenance() as u64, SeqCst);
    }

    fn ends(&self) -> Ends {
        Ends(std::ptr::with_exposed_provenance_mut(self.0.load(SeqCst) as usize))
    }
}

fn send(host: &Host, kind: u32, session: u64) {
    assert_eq!(host.push(message(kind, session), &[]), OK);
}

fn drain_of(session: u64) -> rte_message {
    rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, session) }
}

fn key(size: usize, of: u32, merge: u32, flags: u32) -> rte_key {
    rte_key { size, r#type: of, merge, flags, ..zeroed() }
}

// ---- pushes

/// Pushes ACTIONs of session 1 until there is no room for more of them.
fn use_up_the_share(ends: Ends) {
    let pushed = (0..1000).take_while(|_| ends.push(message(RTE_ACTION, 1), &[]) == OK).count();
    assert!((1..1000).contains(&pushed), "{pushed}");
    assert_eq!(ends.push(message(RTE_ACTION, 1), &[]), AGAIN);
}

#[test]
fn who_has_used_up_its_share_is_told_of_the_death_and_of_the_stop_all_the_same() {
    for dies in [true, false] {
        let later = Later::default();
        let mut play = Play::new(|_| {
            use_up_the_share(later.ends());
            if dies {
                return DEAD;
            }
            later.ends().stop(0);
            assert_eq!(later.ends().push(message(RTE_ACTION, 1), &[]), STATE, "the stop was asked for");
            OK
        });
        let host = play.host(&[], 1, &options());
        later.set(&host);
        send(&host, RTE_ATTACH, 1);
        assert_eq!(host.tick(), if dies { DEAD } else { OK });
        for session in [1, 2] {
            let expected = if dies { DEAD } else { STATE };
            assert_eq!(host.push(message(RTE_ACTION, session), &[]), expected, "session {session}, dies: {dies}");
        }
    }
}

#[test]
fn a_size_that_no_memory_has_is_too_large_and_nothing_more() {
    let mut play = Play::new(|_| OK);
    let host = play.host(&[key(0, RTE_BYTES, 0, 0), key(0, RTE_BYTES, 0, 0)], 1, &options());
    let byte = [1u8];
    for size in [usize::MAX, usize::MAX / 2 + 1, 1 << 40] {
        let huge = rte_value { size, ..value(0, &byte) };
        assert_eq!(host.push(message(RTE_ATTACH, 1), &[huge]), TOO_LARGE, "{size:#x}");
        assert_eq!(host.push(message(RTE_ATTACH, 1), &[value(1, &byte), huge]), TOO_LARGE, "{size:#x} and 1");
    }
}

#[test]
fn actions_of_many_leave_room_for_the_largest_context_wherever_the_bytes_wrap() {
    // The largest message, with its heads, is a quarter of the bytes to the last one.
    let largest = (1 << 16) - 64 * 40;
    for misplaced in [0, 1 << 14, 1 << 15, 3 << 14] {
        let mut play = Play::new(|_| OK);
        let sizes = rte_engine_options { message_bytes: largest, inbox_bytes: 1, ..options() };
        let host = play.host(&[key(0, RTE_BYTES, 0, 0)], 8, &sizes);
        let bytes = vec![7u8; largest as usize];
        assert_eq!(host.push(message(RTE_ACTION, 9), &[value(0, &bytes[..misplaced])]), OK);
        assert_eq!(host.tick(), OK);
        let taken =
            (1..100).filter(|session| host.push(message(RTE_ACTION, *session), &[value(0, &bytes)]) == OK).count();
        assert!((2..4).contains(&taken), "{taken} of the largest ACTIONs");
        let attach = host.push(message(RTE_ATTACH, 100), &[value(0, &bytes)]);
        assert_eq!(attach, OK, "behind {taken} ACTIONs, {misplaced} bytes after the begin");
    }
}

// ---- what is said of a session

#[test]
fn a_session_whose_end_can_be_popped_is_unknown_also_in_the_middle_of_a_tick() {
    let (later, asks) = (Later::default(), AtomicBool::new(false));
    let mut told = Vec::new();
    let mut seeds = 0;
    let mut play = Play::new(|_| {
        if asks.load(SeqCst) {
            let ends = later.ends();
            while let Ok((output, _)) = ends.output() {
                if matches!(output.kind, RTE_DETACHED | RTE_REJECTED) {
                    told.push((output.kind, output.session, ends.session(output.session).map(|info| info.generation)));
                }
            }
        }
        OK
    });
    play.seed = Box::new(|batch| {
        // SAFETY: the arrays of a batch.
        let sessions = unsafe { std::slice::from_raw_parts(batch.session, batch.count as usize) };
        seeds += u32::from(sessions.contains(&4));
        if sessions.contains(&4) { -1000 } else { OK }
    });
    let host = play.host(&[], 4, &rte_engine_options { seed_attempts: 2, ..options() });
    later.set(&host);
    (1..=3).for_each(|session| send(&host, RTE_ATTACH, session));
    assert_eq!(host.tick(), OK);
    send(&host, RTE_ATTACH, 4);
    assert_eq!(host.tick(), OK);
    host.pop_all(|_| ());
    asks.store(true, SeqCst);
    send(&host, RTE_DETACH, 2);
    send(&host, RTE_RESET, 3);
    assert_eq!(host.tick(), OK);
    asks.store(false, SeqCst);
    assert!(later.ends().session(3).is_some_and(|info| info.generation == 5), "the new life of 3");
    drop(host);
    drop(play);
    assert_eq!(
        told,
        [(RTE_DETACHED, 2, None), (RTE_DETACHED, 3, Some(5)), (RTE_REJECTED, 4, None)],
        "of whom, and what info says then"
    );
    assert_eq!(seeds, 2);
}

#[test]
fn a_session_that_has_drained_stays_unknown_while_another_takes_its_row() {
    let (later, asks) = (Later::default(), AtomicBool::new(false));
    let mut said = Vec::new();
    let mut play = Play::new(|_| {
        if asks.load(SeqCst) {
            said.push(later.ends().session(2).is_some());
        }
        OK
    });
    let host = play.host(&[], 2, &options());
    later.set(&host);
    (1..=2).for_each(|session| send(&host, RTE_ATTACH, session));
    assert_eq!(host.tick(), OK);
    assert_eq!(host.push(drain_of(2), &[]), OK);
    assert_eq!(host.tick(), OK);
    let mut ended = 0;
    host.pop_all(|output| ended += u64::from(output.kind == RTE_DETACHED));
    assert_eq!((ended, later.ends().session(2).is_some()), (1, false));
    send(&host, RTE_ATTACH, 3);
    asks.store(true, SeqCst);
    assert_eq!(host.tick(), OK);
    drop(host);
    drop(play);
    assert_eq!(said, [false]);
}

/// A consumer that was told asks at once, while the engine goes on.
#[test]
fn who_was_told_of_an_end_is_told_no_more_of_that_life() {
    const SESSIONS: u64 = 4;
    const LIVES: u64 = 20_000;
    let mut play = Play::new(|_| OK);
    let host = play.host(&[], SESSIONS as u32, &options());
    let later = Later::default();
    later.set(&host);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, null_mut()) }, OK);
    (1..=SESSIONS).for_each(|session| send(&host, RTE_ATTACH, session));
    let (mut ends, mut output) = (0, zeroed());
    while ends < LIVES {
        // SAFETY: the engine lives; each output is released once.
        unsafe {
            assert_eq!(rte_outbox_wait(host.engine, u64::MAX), OK);
            while rte_outbox_pop(host.engine, &mut output) == OK {
                let rte_output { kind, session, generation, .. } = output;
                rte_output_release(&mut output, null_mut());
                if kind == RTE_ATTACHED {
                    let detach = message(RTE_DETACH, session);
                    let detach = if generation % 2 == 0 { detach } else { drain_of(session) };
                    assert_eq!(host.push(detach, &[]), OK);
                }
                if kind == RTE_DETACHED {
                    ends += 1;
                    let said = later.ends().session(session).map(|info| info.generation);
                    assert_eq!(said, None, "session {session}, whose life {generation} has ended");
                    send(&host, RTE_ATTACH, session);
                }
            }
        }
    }
}

#[test]
fn who_was_told_of_an_end_by_the_hosts_own_loop_is_told_no_more_of_that_life() {
    const LIVES: u64 = 20_000;
    let mut it = serve_host::Loop::new(|ends| {
        loop {
            while let Ok(shown) = ends.pop() {
                let said = [ends.tell(RTE_ATTACHED, shown.session), ends.tell(RTE_DETACHED, shown.session)];
                assert_eq!(said[0] == OK, shown.kind == RTE_ATTACH);
            }
            match ends.wait(u64::MAX) {
                OK => {}
                status => return status,
            }
        }
    });
    let host = Host::new(&it.model(4), &options());
    let ends = Ends(host.engine);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(host.engine, null_mut()) }, OK);
    (1..=4).for_each(|session| ends.send(RTE_ATTACH, session, 0));
    let mut ended = 0;
    while ended < LIVES {
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_outbox_wait(host.engine, u64::MAX) }, OK);
        while let Ok((output, _)) = ends.output() {
            if output.kind == RTE_DETACHED {
                ended += 1;
                assert!(ends.session(output.session).is_none(), "life {} has ended", output.generation);
                ends.send(RTE_ATTACH, output.session, 0);
            }
        }
    }
    assert_eq!(ends.stop(u64::MAX), OK);
    it.check();
}

// ---- the end

/// Kind, status, generation and user of each output that is left.
fn rest(host: &Host) -> Vec<(u32, i32, u64, u64)> {
    let mut rest = Vec::new();
    host.pop_all(|output| rest.push((output.kind, output.status, output.generation, output.user)));
    rest
}

#[test]
fn a_reset_that_the_stop_answers_names_the_life_that_it_has_not_ended() {
    let mut play = Play::new(|_| OK);
    let host = play.host(&[], 2, &options());
    assert_eq!(host.push(rte_message { user: 9, ..message(RTE_ATTACH, 1) }, &[]), OK);
    assert_eq!(host.tick(), OK);
    host.pop_all(|_| ());
    send(&host, RTE_RESET, 1);
    assert_eq!(host.push(rte_message { user: 5, ..message(RTE_RESET, 2) }, &[]), OK);
    assert_eq!(Ends(host.engine).stop(u64::MAX), OK);
    assert_eq!(rest(&host), [(RTE_REJECTED, CLOSED, 1, 9), (RTE_REJECTED, CLOSED, 0, 5), (RTE_DETACHED, CLOSED, 1, 9)]);
}

#[test]
fn a_reset_that_the_stop_of_a_loop_answers_names_the_life_that_it_has_not_ended() {
    let mut it = serve_host::Loop::new(|ends| {
        assert_eq!(ends.push(rte_message { user: 9, ..message(RTE_ATTACH, 1) }, &[]), OK);
        assert!(ends.pop().is_ok());
        assert_eq!(ends.tell(RTE_ATTACHED, 1), OK);
        ends.outputs();
        ends.send(RTE_RESET, 1, 0);
        assert_eq!(ends.push(rte_message { user: 5, ..message(RTE_RESET, 2) }, &[]), OK);
        OK
    });
    let host = Host::new(&it.model(2), &options());
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, null_mut()) }, OK);
    it.check();
    assert_eq!(rest(&host), [(RTE_REJECTED, CLOSED, 1, 9), (RTE_REJECTED, CLOSED, 0, 5), (RTE_DETACHED, CLOSED, 1, 9)]);
}

#[test]
fn a_reset_that_the_stop_answers_names_no_life_whose_end_was_popped() {
    let mut play = Play::new(|_| OK);
    let host = play.host(&[], 2, &options());
    assert_eq!(host.push(rte_message { user: 9, ..message(RTE_ATTACH, 1) }, &[]), OK);
    assert_eq!(host.tick(), OK);
    assert_eq!(host.push(drain_of(1), &[]), OK);
    assert_eq!(host.tick(), OK);
    assert_eq!(rest(&host).last(), Some(&(RTE_DETACHED, OK, 1, 9)));
    assert_eq!(host.push(rte_message { user: 5, ..message(RTE_RESET, 1) }, &[]), OK);
    assert_eq!(Ends(host.engine).stop(u64::MAX), OK);
    assert_eq!(rest(&host), [(RTE_REJECTED, CLOSED, 0, 5)]);
}

#[test]
fn a_reset_that_the_stop_of_a_loop_answers_names_no_life_whose_end_was_popped() {
    let mut it = serve_host::Loop::new(|ends| {
        ends.attach(1);
        assert_eq!((ends.chunk(1, 0), ends.tell(RTE_DETACHED, 1)), (OK, OK));
        assert_eq!(ends.outputs().len(), 2);
        assert_eq!(ends.push(rte_message { user: 5, ..message(RTE_RESET, 1) }, &[]), OK);
        OK
    });
    let host = Host::new(&it.model(2), &options());
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, null_mut()) }, OK);
    it.check();
    assert_eq!(rest(&host), [(RTE_REJECTED, CLOSED, 0, 5)]);
}
