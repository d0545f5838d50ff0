//! Threads lanes in a storm: calls hang, fail and come back at random while sessions come, act and go, the host ticks without
//! waiting or leaves it to the engine, and ends it at any time. Whatever the threads do meanwhile, no two calls meet that
//! must not, each life is told what it is told once and in order, its chunks come in order between, each pointer comes back,
//! and nothing is left.
//!
//! `RTE_STORM_SEEDS=n` sets how many are run; `RTE_STORM_SEED=n` runs that one alone. The threads are what they are: the same
//! seed may go another way.

mod driver;
mod host;
mod random;
mod works_host;

use std::collections::BTreeMap;

use driver::*;
use random::Random;
use works_host::host::*;
use works_host::{FAILED, Place, ROWS, Rule, Working, Works};

/// Random storms, if the environment says nothing else.
const STORMS: u64 = 400;
const SESSIONS: u64 = ROWS as u64 + 2;

/// What a life was told until now, and its newest chunk.
#[derive(Default, Debug)]
struct Life {
    attached: bool,
    failed: bool,
    closed: bool,
    over: bool,
    newest: Option<u64>,
}

/// By generation.
#[derive(Default)]
struct Lives {
    of: BTreeMap<u64, Life>,
    refused: u64,
    chunks: u64,
}

impl Lives {
    fn note(&mut self, output: &rte_output) {
        let life = self.of.entry(output.generation).or_default();
        let is_right = match output.kind {
            RTE_CHUNK => {
                self.chunks += 1;
                let is_next = life.newest.is_none_or(|newest| newest < output.index);
                life.newest = Some(output.index);
                life.attached && !life.over && is_next
            }
            RTE_ATTACHED if output.flags & RTE_ALREADY != 0 => true,
            RTE_ATTACHED => !std::mem::replace(&mut life.attached, true) && !life.over && !life.failed,
            RTE_REJECTED if output.generation == 0 => {
                self.refused += 1;
                true
            }
            // Of a RESET in the inbox of a stop, too: then the life goes on until it is detached.
            RTE_REJECTED if life.attached => !life.over,
            // Of such a RESET, or the end of a life that was not seeded until then.
            RTE_REJECTED if output.status == CLOSED => {
                life.closed = true;
                !life.over
            }
            RTE_REJECTED => !std::mem::replace(&mut life.over, true),
            RTE_ROW_FAILED => !std::mem::replace(&mut life.failed, true) && life.attached && !life.over,
            RTE_DETACHED => !std::mem::replace(&mut life.over, true),
            RTE_TICK_FAILED => true,
            _ => false,
        };
        assert!(is_right, "kind {} status {} of {}: {life:?}", output.kind, output.status, output.generation);
    }

    fn pop(&mut self, host: &Host) {
        host.pop_all(|output| self.note(output));
    }
}

/// A message of any kind to anybody. One that is refused for want of room is no matter.
fn push(random: &mut Random, host: &Host, number: u64) {
    let session = 1 + random.below(SESSIONS);
    let (kind, flags) = match random.below(24) {
        0..6 => (RTE_ATTACH, 0),
        6..8 => (RTE_DETACH, random.pick(&[0, RTE_DRAIN])),
        8..10 => (RTE_RESET, 0),
        10 => (RTE_PAUSE, 0),
        11..13 => (RTE_RESUME, 0),
        _ => (RTE_ACTION, random.pick(&[0, RTE_PARTIAL])),
    };
    let content = (random.below(4) + 1).to_ne_bytes();
    let has_value = !matches!(kind, RTE_DETACH | RTE_PAUSE | RTE_RESUME) && !random.once_in(3);
    let values = [value(random.below(2) as u32, &content)];
    // A context has no taps.
    let has_value = has_value && (kind == RTE_ACTION || values[0].key == works_host::PROMPT);
    let message = rte_message { flags, tag: number, ..message(kind, session) };
    let status = host.push(message, if has_value { &values } else { &[] });
    assert!(status == OK || status == AGAIN, "{status}");
}

