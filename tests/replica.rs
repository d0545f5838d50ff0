//! `rte_replica_model`: models of one row, run one after the other, are what a batched one must equal.

mod driver;
mod random;
mod replica_host;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;
use random::Random;
use replica_host::*;

// ---- equal to the batched model

const SCHEDULES: u64 = 1000;
const CHUNK: usize = 16;

unsafe extern "C-unwind" fn make_reference(user: *mut c_void, child: *mut rte_model) -> i32 {
    // SAFETY: `user` is a counter that outlives the model; `child` is a descriptor.
    unsafe {
        (*user.cast::<AtomicU64>()).fetch_add(1, SeqCst);
        let status = rte_reference_model(child);
        ((*child).max_sessions, (*child).chunk_bytes) = (1, CHUNK);
        ((*child).rate_num, (*child).rate_den) = (0, 0);
        // Of one row: dense or not is the same.
        (*child).flags |= RTE_MODEL_DENSE;
        status
    }
}

/// One engine of the two, and what came out of it.
struct Run {
    host: Host,
    /// Ticks are told apart only where their number is the schedule's.
    counts_ticks: bool,
    outputs: Vec<(rte_output, Vec<u8>)>,
}

impl Run {
    fn pop(&mut self) {
        let outputs = &mut self.outputs;
        self.host.pop_all(|output| {
            let bytes = match output.size {
                0 => Vec::new(),
                // SAFETY: the chunk of an output that is not released yet.
                size => unsafe { std::slice::from_raw_parts(output.data.cast::<u8>(), size) }.to_vec(),
            };
            outputs.push((*output, bytes));
        });
    }

    /// Ticks that step nobody, until nothing is under way: however fast its lanes are, what comes next is the same.
    fn settle(&self) {
        loop {
            // SAFETY: the engine lives.
            assert_eq!(unsafe { rte_engine_step(self.host.engine, std::ptr::null(), 0, u64::MAX) }, 0);
            let info = self.host.info();
            if info.encoding + info.retiring + info.pending == 0 {
                return;
            }
        }
    }

    /// What came out, as far as it does not depend on the clock or on memory.
    fn said(&self) -> Vec<(String, Vec<u8>)> {
        let said = self.outputs.iter().map(|(output, bytes)| {
            let rte_output { kind, flags, session, user, generation, index, dropped, tag, heavy_tag, .. } = *output;
            let tick = if self.counts_ticks { output.tick } else { 0 };
            let rte_output { status, frames, stage, row, .. } = *output;
            let text = format!(
                "{kind} {flags} {session} {user} {generation} {index} {dropped} {tag} {heavy_tag} {tick} {status} {frames} {stage} {row}"
            );
            (text, bytes.clone())
        });
        said.collect()
    }
}

/// What a schedule's engines are made with.
#[derive(Clone, Copy, Debug)]
struct Setup {
    rows: u32,
    lanes: u32,
    pipeline: u32,
    flags: u32,
    is_dense: bool,
}

impl Setup {
    fn of(random: &mut Random) -> Setup {
        let lanes = if random.below(4) == 0 { RTE_LANES_THREADS } else { RTE_LANES_INLINE };
        Setup {
            rows: 1 + random.below(6) as u32,
            lanes,
            pipeline: random.below(3) as u32,
            flags: [0, 0, RTE_MODEL_SEED_ASIDE, RTE_MODEL_NO_MIDRUN][random.below(4) as usize],
            is_dense: random.below(3) == 0,
        }
    }

    fn run(&self, model: &rte_model) -> Run {
        let options = rte_engine_options { lanes: self.lanes, pipeline: self.pipeline, ..options() };
        let counts_ticks = self.lanes == RTE_LANES_INLINE;
        Run { host: Host::new(model, &options), counts_ticks, outputs: Vec::new() }
    }

    fn runs(&self, makes: &AtomicU64) -> [Run; 2] {
        let (mut batched, mut replica): (rte_model, rte_model) = (descriptor(), descriptor());
        // SAFETY: descriptors; the counter outlives the model.
        unsafe {
            assert_eq!(rte_reference_model(&mut batched), 0);
            let user = std::ptr::from_ref(makes).cast_mut().cast();
            assert_eq!(rte_replica_model(&mut replica, self.rows, Some(make_reference), user), 0);
        }
        (batched.max_sessions, batched.chunk_bytes) = (self.rows, CHUNK);
        (batched.rate_num, batched.rate_den) = (0, 0);
        batched.flags |= self.flags | if self.is_dense { RTE_MODEL_DENSE } else { 0 };
        assert_eq!(replica.flags, RTE_MODEL_RETRY_SAFE);
        replica.flags |= self.flags;
        [self.run(&batched), self.run(&replica)]
    }
}

