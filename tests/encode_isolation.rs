//! A slow encode is its own row's matter: while one session's ENCODE runs for 50 ticks, every other session gives one
//! chunk in every tick, whoever leaves, joins or starts anew meanwhile.

mod host;
mod oracle;
mod oracle_host;
mod random;

use oracle::outcome::Phase;
use oracle::schedule::{Config, Message, Request, TickInput, Values, Version};
use oracle::trace::{Header, Scenario, Tick};
use oracle_host::driver::{Driver, Lanes};
use oracle_host::observed::Observed;
use serde_json::json;

/// Three sessions, and the one whose encode is slow.
const RESIDENTS: [&str; 4] = ["a", "b", "c", "slow"];

/// One row more than residents.
const ROWS: usize = 5;

/// The tick in which the encode starts, and the first whose step sees it done.
const START: i64 = 5;
const END: i64 = START + 50;

/// In the midst of it.
const MIDDLE: i64 = 20;

const TICKS: i64 = 70;

fn message(session: &str, request: Request) -> Message {
    Message { session: session.to_owned(), request, generation: 0 }
}

fn attach(session: &str) -> Message {
    message(session, Request::Attach(Some(prompt("castle"))))
}

fn detach(session: &str) -> Message {
    message(session, Request::Detach { drain: false })
}

fn reset(session: &str) -> Message {
    message(session, Request::Reset(Some(prompt("desert"))))
}

fn prompt(text: &str) -> Values {
    Values::from_iter([("prompt".to_owned(), json!(text))])
}

/// What happened in each tick, for a pipelined engine or one that is not.
struct Course {
    pipelined: bool,
    lanes: Lanes,
    ticks: Vec<Observed>,
}

impl Course {
    /// The residents join, the encode starts, and in its midst these messages come.
    fn of(pipelined: bool, lanes: Lanes, events: &[Message]) -> Self {
        let tick = |number| {
            let mut input = TickInput { number, ..TickInput::default() };
            match number {
                0 => input.messages = RESIDENTS.map(attach).to_vec(),
                START => {
                    let request = Request::Action { values: Some(prompt("sea")), merge: false };
                    input.messages.push(message("slow", request));
                    input.encode_ticks = Some(END - START);
                }
                MIDDLE => input.messages = events.to_vec(),
                _ => {}
            }
            Tick { input, expected: None }
        };
        let config = Config { max_sessions: ROWS, pipelined, ..Config::default() };
        let header = Header { name: "one slow encode".to_owned(), version: Version::Rte, config };
        let scenario = Scenario { header, ticks: (0..TICKS).map(tick).collect() };
        let mut driver = Driver::new(&scenario, lanes).expect("an engine");
        let mut ticks: Vec<Observed> = scenario.ticks.iter().map(|tick| driver.tick(&tick.input)).collect();
        driver.finish(&mut ticks);
        Self { pipelined, lanes, ticks }
    }

    fn at(&self, tick: i64) -> &Observed {
        &self.ticks[usize::try_from(tick).expect("not negative")]
    }

    /// The ticks in which a session gives a chunk. Panics if it gives two in one.
    fn chunks_of(&self, session: &str) -> Vec<i64> {
        let count = |tick: &i64| self.at(*tick).outputs.iter().filter(|(name, _)| name == session).count();
        assert!((0..TICKS).all(|tick| count(&tick) <= 1), "two chunks of {session} in one tick");
        (0..TICKS).filter(|tick| count(tick) == 1).collect()
    }

    /// The tick that delivers what HOT makes in this one.
    fn delivery(&self, tick: i64) -> i64 {
        tick + i64::from(self.pipelined)
    }

    /// A session gave a chunk for each of these steps and for no other.
    fn assert_steps(&self, session: &str, steps: impl IntoIterator<Item = i64>) {
        let expected: Vec<i64> =
            steps.into_iter().map(|step| self.delivery(step)).filter(|tick| *tick < TICKS).collect();
        assert_eq!(self.chunks_of(session), expected, "{session}, {}", self.place());
    }

    /// Notices of a session and the ticks in which they came.
    fn assert_notices(&self, session: &str, expected: &[(i64, &str)]) {
        let ticks = (0..TICKS).flat_map(|tick| {
            let notices = self.at(tick).notices.get(session);
            notices.into_iter().flatten().map(move |notice| (tick, notice.as_str()))
        });
        assert_eq!(ticks.collect::<Vec<_>>(), expected, "{session}, {}", self.place());
    }

    fn place(&self) -> String {
        format!("{:?} lanes, pipelined: {}", self.lanes, self.pipelined)
    }

    fn phase(&self, tick: i64, session: &str) -> Option<Phase> {
        let state = self.at(tick).state.iter().find(|state| state.session == session);
        state.map(|state| state.phase)
    }

    fn row(&self, tick: i64, session: &str) -> usize {
        let state = self.at(tick).state.iter().find(|state| state.session == session);
        state.expect("an attached session").row
    }
}

