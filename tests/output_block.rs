//! RTE_MODEL_OUTPUT_BLOCK: the outputs of a batch lie one behind the other, whoever has left or failed, on all lanes, so
//! that a stage writes them at one go. Each chunk comes out whole and stays what it is while it is held, though the block is
//! filled again meanwhile; what lies elsewhere fails its row and no other.
//!
//! `RTE_BLOCK_SCHEDULES=n` sets how many random schedules are run.

mod driver;
mod host;
mod invariance_host;
mod random;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::{Mutex, MutexGuard};

use driver::*;
use host::batch::{Batch, Member};
use host::device::Device;
use invariance_host::run::Run;
use invariance_host::schedule::Schedule;
use random::Random;

const OK: i32 = 0;
const CALLBACK: i32 = rte_status_code::RTE_ERR_CALLBACK as i32;
const HOST_ERROR: i32 = rte_status_code::RTE_ERR_HOST as i32;

const ROWS: usize = 5;
/// No multiple of the alignment of other outputs.
const CHUNK: usize = 40;
/// What a stage writes where no chunk is.
const NOISE: u8 = 0xee;

/// Where a stage says that an output is.
#[derive(Clone, Copy, Debug)]
enum Elsewhere {
    Null,
    BeforeTheBlock,
    BehindTheBlock,
    AcrossItsEnd,
    AtTheEndOfTheAddresses,
    InMemoryOfTheModels,
}

const ELSEWHERE: [Elsewhere; 6] = [
    Elsewhere::Null,
    Elsewhere::BeforeTheBlock,
    Elsewhere::BehindTheBlock,
    Elsewhere::AcrossItsEnd,
    Elsewhere::AtTheEndOfTheAddresses,
    Elsewhere::InMemoryOfTheModels,
];

/// What the stages do, as a test sets it, and what they have seen.
#[derive(Default)]
struct World {
    state: Mutex<State>,
    has_deferred: bool,
    is_dense: bool,
}

#[derive(Default)]
struct State {
    /// By lane: so many calls fail as a whole.
    fails: [u32; 2],
    /// By lane: a call with this session fails as a whole.
    poison: [Option<u64>; 2],
    /// By lane: the row of this session fails.
    bad_row: [Option<u64>; 2],
    moved: Option<(u64, Elsewhere)>,
    /// By slot: where its block begins.
    blocks: [Option<usize>; 2],
    tally: BTreeMap<&'static str, u64>,
    complaints: Vec<String>,
}

impl State {
    fn complain(&mut self, batch: &Batch<'_>, what: &str) {
        self.complaints.push(format!("stage {}, {:?}: {what}", batch.stage(), batch.members()));
    }

    fn count(&mut self, what: &'static str, is_so: bool) {
        *self.tally.entry(what).or_default() += u64::from(is_so);
    }
}

/// The chunk of this number of a life: bytes that no other has.
fn content(generation: u64, age: u64) -> Vec<u8> {
    let mut random = Random::new(generation << 32 | age);
    let size = random.size(1, CHUNK);
    (0..size).map(|_| random.between(0, 255) as u8).collect()
}

