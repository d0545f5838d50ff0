//! A random run, and the comparison after each tick.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use rte::abi::message::{
    RTE_ACTION, RTE_ATTACH, RTE_DETACH, RTE_DRAIN, RTE_PARTIAL, RTE_PAUSE, RTE_RESET, RTE_RESUME, rte_message,
    rte_value,
};
use rte::abi::options::{
    RTE_DROP_NEWEST, RTE_DROP_OLDEST, RTE_HOLD, RTE_LANES_HOST, RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_PIPELINE_OFF,
    RTE_PIPELINE_ON, rte_engine_options,
};
use rte::abi::output::RTE_CHUNK;
use rte::word::Lane;

use super::books::{Books, Letter, Terms, Turn};
use super::ring::{Policy, Shape};
use super::witness::{CHUNK_BYTES, Nature, Orders, Place, Witness};
use crate::host::device::Device;
use crate::host::engine::{AGAIN, Engine, Held, OK, descriptor_size, zeroed};
use crate::random::Random;

const TICKS: u64 = 150;

/// What all runs together came to.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Total {
    pub ticks: u64,
    pub chunks: u64,
    pub dropped: u64,
    pub refused: u64,
    pub coalesced: u64,
    pub failed: u64,
    pub quarantines: u64,
    pub holds: u64,
}

struct Run {
    random: Random,
    terms: Terms,
    engine: Engine,
    witness: Arc<Witness>,
    /// The time of the lanes; none inline.
    device: Option<Arc<Device>>,
    /// On threads: the work that was submitted. The calls of it, seen by the host.
    submitted: Option<Arc<AtomicU64>>,
    called: u64,
    books: Books,
    ids: Vec<u64>,
    in_hand: Vec<(u64, (usize, u64), Held)>,
    tag: u64,
    encode_until: u64,
}

pub fn run(seed: u64, lanes: u32, total: &mut Total) {
    let mut random = Random::new(seed << 8);
    let has_deferred = random.percent(75);
    let policy = [Policy::Oldest, Policy::Newest, Policy::Hold][random.below(3) as usize];
    let (depth, held_max) = (1 + random.below(3), 1 + random.below(2));
    let is_pipelined = has_deferred && random.percent(60);
    let nature = Nature {
        rows: 1 + random.below(5) as u32,
        is_dense: random.percent(30),
        is_retry_safe: random.percent(50),
        has_deferred,
        seeds_aside: random.percent(30),
        is_no_midrun: random.percent(10),
    };
    let terms = Terms {
        rows: nature.rows as usize,
        is_pipelined,
        has_deferred,
        is_retry_safe: nature.is_retry_safe,
        seeds_aside: nature.seeds_aside,
        is_no_midrun: nature.is_no_midrun,
        seed_attempts: 1 + random.below(3) as u32,
        encode_attempts: 1 + random.below(3) as u32,
        sees_returns: lanes != RTE_LANES_THREADS,
        // Of outbox_depth + held_max + pipeline depth those that are being filled are not there for what waits.
        shape: Shape { policy, depth, buffers: depth + held_max },
    };
    let device = (lanes != RTE_LANES_INLINE).then(Device::new);
    let streams = device.clone().filter(|_| lanes == RTE_LANES_HOST);
    let witness = Witness::new(nature, streams.clone(), lanes == RTE_LANES_THREADS);
    let (stages, keys, clock) = (witness.stages(), Witness::keys(), witness.clock());
    let mut table = witness.table();
    (table.stages, table.stage_count) = (stages.as_ptr(), stages.len() as u32);
    (table.keys, table.key_count) = (keys.as_ptr(), keys.len() as u32);
    let backend = streams.as_ref().map(Device::table);
    let options = rte_engine_options {
        struct_size: descriptor_size::<rte_engine_options>(),
        lanes,
        backend: backend.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
        clock: &clock,
        pipeline: if is_pipelined { RTE_PIPELINE_ON } else { RTE_PIPELINE_OFF },
        inbox_capacity: 64,
        message_bytes: 256,
        outbox_depth: depth as u32,
        held_max: held_max as u32,
        outbox_policy: match policy {
            Policy::Oldest => RTE_DROP_OLDEST,
            Policy::Newest => RTE_DROP_NEWEST,
            Policy::Hold => RTE_HOLD,
        },
        seed_attempts: terms.seed_attempts,
        encode_attempts: terms.encode_attempts,
        encode_lanes: if lanes == RTE_LANES_THREADS { random.below(4) as u32 } else { 0 },
        // SAFETY: numbers, pointers, and functions that may be absent.
        ..unsafe { zeroed() }
    };
    let submitted = (lanes == RTE_LANES_THREADS).then(|| Arc::new(AtomicU64::new(0)));
    // SAFETY: tables and arrays live until the call is over; the witness until the engine was freed.
    let engine = unsafe {
        match (&device, &submitted) {
            (Some(time), Some(submitted)) => {
                let (count, until) = (submitted.clone(), witness.clone());
                let ends = Box::new(move |lane, _, begin| {
                    count.fetch_add(1, SeqCst);
                    if lane == Lane::Encode { until.encode_until() } else { begin }
                });
                Engine::timed(&table, &options, time, ends)
            }
            _ => Engine::new(&table, &options),
        }
    };
    let ids = (1..=u64::from(nature.rows) + 2).collect();
    let mut run = Run {
        random,
        terms,
        engine: engine.expect("an engine"),
        witness,
        device,
        submitted,
        called: 0,
        books: Books::new(terms),
        ids,
        in_hand: vec![],
        tag: 0,
        encode_until: 0,
    };
    for tick in 0..TICKS {
        run.tick(tick);
    }
    run.finish(total);
}

