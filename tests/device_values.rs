//! Values in a device's memory: each lane's stream waits for `message.ready` before the first stage that is shown one, and
//! not once more when that has passed; they are never read; equal are those of one revision; and they go back once, after
//! the last work that was shown them. In the time of a backend that the test moves.
//!
//! `RTE_VALUE_SCHEDULES=n` sets how many random schedules are run, `RTE_VALUE_SEED=n` runs that one alone.

mod driver;
mod host;
mod random;
mod values_host;

use std::ptr::null_mut;
use std::sync::Arc;

use driver::*;
use host::device::Function;
use values_host::bench::{Bench, ROWS, item, on_device};
use values_host::ledger::{Form, Loan, release};
use values_host::model::*;
use values_host::random::{Count, run};

const OK: i32 = 0;
const ARGUMENT: i32 = rte_status_code::RTE_ERR_ARGUMENT as i32;
const UNAVAILABLE: i32 = rte_status_code::RTE_ERR_UNAVAILABLE as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const BROKEN: i32 = rte_status_code::RTE_ERR_DEVICE as i32;

/// Flags and pipelines that matter.
fn each_kind(check: impl Fn(Bench)) {
    for flags in [0, RTE_MODEL_DENSE, RTE_MODEL_SEED_ASIDE] {
        for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
            check(Bench::new(flags, pipeline));
        }
    }
}

/// By lane: whether its first call that was shown a message was told to wait before.
fn first_waits(shown: &[Shown]) -> Vec<(Who, bool)> {
    [Who::Seed, Who::Encode, Who::Hot, Who::Deferred]
        .into_iter()
        .filter_map(|who| shown.iter().find(|shown| shown.who == who))
        .map(|first| (first.who, first.waits > 0))
        .collect()
}

#[test]
fn a_stage_on_each_lane_is_called_only_after_its_stream_was_told_to_wait() {
    each_kind(|bench| {
        bench.attach(2);
        bench.steps(3);
        // The context: seed sees all of it, HOT its heavy value.
        let context = bench.push(RTE_ATTACH, 1, &[on_device(PROMPT, 1), on_device(STYLE, 1)], bench.ready_at(20));
        bench.run_until(30);
        let shown = bench.shown(&context);
        assert_eq!(first_waits(&shown)[0], (Who::Seed, true));
        assert_eq!(shown.iter().filter(|shown| shown.key == STYLE).count(), 1, "a cheap value is for the seed alone");
        assert!(shown.iter().any(|shown| shown.who == Who::Deferred));
        // A heavy value: nobody else waits for it.
        let prompt = bench.act(1, &[on_device(PROMPT, 2)], bench.ready_at(100));
        assert_eq!(bench.run_until(90), 60, "the others' ticks do not wait");
        let shown = bench.shown(&prompt);
        assert_eq!(first_waits(&shown), [(Who::Encode, true)], "enqueued at once, and it waits");
        assert_eq!((shown.len(), shown[0].now, shown[0].is_changed), (1, 31, true));
        bench.run_until(110);
        let shown = bench.shown(&prompt);
        assert_eq!(first_waits(&shown), [(Who::Hot, false), (Who::Deferred, false)], "it has passed");
        // A cheap one: HOT is behind it, and DEFERRED.
        let style = bench.act(1, &[on_device(STYLE, 3)], bench.ready_at(150));
        bench.run_until(160);
        let shown = bench.shown(&style);
        assert_eq!(first_waits(&shown), [(Who::Hot, true), (Who::Deferred, true)]);
        assert_eq!(shown[0].now, 111);
        bench.end();
    });
}

