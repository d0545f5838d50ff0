//! A pointer of the model's own that became a chunk's comes back to the model exactly once, whatever becomes of the chunk,
//! and not before all that was enqueued with it is over; one that did not stays the model's.
//!
//! Random schedules on inline, threads and host lanes: mishaps of rows and batches, consumers that keep outputs, also
//! beyond the engine's end, losses by each policy, sessions that come, go, start anew, drain and pause, and engines that
//! die. `RTE_OUTPUT_SCHEDULES=n` sets how many for each kind of lanes; `RTE_OUTPUT_SEED=n` runs that one alone.

mod driver;
mod host;
mod outputs_host;
mod random;

use std::ptr::null_mut;
use std::sync::Arc;

use driver::*;
use host::device::Device;
use outputs_host::ledger::{Ledger, Tally};
use outputs_host::model::{own_model, stages};

const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;

/// A schedule that does not end hangs.
const PATIENCE: u32 = 1_000_000;

/// One schedule's.
#[derive(Debug)]
struct Shape {
    seed: u64,
    lanes: u32,
    has_deferred: bool,
    on_device: bool,
    flags: u32,
    pipeline: u32,
    policy: u32,
    depth: u32,
    held: u32,
    rows: u64,
    ticks: u64,
    dies_at: Option<u64>,
    stops_first: bool,
}

impl Shape {
    fn of(seed: u64, lanes: u32, draw: &Ledger) -> Shape {
        let mut flags = 0;
        for flag in [RTE_MODEL_DENSE, RTE_MODEL_RETRY_SAFE] {
            flags |= if draw.once_in(3) { flag } else { 0 };
        }
        let on_device = lanes == RTE_LANES_HOST && draw.once_in(2);
        Shape {
            seed,
            lanes,
            has_deferred: draw.once_in(2),
            on_device,
            flags: flags | if on_device { RTE_MODEL_DEVICE_OUTPUT } else { 0 },
            pipeline: [RTE_PIPELINE_AUTO, RTE_PIPELINE_ON, RTE_PIPELINE_OFF][draw.below(3) as usize],
            policy: [RTE_DROP_OLDEST, RTE_DROP_NEWEST, RTE_HOLD][draw.below(3) as usize],
            depth: 1 + draw.below(3) as u32,
            held: 1 + draw.below(2) as u32,
            rows: 1 + draw.below(4),
            ticks: 10 + draw.below(50),
            dies_at: draw.once_in(4).then(|| draw.below(30)),
            stops_first: draw.once_in(2),
        }
    }
}

/// An output that a consumer keeps, and the stream of its last use.
struct Kept {
    output: rte_output,
    stream: rte_stream,
}

struct Run {
    shape: Shape,
    ledger: Arc<Ledger>,
    device: Option<Arc<Device>>,
    streams: Vec<rte_stream>,
    host: Option<Host>,
    kept: Vec<Kept>,
    is_dead: bool,
}

impl Run {
    fn new(seed: u64, lanes: u32) -> Run {
        let shape = Shape::of(seed, lanes, &Ledger::new(0, None, seed));
        let device = (shape.lanes == RTE_LANES_HOST).then(Device::new);
        let ledger = Ledger::new(shape.rows as usize, device.clone(), !seed);
        let row_mishaps = [0, 10, 40][ledger.below(3) as usize];
        let batch_mishaps = [0, 4, 20][ledger.below(3) as usize];
        ledger.set(|knobs| (knobs.row_mishaps, knobs.batch_mishaps) = (row_mishaps, batch_mishaps));
        let streams = device.iter().flat_map(|device| [device.consumer_stream(), device.consumer_stream()]).collect();
        let stages = stages(shape.has_deferred);
        let model = own_model(&stages, &ledger, shape.flags);
        let table = device.as_ref().map(Device::table);
        let options = rte_engine_options {
            lanes: shape.lanes,
            backend: table.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            pipeline: shape.pipeline,
            outbox_policy: shape.policy,
            outbox_depth: shape.depth,
            held_max: shape.held,
            ..options()
        };
        let host = Some(Host::new(&model, &options));
        Run { shape, ledger, device, streams, host, kept: Vec::new(), is_dead: false }
    }

    fn host(&self) -> &Host {
        self.host.as_ref().expect("it was not freed")
    }

