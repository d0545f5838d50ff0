//! Panics in each callback of a host, and in each method of an engine's lanes: each ends no more than its engine.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use super::faulty::{FaultyLanes, Method};
use super::play::{CONSUMES, Driven, Outcome, play};
use super::world::{BYTES, Place, Shape, World};
use crate::driver::*;

const DEAD: rte_status = rte_status_code::RTE_ERR_DEAD as rte_status;
const STATE: rte_status = rte_status_code::RTE_ERR_STATE as rte_status;
const CLOSED: rte_status = rte_status_code::RTE_CLOSED as rte_status;

/// Which of the times that something is reached it goes wrong: the one after so many, and whether all after that, too.
#[derive(Clone, Copy, Debug)]
struct Times {
    skipped: u64,
    is_once: bool,
    /// A panic; else it answers DEAD.
    panics: bool,
}

const TIMES: [Times; 4] = [
    Times { skipped: 0, is_once: true, panics: true },
    Times { skipped: 0, is_once: false, panics: true },
    Times { skipped: 3, is_once: true, panics: true },
    Times { skipped: 3, is_once: false, panics: true },
];

/// Counts, and goes wrong when it is time.
#[derive(Default)]
struct Trap {
    reached: AtomicU64,
    sprung: AtomicU64,
}

impl Trap {
    fn step_on(&self, times: Times) -> rte_status {
        let number = self.reached.fetch_add(1, SeqCst);
        if number < times.skipped || number > times.skipped && times.is_once {
            return 0;
        }
        self.sprung.fetch_add(1, SeqCst);
        if times.panics {
            // No message of the panic hook: what else is printed is seen.
            std::panic::resume_unwind(Box::new("on purpose"));
        }
        DEAD
    }
}

/// What must be the case afterwards.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Dead,
    Well,
}

fn expect(case: &str, end: End, driven: Driven, has_on_output: bool, outcome: &Outcome) {
    let what = |name: &str| format!("{case}: {name}: {outcome:?}");
    let is_dead = end == End::Dead;
    assert_eq!(outcome.health, if is_dead { DEAD } else { 0 }, "{}", what("health"));
    assert_eq!(outcome.stop, 0, "{}", what("stop"));
    assert_eq!(outcome.push, if is_dead { DEAD } else { STATE }, "{}", what("push after it"));
    assert_eq!(outcome.start, if is_dead { DEAD } else { STATE }, "{}", what("start after it"));
    let again: &[rte_status] = match (driven, end) {
        (Driven::Ticked, End::Dead) => &[DEAD],
        (Driven::Ticked, End::Well) => &[CLOSED],
        // It may have died before it was driven.
        (_, End::Dead) => &[STATE, DEAD],
        (_, End::Well) => &[STATE],
    };
    assert!(again.contains(&outcome.again), "{}", what("tick after it"));
    if !has_on_output {
        assert_eq!(outcome.consumer, if is_dead { DEAD } else { CLOSED }, "{}", what("who waits returns"));
        assert_eq!(outcome.last_kind == RTE_DEAD, is_dead, "{}", what("the last output"));
    }
    // What happens in the stop is nobody's status any more.
    assert!(outcome.driving == 0 || is_dead && outcome.driving == DEAD, "{}", what("driving"));
}

/// An engine that has nothing to do with it, and goes on.
struct Bystander {
    host: Host,
    chunks: u64,
}

unsafe extern "C-unwind" fn write(_: *mut std::ffi::c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the batch of a model with one row.
    unsafe {
        (*(*batch).output).cast::<u8>().write_bytes(7, BYTES);
        *(*batch).output_size = BYTES;
    }
    0
}

impl Bystander {
    fn new() -> Bystander {
        let host = Host::new(&model(&[stage(RTE_HOT, write)], 1, BYTES), &options());
        assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), 0);
        Bystander { host, chunks: 0 }
    }

    fn go_on(&mut self) {
        assert_eq!(self.host.tick(), 0);
        self.host.pop_all(|output| self.chunks += u64::from(output.kind == RTE_CHUNK));
    }
}

fn all_lanes() -> [u32; 3] {
    [RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_LANES_HOST]
}

/// What a panic in a callback does.
fn end_of(place: Place, trap: &Trap) -> End {
    if place.gives_back() || trap.sprung.load(SeqCst) == 0 { End::Well } else { End::Dead }
}

