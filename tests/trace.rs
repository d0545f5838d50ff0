//! A trace file is what both viewers ask for, says what the engine counts, and costs the tick neither time that it waits
//! for nor memory; without one there is nothing of it.

mod backend;
mod driver;
mod process;
mod trace_file;

use std::ffi::{CStr, CString, c_void};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex};
use std::time::{Duration, Instant};

use backend::backend;
use driver::*;
use process::Possessions;
use trace_file::{Event, Stretch, TraceFile};

#[global_allocator]
static ALLOCATOR: process::Counting = process::Counting;

const ROWS: u32 = 6;
const MOVE: u32 = 0;
const PROMPT: u32 = 1;
/// The encode of this session waits for the gate.
const SLOW: u64 = 4;

/// The model, and what the test does to it.
#[derive(Default)]
struct World {
    /// Some of its calls fail, of rows and as a whole.
    fails: bool,
    /// In this tick it is dead; 0: never.
    dies_at: u64,
    /// In this one its engine is stopped; 0: not by it.
    stops_at: u64,
    engine: AtomicPtr<rte_engine>,
    is_shut: Mutex<bool>,
    opened: Condvar,
    encodes_begun: AtomicU64,
    encodes_ended: AtomicU64,
    /// The time of a clock that passes in steps and sleeps alone.
    now: AtomicU64,
    /// How long the step of a tick takes by that clock.
    step: Option<fn(u64) -> u64>,
}

impl World {
    fn of<'a>(user: *mut c_void) -> &'a World {
        // SAFETY: the world outlives its engine.
        unsafe { &*user.cast::<World>() }
    }

    fn pass(&self) {
        let mut is_shut = self.is_shut.lock().unwrap();
        while *is_shut {
            is_shut = self.opened.wait(is_shut).unwrap();
        }
    }

    fn open(&self) {
        *self.is_shut.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = false;
        self.opened.notify_all();
    }
}

/// Opens the gate also where a test fails, before its engine is freed.
struct Opener<'a>(&'a World);

impl Drop for Opener<'_> {
    fn drop(&mut self) {
        self.0.open();
    }
}

fn mix(state: u64, by: u64) -> u64 {
    let mixed = (state ^ by).wrapping_add(0x9e37_79b9_7f4a_7c15).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    mixed ^ mixed >> 31
}

/// Fails rows and whole calls, if it is to.
unsafe fn outcome(world: &World, batch: &rte_batch, lane: u64) -> i32 {
    if !world.fails {
        return 0;
    }
    for at in 0..batch.count as usize {
        // SAFETY: the arrays of a batch.
        unsafe {
            if mix(*batch.generation.add(at), *batch.age.add(at) * 7 + lane).is_multiple_of(211) {
                *batch.status.add(at) = -1000 - lane as i32;
            }
        }
    }
    if mix(batch.tick, lane).is_multiple_of(97) { -2000 - lane as i32 } else { 0 }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage.
    let (world, batch) = unsafe { (World::of(user), &*batch) };
    if world.stops_at > 0 && batch.tick == world.stops_at {
        // SAFETY: with timeout 0 it only asks.
        unsafe { rte_engine_stop(world.engine.load(SeqCst), 0, std::ptr::null_mut()) };
    }
    if world.dies_at > 0 && batch.tick == world.dies_at {
        return rte_status_code::RTE_ERR_DEAD as i32;
    }
    world.now.fetch_add(world.step.map_or(0, |step| step(batch.tick)), SeqCst);
    // SAFETY: as above.
    unsafe { outcome(world, batch, 0) }
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1);
        outcome(World::of(user), &*batch, 1)
    }
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    World::of(user).encodes_begun.fetch_add(1, SeqCst);
    // SAFETY: the arrays of a batch.
    unsafe {
        if std::slice::from_raw_parts((*batch).session, (*batch).count as usize).iter().any(|session| *session >= SLOW)
        {
            World::of(user).pass();
        }
        World::of(user).encodes_ended.fetch_add(1, SeqCst);
        outcome(World::of(user), &*batch, 2)
    }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe { outcome(World::of(user), &*batch, 3) }
}