impl World {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no callback panics with the world in hand")
    }

    fn finish(&self, lane: usize, batch: &mut Batch<'_>) -> i32 {
        let mut state = self.state();
        let ends_chunk = lane == usize::from(self.has_deferred);
        if ends_chunk {
            self.write(&mut state, batch);
        } else if batch.has_outputs() {
            state.complain(batch, "there are outputs where no chunk ends");
        }
        if let Some(bad) = state.bad_row[lane] {
            batch.members().into_iter().filter(|m| m.session == bad).for_each(|m| batch.fail(m, HOST_ERROR));
        }
        let is_poisoned = batch.members().iter().any(|member| state.poison[lane] == Some(member.session));
        let fails = state.fails[lane] > 0;
        state.fails[lane] -= u32::from(fails);
        if fails || is_poisoned { HOST_ERROR } else { OK }
    }

    /// Looks at the block, writes all of it, and says what the chunks are.
    fn write(&self, state: &mut State, batch: &mut Batch<'_>) {
        let (members, padding) = (batch.members(), batch.padding());
        let everybody = || members.iter().chain(&padding).copied();
        let first = everybody().find(|member| member.at == 0).expect("a batch has somebody");
        let Some(begin) = batch.output(first) else { return state.complain(batch, "there is no block") };
        for member in everybody() {
            if batch.output(member) != Some(begin.wrapping_add(member.at * CHUNK)) {
                state.complain(batch, "an output is not in its place");
                return;
            }
        }
        // A row that is run alone keeps its place in the block of its batch.
        let is_alone = !self.is_dense && members.len() == 1;
        let block = *state.blocks[batch.slot()].get_or_insert(begin.addr());
        let place = begin.addr().wrapping_sub(block);
        let is_right = if is_alone { place % CHUNK == 0 && place < ROWS * CHUNK } else { place == 0 };
        if !is_right {
            state.complain(batch, "it is not the block of its slot");
        }
        // SAFETY: so many chunks have room there, as was just seen of each position.
        unsafe { begin.write_bytes(NOISE, batch.count() * CHUNK) };
        for member in &members {
            self.say(state, batch, *member, begin);
        }
        state.count("padding", !padding.is_empty());
        state.count("alone", members.len() == 1);
    }

    fn say(&self, state: &State, batch: &mut Batch<'_>, member: Member, begin: *mut u8) {
        let bytes = content(member.generation, member.age);
        let output = begin.wrapping_add(member.at * CHUNK);
        // SAFETY: the place of this row in the block.
        unsafe { output.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
        let mut size = bytes.len();
        if let Some((_, way)) = state.moved.filter(|(session, _)| *session == member.session) {
            let block = state.blocks[batch.slot()].expect("seen above");
            let end = block + ROWS * CHUNK;
            let (address, said) = match way {
                Elsewhere::Null => (0, size),
                Elsewhere::BeforeTheBlock => (block - 1, size),
                Elsewhere::BehindTheBlock => (end, size),
                Elsewhere::AcrossItsEnd => (end - CHUNK + 1, CHUNK),
                Elsewhere::AtTheEndOfTheAddresses => (usize::MAX, size),
                Elsewhere::InMemoryOfTheModels => (std::ptr::from_ref(self).addr(), size),
            };
            batch.set_own_output(member, std::ptr::without_provenance_mut(address));
            size = said;
        }
        batch.set_output_size(member, size);
    }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, raw: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's world outlives its engine, which gave the batch of a model with so many rows.
    unsafe { (*user.cast::<World>()).finish(0, &mut Batch::new(raw, ROWS)) }
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, raw: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as above.
    unsafe { (*user.cast::<World>()).finish(1, &mut Batch::new(raw, ROWS)) }
}

/// A hook that has no outputs.
unsafe extern "C-unwind" fn look(user: *mut c_void, raw: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as above.
    let (world, batch) = unsafe { (&*user.cast::<World>(), Batch::new(raw, ROWS)) };
    if batch.has_outputs() {
        world.state().complain(&batch, "a hook has outputs");
    }
    OK
}

/// What an engine is.
#[derive(Clone, Copy, Debug)]
struct Kind {
    lanes: u32,
    has_deferred: bool,
    is_dense: bool,
    pipeline: u32,
}

/// All of them.
fn kinds() -> Vec<Kind> {
    let mut kinds = Vec::new();
    for lanes in [RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_LANES_HOST] {
        for has_deferred in [false, true] {
            for is_dense in [false, true] {
                for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
                    kinds.push(Kind { lanes, has_deferred, is_dense, pipeline });
                }
            }
        }
    }
    kinds
}

/// A chunk in the consumer's hands, as it was popped.
struct InHand {
    output: rte_output,
    bytes: Vec<u8>,
}

struct Bench {
    kind: Kind,
    host: Host,
    world: Box<World>,
    device: std::sync::Arc<Device>,
    in_hand: Vec<InHand>,
    /// By generation: the chunks' numbers.
    chunks: BTreeMap<u64, Vec<u64>>,
    failed: Vec<(u64, i32)>,
}