/// Pushes one random message to both; `is_plain`: one that starts and ends nothing.
fn random_message(random: &mut Random, runs: &[Run; 2], tag: u64, is_plain: bool) {
    let kinds =
        [RTE_ATTACH, RTE_ATTACH, RTE_ATTACH, RTE_DETACH, RTE_RESET, RTE_ACTION, RTE_ACTION, RTE_PAUSE, RTE_RESUME];
    let kind = if is_plain { RTE_ACTION } else { random.pick(&kinds) };
    let session = random.below(8);
    let prompt: Vec<u8> = (0..random.below(20)).map(|_| random.next() as u8).collect();
    let (action, seed) = ((random.next() as i64).to_ne_bytes(), (random.next() as i64).to_ne_bytes());
    let mut values = Vec::new();
    if matches!(kind, RTE_ATTACH | RTE_RESET | RTE_ACTION) {
        if !is_plain && random.below(2) == 0 {
            values.push(value(RTE_REFERENCE_PROMPT, &prompt));
        }
        if random.below(3) > 0 {
            values.push(value(RTE_REFERENCE_ACTION, &action));
        }
        if random.below(3) == 0 {
            values.push(value(RTE_REFERENCE_SEED, &seed));
        }
    }
    let flags = match kind {
        RTE_ACTION if random.below(2) == 0 => RTE_PARTIAL,
        RTE_DETACH if random.below(2) == 0 => RTE_DRAIN,
        _ => 0,
    };
    let sent = rte_message { flags, tag, user: session * 7, ..message(kind, session) };
    let results = runs.each_ref().map(|run| run.host.push(sent, &values));
    assert_eq!(results[0], results[1]);
}

fn schedule(seed: u64) -> (Setup, usize) {
    let mut random = Random::new(seed);
    let setup = Setup::of(&mut random);
    let makes = AtomicU64::new(0);
    let mut runs = setup.runs(&makes);
    for step in 0..30 {
        let (is_plain, pops) = (random.below(2) == 0, random.below(4) > 0);
        // On threads, when a row is free or a prompt applied is the clock's to say: not while somebody comes or goes. Who was
        // seeded aside may begin an encode in a plain tick.
        let is_moving = !is_plain || setup.flags == RTE_MODEL_SEED_ASIDE;
        let settles = setup.lanes == RTE_LANES_THREADS && is_moving;
        if settles {
            runs.iter().for_each(Run::settle);
        }
        (0..random.below(4)).for_each(|at| random_message(&mut random, &runs, step * 10 + at + 1, is_plain));
        for run in &mut runs {
            assert_eq!(run.host.tick(), 0);
            if settles {
                run.settle();
            }
            if pops {
                run.pop();
            }
        }
    }
    for run in &mut runs {
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_stop(run.host.engine, u64::MAX, null_mut()) }, 0);
        run.pop();
    }
    let [batched, replica] = runs.each_ref().map(Run::said);
    if let Some(at) = (0..batched.len().max(replica.len())).find(|at| batched.get(*at) != replica.get(*at)) {
        panic!("seed {seed}, {setup:?}, output {at}:\n{:?}\n{:?}", batched.get(at), replica.get(at));
    }
    drop(runs);
    let makes = makes.load(SeqCst);
    assert!(makes <= setup.rows.into(), "seed {seed}, {setup:?}: {makes} children");
    (setup, batched.iter().filter(|(_, bytes)| !bytes.is_empty()).count())
}

#[test]
fn a_replica_of_the_reference_model_says_what_the_batched_one_says() {
    if let Ok(seed) = std::env::var("RTE_REPLICA_SEED") {
        schedule(seed.parse().expect("a number"));
        return;
    }
    let (mut chunks, mut threaded) = (0, 0);
    for seed in 0..SCHEDULES {
        let (setup, seen) = schedule(seed);
        chunks += seen;
        threaded += u64::from(setup.lanes == RTE_LANES_THREADS);
    }
    println!("{SCHEDULES} schedules, {threaded} of them on threads lanes: {chunks} chunks, all the same");
    assert!(chunks > 20_000 && threaded > 100);
}

