//! Each exported function called in each callback: each call returns, with a status that rte.h names, and the engine goes
//! on or ends as it says there.

use std::cell::Cell;
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use super::functions::*;
use super::play::{CONSUMES, Driven, play};
use super::world::{PUSHES, Place, Shape, World};
use crate::driver::*;

/// On which thread a callback runs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Where {
    /// One of the engine's, or the one that drives it: in a callback of this engine.
    Inside,
    /// A consumer's, in rte_output_release.
    Consumer,
    /// A producer's, in rte_inbox_push.
    Producer,
    /// The engine is gone, or all but.
    Gone,
}

impl Where {
    fn of(place: Place) -> Where {
        match place {
            Place::Destroy | Place::DestroyBackend => Where::Gone,
            // Whoever calls the engine.
            Place::Log => Where::Inside,
            _ if CONSUMES.get() => Where::Consumer,
            _ if PUSHES.get() => Where::Producer,
            _ => Where::Inside,
        }
    }
}

thread_local! {
    /// A call of this thread's is under way: the callbacks that it makes call no more.
    static CALLS: Cell<bool> = const { Cell::new(false) };
}

/// What is tried: `functions` in the first callbacks of a place, from the beginning or, where the engine `dies`, from the
/// third HOT on, which ends it.
#[derive(Clone, Copy)]
struct Trial {
    place: Place,
    shape: Shape,
    driven: Driven,
    dies: bool,
    functions: &'static [Function],
}

/// A place is left alone after so many callbacks.
const ENOUGH: u64 = 8;
const LAST_STEP: u64 = 2;

struct Caller {
    trial: Trial,
    engine: AtomicPtr<rte_engine>,
    steps: AtomicU64,
    callbacks: AtomicU64,
    calls: AtomicU64,
    wrong: Mutex<Vec<String>>,
}

impl Caller {
    fn new(trial: Trial) -> Caller {
        Caller {
            trial,
            engine: AtomicPtr::default(),
            steps: AtomicU64::new(0),
            callbacks: AtomicU64::new(0),
            calls: AtomicU64::new(0),
            wrong: Mutex::default(),
        }
    }

    /// Gives what the callback is to answer.
    fn visit(&self, place: Place) -> rte_status {
        let ends = self.trial.dies && place == Place::Hot && self.steps.fetch_add(1, SeqCst) == LAST_STEP;
        let is_time = !self.trial.dies || self.steps.load(SeqCst) > LAST_STEP;
        let engine = self.engine.load(SeqCst);
        let may_call = place == self.trial.place && is_time && !engine.is_null() && !CALLS.get();
        if may_call && self.callbacks.fetch_add(1, SeqCst) < ENOUGH {
            CALLS.set(true);
            self.call_all(engine, Where::of(place));
            CALLS.set(false);
        }
        if ends { DEAD as rte_status } else { 0 }
    }

    fn call_all(&self, engine: *mut rte_engine, here: Where) {
        for function in self.trial.functions {
            let allowed = match here {
                Where::Inside => Some(function.inside),
                Where::Gone => function.outside.filter(|_| !function.needs_engine),
                Where::Consumer | Where::Producer => function.outside,
            };
            let Some(allowed) = allowed else { continue };
            // SAFETY: the engine lives, but where it is gone.
            let status = unsafe { (function.call)(engine) };
            let is_dead = self.trial.dies && function.needs_engine && status == DEAD;
            if !allowed.contains(&status) && !is_dead {
                let what = format!("{here:?}: {}: {status}, not one of {allowed:?}", function.name);
                self.wrong.lock().unwrap().push(what);
            }
            self.calls.fetch_add(1, SeqCst);
        }
    }
}

impl Trial {
    /// Gives how many calls were made.
    fn run(self) -> u64 {
        let Trial { place, shape, driven, dies, functions } = self;
        let ending = if dies { ", dying" } else { "" };
        let case = format!("in {place:?}, {shape:?}, {driven:?}{ending}: {}", functions[0].name);
        println!("{case}");
        let caller = Arc::new(Caller::new(self));
        let visitor = caller.clone();
        let world = World::new(move |here| visitor.visit(here));
        let after = if shape.lanes == RTE_LANES_HOST { 5 } else { 0 };
        let made = |engine| caller.engine.store(engine, SeqCst);
        let outcome = play(&world, shape, driven, after, |lanes| lanes, made, || {});

        let wrong = caller.wrong.lock().unwrap();
        assert!(wrong.is_empty(), "{case}: {wrong:?}");
        let (health, push, end) = if dies { (DEAD, DEAD, DEAD) } else { (OK, STATE, CLOSED) };
        assert_eq!((i64::from(outcome.health), i64::from(outcome.stop)), (health, OK), "{case}: {outcome:?}");
        assert_eq!(i64::from(outcome.push), push, "{case}");
        assert!(shape.has_on_output || i64::from(outcome.consumer) == end, "{case}: {outcome:?}");
        let driving = i64::from(outcome.driving);
        let is_stopped = functions.len() == 1 && [CLOSED, STATE].contains(&driving);
        assert!(driving == OK || is_stopped || dies && driving == DEAD, "{case}: {outcome:?}");
        world.expect_all_back(&case, false);
        caller.calls.load(SeqCst)
    }

    /// There is no such callback in it, or none that may call.
    fn is_void(self) -> bool {
        let is_last = self.functions.len() == 1;
        match self.place {
            Place::Destroy | Place::DestroyBackend => is_last,
            Place::SleepUntil => self.driven == Driven::Ticked,
            Place::ReleaseOutput => !self.shape.has_on_output && is_last,
            _ => false,
        }
    }
}

/// As a place needs it: outputs given back in a callback or by a consumer, a clock of the host's.
fn shapes(place: Place) -> Vec<Shape> {
    let lanes: &[u32] = match place.is_of_backend() {
        true => &[RTE_LANES_HOST],
        false => &[RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_LANES_HOST],
    };
    let on_output: &[bool] = match place {
        Place::OnOutput => &[true],
        Place::ReleaseOutput => &[true, false],
        _ => &[false],
    };
    let has_clock = matches!(place, Place::Now | Place::SleepUntil);
    let of_lanes = |lanes: u32| {
        on_output.iter().map(move |has_on_output| Shape { lanes, has_on_output: *has_on_output, has_clock })
    };
    lanes.iter().flat_map(|lanes| of_lanes(*lanes)).collect()
}

/// Each function in each callback, on all lanes, ticked and started.
pub fn everything_everywhere() {
    let (mut cases, mut calls) = (0, 0);
    for place in Place::ALL {
        for shape in shapes(place) {
            for driven in [Driven::Ticked, Driven::Started] {
                for functions in [ASKS, STOP, FREE] {
                    let trial = Trial { place, shape, driven, dies: false, functions };
                    let made = trial.run();
                    assert!(made > 0 || trial.is_void(), "{place:?}, {shape:?}, {driven:?}: never called");
                    (cases, calls) = (cases + 1, calls + made);
                }
            }
        }
    }
    println!("{cases} cases, {calls} calls");
}

/// The same of an engine that dies: in the callbacks in which it is taken apart.
pub fn everything_at_the_end() {
    let (mut cases, mut calls) = (0, 0);
    for place in Place::ALL {
        for shape in shapes(place) {
            for driven in [Driven::Ticked, Driven::Started] {
                calls += Trial { place, shape, driven, dies: true, functions: ASKS }.run();
                cases += 1;
            }
        }
    }
    println!("{cases} cases, {calls} calls");
    assert!(calls > 1000);
}
