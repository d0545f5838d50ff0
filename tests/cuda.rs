//! CUDA lanes on the driver of the tests (`cuda/fake_cuda.h`), which knows what happens before what and reports each rule
//! that is broken, whatever the timing.

mod cuda_host;
mod driver;
mod random;
mod support;

use std::ffi::{CStr, c_char, c_void};
use std::sync::Mutex;

use cuda_host::bench::{Bench, Plan};
use cuda_host::fake::{Census, Failing, fake, under};
use cuda_host::model::Nature;
use driver::*;
use random::Random;
use rte::abi::log::RTE_LOG_ERROR;
use rte::lane::{CUDA_FUNCTIONS, Fence, Front, FrontedLanes, Lanes, Work};

/// Random schedules, if the environment says nothing else.
const SCHEDULES: u64 = 300;

#[test]
fn what_the_device_comes_to_is_what_the_calls_came_to_whatever_time_it_takes() {
    // The driver's own words leave it open which calls need a context: here all of them do.
    let strict = [("FAKE_CUDA_STRICT_CONTEXT", "1"), ("FAKE_CUDA_WATCH", "1")];
    under("what_the_device_comes_to_is_what_the_calls_came_to_whatever_time_it_takes", &strict, || {
        let count = std::env::var("RTE_CUDA_SCHEDULES").map_or(SCHEDULES, |count| count.parse().unwrap());
        let (mut ticks, mut chunks, mut loans) = (0, 0, 0);
        for seed in 0..count {
            let mut random = Random::stream(seed, 0);
            fake().delay(random.below(4) * 20, seed + 1);
            let mut bench = Bench::new(Plan::of(random.next()), options()).unwrap();
            bench.play(12 + random.below(12), &mut random);
            let (tally, left) = bench.end(random.once_in(2));
            fake().expect_rules_kept();
            assert_eq!(left, Census::default(), "schedule {seed}");
            ticks += tally.ticks;
            chunks += tally.chunks;
            loans += tally.loans;
        }
        println!("{count} schedules, {ticks} ticks, {chunks} chunks, {loans} loans");
    });
}

#[test]
fn a_consumer_on_another_thread_and_stream_sees_whole_chunks_however_long_it_keeps_them() {
    let name = "a_consumer_on_another_thread_and_stream_sees_whole_chunks_however_long_it_keeps_them";
    under(name, &[("FAKE_CUDA_DELAY", "5:30")], || {
        for flags in [RTE_MODEL_DEVICE_OUTPUT, 0] {
            let nature = Nature { outputs_on_device: flags != 0, ..plain().nature };
            let more = rte_engine_options { held_max: 8, outbox_policy: RTE_HOLD, spin_ns: 20_000, ..options() };
            let mut bench = Bench::new(Plan { nature, flags, policy: RTE_HOLD, ..plain() }, more).unwrap();
            bench.patience = 400;
            (0..4).for_each(|session| assert_eq!(bench.push(message(RTE_ATTACH, session), None), 0));
            bench.start();
            let mut random = Random::stream(1, 0);
            let begin = std::time::Instant::now();
            while bench.tally.chunks < 4 * 1000 {
                assert!(
                    begin.elapsed().as_secs() < 100,
                    "it hangs: {:?}, {:?}",
                    bench.tally,
                    bench.host.as_ref().map(Host::info).map(|info| (info.ticks, info.chunks, info.held, info.live))
                );
                bench.wait();
                bench.consume(&mut random);
            }
            let (tally, left) = bench.end(true);
            println!("flags {flags}: {tally:?}");
            fake().expect_rules_kept();
            assert_eq!(left, Census::default());
        }
    });
}

/// A plan of sessions that make chunks on two lanes.
fn plain() -> Plan {
    let nature = Nature { rows: 4, has_deferred: true, ..Nature::default() };
    Plan { nature, pipeline: RTE_PIPELINE_ON, ..Plan::default() }
}

