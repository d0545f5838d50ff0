//! A loop behind `model.serve` and the other threads: what wakes it, who may call what, and how it ends.

mod driver;
mod serve_host;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_void};
use std::ptr::{null, null_mut};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};

use driver::*;
use serve_host::*;

/// What takes so long hangs.
const HANG: u64 = 60_000_000_000;

/// An engine with its loop on a thread of its own.
struct Started<'a> {
    host: Host,
    it: Box<Loop<'a>>,
}

impl<'a> Started<'a> {
    fn new(rows: u32, options: &rte_engine_options, body: impl FnMut(Ends) -> i32 + Send + 'a) -> Started<'a> {
        let mut it = Loop::new(body);
        let host = Host::new(&it.model(rows), options);
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_start(host.engine, null_mut()) }, OK);
        Started { host, it }
    }

    fn ends(&self) -> Ends {
        Ends(self.host.engine)
    }

    /// Waits for the next output, which must come.
    fn next(&self) -> Said {
        loop {
            match self.ends().output() {
                Ok((output, _)) => return short(&output),
                // SAFETY: the engine lives.
                Err(AGAIN) => _ = unsafe { rte_outbox_wait(self.host.engine, u64::MAX) },
                Err(status) => panic!("the outbox says {status}"),
            }
        }
    }

    /// Stops and frees it; fails the test if the loop did.
    fn end(mut self) -> Vec<Said> {
        let status = self.ends().stop(u64::MAX);
        self.it.check();
        assert_eq!(status, OK);
        self.ends().outputs()
    }
}

impl Drop for Started<'_> {
    fn drop(&mut self) {
        // The engine goes before its loop: `host` stands first.
        let _ = self.ends().stop(u64::MAX);
    }
}

/// A loop that passes every message by until the stop.
fn until_closed(ends: Ends, mut each: impl FnMut(Shown)) -> i32 {
    loop {
        while let Ok(shown) = ends.pop() {
            each(shown);
        }
        match ends.wait(u64::MAX) {
            OK => {}
            status => return status,
        }
    }
}

#[test]
fn a_loop_that_holds_chunks_back_is_woken_by_the_pop_that_makes_room() {
    const CHUNKS: u64 = 20_000;
    let options = rte_engine_options { outbox_depth: 1, outbox_policy: RTE_HOLD, ..options() };
    let (turns, refused) = (AtomicU64::new(0), AtomicU64::new(0));
    let started = Started::new(2, &options, |ends| {
        let mut next = [0; 2];
        loop {
            while let Ok(shown) = ends.pop() {
                assert_eq!(ends.tell(RTE_ATTACHED, shown.session), OK);
            }
            for (at, next) in next.iter_mut().enumerate().filter(|(at, _)| ends.session(*at as u64).is_some()) {
                while *next < CHUNKS && ends.chunk(at as u64, *next) == OK {
                    *next += 1;
                }
                refused.fetch_add(u64::from(*next < CHUNKS), SeqCst);
            }
            turns.fetch_add(1, SeqCst);
            match ends.wait(u64::MAX) {
                OK => {}
                status => return status,
            }
        }
    });
    let ends = started.ends();
    ends.send(RTE_ATTACH, 0, 0);
    ends.send(RTE_ATTACH, 1, 0);
    let mut next = [0; 2];
    while next != [CHUNKS; 2] {
        let (kind, session, index, _) = started.next();
        if kind == RTE_CHUNK {
            assert_eq!(index as u64, next[session as usize], "none is lost, none comes twice");
            next[session as usize] += 1;
        }
    }
    println!("{} turns of the loop, {} refused", turns.load(SeqCst), refused.load(SeqCst));
    assert_eq!(started.end().len(), 2);
}