    /// Time passes, where it is the test's.
    fn linger(&self, most: u64) {
        if let Some(device) = &self.device {
            device.set_now(device.now() + self.ledger.below(most + 1));
        }
    }

    fn push(&self) {
        let (kind, flags) = match self.ledger.below(16) {
            0..8 => (RTE_ATTACH, 0),
            8 | 9 => (RTE_DETACH, 0),
            10 => (RTE_DETACH, RTE_DRAIN),
            11..14 => (RTE_RESET, 0),
            14 => (RTE_PAUSE, 0),
            _ => (RTE_RESUME, 0),
        };
        self.push_one(kind, flags, self.ledger.below(self.shape.rows + 2));
    }

    fn push_one(&self, kind: u32, flags: u32, session: u64) {
        let status = self.host().push(rte_message { flags, ..message(kind, session) }, &[]);
        assert!(status == 0 || status == AGAIN || (status == DEAD && self.is_dead), "a push: {status}");
    }

    /// One whole tick.
    fn tick(&mut self) {
        let wait = if self.ledger.once_in(2) { 0 } else { u64::MAX };
        let length = self.ledger.below(6);
        self.ledger.set(|knobs| knobs.length = length);
        for _ in 0..PATIENCE {
            // SAFETY: the engine lives and is ticked by this thread.
            match unsafe { rte_engine_tick(self.host().engine, wait) } {
                0 => return,
                AGAIN => {
                    self.linger(2);
                    std::thread::yield_now();
                }
                DEAD => {
                    assert!(self.shape.dies_at.is_some(), "nothing has killed it");
                    self.is_dead = true;
                    return;
                }
                status => panic!("a tick: {status}"),
            }
        }
        panic!("a tick never ends");
    }

    /// Pops what there is, at most `count`.
    fn pop(&mut self, count: u64) {
        for _ in 0..count {
            let mut output: rte_output = zeroed();
            // SAFETY: the engine lives, and there is a place for the output.
            if unsafe { rte_outbox_pop(self.host().engine, &mut output) } != 0 {
                return;
            }
            if output.kind != RTE_CHUNK {
                // SAFETY: released once.
                unsafe { rte_output_release(&mut output, null_mut()) };
                continue;
            }
            self.ledger.popped(output.data.addr(), [output.generation, output.index]);
            assert_eq!((output.ready.is_null(), output.done_ns == 0), (!self.shape.on_device, self.shape.on_device));
            let stream = self.use_it(&output);
            self.kept.push(Kept { output, stream });
        }
    }

    /// On a stream now and then.
    fn use_it(&self, output: &rte_output) -> rte_stream {
        let Some(device) = self.device.as_ref().filter(|_| self.ledger.once_in(2)) else { return null_mut() };
        let stream = self.streams[self.ledger.below(self.streams.len() as u64) as usize];
        if !output.ready.is_null() {
            device.wait_for(stream, output.ready);
        }
        device.enqueue(stream, self.ledger.below(20));
        stream
    }

    /// Gives back what was kept, some of it or all; a tenth of it on another thread.
    fn release(&mut self, keep: usize) {
        while self.kept.len() > keep {
            let at = self.ledger.below(self.kept.len() as u64) as usize;
            let Kept { output, stream } = self.kept.swap_remove(at);
            let over = match &self.device {
                // Nothing more is enqueued: what is there now ends it.
                Some(device) if !stream.is_null() => device.enqueue(stream, 0),
                _ => 0,
            };
            self.ledger.let_go(output.data.addr(), over);
            let release = Release(output, stream);
            if self.ledger.once_in(10) {
                std::thread::scope(|scope| scope.spawn(move || release.run()).join().expect("a release"));
            } else {
                release.run();
            }
        }
    }

    fn go(&mut self) {
        for session in 0..self.shape.rows {
            self.push_one(RTE_ATTACH, 0, session);
        }
        for tick in 0..self.shape.ticks {
            if self.shape.dies_at == Some(tick) {
                self.ledger.set(|knobs| knobs.result = DEAD);
            }
            for _ in 0..self.ledger.below(3) {
                self.push();
            }
            self.linger(4);
            self.tick();
            let count = [0, 2, 100][self.ledger.below(3) as usize];
            self.pop(count);
            let keep = self.ledger.below(u64::from(self.shape.held + self.shape.depth) + 2) as usize;
            self.release(keep);
            if self.is_dead {
                return;
            }
        }
    }