impl Run {
    fn id(&mut self) -> u64 {
        self.ids[self.random.below(self.ids.len() as u64) as usize]
    }

    fn tick(&mut self, tick: u64) {
        let burst = if self.random.percent(4) { 60 } else { self.random.below(5) };
        let flooder = self.random.percent(50).then(|| self.id());
        for _ in 0..burst {
            let session = flooder.filter(|_| burst > 10).unwrap_or_else(|| self.id());
            self.push(session);
        }
        let orders = self.orders(tick);
        self.witness.order(orders);
        let due: Option<Vec<u64>> = self
            .random
            .percent(20)
            .then(|| self.ids.iter().copied().filter(|id| !(id + tick).is_multiple_of(3)).collect());
        let (begin, lanes) = (self.witness.now(), tick * 8);
        let status = self.engine.tick_through(due.as_deref(), self.device.as_deref(), lanes..lanes + 8);
        assert_eq!(status, OK, "tick {tick}");
        let calls = self.take_calls();
        let end = self.witness.now();
        let takes = self.witness.takes();
        let finalizes = calls.iter().filter(|call| call.place == Place::Finalize).count() as u64;
        let collected = end - takes * finalizes;
        self.books.turn(&Turn { lanes, begin, collected, end, due: due.as_deref(), calls: &calls });
        self.compare();
        if !self.random.percent(40) {
            self.consume(tick);
        }
        let due = self.in_hand.extract_if(.., |(until, ..)| *until <= tick);
        for (_, place, held) in due {
            drop(held);
            self.books.release(place);
        }
        self.compare();
    }

    fn compare(&mut self) {
        let engine = &self.engine;
        self.books.compare(&engine.info(), |id| engine.session_info(id), &self.ids);
    }

    /// Those of this tick: on threads an ENCODE that nobody waits for is seen, too.
    fn take_calls(&mut self) -> Vec<super::witness::Call> {
        let mut calls = self.witness.take_calls();
        if let Some(submitted) = &self.submitted {
            let is_work = |calls: &[super::witness::Call]| {
                calls.iter().filter(|call| ![Place::Ready, Place::Finalize].contains(&call.place)).count() as u64
            };
            while self.called + is_work(&calls) < submitted.load(SeqCst) {
                std::thread::yield_now();
                calls.extend(self.witness.take_calls());
            }
            self.called += is_work(&calls);
        }
        calls
    }

    fn orders(&mut self, tick: u64) -> Orders {
        const PLACES: [Place; 7] =
            [Place::Ready, Place::Seed, Place::Hot, Place::Deferred, Place::Encode, Place::Detach, Place::Finalize];
        // Never sooner than those before: the lane is first in, first out.
        let length = if self.device.is_some() { self.random.below(4) } else { 0 };
        self.encode_until = self.encode_until.max((tick + length) * 8 + 4);
        let place = |random: &mut Random| PLACES[random.below(7) as usize];
        let mut orders = Orders { encode_until: self.encode_until, ..Orders::default() };
        if self.random.percent(15) {
            orders.calls.push(place(&mut self.random));
        }
        if self.random.percent(12) {
            orders.rows.push((place(&mut self.random), self.id()));
        }
        if tick % 40 > 30 {
            let lanes = [Place::Hot, Place::Deferred, Place::Encode, Place::Seed];
            orders.poison = Some((lanes[(tick / 40) as usize % 4], 1));
        }
        orders.is_gated = self.random.percent(10);
        if self.random.percent(10) {
            orders.silent.push(self.id());
        }
        // On threads callbacks run beside each other.
        orders.takes = if self.submitted.is_some() { 0 } else { self.random.below(2_000_000) };
        orders
    }