fn with_sessions(plan: Plan) -> Bench {
    let mut bench = Bench::new(plan, options()).unwrap();
    (0..4).for_each(|session| assert_eq!(bench.push(message(RTE_ATTACH, session), None), 0));
    bench
}

/// Before lanes, forgets what work is to wait for.
struct Forgetful;

impl Front for Forgetful {
    fn submit(&mut self, lanes: &mut dyn Lanes, work: Work) -> Fence {
        lanes.submit(Work { after: [None, None], ..work })
    }
}

/// Ten ticks of four sessions, all chunks looked at where their bytes are right.
fn ten_ticks(mut bench: Bench) {
    for _ in 0..10 {
        assert_eq!(bench.tick(), 0);
        bench.discard();
    }
    drop(bench.host.take());
    bench.free();
}

#[test]
fn a_wait_that_is_left_out_is_seen() {
    under("a_wait_that_is_left_out_is_seen", &[], || {
        fake().count_violations();
        ten_ticks(with_sessions(plain()));
        fake().expect_rules_kept();
        // DEFERRED without HOT's event.
        ten_ticks(with_sessions(Plan {
            wrap: Some(|lanes| Box::new(FrontedLanes::behind(Forgetful, lanes))),
            ..plain()
        }));
        assert!(fake().take_violations("race") > 0);
        fake().forget_violations();
        // A stage that enqueues elsewhere: its batch's event says nothing of it.
        let nature = Nature { forgets_stream: true, ..plain().nature };
        ten_ticks(with_sessions(Plan { nature, ..plain() }));
        assert!(fake().take_violations("race") > 0);
        fake().forget_violations();
    });
}

#[test]
fn an_output_that_is_given_back_too_early_is_seen() {
    under("an_output_that_is_given_back_too_early_is_seen", &[], || {
        fake().count_violations();
        for (is_early, flags) in [(false, RTE_MODEL_DEVICE_OUTPUT), (true, RTE_MODEL_DEVICE_OUTPUT)] {
            let nature = Nature { outputs_on_device: true, ..plain().nature };
            let mut bench = with_sessions(Plan { nature, flags, ..plain() });
            // SAFETY: a stream of the bench.
            unsafe { (fake().fake_cuda_hold)(bench.consumer) };
            for _ in 0..8 {
                assert_eq!(bench.tick(), 0);
                bench.copy_all(is_early);
            }
            // SAFETY: as above.
            unsafe { (fake().fake_cuda_open)(bench.consumer) };
            drop(bench.host.take());
            bench.forget_copies();
            bench.free();
            assert_eq!(fake().take_violations("race") > 0, is_early);
            match is_early {
                true => fake().forget_violations(),
                false => fake().expect_rules_kept(),
            }
        }
    });
}

#[test]
fn lent_memory_that_is_taken_back_too_early_is_seen() {
    under("lent_memory_that_is_taken_back_too_early_is_seen", &[("FAKE_CUDA_WATCH", "1")], || {
        fake().count_violations();
        fake().delay(200, 0);
        for looks in [true, false] {
            let mut bench = with_sessions(plain());
            for word in 1..20 {
                assert_eq!(bench.tick(), 0);
                bench.take_back(looks);
                bench.discard();
                bench.lend_prompt(word % 4, word);
            }
            drop(bench.host.take());
            bench.free();
            assert_eq!(fake().take_violations("changed") > 0, !looks);
            fake().expect_rules_kept();
        }
    });
}

unsafe extern "C-unwind" fn note_line(user: *mut c_void, level: u32, text: *const c_char) {
    if level == RTE_LOG_ERROR {
        // SAFETY: the list of `with_log`; the engine's text.
        unsafe {
            (*user.cast::<Mutex<Vec<String>>>())
                .lock()
                .unwrap()
                .push(CStr::from_ptr(text).to_string_lossy().into_owned())
        };
    }
}

