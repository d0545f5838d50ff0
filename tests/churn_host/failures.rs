//! Random hosts of a model that fails in every way: at their end nothing is missing and nothing too much.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::fickle::{Fickle, Nature, PROMPT};
use super::ledger::{Ledger, credits};
use crate::backend::backend;
use crate::driver::*;
use crate::process::Possessions;
use crate::random::{Random, mix};

/// Lives that one engine begins.
const LIVES: u64 = 250;
/// More ticks than that no engine needs to get rid of all sessions.
const MANY: u64 = 100_000;

static LENT: AtomicU64 = AtomicU64::new(0);
static RELEASED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn release(_: *mut c_void) {
    RELEASED.fetch_add(1, SeqCst);
}

/// Lanes, shape and limits of engine `number`.
fn nature_of(number: u64, random: &mut Random) -> (Nature, rte_engine_options) {
    let lanes = [RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_LANES_HOST][number as usize % 3];
    let mut flags = 0;
    for (flag, odds) in [
        (RTE_MODEL_DENSE, 3),
        (RTE_MODEL_NO_MIDRUN, 12),
        (RTE_MODEL_OWN_OUTPUT, 2),
        (RTE_MODEL_RETRY_SAFE, 2),
        (RTE_MODEL_SEED_ASIDE, 2),
    ] {
        flags |= if random.below(odds) == 0 { flag } else { 0 };
    }
    let nature = Nature {
        seed: number,
        rows: 1 + random.below(6) as u32,
        flags,
        has_deferred: random.below(4) > 0,
        has_encode: random.below(4) > 0,
    };
    let options = rte_engine_options {
        lanes,
        pipeline: random.below(3) as u32,
        inbox_capacity: 64,
        message_bytes: 256,
        inbox_bytes: 1,
        outbox_depth: 1 + random.below(3) as u32,
        held_max: 1,
        outbox_policy: random.below(3) as u32,
        seed_attempts: 1 + random.below(3) as u32,
        encode_attempts: 1 + random.below(3) as u32,
        encode_lanes: if lanes == RTE_LANES_THREADS { random.below(3) as u32 } else { 0 },
        ..options()
    };
    (nature, options)
}

struct Run<'a> {
    host: &'a Host,
    rows: u64,
    random: Random,
    ledger: Ledger,
    tag: u64,
    prompts: &'a [u8],
}

