//! Outputs that stay on a device come out as soon as their work is enqueued, each with the event behind which it is
//! complete, and go back when that and their consumer's stream have passed. Nobody waits for them, but a slot before it is
//! filled again, and whoever frees the memory. In the time of a backend that the test moves.

mod driver;
mod host;
mod outputs_host;
mod random;

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use driver::*;
use host::device::{Device, Function};
use outputs_host::ledger::{CHUNK, Ledger};
use outputs_host::model::{own_model, stages};

const OK: i32 = 0;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const BROKEN: i32 = rte_status_code::RTE_ERR_DEVICE as i32;

/// How much time goes by between two ticks, unless a test says otherwise.
const STEP: u64 = 10;
/// Later than all work.
const LATER: u64 = 1_000_000;

/// An engine on a device; its sessions are 0, 1, ... from the first tick on.
struct Bench {
    device: Arc<Device>,
    ledger: Arc<Ledger>,
    host: Option<Host>,
}

impl Bench {
    fn new(sessions: u64, has_deferred: bool, pipeline: u32, more: rte_engine_options) -> Bench {
        let device = Device::new();
        let ledger = Ledger::new(4, Some(device.clone()), 1);
        let stages = stages(has_deferred);
        let model = own_model(&stages, &ledger, RTE_MODEL_DEVICE_OUTPUT);
        let table = device.table();
        let options = rte_engine_options { lanes: RTE_LANES_HOST, backend: &table, pipeline, ..more };
        let host = Some(Host::new(&model, &options));
        let bench = Bench { device, ledger, host };
        (0..sessions).for_each(|session| bench.push(RTE_ATTACH, session));
        bench
    }

    /// With one session, one HOT stage, and no pipeline.
    fn simple() -> Bench {
        Bench::new(1, false, RTE_PIPELINE_OFF, options())
    }

    fn host(&self) -> &Host {
        self.host.as_ref().expect("it was not freed")
    }

    fn push(&self, kind: u32, session: u64) {
        assert_eq!(self.host().push(message(kind, session), &[]), OK);
    }

    /// One call of tick that waits so long.
    fn tick(&self, wait: u64) -> i32 {
        // SAFETY: the engine lives and is ticked by this thread.
        unsafe { rte_engine_tick(self.host().engine, wait) }
    }

    /// A tick at `now` that must not wait.
    fn tick_at(&self, now: u64) {
        self.device.set_now(now);
        assert_eq!(self.tick(0), OK, "at {now}");
    }

    /// The next tick, `STEP` later.
    fn step(&self) {
        self.tick_at(self.device.now() + STEP);
    }

    fn set_length(&self, length: u64) {
        self.ledger.set(|knobs| knobs.length = length);
    }

    /// The chunks that are there.
    fn chunks(&self) -> Vec<rte_output> {
        let mut chunks = Vec::new();
        let mut output: rte_output = zeroed();
        // SAFETY: the engine lives; notices are released at once, chunks by who gets them.
        unsafe {
            while rte_outbox_pop(self.host().engine, &mut output) == OK {
                if output.kind == RTE_CHUNK {
                    self.ledger.popped(output.data.addr(), [output.generation, output.index]);
                    chunks.push(output);
                } else {
                    rte_output_release(&mut output, null_mut());
                }
            }
        }
        chunks
    }

    /// The one chunk that is there.
    fn chunk(&self) -> rte_output {
        let chunks = self.chunks();
        assert_eq!(chunks.len(), 1);
        chunks[0]
    }

    /// Releases a chunk whose uses are over at `busy_until`.
    fn release(&self, mut chunk: rte_output, stream: rte_stream, busy_until: u64) {
        self.ledger.let_go(chunk.data.addr(), busy_until);
        // SAFETY: popped before, released once.
        unsafe { rte_output_release(&mut chunk, stream) };
    }

    /// The engine is freed, and nothing is left behind.
    fn end(mut self) {
        self.host = None;
        self.check();
    }

    fn check(&self) {
        assert_eq!(self.ledger.complaints(), Vec::<String>::new());
        assert_eq!(self.device.complaints(), Vec::<String>::new());
        assert_eq!(self.ledger.owed(), 0, "all pointers are back");
        assert!(self.ledger.is_destroyed());
        let calls = self.device.calls();
        assert_eq!((calls.event_new, calls.stream_new), (calls.event_free, calls.stream_free));
        assert!(self.device.is_clean());
        assert_eq!(Arc::strong_count(&self.device), 2, "the backend's destroy was called; the ledger has the other");
    }
}

