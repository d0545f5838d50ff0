//! Several consumers of one engine, each in its own way: one that polls and takes all, one that polls and takes one output
//! each time, one that waits. None sleeps while there is something, none sleeps on after the end, whatever that is.
#![cfg(target_os = "linux")]

mod driver;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;

const SESSIONS: u64 = 3;
/// What takes so long hangs.
const HANG_MS: i32 = 60_000;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;

unsafe extern "C-unwind" fn one_byte(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's own counter; the arrays of a batch, by position.
    unsafe {
        std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1);
        let dies_at = (*user.cast::<AtomicU64>()).load(SeqCst);
        if (*batch).tick >= dies_at { rte_status_code::RTE_ERR_DEAD as i32 } else { 0 }
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Habit {
    PollsAll,
    PollsOne,
    Waits,
}

/// An engine as any of its threads has it.
#[derive(Clone, Copy)]
struct Any(*mut rte_engine);
// SAFETY: an engine is for any thread.
unsafe impl Send for Any {}

type Seen = Vec<(u32, u64, u64)>;

impl Any {
    fn take(self, seen: &mut Seen) -> i32 {
        let mut output: rte_output = zeroed();
        // SAFETY: the engine lives; each output is released once.
        unsafe {
            let status = rte_outbox_pop(self.0, &mut output);
            if status == 0 {
                seen.push((output.kind, output.session, output.index));
                rte_output_release(&mut output, std::ptr::null_mut());
            }
            status
        }
    }

    /// Sleeps until there is something.
    fn rest(self, habit: Habit) {
        // SAFETY: the engine lives; one record, of a descriptor that is open.
        let is_woken = unsafe {
            if habit == Habit::Waits {
                rte_outbox_wait(self.0, HANG_MS as u64 * 1_000_000) != rte_status_code::RTE_TIMEOUT as i32
            } else {
                let fd = rte_outbox_fd(self.0) as i32;
                libc::poll(&mut libc::pollfd { fd, events: libc::POLLIN, revents: 0 }, 1, HANG_MS) == 1
            }
        };
        assert!(is_woken, "{habit:?}: nobody wakes it");
    }

    /// Until the end, which is given. `each` is called for each chunk.
    fn consume(self, habit: Habit, mut each: impl FnMut()) -> (Seen, i32) {
        let mut seen = Seen::new();
        loop {
            if habit == Habit::PollsOne {
                self.rest(habit);
            }
            match self.take(&mut seen) {
                0 => each(),
                AGAIN if habit == Habit::PollsOne => {}
                AGAIN => self.rest(habit),
                status => return (seen, status),
            }
        }
    }
}

/// How an engine ends.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum End {
    Stop,
    Death,
}

fn run(habits: &[Habit], policy: u32, end: End, at: u64) -> u64 {
    let stages = [stage(RTE_HOT, one_byte)];
    let dies_at = AtomicU64::new(if end == End::Death { at } else { u64::MAX });
    let user = (&raw const dies_at).cast_mut().cast();
    let model = rte_model { user, ..model(&stages, SESSIONS as u32, 8) };
    let host = Host::new(&model, &rte_engine_options { outbox_policy: policy, outbox_depth: 1, ..options() });
    (0..SESSIONS).for_each(|session| assert_eq!(host.push(message(RTE_ATTACH, session), &[]), 0));
    let (any, taken) = (Any(host.engine), AtomicU64::new(0));
    let all: Vec<(Seen, i32)> = std::thread::scope(|scope| {
        let consumers: Vec<_> = habits
            .iter()
            .map(|habit| {
                let taken = &taken;
                let stop = move || {
                    if taken.fetch_add(1, SeqCst) == at && end == End::Stop {
                        // SAFETY: the engine lives; only asks.
                        unsafe { rte_engine_stop({ any }.0, 0, std::ptr::null_mut()) };
                    }
                };
                scope.spawn(move || { any }.consume(*habit, stop))
            })
            .collect();
        // SAFETY: the engine lives. It may have died before this returns.
        unsafe { rte_engine_start(any.0, std::ptr::null_mut()) };
        consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect()
    });
    let closed = if end == End::Stop { rte_status_code::RTE_CLOSED } else { rte_status_code::RTE_ERR_DEAD };
    assert!(all.iter().all(|(_, status)| *status == closed as i32), "all are told");
    let mut count: BTreeMap<(u32, u64, u64), u64> = BTreeMap::new();
    for (seen, _) in &all {
        for session in 0..SESSIONS {
            let mut of_one = seen.iter().filter(|(kind, of, _)| (*kind, *of) == (RTE_CHUNK, session));
            assert!(of_one.by_ref().map(|(_, _, index)| index).is_sorted_by(|a, b| a < b), "one consumer's order");
        }
        seen.iter().for_each(|one| *count.entry(*one).or_default() += 1);
    }
    assert!(count.values().all(|count| *count == 1), "{habits:?} {end:?}: {count:?}");
    let chunks: Vec<u64> = count.keys().filter(|(kind, ..)| *kind == RTE_CHUNK).map(|(_, _, index)| *index).collect();
    if policy == RTE_HOLD {
        for session in 0..SESSIONS {
            let of_one: Vec<u64> = count
                .keys()
                .filter(|(kind, of, _)| (*kind, *of) == (RTE_CHUNK, session))
                .map(|(_, _, index)| *index)
                .collect();
            assert_eq!(of_one, (0..of_one.len() as u64).collect::<Vec<_>>(), "none is missing");
        }
    }
    let told = count.keys().filter(|(kind, ..)| [RTE_DETACHED, RTE_DEAD].contains(kind)).count() as u64;
    assert_eq!(told, if end == End::Stop { SESSIONS } else { 1 }, "{habits:?} {end:?}: {count:?}");
    chunks.len() as u64
}

#[test]
fn whichever_way_they_take_them_each_output_comes_once_and_all_hear_of_the_end() {
    use Habit::*;
    let mut chunks = 0;
    for turn in 0..100 {
        for habits in [&[PollsAll, PollsOne, Waits][..], &[PollsOne, PollsOne], &[PollsAll, PollsAll]] {
            for end in [End::Stop, End::Death] {
                let policy = if turn % 2 == 0 { RTE_HOLD } else { RTE_DROP_OLDEST };
                chunks += run(habits, policy, end, turn % 50 + 1);
            }
        }
    }
    assert!(chunks > 5_000, "{chunks}");
}

#[test]
fn who_takes_one_output_each_time_that_the_descriptor_is_readable_gets_all_of_100_000() {
    run(&[Habit::PollsOne], RTE_HOLD, End::Stop, 100_000);
    run(&[Habit::PollsOne, Habit::PollsAll, Habit::PollsOne], RTE_HOLD, End::Stop, 100_000);
}