impl Bench {
    fn new(kind: Kind) -> Bench {
        let Kind { lanes, has_deferred, is_dense, pipeline } = kind;
        let world = Box::new(World { has_deferred, is_dense, ..World::default() });
        let mut stages = vec![stage(RTE_HOT, hot)];
        stages.extend(has_deferred.then(|| stage(RTE_DEFERRED, deferred)));
        let model = rte_model {
            flags: RTE_MODEL_OUTPUT_BLOCK | if is_dense { RTE_MODEL_DENSE } else { 0 },
            user: std::ptr::from_ref(&*world).cast_mut().cast(),
            seed: Some(look),
            detach: Some(look),
            finalize: Some(look),
            ..model(&stages, ROWS as u32, CHUNK)
        };
        let device = Device::new();
        let table = device.table();
        let backend = if lanes == RTE_LANES_HOST { &raw const table } else { std::ptr::null() };
        let options = rte_engine_options { lanes, pipeline, backend, outbox_depth: 4, held_max: 4, ..options() };
        let host = Host::new(&model, &options);
        if lanes != RTE_LANES_HOST {
            // SAFETY: nobody took the count that the table has.
            unsafe { std::sync::Arc::decrement_strong_count(std::sync::Arc::as_ptr(&device)) };
        }
        Bench { kind, host, world, device, in_hand: vec![], chunks: BTreeMap::new(), failed: vec![] }
    }

    fn push(&self, kind: u32, session: u64) {
        assert_eq!(self.host.push(message(kind, session), &[]), OK);
    }

    fn set(&self, change: impl FnOnce(&mut State)) {
        change(&mut self.world.state());
    }

    /// A tick. The chunks are held until the consumer has too many of them.
    fn tick(&mut self) {
        assert_eq!(self.host.tick(), OK);
        let mut output: rte_output = zeroed();
        // SAFETY: the engine lives; each output is released once.
        while unsafe { rte_outbox_pop(self.host.engine, &mut output) } == OK {
            if output.kind != RTE_CHUNK {
                self.failed.extend((output.kind == RTE_ROW_FAILED).then_some((output.session, output.status)));
                // SAFETY: as above.
                unsafe { rte_output_release(&mut output, null_mut()) };
                continue;
            }
            // SAFETY: a chunk's bytes are readable until its release.
            let bytes = unsafe { std::slice::from_raw_parts(output.data.cast::<u8>(), output.size) }.to_vec();
            assert_eq!(bytes, content(output.generation, output.index), "{:?}, {}", self.kind, output.index);
            assert_eq!(output.data.addr() % 64, 0);
            self.chunks.entry(output.generation).or_default().push(output.index);
            self.in_hand.push(InHand { output, bytes });
        }
        while self.in_hand.len() > 2 * ROWS {
            let oldest = self.in_hand.remove(0);
            self.give_back(oldest);
        }
    }

    fn give_back(&self, mut in_hand: InHand) {
        let InHand { output, bytes } = &mut in_hand;
        // SAFETY: it was not released yet.
        let now = unsafe { std::slice::from_raw_parts(output.data.cast::<u8>(), output.size) };
        assert_eq!(now, bytes, "it has changed in the consumer's hands");
        // SAFETY: popped before, released once.
        unsafe { rte_output_release(output, null_mut()) };
    }

    fn ticks(&mut self, count: usize) {
        (0..count).for_each(|_| self.tick());
    }

    /// The number of chunks so far.
    fn count(&self) -> usize {
        self.chunks.values().map(Vec::len).sum()
    }