#[test]
fn a_loop_that_holds_chunks_back_is_woken_by_the_release_that_makes_room() {
    let options = rte_engine_options { outbox_depth: 2, held_max: 1, outbox_policy: RTE_HOLD, ..options() };
    let started = Started::new(1, &options, |ends| {
        let mut next = 0;
        loop {
            while let Ok(shown) = ends.pop() {
                assert_eq!(ends.tell(RTE_ATTACHED, shown.session), OK);
            }
            while ends.chunk(1, next) == OK {
                next += 1;
            }
            match ends.wait(u64::MAX) {
                OK => {}
                status => return status,
            }
        }
    });
    started.ends().send(RTE_ATTACH, 1, 0);
    assert_eq!(started.next().0, RTE_ATTACHED);
    // One buffer is the loop's, the others are held here.
    let mut held: [rte_output; 3] = zeroed();
    for index in 0..300 {
        let place = &mut held[index as usize % 3];
        // SAFETY: the engine lives; what was popped is released once.
        unsafe {
            rte_output_release(place, null_mut());
            while rte_outbox_pop(started.host.engine, place) != OK {
                assert_eq!(rte_outbox_wait(started.host.engine, HANG), OK, "chunk {index} does not come");
            }
        }
        assert_eq!((place.kind, place.index), (RTE_CHUNK, index));
    }
    // SAFETY: as above.
    held.iter_mut().for_each(|output| unsafe { rte_output_release(output, null_mut()) });
    started.end();
}

// ---- borrowed values

/// Counts releases.
#[derive(Default)]
struct Counter(AtomicU64);

unsafe extern "C-unwind" fn count(user: *mut c_void) {
    // SAFETY: `user` is a counter that outlives its engine.
    unsafe { &*user.cast::<Counter>() }.0.fetch_add(1, SeqCst);
}

impl Counter {
    fn runs(&self) -> u64 {
        self.0.load(SeqCst)
    }

    /// Pushes a message with a borrowed value.
    fn lend(&self, ends: Ends, kind: u32, session: u64, bytes: &[u8]) {
        let release_user = std::ptr::from_ref(self).cast_mut().cast();
        let message = rte_message { release: Some(count), release_user, ..message(kind, session) };
        assert_eq!(ends.push(message, &[rte_value { flags: RTE_VALUE_BORROWED, ..value(1, bytes) }]), OK);
    }
}

#[test]
fn borrowed_values_are_readable_until_the_next_pop_and_released_once() {
    let counter = Counter::default();
    let words = [0x0303_0303u64; 40];
    let bytes: &[u8] = bytemuck::cast_slice(&words);
    let (status, _) = run(1, &options(), |ends| {
        counter.lend(ends, RTE_ATTACH, 1, bytes);
        counter.lend(ends, RTE_ACTION, 1, bytes);
        let mut message: rte_message = zeroed();
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_inbox_pop(ends.0, &mut message) }, OK);
        // SAFETY: the one value of the message.
        let value = unsafe { *message.values };
        assert_eq!((value.data, value.size, value.flags), (bytes.as_ptr().cast(), 320, 0), "not copied");
        assert_eq!(ends.wait(0), OK, "there is another");
        assert_eq!(ends.tell(RTE_ATTACHED, 1), OK);
        assert_eq!(counter.runs(), 0);
        assert_eq!(ends.pop().map(|shown| shown.values), Ok(vec![(1, bytes.to_vec())]));
        assert_eq!(counter.runs(), 1);
        assert_eq!(ends.wait(0), TIMEOUT, "the one that is shown is not there any more");
        assert_eq!(ends.pop(), Err(AGAIN));
        assert_eq!(counter.runs(), 2);
        // Those that the library answers are given up at once.
        counter.lend(ends, RTE_ATTACH, 1, bytes);
        counter.lend(ends, RTE_ATTACH, 2, bytes);
        counter.lend(ends, RTE_ACTION, 3, bytes);
        assert_eq!(ends.pop(), Err(AGAIN));
        assert_eq!(counter.runs(), 5);
        // One is shown when the loop returns, one is still in the inbox.
        counter.lend(ends, RTE_ACTION, 1, bytes);
        counter.lend(ends, RTE_ACTION, 1, bytes);
        ends.pop().unwrap();
        assert_eq!(counter.runs(), 5);
        OK
    });
    assert_eq!((status, counter.runs()), (OK, 7));
}

