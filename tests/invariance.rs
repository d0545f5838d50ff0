//! Invariance: a session's chunks are the same bytes alone and among others. Random schedules run once with all their
//! sessions on one engine, and once for each session with its own messages alone; what the session was told must be
//! equal, byte for byte and tick for tick. Meanwhile the model looks after the engine's promises: rows, batches, values,
//! outputs and releases. On threads lanes, too, whose answers come in the time of the test: see [`host::timed`].
//!
//! `RTE_INVARIANCE_SCHEDULES=n` sets how many random schedules are run. `RTE_INVARIANCE_SEED=n` runs that one alone and
//! prints what each session was told.

mod host;
mod invariance_host;
mod random;

use host::engine::{Message, OK};
use invariance_host::keys::PROMPT;
use invariance_host::model::Mutant;
use invariance_host::run::{Opened, Run, Told};
use invariance_host::schedule::{Pace, Schedule, Setup};
use rte::abi::message::{RTE_ACTION, RTE_ATTACH, RTE_DETACH};
use rte::abi::output::{RTE_CHUNK, RTE_ROW_FAILED};

/// Random schedules, if the environment says nothing else.
const SCHEDULES: u64 = 10_000;

/// Those on threads, which take longer.
const THREADS_SCHEDULES: u64 = 500;

/// Schedules among which a mistake of the model must show.
const MUTANT_SCHEDULES: u64 = 100;

/// Counts of what was compared.
#[derive(Default)]
struct Count {
    schedules: u64,
    inline: u64,
    slow: u64,
    dense: u64,
    pipelined: u64,
    ticks: u64,
    sessions: u64,
    chunks: u64,
    bytes: u64,
    notices: u64,
    lost: u64,
    failed_rows: u64,
    lives: u64,
    encodes: u64,
    left_out: u64,
    releases: u64,
    as_on_streams: u64,
}

impl Count {
    fn add(&mut self, schedule: &Schedule, together: &Run) {
        let setup = &schedule.setup;
        self.schedules += 1;
        self.inline += u64::from(setup.pace == Pace::Inline);
        self.slow += u64::from(setup.pace == Pace::Slow);
        self.dense += u64::from(setup.is_dense);
        self.pipelined += u64::from(setup.is_pipelined);
        self.lives += together.lives;
        self.encodes += together.encodes;
        let [wanted, pushed]: [usize; 2] =
            [schedule.ticks.iter().map(Vec::len).sum(), together.pushed.iter().map(Vec::len).sum()];
        self.left_out += (wanted - pushed) as u64;
        self.add_run(schedule, together);
    }

    fn add_run(&mut self, schedule: &Schedule, run: &Run) {
        self.ticks += schedule.ticks.len() as u64;
        self.releases += run.releases;
    }

    fn add_equal(&mut self, told: &[Told]) {
        self.sessions += 1;
        for told in told {
            let is_chunk = told.kind == RTE_CHUNK;
            self.chunks += u64::from(is_chunk);
            self.notices += u64::from(!is_chunk);
            self.bytes += told.bytes.len() as u64;
            self.lost += told.dropped;
            self.failed_rows += u64::from(told.kind == RTE_ROW_FAILED);
        }
    }

    fn print(&self) {
        println!(
            "{} schedules ({} on inline lanes, {} on slow streams, {} dense, {} pipelined), {} ticks: {} sessions alone \
             and together, {} chunks of {} bytes and {} notices: equal",
            self.schedules,
            self.inline,
            self.slow,
            self.dense,
            self.pipelined,
            self.ticks,
            self.sessions,
            self.chunks,
            self.bytes,
            self.notices
        );
        println!(
            "together: {} lives seeded and detached once, {} rows failed, {} rows encoded, {} chunks lost by a slow \
             consumer, {} messages left out; {} releases, each once",
            self.lives, self.failed_rows, self.encodes, self.lost, self.left_out, self.releases
        );
    }
}

/// The first difference between what a session was told in two runs.
fn difference(one: &[Told], other: &[Told]) -> Option<String> {
    let at = (0..one.len().max(other.len())).find(|at| one.get(*at) != other.get(*at))?;
    Some(format!("output {at}:\n  {:?}\n  {:?}", one.get(at), other.get(at)))
}

/// Runs a schedule with all its sessions and each alone. Panics where the engine has broken a promise. Gives what came
/// of all together.
fn compare(schedule: &Schedule, count: &mut Count) -> Run {
    let together = Run::together(schedule, None);
    count.add(schedule, &together);
    let place = format!("{:?}", schedule.setup);
    assert!(together.complaints.is_empty(), "{place}, together:\n{}", together.complaints.join("\n"));
    for session in &schedule.sessions {
        let alone = Run::alone(schedule, &together, *session, None);
        count.add_run(schedule, &alone);
        assert!(alone.complaints.is_empty(), "{place}, {session} alone:\n{}", alone.complaints.join("\n"));
        let told = alone.told_to(*session);
        if let Some(difference) = difference(told, together.told_to(*session)) {
            panic!("{place}, session {session} alone and together, {difference}");
        }
        count.add_equal(told);
    }
    together
}

/// The same on threads; and what a session is told is what it is told on streams. A row that fails is seen to have failed
/// later there, perhaps when it is not its any more: such a session is left out.
fn compare_on_threads(seed: u64, count: &mut Count) {
    let schedule = on_threads(seed);
    let threads = compare(&schedule, count);
    let streams = Run::together(&Schedule::new(seed).on_streams(), None);
    assert!(streams.complaints.is_empty(), "schedule {seed} on streams:\n{}", streams.complaints.join("\n"));
    if streams.pushed != threads.pushed {
        return; // somebody found no room, because another's row is seen to be free later
    }
    for session in &schedule.sessions {
        let [on_streams, on_threads] = [&streams, &threads].map(|run| run.told_to(*session));
        if on_streams.iter().any(|told| told.kind == RTE_ROW_FAILED) {
            continue;
        }
        if let Some(difference) = difference(on_streams, on_threads) {
            panic!("{:?}, session {session} on streams and on threads, {difference}", schedule.setup);
        }
        count.as_on_streams += 1;
    }
}

