//! What is promised of slow consumers, with everything that may happen to a session meanwhile: PAUSE, RESET, DETACH with and
//! without DRAIN, steps of some sessions only, chunks that are left out, outputs that are kept; of any depth, pipelined or
//! not, on any lanes.

mod driver;
mod random;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::c_void;
use std::sync::Mutex;

use driver::*;
use random::Random;

const SCHEDULES: u64 = 3000;

/// What HOT was asked for: of each life the tick of its newest step, and how many steps gave no chunk.
#[derive(Default)]
struct Steps {
    newest: BTreeMap<u64, u64>,
    silent: BTreeMap<u64, u64>,
}

fn is_silent(generation: u64, age: u64) -> bool {
    (generation * 31 + age * 7).is_multiple_of(6)
}

unsafe extern "C-unwind" fn think(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's own `Steps`; the arrays of a batch, by position.
    unsafe {
        let (batch, mut steps) = (&*batch, (*user.cast::<Mutex<Steps>>()).lock().unwrap());
        for at in 0..batch.count as usize {
            steps.newest.insert(*batch.generation.add(at), batch.tick);
        }
    }
    0
}

unsafe extern "C-unwind" fn show(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as above; the stage that ends the chunk has outputs.
    unsafe {
        let (batch, mut steps) = (&*batch, (*user.cast::<Mutex<Steps>>()).lock().unwrap());
        for at in 0..batch.count as usize {
            let (generation, age) = (*batch.generation.add(at), *batch.age.add(at));
            if is_silent(generation, age) {
                *steps.silent.entry(generation).or_default() += 1;
                continue;
            }
            (*batch.output.add(at)).cast::<[u64; 2]>().write_unaligned([generation, age]);
            *batch.output_size.add(at) = 16;
        }
    }
    0
}

/// What came out of a life.
#[derive(Default, Debug)]
struct Life {
    session: u64,
    kinds: Vec<u32>,
    chunks: Vec<u64>,
}

struct Run {
    seed: u64,
    host: Host,
    policy: u32,
    ahead: u64,
    ticks: u64,
    lives: BTreeMap<u64, Life>,
    kept: Vec<rte_output>,
    /// Attached as far as was told, with generation.
    here: BTreeMap<u64, u64>,
}

impl Run {
    fn session(&self, session: u64) -> Option<rte_session_info> {
        let mut info = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives; a valid place.
        (unsafe { rte_session_get_info(self.host.engine, session, &mut info) } == 0).then_some(info)
    }

    /// Pops one output; keeps it or gives it back.
    fn pop(&mut self, keeps: bool) -> bool {
        let mut output: rte_output = zeroed();
        // SAFETY: the engine lives.
        if unsafe { rte_outbox_pop(self.host.engine, &mut output) } != 0 {
            return false;
        }
        self.note(&output);
        if keeps {
            self.kept.push(output)
        } else {
            release(output)
        }
        true
    }

    fn note(&mut self, output: &rte_output) {
        let (seed, generation) = (self.seed, output.generation);
        if output.kind == RTE_REJECTED || output.flags & RTE_ALREADY != 0 {
            return;
        }
        let info = self.session(output.session).filter(|info| info.generation == generation);
        let life = self.lives.entry(generation).or_default();
        life.session = output.session;
        life.kinds.push(output.kind);
        match output.kind {
            RTE_ATTACHED => _ = self.here.insert(output.session, generation),
            RTE_DETACHED => _ = self.here.remove(&output.session),
            RTE_CHUNK => {
                // SAFETY: a chunk that is not released yet.
                let said = unsafe { output.data.cast::<[u64; 2]>().read_unaligned() };
                assert_eq!(said, [generation, output.index], "seed {seed}: its bytes are its own");
                let next = life.chunks.last().map_or(0, |newest| newest + 1);
                assert!(output.index >= next, "seed {seed}: {} after {:?}", output.index, life.chunks);
                let left_out = (next..output.index).filter(|age| is_silent(generation, *age)).count() as u64;
                assert_eq!(
                    output.dropped,
                    output.index - next - left_out,
                    "seed {seed}: missing before {} of {generation}",
                    output.index
                );
                life.chunks.push(output.index);
                if self.policy == RTE_HOLD {
                    assert_eq!(output.dropped, 0, "seed {seed}: with HOLD nothing is dropped");
                    let newer = info.map_or(0, |info| info.age - output.index - 1);
                    assert!(newer <= self.ahead, "seed {seed}: {newer} newer ones were made");
                }
            }
            kind => panic!("seed {seed}: {kind}"),
        }
        let count = |kind| life.kinds.iter().filter(|of| **of == kind).count();
        let is_in_order = match output.kind {
            RTE_DETACHED => count(RTE_DETACHED) == 1,
            _ => count(RTE_DETACHED) == 0 && life.kinds[0] == RTE_ATTACHED && count(RTE_ATTACHED) == 1,
        };
        assert!(is_in_order, "seed {seed}: {life:?}");
    }

    fn tick(&mut self, due: Option<&[u64]>) {
        let status = match due {
            None => self.host.tick(),
            // SAFETY: the engine lives and is ticked by this thread; the sessions live until the call is over.
            Some(due) => unsafe { rte_engine_step(self.host.engine, due.as_ptr(), due.len(), u64::MAX) },
        };
        assert_eq!(status, 0);
        self.ticks += 1;
    }