#[test]
fn what_was_waited_for_costs_no_more_waits() {
    for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
        let (with, without) = (Bench::new(0, pipeline), Bench::new(0, pipeline));
        let ready = with.ready_at(20);
        let event = ready.as_ref().expect("one").event();
        with.push(RTE_ATTACH, 1, &[on_device(PROMPT, 1)], ready.clone());
        with.act(1, &[on_device(STYLE, 1)], ready.clone());
        without.attach(1);
        let _ = [&with, &without].map(|bench| bench.run_until(30));
        let waits = with.world.device.all_waits(event);
        // Seed; HOT and DEFERRED of as many batches as are enqueued before the first one has passed.
        assert!((3..=5).contains(&waits), "{waits} waits");
        let before = [&with, &without].map(|bench| bench.world.device.calls());
        [&with, &without].into_iter().for_each(|bench| bench.steps(100));
        let after = [&with, &without].map(|bench| bench.world.device.calls());
        assert_eq!(with.world.device.all_waits(event), waits);
        let spent = [0, 1].map(|at| (after[at].wait - before[at].wait, after[at].query - before[at].query));
        assert_eq!(spent[0], spent[1], "a tick with values costs the device what one without does");
        assert_eq!(after[0].sync, before[0].sync);
        // A heavy value that was encoded is waited for no more.
        let next = with.ready_at(200);
        let event = next.as_ref().expect("one").event();
        with.act(1, &[on_device(PROMPT, 2)], next);
        with.run_until(300);
        assert_eq!(with.world.device.all_waits(event), 1);
        with.end();
        without.end();
    }
}

#[test]
fn values_are_equal_by_their_revision_alone() {
    let is_equal = [
        (Form::Device, 5, Form::Device, 5, true),
        (Form::Device, 5, Form::Device, 6, false),
        (Form::Copied, 0, Form::Device, 5, false),
        (Form::Device, 5, Form::Copied, 0, false),
        (Form::Device, 5, Form::Borrowed, 0, false),
        (Form::Copied, 5, Form::Device, 5, true),
        (Form::Borrowed, 5, Form::Device, 5, true),
        (Form::Device, 5, Form::Copied, 5, true),
        (Form::Device, 5, Form::Borrowed, 5, true),
        (Form::Copied, 4, Form::Device, 5, false),
        (Form::Absent, 0, Form::Device, 5, false),
        (Form::Device, 5, Form::Absent, 0, false),
    ];
    for (before, old, after, new, is_equal) in is_equal {
        let case = format!("{before:?} {old}, then {after:?} {new}");
        let bench = Bench::simple();
        bench.push(RTE_ATTACH, 1, &[item(PROMPT, before, old)], None);
        bench.act(1, &[item(STYLE, before, old)], None);
        bench.steps(3);
        bench.world.take_shown();
        let loan = bench.act(1, &[item(PROMPT, after, new), item(STYLE, after, new)], None);
        bench.steps(5);
        // SAFETY: the engine lives; a valid place.
        let encodes = unsafe {
            let mut info = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
            assert_eq!(rte_session_get_info(bench.host().engine, 1, &mut info), OK);
            assert_eq!(info.heavy_tag, loan.number, "{case}");
            info.encodes
        };
        assert_eq!(encodes, u64::from(!is_equal), "{case}");
        let shown = bench.shown(&loan);
        let styles: Vec<&Shown> = shown.iter().filter(|shown| (shown.who, shown.key) == (Who::Hot, STYLE)).collect();
        if after != Form::Absent {
            assert!(!styles.is_empty() && styles[0].is_changed != is_equal, "{case}: {styles:?}");
            assert!(styles[1..].iter().all(|shown| !shown.is_changed), "{case}");
            let prompts = shown.iter().filter(|shown| (shown.who, shown.key) == (Who::Hot, PROMPT)).count();
            assert_eq!(prompts > 0, !is_equal, "{case}: what was applied is shown on");
        }
        bench.end();
    }
}

#[test]
fn a_value_that_comes_back_during_an_encode_is_encoded_once_more() {
    let bench = Bench::simple();
    bench.push(RTE_ATTACH, 1, &[on_device(PROMPT, 1)], None);
    bench.steps(2);
    let there = bench.act(1, &[on_device(PROMPT, 2)], bench.ready_at(20));
    bench.steps(2);
    let back = bench.act(1, &[on_device(PROMPT, 1)], bench.ready_at(40));
    bench.run_until(60);
    let shown = bench.world.take_shown();
    let encodes: Vec<u64> = shown.iter().filter(|shown| shown.who == Who::Encode).map(|shown| shown.number).collect();
    assert_eq!(encodes, [there.number, back.number]);
    bench.end();
}