impl Run<'_> {
    fn push(&mut self, message: rte_message, values: &[rte_value]) -> i32 {
        self.tag += 1;
        let is_lent = values.iter().any(|value| value.flags & RTE_VALUE_BORROWED != 0);
        let release: Option<unsafe extern "C-unwind" fn(*mut c_void)> = if is_lent { Some(release) } else { None };
        let status = self.host.push(rte_message { tag: self.tag, release, ..message }, values);
        let is_taken = status == 0;
        assert!(is_taken || status == AGAIN, "status {status}");
        LENT.fetch_add(u64::from(is_taken && is_lent), SeqCst);
        match message.kind {
            RTE_ATTACH | RTE_RESET if is_taken && message.generation == 0 => self.ledger.take(self.tag),
            RTE_RESET if is_taken => self.ledger.take_perhaps(self.tag),
            _ => {}
        }
        status
    }

    fn say_something(&mut self) {
        const KINDS: [u32; 12] = [
            RTE_ATTACH, RTE_ATTACH, RTE_ATTACH, RTE_RESET, RTE_RESET, RTE_DETACH, RTE_DETACH, RTE_ACTION, RTE_ACTION,
            RTE_ACTION, RTE_PAUSE, RTE_RESUME,
        ];
        let kind = KINDS[self.random.below(KINDS.len() as u64) as usize];
        // Some find no row.
        let session = self.random.below(self.rows + 2);
        let flags = match kind {
            RTE_DETACH => [0, RTE_DRAIN][self.random.below(2) as usize],
            RTE_ACTION => [0, RTE_PARTIAL][self.random.below(2) as usize],
            _ => 0,
        };
        let (from, size) = (self.random.below(64) as usize, self.random.below(200) as usize);
        let lent = [0, RTE_VALUE_BORROWED][self.random.below(2) as usize];
        let wheel = (self.tag as i64).to_ne_bytes();
        let values = [value(0, &wheel), rte_value { flags: lent, ..value(PROMPT, &self.prompts[from..from + size]) }];
        let has_values = [RTE_ATTACH, RTE_RESET, RTE_ACTION].contains(&kind);
        let count = if has_values { self.random.below(3) as usize } else { 0 };
        // Some name a life, mostly one that is over.
        let names_one = kind != RTE_ATTACH && self.random.below(8) == 0;
        let generation = if names_one { 1 + self.random.below(self.ledger.begun() + 1) } else { 0 };
        self.push(rte_message { flags, generation, ..message(kind, session) }, &values[..count]);
    }

    fn tick(&mut self) {
        let due: Vec<u64> = (0..self.rows + 2).filter(|_| self.random.below(3) > 0).collect();
        let status = if self.random.below(4) == 0 {
            // SAFETY: the engine lives, `due` until the call is over.
            unsafe { rte_engine_step(self.host.engine, due.as_ptr(), due.len(), u64::MAX) }
        } else {
            self.host.tick()
        };
        assert_eq!(status, 0, "tick {}", self.host.info().ticks);
    }

    fn pop_all(&mut self) {
        let ledger = &mut self.ledger;
        self.host.pop_all(|output| ledger.tell(output));
    }

    fn live(&mut self) {
        while self.ledger.begun() < LIVES {
            for _ in 0..self.random.below(5) {
                self.say_something();
            }
            self.tick();
            if self.random.below(4) > 0 {
                self.pop_all();
            }
        }
    }

    /// Everybody goes, whatever still fails meanwhile.
    fn empty(&mut self) {
        for _ in 0..MANY {
            let info = self.host.info();
            if (info.attached, info.retiring) == (0, 0) {
                return;
            }
            for session in 0..self.rows + 2 {
                self.push(message(RTE_DETACH, session), &[]);
            }
            self.tick();
            self.pop_all();
        }
        panic!("not empty after {MANY} ticks");
    }

    /// As many as there are rows find one, and one more does not.
    fn fill(&mut self, fickle: &Fickle) {
        fickle.is_calm.store(true, SeqCst);
        for session in 100..100 + self.rows {
            assert_eq!(self.push(message(RTE_ATTACH, session), &[]), 0);
        }
        while self.host.info().attached < self.rows as u32 || self.host.info().pending > 0 {
            self.tick();
            self.pop_all();
        }
        let rejected = self.ledger.rejected;
        assert_eq!(self.push(message(RTE_ATTACH, 100 + self.rows), &[]), 0);
        self.tick();
        self.pop_all();
        assert_eq!(self.ledger.rejected, rejected + 1, "one more than there are rows");
    }
}

fn run(number: u64, total: &mut Ledger) -> u64 {
    let mut random = Random::new(mix(number));
    let (nature, options) = nature_of(number, &mut random);
    let fickle = Fickle::new(nature);
    let (stages, keys, backend) = (fickle.stages(), fickle.keys(), backend());
    let is_host = options.lanes == RTE_LANES_HOST;
    let backend: *const rte_backend = if is_host { &backend } else { std::ptr::null() };
    let host = Host::new(&fickle.table(&stages, &keys), &rte_engine_options { backend, ..options });
    let all = credits(&host);
    let prompts: Vec<u8> = (0..300u32).map(|at| at as u8).collect();
    let rows = u64::from(nature.rows);
    let mut run = Run { host: &host, rows, random, ledger: Ledger::default(), tag: 0, prompts: &prompts };
    run.live();
    // Half of them are stopped in the middle.
    if number.is_multiple_of(2) {
        run.empty();
        run.pop_all();
        run.ledger.expect_settled();
        assert_eq!(credits(&host), all, "what was paid for notices is back");
        if nature.flags & RTE_MODEL_NO_MIDRUN == 0 {
            run.fill(&fickle);
        }
    }
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    run.pop_all();
    run.ledger.expect_settled();
    assert_eq!(credits(&host), all, "what was paid for notices is back after the stop");
    let ledger = run.ledger;
    drop(host);
    fickle.expect_all_back();
    assert_eq!(LENT.load(SeqCst), RELEASED.load(SeqCst), "what was lent is given back once");
    total.chunks += ledger.chunks;
    total.rejected += ledger.rejected;
    total.rows_failed += ledger.rows_failed;
    total.calls_failed += ledger.calls_failed;
    fickle.failures.load(SeqCst)
}

