//! Two engines of two models in one process: driven in turns by one thread, and one in a callback of the other.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::SeqCst};

use crate::driver::*;

const OK: rte_status = 0;
const CLOSED: rte_status = rte_status_code::RTE_CLOSED as rte_status;
const DEADLOCK: rte_status = rte_status_code::RTE_ERR_DEADLOCK as rte_status;

/// Writes each row's age, as often as the model's chunk has room for it.
unsafe extern "C-unwind" fn write_ages(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> rte_status {
    // SAFETY: the arrays of a batch.
    unsafe {
        for at in 0..(*batch).count as usize {
            let (output, age) = (*(*batch).output.add(at), *(*batch).age.add(at));
            for place in 0..(*batch).chunk_bytes / 8 {
                output.cast::<u64>().add(place).write(age);
            }
            *(*batch).output_size.add(at) = (*batch).chunk_bytes;
        }
    }
    OK
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> rte_status {
    OK
}

/// Pops all of a session's chunks, which come one after the other.
fn expect_next(host: &Host, next: &mut u64, bytes: usize) {
    host.pop_all(|output| {
        if output.kind == RTE_CHUNK {
            // SAFETY: a chunk's bytes are readable until its release.
            let ages = unsafe { std::slice::from_raw_parts(output.data.cast::<u64>(), output.size / 8) };
            assert_eq!((output.index, output.size), (*next, bytes));
            assert!(ages.iter().all(|age| *age == *next));
            *next += 1;
        }
    });
}

/// Each goes on by one in its own tick, and by none in the other's.
pub fn in_turns() {
    const TICKS: u64 = 2000;
    let plain = [stage(RTE_HOT, write_ages)];
    let deep = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, write_ages), stage(RTE_ENCODE, nothing)];
    let threads = rte_engine_options { lanes: RTE_LANES_THREADS, ..options() };
    let one = Host::new(&model(&plain, 3, 64), &options());
    let other = Host::new(&model(&deep, 9, 4096), &threads);
    // The same name means somebody else in each.
    assert_eq!((one.push(message(RTE_ATTACH, 1), &[]), other.push(message(RTE_ATTACH, 1), &[])), (OK, OK));
    let (mut ones, mut others) = (0, 0);
    for tick in 1..=TICKS {
        assert_eq!(one.tick(), OK);
        expect_next(&one, &mut ones, 64);
        expect_next(&other, &mut others, 4096);
        // The other is pipelined: one chunk behind.
        assert_eq!((ones, others), (tick, (tick - 1).saturating_sub(1)));
        assert_eq!(other.tick(), OK);
    }
}

/// The engine around, and the one inside.
#[derive(Default)]
struct Nest {
    outer: AtomicPtr<rte_engine>,
    inner: AtomicPtr<rte_engine>,
    inner_ticks: AtomicU64,
    deadlocks: AtomicU64,
}

/// HOT of the outer one: a tick of the inner one.
unsafe extern "C-unwind" fn tick_inner(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
    // SAFETY: as a stage is called; both engines live.
    unsafe {
        let nest = &*user.cast::<Nest>();
        assert_eq!(rte_engine_tick(nest.inner.load(SeqCst), u64::MAX), OK);
        nest.inner_ticks.fetch_add(1, SeqCst);
        write_ages(user, batch, stream)
    }
}

/// HOT of the inner one: what it may and may not of the outer one, in whose callback it is.
unsafe extern "C-unwind" fn ask_outer(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
    // SAFETY: as a stage is called; both engines live.
    unsafe {
        let nest = &*user.cast::<Nest>();
        let outer = nest.outer.load(SeqCst);
        for status in [
            rte_engine_tick(outer, 0),
            rte_engine_start(outer, std::ptr::null_mut()),
            rte_engine_stop(outer, u64::MAX, std::ptr::null_mut()),
            rte_outbox_wait(outer, u64::MAX),
            rte_engine_tick(nest.inner.load(SeqCst), 0),
        ] {
            assert_eq!(status, DEADLOCK);
            nest.deadlocks.fetch_add(1, SeqCst);
        }
        assert_eq!(rte_inbox_push(outer, &message(RTE_ACTION, 1)), OK);
        write_ages(user, batch, stream)
    }
}

/// An engine ticked in HOT of another, which is on a thread of its own with threads lanes.
pub fn one_inside_the_other() {
    const TICKS: u64 = 500;
    for lanes in [RTE_LANES_INLINE, RTE_LANES_THREADS] {
        let nest = Nest::default();
        let user = (&raw const nest).cast_mut().cast();
        let (around, inside) = ([stage(RTE_HOT, tick_inner)], [stage(RTE_HOT, ask_outer)]);
        let inner = Host::new(&rte_model { user, ..model(&inside, 2, 64) }, &options());
        let outer = rte_engine_options { lanes, pipeline: RTE_PIPELINE_OFF, ..options() };
        let outer = Host::new(&rte_model { user, ..model(&around, 2, 64) }, &outer);
        nest.outer.store(outer.engine, SeqCst);
        nest.inner.store(inner.engine, SeqCst);
        assert_eq!((outer.push(message(RTE_ATTACH, 1), &[]), inner.push(message(RTE_ATTACH, 1), &[])), (OK, OK));
        let (mut outers, mut inners) = (0, 0);
        for tick in 1..=TICKS {
            assert_eq!(outer.tick(), OK);
            expect_next(&outer, &mut outers, 64);
            expect_next(&inner, &mut inners, 64);
            assert_eq!((outers, inners), (tick, tick), "lanes {lanes}");
        }
        assert_eq!((nest.inner_ticks.load(SeqCst), nest.deadlocks.load(SeqCst)), (TICKS, 5 * TICKS));
    }
}

static LOGGED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn free_it(engine: *mut c_void, _: u32, _: *const c_char) {
    LOGGED.fetch_add(1, SeqCst);
    // SAFETY: the place of an engine that lives.
    unsafe { rte_engine_free((*engine.cast::<AtomicPtr<rte_engine>>()).load(SeqCst)) };
}

/// That it was wrong is a line, too: it is written once.
pub fn a_log_that_frees_the_engine() {
    // In the push, that nobody drives the engine; in the tick, "attached"; and each time that it cannot be freed there.
    for is_ticked in [false, true] {
        a_log_that_frees(is_ticked);
    }
}

fn a_log_that_frees(is_ticked: bool) {
    let place = AtomicPtr::<rte_engine>::default();
    LOGGED.store(0, SeqCst);
    let options = rte_engine_options {
        log: Some(free_it),
        log_user: (&raw const place).cast_mut().cast(),
        log_level: rte::abi::log::RTE_LOG_DEBUG,
        ..options()
    };
    let host = Host::new(&model(&[stage(RTE_HOT, write_ages)], 2, 64), &options);
    place.store(host.engine, SeqCst);
    if is_ticked {
        assert_eq!(host.tick(), OK);
    }
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), OK);
    if is_ticked {
        assert_eq!(host.tick(), OK);
    }
    assert_eq!(LOGGED.load(SeqCst), 2);
    assert_eq!(host.tick(), CLOSED);
}