/// What ends the use of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Replace,
    Detach,
    Drain,
    Reset,
    ResetAsBefore,
    Quarantine,
    Stop,
    Free,
    Dead,
}

const WAYS: [Way; 9] = [
    Way::Replace,
    Way::Detach,
    Way::Drain,
    Way::Reset,
    Way::ResetAsBefore,
    Way::Quarantine,
    Way::Stop,
    Way::Free,
    Way::Dead,
];

/// What is shown a value first.
const LANES: [(Who, u32); 3] = [(Who::Seed, PROMPT), (Who::Encode, PROMPT), (Who::Hot, STYLE)];

#[test]
fn a_pending_value_is_released_once_after_the_last_work_that_was_shown_it() {
    const PENDING: u64 = 200;
    for way in WAYS {
        for (who, key) in LANES {
            each_kind(|mut bench| {
                for who in [Who::Seed, Who::Encode, Who::Hot, Who::Deferred] {
                    bench.set_length(who, 3);
                }
                let case = format!("{way:?} of what is shown to {who:?}");
                bench.attach(2);
                bench.run_until(20);
                let ready = bench.ready_at(PENDING);
                let loan = if who == Who::Seed {
                    bench.push(RTE_ATTACH, 1, &[on_device(key, 1)], ready)
                } else {
                    bench.attach(1);
                    bench.run_until(50);
                    bench.act(1, &[on_device(key, 1)], ready)
                };
                bench.run_until(80);
                if way == Way::Quarantine {
                    bench.world.set(|knobs| _ = knobs.bad_rows.insert(Who::Hot, 1));
                }
                match way {
                    Way::Replace => drop(bench.push(RTE_ACTION, 1, &[on_device(key, 2)], None)),
                    Way::Detach => drop(bench.push(RTE_DETACH, 1, &[], None)),
                    Way::Drain => drop(bench.push_flagged(RTE_DETACH, RTE_DRAIN, 1, &[], None)),
                    Way::Reset => drop(bench.push(RTE_RESET, 1, &[on_device(key, 2)], None)),
                    Way::ResetAsBefore => drop(bench.push(RTE_RESET, 1, &[], None)),
                    Way::Quarantine => {}
                    Way::Stop => bench.stop(),
                    Way::Free => bench.host = None,
                    Way::Dead => bench.set_result(Who::Hot, DEAD),
                }
                if way == Way::Dead {
                    while bench.now() < 1000 {
                        bench.world.device.set_now(bench.now() + 1);
                        if bench.tick() == DEAD {
                            break;
                        }
                    }
                    assert!(bench.now() < 1000, "{case}: it has died");
                    bench.host = None;
                } else if bench.host.is_some() && way != Way::Stop {
                    bench.run_until(PENDING - 1);
                    assert_eq!(loan.releases(), 0, "{case}: {:?}", bench.world.take_shown());
                    bench.run_until(PENDING + 40);
                    // The last context is a RESET's, too, and what a quarantined row held last is its own until it leaves.
                    let is_kept = match way {
                        Way::ResetAsBefore => who == Who::Seed,
                        Way::Replace => who == Who::Seed,
                        Way::Quarantine => true,
                        _ => false,
                    };
                    assert_eq!(loan.releases(), u64::from(!is_kept), "{case}");
                    if is_kept {
                        bench.world.set(|knobs| knobs.bad_rows.clear());
                        bench.push(RTE_DETACH, 1, &[], None);
                        bench.run_until(PENDING + 80);
                        assert_eq!(loan.releases(), 1, "{case}");
                    }
                }
                bench.end();
            });
        }
    }
}