#[test]
fn a_loop_that_dies_or_never_ran_releases_what_it_was_lent() {
    for end in [-1000, DEAD, CLOSED] {
        let counter = Counter::default();
        let mut it = Loop::new(|ends| {
            counter.lend(ends, RTE_ATTACH, 1, b"first");
            counter.lend(ends, RTE_ACTION, 1, b"second");
            ends.pop().unwrap();
            end
        });
        let host = Host::new(&it.model(1), &options());
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_run(host.engine, null_mut()) }, DEAD);
        it.check();
        assert_eq!(counter.runs(), 1, "the one that was shown, when the loop returned {end}");
        drop(host);
        assert_eq!(counter.runs(), 2, "the one that was not, at the end");
    }
    let counter = Counter::default();
    let mut it = Loop::new(|_| panic!("never entered"));
    let host = Host::new(&it.model(1), &options());
    counter.lend(Ends(host.engine), RTE_ATTACH, 1, b"first");
    drop(host);
    assert_eq!(counter.runs(), 1);
}

/// What a release tries, with the engine, and what came of it.
struct Inside(Mutex<(Ends, Vec<i32>)>);

unsafe extern "C-unwind" fn try_in_release(user: *mut c_void) {
    // SAFETY: `user` is what the test lent, which outlives its engine.
    let inside = unsafe { &*user.cast::<Inside>() };
    let ends = inside.0.lock().unwrap().0;
    let seen = [
        ends.pop().map_or_else(|status| status, |_| OK),
        ends.wait(0),
        ends.tell(RTE_ATTACHED, 1),
        ends.push(message(RTE_PAUSE, 1), &[]),
        ends.stop(1),
    ];
    inside.0.lock().unwrap().1.extend(seen);
}

// ---- who may call what

#[test]
fn the_other_ends_are_the_loops_alone_on_its_thread() {
    let try_all = |ends: Ends| [ends.pop().map_or_else(|status| status, |_| OK), ends.wait(u64::MAX), ends.chunk(1, 0)];
    let (asks, answers) = channel::<()>();
    let (go, gone) = channel::<()>();
    let started = Started::new(2, &options(), move |ends| {
        asks.send(()).unwrap();
        gone.recv().unwrap();
        asks.send(()).unwrap();
        until_closed(ends, |_| {})
    });
    answers.recv().unwrap();
    assert_eq!(try_all(started.ends()), [STATE; 3], "at work, but another thread");
    go.send(()).unwrap();
    answers.recv().unwrap();
    assert_eq!(try_all(started.ends()), [STATE; 3], "waiting, but another thread");
    // SAFETY: the engine lives.
    unsafe {
        assert_eq!(rte_engine_tick(started.host.engine, 0), STATE);
        assert_eq!(rte_engine_step(started.host.engine, null(), 0, 0), STATE);
        assert_eq!(rte_engine_run(started.host.engine, null_mut()), STATE);
    }
    let ends = started.ends();
    assert_eq!(ends.stop(u64::MAX), OK);
    assert_eq!(try_all(ends), [STATE; 3], "over");
    started.end();

    let mut it = Loop::new(|_| OK);
    let host = Host::new(&it.model(1), &options());
    assert_eq!(try_all(Ends(host.engine)), [STATE; 3], "not driven");
    assert_eq!(host.tick(), STATE, "and never ticked");
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, null_mut()) }, OK, "which decides nothing");
    drop(host);

    let stages = [stage(RTE_HOT, nothing)];
    let host = Host::new(&model(&stages, 1, 8), &options());
    assert_eq!(try_all(Ends(host.engine)), [STATE; 3], "a model with stages");
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