    /// Nobody makes or keeps anything: all is back, and the engine still runs.
    fn calm_down(&mut self) {
        self.ledger.set(|knobs| knobs.result = 0);
        for session in 0..self.shape.rows + 2 {
            self.push_one(RTE_PAUSE, 0, session);
        }
        for _ in 0..6 {
            self.tick();
            self.pop(u64::MAX);
            self.release(0);
            self.linger(1_000_000);
        }
        self.tick();
        assert_eq!(self.ledger.owed(), 0, "what nobody uses any more is back: {:?}", self.shape);
    }

    fn end(mut self) -> Tally {
        if self.shape.stops_first {
            // SAFETY: the engine lives and is ticked by this thread.
            assert_eq!(unsafe { rte_engine_stop(self.host().engine, u64::MAX, null_mut()) }, 0);
        }
        let count = [0, 3, u64::MAX][self.ledger.below(3) as usize];
        self.pop(count);
        let keep = self.ledger.below(4) as usize;
        self.release(keep);
        for what in [(self.is_dead, "died"), (!self.kept.is_empty(), "outlived")] {
            what.0.then(|| self.ledger.count(what.1));
        }
        self.host = None;
        let is_over = self.kept.is_empty();
        assert_eq!(self.ledger.is_destroyed(), is_over, "destroy comes after the last output: {:?}", self.shape);
        self.release(0);
        self.check();
        self.ledger.tally()
    }

    fn check(&self) {
        let shape = &self.shape;
        assert_eq!(self.ledger.complaints(), Vec::<String>::new(), "{shape:?}");
        assert_eq!(self.ledger.owed(), 0, "all are back: {shape:?}");
        assert!(self.ledger.is_destroyed(), "{shape:?}");
        assert_eq!(Arc::strong_count(&self.ledger), 1, "nobody holds the ledger: {shape:?}");
        if let Some(device) = &self.device {
            assert_eq!(device.complaints(), Vec::<String>::new(), "{shape:?}");
            assert!(device.is_clean(), "{:?} of {shape:?}", device.calls());
        }
    }
}

struct Release(rte_output, rte_stream);

// SAFETY: an output may be released on any thread.
unsafe impl Send for Release {}

impl Release {
    fn run(mut self) {
        // SAFETY: a record that was popped, released once.
        unsafe { rte_output_release(&mut self.0, self.1) };
    }
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

/// Schedules with these lanes; each of `often` has happened in them so many times.
fn check(lanes: u32, schedules: u64, often: &[&'static str]) {
    let count = number("RTE_OUTPUT_SCHEDULES").unwrap_or(schedules);
    let seeds = number("RTE_OUTPUT_SEED").map_or(0..count, |seed| seed..seed + 1);
    let mut tally = Tally::new();
    for seed in seeds.clone() {
        let mut run = Run::new(seed, lanes);
        run.go();
        if !run.is_dead && run.shape.seed.is_multiple_of(2) {
            run.calm_down();
        }
        run.end().into_iter().for_each(|(what, times)| *tally.entry(what).or_default() += times);
    }
    println!("{} schedules: {tally:?}", seeds.end - seeds.start);
    let is_rare = |what: &&&str| tally.get(**what).is_none_or(|times| *times < schedules / 20);
    let rare: Vec<_> = if count < schedules || seeds.end - seeds.start == 1 {
        Vec::new()
    } else {
        often.iter().filter(is_rare).collect()
    };
    assert!(rare.is_empty(), "hardly ever: {rare:?}");
    assert_eq!(tally.get("handed over"), tally.get("back"));
}

const OFTEN: [&str; 6] = ["handed over", "kept", "back", "popped", "died", "outlived"];

#[test]
fn on_inline_lanes_each_pointer_that_became_a_chunks_comes_back_once() {
    check(RTE_LANES_INLINE, 3000, &OFTEN);
}

#[test]
fn on_host_lanes_also_not_before_its_work_and_its_consumers_stream_have_passed() {
    check(RTE_LANES_HOST, 3000, &OFTEN);
}

#[test]
fn on_threads_lanes_also_of_stages_that_return_while_the_engine_dies() {
    check(RTE_LANES_THREADS, 400, &OFTEN);
}
