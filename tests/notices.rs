//! Notices are never lost and come in their order, wherever a consumer stands still. Here a signal stops one of them in
//! the middle of a pop, for as long as the store of notices needs to go round twice and the engine to stop.
#![cfg(target_os = "linux")]

mod driver;

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use driver::*;

/// In some of them the signal comes between two steps of a pop of a notice.
const ENGINES: u64 = 500;
/// A quarter of the inbox: what one session may push a tick.
const RESETS: u64 = 64;

/// What takes so long hangs.
const HANG: Duration = Duration::from_secs(60);

static IS_STOPPED: AtomicBool = AtomicBool::new(false);
static MAY_GO_ON: AtomicBool = AtomicBool::new(false);

extern "C" fn stand_still(_: i32) {
    IS_STOPPED.store(true, SeqCst);
    while !MAY_GO_ON.load(SeqCst) {
        // SAFETY: a system call that a signal handler may make.
        unsafe { libc::sched_yield() };
    }
}

unsafe extern "C-unwind" fn one_byte(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch, by position.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    0
}

/// What one consumer saw, in its order: of which life, what.
type Seen = Vec<(u64, u32)>;

/// An engine as any of its threads has it.
struct Any(*mut rte_engine);
// SAFETY: an engine is for any thread.
unsafe impl Sync for Any {}

impl Any {
    /// Pops until there is nothing; what ended it.
    fn take(&self, seen: &mut Seen) -> i32 {
        let mut output: rte_output = zeroed();
        loop {
            // SAFETY: the engine lives; each output is released once.
            match unsafe { rte_outbox_pop(self.0, &mut output) } {
                0 => seen.push((output.generation, output.kind)),
                status => return status,
            }
            // SAFETY: as above.
            unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
        }
    }

    fn consume(&self, thread: &Sender<libc::pthread_t>, may_begin: &AtomicBool) -> Seen {
        let mut seen = Seen::with_capacity(100_000);
        // SAFETY: names the calling thread.
        thread.send(unsafe { libc::pthread_self() }).unwrap();
        while !may_begin.load(SeqCst) {}
        let begin = Instant::now();
        while self.take(&mut seen) != rte_status_code::RTE_CLOSED as i32 {
            assert!(begin.elapsed() < HANG, "the engine has stopped, and pops never say so");
        }
        seen
    }
}

/// As many lives as a tick lets begin; how many.
fn reset(host: &Host) -> u64 {
    let begun = (0..RESETS).filter(|_| host.push(message(RTE_RESET, 1), &[]) == 0).count();
    assert_eq!(host.tick(), 0);
    begun as u64
}

fn run(number: u64) {
    let stages = [stage(RTE_HOT, one_byte)];
    let host = Host::new(&model(&stages, 1, 8), &rte_engine_options { inbox_capacity: 256, ..options() });
    let any = Any(host.engine);
    IS_STOPPED.store(false, SeqCst);
    MAY_GO_ON.store(false, SeqCst);
    let (thread, who) = channel();
    let may_begin = AtomicBool::new(false);
    let (begun, mine, others) = std::thread::scope(|scope| {
        let other = scope.spawn(|| any.consume(&thread, &may_begin));
        let who = who.recv().unwrap();
        // Much to pop, so that the signal finds it at that.
        let mut begun: u64 = (0..4).map(|_| reset(&host)).sum();
        may_begin.store(true, SeqCst);
        (0..number % 50 * 8).for_each(|_| std::hint::spin_loop());
        // SAFETY: the thread is not joined yet.
        assert_eq!(unsafe { libc::pthread_kill(who, libc::SIGUSR1) }, 0);
        while !IS_STOPPED.load(SeqCst) {
            std::thread::yield_now();
        }
        let mut mine = Seen::new();
        for _ in 0..40 {
            any.take(&mut mine);
            begun += reset(&host);
        }
        // SAFETY: the engine lives and is ticked by this thread.
        assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
        any.take(&mut mine);
        MAY_GO_ON.store(true, SeqCst);
        let others = other.join().unwrap();
        assert_eq!(any.take(&mut mine), rte_status_code::RTE_CLOSED as i32);
        (begun, mine, others)
    });
    let mut told: BTreeMap<u64, [u64; 2]> = BTreeMap::new();
    for seen in [mine, others] {
        let mut of_one: BTreeMap<u64, Vec<u32>> = BTreeMap::new();
        seen.iter().for_each(|(generation, kind)| of_one.entry(*generation).or_default().push(*kind));
        for (generation, kinds) in of_one {
            for (at, kind) in kinds.iter().enumerate() {
                let told = told.entry(generation).or_default();
                told[0] += u64::from(*kind == RTE_ATTACHED);
                told[1] += u64::from(*kind == RTE_DETACHED);
                let is_in_order =
                    (*kind != RTE_ATTACHED || at == 0) && (*kind != RTE_DETACHED || at + 1 == kinds.len());
                assert!(is_in_order, "engine {number}, life {generation}: one consumer got {kinds:?}");
            }
        }
    }
    let wrong: Vec<_> = told.iter().filter(|(_, told)| told[1] != 1 || told[0] > 1).collect();
    assert!(wrong.is_empty(), "engine {number}: life, ATTACHED and DETACHED: {wrong:?}");
    assert_eq!(told.len() as u64, begun, "engine {number}: how many lives were told of");
}

#[test]
fn no_notice_is_lost_or_late_while_a_consumer_stands_still_in_the_middle_of_a_pop() {
    // SAFETY: a handler that does what handlers may; of no other use in this program.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = stand_still as *const () as usize;
        assert_eq!(libc::sigaction(libc::SIGUSR1, &action, std::ptr::null_mut()), 0);
    }
    (0..ENGINES).for_each(run);
}