fn on_threads(seed: u64) -> Schedule {
    Schedule::new(seed).on_threads(1 + (seed % 3) as u32)
}

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

/// Prints a schedule, and what each session was told.
fn show(schedule: &Schedule) {
    println!("{:#?}", schedule.setup);
    let together = Run::together(schedule, None);
    for ((tick, messages), pushed) in schedule.ticks.iter().enumerate().zip(&together.pushed) {
        for message in messages {
            let fate = if pushed.contains(&message.tag) { "pushed" } else { "left out" };
            println!("tick {tick}, {fate}: {message:?}");
        }
    }
    for (session, told) in &together.told {
        told.iter().for_each(|told| println!("session {session}: {told:?}"));
    }
    together.complaints.iter().for_each(|complaint| println!("{complaint}"));
    compare(schedule, &mut Count::default());
}

#[test]
fn a_session_gets_the_same_chunks_alone_and_in_any_cohort() {
    if let Some(seed) = number_of("RTE_INVARIANCE_SEED") {
        return show(&Schedule::new(seed));
    }
    let schedules = number_of("RTE_INVARIANCE_SCHEDULES").unwrap_or(SCHEDULES);
    let mut count = Count::default();
    (0..schedules).for_each(|seed| drop(compare(&Schedule::new(seed), &mut count)));
    count.print();
    if schedules >= SCHEDULES {
        let all =
            [count.inline, count.slow, count.dense, count.pipelined, count.lost, count.failed_rows, count.encodes];
        assert!(all.iter().all(|count| *count > 1000), "the schedules are not as they should be");
        assert!(count.chunks > 20 * schedules, "too few chunks");
    }
}

#[test]
fn a_session_gets_the_same_chunks_alone_and_in_any_cohort_on_threads() {
    if let Some(seed) = number_of("RTE_INVARIANCE_SEED") {
        return show(&on_threads(seed));
    }
    let schedules = number_of("RTE_INVARIANCE_SCHEDULES").unwrap_or(THREADS_SCHEDULES);
    let mut count = Count::default();
    (0..schedules).for_each(|seed| compare_on_threads(seed, &mut count));
    count.print();
    println!("{} sessions are told the same on threads as on streams", count.as_on_streams);
    assert!(count.chunks > 20 * schedules, "too few chunks");
    assert!(count.as_on_streams > count.sessions / 2, "too few comparable with streams");
}

/// Two sessions, one after the other in an only row. The first leaves while it encodes, so the second waits for its row.
/// Gives how many chunks the second gets while the consumer holds those of the first, or does not.
fn chunks_after_a_wait(holds: bool) -> usize {
    const FIRST: u64 = 1;
    const SECOND: u64 = 2;
    let message = |kind, session| Message { kind, session, ..Message::default() };
    let mut opened = Opened::new(&Setup::one_row(12), None);
    let (mut held, mut chunks) = (Vec::new(), 0);
    for tick in 0..30 {
        let messages: &[Message] = match tick {
            0 => &[message(RTE_ATTACH, FIRST)],
            8 => &[Message { values: &[(PROMPT, b"new")], ..message(RTE_ACTION, FIRST) }],
            9 => &[message(RTE_DETACH, FIRST), message(RTE_ATTACH, SECOND)],
            _ => &[],
        };
        messages.iter().for_each(|message| assert_eq!(opened.engine.push(message), OK));
        opened.tick(tick, None);
        while let Ok(output) = opened.engine.pop_held() {
            let said = output.copy();
            chunks += usize::from(said.kind == RTE_CHUNK && said.session == SECOND);
            held.extend(Some(output).filter(|_| holds && said.session == FIRST));
        }
    }
    chunks
}

#[test]
fn who_waits_for_a_row_loses_nothing_to_outputs_held_of_the_session_before() {
    let [unhindered, hindered] = [false, true].map(chunks_after_a_wait);
    assert!(unhindered > 10);
    assert_eq!(hindered, unhindered);
}

/// Whether a mistake of the model shows in a schedule.
fn shows(seed: u64, mutant: Mutant) -> bool {
    let schedule = Schedule::new(seed);
    let together = Run::together(&schedule, Some(mutant));
    schedule.sessions.iter().any(|session| {
        let alone = Run::alone(&schedule, &together, *session, Some(mutant));
        difference(alone.told_to(*session), together.told_to(*session)).is_some()
    })
}

fn assert_shows(mutant: Mutant) {
    let shown: Vec<u64> = (0..MUTANT_SCHEDULES).filter(|seed| shows(*seed, mutant)).collect();
    let first = shown.first().unwrap_or_else(|| panic!("{mutant:?} does not show"));
    println!(
        "{mutant:?} shows after {} schedules, in {} of {MUTANT_SCHEDULES} at some session",
        first + 1,
        shown.len()
    );
}

#[test]
fn it_shows_when_hot_takes_another_rows_values() {
    assert_shows(Mutant::SwapsValues);
}

#[test]
fn it_shows_when_chunks_go_to_another_rows_outputs() {
    assert_shows(Mutant::SwapsOutputs);
}

#[test]
fn it_shows_when_state_is_found_by_position() {
    assert_shows(Mutant::GoesByPosition);
}