/// Options whose errors go to a list.
fn with_log(lines: &Mutex<Vec<String>>) -> rte_engine_options {
    rte_engine_options { log: Some(note_line), log_user: std::ptr::from_ref(lines).cast_mut().cast(), ..options() }
}

/// What only asks of streams, of devices and of errors by name, or is called before any engine is made.
const ASKED: [&str; 6] =
    ["cuInit", "cuGetErrorName", "cuGetErrorString", "cuDeviceGetUuid_v2", "cuStreamGetCtx", "cuStreamIsCapturing"];

/// What giving something back comes to is asked by nobody.
const IGNORED: [&str; 7] = [
    "cuDevicePrimaryCtxRelease_v2",
    "cuCtxPopCurrent_v2",
    "cuStreamSynchronize",
    "cuStreamDestroy_v2",
    "cuEventDestroy_v2",
    "cuMemFreeHost",
    "cuMemFree_v2",
];

/// What became of an engine of which one call of the driver fails.
#[derive(PartialEq, Eq, Debug)]
enum Fate {
    /// It was not made; in these words.
    Refused(String),
    /// It died; in these words.
    Died(String),
    /// A session did not get its buffers.
    Rejected,
    /// Nothing came of it.
    Lived,
}

/// Runs an engine while the `nth` call of `call` from now on fails with `code`.
fn fate_of(call: &str, nth: u64, code: i32) -> Fate {
    let lines = Mutex::new(Vec::new());
    let nature = Nature { outputs_on_device: call.starts_with("cuMem") && !call.contains("Host"), ..plain().nature };
    let flags = if nature.outputs_on_device { RTE_MODEL_DEVICE_OUTPUT } else { 0 };
    // What the host itself calls must go well.
    let failing = Failing::new(call, nth, code, IGNORED.contains(&call));
    let mut bench = match Bench::with(Plan { nature, flags, ..plain() }, with_log(&lines), Some(&failing)) {
        Ok(bench) => bench,
        Err((_, words)) => return Fate::Refused(words),
    };
    (0..4).for_each(|session| assert_eq!(bench.push(message(RTE_ATTACH, session), None), 0));
    let mut rejected = 0;
    for number in 0..12 {
        let status = failing.during(|| bench.tick());
        if status != 0 {
            // In the first one the streams are made, and what was said of that is returned.
            assert!(
                status == DEAD || (number == 0 && [DEVICE, MEMORY].contains(&status)),
                "{call}: tick {number}, {status}"
            );
            break;
        }
        rejected += failing.during(|| bench.rejections());
    }
    // What was made can be popped, also of a dead engine.
    failing.during(|| bench.discard());
    failing.during(|| drop(bench.host.take()));
    bench.free();
    let lines = lines.into_inner().unwrap();
    match lines.into_iter().find(|line| line.starts_with("the engine is dead")) {
        Some(line) => Fate::Died(line),
        None if rejected > 0 => Fate::Rejected,
        None => Fate::Lived,
    }
}

const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const DEVICE: i32 = rte_status_code::RTE_ERR_DEVICE as i32;
const MEMORY: i32 = rte_status_code::RTE_ERR_MEMORY as i32;

#[test]
fn each_call_that_fails_ends_the_engine_in_the_drivers_words_or_nothing() {
    under("each_call_that_fails_ends_the_engine_in_the_drivers_words_or_nothing", &[], || {
        assert!(ASKED.iter().chain(&IGNORED).all(|call| CUDA_FUNCTIONS.contains(call)), "they are of the table");
        // So that nothing has passed when it is first looked at.
        fake().delay(100, 0);
        for call in CUDA_FUNCTIONS.iter().filter(|call| !ASKED.contains(call)) {
            for (nth, code, name) in [(1, 999, "CUDA_ERROR_UNKNOWN (999)"), (3, 2, "CUDA_ERROR_OUT_OF_MEMORY (2)")] {
                let fate = fate_of(call, nth, code);
                println!("{call} {nth} {code}: {fate:?}");
                match &fate {
                    Fate::Refused(words) | Fate::Died(words) => {
                        assert!(words.contains(call) && words.contains(name), "{call}: {words}");
                    }
                    Fate::Rejected => assert!(call.starts_with("cuMem"), "{call}"),
                    Fate::Lived => assert!(nth > 1 || IGNORED.contains(call), "{call} failed and nobody minded"),
                }
                fake().expect_rules_kept();
                assert_eq!(fake().census(), Census::default(), "{call}");
            }
        }
    });
}

