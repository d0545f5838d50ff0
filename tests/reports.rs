//! What users of comparable systems reported, as inputs; which of them other tests have is said in `README.md` here.
//!
//! One row of state each: a stage says of each row what it saw, so that a chunk tells of its session alone.

mod driver;

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::SeqCst};

use driver::*;

const ROWS: usize = 8;
const MOVE: u32 = 0;
const LOOK: u32 = 1;

#[derive(Default)]
struct Model {
    /// By row: steps since its seed.
    steps: [AtomicU64; ROWS],
    detached: AtomicU64,
    seeded: AtomicU64,
    encodes: AtomicU64,
    is_open: AtomicBool,
    /// A session that fails at this age: session and age.
    failing: [AtomicI64; 2],
}

unsafe fn rows<'a>(user: *mut c_void, batch: *mut rte_batch) -> (&'a Model, &'a rte_batch, Vec<(usize, usize)>) {
    // SAFETY: the test's model, and the arrays of a batch.
    unsafe {
        let (model, batch) = (&*user.cast::<Model>(), &*batch);
        (model, batch, (0..batch.count as usize).map(|at| (at, *batch.row.add(at) as usize)).collect())
    }
}

unsafe extern "C-unwind" fn ready(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's model.
    if unsafe { &*user.cast::<Model>() }.is_open.load(SeqCst) { 0 } else { AGAIN }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a hook of the model.
    let (model, _, rows) = unsafe { rows(user, batch) };
    rows.iter().for_each(|(_, row)| model.steps[*row].store(0, SeqCst));
    model.seeded.fetch_add(rows.len() as u64, SeqCst);
    0
}

unsafe extern "C-unwind" fn detach(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's model.
    unsafe { &*user.cast::<Model>() }.detached.fetch_add(1, SeqCst);
    0
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model.
    let (model, _, rows) = unsafe { rows(user, batch) };
    model.encodes.fetch_add(rows.len() as u64, SeqCst);
    0
}

unsafe extern "C-unwind" fn step(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model; outputs have 16 bytes.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        for (at, row) in rows {
            let [session, age] = model.failing.each_ref().map(|word| word.load(SeqCst));
            if *batch.session.add(at) as i64 == session && *batch.age.add(at) as i64 == age {
                *batch.status.add(at) = -1234;
            }
            let steps = model.steps[row].fetch_add(1, SeqCst);
            (*batch.output.add(at)).cast::<[u64; 2]>().write([*batch.session.add(at), steps]);
            *batch.output_size.add(at) = 16;
        }
    }
    0
}

const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const UNKNOWN: i32 = rte_status_code::RTE_ERR_UNKNOWN as i32;

