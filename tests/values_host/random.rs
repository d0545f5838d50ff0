//! Random messages with values of all forms, on an engine whose stages take their time and fail now and then. What must
//! hold in any case the model and the loans look after: see [`super::model`] and [`super::ledger`].

use std::sync::Arc;

use super::bench::Bench;
use super::ledger::{Form, Item, Ready};
use super::model::{HOST_ERROR, PROMPT, STYLE, Shown, Who};
use crate::driver::*;
use crate::random::Random;

/// Who comes and goes; more than there are rows.
const SESSIONS: u64 = 6;

/// How often what was seen.
#[derive(Default, Debug)]
pub struct Count {
    /// Values on the device that the callbacks were shown.
    pub seed: u64,
    pub hot: u64,
    pub deferred: u64,
    pub encode: u64,
    /// Of all those: while their event was pending.
    pub pending: u64,
    /// In calls of single rows, of several that are here.
    pub isolated: u64,
    pub messages: u64,
}

struct Play {
    random: Random,
    bench: Bench,
    /// An event that later messages may name, too.
    shared: Option<Arc<Ready>>,
}

/// Runs the schedule of a seed.
pub fn run(seed: u64, count: &mut Count) {
    let mut random = Random::new(seed);
    let flags = [RTE_MODEL_DENSE, RTE_MODEL_SEED_ASIDE, RTE_MODEL_RETRY_SAFE];
    let flags = flags.into_iter().filter(|_| random.percent(40)).fold(0, |all, flag| all | flag);
    let pipeline = random.pick(&[RTE_PIPELINE_OFF, RTE_PIPELINE_ON]);
    let encode_lanes = random.pick(&[0, 1, 2, 3]);
    let bench = Bench::with(flags, rte_engine_options { pipeline, encode_lanes, ..options() });
    for who in [Who::Seed, Who::Hot, Who::Deferred, Who::Encode] {
        bench.set_length(who, random.pick(&[0, 0, 1, 3, 8]));
    }
    let mut play = Play { random, bench, shared: None };
    for _ in 0..60 {
        play.fate();
        for _ in 0..play.random.below(4) {
            play.push();
            count.messages += 1;
        }
        let moments = play.random.pick(&[1, 1, 2, 5]);
        play.bench.run_until(play.bench.now() + moments);
        play.note(count);
    }
    let Play { random: mut last, bench, shared } = play;
    drop(shared);
    if last.percent(50) {
        bench.stop();
    }
    let complaints = bench.world.complaints();
    assert!(complaints.is_empty(), "seed {seed}: {complaints:#?}");
    let world = bench.world.clone();
    bench.free();
    assert_eq!(world.loans.complaints().first(), None, "seed {seed}");
    assert_eq!(world.device.complaints().first(), None, "seed {seed}");
    assert!(world.device.is_clean(), "seed {seed}");
}

impl Play {
    /// What fails from now on.
    fn fate(&mut self) {
        let who = self.random.pick(&[Who::Seed, Who::Hot, Who::Deferred, Who::Encode]);
        let result = if self.random.percent(25) { HOST_ERROR } else { 0 };
        let bad_row = self.random.percent(10).then(|| self.random.below(SESSIONS));
        self.bench.world.set(|knobs| {
            knobs.results.insert(who, result);
            knobs.bad_rows.remove(&who);
            bad_row.into_iter().for_each(|session| _ = knobs.bad_rows.insert(who, session));
        });
    }

    fn push(&mut self) {
        let session = self.random.below(SESSIONS);
        let (kind, flags) = match self.random.below(100) {
            0..30 => (RTE_ATTACH, 0),
            30..36 => (RTE_DETACH, self.random.pick(&[0, RTE_DRAIN])),
            36..44 => (RTE_RESET, 0),
            44..90 => (RTE_ACTION, self.random.pick(&[0, RTE_PARTIAL])),
            90..94 => (RTE_PAUSE, 0),
            _ => (RTE_RESUME, 0),
        };
        let mut items = Vec::new();
        if matches!(kind, RTE_ATTACH | RTE_RESET | RTE_ACTION) {
            for key in [PROMPT, STYLE] {
                if self.random.percent(60) {
                    let form =
                        self.random.pick(&[Form::Device, Form::Device, Form::Borrowed, Form::Copied, Form::Absent]);
                    // Few, so that values come back.
                    let least = u64::from(form == Form::Device);
                    let revision = if form == Form::Absent { 0 } else { least + self.random.below(3) };
                    items.push(Item { key, form, revision });
                }
            }
        }
        let has_device = items.iter().any(|item| item.form == Form::Device);
        let ready = if has_device && self.random.percent(75) { Some(self.ready()) } else { None };
        self.bench.push_flagged(kind, flags, session, &items, ready);
    }

    /// A new event, or the last one, unless that was dropped.
    fn ready(&mut self) -> Arc<Ready> {
        if let Some(shared) = self.shared.as_ref().filter(|shared| shared.is_in_use() && self.random.percent(30)) {
            return shared.clone();
        }
        let wait = self.random.pick(&[0, 1, 4, 12, 30]);
        let ready = Ready::new(&self.bench.world.device, self.bench.now() + wait);
        self.shared = Some(ready.clone());
        ready
    }

    fn note(&self, count: &mut Count) {
        let is_pending = |shown: &Shown| {
            let loan = self.bench.world.loans.by_number(shown.number).expect("it was lent");
            let is_device = loan.item(shown.key).is_some_and(|item| item.form == Form::Device);
            is_device.then(|| loan.ready.as_ref().is_some_and(|ready| ready.at > shown.now))
        };
        for shown in self.bench.world.take_shown() {
            let Some(is_pending) = is_pending(&shown) else { continue };
            *match shown.who {
                Who::Seed => &mut count.seed,
                Who::Hot => &mut count.hot,
                Who::Deferred => &mut count.deferred,
                Who::Encode => &mut count.encode,
            } += 1;
            count.pending += u64::from(is_pending);
            count.isolated += u64::from(shown.rows == 1 && shown.who == Who::Hot && is_pending);
        }
    }
}