#[test]
fn a_chunk_comes_in_the_tick_that_enqueued_its_work_and_nobody_waits_for_it() {
    for (has_deferred, pipeline, lag) in
        [(false, RTE_PIPELINE_OFF, 0), (true, RTE_PIPELINE_OFF, 0), (true, RTE_PIPELINE_ON, 1)]
    {
        let bench = Bench::new(3, has_deferred, pipeline, options());
        // Both lanes' work is over before the next tick.
        bench.set_length(STEP / 2 - 1);
        let mut before = Vec::new();
        for tick in 0..100 {
            bench.step();
            let chunks = bench.chunks();
            assert_eq!(chunks.len(), if tick < lag { 0 } else { 3 });
            for chunk in &chunks {
                assert_eq!((chunk.tick, chunk.index), (tick - lag, tick - lag));
                assert!(!chunk.ready.is_null() && !bench.device.has_passed(chunk.ready), "work takes its time");
                assert_eq!(chunk.done_ns, 0);
            }
            for chunk in std::mem::replace(&mut before, chunks) {
                assert!(bench.device.has_passed(chunk.ready));
                bench.release(chunk, null_mut(), 0);
            }
        }
        assert_eq!(bench.device.calls().sync, 0, "no tick waits");
        before.into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
        bench.end();
    }
}

#[test]
fn who_has_left_retires_when_its_work_has_passed_though_the_engine_sleeps_and_nobody_tells_it() {
    let bench = Bench::simple();
    bench.set_length(LATER);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_start(bench.host().engine, null_mut()) }, OK);
    let until = |is_so: &dyn Fn(rte_engine_info) -> bool| {
        while !is_so(bench.host().info()) {
            std::thread::yield_now();
        }
    };
    until(&|info| info.chunks > 0);
    bench.push(RTE_DETACH, 0);
    until(&|info| info.retiring == 1);
    bench.device.set_now(bench.device.now() + LATER);
    until(&|info| info.retiring == 0);
    bench.end();
}

#[test]
fn a_slot_waits_for_its_last_batch_before_it_is_filled_again() {
    // DEFERRED: for HOT's batch of the slot, and for its own.
    for (has_deferred, pipeline, free_slots, waits) in [
        (false, RTE_PIPELINE_OFF, 1, 1),
        (false, RTE_PIPELINE_ON, 2, 1),
        (true, RTE_PIPELINE_OFF, 1, 2),
        (true, RTE_PIPELINE_ON, 2, 2),
    ] {
        let bench = Bench::new(1, has_deferred, pipeline, options());
        bench.set_length(100);
        for _ in 0..free_slots {
            bench.tick_at(0);
        }
        let chunk = bench.chunk();
        assert_eq!((chunk.index, bench.device.calls().sync), (0, 0));
        // The tick that would fill the slot again gives up, and goes on when asked later.
        for _ in 0..3 {
            assert_eq!(bench.tick(0), AGAIN);
        }
        assert!(bench.chunks().is_empty() && !bench.device.has_passed(chunk.ready));
        let end = if has_deferred { 200 } else { 100 };
        bench.tick_at(end);
        assert!(bench.device.has_passed(chunk.ready));
        bench.release(chunk, null_mut(), 0);
        // One that may wait does, once for each of the slot's batches.
        let before = bench.device.calls().sync;
        for _ in 0..3 {
            let now = bench.device.now();
            assert_eq!(bench.tick(u64::MAX), OK);
            assert!(bench.device.now() > now, "the time that it has waited");
            bench.chunks().into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
        }
        let syncs = bench.device.calls().sync - before;
        assert!((3..=3 * waits).contains(&syncs), "{syncs} waits");
        bench.end();
    }
}

