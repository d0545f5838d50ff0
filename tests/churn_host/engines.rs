//! Engines that are made, driven in every way, and freed, one after the other in one process.

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::backend::backend;
use crate::driver::*;
use crate::process::{Possessions, resident_pages};

/// Pages that may come into use after the warm-up: the system keeps stacks and heaps of threads that are gone. (A tenth of
/// a page an engine would be more.)
const SLACK_PAGES: u64 = 512;

static DESTROYED: AtomicU64 = AtomicU64::new(0);
static BACKENDS_DESTROYED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn destroy(_: *mut c_void) {
    DESTROYED.fetch_add(1, Relaxed);
}

unsafe extern "C-unwind" fn destroy_backend(_: *mut c_void) {
    BACKENDS_DESTROYED.fetch_add(1, Relaxed);
}

unsafe extern "C-unwind" fn write_all(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        for at in 0..(*batch).count as usize {
            (*(*batch).output.add(at)).cast::<u8>().write(at as u8);
            *(*batch).output_size.add(at) = 1;
        }
    }
    0
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Driven {
    Ticked,
    Started,
    Never,
}

/// One engine, from its making to its end, with a session that joins and one that never gets that far. `number` says
/// how: each lanes with each drive, with or without a descriptor, stopped or just freed, an output kept or not.
fn live(number: u64) {
    let lanes = [RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_LANES_HOST][number as usize % 3];
    let driven = [Driven::Ticked, Driven::Started, Driven::Started, Driven::Never][number as usize / 3 % 4];
    let has_descriptor = (number / 12).is_multiple_of(2);
    let is_stopped = (number / 24).is_multiple_of(2);
    let keeps_one = (number / 48).is_multiple_of(2);

    let backend = rte_backend { destroy: Some(destroy_backend), ..backend() };
    let stages = [stage(RTE_HOT, nothing), stage(RTE_DEFERRED, write_all), stage(RTE_ENCODE, nothing)];
    let model = rte_model { destroy: Some(destroy), ..model(&stages, 2, 64) };
    let options = rte_engine_options {
        lanes,
        backend: if lanes == RTE_LANES_HOST { &backend } else { std::ptr::null() },
        inbox_capacity: 8,
        message_bytes: 64,
        inbox_bytes: 1,
        ..options()
    };
    let host = Host::new(&model, &options);
    if has_descriptor {
        // SAFETY: the engine lives.
        assert!(unsafe { rte_outbox_fd(host.engine) } >= 0);
    }
    assert_eq!(host.push(message(RTE_ATTACH, 1), &[]), 0);
    let mut kept: rte_output = zeroed();
    let is_chunk_there = || {
        let mut seen = false;
        host.pop_all(|output| seen |= output.kind == RTE_CHUNK);
        seen
    };
    match driven {
        Driven::Never => {}
        Driven::Ticked => {
            while !is_chunk_there() {
                assert_eq!(host.tick(), 0);
            }
        }
        // SAFETY: the engine lives.
        Driven::Started => unsafe {
            assert_eq!(rte_engine_start(host.engine, std::ptr::null_mut()), 0);
            while !is_chunk_there() {
                assert_eq!(rte_outbox_wait(host.engine, u64::MAX), 0);
            }
            if keeps_one {
                while rte_outbox_pop(host.engine, &mut kept) != 0 {
                    assert_eq!(rte_outbox_wait(host.engine, u64::MAX), 0);
                }
            }
        },
    }
    assert_eq!(host.push(message(RTE_ATTACH, 2), &[]), 0);
    if is_stopped {
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
    }
    drop(host);
    // SAFETY: popped, or zero; given back once.
    unsafe { rte_output_release(&mut kept, std::ptr::null_mut()) };
}

/// So many engines. After a warm-up there is nothing more than before, and each model came back once.
pub fn check(engines: u64) {
    // Each way once, and as many ways as there are.
    let warm = (engines / 10).max(96);
    (0..warm).for_each(live);
    let before = Possessions::now();
    let pages = resident_pages();
    for tenth in 1..=10 {
        let begin = |tenth: u64| warm + (engines - warm) * (tenth - 1) / 10;
        (begin(tenth)..begin(tenth + 1)).for_each(live);
        let (now, end) = (Possessions::when_threads_are(before.threads), begin(tenth + 1));
        assert_eq!(now, before, "after {end} engines");
        let now = resident_pages();
        assert!(now <= pages + SLACK_PAGES, "{now} pages after {end} engines, {pages} at first");
    }
    println!("{engines} engines; {before:?}; {pages} pages, now {}", resident_pages());
    assert_eq!(DESTROYED.load(Relaxed), engines);
    assert_eq!(BACKENDS_DESTROYED.load(Relaxed), engines / 3);
}
