//! A run: what sessions do, tick by tick, all drawn from one seed.

use rte::message::Kind;

use super::dependency::Lie;
use super::host::{Given, Host};
use super::model::{NOTE, PROMPT, STEER, STEER_BYTES};
use super::options::Options;
use super::tally::Tally;
use super::world::{Deed, Violation};
use crate::random::Random;

/// Within so many ticks each row makes a chunk.
const CALM_TICKS: u64 = 32;

/// What a run came to.
pub struct Outcome {
    pub tally: Tally,
    pub violations: Vec<Violation>,
}

/// Runs `options` on lanes that tell `lie`.
pub fn run(options: &Options, lie: Option<Lie>) -> Outcome {
    let mut host = Host::new(options, lie);
    let mut random = Random::stream(options.seed, 4);
    let sessions = u64::from(options.rows) + 1;
    for _ in 0..options.ticks {
        for _ in 0..random.below(4) {
            let session = random.below(sessions);
            let kind = kind(&mut random);
            host.push(kind, session, &values(&mut random, kind, options));
        }
        poison(&mut random, &host, sessions);
        let due: Vec<u64> = (0..sessions).filter(|_| !random.once_in(4)).collect();
        let due = random.once_in(4).then_some(due.as_slice());
        host.tick(due, random.pick(&[0, u64::MAX]));
        host.pop(random.pick(&[0, 2, u64::MAX]), random.below(4) as usize);
    }
    if lie.is_none() {
        go_on_calmly(&mut host, sessions);
    }
    let world = host.world.clone();
    host.stop(random.pick(&[0, u64::MAX]));
    let mut world = world.lock().unwrap();
    Outcome { tally: std::mem::take(&mut world.tally), violations: std::mem::take(&mut world.violations) }
}

/// Whatever has happened: when nothing fails and nobody is slow, each row makes chunks again.
fn go_on_calmly(host: &mut Host, sessions: u64) {
    host.world.lock().unwrap().calm_down();
    for tick in 0..CALM_TICKS {
        // Sessions that drain are left alone by a reset: they go, and come back.
        let kind = if tick == 0 { Kind::Reset } else { Kind::Attach };
        for session in (0..sessions).filter(|_| tick % 8 == 0) {
            host.push(kind, session, &[]);
            host.push(Kind::Resume, session, &[]);
        }
        host.tick(None, u64::MAX);
        host.pop(u64::MAX, 0);
    }
    host.world.lock().unwrap().expect_chunks();
}

fn kind(random: &mut Random) -> Kind {
    match random.below(30) {
        0..6 => Kind::Attach,
        6..8 => Kind::Detach { drain: false },
        8 => Kind::Detach { drain: true },
        9..12 => Kind::Reset,
        12 => Kind::Pause,
        13..16 => Kind::Resume,
        _ => Kind::Action { partial: random.once_in(2) },
    }
}

/// Few different contents, so that some changes are none; some of them lent, some empty.
fn values(random: &mut Random, kind: Kind, options: &Options) -> Vec<Given> {
    let mut values = Vec::new();
    if matches!(kind, Kind::Detach { .. } | Kind::Pause | Kind::Resume) {
        return values;
    }
    let keys = if options.has_encode { &[STEER, NOTE, PROMPT][..] } else { &[STEER, NOTE] };
    for key in keys.iter().copied() {
        if random.once_in(2) {
            continue;
        }
        let size = match key {
            _ if random.once_in(12) => 0,
            STEER => STEER_BYTES,
            _ => random.pick(&[24, 100]),
        };
        let bytes = vec![random.below(5) as u8; size];
        values.push(Given { key, bytes, is_lent: random.once_in(2) });
    }
    values
}

/// A session begins to make its batches fail, until it is found, or this one is done with.
fn poison(random: &mut Random, host: &Host, sessions: u64) {
    let poison = &mut host.world.lock().unwrap().poison;
    match (&poison, random.below(16)) {
        (None, 0) => {
            let deed = random.pick(&[Deed::Hot, Deed::Deferred, Deed::Encode, Deed::Seed]);
            *poison = Some((deed, random.below(sessions)));
        }
        (Some(_), 0..3) => *poison = None,
        _ => {}
    }
}