#[test]
fn what_would_dead_lock_in_the_loop_says_so_and_the_rest_works() {
    let inside = Inside(Mutex::new((Ends(null_mut()), Vec::new())));
    run(1, &options(), |ends| {
        let engine = ends.0;
        // SAFETY: the engine lives.
        unsafe {
            assert_eq!(rte_engine_start(engine, null_mut()), DEADLOCK);
            assert_eq!(rte_engine_run(engine, null_mut()), DEADLOCK);
            assert_eq!(rte_engine_tick(engine, 0), DEADLOCK);
            assert_eq!(rte_engine_step(engine, null(), 0, 0), DEADLOCK);
            assert_eq!(rte_engine_stop(engine, 1, null_mut()), DEADLOCK);
            assert_eq!(rte_outbox_wait(engine, u64::MAX), DEADLOCK);
            assert_eq!(rte_outbox_wait(engine, 0), TIMEOUT);
        }
        inside.0.lock().unwrap().0 = ends;
        let release_user = std::ptr::from_ref(&inside).cast_mut().cast();
        let attach = rte_message { release: Some(try_in_release), release_user, ..message(RTE_ATTACH, 1) };
        assert_eq!(ends.push(attach, &[rte_value { flags: RTE_VALUE_BORROWED, ..value(0, b"lent") }]), OK);
        ends.pop().unwrap();
        assert_eq!(ends.pop().map(|shown| shown.kind), Ok(RTE_PAUSE), "pushed by the release");
        assert_eq!(inside.0.lock().unwrap().1, [STATE, STATE, STATE, OK, DEADLOCK]);
        // A stop that only asks is fine, and holds.
        assert_eq!(ends.stop(0), TIMEOUT);
        assert_eq!((ends.push(message(RTE_PAUSE, 1), &[]), ends.wait(u64::MAX)), (STATE, CLOSED));
        // SAFETY: in a callback it only asks.
        unsafe { rte_engine_free(engine) };
        assert_eq!(ends.tell(RTE_ATTACHED, 1), OK, "what is to be said can still be");
        CLOSED
    });
}

// ---- waiting

#[test]
fn a_wait_ends_by_a_push_a_stop_or_its_timeout() {
    let (tell, told) = channel();
    let started = Started::new(1, &options(), |ends| {
        assert_eq!((ends.wait(0), ends.wait(1_000_000)), (TIMEOUT, TIMEOUT));
        loop {
            tell.send(()).unwrap();
            match ends.wait(u64::MAX) {
                OK => assert!(ends.pop().is_ok() && ends.pop() == Err(AGAIN)),
                status => return status,
            }
        }
    });
    for turn in 0..2000 {
        told.recv().unwrap();
        started.ends().send(if turn == 0 { RTE_ATTACH } else { RTE_ACTION }, 1, turn);
    }
    told.recv().unwrap();
    assert_eq!(started.end(), [said(RTE_REJECTED, 1, CLOSED.into(), 1)]);
}

#[test]
fn what_is_said_wakes_its_consumer_while_the_loop_works_on() {
    let (go, gone) = channel::<()>();
    let (seen, is_seen) = channel::<()>();
    let started = Started::new(1, &options(), move |ends| {
        while ends.wait(u64::MAX) == OK {
            ends.pop().unwrap();
            assert_eq!(ends.tell(RTE_ATTACHED, 1), OK);
            for index in 0..300 {
                gone.recv().unwrap();
                assert_eq!(ends.chunk(1, index), OK);
                is_seen.recv().unwrap();
            }
        }
        CLOSED
    });
    started.ends().send(RTE_ATTACH, 1, 0);
    assert_eq!(started.next().0, RTE_ATTACHED);
    for index in 0..300 {
        go.send(()).unwrap();
        while started.ends().output().is_err() {
            // SAFETY: the engine lives.
            assert_eq!(unsafe { rte_outbox_wait(started.host.engine, HANG) }, OK, "chunk {index} wakes nobody");
        }
        seen.send(()).unwrap();
    }
    started.end();
}

