//! With HOLD an engine of rate 0 sleeps while nobody has room, and goes on by itself: whatever it is that makes room, whoever
//! does it, and whatever else happened to the session meanwhile.

mod driver;
mod random;

use std::ffi::c_void;
use std::time::{Duration, Instant};

use driver::*;
use random::Random;

const SESSIONS: u64 = 2;
/// What takes so long hangs.
const HANG: Duration = Duration::from_secs(60);

unsafe extern "C-unwind" fn one_byte(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch, by position.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    0
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

struct Bench {
    host: Host,
    next: [u64; SESSIONS as usize],
    /// Lives that were told to end, less those that have.
    ending: [i64; SESSIONS as usize],
    kept: Vec<rte_output>,
    what: String,
}

impl Bench {
    fn pop(&mut self, keeps: bool) -> bool {
        let mut output: rte_output = zeroed();
        // SAFETY: the engine lives.
        let status = unsafe { rte_outbox_pop(self.host.engine, &mut output) };
        if status != 0 {
            assert_eq!(status, rte_status_code::RTE_AGAIN as i32);
            return false;
        }
        let is_ending = self.ending[output.session as usize] > 0;
        let next = &mut self.next[output.session as usize];
        match output.kind {
            RTE_CHUNK => {
                // What the end of a life drops it drops while we pop.
                let is_next = (output.index, output.dropped) == (*next, 0) || is_ending;
                assert!(is_next, "{}: {} after {next}", self.what, output.index);
                *next = output.index + 1;
            }
            RTE_DETACHED => {
                *next = 0;
                self.ending[output.session as usize] -= 1;
            }
            _ => assert_eq!(output.kind, RTE_ATTACHED, "{}", self.what),
        }
        if keeps {
            self.kept.push(output)
        } else {
            release(output)
        }
        true
    }

    /// Waits, without popping, for what must come to be by itself.
    fn until(&self, what: &str, mut is_so: impl FnMut(&Bench) -> bool) {
        let begin = Instant::now();
        while !is_so(self) {
            assert!(begin.elapsed() < HANG, "{}: {what} never comes", self.what);
            std::thread::yield_now();
        }
    }

    fn session(&self, session: u64) -> Option<rte_session_info> {
        let mut info = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives; a valid place.
        (unsafe { rte_session_get_info(self.host.engine, session, &mut info) } == 0).then_some(info)
    }

    fn send(&mut self, kind: u32, flags: u32, session: u64) {
        self.ending[session as usize] += i64::from([RTE_RESET, RTE_DETACH].contains(&kind));
        assert_eq!(self.host.push(rte_message { flags, ..message(kind, session) }, &[]), 0, "{}", self.what);
    }
}

fn release(mut output: rte_output) {
    // SAFETY: each is released once.
    unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
}

fn run(depth: u32, held: u32, pipeline: u32, lanes: u32, seed: u64) {
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, one_byte)];
    let more = rte_engine_options {
        outbox_policy: RTE_HOLD,
        outbox_depth: depth,
        held_max: held,
        pipeline,
        lanes,
        ..options()
    };
    let host = Host::new(&model(&stages, SESSIONS as u32, 8), &more);
    let what = format!("depth {depth}, held {held}, pipeline {pipeline}, lanes {lanes}, seed {seed}");
    let mut bench =
        Bench { host, next: [0; SESSIONS as usize], ending: [0; SESSIONS as usize], kept: Vec::new(), what };
    (0..SESSIONS).for_each(|session| bench.send(RTE_ATTACH, 0, session));
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(bench.host.engine, std::ptr::null_mut()) }, 0);
    let mut random = Random::new(seed);
    for _ in 0..150 {
        let session = random.below(SESSIONS);
        let is_full = |bench: &Bench| {
            let queued = bench.session(session).map_or(0, |info| info.queued);
            queued == depth.into() || bench.kept.len() >= held as usize
        };
        if random.once_in(2) {
            bench.until("a full ring", is_full);
        }
        if random.once_in(2) {
            bench.until("a rest", |bench| bench.host.info().held > 0 || !bench.kept.is_empty());
        }
        match random.below(8) {
            0 | 1 => {
                bench.pop(false);
            }
            2 => {
                let keeps = bench.kept.len() < 4;
                bench.pop(keeps);
            }
            3 => bench.kept.drain(..).for_each(release),
            4 => bench.send(RTE_RESET, 0, session),
            5 => {
                bench.send(RTE_DETACH, RTE_DRAIN, session);
                let begin = Instant::now();
                while bench.ending[session as usize] > 0 {
                    assert!(begin.elapsed() < HANG, "{}: the end of a life that drains never comes", bench.what);
                    bench.pop(false);
                }
                bench.send(RTE_ATTACH, 0, session);
            }
            6 => {
                bench.send(RTE_PAUSE, 0, session);
                bench.until("the pause", |bench| bench.session(session).is_none_or(|info| info.paused == 1));
                bench.pop(false);
                bench.send(RTE_RESUME, 0, session);
            }
            _ => {
                bench.send(RTE_DETACH, 0, session);
                bench.send(RTE_ATTACH, 0, session);
            }
        }
    }
    // Whoever takes what there is gets more of both, for ever.
    bench.kept.drain(..).for_each(release);
    for _ in 0..50 {
        let before = bench.next;
        let begin = Instant::now();
        let mut got = [false; SESSIONS as usize];
        while got != [true; SESSIONS as usize] {
            assert!(begin.elapsed() < HANG, "{}: no chunk comes of {got:?}", bench.what);
            bench.pop(false);
            (0..SESSIONS as usize).for_each(|at| got[at] |= bench.next[at] != before[at]);
        }
    }
}

#[test]
fn a_parked_engine_goes_on_whatever_it_is_that_makes_room() {
    for seed in 0..40 {
        for lanes in [RTE_LANES_INLINE, RTE_LANES_THREADS] {
            for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
                run(1 + seed as u32 % 3, 1 + seed as u32 % 2, pipeline, lanes, seed);
            }
        }
    }
}