/// Runs a check with and without a pipeline, on streams and on threads.
fn on_all_lanes(events: &[Message], check: impl Fn(&Course)) {
    let threads = [false, true].map(|hot_outlasts| Lanes::Threads { encodes: 1, hot_outlasts });
    for lanes in [Lanes::Device, threads[0], threads[1]] {
        check(&Course::of(true, lanes, events));
        check(&Course::of(false, lanes, events));
    }
}

#[test]
fn a_slow_encode_holds_up_its_own_row_alone() {
    on_all_lanes(&[], |course| {
        for bystander in ["a", "b", "c"] {
            course.assert_steps(bystander, 0..TICKS);
        }
        course.assert_steps("slow", (0..START).chain(END..TICKS));
        for tick in START..END {
            assert_eq!(course.phase(tick, "slow"), Some(Phase::Encoding));
        }
        assert_eq!(course.phase(END, "slow"), Some(Phase::Ready));
    });
}

#[test]
fn the_encoding_session_leaves_at_once_and_its_row_when_the_encode_has_ended() {
    on_all_lanes(&[detach("slow")], |course| {
        for bystander in ["a", "b", "c"] {
            course.assert_steps(bystander, 0..TICKS);
        }
        course.assert_steps("slow", 0..START);
        course.assert_notices("slow", &[(0, "attached 4"), (MIDDLE, "detached 4")]);
    });
}

#[test]
fn who_joins_then_is_seeded_at_once_while_there_is_a_free_row() {
    on_all_lanes(&[detach("slow"), attach("d"), attach("e")], |course| {
        for bystander in ["a", "b", "c"] {
            course.assert_steps(bystander, 0..TICKS);
        }
        // One row was free. The other joiner gets the encoding one, and waits for its encode.
        course.assert_notices("d", &[(MIDDLE, "attached 5")]);
        course.assert_steps("d", MIDDLE..TICKS);
        assert_eq!(course.row(MIDDLE, "d"), ROWS - 1);
        course.assert_notices("e", &[(END, "attached 6")]);
        course.assert_steps("e", END..TICKS);
        assert_eq!(course.row(MIDDLE, "e"), course.row(START, "slow"));
    });
}

#[test]
fn another_session_leaves_and_its_row_is_free_at_once() {
    on_all_lanes(&[detach("b"), attach("d"), attach("e")], |course| {
        for bystander in ["a", "c"] {
            course.assert_steps(bystander, 0..TICKS);
        }
        course.assert_notices("b", &[(0, "attached 2"), (MIDDLE, "detached 2")]);
        course.assert_notices("d", &[(MIDDLE, "attached 5")]);
        course.assert_notices("e", &[(MIDDLE, "attached 6")]);
        assert_eq!(course.row(MIDDLE, "d"), course.row(START, "b"));
        for joiner in ["d", "e"] {
            course.assert_steps(joiner, MIDDLE..TICKS);
        }
        course.assert_steps("slow", (0..START).chain(END..TICKS));
    });
}

#[test]
fn the_encoding_session_starts_anew_when_the_encode_has_ended() {
    on_all_lanes(&[reset("slow")], |course| {
        for bystander in ["a", "b", "c"] {
            course.assert_steps(bystander, 0..TICKS);
        }
        course.assert_steps("slow", (0..START).chain(END..TICKS));
        course.assert_notices("slow", &[(0, "attached 4"), (MIDDLE, "detached 4"), (END, "attached 5")]);
        assert_eq!(course.phase(END - 1, "slow"), Some(Phase::Pending));
    });
}

#[test]
fn another_session_starts_anew_at_once() {
    on_all_lanes(&[reset("b")], |course| {
        for bystander in ["a", "c"] {
            course.assert_steps(bystander, 0..TICKS);
        }
        // What was in flight of its old life is dropped.
        let old = if course.pipelined { 0..MIDDLE - 1 } else { 0..MIDDLE };
        course.assert_steps("b", old.chain(MIDDLE..TICKS));
        course.assert_notices("b", &[(0, "attached 2"), (MIDDLE, "detached 2"), (MIDDLE, "attached 5")]);
        course.assert_steps("slow", (0..START).chain(END..TICKS));
    });
}

#[test]
fn a_pause_of_the_encoding_session_holds_nobody_up() {
    let pause = message("slow", Request::SetActive(false));
    on_all_lanes(&[pause, attach("d")], |course| {
        for bystander in ["a", "b", "c"] {
            course.assert_steps(bystander, 0..TICKS);
        }
        course.assert_notices("d", &[(MIDDLE, "attached 5")]);
        course.assert_steps("d", MIDDLE..TICKS);
        // Its encode goes on and is applied, but it does not step.
        course.assert_steps("slow", 0..START);
        assert_eq!(course.phase(END, "slow"), Some(Phase::Ready));
    });
}