#[test]
fn the_event_of_a_chunk_that_is_kept_is_not_recorded_again() {
    let more = rte_engine_options { held_max: 2, ..options() };
    for (has_deferred, pipeline) in [(false, RTE_PIPELINE_OFF), (true, RTE_PIPELINE_ON)] {
        let bench = Bench::new(1, has_deferred, pipeline, more);
        bench.set_length(2);
        let step = |count| {
            (0..count).flat_map(|_| {
                bench.step();
                bench.chunks()
            })
        };
        let kept = step(10).fold(None, |kept: Option<rte_output>, chunk| {
            kept.into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
            Some(chunk)
        });
        let kept = kept.expect("a chunk a tick");
        let (records, events) = (bench.device.records_of(kept.ready), bench.device.calls().event_new);
        let others = step(1000).inspect(|chunk| {
            assert_ne!(chunk.ready, kept.ready);
            bench.release(*chunk, null_mut(), 0);
        });
        assert_eq!(others.count(), 1000);
        assert_eq!(bench.device.records_of(kept.ready), records);
        assert!(bench.device.has_passed(kept.ready));
        assert!(bench.device.calls().event_new <= events + 2, "the others' events are used again");
        bench.release(kept, null_mut(), 0);
        bench.end();
    }
}

#[test]
fn a_release_on_a_stream_returns_at_once_and_the_pointer_comes_back_when_both_have_passed() {
    let work = 50;
    // How long the consumer's stream takes; whether it waits for the chunk first.
    for (use_length, waits) in [(20, false), (80, false), (20, true), (0, false)] {
        let bench = Bench::simple();
        bench.set_length(work);
        let stream = bench.device.consumer_stream();
        bench.tick_at(0);
        let chunk = bench.chunk();
        // The session steps no more: its pointer comes back all the same.
        bench.push(RTE_PAUSE, 0);
        bench.tick_at(0);
        if waits {
            bench.device.wait_for(stream, chunk.ready);
        }
        let used_until = bench.device.enqueue(stream, use_length);
        let before = bench.device.calls();
        bench.release(chunk, stream, used_until);
        let after = bench.device.calls();
        assert_eq!((after.event_new, after.record, after.sync), (before.event_new + 1, before.record + 1, 0));
        let over = used_until.max(work);
        for now in [1, 19, 20, 49, over - 1] {
            if now >= bench.device.now() && now < over {
                bench.tick_at(now);
                assert_eq!(bench.ledger.returned(), 0, "at {now}");
            }
        }
        bench.tick_at(over);
        assert_eq!((bench.ledger.returned(), bench.device.calls().sync), (1, 0));
        bench.end();
    }
}

#[test]
fn a_lost_chunks_pointer_comes_back_when_its_work_has_passed_whoever_steps_then() {
    // What is lost, and how many pointers are out while its work still runs: its own, and what is queued.
    for (way, out) in [("too large", 1), ("no room", 2), ("left", 1), ("anew", 1)] {
        // HOT makes the chunk, and it is delivered in the next tick.
        let more = rte_engine_options { outbox_policy: RTE_DROP_NEWEST, outbox_depth: 1, ..options() };
        let bench = Bench::new(1, false, RTE_PIPELINE_ON, more);
        match way {
            "no room" => (0..2).for_each(|_| bench.tick_at(0)),
            "too large" => bench.ledger.set(|knobs| knobs.too_large = Some(0)),
            _ => {}
        }
        bench.set_length(100);
        bench.tick_at(0);
        bench.set_length(0);
        match way {
            "left" => bench.push(RTE_DETACH, 0),
            "anew" => bench.push(RTE_RESET, 0),
            _ => {}
        }
        // Nothing else is made.
        bench.push(RTE_PAUSE, 0);
        bench.tick_at(1);
        bench.tick_at(99);
        assert_eq!(bench.ledger.owed(), out, "{way}");
        bench.chunks().into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
        bench.tick_at(100);
        assert_eq!(bench.ledger.owed(), 0, "{way}: it is back, and the engine lives");
        assert_eq!(bench.device.calls().sync, 0, "{way}");
        bench.end();
    }
}

