//! Sessions that attach, run and detach, as many at once as there are rows, over and over.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use rte::lane::FrontedLanes;

use super::settled::Settling;
use crate::driver::*;
use crate::process::{Possessions, heap_calls, resident_pages};

const ROWS: u64 = 64;
const MOVE: u32 = 0;
const PROMPT: u32 = 1;
/// Pages that may come into use after the warm-up: those of stacks and of the heap that were not touched yet.
const SLACK_PAGES: u64 = 64;
/// On threads it is up to them how many batches are under way at once: so many blocks more than in the warm-up may be in
/// them, 64 batches of as many rows at most. (A block that one session in fifty leaves behind would be more.)
const SLACK_BLOCKS: i64 = 64 * 22;
const SLACK_PAGES_OF_BLOCKS: u64 = 512;

/// What the model's hooks have been called with.
#[derive(Default)]
struct Seen {
    seeded: AtomicU64,
    detached: AtomicU64,
}

unsafe fn seen<'a>(user: *mut c_void) -> &'a Seen {
    // SAFETY: the model's user, which outlives the engine.
    unsafe { &*user.cast::<Seen>() }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called.
    unsafe { seen(user).seeded.fetch_add(u64::from((*batch).count), Relaxed) };
    0
}

unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called.
    unsafe { seen(user).detached.fetch_add(u64::from((*batch).count), Relaxed) };
    0
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

unsafe extern "C-unwind" fn write_all(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        for at in 0..(*batch).count as usize {
            (*(*batch).output.add(at)).cast::<u8>().write(at as u8);
            *(*batch).output_size.add(at) = 1;
        }
    }
    0
}

/// A row's worth of sessions, each new to the engine: from its ATTACH to its DETACHED.
struct Round<'a> {
    host: &'a Host,
    first: u64,
    chunks: u64,
    attached: u64,
    detached: u64,
}

impl Round<'_> {
    fn tick(&mut self) {
        assert_eq!(self.host.tick(), 0);
        self.host.pop_all(|output| match output.kind {
            RTE_CHUNK => self.chunks += 1,
            RTE_ATTACHED => self.attached += 1,
            RTE_DETACHED => self.detached += 1,
            kind => panic!("an output of kind {kind}, status {}", output.status),
        });
    }

    fn push_all(&self, message: impl Fn(u64) -> rte_message, values: &[rte_value]) {
        for session in self.first..self.first + ROWS {
            assert_eq!(self.host.push(message(session), values), 0);
        }
    }

    /// On threads whatever nobody waits for may take some ticks.
    fn tick_until(&mut self, is_over: impl Fn(&Self) -> bool) {
        while !is_over(self) {
            self.tick();
        }
    }

    fn run(mut self) {
        let prompt = [self.first as u8; 300];
        self.push_all(|session| message(RTE_ATTACH, session), &[value(PROMPT, b"a castle")]);
        self.tick_until(|round| round.attached == ROWS);
        let values = [value(MOVE, &1.5f32.to_ne_bytes()), value(PROMPT, &prompt)];
        self.push_all(|session| rte_message { flags: RTE_PARTIAL, ..message(RTE_ACTION, session) }, &values);
        self.tick_until(|round| round.chunks >= 2 * ROWS);
        let drain = |session: u64| if session.is_multiple_of(3) { RTE_DRAIN } else { 0 };
        self.push_all(|session| rte_message { flags: drain(session), ..message(RTE_DETACH, session) }, &[]);
        self.tick_until(|round| round.detached == ROWS);
        assert_eq!(self.attached, ROWS);
    }
}

/// Where the stages run.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum On {
    Inline,
    /// Threads whose work is seen to be done whenever the engine looks: what it does is the same each time.
    SettledThreads,
    Threads,
}

impl On {
    fn host(self, model: &rte_model) -> Host {
        let lanes = if self == On::Inline { RTE_LANES_INLINE } else { RTE_LANES_THREADS };
        let options = rte_engine_options { lanes, ..options() };
        if self != On::SettledThreads {
            return Host::new(model, &options);
        }
        // SAFETY: valid descriptors.
        let engine = unsafe { engine_with(model, &options, |lanes| Box::new(FrontedLanes::behind(Settling, lanes))) };
        Host { engine: engine.expect("an engine") }
    }

    fn expect_the_same(self, before: Possessions, sessions: u64) {
        let mut now = Possessions::now();
        if self == On::Threads && (0..=SLACK_BLOCKS).contains(&(now.blocks - before.blocks)) {
            (now.blocks, now.bytes) = (before.blocks, before.bytes);
        }
        assert_eq!(now, before, "{self:?}: after {sessions} sessions");
    }

    fn slack_pages(self) -> u64 {
        SLACK_PAGES + if self == On::Threads { SLACK_PAGES_OF_BLOCKS } else { 0 }
    }
}

/// So many sessions on one engine. After a warm-up there is nothing more than before.
pub fn check(on: On, sessions: u64) {
    let seen = Seen::default();
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, write_all), stage(RTE_ENCODE, nothing)];
    let keys = [
        rte_key { r#type: RTE_F32, size: 4, merge: RTE_MERGE_SUM, ..zeroed() },
        rte_key { flags: RTE_KEY_HEAVY, ..zeroed() },
    ];
    let model = rte_model {
        user: (&raw const seen).cast_mut().cast(),
        keys: keys.as_ptr(),
        key_count: 2,
        seed: Some(seed),
        detach: Some(detach),
        ..model(&stages, ROWS as u32, 256)
    };
    let host = on.host(&model);
    let rounds = sessions / ROWS;
    let round = |number: u64| Round { host: &host, first: number * ROWS, chunks: 0, attached: 0, detached: 0 }.run();

    let warm = (rounds / 10).max(20);
    (0..warm).for_each(round);
    let (before, pages, mut calls) = (Possessions::now(), resident_pages(), 0);
    for tenth in 1..=10 {
        let begin = |tenth: u64| warm + (rounds - warm) * (tenth - 1) / 10;
        let (end, counted) = (begin(tenth + 1), heap_calls());
        (begin(tenth)..end).for_each(round);
        calls += heap_calls() - counted;
        on.expect_the_same(before, end * ROWS);
        let now = resident_pages();
        assert!(now <= pages + on.slack_pages(), "{on:?}: {now} pages after {} sessions, {pages} at first", end * ROWS);
    }
    let info = host.info();
    let now = resident_pages();
    println!(
        "{on:?}: {} sessions, {} ticks, {calls} calls of the allocator; {before:?}; {pages} pages, now {now}",
        rounds * ROWS,
        info.ticks
    );
    drop(host);
    assert_eq!((seen.seeded.load(Relaxed), seen.detached.load(Relaxed)), (rounds * ROWS, rounds * ROWS));
    assert!(calls == 0 || on == On::Threads, "{on:?}: {calls} calls of the allocator");
}