#[test]
fn a_value_that_no_work_was_shown_goes_back_at_once_though_its_event_is_pending() {
    each_kind(|bench| {
        bench.attach(1);
        bench.steps(5);
        bench.push(RTE_PAUSE, 1, &[], None);
        bench.steps(2);
        let loan = bench.act(1, &[on_device(PROMPT, 1), on_device(STYLE, 1)], bench.ready_at(1000));
        bench.steps(5);
        assert_eq!(loan.releases(), 0);
        // Of a value that was replaced before anybody saw it, too.
        let newer = bench.act(1, &[on_device(PROMPT, 2), on_device(STYLE, 2)], bench.ready_at(1000));
        bench.steps(1);
        assert_eq!((loan.releases(), newer.releases()), (1, 0));
        bench.push(RTE_DETACH, 1, &[], None);
        bench.steps(1);
        assert_eq!(newer.releases(), 1);
        assert!(bench.world.take_shown().is_empty());
        bench.end();
    });
}

#[test]
fn messages_that_change_nothing_give_their_values_back() {
    let bench = Bench::simple();
    bench.attach(1);
    bench.steps(2);
    let values = [on_device(PROMPT, 1), on_device(STYLE, 1)];
    let already = bench.push(RTE_ATTACH, 1, &values, bench.ready_at(1000));
    let unknown = bench.act(7, &values, bench.ready_at(1000));
    bench.steps(1);
    assert_eq!((already.releases(), unknown.releases()), (1, 1));
    let undrained = bench.act(1, &values, bench.ready_at(1000));
    bench.stop();
    assert_eq!(undrained.releases(), 1);
    assert!(bench.world.take_shown().is_empty());
    bench.end();
}

#[test]
fn calls_of_single_rows_wait_too() {
    for flags in [RTE_MODEL_RETRY_SAFE, RTE_MODEL_RETRY_SAFE | RTE_MODEL_DENSE] {
        for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
            for who in [Who::Hot, Who::Deferred] {
                let bench = Bench::new(flags, pipeline);
                (1..=3).for_each(|session| bench.attach(session));
                bench.steps(5);
                bench.set_result(who, HOST_ERROR);
                // The values come with the batch that is run row by row: DEFERRED's may be that of the tick before.
                let is_late = pipeline == RTE_PIPELINE_ON && who == Who::Deferred;
                bench.steps(if is_late { 1 } else { 2 });
                let loans = [1, 3].map(|session| bench.act(session, &[on_device(STYLE, 1)], bench.ready_at(50)));
                bench.steps(u64::from(is_late));
                bench.set_result(who, 0);
                bench.run_until(60);
                let shown = bench.world.take_shown();
                for loan in loans {
                    let of_loan = |shown: &&Shown| (shown.who, shown.number) == (who, loan.number);
                    let first = shown.iter().find(of_loan).expect("it is shown");
                    assert_eq!((first.rows, first.waits), (1, 1), "{who:?}, {flags}, {pipeline}");
                    assert!(shown.iter().filter(of_loan).skip(1).all(|shown| shown.rows == 3));
                }
                bench.end();
            }
        }
    }
}

#[test]
fn each_attempt_of_an_encode_waits() {
    let bench = Bench::simple();
    (1..=3).for_each(|session| bench.attach(session));
    bench.steps(2);
    bench.set_result(Who::Encode, HOST_ERROR);
    let ready = bench.ready_at(50);
    let loans = [1, 2].map(|session| bench.act(session, &[on_device(PROMPT, 1)], ready.clone()));
    let other = bench.act(3, &[item(PROMPT, Form::Copied, 1)], None);
    bench.steps(1);
    bench.set_result(Who::Encode, 0);
    // The others go on meanwhile.
    bench.run_until(100);
    let shown = bench.world.take_shown();
    let encodes = |loan: &Arc<Loan>| -> Vec<(usize, usize)> {
        let mine = shown.iter().filter(|shown| (shown.who, shown.number) == (Who::Encode, loan.number));
        mine.map(|shown| (shown.rows, shown.waits)).collect()
    };
    // One wait for both rows; when that attempt has passed none is needed.
    assert_eq!(encodes(&loans[0]), [(3, 1), (1, 1)]);
    assert_eq!(encodes(&loans[1]), [(3, 1), (1, 1)]);
    assert_eq!(encodes(&other), [(3, 0), (1, 0)]);
    bench.end();
}

