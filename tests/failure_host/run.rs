//! An engine and its host, tick by tick: what came out of it, and who went without.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use rte::abi::info::RTE_QUARANTINED;
use rte::abi::message::{RTE_ACTION, RTE_ATTACH, RTE_DETACH, RTE_RESET};
use rte::abi::model::{RTE_KEY_HEAVY, RTE_MODEL_RETRY_SAFE, RTE_MODEL_SEED_ASIDE, rte_key, rte_model};
use rte::abi::options::{
    RTE_LANES_HOST, RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_PIPELINE_OFF, RTE_PIPELINE_ON, rte_backend,
    rte_engine_options,
};
use rte::abi::output::{RTE_CHUNK, RTE_TICK_FAILED};
use rte::abi::status::rte_status;

use super::model::{BAD, CHUNK_BYTES, Failure, Model, PROMPT, ROWS, STATUS, chunk, detach, seed};
use crate::host::device::Device;
use crate::host::engine::{AGAIN, CLOSED, Engine, Message, OK, Output, descriptor_size, zeroed};

/// On what kind of engine it happens.
#[derive(Clone, Copy, Debug)]
pub struct Setting {
    /// `RTE_LANES_*`.
    pub lanes: u32,
    pub pipelined: bool,
    pub has_deferred: bool,
    pub retry_safe: bool,
    pub seed_aside: bool,
    /// The session that fails has the lowest row; else the highest.
    pub bad_first: bool,
}

impl Setting {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Setting> {
        let lanes = [RTE_LANES_INLINE, RTE_LANES_HOST, RTE_LANES_THREADS];
        let of_bits = |lanes, bits: u32| {
            let [pipelined, has_deferred, retry_safe, seed_aside, bad_first] =
                [0, 1, 2, 3, 4].map(|bit| bits >> bit & 1 != 0);
            Setting { lanes, pipelined, has_deferred, retry_safe, seed_aside, bad_first }
        };
        lanes.into_iter().flat_map(move |lanes| (0..32).map(move |bits| of_bits(lanes, bits)))
    }
}

/// What a session was told: kind, session, status, stage.
pub type Told = (u32, u64, rte_status, u32);

/// See the module's comment.
pub struct Run {
    pub setting: Setting,
    // Freed before the model.
    pub engine: Engine,
    pub model: Box<Model>,
    pub ticks: u64,
    /// By session, in the order they came.
    pub chunks: BTreeMap<u64, Vec<Output>>,
    /// Of sessions, in the order they came.
    pub told: Vec<Told>,
    /// TICK_FAILED: by stage and status, how many.
    pub failed: BTreeMap<(u32, rte_status), u64>,
    seen: u64,
}

impl Run {
    pub fn new(setting: Setting, failure: Failure) -> Run {
        let device = (setting.lanes == RTE_LANES_HOST).then(Device::new);
        let model = Box::new(Model {
            failure,
            is_failing: AtomicBool::new(true),
            has_deferred: setting.has_deferred,
            device: device.clone(),
            lives: Default::default(),
        });
        let flag = |is_set: bool, flag: u32| if is_set { flag } else { 0 };
        let stages = model.stages();
        // SAFETY: C structs, of which zero is a value. All pointers are valid until the engine is made; the model until
        // the run is dropped, its engine first.
        let engine = unsafe {
            let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
            let table = rte_model {
                struct_size: descriptor_size::<rte_model>(),
                flags: flag(setting.retry_safe, RTE_MODEL_RETRY_SAFE) | flag(setting.seed_aside, RTE_MODEL_SEED_ASIDE),
                user: std::ptr::from_ref(&*model).cast_mut().cast(),
                max_sessions: ROWS as u32,
                chunk_bytes: CHUNK_BYTES,
                keys: keys.as_ptr(),
                key_count: 1,
                stages: stages.as_ptr(),
                stage_count: stages.len() as u32,
                seed: Some(seed),
                detach: Some(detach),
                ..zeroed()
            };
            let backend = device.as_ref().map(Device::table);
            let options = rte_engine_options {
                struct_size: descriptor_size::<rte_engine_options>(),
                lanes: setting.lanes,
                pipeline: if setting.pipelined { RTE_PIPELINE_ON } else { RTE_PIPELINE_OFF },
                backend: backend.as_ref().map_or(std::ptr::null(), |table: &rte_backend| std::ptr::from_ref(table)),
                ..zeroed()
            };
            Engine::new(&table, &options).expect("an engine")
        };
        let (chunks, told, failed) = Default::default();
        Run { setting, engine, model, ticks: 0, chunks, told, failed, seen: 0 }
    }