    fn push(&mut self, session: u64) {
        self.tag += 1;
        self.witness.pass(self.random.below(500_000));
        let heavy = self.random.percent(45).then(|| vec![7; self.random.below(4) as usize]);
        let (kind, flags, heavy) = match self.random.below(100) {
            0..25 => (RTE_ATTACH, 0, heavy),
            25..32 => (RTE_DETACH, 0, None),
            32..40 => (RTE_DETACH, RTE_DRAIN, None),
            40..48 => (RTE_RESET, 0, heavy),
            48..86 => (RTE_ACTION, RTE_PARTIAL, heavy),
            86..93 => (RTE_PAUSE, 0, None),
            _ => (RTE_RESUME, 0, None),
        };
        let generation = match self.random.below(10) {
            0 if kind != RTE_ATTACH => self.books.generation(session),
            1 if kind != RTE_ATTACH => 1 + self.random.below(20),
            _ => 0,
        };
        let value = heavy.as_ref().map(|bytes| rte_value {
            data: bytes.as_ptr().cast(),
            size: bytes.len(),
            revision: 0,
            key: 0,
            flags: 0,
        });
        let (tag, user) = (self.tag, session * 1000 + self.tag);
        let message = rte_message {
            kind,
            flags,
            session,
            generation,
            tag,
            user,
            values: value.as_ref().map_or(std::ptr::null(), std::ptr::from_ref),
            value_count: usize::from(value.is_some()),
            // SAFETY: numbers, pointers, and functions that may be absent.
            ..unsafe { zeroed() }
        };
        let pushed = self.witness.now();
        // SAFETY: the value lives until the call is over.
        match unsafe { self.engine.push_raw(&message) } {
            OK => self.books.take(Letter { kind, flags, session, generation, tag, user, heavy, pushed }),
            AGAIN => self.books.refused += 1,
            status => panic!("status {status}"),
        }
    }

    /// Some of what is there, or all.
    fn consume(&mut self, tick: u64) {
        let most = if self.random.percent(70) { u64::MAX } else { self.random.below(6) };
        for _ in 0..most {
            let Ok(held) = self.engine.pop_held() else { return };
            let output = held.copy();
            if output.kind != RTE_CHUNK {
                continue;
            }
            let place = self.books.pop(output.session, output.generation);
            let until = tick + self.random.below(8).saturating_sub(4);
            self.in_hand.push((until, place, held));
        }
    }

    fn finish(mut self, total: &mut Total) {
        let info = self.engine.info();
        self.books.compare_times(&info);
        let row_bytes = CHUNK_BYTES.next_multiple_of(64) as u64;
        let making = if self.terms.is_pipelined { 2 } else { 1 };
        assert_eq!(info.session_bytes as u64, (self.terms.shape.buffers + making) * row_bytes);
        self.witness.order(Orders::default());
        assert_eq!(self.engine.stop(), OK);
        let mut popped = self.books.popped;
        while let Ok(held) = self.engine.pop_held() {
            popped += u64::from(held.copy().kind == RTE_CHUNK);
        }
        let info = self.engine.info();
        let gauges =
            [info.attached, info.pending, info.encoding, info.paused, info.quarantined, info.retiring, info.held];
        assert_eq!(gauges, [0; 7], "nobody is there after the stop");
        assert_eq!(info.chunks, popped + info.dropped, "each chunk was popped or dropped");
        assert!(self.ids.iter().all(|id| self.engine.session_info(*id).is_none()));
        let Books { ticks, chunks, dropped, refused, coalesced, failed, quarantines, holds, .. } = self.books;
        let own = [ticks, chunks, dropped, refused, coalesced, failed, quarantines, holds];
        let places = [
            &mut total.ticks,
            &mut total.chunks,
            &mut total.dropped,
            &mut total.refused,
            &mut total.coalesced,
            &mut total.failed,
            &mut total.quarantines,
            &mut total.holds,
        ];
        places.into_iter().zip(own).for_each(|(place, own)| *place += own);
        drop(self.in_hand);
        drop(self.engine);
    }
}