#[test]
fn a_loop_that_does_not_come_back_is_stalled_and_a_stop_says_so() {
    let (go, gone) = (channel::<()>(), channel::<()>());
    let (wait, begun) = (go.1, gone.0);
    let started = Started::new(1, &rte_engine_options { stall_ns: 1, ..options() }, move |ends| {
        begun.send(()).unwrap();
        wait.recv().unwrap();
        until_closed(ends, |_| {})
    });
    gone.1.recv().unwrap();
    let mut info = started.ends().info();
    while info.health == OK {
        // A nanosecond has to pass.
        info = started.ends().info();
    }
    assert_eq!((info.health, info.stalled_stage), (TIMEOUT, RTE_STAGE_SERVE));
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives; on error the message is NUL-terminated.
    let message = unsafe {
        assert_eq!(rte_engine_stop(started.host.engine, 1, &mut error), TIMEOUT);
        CStr::from_ptr(error.message.as_ptr()).to_str().unwrap()
    };
    assert!(message.starts_with("model.serve has not come back to the inbox"), "{message}");
    go.0.send(()).unwrap();
    started.end();
    let resting = Started::new(1, &rte_engine_options { stall_ns: 1, ..options() }, |ends| until_closed(ends, |_| {}));
    while resting.ends().info().health != OK {
        // Once it waits it is at rest.
        std::thread::yield_now();
    }
    resting.end();
}

// ---- the end

#[test]
fn at_a_stop_everybody_is_told_and_chunks_are_delivered() {
    let (tell, told) = channel();
    let started = Started::new(8, &options(), move |ends| {
        let mut seen = 0;
        until_closed(ends, |shown| {
            let session = shown.session;
            match (shown.kind, session) {
                (RTE_ATTACH, 2) => {} // is not told yet
                (RTE_ATTACH, _) => {
                    assert_eq!((ends.tell(RTE_ATTACHED, session), ends.chunk(session, 0)), (OK, OK));
                    if session == 6 {
                        assert_eq!(ends.tell(RTE_DETACHED, session), OK);
                    }
                }
                _ => {}
            }
            seen += 1;
            if seen == 8 {
                tell.send(()).unwrap();
            }
        })
    });
    let ends = started.ends();
    for session in 1..=6 {
        ends.send(RTE_ATTACH, session, 10 + session);
    }
    ends.send(RTE_DETACH, 4, 20);
    assert_eq!(ends.push(rte_message { flags: RTE_DRAIN, tag: 21, ..message(RTE_DETACH, 5) }, &[]), OK);
    told.recv().unwrap();
    assert_eq!(ends.stop(u64::MAX), OK);
    assert_eq!(ends.push(message(RTE_PAUSE, 1), &[]), STATE);
    assert!((1..=6).all(|session| ends.session(session).is_none()));
    let mut of: BTreeMap<u64, Vec<(u32, i32, u64)>> = BTreeMap::new();
    while let Ok((output, _)) = ends.output() {
        of.entry(output.session).or_default().push((output.kind, output.status, output.tag));
    }
    assert_eq!(ends.output().err(), Some(CLOSED));
    let (attached, chunk) = ((RTE_ATTACHED, 0, 0), (RTE_CHUNK, 0, 0));
    assert_eq!(of[&1], [attached, chunk, (RTE_DETACHED, CLOSED, 0)]);
    assert_eq!(of[&2], [(RTE_REJECTED, CLOSED, 12)]);
    assert_eq!(of[&4], [attached, (RTE_DETACHED, 0, 20)], "asked for, without its chunks");
    assert_eq!(of[&5], [attached, chunk, (RTE_DETACHED, 0, 21)]);
    assert_eq!(of[&6], [attached, chunk, (RTE_DETACHED, 0, 0)], "said by the loop");
    started.end();
}