#[test]
fn messages_may_share_an_event_and_one_may_have_no_release() {
    let mut bench = Bench::simple();
    (1..=2).for_each(|session| bench.attach(session));
    bench.steps(2);
    let ready = bench.ready_at(50).expect("one");
    let loans = [1, 2].map(|session| bench.act(session, &[on_device(PROMPT, 1)], Some(ready.clone())));
    bench.steps(1);
    assert_eq!(bench.world.device.all_waits(ready.event()), 1, "a batch waits once for it");
    bench.run_until(60);
    bench.act(1, &[on_device(PROMPT, 2)], None);
    bench.steps(5);
    assert_eq!(loans.each_ref().map(|loan| loan.releases()), [1, 0]);
    // Nobody can tell when it may be recorded again: here it never is.
    let ready = bench.ready_at(200).expect("one");
    bench.without_release.push(ready.clone());
    let loan = bench.world.loans.lend(&bench.world.device, 2, &[on_device(PROMPT, 3)], Some(ready.clone()));
    let message = rte_message { tag: loan.number, ready: ready.event(), ..message(RTE_ACTION, 2) };
    assert_eq!(bench.host().push(message, &loan.values()), OK);
    bench.run_until(210);
    let shown = bench.shown(&loan);
    assert_eq!(first_waits(&shown)[..2], [(Who::Encode, true), (Who::Hot, false)]);
    assert_eq!((bench.world.device.all_waits(ready.event()), loans[1].releases()), (1, 1));
    bench.stop();
    bench.host = None;
    assert_eq!(loan.releases(), 0);
    // It has none to run: for the sum of those that have.
    // SAFETY: the loan lives.
    unsafe { release(loan.release_user()) };
    bench.without_release.clear();
    bench.end();
}

#[test]
fn a_borrowed_value_beside_one_on_the_device_does_not_stand_for_it() {
    for pipeline in [RTE_PIPELINE_OFF, RTE_PIPELINE_ON] {
        let bench = Bench::new(0, pipeline);
        bench.attach(1);
        bench.steps(3);
        // Two encodes running: then the row steps once, with what it has.
        for revision in [1, 2] {
            bench.act(1, &[item(PROMPT, Form::Copied, revision)], None);
            bench.steps(1);
        }
        let values = [item(STYLE, Form::Borrowed, 0), on_device(PROMPT, 3)];
        let loan = bench.act(1, &values, bench.ready_at(100));
        bench.run_until(110);
        let shown = bench.shown(&loan);
        assert_eq!((shown[0].who, shown[0].key), (Who::Hot, STYLE), "it is shown first, and has nothing to wait for");
        let encode = shown.iter().find(|shown| shown.who == Who::Encode).expect("then it is encoded");
        assert_eq!(encode.waits, 1);
        bench.end();
    }
}

#[test]
fn a_device_that_cannot_wait_ends_the_engine_and_all_comes_back() {
    for (_, key) in &LANES[1..] {
        let mut bench = Bench::new(0, RTE_PIPELINE_ON);
        bench.attach(1);
        bench.steps(3);
        bench.world.device.fail(Some((Function::Wait, BROKEN)));
        let loan = bench.act(1, &[on_device(*key, 1)], bench.ready_at(100));
        bench.world.device.set_now(bench.now() + 1);
        assert_eq!(bench.tick(), DEAD);
        assert_eq!(bench.host().info().health, BROKEN);
        assert!(bench.shown(&loan).is_empty(), "nobody is called with what may not be there");
        bench.world.device.fail(None);
        bench.host = None;
        bench.end();
    }
}

/// What is wrong with a message that names values and an event.
fn push_status(host: &Host, kind: u32, values: &[rte_value], has_event: bool) -> i32 {
    let ready = if has_event { std::ptr::without_provenance_mut(1) } else { null_mut() };
    host.push(rte_message { ready, ..message(kind, 1) }, values)
}