// ---- children

#[test]
fn children_are_pooled_and_each_is_destroyed_once() {
    for seed in 0..200 {
        let nursery = Nursery::default();
        let mut random = Random::new(seed);
        let rows = 1 + random.below(5);
        let host = Host::new(&nursery.model(rows as u32), &options());
        let (mut there, mut most): (Vec<u64>, u64) = (Vec::new(), 0);
        for step in 0..60i64 {
            let session = if random.below(2) == 0 { 10 * random.below(4) } else { random.below(40) };
            if session % 10 == DEAD_CALL {
                continue;
            }
            let kind = random.pick(&[RTE_ATTACH, RTE_ATTACH, RTE_DETACH, RTE_RESET]);
            let moved = step.to_ne_bytes();
            let values = [value(MOVE, &moved)];
            assert_eq!(
                host.push(rte_message { kind, ..attach(session) }, if kind == RTE_DETACH { &[] } else { &values }),
                0
            );
            for session in &there {
                let moved = (*session as i64 * 100 + step).to_ne_bytes();
                assert_eq!(host.push(message(RTE_ACTION, *session), &[value(MOVE, &moved)]), 0);
            }
            assert_eq!(host.tick(), 0);
            host.pop_all(|output| {
                if output.kind == RTE_CHUNK {
                    // SAFETY: the chunk of an output that is not released yet.
                    let said = (unsafe { output.data.cast::<u64>().read() }, output.frames);
                    assert_eq!(said, (output.session * 1000 + output.index, 2 + output.session as u32));
                }
                there.retain(|session| *session != output.session || output.kind != RTE_DETACHED);
                if output.kind == RTE_ATTACHED && output.flags == 0 {
                    there.push(output.session);
                }
            });
            most = most.max(there.len() as u64);
            let counts = nursery.counts();
            assert!(counts.alive <= rows && counts.destroyed == counts.thrown, "seed {seed}: {counts:?}");
        }
        let counts = nursery.counts();
        // A life that was never told ATTACHED had a child too: one more than were ever there at once.
        assert!(counts.made <= (most + 1).min(rows) + counts.thrown, "seed {seed}: {counts:?}, at most {most} there");
        drop(host);
        let counts = nursery.counts();
        assert_eq!((counts.alive, counts.destroyed, counts.in_use), (0, counts.made, 0), "seed {seed}");
    }
}

fn attach(session: u64) -> rte_message {
    rte_message { user: session + 5, ..message(RTE_ATTACH, session) }
}

/// The kinds and statuses of what comes out until a session has said so much.
fn said(host: &Host, session: u64) -> Vec<(u32, i32, u32)> {
    let mut said = Vec::new();
    host.pop_all(|output| {
        if output.session == session {
            said.push((output.kind, output.status, output.stage));
        }
    });
    said
}