/// So many lives, on an engine for each few hundred. `RTE_CHURN_SEED=n` runs one engine alone.
pub fn check(lives: u64) {
    let (mut total, mut failures) = (Ledger::default(), 0);
    let one: Option<u64> = std::env::var("RTE_CHURN_SEED").ok().map(|text| text.parse().expect("a number"));
    let numbers = one.map_or(0..lives.div_ceil(LIVES), |number| number..number + 1);
    let mut tried = 0;
    for number in numbers {
        tried += 1;
        let outcome = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| run(number, &mut total)));
        failures += outcome.unwrap_or_else(|panic| {
            eprintln!("RTE_CHURN_SEED={number}");
            std::panic::resume_unwind(panic)
        });
    }
    let Ledger { chunks, rejected, rows_failed, calls_failed, .. } = total;
    println!(
        "{} lives on {tried} engines; {failures} failures: {calls_failed} calls, {rows_failed} rows, {rejected} rejected; {chunks} chunks",
        tried * LIVES
    );
    assert!(failures > 10 * tried && rows_failed > 0 && calls_failed > 0 && rejected > 0 && chunks > 0);
}

const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;

static DESTROYED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn refuse(_: *mut c_void, _: *const rte_stream) -> i32 {
    -1234
}

unsafe extern "C-unwind" fn destroy(_: *mut c_void) {
    DESTROYED.fetch_add(1, SeqCst);
}

unsafe extern "C-unwind" fn never(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    panic!("nothing runs after an init that failed");
}

/// An engine whose init fails, with messages waiting for it.
fn fail_to_open(number: u64) {
    let lanes = [RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_LANES_HOST][number as usize % 3];
    let backend = backend();
    let stages = [stage(RTE_HOT, never), stage(RTE_ENCODE, never)];
    let keys = [zeroed(), rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
    let model = rte_model {
        keys: keys.as_ptr(),
        key_count: 2,
        init: Some(refuse),
        destroy: Some(destroy),
        ..model(&stages, 2, 64)
    };
    let options = rte_engine_options {
        lanes,
        backend: if lanes == RTE_LANES_HOST { &backend } else { std::ptr::null() },
        message_bytes: 64,
        inbox_bytes: 1,
        ..options()
    };
    let host = Host::new(&model, &options);
    let lent = rte_value { flags: RTE_VALUE_BORROWED, ..value(PROMPT, b"lent") };
    for session in 0..3 {
        assert_eq!(host.push(rte_message { release: Some(release), ..message(RTE_ATTACH, session) }, &[lent]), 0);
        LENT.fetch_add(1, SeqCst);
    }
    // SAFETY: the engine lives.
    let status = unsafe {
        match number / 3 % 3 {
            0 => rte_engine_start(host.engine, std::ptr::null_mut()),
            1 => rte_engine_run(host.engine, std::ptr::null_mut()),
            _ => rte_engine_tick(host.engine, 0),
        }
    };
    assert_eq!(status, -1234);
}

/// On each lanes, driven in each way, many times: nothing is left.
pub fn check_init() {
    const ENGINES: u64 = 900;
    (0..90).for_each(fail_to_open);
    let before = Possessions::now();
    (90..ENGINES).for_each(fail_to_open);
    assert_eq!(Possessions::when_threads_are(before.threads), before);
    assert_eq!(DESTROYED.load(SeqCst), ENGINES);
    assert_eq!(LENT.load(SeqCst), RELEASED.load(SeqCst));
}