    /// Of each session: what was made is queued, in flight, popped, left out or counted as lost.
    fn balance(&self, steps: &Mutex<Steps>, is_pipelined: bool) {
        let steps = steps.lock().unwrap();
        for (session, generation) in &self.here {
            let Some(info) = self.session(*session).filter(|info| info.generation == *generation) else { continue };
            let newest = steps.newest.get(generation).copied();
            let in_flight = u64::from(is_pipelined && newest.is_some_and(|tick| tick + 1 == self.ticks));
            let silent = steps.silent.get(generation).copied().unwrap_or(0);
            let popped = self.lives[generation].chunks.len() as u64;
            let made = info.age - in_flight - silent;
            assert_eq!(
                made,
                info.queued + popped + info.dropped,
                "seed {}: session {session}: {}",
                self.seed,
                info.age
            );
            let held = self.kept.iter().filter(|output| output.kind == RTE_CHUNK && output.row == info.row);
            assert_eq!(info.held, held.count() as u64, "seed {}", self.seed);
        }
    }
}

fn release(mut output: rte_output) {
    // SAFETY: each is released once.
    unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
}

fn schedule(seed: u64, used: &mut BTreeSet<&'static str>) {
    let mut random = Random::new(seed);
    let stages = [stage(RTE_HOT, think), stage(RTE_DEFERRED, show)];
    let steps = Mutex::new(Steps::default());
    let rows = 1 + random.below(4);
    let model = rte_model { user: (&raw const steps).cast_mut().cast(), ..model(&stages, rows as u32, 16) };
    let policy = random.pick(&[RTE_HOLD, RTE_HOLD, RTE_HOLD, RTE_DROP_OLDEST, RTE_DROP_NEWEST]);
    let is_pipelined = random.below(2) == 0;
    let depth = 1 + random.below(4);
    let more = rte_engine_options {
        outbox_policy: policy,
        outbox_depth: depth as u32,
        held_max: 1 + random.below(3) as u32,
        pipeline: if is_pipelined { RTE_PIPELINE_ON } else { RTE_PIPELINE_OFF },
        lanes: if random.below(5) == 0 { RTE_LANES_THREADS } else { RTE_LANES_INLINE },
        ..options()
    };
    let is_inline = more.lanes == RTE_LANES_INLINE;
    let mut run = Run {
        seed,
        host: Host::new(&model, &more),
        policy,
        ahead: depth + 1 + u64::from(is_pipelined),
        ticks: 0,
        lives: BTreeMap::new(),
        kept: Vec::new(),
        here: BTreeMap::new(),
    };
    let keeps = random.below(3);
    for _ in 0..40 {
        for _ in 0..random.below(3) {
            let session = random.below(rows + 1);
            let kind = random.pick(&[RTE_ATTACH, RTE_ATTACH, RTE_ATTACH, RTE_DETACH, RTE_RESET, RTE_PAUSE, RTE_RESUME]);
            let flags = if kind == RTE_DETACH && random.below(3) > 0 { RTE_DRAIN } else { 0 };
            assert_eq!(run.host.push(rte_message { flags, ..message(kind, session) }, &[]), 0);
        }
        let due: Vec<u64> = (0..=rows).filter(|_| random.below(2) == 0).collect();
        run.tick((random.below(3) == 0).then_some(&due));
        if run.host.info().held > 0 {
            used.insert("held");
        }
        for _ in 0..random.below(7) {
            let is_kept = random.below(4) < keeps;
            run.pop(is_kept);
        }
        for _ in 0..random.below(3) {
            if !run.kept.is_empty() {
                let at = random.below(run.kept.len() as u64) as usize;
                release(run.kept.swap_remove(at));
            }
        }
        if is_inline {
            run.balance(&steps, is_pipelined);
        }
    }
    // Once the consumer keeps up all go on, and who was to leave leaves.
    std::mem::take(&mut run.kept).into_iter().for_each(release);
    (0..=rows).for_each(|session| assert_eq!(run.host.push(message(RTE_RESUME, session), &[]), 0));
    for _ in 0..2 {
        run.tick(None);
        while run.pop(false) {}
    }
    let ages: Vec<_> = run.here.keys().map(|session| (*session, run.session(*session))).collect();
    for _ in 0..8 {
        run.tick(None);
        while run.pop(false) {}
    }
    for (session, before) in ages.into_iter().filter_map(|(session, info)| Some((session, info?))) {
        let now = run.session(session).filter(|now| now.generation == before.generation);
        // None: it was to leave. With one place for what is in flight and what waits, it steps in every second tick; on
        // threads the last step is not counted yet.
        let steps = now.map_or(8, |now| now.age - before.age);
        assert!(steps >= 3, "seed {seed}: session {session} made {steps} steps in 8 ticks");
    }
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(run.host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    while run.pop(false) {}
    assert!(run.here.is_empty(), "seed {seed}: {:?} were never told the end", run.here);
    assert!(run.lives.values().all(|life| life.kinds.last() == Some(&RTE_DETACHED)), "seed {seed}: {:?}", run.lives);
}

#[test]
fn whatever_happens_to_a_session_whose_consumer_is_slow_what_is_promised_of_it_holds() {
    let count = std::env::var("RTE_HOLD_SCHEDULES").map_or(SCHEDULES, |count| count.parse().expect("a number"));
    let mut used = BTreeSet::new();
    match std::env::var("RTE_HOLD_SEED") {
        Ok(seed) => schedule(seed.parse().expect("a number"), &mut used),
        Err(_) => {
            (0..count).for_each(|seed| schedule(seed, &mut used));
            assert!(used.contains("held"));
        }
    }
}