#[test]
fn what_is_left_in_the_inbox_is_answered() {
    let (_, rest) = run(1, &options(), |ends| {
        for (kind, session) in [(RTE_ATTACH, 1), (RTE_RESET, 2), (RTE_ACTION, 3), (RTE_DETACH, 4), (RTE_PAUSE, 5)] {
            ends.send(kind, session, 0);
        }
        assert_eq!(ends.stop(0), TIMEOUT);
        assert_eq!(ends.pop(), Err(CLOSED), "a stop was asked for: it is not the loop's any more");
        OK
    });
    let rejected = |session| said(RTE_REJECTED, session, CLOSED.into(), 0);
    assert_eq!(rest, [rejected(1), rejected(2)]);
    // Never driven.
    let mut it = Loop::new(|_| panic!("never entered"));
    let host = Host::new(&it.model(1), &options());
    let ends = Ends(host.engine);
    ends.send(RTE_ATTACH, 1, 0);
    assert_eq!(ends.stop(u64::MAX), OK);
    assert_eq!((ends.outputs(), ends.output().err()), (vec![rejected(1)], Some(CLOSED)));
}

#[test]
fn what_the_loop_returns_is_how_the_engine_ends() {
    let ends_with = |asked: bool, returned: i32| {
        let (status, rest) = run(1, &options(), |ends| {
            ends.attach(1);
            if asked {
                assert_eq!(ends.stop(0), TIMEOUT);
            }
            returned
        });
        (status, rest)
    };
    let stopped = (OK, vec![said(RTE_DETACHED, 1, CLOSED.into(), 1)]);
    assert_eq!(ends_with(true, OK), stopped);
    assert_eq!(ends_with(true, CLOSED), stopped);
    assert_eq!(ends_with(false, OK), stopped, "as if it had been asked for");
    let dead = |status: i32| (DEAD, vec![said(RTE_DEAD, 0, status.into(), 0)]);
    for asked in [false, true] {
        for returned in [-1000, ARGUMENT, DEAD] {
            assert_eq!(ends_with(asked, returned), dead(returned));
        }
        assert_eq!(ends_with(asked, TIMEOUT), dead(CALLBACK), "not a status of a callback");
    }
    assert_eq!(ends_with(false, CLOSED), dead(CALLBACK), "nobody has said so");
}

#[test]
fn a_dead_engine_says_so_to_everybody() {
    let (die, death) = channel::<()>();
    let (ready, is_ready) = channel::<()>();
    let started = Started::new(1, &options(), move |ends| {
        ends.attach(1);
        ends.send(RTE_ATTACH, 2, 0);
        assert_eq!(ends.chunk(1, 0), OK);
        ready.send(()).unwrap();
        death.recv().unwrap();
        -1234
    });
    let ends = started.ends();
    is_ready.recv().unwrap();
    assert_eq!(started.next().0, RTE_CHUNK);
    die.send(()).unwrap();
    let mut output: rte_output = zeroed();
    // SAFETY: the engine lives.
    unsafe {
        assert_eq!(rte_outbox_wait(started.host.engine, u64::MAX), OK);
        assert_eq!(rte_outbox_pop(started.host.engine, &mut output), OK);
        assert_eq!((output.kind, output.status, output.stage), (RTE_DEAD, -1234, RTE_STAGE_SERVE));
        assert_eq!(rte_outbox_wait(started.host.engine, u64::MAX), DEAD);
    }
    assert_eq!((ends.output().err(), ends.push(message(RTE_PAUSE, 1), &[])), (Some(DEAD), DEAD));
    assert_eq!(ends.info().health, -1234);
    assert_eq!(ends.stop(u64::MAX), OK);
}

// ---- many threads