#[test]
fn a_child_that_fails_fails_its_row_alone() {
    let nursery = Nursery::default();
    let host = Host::new(&nursery.model(4), &options());
    let none = RTE_STAGE_NONE;
    for session in [0, 10] {
        assert_eq!(host.push(attach(session), &[]), 0);
    }
    assert_eq!(host.tick(), 0);
    host.pop_all(|_| {});
    let fails = |session, expected: &[(u32, i32, u32)]| {
        assert_eq!(host.push(attach(session), &[]), 0);
        let mut chunks = 0;
        let mut all = Vec::new();
        for _ in 0..4 {
            assert_eq!(host.tick(), 0);
            host.pop_all(|output| {
                chunks += u64::from(output.kind == RTE_CHUNK && [0, 10].contains(&output.session));
                if output.session == session && output.kind != RTE_CHUNK {
                    all.push((output.kind, output.status, output.stage));
                }
            });
        }
        assert_eq!(all, expected, "session {session}");
        assert_eq!(chunks, 8, "the others lose nothing to session {session}");
        assert_eq!(host.push(message(RTE_DETACH, session), &[]), 0);
        assert_eq!(host.tick(), 0);
        said(&host, session)
    };
    let (attached, left) = ((RTE_ATTACHED, 0, none), [(RTE_DETACHED, 0, none)]);
    assert_eq!(fails(SEED_CALL, &[(RTE_REJECTED, SEED_CALL_STATUS, none)]), []);
    assert_eq!(fails(SEED_ROW, &[(RTE_REJECTED, SEED_ROW_STATUS, none)]), []);
    let thrown = |number| (nursery.counts().thrown, nursery.counts().destroyed) == (number, number);
    assert!(thrown(2), "no detach is owed to a child whose seed has failed");
    assert_eq!(fails(HOT_CALL, &[attached, (RTE_ROW_FAILED, HOT_CALL_STATUS, 1)]), left);
    assert_eq!(fails(DEFERRED_ROW, &[attached, (RTE_ROW_FAILED, DEFERRED_ROW_STATUS, 2)]), left);
    assert_eq!(fails(BAD_STATUS, &[attached, (RTE_ROW_FAILED, CALLBACK, 1)]), left);
    assert!(thrown(2), "the others were detached, and are free");
    assert_eq!(fails(DETACH_CALL, &[attached]), left);
    assert!(thrown(3));
    nursery.fails_to_make(-1234);
    assert_eq!(host.push(attach(20), &[]), 0);
    assert_eq!(host.push(attach(30), &[]), 0);
    assert_eq!(host.tick(), 0);
    let mut rejected = Vec::new();
    host.pop_all(|output| rejected.extend((output.kind == RTE_REJECTED).then_some((output.session, output.status))));
    assert_eq!(rejected.last(), Some(&(30, -1234)), "{rejected:?}");
    // A row whose child failed comes back with a RESET, and one that is not like the first is not taken.
    nursery.makes_another_shape();
    assert_eq!(host.push(attach(40), &[]), 0);
    assert_eq!(host.tick(), 0);
    assert_eq!(said(&host, 40).last(), Some(&(RTE_REJECTED, ARGUMENT, none)));
    drop(host);
    let counts = nursery.counts();
    assert_eq!((counts.alive, counts.destroyed), (0, counts.made));
}

#[test]
fn dead_is_for_all_and_ready_waits_for_all() {
    let nursery = Nursery::default();
    let host = Host::new(&nursery.model(4), &options());
    nursery.is_ready.store(0, SeqCst);
    (0..3).for_each(|session| assert_eq!(host.push(attach(10 * session), &[]), 0));
    for _ in 0..3 {
        assert_eq!(host.tick(), 0);
        assert_eq!(host.info().pending, 3);
    }
    host.pop_all(|output| panic!("kind {}: that one is not ready is no failure", output.kind));
    nursery.is_ready.store(1, SeqCst);
    assert_eq!(host.tick(), 0);
    assert_eq!((host.info().pending, nursery.counts().in_use), (0, 3));
    assert_eq!(host.push(attach(DEAD_CALL), &[]), 0);
    assert_eq!(host.tick(), DEAD);
    assert_eq!(host.info().health, DEAD);
    drop(host);
    let counts = nursery.counts();
    assert_eq!((counts.alive, counts.destroyed), (0, counts.made));
}

// ---- what is refused

unsafe extern "C-unwind" fn make_two_rows(user: *mut c_void, child: *mut rte_model) -> i32 {
    // SAFETY: as for `make`.
    unsafe {
        let status = make(user, child);
        (*child).max_sessions = 2;
        status
    }
}

unsafe extern "C-unwind" fn make_owner(user: *mut c_void, child: *mut rte_model) -> i32 {
    unsafe extern "C-unwind" fn release(_: *mut c_void, _: *mut c_void) {}
    // SAFETY: as for `make`.
    unsafe {
        let status = make(user, child);
        (*child).flags = RTE_MODEL_OWN_OUTPUT;
        (*child).release_output = Some(release);
        status
    }
}

unsafe extern "C-unwind" fn make_mute(user: *mut c_void, child: *mut rte_model) -> i32 {
    // SAFETY: as for `make`.
    unsafe {
        let status = make(user, child);
        (*child).chunk_bytes = 0;
        status
    }
}

unsafe extern "C-unwind" fn make_nothing(_: *mut c_void, _: *mut rte_model) -> i32 {
    0
}