#[test]
fn after_the_engine_is_freed_the_last_release_waits_and_everything_is_freed() {
    for is_reversed in [false, true] {
        let mut bench = Bench::new(2, true, RTE_PIPELINE_ON, options());
        bench.set_length(3);
        let stream = bench.device.consumer_stream();
        bench.step();
        bench.step();
        let mut kept = bench.chunks();
        bench.step();
        kept.extend(bench.chunks());
        assert_eq!(kept.len(), 4);
        bench.host = None;
        let stopped_at = bench.device.now();
        if is_reversed {
            kept.reverse();
        }
        for (at, chunk) in kept.into_iter().enumerate() {
            assert!(!bench.ledger.is_destroyed());
            bench.device.wait_for(stream, chunk.ready);
            let used_until = bench.device.enqueue(stream, 100 * (at as u64 + 1));
            // A session's last one waits for the streams of all of them.
            let is_last = at >= 2;
            bench.release(chunk, stream, used_until);
            assert_eq!(bench.ledger.is_back(chunk.data.addr()), is_last);
            assert_eq!(bench.device.now() >= used_until, is_last);
        }
        assert_eq!(bench.device.now(), stopped_at + 100 + 200 + 300 + 400);
        bench.check();
    }
}

#[test]
fn a_device_that_fails_in_a_release_loses_nothing_and_hangs_nobody() {
    for function in [Function::EventNew, Function::Record, Function::Query, Function::Sync] {
        let mut bench = Bench::new(2, false, RTE_PIPELINE_OFF, options());
        bench.set_length(2);
        let stream = bench.device.consumer_stream();
        bench.device.enqueue(stream, LATER);
        let mut kept = Vec::new();
        for tick in 0..100 {
            bench.step();
            let mut chunks = bench.chunks();
            assert_eq!(chunks.iter().map(|chunk| chunk.index).collect::<Vec<_>>(), [tick; 2], "{function:?}: no gap");
            if tick % 7 == 0 && function != Function::Sync {
                // What waits for nothing is the stream of a device that has failed.
                std::mem::swap(&mut chunks, &mut kept);
                bench.device.fail(Some((function, BROKEN)));
                chunks.into_iter().for_each(|chunk| bench.release(chunk, stream, 0));
                bench.device.fail(None);
            } else {
                chunks.into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
            }
        }
        let mut chunks = kept;
        bench.step();
        chunks.extend(bench.chunks());
        bench.step();
        let late = chunks.pop().expect("some");
        chunks.into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
        bench.host = None;
        bench.device.fail(Some((function, BROKEN)));
        bench.release(late, stream, 0);
        bench.check();
        assert!(bench.device.now() < LATER, "{function:?}: nobody has waited for the stream");
    }
}

#[test]
fn a_device_that_fails_in_a_tick_ends_the_engine_and_all_comes_back() {
    for function in [Function::EventNew, Function::Record, Function::Query, Function::Sync] {
        let mut bench = Bench::new(2, true, RTE_PIPELINE_ON, options());
        bench.set_length(30);
        bench.tick_at(0);
        bench.tick_at(1);
        let kept = bench.chunks();
        if function == Function::Record {
            // Nobody can tell when work is over behind which no event stands: here it takes no time.
            bench.device.set_now(LATER);
            bench.set_length(0);
        }
        bench.device.fail(Some((function, BROKEN)));
        let mut status = bench.tick(u64::MAX);
        for _ in 0..3 {
            status = if status == OK { bench.tick(u64::MAX) } else { status };
        }
        assert_eq!(status, DEAD, "{function:?}");
        assert_eq!(bench.host().info().health, BROKEN);
        bench.device.fail(None);
        bench.device.set_now(LATER);
        bench.host = None;
        kept.into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
        bench.check();
    }
}

#[test]
fn a_chunk_behind_which_no_event_could_be_recorded_does_not_come_out() {
    for (pipeline, hot_records, stops) in
        [(RTE_PIPELINE_OFF, 1, false), (RTE_PIPELINE_ON, 0, false), (RTE_PIPELINE_ON, 0, true)]
    {
        let mut bench = Bench::new(2, true, pipeline, options());
        for _ in 0..4 {
            bench.step();
            bench.chunks().into_iter().for_each(|chunk| bench.release(chunk, null_mut(), 0));
        }
        // That of DEFERRED.
        bench.device.fail_after(hot_records, Function::Record, BROKEN);
        bench.device.set_now(LATER);
        if stops {
            // SAFETY: the engine lives and is ticked by this thread.
            assert_eq!(unsafe { rte_engine_stop(bench.host().engine, u64::MAX, null_mut()) }, OK);
        } else {
            assert_eq!(bench.tick(u64::MAX), DEAD);
        }
        bench.device.fail(None);
        assert_eq!(bench.host().info().health, BROKEN);
        assert_eq!(bench.chunks().len(), 0);
        bench.host = None;
        bench.check();
    }
}