/// Requests of so many tokens from two threads, tokens to three consumers that follow each session's life.
#[test]
fn pushers_and_consumers_on_other_threads_see_each_life_in_order() {
    const SESSIONS: u64 = 40;
    const LIVES: u64 = 50;
    const TOKENS: u64 = 25;
    for policy in [RTE_DROP_OLDEST, RTE_HOLD] {
        let options = rte_engine_options { outbox_policy: policy, outbox_depth: 8, ..options() };
        let mut lives: BTreeMap<u64, u64> = BTreeMap::new();
        let started = Started::new(16, &options, move |ends| {
            loop {
                while let Ok(shown) = ends.pop() {
                    assert_eq!(shown.kind, RTE_ATTACH);
                    assert_eq!(ends.tell(RTE_ATTACHED, shown.session), OK);
                    lives.insert(shown.session, 0);
                }
                lives.retain(|session, next| {
                    while *next < TOKENS && ends.chunk(*session, *next) == OK {
                        *next += 1;
                    }
                    *next < TOKENS || ends.tell(RTE_DETACHED, *session) != OK
                });
                match ends.wait(u64::MAX) {
                    OK => {}
                    status => return status,
                }
            }
        });
        let ends = started.ends();
        let (over, finished) = channel::<(u64, bool)>();
        let inform: Vec<Sender<(u64, bool)>> = vec![over; 3];
        let seen = Lives::default();
        std::thread::scope(|scope| {
            for over in inform {
                let (ends, seen) = (ends, &seen);
                scope.spawn(move || consume(ends, seen, &over));
            }
            // One life of a session at a time: the next ATTACH when the one before is over, or was refused.
            let mut left: BTreeMap<u64, u64> = (0..SESSIONS).map(|session| (session, LIVES)).collect();
            (0..SESSIONS).for_each(|session| ends.send(RTE_ATTACH, session, 0));
            while !left.is_empty() {
                let (session, was_refused) = finished.recv().unwrap();
                let lives = left.get_mut(&session).unwrap();
                *lives -= u64::from(!was_refused);
                match *lives {
                    0 => _ = left.remove(&session),
                    _ => ends.send(RTE_ATTACH, session, 0),
                }
            }
            assert_eq!(ends.stop(u64::MAX), OK);
        });
        let seen = seen.into_inner().unwrap();
        assert_eq!(seen.len() as u64, SESSIONS * LIVES);
        for ((session, generation), mut outputs) in seen {
            // Consumers note what they popped in any order; the numbers say how it was.
            outputs.sort_unstable();
            let kinds: Vec<u32> = outputs.iter().map(|(kind, _)| *kind).collect();
            let chunks: Vec<u64> =
                outputs.iter().filter(|(kind, _)| *kind == RTE_CHUNK).map(|(_, index)| *index).collect();
            assert!(kinds.ends_with(&[RTE_ATTACHED, RTE_DETACHED]), "{session} {generation}: {outputs:?}");
            assert!(chunks.is_sorted_by(|a, b| a < b), "{chunks:?}");
            if policy == RTE_HOLD {
                assert_eq!(chunks, (0..TOKENS).collect::<Vec<_>>());
            }
        }
        started.end();
    }
}

/// What came out of each life: session and generation, kinds and numbers.
type Lives = Mutex<BTreeMap<(u64, u64), Vec<(u32, u64)>>>;

fn consume(ends: Ends, seen: &Lives, over: &Sender<(u64, bool)>) {
    loop {
        match ends.output() {
            Ok((output, _)) if output.kind == RTE_REJECTED => over.send((output.session, true)).unwrap(),
            Ok((output, _)) => {
                let life = (output.session, output.generation);
                seen.lock().unwrap().entry(life).or_default().push((output.kind, output.index));
                if output.kind == RTE_DETACHED {
                    over.send((output.session, false)).unwrap();
                }
            }
            // SAFETY: the engine lives.
            Err(AGAIN) => _ = unsafe { rte_outbox_wait(ends.0, u64::MAX) },
            Err(status) => return assert_eq!(status, CLOSED),
        }
    }
}