#[test]
fn what_cannot_be_is_refused() {
    let bench = Bench::simple();
    let at = std::ptr::without_provenance(0xdead_0000_0000_0000);
    let value = rte_value { data: at, size: 8, revision: 1, key: PROMPT, flags: RTE_VALUE_DEVICE };
    let bytes = [0u8; 8];
    let host_value = rte_value { data: bytes.as_ptr().cast(), flags: 0, ..value };
    let device = bench.host();
    for (what, values, has_event) in [
        ("a key with a size", vec![rte_value { key: SIZED, ..value }], false),
        ("no revision", vec![rte_value { revision: 0, ..value }], false),
        ("no address", vec![rte_value { data: std::ptr::null(), ..value }], false),
        ("an event for nothing", vec![], true),
        ("an event for a host's value", vec![host_value], true),
        ("an event for an absent value", vec![rte_value { size: 0, ..value }], true),
        ("an unknown flag", vec![rte_value { flags: RTE_VALUE_DEVICE | 4, ..value }], false),
    ] {
        assert_eq!(push_status(device, RTE_ATTACH, &values, has_event), ARGUMENT, "{what}");
    }
    assert_eq!(push_status(device, RTE_DETACH, &[], true), ARGUMENT, "an event with a kind that has no values");
    // Of a key with a size absent is absent, and BORROWED is what DEVICE is in any case.
    let absent = rte_value { key: SIZED, size: 0, revision: 0, ..value };
    let both = rte_value { flags: RTE_VALUE_DEVICE | RTE_VALUE_BORROWED, ..value };
    for values in [[absent], [both]] {
        assert_eq!(push_status(device, RTE_ACTION, &values, false), OK);
    }
    bench.stop();
    bench.end();

    let (stages, keys) = (stages(), keys());
    let world = World::new(ROWS);
    let model = values_model(&world, &stages, &keys, 0);
    let table = world.device.table();
    let path = std::env::temp_dir().join(format!("rte_device_values_{}", std::process::id()));
    let path = std::ffi::CString::new(path.to_str().expect("plain")).expect("no NUL");
    let recorded =
        rte_engine_options { lanes: RTE_LANES_HOST, backend: &table, record_path: path.as_ptr(), ..options() };
    let inline = rte_engine_options { lanes: RTE_LANES_INLINE, ..options() };
    let threads = rte_engine_options { lanes: RTE_LANES_THREADS, ..options() };
    for options in [recorded, inline, threads] {
        let host = Host::new(&model, &options);
        assert_eq!(push_status(&host, RTE_ATTACH, &[value], false), UNAVAILABLE);
        assert_eq!(push_status(&host, RTE_ATTACH, &[value], true), UNAVAILABLE);
        assert_eq!(push_status(&host, RTE_ATTACH, &[host_value], true), UNAVAILABLE);
        assert_eq!(push_status(&host, RTE_ATTACH, &[host_value], false), OK);
    }
    std::fs::remove_file(path.to_str().expect("plain")).expect("the record was made");
}

/// Random schedules, if the environment says nothing else.
const SCHEDULES: u64 = 2000;

fn number_of(variable: &str) -> Option<u64> {
    let text = std::env::var(variable).ok()?;
    Some(text.parse().expect("a number"))
}

#[test]
fn on_random_schedules_no_stage_is_early_and_no_release_is() {
    let mut count = Count::default();
    match number_of("RTE_VALUE_SEED") {
        Some(seed) => run(seed, &mut count),
        None => {
            let schedules = number_of("RTE_VALUE_SCHEDULES").unwrap_or(SCHEDULES);
            (0..schedules).for_each(|seed| run(seed, &mut count));
            println!("{schedules} schedules: {count:?}");
            let all = [count.seed, count.hot, count.deferred, count.encode, count.pending, count.isolated];
            assert!(all.iter().all(|count| *count * 10 >= schedules), "the schedules are not as they should be");
        }
    }
}