    /// The engine is freed; what was seen is as it should be. What has come to pass is added to `tally`.
    fn end(mut self, tally: &mut BTreeMap<&'static str, u64>) {
        for in_hand in std::mem::take(&mut self.in_hand) {
            self.give_back(in_hand);
        }
        let Bench { host, world, device, kind, chunks, .. } = self;
        drop(host);
        let state = world.state();
        assert_eq!(state.complaints.first(), None, "{kind:?}");
        if let [Some(one), Some(other)] = state.blocks {
            assert!(one.abs_diff(other) >= ROWS * CHUNK, "{kind:?}: two slots share a block");
        }
        let is_ascending = |numbers: &Vec<u64>| numbers.is_sorted_by(|a, b| a < b);
        assert!(chunks.values().all(is_ascending), "{kind:?}");
        assert!(device.is_clean() && device.complaints().is_empty());
        for (what, count) in &state.tally {
            *tally.entry(what).or_default() += count;
        }
        *tally.entry("two slots").or_default() += u64::from(state.blocks[1].is_some());
        *tally.entry("chunks").or_default() += chunks.values().map(|numbers| numbers.len() as u64).sum::<u64>();
    }
}

#[test]
fn outputs_are_one_block_whoever_is_in_the_batch_and_chunks_come_out_whole() {
    let mut tally = BTreeMap::new();
    for kind in kinds() {
        let mut bench = Bench::new(kind);
        // A gap between rows, the last row alone, all of them.
        (0..5).for_each(|session| bench.push(RTE_ATTACH, session));
        bench.ticks(6);
        for session in [0, 2, 3] {
            bench.push(RTE_DETACH, session);
            bench.ticks(3);
        }
        bench.push(RTE_PAUSE, 1);
        bench.ticks(3);
        bench.push(RTE_RESUME, 1);
        [0, 2].into_iter().for_each(|session| bench.push(RTE_ATTACH, session));
        bench.ticks(6);
        // 5 rows, then 4, 3, 2, then one, then four again; what leaves between its two stages gives no chunk.
        let least = 5 * 5 + 3 * 3 + 3 * 2 + 3 * 2 + 2 + 6 * 4 - 8;
        assert!(bench.count() >= least, "{kind:?}: {} chunks", bench.count());
        bench.end(&mut tally);
    }
    println!("{tally:?}");
    assert_eq!(tally["two slots"], 12, "each pipelined one has two");
    assert!(tally["padding"] > 0 && tally["alone"] > 0);
}

#[test]
fn rows_that_run_alone_keep_their_places() {
    let mut tally = BTreeMap::new();
    for kind in kinds() {
        let lanes = if kind.has_deferred { vec![0, 1] } else { vec![0] };
        for lane in lanes {
            let mut bench = Bench::new(kind);
            (0..5).for_each(|session| bench.push(RTE_ATTACH, session));
            bench.ticks(4);
            // As a whole until the lane looks for who it is, and nobody is. (On threads the call of the tick before may not
            // have been made.)
            bench.set(|state| state.fails[lane] = 2);
            bench.ticks(2);
            let before = bench.count();
            bench.ticks(4);
            // Each call of a dense batch may write all of the block: the last of them is there.
            let ends_chunk = lane == usize::from(kind.has_deferred);
            let alone = if kind.is_dense && ends_chunk { 1 } else { 5 };
            let came = bench.count() - before;
            assert!((2 * 5 + alone..=3 * 5 + alone).contains(&came), "{kind:?}: {came} chunks");
            // One fails alone, then its row is another life's.
            bench.set(|state| state.bad_row[lane] = Some(3));
            bench.ticks(4);
            assert_eq!(bench.failed, [(3, HOST_ERROR)], "{kind:?}");
            bench.set(|state| state.bad_row[lane] = None);
            bench.push(RTE_RESET, 3);
            bench.ticks(4);
            bench.end(&mut tally);
        }
    }
    println!("{tally:?}");
}

#[test]
fn a_session_that_fails_every_call_costs_the_others_three_chunks_at_most() {
    for kind in kinds() {
        let lanes = if kind.has_deferred { vec![0, 1] } else { vec![0] };
        for lane in lanes {
            let mut bench = Bench::new(kind);
            (0..5).for_each(|session| bench.push(RTE_ATTACH, session));
            bench.ticks(4);
            bench.set(|state| state.poison[lane] = Some(2));
            bench.ticks(10);
            assert_eq!(bench.failed, [(2, HOST_ERROR)], "{kind:?}");
            for numbers in bench.chunks.values().filter(|numbers| numbers.len() > 6) {
                let missing = numbers.last().expect("some") + 1 - numbers.len() as u64;
                assert!(missing <= if kind.is_dense { 3 } else { 2 }, "{kind:?}: {numbers:?}");
            }
            assert_eq!(bench.chunks.values().filter(|numbers| numbers.len() > 6).count(), 4, "{kind:?}");
            bench.end(&mut BTreeMap::new());
        }
    }
}