fn host(model: &Model, depth: u32) -> Host {
    let keys = [
        rte_key { size: 4, r#type: RTE_F32, ..zeroed() },
        rte_key { size: 4, r#type: RTE_F32, flags: RTE_KEY_HEAVY, ..zeroed() },
    ];
    let stages = [stage(RTE_HOT, step), stage(RTE_ENCODE, encode)];
    let table = rte_model {
        user: std::ptr::from_ref(model).cast_mut().cast(),
        keys: keys.as_ptr(),
        key_count: 2,
        ready: Some(ready),
        seed: Some(seed),
        detach: Some(detach),
        ..driver::model(&stages, ROWS as u32, 16)
    };
    Host::new(&table, &rte_engine_options { outbox_depth: depth, ..options() })
}

fn open() -> Model {
    Model { is_open: AtomicBool::new(true), failing: [AtomicI64::new(-1), AtomicI64::new(-1)], ..Model::default() }
}

fn number(key: u32, number: &f32) -> rte_value {
    // SAFETY: four bytes of a number that outlives the value.
    value(key, unsafe { std::slice::from_raw_parts(std::ptr::from_ref(number).cast(), 4) })
}

fn say(host: &Host, kind: u32, session: u64, tag: u64) {
    assert_eq!(host.push(rte_message { tag, ..message(kind, session) }, &[]), 0);
}

/// kind, session, index, tag, status of all outputs that are there.
fn all(host: &Host) -> Vec<(u32, u64, u64, u64, i32)> {
    let mut told = Vec::new();
    host.pop_all(|it| told.push((it.kind, it.session, it.index, it.tag, it.status)));
    told
}

/// 25 actions a second for an engine that makes 5 steps: nothing piles up.
#[test]
fn a_step_acts_on_the_newest_input_however_slow_it_is() {
    let model = open();
    let host = host(&model, 4);
    say(&host, RTE_ATTACH, 1, 1);
    assert_eq!(host.tick(), 0);
    all(&host);
    for tick in 1..3000u64 {
        for action in 0..5 {
            let wheel = action as f32;
            let message = rte_message { tag: tick * 10 + action, ..message(RTE_ACTION, 1) };
            assert_eq!(host.push(message, &[number(MOVE, &wheel)]), 0);
        }
        assert_eq!(host.tick(), 0);
        assert_eq!(all(&host), [(RTE_CHUNK, 1, tick, tick * 10 + 4, 0)]);
    }
    assert_eq!(host.info().coalesced, 2999 * 4, "what a newer one replaced is counted");
}

#[test]
fn a_bound_smaller_than_the_cohort_starves_nobody() {
    let model = open();
    let host = host(&model, 1);
    (0..8).for_each(|session| say(&host, RTE_ATTACH, session, 0));
    for tick in 0..100 {
        assert_eq!(host.tick(), 0);
        let chunks: Vec<_> = all(&host).into_iter().filter(|told| told.0 == RTE_CHUNK).collect();
        let expected: Vec<_> = (0..8).map(|session| (RTE_CHUNK, session, tick, 0, 0)).collect();
        assert_eq!(chunks, expected);
    }
}

#[test]
fn a_session_that_is_ended_twice_and_reset_in_one_drain_leaves_one_free_row() {
    let model = open();
    let host = host(&model, 4);
    say(&host, RTE_ATTACH, 1, 1);
    assert_eq!(host.tick(), 0);
    for (kind, session, tag) in
        [(RTE_DETACH, 1, 2), (RTE_DETACH, 1, 3), (RTE_RESET, 1, 4), (RTE_ATTACH, 2, 5), (RTE_ATTACH, 3, 6)]
    {
        say(&host, kind, session, tag);
    }
    all(&host);
    assert_eq!(host.tick(), 0);
    let mut rows = Vec::new();
    host.pop_all(|it| {
        if it.kind == RTE_CHUNK {
            rows.push((it.session, it.row));
        }
    });
    rows.sort_unstable();
    let distinct: std::collections::BTreeSet<_> = rows.iter().map(|(_, row)| *row).collect();
    assert_eq!((rows.len(), distinct.len()), (3, 3), "{rows:?}");
    (10..15).for_each(|session| say(&host, RTE_ATTACH, session, 0));
    assert_eq!(host.tick(), 0);
    assert_eq!(host.info().attached, 8, "each row was given once");
}

#[test]
fn an_action_before_its_attach_is_told_with_its_tag() {
    let model = open();
    let host = host(&model, 4);
    say(&host, RTE_ACTION, 1, 77);
    say(&host, RTE_ATTACH, 1, 78);
    assert_eq!(host.tick(), 0);
    let told = all(&host);
    assert!(told.contains(&(RTE_REJECTED, 1, 0, 77, UNKNOWN)), "{told:?}");
    assert!(told.contains(&(RTE_ATTACHED, 1, 0, 78, 0)), "and the session begins: {told:?}");
}

#[test]
fn a_session_that_begins_acts_and_ends_in_one_drain_is_answered_and_never_seeded() {
    let model = open();
    let host = host(&model, 4);
    (1..4).for_each(|tag| say(&host, [RTE_ATTACH, RTE_ACTION, RTE_DETACH][tag as usize - 1], 1, tag));
    assert_eq!(host.tick(), 0);
    assert_eq!(all(&host), [(RTE_DETACHED, 1, 0, 3, 0)]);
    assert_eq!((model.seeded.load(SeqCst), host.info().attached), (0, 0));
}

#[test]
fn who_leaves_while_it_waits_to_be_seeded_may_come_back() {
    let model = Model { is_open: AtomicBool::new(false), ..open() };
    let host = host(&model, 4);
    say(&host, RTE_ATTACH, 1, 1);
    assert_eq!(host.tick(), 0);
    say(&host, RTE_DETACH, 1, 2);
    say(&host, RTE_ATTACH, 1, 3);
    assert_eq!(host.tick(), 0);
    assert_eq!(all(&host), [(RTE_DETACHED, 1, 0, 2, 0)]);
    model.is_open.store(true, SeqCst);
    assert_eq!(host.tick(), 0);
    assert_eq!(all(&host), [(RTE_ATTACHED, 1, 0, 3, 0), (RTE_CHUNK, 1, 0, 0, 0)]);
}

#[test]
fn a_row_that_failed_late_is_fresh_for_the_same_session_and_residents_saw_nothing() {
    let model = open();
    let host = host(&model, 4);
    say(&host, RTE_ATTACH, 1, 1);
    say(&host, RTE_ATTACH, 2, 1);
    [1, 32].iter().zip(&model.failing).for_each(|(number, word)| word.store(*number, SeqCst));
    let mut resident = 0;
    for tick in 0..100 {
        assert_eq!(host.tick(), 0);
        host.pop_all(|it| {
            if it.kind == RTE_CHUNK && it.session == 2 {
                assert_eq!((it.index, it.dropped), (resident, 0));
                resident += 1;
            }
            assert!(it.kind != RTE_ROW_FAILED || (it.session == 1 && it.tick == 32 && it.status == -1234));
            if it.kind == RTE_CHUNK && it.session == 1 && tick > 40 {
                // SAFETY: the stage wrote two numbers.
                let [session, steps] = unsafe { it.data.cast::<[u64; 2]>().read() };
                assert_eq!((session, steps), (1, it.index), "its state began anew");
            }
        });
        if tick == 40 {
            model.failing[0].store(-1, SeqCst);
            say(&host, RTE_DETACH, 1, 2);
            say(&host, RTE_ATTACH, 1, 3);
        }
    }
    let info = host.info();
    assert_eq!((resident, info.quarantined, info.attached), (100, 0, 2));
}

#[test]
fn a_session_that_is_ended_by_two_at_once_is_detached_once() {
    let model = open();
    let host = host(&model, 4);
    say(&host, RTE_ATTACH, 1, 1);
    assert_eq!(host.tick(), 0);
    all(&host);
    say(&host, RTE_DETACH, 1, 8);
    say(&host, RTE_DETACH, 1, 9);
    assert_eq!(host.tick(), 0);
    assert_eq!(all(&host), [(RTE_DETACHED, 1, 0, 8, 0)]);
    assert_eq!(model.detached.load(SeqCst), 1);
}

#[test]
fn a_slider_on_a_prompt_that_changes_every_tick_starves_nobody() {
    let model = open();
    let host = host(&model, 4);
    say(&host, RTE_ATTACH, 1, 1);
    assert_eq!(host.tick(), 0);
    all(&host);
    let mut last = 0;
    for tick in 1..900 {
        let slider = tick as f32;
        assert_eq!(
            host.push(rte_message { flags: RTE_PARTIAL, ..message(RTE_ACTION, 1) }, &[number(LOOK, &slider)]),
            0
        );
        assert_eq!(host.tick(), 0);
        if all(&host).iter().any(|told| told.0 == RTE_CHUNK) {
            assert!(tick - last <= 3, "no chunk from tick {last} to {tick}");
            last = tick;
        }
    }
    assert!(900 - last <= 3);
    let (encodes, chunks) = (model.encodes.load(SeqCst), host.info().chunks);
    assert!(encodes <= 2 * chunks, "{encodes} encodes for {chunks} chunks");
}

#[test]
fn a_prompt_that_is_not_a_number_is_no_change_when_it_comes_again() {
    let model = open();
    let host = host(&model, 4);
    say(&host, RTE_ATTACH, 1, 1);
    for _ in 0..50 {
        let message = rte_message { flags: RTE_PARTIAL, ..message(RTE_ACTION, 1) };
        assert_eq!(host.push(message, &[number(LOOK, &f32::NAN)]), 0);
        assert_eq!(host.tick(), 0);
    }
    assert_eq!(model.encodes.load(SeqCst), 1);
}