/// Calls begin to hang or fail, or no longer do.
fn disturb(random: &mut Random, works: &Works) {
    let (place, session) = (random.pick(&Place::ALL), 1 + random.below(SESSIONS));
    match random.below(8) {
        0 => works.rule(place, session, Rule::Hold),
        1 if place != Place::Detach => works.rule(place, session, Rule::FailWhole(FAILED)),
        2 if place != Place::Detach => works.rule(place, session, Rule::FailRow(FAILED)),
        3 => works.forget(place, session),
        4 => works.let_go(),
        5 => works.forget_all(),
        _ => {}
    }
}

fn storm(seed: u64) -> (u64, u64) {
    let mut random = Random::new(seed);
    let mut flags = random.pick(&[0, RTE_MODEL_RETRY_SAFE]) | random.pick(&[0, RTE_MODEL_SEED_ASIDE]);
    flags |= random.pick(&[0, 0, RTE_MODEL_OWN_OUTPUT]) | random.pick(&[0, 0, RTE_MODEL_DENSE]);
    let is_seeded = !random.once_in(6);
    let works = if is_seeded { Works::new(flags) } else { Works::without_seed(flags & !RTE_MODEL_SEED_ASIDE) };
    let options = rte_engine_options {
        encode_lanes: 1 + random.below(4) as u32,
        pipeline: random.pick(&[RTE_PIPELINE_ON, RTE_PIPELINE_OFF]),
        outbox_policy: random.pick(&[RTE_DROP_OLDEST, RTE_DROP_NEWEST, RTE_HOLD]),
        outbox_depth: 1 + random.below(4) as u32,
        spin_ns: random.pick(&[0, 0, 20_000]),
        ..on_threads(c"storm")
    };
    let host = works.engine(&options);
    let (is_started, mut lives) = (random.once_in(2), Lives::default());
    if is_started {
        start(&host);
    }
    for number in 0..100 + random.below(300) {
        (0..random.below(4)).for_each(|_| push(&mut random, &host, number + 1));
        disturb(&mut random, works);
        for _ in 0..random.below(4) {
            if is_started { std::thread::yield_now() } else { assert!(tick_once(&host) >= OK) }
        }
        if random.once_in(2) {
            lives.pop(&host);
        }
    }
    let is_abandoned = end(&mut random, works, host, &mut lives);
    expect_no_threads(c"storm");
    works.expect_order();
    if !is_abandoned {
        assert_eq!(works.living(), 0, "each life that was seeded was detached");
        assert_eq!(works.given(), works.returned(), "each pointer came back");
        let is_left = |life: &Life| !life.over && (life.attached || !life.closed);
        let left: Vec<_> = lives.of.iter().filter(|(generation, life)| **generation != 0 && is_left(life)).collect();
        assert!(left.is_empty(), "each life has ended: {left:?}");
    }
    (lives.of.len() as u64, lives.chunks)
}

/// Ends it, this way or that. Whether it was left to what hangs.
fn end(random: &mut Random, works: &'static Works, host: Working, lives: &mut Lives) -> bool {
    for _ in 0..random.below(3) {
        let status = stop(&host, random.pick(&[0, 1, 200_000]));
        assert!(status == OK || status == TIMEOUT, "{status}");
        lives.pop(&host);
    }
    if random.once_in(8) && stop(&host, 1) == TIMEOUT {
        drop(host);
        works.forget_all();
        return true;
    }
    if random.once_in(2) {
        works.forget_all();
    } else {
        works.let_go();
    }
    assert_eq!(stop(&host, FOR_EVER), OK);
    lives.pop(&host);
    drop(host);
    false
}

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok().map(|text| text.parse().unwrap_or_else(|_| panic!("{name}={text}: no number")))
}

#[test]
fn whatever_hangs_and_fails_each_life_is_told_once_in_order_and_nothing_is_left() {
    let seeds = match number("RTE_STORM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RTE_STORM_SEEDS").unwrap_or(STORMS),
    };
    let (mut lives, mut chunks) = (0, 0);
    for seed in seeds.clone() {
        let what = std::panic::catch_unwind(|| storm(seed));
        let (more_lives, more_chunks) = what.unwrap_or_else(|_| panic!("RTE_STORM_SEED={seed}"));
        lives += more_lives;
        chunks += more_chunks;
    }
    println!("{} storms: {lives} lives, {chunks} chunks", seeds.end - seeds.start);
    assert!(seeds.end - seeds.start < STORMS || (lives > 10 * STORMS && chunks > 20 * STORMS));
}
