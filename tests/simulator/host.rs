//! A host in Rust: makes the engine's cohort, pushes, ticks, pops, and keeps outputs for a while.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use rte::conditioning::{Lent, Release};
use rte::engine::{Cohort, Plan, Progress, Shared};
use rte::lane::{Equipment, Lanes, Target};
use rte::message::{Envelope, Kind};
use rte::output::Output;
use rte::queue::{Inbox, LIFE_NOTICES, Limits, Outbox, Parcel, Policy, Popped, ReleaseFence, Sizes, ValueIn};
use rte::telemetry::{Board, Counters, Gauges, Log, Watch};
use rte::time::{RealClock, Wake};
use rte::word::{Generation, Session, Status};

use super::consumers::{Consumers, Releases};
use super::dependency::Lie;
use super::hands::Hands;
use super::lanes::SimLanes;
use super::model::{SharedWorld, SimModel};
use super::options::Options;
use super::tally::Count;
use super::timeline::Timeline;
use super::world::World;

/// Messages that an inbox holds.
const MESSAGES: usize = 64;
/// A tick that is asked so often to go on hangs.
const PATIENCE: u32 = 100_000;

/// A value that a message carries.
pub struct Given {
    pub key: usize,
    pub bytes: Vec<u8>,
    pub is_lent: bool,
}

/// See the module's comment.
pub struct Host {
    pub world: SharedWorld,
    shared: Arc<Shared>,
    cohort: Cohort,
    hands: Hands,
    held_max: usize,
    outliving: usize,
    tag: u64,
}

impl Host {
    /// With lanes that tell `lie`.
    pub fn new(options: &Options, lie: Option<Lie>) -> Host {
        let world = Arc::new(Mutex::new(World::new(options, lie.is_none())));
        let model = Arc::new(SimModel::new(options, world.clone()));
        let shared = Arc::new(shared(options));
        let target = Target { model, watch: shared.watch.clone() };
        let timeline = Timeline::new(world.clone(), lie);
        let consumers = Consumers::new(options, world.clone(), timeline.clone(), lie);
        let lanes = SimLanes::new(options, target.clone(), world.clone(), timeline.clone(), consumers.clone(), lie);
        let lanes: Box<dyn Lanes> = Box::new(lanes);
        let releases = options.has_streams.then(|| Arc::new(Releases(consumers.clone())) as Arc<dyn ReleaseFence>);
        let equipment = Equipment { releases, ..Equipment::default() };
        let plan = Plan {
            pipelined: options.is_pipelined,
            seed_attempts: 3,
            encode_attempts: 3,
            quota: options.depth + options.held + if options.is_pipelined { 2 } else { 1 },
            prefault: false,
        };
        let mut cohort =
            Cohort::new(shared.clone(), target, lanes, plan, equipment).expect("memory for a small engine");
        cohort.open().expect("a model whose init succeeds");
        let hands = Hands::new(options, world.clone(), timeline, consumers);
        Host { world, shared, cohort, hands, held_max: options.held, outliving: options.outliving, tag: 0 }
    }

    /// Pushes a message. One that is refused changes nothing.
    pub fn push(&mut self, kind: Kind, session: u64, values: &[Given]) {
        self.tag += 1;
        let envelope = Envelope {
            kind,
            session: Session(session),
            generation: Generation(0),
            user: session,
            tag: self.tag,
            pushed: self.shared.clock.now(),
        };
        if kind.begins_life() && !self.shared.outbox.reserve() {
            return;
        }
        let releases = Arc::new(AtomicU32::new(0));
        let mut lent = Vec::new();
        let content = |value: &Given| {
            let key = value.key as u32;
            if !value.is_lent || value.bytes.is_empty() {
                return (key, Ok(()));
            }
            let address = self.world.lock().unwrap().lend(&value.bytes, &releases);
            lent.push(address);
            // SAFETY: the world keeps the memory, unchanged, until the engine is gone.
            (key, Err(unsafe { Lent::new(address, value.bytes.len()) }))
        };
        let contents: Vec<_> = values.iter().map(content).collect();
        let values: Vec<ValueIn<'_>> = contents
            .iter()
            .zip(values)
            .map(|((key, content), value)| ValueIn {
                key: *key,
                revision: 0,
                content: content.map(|()| value.bytes.as_slice()),
            })
            .collect();
        let counter = Arc::as_ptr(&releases).expose_provenance();
        let release = (!lent.is_empty()).then(|| Release::new(count_release, [counter, 0]));
        if self.shared.inbox.push(Parcel { envelope, values: &values, ready: None, release }).is_err() {
            if kind.begins_life() {
                self.shared.outbox.refund(LIFE_NOTICES);
            }
            lent.into_iter().for_each(|address| self.world.lock().unwrap().take_back(address));
        }
    }