    pub fn push(&self, kind: u32, session: u64, tag: u64, prompt: &[u8]) {
        let values = [(PROMPT, prompt)];
        let values = if kind == RTE_DETACH { &[][..] } else { &values[..] };
        assert_eq!(self.engine.push(&Message { kind, session, tag, values, ..Message::default() }), OK);
    }

    pub fn attach(&self, session: u64) {
        self.push(RTE_ATTACH, session, session, b"first");
    }

    pub fn prompt(&self, session: u64, tag: u64, prompt: &[u8]) {
        self.push(RTE_ACTION, session, tag, prompt);
    }

    pub fn reset(&self, session: u64) {
        self.push(RTE_RESET, session, session, b"again");
    }

    /// So many whole ticks; all that comes out of each is popped before the next.
    pub fn tick(&mut self, ticks: u64) {
        for _ in 0..ticks {
            if let Some(device) = &self.model.device {
                device.set_now(device.now().max(10 * self.ticks));
            }
            loop {
                match self.engine.tick() {
                    OK => break,
                    AGAIN => self.wait(),
                    status => panic!("tick: {status}"),
                }
            }
            self.ticks += 1;
            self.take();
        }
    }

    /// Ticks until something is so, which it must be some time.
    pub fn until(&mut self, is_so: impl Fn(&Run) -> bool) {
        for _ in 0..100_000 {
            if is_so(self) {
                return;
            }
            self.tick(1);
        }
        panic!("it never is");
    }

    fn wait(&self) {
        match &self.model.device {
            Some(device) => device.set_now(device.now() + 1),
            None => std::thread::yield_now(),
        }
    }

    fn take(&mut self) {
        for output in self.engine.pop_all().0 {
            match output.kind {
                RTE_CHUNK => {
                    assert_eq!(output.bytes, chunk(output.session, output.index), "the chunk that it says it is");
                    self.chunks.entry(output.session).or_default().push(output);
                }
                RTE_TICK_FAILED => *self.failed.entry((output.stage, output.status)).or_default() += output.dropped,
                kind => self.told.push((kind, output.session, output.status, output.stage)),
            }
        }
    }

    /// The first tick whose chunks may still be in flight.
    pub fn delivered(&self) -> u64 {
        self.ticks - u64::from(self.setting.pipelined)
    }

    /// Ticks of which `session` has chunks, from its first one on: those that it went without.
    pub fn lost(&self, session: u64) -> Vec<u64> {
        let chunks = &self.chunks[&session];
        let has = |tick: &u64| chunks.iter().any(|chunk| chunk.tick == *tick);
        (chunks[0].tick..self.delivered()).filter(|tick| !has(tick)).collect()
    }

    /// The numbers of a session's chunks, by life; each follows the one before but for what it says is missing.
    pub fn indexes(&self, session: u64) -> Vec<Vec<u64>> {
        let mut lives: Vec<(u64, Vec<u64>)> = vec![];
        for output in self.chunks.get(&session).into_iter().flatten() {
            match lives.last_mut() {
                Some((generation, indexes)) if *generation == output.generation => {
                    assert_eq!(output.index, indexes.last().unwrap() + 1 + output.dropped, "session {session}");
                    indexes.push(output.index);
                }
                _ => lives.push((output.generation, vec![output.index])),
            }
        }
        lives.into_iter().map(|(_, indexes)| indexes).collect()
    }

    /// What was told since the last time.
    pub fn news(&mut self) -> Vec<Told> {
        let news = self.told.split_off(self.seen.min(self.told.len() as u64) as usize);
        self.told.extend(&news);
        self.seen = self.told.len() as u64;
        news
    }

    /// The one that fails is quarantined for it.
    pub fn expect_quarantine(&self) {
        let info = self.engine.session_info(BAD).expect("it is still attached");
        assert_eq!((info.state, info.status), (RTE_QUARANTINED, STATUS));
        assert_eq!(self.engine.info().quarantined, 1);
    }

    /// From now on nothing fails.
    pub fn heal(&self) {
        self.model.is_failing.store(false, SeqCst);
    }

    /// Stops it: each life that was seeded is detached, once.
    pub fn finish(mut self) -> Vec<Told> {
        assert_eq!(self.engine.info().failed_ticks, self.failed.values().sum::<u64>());
        self.news();
        loop {
            match self.engine.stop_within(1) {
                OK => break,
                _ => self.wait(),
            }
        }
        self.take();
        assert_eq!(self.engine.pop().err(), Some(CLOSED));
        let lives = self.model.lives.lock().unwrap().clone();
        assert!(lives.values().all(|life| *life == (1, 1)), "seeds and detaches by life: {lives:?}");
        if let Some(device) = &self.model.device {
            assert_eq!(device.complaints(), Vec::<String>::new());
        }
        self.news()
    }
}