fn case_of_callback(place: Place, lanes: u32, driven: Driven, times: Times, bystander: &mut Bystander) -> u64 {
    let trap = Arc::new(Trap::default());
    let world = World::new({
        let trap = trap.clone();
        move |here| if here == place { trap.step_on(times) } else { 0 }
    });
    let has_clock = matches!(place, Place::Now | Place::SleepUntil);
    let shape = Shape { lanes, has_on_output: place == Place::OnOutput, has_clock };
    let case = format!("{place:?}, {times:?}, {shape:?}, {driven:?}");
    println!("{case}");
    let before = bystander.chunks;
    let outcome = play(&world, shape, driven, 0, |lanes| lanes, |_| {}, || bystander.go_on());
    // The backend hears twice of the bell: at the end nothing hangs on it.
    let is_last = place == Place::SetWake && times.skipped > 0;
    let end = if is_last { End::Well } else { end_of(place, &trap) };
    expect(&case, end, driven, shape.has_on_output, &outcome);
    world.expect_all_back(&case, place == Place::Now);
    assert_eq!(world.backends_destroyed.load(SeqCst), u64::from(lanes == RTE_LANES_HOST), "{case}");
    assert_eq!(bystander.chunks, before + 12, "{case}: the other engine goes on");
    if times.skipped == 0 {
        let needs_pace = place == Place::SleepUntil && driven == Driven::Ticked;
        assert!(trap.sprung.load(SeqCst) > 0 || needs_pace, "{case}: was never reached");
    }
    trap.sprung.load(SeqCst)
}

/// Each callback, on all lanes, driven in all ways.
pub fn in_callbacks() {
    let (mut cases, mut sprung, mut bystander) = (0, 0, Bystander::new());
    for place in Place::ALL {
        for lanes in all_lanes().into_iter().filter(|lanes| *lanes == RTE_LANES_HOST || !place.is_of_backend()) {
            for driven in Driven::ALL {
                let answers = TIMES.map(|times| Times { panics: false, ..times });
                let ways = if place.answers() { [TIMES, answers].concat() } else { TIMES.to_vec() };
                for times in ways {
                    sprung += case_of_callback(place, lanes, driven, times, &mut bystander);
                    cases += 1;
                }
            }
        }
    }
    println!("{cases} cases, {sprung} panics");
}

/// What an output is given back behind: there it is the consumer's thread that meets the panic, and the engine goes on.
pub fn in_releases_of_outputs() {
    let mut bystander = Bystander::new();
    for place in [Place::EventNew, Place::Record, Place::Query, Place::EventFree, Place::ReleaseOutput] {
        for times in TIMES {
            let trap = Arc::new(Trap::default());
            let world = World::new({
                let trap = trap.clone();
                move |here| if here == place && CONSUMES.get() { trap.step_on(times) } else { 0 }
            });
            let shape = Shape { lanes: RTE_LANES_HOST, has_on_output: false, has_clock: false };
            let case = format!("{place:?} panics in rte_output_release, {times:?}");
            println!("{case}");
            let outcome = play(&world, shape, Driven::Started, 5, |lanes| lanes, |_| {}, || bystander.go_on());
            expect(&case, End::Well, Driven::Started, false, &outcome);
            world.expect_all_back(&case, false);
            let is_rare = times.skipped > 0 || place == Place::EventFree || place == Place::ReleaseOutput;
            assert!(trap.sprung.load(SeqCst) > 0 || is_rare, "{case}: was never reached");
        }
    }
}

fn case_of_lanes(method: Method, lanes: u32, driven: Driven, times: Times, bystander: &mut Bystander) -> u64 {
    let trap = Arc::new(Trap::default());
    let world = World::new(|_| 0);
    let shape = Shape { lanes, has_on_output: false, has_clock: false };
    let case = format!("Lanes::{method:?} panics, {times:?}, {shape:?}, {driven:?}");
    println!("{case}");
    let step = {
        let trap = trap.clone();
        move |here| {
            if here == method {
                let _ = trap.step_on(times);
            }
        }
    };
    let wrap = |inner| Box::new(FaultyLanes { inner, visit: Box::new(step) }) as _;
    let before = bystander.chunks;
    let outcome = play(&world, shape, driven, 0, wrap, |_| {}, || bystander.go_on());
    let is_dead = method != Method::Drop && trap.sprung.load(SeqCst) > 0;
    expect(&case, if is_dead { End::Dead } else { End::Well }, driven, false, &outcome);
    world.expect_all_back(&case, true);
    assert_eq!(bystander.chunks, before + 12, "{case}: the other engine goes on");
    trap.sprung.load(SeqCst)
}

/// Each method of the lanes, on all lanes, driven in all ways.
pub fn in_lanes() {
    let (mut cases, mut sprung, mut bystander) = (0, 0, Bystander::new());
    for method in Method::ALL {
        let before = sprung;
        for lanes in all_lanes() {
            for driven in Driven::ALL {
                for times in TIMES {
                    sprung += case_of_lanes(method, lanes, driven, times, &mut bystander);
                    cases += 1;
                }
            }
        }
        assert!(sprung > before, "Lanes::{method:?} was never reached");
    }
    println!("{cases} cases, {sprung} panics");
}