unsafe extern "C-unwind" fn detach(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

unsafe extern "C-unwind" fn now(user: *mut c_void) -> u64 {
    World::of(user).now.load(SeqCst)
}

unsafe extern "C-unwind" fn sleep_until(user: *mut c_void, at: u64) {
    World::of(user).now.fetch_max(at, SeqCst);
}

/// The clock of the world.
fn clock_of(user: *mut c_void) -> rte_clock {
    rte_clock {
        struct_size: size_of::<rte_clock>() as u32,
        user,
        now: Some(now),
        sleep_until: Some(sleep_until),
        ..zeroed()
    }
}

/// An event is seen to have passed when it is asked for the fourth time, or waited for.
unsafe extern "C-unwind" fn query(_: *mut c_void, _: rte_event) -> i32 {
    static LOOKS: AtomicU64 = AtomicU64::new(0);
    if LOOKS.fetch_add(1, SeqCst) % 4 == 3 { 0 } else { rte_status_code::RTE_AGAIN as i32 }
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("trace");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

fn c_path(path: &Path) -> CString {
    CString::new(path.to_str().unwrap()).unwrap()
}

/// An engine of the world whose trace goes to `path`. `edit` changes what it is like.
fn engine(world: &World, path: Option<&Path>, edit: impl FnOnce(&mut rte_model, &mut rte_engine_options)) -> Host {
    let stages = [
        rte_stage { name: c"move".as_ptr(), ..stage(RTE_HOT, hot) },
        rte_stage { name: c"draw \"well\"".as_ptr(), ..stage(RTE_DEFERRED, deferred) },
        rte_stage { name: c"read".as_ptr(), ..stage(RTE_ENCODE, encode) },
    ];
    let keys = [
        rte_key { size: 8, r#type: RTE_I64, merge: RTE_MERGE_SUM, ..zeroed() },
        rte_key { flags: RTE_KEY_HEAVY, ..zeroed() },
    ];
    let user = std::ptr::from_ref(world).cast_mut().cast();
    let mut model = rte_model {
        name: c"a \"world\"\n".as_ptr(),
        user,
        keys: keys.as_ptr(),
        key_count: 2,
        seed: Some(seed),
        detach: Some(detach),
        ..model(&stages, ROWS, 64)
    };
    let (path, backend) = (path.map(c_path), rte_backend { query: Some(query), ..backend() });
    let mut options =
        rte_engine_options { trace_path: path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr()), ..options() };
    edit(&mut model, &mut options);
    if options.lanes == RTE_LANES_HOST {
        options.backend = &backend;
    }
    Host::new(&model, &options)
}

fn attach(host: &Host, sessions: std::ops::Range<u64>) {
    sessions.for_each(|session| assert_eq!(host.push(message(RTE_ATTACH, session), &[value(PROMPT, b"a castle")]), 0));
}

fn prompt(host: &Host, session: u64, text: &[u8]) {
    let action = rte_message { flags: RTE_PARTIAL, ..message(RTE_ACTION, session) };
    assert_eq!(host.push(action, &[value(PROMPT, text)]), 0);
}

fn stop(host: &Host) {
    // SAFETY: the engine lives, on the thread that ticks it.
    assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
}

fn random_message(host: &Host, random: &mut u64) {
    *random = mix(*random, 1);
    let dice = *random;
    let kind = [RTE_ATTACH, RTE_DETACH, RTE_RESET, RTE_PAUSE, RTE_RESUME, RTE_RESUME, RTE_ATTACH]
        .get((dice % 32) as usize)
        .copied()
        .unwrap_or(RTE_ACTION);
    let flags = if matches!(kind, RTE_DETACH | RTE_ACTION) { (dice >> 8 & 1) as u32 } else { 0 };
    let message = rte_message { flags, ..message(kind, dice >> 16 & 7) };
    let (moved, text) = ((dice % 100).to_ne_bytes(), [(dice >> 24) as u8 % 4; 3]);
    let values = [value(MOVE, &moved), value(PROMPT, &text)];
    let has_values = matches!(kind, RTE_ATTACH | RTE_RESET | RTE_ACTION);
    let _ = host.push(message, &values[..if has_values { 1 + (dice >> 60 & 1) as usize } else { 0 }]);
}

/// Sessions come, go, act, pause and lag behind at random. What was told of lives: by generation, how often.
fn live(host: &Host, ticks: u64) -> Vec<(u64, u32)> {
    let (mut random, mut told) = (3, Vec::new());
    for tick in 0..ticks {
        (0..mix(tick, 5) % 3).for_each(|_| random_message(host, &mut random));
        if host.tick() != 0 {
            break;
        }
        // A consumer that is late now and then.
        if tick % 16 > 9 {
            host.pop_all(|output| told.push((output.generation, output.kind)));
        }
    }
    told
}

fn of_kind(told: &[(u64, u32)], kind: u32) -> Vec<String> {
    let mut ids: Vec<u64> = told.iter().filter(|(id, told)| *told == kind && *id > 0).map(|(id, _)| *id).collect();
    ids.sort_unstable();
    ids.dedup();
    ids.iter().map(|id| format!("{id:#x}")).collect()
}

fn tells_of_a_random_life(lanes: u32, encode_lanes: u32, policy: u32, fails: bool) {
    let path = file(&format!("random_{lanes}_{encode_lanes}_{policy}_{fails}.json"));
    let world = World { fails, ..World::default() };
    let host = engine(&world, Some(&path), |_, options| {
        (options.lanes, options.encode_lanes) = (lanes, encode_lanes);
        (options.outbox_policy, options.outbox_depth) = (policy, 2);
    });
    let told = live(&host, 3000);
    stop(&host);
    let (info, trace) = (host.info(), TraceFile::read(&path));
    trace.agrees_with(&info);
    assert!(info.chunks > 500 && info.dropped > 0 && (info.failed_ticks > 0) == fails, "{}", info.failed_ticks);
    if !fails {
        // On streams the engine looks at HOT when its calls have returned, DEFERRED and ENCODE when they are done.
        let lanes = if lanes == RTE_LANES_HOST {
            &[RTE_DEFERRED, RTE_ENCODE][..]
        } else {
            &[RTE_HOT, RTE_DEFERRED, RTE_ENCODE]
        };
        lanes.iter().for_each(|lane| trace.lane_agrees_with(&info, *lane));
    }
    let lives: Vec<Stretch> =
        trace.stretches().into_iter().filter(|stretch| stretch.name.starts_with("session ")).collect();
    for id in of_kind(&told, RTE_ATTACHED) {
        assert!(lives.iter().any(|life| life.id == id), "the life {id} has no track");
    }
    let quarantined: Vec<String> = trace.doing("quarantined").into_iter().map(|stretch| stretch.id).collect();
    for id in of_kind(&told, RTE_ROW_FAILED) {
        assert!(quarantined.contains(&id), "the life {id} was quarantined");
    }
    assert_eq!(!trace.instants("row failed").is_empty(), fails);
    let doing = ["encoding", "paused", "held"].map(|name| trace.doing(name).len());
    // How long an encode lasts on threads is the machine's to say.
    assert!(lanes == RTE_LANES_THREADS || doing[0] > 100 && doing[1] > 20, "{doing:?}");
    assert_eq!(doing[2] > 0, policy == RTE_HOLD);
    println!("{} events, {} lives, {doing:?}", trace.events.len(), lives.len());
}

#[test]
fn on_all_kinds_of_lanes_it_is_what_viewers_ask_for_and_says_what_the_engine_counts() {
    for fails in [false, true] {
        tells_of_a_random_life(RTE_LANES_INLINE, 0, RTE_DROP_OLDEST, fails);
        tells_of_a_random_life(RTE_LANES_INLINE, 0, RTE_HOLD, fails);
        tells_of_a_random_life(RTE_LANES_THREADS, 0, RTE_DROP_NEWEST, fails);
        tells_of_a_random_life(RTE_LANES_THREADS, 3, RTE_DROP_OLDEST, fails);
        tells_of_a_random_life(RTE_LANES_HOST, 0, RTE_DROP_OLDEST, fails);
    }
}

const BESIDE: usize = 20;

fn wait_for(count: &AtomicU64, least: u64) {
    let begin = Instant::now();
    while count.load(SeqCst) < least {
        assert!(begin.elapsed() < Duration::from_secs(60), "it hangs");
        std::thread::yield_now();
    }
}

/// Two encodes that last while others step so often. `is_virtual`: 16 ms of the host's clock pass before each tick.
fn slow_encodes(name: &str, is_virtual: bool) -> (PathBuf, rte_engine_info) {
    let path = file(name);
    let world = World::default();
    let user = std::ptr::from_ref(&world).cast_mut().cast();
    let clock = clock_of(user);
    let host = engine(&world, Some(&path), |_, options| {
        (options.lanes, options.encode_lanes) = (RTE_LANES_THREADS, 2);
        options.clock = if is_virtual { &clock } else { std::ptr::null() };
    });
    let tick = || {
        world.now.fetch_add(16_000_000, SeqCst);
        assert_eq!(host.tick(), 0);
        host.pop_all(|_| {});
    };
    attach(&host, 0..6);
    let _opener = Opener(&world);
    (0..4).for_each(|_| tick());
    *world.is_shut.lock().unwrap() = true;
    for begun in [1, 2] {
        prompt(&host, SLOW + begun - 1, b"a volcano");
        tick();
        wait_for(&world.encodes_begun, begun);
    }
    (0..BESIDE).for_each(|_| tick());
    world.open();
    wait_for(&world.encodes_ended, 2);
    while host.info().encoding > 0 {
        std::thread::sleep(Duration::from_millis(1));
        tick();
    }
    (0..4).for_each(|_| tick());
    stop(&host);
    (path, host.info())
}

#[test]
fn a_slow_encode_is_seen_beside_the_ticks_of_those_who_do_not_wait_for_it() {
    let (path, info) = slow_encodes("slow.json", false);
    let trace = TraceFile::read(&path);
    trace.agrees_with(&info);
    assert_eq!(trace.tracks(), ["DEFERRED", "ENCODE 1", "ENCODE 2", "HOT", "sessions", "ticks"]);
    let (ticks, hots) = (trace.slices("ticks"), trace.slices("HOT"));
    for (track, session) in [("ENCODE 1", SLOW), ("ENCODE 2", SLOW + 1)] {
        let encodes = trace.slices(track);
        assert_eq!(encodes.len(), 1, "a track each");
        let encode = encodes[0];
        let beside: Vec<&&Event> = ticks.iter().filter(|tick| encode.covers(tick)).collect();
        assert!(beside.len() >= BESIDE, "{track}: beside {} ticks", beside.len());
        assert!(beside.iter().all(|tick| tick.number("stepped") >= 4));
        assert!(hots.iter().filter(|batch| encode.covers(batch)).all(|batch| batch.number("rows") >= 4));
        assert_eq!((encode.number("rows"), encode.args["first_session"].as_str()), (1, Some(&*session.to_string())));
        // On its session's track it sits out from the tick that has started it to the one that has applied it.
        let life = trace.doing(&format!("session {session}")).remove(0);
        let out = trace.doing("encoding").into_iter().find(|out| out.id == life.id).unwrap();
        let begin = encode.number("tick") as usize;
        assert!(out.begin == ticks[begin].at && life.begin <= out.begin && out.end <= life.end);
        assert!(ticks.iter().any(|tick| tick.at == out.end && encode.end() <= tick.end()));
    }
    assert_eq!(trace.doing("encoding").len(), 2, "nobody else sits out");
}

/// What `examples_c/timeline.py` makes of a trace, and `trace_file/picture.py` sees in that.
fn picture(trace: &Path) -> String {
    let picture = trace.with_extension("png");
    let python = |script: &str, arguments: &[&Path]| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join(script);
        let output = std::process::Command::new("python3").arg(script).args(arguments).output().unwrap();
        assert!(output.status.success() && output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        String::from_utf8(output.stdout).unwrap()
    };
    let said = python("examples_c/timeline.py", &[trace, &picture]);
    let seen = python("tests/trace_file/picture.py", &[&picture]);
    let size = said.trim_end().rsplit(": ").next().unwrap().to_string();
    assert!(seen.starts_with(&format!("{size}: ")), "{said}, but {seen}");
    seen
}

#[test]
fn in_a_picture_of_it_a_slow_encode_is_as_long_as_the_ticks_beside_it() {
    let (path, _) = slow_encodes("slow_virtual.json", true);
    let seen = picture(&path);
    let number = |name: &str| -> usize {
        let mut words = seen.split_whitespace().skip_while(|word| *word != name);
        words.nth(1).and_then(|word| word.parse().ok()).unwrap_or_else(|| panic!("{name}: {seen}"))
    };
    println!("{seen}");
    assert!(number("encode") > 500, "{seen}");
    for what in ["ticks", "hot", "deferred", "steps"] {
        assert!(number(what) >= BESIDE, "{what} beside it: {seen}");
    }
    // Whatever is in a trace has a picture.
    let world = World { fails: true, ..World::default() };
    let path = file("anything.json");
    let host = engine(&world, Some(&path), |_, options| options.outbox_depth = 1);
    live(&host, 300);
    drop(host);
    assert!(picture(&path).contains(" x "));
    // One of nobody, and one that was cut off.
    let (nobody, cut) = (file("nobody.json"), file("cut_here.json"));
    drop(engine(&World::default(), Some(&nobody), |_, _| {}));
    let text = std::fs::read_to_string(&path).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    std::fs::write(&cut, lines[..lines.len() / 2].join("\n")).unwrap();
    assert!(picture(&nobody).contains(" x ") && picture(&cut).contains(" x "));
}

#[test]
fn what_comes_faster_than_it_is_written_is_left_out_and_counted() {
    const TICKS: u64 = 60_000;
    let path = file("pipe");
    let _ = std::fs::remove_file(&path);
    // SAFETY: a path.
    assert_eq!(unsafe { libc::mkfifo(c_path(&path).as_ptr(), 0o600) }, 0);
    let world = World { is_shut: Mutex::new(true), ..World::default() };
    let text = std::thread::scope(|scope| {
        // A reader that takes nothing before it is let: what is written stands still at the size of the pipe.
        let reader = scope.spawn(|| {
            let mut pipe = std::fs::File::open(&path).unwrap();
            world.pass();
            let mut text = String::new();
            pipe.read_to_string(&mut text).unwrap();
            text
        });
        let opener = Opener(&world);
        let host = engine(&world, Some(&path), |_, options| options.lanes = RTE_LANES_INLINE);
        attach(&host, 0..1);
        (0..TICKS).for_each(|_| {
            assert_eq!(host.tick(), 0);
            host.pop_all(|_| {});
        });
        drop(opener);
        stop(&host);
        reader.join().unwrap()
    });
    let trace = TraceFile::of(&text);
    let left_out = trace.last().number("left_out");
    let said: u64 = trace.instants("left out").iter().map(|event| event.number("facts")).sum();
    assert!(left_out > 0 && said == left_out, "{left_out}, but {said} were said");
    // Ticks, and HOT and DEFERRED in each. Lives find their place.
    let slices = trace.events.iter().filter(|event| event.phase == "X").count() as u64;
    assert_eq!(slices + left_out, 3 * TICKS + 2, "and a seed and a detach");
    assert_eq!(trace.doing("session 0").len(), 1);
    println!("{slices} slices, {left_out} left out");
}

/// One step in ten takes two and a half periods.
fn uneven(tick: u64) -> u64 {
    if tick % 10 == 7 { 41_000_000 } else { 1_000_000 + tick % 1000 }
}

#[test]
fn in_the_time_of_the_hosts_clock_it_says_that_time() {
    const TICKS: u64 = 500;
    let path = file("virtual.json");
    let world = World { step: Some(uneven), stops_at: TICKS, ..World::default() };
    world.now.store(5_000_000_000, SeqCst);
    let user = std::ptr::from_ref(&world).cast_mut().cast();
    let clock = clock_of(user);
    let host = engine(&world, Some(&path), |model, options| {
        (model.rate_num, model.rate_den) = (60, 1);
        options.clock = &clock;
    });
    attach(&host, 0..1);
    world.engine.store(host.engine, SeqCst);
    // SAFETY: the engine lives.
    assert_eq!(unsafe { rte_engine_run(host.engine, std::ptr::null_mut()) }, 0);
    let (info, trace) = (host.info(), TraceFile::read(&path));
    trace.agrees_with(&info);
    let (ticks, hots) = (trace.slices("ticks"), trace.slices("HOT"));
    assert!(info.missed_deadlines > 0 && info.late_ticks >= 40, "{}", info.late_ticks);
    assert_eq!(ticks.iter().map(|tick| tick.length).max().unwrap(), info.tick_ns_max);
    let hots: Vec<&&Event> = hots.iter().filter(|batch| batch.name == "HOT").collect();
    assert_eq!((hots.len() as u64, info.ticks), (TICKS + 1, TICKS + 1));
    for (hot, tick) in hots.iter().zip(&ticks) {
        assert!(tick.covers(hot) && hot.length == uneven(hot.number("tick")), "{hot:?} in {tick:?}");
    }
    // On the grid, but where the one before was late.
    let is_on_grid = |tick: &&&Event| (tick.at - 5_000_000_000 + 1) * 60 % 1_000_000_000 <= 60;
    let off_grid = ticks.iter().filter(|tick| !is_on_grid(tick) && tick.args["late"] == false).count();
    assert_eq!(off_grid, 0);
}

#[test]
fn it_changes_nothing_of_what_is_recorded_and_a_replay_has_one_of_its_own() {
    let run = |name: &str, trace: Option<&Path>| {
        let world = World { fails: true, step: Some(uneven), ..World::default() };
        let user = std::ptr::from_ref(&world).cast_mut().cast();
        let clock = clock_of(user);
        let record = c_path(&file(name));
        let host = engine(&world, trace, |_, options| {
            (options.clock, options.record_path) = (&clock, record.as_ptr());
        });
        live(&host, 1000);
        stop(&host);
        std::fs::read(file(name)).unwrap()
    };
    let (with, without) = (run("with.rec", Some(&file("recorded.json"))), run("without.rec", None));
    assert!(with.len() > 10_000 && with == without);
    let recorded = TraceFile::read(&file("recorded.json"));

    let world = World { fails: true, ..World::default() };
    let host = engine(&world, Some(&file("replayed.json")), |_, _| {});
    let record = c_path(&file("with.rec"));
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives; a path and a place.
    let status = unsafe { rte_engine_replay(host.engine, record.as_ptr(), &mut error) };
    // SAFETY: zero, or NUL-terminated.
    assert_eq!(status, 0, "{:?}", unsafe { CStr::from_ptr(error.message.as_ptr()) });
    let replayed = TraceFile::read(&file("replayed.json"));
    let shape = |trace: &TraceFile| {
        let name = |event: &Event| (event.phase.clone(), event.track, event.name.clone(), event.id.clone());
        trace.events.iter().filter(|event| event.phase != "i" && event.phase != "n").map(name).collect::<Vec<_>>()
    };
    assert!(shape(&recorded) == shape(&replayed), "the same things happen in the same order");
    assert_eq!(recorded.instants("row failed").len(), replayed.instants("row failed").len());
}

#[test]
fn a_death_is_in_it_and_ends_all_lives() {
    for lanes in [RTE_LANES_INLINE, RTE_LANES_THREADS] {
        let path = file(&format!("dead_{lanes}.json"));
        let world = World { dies_at: 50, ..World::default() };
        let host = engine(&world, Some(&path), |_, options| options.lanes = lanes);
        attach(&host, 0..3);
        while host.tick() == 0 {}
        let trace = TraceFile::read(&path);
        let deaths = trace.instants("dead");
        assert_eq!(deaths.len(), 1);
        assert_eq!(deaths[0].args["stage"].as_str(), Some("move"));
        assert_eq!(trace.last().number("ticks"), host.info().ticks);
        assert_eq!((0..3).map(|session| trace.doing(&format!("session {session}")).len()).sum::<usize>(), 3);
    }
}

#[test]
fn it_is_whole_whether_the_engine_is_stopped_or_only_freed_or_was_never_driven() {
    let world = World::default();
    for ticks in [0, 1, 5] {
        let path = file(&format!("freed_{ticks}.json"));
        let host = engine(&world, Some(&path), |_, _| {});
        attach(&host, 0..2);
        (0..ticks).for_each(|_| assert_eq!(host.tick(), 0));
        drop(host);
        let trace = TraceFile::read(&path);
        assert_eq!((trace.slices("ticks").len(), trace.last().number("ticks")), (ticks, ticks as u64));
    }
}

#[test]
fn of_an_engine_that_is_freed_while_a_stage_hangs_it_is_ended_by_whoever_hung() {
    let path = file("hung.json");
    // Freed is the handle alone: the thread that hangs has the rest.
    let world: &World = Box::leak(Box::default());
    let host = engine(world, Some(&path), |_, _| {});
    attach(&host, SLOW..SLOW + 1);
    *world.is_shut.lock().unwrap() = true;
    prompt(&host, SLOW, b"a volcano");
    let _opener = Opener(world);
    // SAFETY: the engine lives.
    unsafe {
        assert_eq!(rte_engine_start(host.engine, std::ptr::null_mut()), 0);
        wait_for(&world.encodes_begun, 1);
        let timeout = rte_status_code::RTE_TIMEOUT as i32;
        assert_eq!(rte_engine_stop(host.engine, 1_000_000, std::ptr::null_mut()), timeout);
    }
    drop(host);
    let is_ended = || std::fs::read_to_string(&path).unwrap().ends_with("\n]\n");
    assert!(!is_ended());
    world.open();
    let begin = Instant::now();
    while !is_ended() {
        assert!(begin.elapsed() < Duration::from_secs(60), "it hangs");
        std::thread::sleep(Duration::from_millis(1));
    }
    assert_eq!(TraceFile::read(&path).instants("dead").len(), 1);
}

/// In a process of its own.
fn die_in_the_middle(path: &Path) {
    let world = World::default();
    let host = engine(&world, Some(path), |_, _| {});
    attach(&host, 0..3);
    let begin = Instant::now();
    while std::fs::metadata(path).unwrap().len() < 100_000 && begin.elapsed() < Duration::from_secs(60) {
        assert_eq!(host.tick(), 0);
        host.pop_all(|_| {});
    }
    std::process::abort();
}

#[test]
fn what_a_process_leaves_that_dies_in_the_middle_lacks_no_more_than_the_end_of_the_array() {
    const CHILD: &str = "RTE_TRACE_OF_A_CHILD";
    let path = file("cut.json");
    if std::env::var_os(CHILD).is_some() {
        return die_in_the_middle(&path);
    }
    let _ = std::fs::remove_file(&path);
    let name = "what_a_process_leaves_that_dies_in_the_middle_lacks_no_more_than_the_end_of_the_array";
    let mut child = std::process::Command::new(std::env::current_exe().unwrap());
    child.args([name, "--exact", "--test-threads=1"]).env(CHILD, "1").stdout(std::process::Stdio::null());
    let status = child.stderr(std::process::Stdio::null()).status().unwrap();
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(libc::SIGABRT));
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.len() >= 100_000 && text.starts_with("[\n{"));
    // The system may have cut the last write in the middle.
    let whole = if text.ends_with('}') { &text[..] } else { &text[..text.rfind(",\n").unwrap()] };
    let json: serde_json::Value = serde_json::from_str(&format!("{whole}\n]")).unwrap();
    let count = |name: &str| json.as_array().unwrap().iter().filter(|event| event["name"] == name).count();
    assert!(count("tick") > 100 && count("session 2") == 1 && count("end") == 0);
}