#[test]
fn a_context_that_is_lost_ends_the_engine_within_a_tick_and_lets_everybody_go() {
    // What is left in a lost context cannot be freed.
    let settings = [("FAKE_CUDA_FORGIVE", "left_behind")];
    under("a_context_that_is_lost_ends_the_engine_within_a_tick_and_lets_everybody_go", &settings, || {
        let lines = Mutex::new(Vec::new());
        let mut bench = Bench::new(plain(), with_log(&lines)).unwrap();
        (0..4).for_each(|session| assert_eq!(bench.push(message(RTE_ATTACH, session), None), 0));
        (0..5).for_each(|_| assert_eq!(bench.tick(), 0));
        bench.lose_context(700);
        assert_eq!(bench.tick(), DEAD);
        let is_told = |line: &String| {
            line.starts_with("the engine is dead: cuEvent") && line.contains(": CUDA_ERROR_ILLEGAL_ADDRESS (700): ")
        };
        assert!(lines.lock().unwrap().iter().any(is_told), "{lines:?}");
        assert_eq!(bench.push(message(RTE_ACTION, 0), None), DEAD);
        let info = bench.host.as_ref().unwrap().info();
        assert_eq!(info.health, DEVICE);
        // Four ATTACHED, four chunks in each of the last four ticks, and the end.
        let mut kinds = Vec::new();
        bench.host.as_ref().unwrap().pop_all(|output| kinds.push(output.kind));
        assert_eq!(kinds.iter().filter(|kind| **kind == RTE_CHUNK).count(), 16);
        assert_eq!(kinds.last(), Some(&RTE_DEAD));
        drop(bench.host.take());
        std::mem::forget(bench);
    });
}

static DIES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

unsafe extern "C-unwind" fn die_if_told(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    if DIES.load(std::sync::atomic::Ordering::SeqCst) { DEAD } else { 0 }
}

#[test]
fn an_engine_that_a_stage_ends_says_so_though_the_device_had_no_memory_for_a_session_before() {
    under("an_engine_that_a_stage_ends_says_so_though_the_device_had_no_memory_for_a_session_before", &[], || {
        let lines = Mutex::new(Vec::new());
        let mut stages = [stage(RTE_HOT, die_if_told)];
        stages[0].name = c"world".as_ptr();
        let model = model(&stages, 4, 8);
        let host = Host::new(&model, &rte_engine_options { lanes: RTE_LANES_CUDA, ..with_log(&lines) });
        assert_eq!((host.push(message(RTE_ATTACH, 1), &[]), host.tick()), (0, 0));
        assert_eq!(host.push(message(RTE_ATTACH, 2), &[]), 0);
        let failing = Failing::new("cuMemHostAlloc", 1, 2, false);
        assert_eq!(failing.during(|| host.tick()), 0);
        let mut rejected = 0;
        host.pop_all(|output| rejected += u64::from(output.kind == RTE_REJECTED && output.status == MEMORY));
        assert_eq!((rejected, host.info().health), (1, 0));
        DIES.store(true, std::sync::atomic::Ordering::SeqCst);
        assert_eq!(host.tick(), DEAD);
        drop(host);
        let lines = lines.into_inner().unwrap();
        assert_eq!(lines.last().unwrap(), "the engine is dead: stage world, status -11");
    });
}