/// Writes its age, in memory of ours.
unsafe extern "C-unwind" fn count(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch, by position.
    unsafe {
        let batch = &*batch;
        for at in 0..batch.count as usize {
            (*batch.output.add(at)).cast::<u64>().write(*batch.age.add(at));
            *batch.output_size.add(at) = 8;
        }
    }
    0
}

#[test]
fn a_consumer_whose_stream_never_passes_loses_its_own_chunks_alone() {
    for keeps_one in [false, true] {
        lose_own_chunks(keeps_one);
    }
}

fn lose_own_chunks(keeps_one: bool) {
    let device = Device::new();
    let stages = [stage(RTE_HOT, count)];
    let (table, model) = (device.table(), model(&stages, 2, CHUNK));
    let options = rte_engine_options {
        lanes: RTE_LANES_HOST,
        backend: &table,
        pipeline: RTE_PIPELINE_OFF,
        outbox_depth: 2,
        held_max: 1,
        ..options()
    };
    let host = Host::new(&model, &options);
    let stream = device.consumer_stream();
    device.enqueue(stream, LATER);
    let release = |mut output: rte_output, stream| {
        // SAFETY: popped before, released once.
        unsafe { rte_output_release(&mut output, stream) };
    };
    let chunks = || {
        assert_eq!(host.tick(), OK);
        let mut chunks = Vec::new();
        let mut output: rte_output = zeroed();
        // SAFETY: the engine lives.
        while unsafe { rte_outbox_pop(host.engine, &mut output) } == OK {
            if output.kind == RTE_CHUNK { chunks.push(output) } else { release(output, null_mut()) }
        }
        chunks
    };
    for session in [7, 8] {
        assert_eq!(host.push(message(RTE_ATTACH, session), &[]), OK);
    }
    // Those of session 8 are used on the stream, one of them perhaps later: as many as it has buffers, but for the one
    // that is being made.
    let (mut used, mut kept, mut next) = (Vec::new(), None, 0);
    for _ in 0..1000 {
        for chunk in chunks() {
            assert!(chunk.ready.is_null() && !used.contains(&chunk.data), "its stream still uses that one");
            // SAFETY: a chunk of ours, not released yet.
            assert_eq!(unsafe { chunk.data.cast::<u64>().read() }, chunk.index);
            match chunk.session {
                7 => {
                    assert_eq!((chunk.index, chunk.dropped), (next, 0));
                    next += 1;
                    release(chunk, null_mut());
                }
                _ => {
                    used.push(chunk.data);
                    if keeps_one && kept.is_none() { kept = Some(chunk) } else { release(chunk, stream) }
                }
            }
        }
    }
    assert_eq!((next, used.len()), (1000, 3));
    assert_eq!(host.info().dropped, 997, "its own");

    // The next session in that row has a quota of its own, and each of its chunks.
    assert_eq!(host.push(message(RTE_DETACH, 8), &[]), OK);
    assert_eq!(host.push(message(RTE_ATTACH, 9), &[]), OK);
    let mut next = 0;
    for _ in 0..100 {
        for chunk in chunks() {
            assert!(!used.contains(&chunk.data));
            if chunk.session == 9 {
                assert_eq!((chunk.index, chunk.dropped, chunk.row), (next, 0, 1));
                next += 1;
            }
            release(chunk, null_mut());
        }
    }
    assert_eq!(next, 100);
    // Whatever was used on the stream: nobody waits for it, also who gives the last of the old quota back.
    kept.into_iter().for_each(|chunk| release(chunk, stream));
    assert_eq!(device.calls().sync, 0);
    let freed = device.calls().event_free;
    device.set_now(LATER);
    chunks().into_iter().for_each(|chunk| release(chunk, null_mut()));
    assert_eq!(device.calls().event_free - freed, 3, "the old quota goes when it has passed");
    drop(host);
    assert_eq!(device.complaints(), Vec::<String>::new());
    assert!(device.is_clean());
}