#[test]
fn an_output_that_lies_elsewhere_fails_its_row_and_nothing_else() {
    let mut tally = BTreeMap::new();
    for kind in kinds() {
        for way in ELSEWHERE {
            let mut bench = Bench::new(kind);
            (0..4).for_each(|session| bench.push(RTE_ATTACH, session));
            bench.ticks(4);
            let before = bench.count();
            bench.set(|state| state.moved = Some((2, way)));
            bench.ticks(4);
            assert_eq!(bench.failed, [(2, CALLBACK)], "{kind:?}, {way:?}");
            let of_others = 4 * 3;
            assert!(
                bench.count() - before >= of_others && bench.count() - before <= of_others + 1,
                "{kind:?}, {way:?}"
            );
            bench.set(|state| state.moved = None);
            bench.push(RTE_RESET, 2);
            let before = bench.count();
            bench.ticks(4);
            assert!(bench.count() - before >= 4 * 3 + 2, "{kind:?}, {way:?}: it is as before");
            bench.end(&mut tally);
        }
    }
}

#[test]
fn chunks_stay_what_they_are_while_everything_happens() {
    let mut tally = BTreeMap::new();
    for (seed, kind) in (0..20).flat_map(|seed| kinds().into_iter().map(move |kind| (seed, kind))) {
        let mut random = Random::new(seed);
        let mut bench = Bench::new(kind);
        for _ in 0..60 {
            for _ in 0..random.between(0, 3) {
                let kind =
                    random.pick(&[RTE_ATTACH, RTE_ATTACH, RTE_ATTACH, RTE_DETACH, RTE_RESET, RTE_PAUSE, RTE_RESUME]);
                bench.push(kind, random.between(0, 6));
            }
            let (lane, session) = (random.between(0, 1) as usize, random.between(0, 6));
            let (fails, is_bad, moves) = (random.percent(15), random.percent(10), random.percent(5));
            let way = random.pick(&ELSEWHERE);
            bench.set(|state| {
                state.fails[lane] = u32::from(fails);
                state.bad_row[lane] = is_bad.then_some(session);
                state.moved = moves.then_some((session, way));
            });
            bench.tick();
        }
        bench.end(&mut tally);
    }
    println!("{tally:?}");
    assert!(["padding", "alone", "chunks"].iter().all(|what| tally[what] > 1000), "they are not as they should be");
}

/// Random schedules, if the environment says nothing else.
const SCHEDULES: u64 = 1000;

#[test]
fn the_chunks_are_those_without_the_flag_on_random_schedules() {
    let schedules = std::env::var("RTE_BLOCK_SCHEDULES").map_or(SCHEDULES, |text| text.parse().expect("a number"));
    let mut outputs = 0;
    for seed in 0..schedules {
        let schedule = |number: u64| match number {
            0 => Schedule::new(seed),
            _ => Schedule::new(seed).on_threads(1 + (seed % 3) as u32),
        };
        for number in if seed % 16 == 0 { vec![0, 1] } else { vec![0] } {
            let with = Run::together(&schedule(number).with_block(), None);
            let without = Run::together(&schedule(number), None);
            assert_eq!(with.complaints.first(), None, "schedule {seed}");
            assert_eq!(without.complaints.first(), None, "schedule {seed}");
            assert!(with.told == without.told, "schedule {seed}");
            outputs += with.told.values().map(Vec::len).sum::<usize>();
        }
    }
    println!("{schedules} schedules, {outputs} outputs: equal");
    assert!(outputs as u64 > 20 * schedules);
}