    /// A tick that waits for the lanes until `until`, and is resumed until it is over.
    pub fn tick(&mut self, due: Option<&[u64]>, until: u64) {
        for asked in 1..PATIENCE {
            if self.cohort.tick(due, until).expect("an engine that does not die") == Progress::Done {
                self.hands.linger();
                let mut world = self.world.lock().unwrap();
                world.count(Count::Ticks, 1);
                return world.count(Count::Resumed, u64::from(asked > 1));
            }
        }
        panic!("a tick never ends");
    }

    /// Pops at most `count` outputs; keeps the `keep` newest chunks, if it may have so many.
    pub fn pop(&mut self, count: u64, keep: usize) {
        for _ in 0..count {
            let Popped::Output(output) = self.shared.outbox.pop() else { break };
            match output {
                Output::Notice(notice) => self.world.lock().unwrap().told(notice.event),
                Output::Chunk(chunk, _) => self.hands.keep(chunk),
            }
            self.hands.give_back_all_but(self.held_max.min(keep));
        }
    }

    /// Stops the engine, takes what is left, and lets it go.
    pub fn stop(mut self, until: u64) {
        self.shared.inbox.close();
        let mut patience = PATIENCE;
        while self.cohort.shutdown(until).expect("an engine that does not die") == Progress::Busy {
            patience = patience.checked_sub(1).expect("a stop that ends");
        }
        self.held_max = usize::MAX;
        self.pop(u64::MAX, usize::MAX);
        assert!(matches!(self.shared.outbox.pop(), Popped::Ended(Status::CLOSED)), "the outbox has ended");
        self.hands.give_back_all_but(self.outliving);
        self.world.lock().unwrap().is_over = true;
        drop((self.cohort, self.shared));
        self.hands.give_back_all_but(0);
        self.world.lock().unwrap().close();
    }
}

fn count_release([counter, _]: [usize; 2]) {
    // SAFETY: the world keeps the counter until the engine is gone.
    let counter = unsafe { &*std::ptr::with_exposed_provenance::<AtomicU32>(counter) };
    counter.fetch_add(1, Ordering::Relaxed);
}

/// What an engine of this shape shares with its host.
fn shared(options: &Options) -> Shared {
    let parked = Arc::new(Wake::default());
    let notices = LIFE_NOTICES as usize * (2 * options.rows as usize + MESSAGES);
    let sizes = Sizes { rows: options.rows, depth: options.depth, notices };
    let policy = match options.seed % 5 {
        0 | 1 => Policy::DropOldest,
        2 | 3 => Policy::DropNewest,
        _ => Policy::Hold,
    };
    let limits = Limits { messages: MESSAGES, message_bytes: 256, bytes: 1 << 14 };
    Shared {
        inbox: Inbox::new(limits).expect("memory for a small inbox"),
        outbox: Arc::new(Outbox::new(sizes, policy, parked.clone())),
        board: Board::new(options.rows),
        counters: Counters::default(),
        gauges: Gauges::default(),
        watch: Arc::new(Watch::default()),
        parked,
        paced: Wake::default(),
        stopping: AtomicBool::new(false),
        kicked: Arc::default(),
        death: AtomicI32::new(0),
        log: Log::default(),
        on_output: None,
        clock: Arc::new(RealClock { spin: 0 }),
    }
}