#[test]
fn without_one_there_is_no_thread_and_no_ring_and_with_one_both_go_with_the_engine() {
    process::alone("without_one_there_is_no_thread_and_no_ring_and_with_one_both_go_with_the_engine", || {
        let world = World::default();
        let take = |path: Option<&Path>| {
            let before = Possessions::now();
            let host = engine(&world, path, |_, _| {});
            let made = Possessions::now();
            assert_eq!(made.threads, before.threads, "rte_engine_new makes no thread");
            assert_eq!(host.tick(), 0);
            let ticked = Possessions::now();
            drop(host);
            let after = Possessions::when_threads_are(before.threads);
            let taken = (made.bytes - before.bytes, ticked.threads - before.threads);
            (taken, ticked.descriptors - before.descriptors, after == before)
        };
        let path = file("possessions.json");
        // What the process makes once it makes now, the test's harness included.
        (0..50).for_each(|_| _ = take(Some(&path)));
        let ((bytes, threads), descriptors, is_as_before) = take(None);
        assert_eq!((threads, descriptors, is_as_before), (0, 0, true));
        let ((more_bytes, threads), descriptors, is_as_before) = take(Some(&path));
        assert_eq!((threads, descriptors, is_as_before), (1, 1, true));
        assert!(more_bytes > bytes + (1 << 20), "{bytes} bytes without, {more_bytes} with");
        println!("{bytes} bytes without one, {more_bytes} with one");
    });
}