#[test]
fn what_cannot_be_is_refused_and_leaves_nothing_behind() {
    let nursery = Nursery::default();
    let user = nursery.user();
    let mut model: rte_model = descriptor();
    let mut refused = |rows, make: rte_replica_fn, status| {
        // SAFETY: a descriptor; the nursery outlives it.
        assert_eq!(unsafe { rte_replica_model(&mut model, rows, make, user) }, status);
        assert!(model.user.is_null() && model.stages.is_null() && model.destroy.is_none());
    };
    refused(0, Some(make), ARGUMENT);
    refused(65_537, Some(make), ARGUMENT);
    refused(4, None, ARGUMENT);
    assert_eq!(nursery.counts().made, 0);
    refused(4, Some(make_two_rows), ARGUMENT);
    refused(4, Some(make_owner), UNAVAILABLE);
    refused(4, Some(make_mute), ARGUMENT);
    refused(4, Some(make_nothing), ARGUMENT);
    nursery.fails_to_make(-1234);
    refused(4, Some(make), -1234);
    // SAFETY: what is NULL is refused; a size that is not known, too.
    unsafe {
        assert_eq!(rte_replica_model(null_mut(), 4, Some(make), user), ARGUMENT);
        let mut small = rte_model { struct_size: 8, ..zeroed() };
        assert_eq!(rte_replica_model(&mut small, 4, Some(make), user), VERSION);
    }
    let counts = nursery.counts();
    assert_eq!((counts.made, counts.destroyed), (3, 3), "whatever was wrong with them");
    // One that no engine takes is given back by hand.
    nursery.fails_to_make(0);
    let model = nursery.model(3);
    // SAFETY: filled, and taken by nobody.
    unsafe { model.destroy.unwrap()(model.user) };
    let counts = nursery.counts();
    assert_eq!((counts.made, counts.destroyed), (4, 4));
}

/// As many as an arena may be expected to have, and as few: pushes come in portions that the inbox takes.
#[test]
fn a_replica_of_1_and_of_4096_rows_says_what_the_batched_one_says() {
    for (rows, is_dense) in [(1, false), (1, true), (4096, false), (4096, true)] {
        let makes = AtomicU64::new(0);
        let (lanes, pipeline) = (RTE_LANES_INLINE, RTE_PIPELINE_ON);
        let setup = Setup { rows, lanes, pipeline, flags: 0, is_dense };
        let mut runs = setup.runs(&makes);
        for run in &mut runs {
            let send = |kind, flags, session: u64| {
                let number = (session as i64 * 3).to_ne_bytes();
                let values = [value(RTE_REFERENCE_ACTION, &number)];
                let values = if [RTE_ATTACH, RTE_ACTION].contains(&kind) { &values[..] } else { &[] };
                assert_eq!(run.host.push(rte_message { flags, tag: session, ..message(kind, session) }, values), 0);
            };
            let of_each = |kind: u32, flags: u32, step: usize| {
                for (at, session) in (0..u64::from(rows) + 1).step_by(step).enumerate() {
                    send(kind, flags, session);
                    if at % 256 == 255 {
                        assert_eq!(run.host.tick(), 0);
                    }
                }
                assert_eq!(run.host.tick(), 0);
            };
            let mut outputs = Vec::new();
            for (kind, flags, step) in [
                (RTE_ATTACH, 0, 1),
                (RTE_ACTION, 0, 2),
                (RTE_DETACH, RTE_DRAIN, 3),
                (RTE_RESET, 0, 5),
                (RTE_DETACH, 0, 7),
                (RTE_ATTACH, 0, 3),
            ] {
                of_each(kind, flags, step);
                run.host.pop_all(|output| {
                    let byte = match output.size {
                        0 => Vec::new(),
                        // SAFETY: the chunk of an output that is not released yet.
                        size => unsafe { std::slice::from_raw_parts(output.data.cast::<u8>(), size) }.to_vec(),
                    };
                    outputs.push((*output, byte));
                });
            }
            run.outputs = outputs;
        }
        let [batched, replica] = runs.each_ref().map(Run::said);
        assert_eq!(batched.len(), replica.len());
        (0..batched.len()).for_each(|at| assert_eq!(batched[at], replica[at], "output {at} of {rows} rows"));
        assert!(makes.load(SeqCst) <= u64::from(rows) && batched.len() > rows as usize * 3, "{}", batched.len());
    }
}
