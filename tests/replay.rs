//! What an engine was told is on record, and the same model makes of it the same chunks again, failing or not, on any
//! lanes. A record that is not whole, or of something else, is refused in words.

mod driver;
mod replay_host;

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;
use replay_host::*;

const ROWS: usize = 6;
const TICKS: u64 = 10_000;
const ACTION: u32 = 0;
const PROMPT: u32 = 1;
const KEYS: [rte_key; 2] =
    [rte_key { size: 8, r#type: RTE_I64, merge: RTE_MERGE_SUM, ..NO_KEY }, rte_key { flags: RTE_KEY_HEAVY, ..NO_KEY }];
const NO_KEY: rte_key =
    rte_key { name: std::ptr::null(), size: 0, r#type: RTE_BYTES, merge: RTE_MERGE_LATEST, flags: 0, reserved: 0 };

/// A model whose chunks tell of all that it was shown. Each row has what its lanes own.
#[derive(Default)]
struct Model {
    state: [AtomicU64; ROWS],
    latent: [[AtomicU64; ROWS]; 2],
    prompt: [AtomicU64; ROWS],
    /// Some of its calls fail, of rows and as a whole.
    fails: bool,
    /// In this tick it is dead.
    dies_at: u64,
}

/// The model's rows in a batch: position and row.
unsafe fn rows<'a>(user: *mut c_void, batch: *mut rte_batch) -> (&'a Model, &'a rte_batch, Vec<(usize, usize)>) {
    // SAFETY: the test's model, and the arrays of a batch.
    unsafe {
        let (model, batch) = (&*user.cast::<Model>(), &*batch);
        (model, batch, (0..batch.count as usize).map(|at| (at, *batch.row.add(at) as usize)).collect())
    }
}

unsafe fn bytes(batch: &rte_batch, at: usize, key: u32) -> u64 {
    // SAFETY: a value of a batch.
    unsafe {
        let value = &*(*batch.value.add(at)).add(key as usize);
        let bytes =
            if value.size == 0 { &[][..] } else { std::slice::from_raw_parts(value.data.cast::<u8>(), value.size) };
        bytes.iter().fold(value.size as u64, |sum, byte| mix(sum, u64::from(*byte)))
    }
}

/// Fails rows and batches by what they are: the same again when it is repeated.
unsafe fn failure(model: &Model, batch: &rte_batch, lane: u64) -> i32 {
    if !model.fails {
        return 0;
    }
    for at in 0..batch.count as usize {
        // SAFETY: arrays of a batch.
        unsafe {
            if mix(*batch.generation.add(at), *batch.age.add(at) * 7 + lane).is_multiple_of(499) {
                *batch.status.add(at) = -1000 - lane as i32;
            }
        }
    }
    if mix(batch.tick, lane).is_multiple_of(97) { -2000 - lane as i32 } else { 0 }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a hook of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        for (at, row) in rows {
            model.state[row].store(mix(*batch.session.add(at), *batch.generation.add(at)), SeqCst);
            model.prompt[row].store(bytes(batch, at, PROMPT), SeqCst);
        }
        failure(model, batch, 4)
    }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        if model.dies_at > 0 && batch.tick == model.dies_at {
            return rte_status_code::RTE_ERR_DEAD as i32;
        }
        for (at, row) in rows {
            let prompt = model.prompt[row].load(SeqCst);
            let told = mix(bytes(batch, at, ACTION), *batch.changed.add(at)) ^ mix(prompt, *batch.age.add(at));
            let state = mix(model.state[row].load(SeqCst), told);
            model.state[row].store(state, SeqCst);
            model.latent[batch.slot as usize][row].store(state, SeqCst);
        }
        failure(model, batch, 0)
    }
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        for (at, row) in rows {
            let latent = model.latent[batch.slot as usize][row].load(SeqCst);
            (*batch.output.add(at)).cast::<u64>().write(latent);
            *batch.output_size.add(at) = if latent.is_multiple_of(13) { 0 } else { 8 };
        }
        failure(model, batch, 1)
    }
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        for (at, row) in rows {
            model.prompt[row].store(bytes(batch, at, PROMPT), SeqCst);
        }
        failure(model, batch, 2)
    }
}

// ---- runs

unsafe extern "C-unwind" fn take(user: *mut c_void, output: *mut rte_output) {
    // SAFETY: the test's list; the record is ours until we return, and is released once.
    unsafe {
        let it = &mut *output;
        (*user.cast::<Mutex<Vec<Line>>>()).lock().unwrap().push(line_of(it));
        rte_output_release(it, std::ptr::null_mut());
    }
}

struct Setup<'a> {
    lanes: u32,
    policy: u32,
    model: &'a Model,
    max_sessions: u32,
    record: Option<&'a Path>,
}

impl Setup<'_> {
    fn host(&self, told: &Mutex<Vec<Line>>) -> Host {
        self.host_on(told, &backend())
    }

    /// On this backend, where it is a host's.
    fn host_on(&self, told: &Mutex<Vec<Line>>, backend: &rte_backend) -> Host {
        let stages = [stage(RTE_HOT, hot), stage(RTE_DEFERRED, deferred), stage(RTE_ENCODE, encode)];
        let model = rte_model {
            user: std::ptr::from_ref(self.model).cast_mut().cast(),
            keys: KEYS.as_ptr(),
            key_count: 2,
            seed: Some(seed),
            ..model(&stages, self.max_sessions, 8)
        };
        let path = self.record.map(|path| CString::new(path.to_str().unwrap()).unwrap());
        let options = rte_engine_options {
            lanes: self.lanes,
            backend: if self.lanes == RTE_LANES_HOST { backend } else { std::ptr::null() },
            pipeline: RTE_PIPELINE_ON,
            outbox_policy: self.policy,
            on_output: Some(take),
            on_output_user: std::ptr::from_ref(told).cast_mut().cast(),
            record_path: path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr()),
            ..options()
        };
        Host::new(&model, &options)
    }
}

fn random_message(host: &Host, random: &mut u64) {
    *random = mix(*random, 1);
    let dice = *random;
    let kind = match dice % 32 {
        0 | 1 => RTE_ATTACH,
        2 => RTE_DETACH,
        3 => RTE_RESET,
        4 => RTE_PAUSE,
        5 | 6 => RTE_RESUME,
        _ => RTE_ACTION,
    };
    let flags = if kind == RTE_DETACH || kind == RTE_ACTION { (dice >> 8 & 1) as u32 } else { 0 };
    let message = rte_message { flags, tag: dice >> 40, user: dice >> 50, ..message(kind, dice >> 16 & 7) };
    let (action, prompt) = ((dice % 100).to_ne_bytes(), [(dice >> 24) as u8 % 4; 300]);
    let values = [value(ACTION, &action), value(PROMPT, &prompt[..(dice >> 32 & 255) as usize])];
    let has_values = matches!(kind, RTE_ATTACH | RTE_RESET | RTE_ACTION);
    let count = if !has_values {
        0
    } else if dice >> 60 < 3 {
        2
    } else {
        1
    };
    // A full inbox takes no more; what it took is on record.
    let _ = host.push(message, &values[..count]);
}

/// Ticks an engine, or lets it run free while messages come in when they like.
fn run(host: &Host, is_driven: bool, seed: u64) {
    let mut random = seed;
    if is_driven {
        for tick in 0..TICKS {
            for _ in 0..mix(tick, seed) % 3 {
                random_message(host, &mut random);
            }
            // Some with a list of who is due, some in several calls.
            let due = [0u64, 2, 3, 5];
            // SAFETY: the engine lives and is ticked by this thread.
            let step = || unsafe {
                if tick % 5 == 0 {
                    rte_engine_step(host.engine, due.as_ptr(), 4, 0)
                } else {
                    rte_engine_tick(host.engine, 0)
                }
            };
            let mut status = step();
            while status == rte_status_code::RTE_AGAIN as i32 {
                status = step();
            }
            if status != 0 {
                break;
            }
        }
    } else {
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_start(host.engine, std::ptr::null_mut()) }, 0);
        while host.info().ticks < TICKS && host.info().health == 0 {
            random_message(host, &mut random);
            std::thread::yield_now();
        }
    }
    // SAFETY: the engine lives.
    unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) };
}

fn replay(host: &Host, path: &Path) -> (i32, String) {
    let path = CString::new(path.to_str().unwrap()).unwrap();
    let mut error: rte_error = zeroed();
    // SAFETY: the engine lives; a path and a place.
    let status = unsafe { rte_engine_replay(host.engine, path.as_ptr(), &mut error) };
    // SAFETY: zero, or NUL-terminated.
    (status, unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned())
}

fn file(name: &str) -> PathBuf {
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

/// Records a run and repeats it: the outputs have to be the same, from the first to the last.
fn twice(name: &str, lanes: u32, policy: u32, is_driven: bool, model: impl Fn() -> Model) {
    let path = file(name);
    let (first, second) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
    let (model, again) = (model(), model());
    let setup = Setup { lanes, policy, model: &model, max_sessions: ROWS as u32, record: Some(&path) };
    let host = setup.host(&first);
    run(&host, is_driven, 11);
    let ticks = host.info().ticks;
    let is_dead = host.info().health != 0;
    drop(host);
    let host = Setup { record: None, model: &again, ..setup }.host(&second);
    let (status, message) = replay(&host, &path);
    let expected = if is_dead { rte_status_code::RTE_ERR_DEAD as i32 } else { 0 };
    assert_eq!(status, expected, "{message}");
    assert_eq!(host.info().ticks, ticks);
    let (first, second) = (first.into_inner().unwrap(), second.into_inner().unwrap());
    let chunks = first.iter().filter(|(line, _)| line[0] == RTE_CHUNK.into()).count();
    for (at, (was, is)) in first.iter().zip(&second).enumerate() {
        assert_eq!(was, is, "output {at} of {}", first.len());
    }
    assert_eq!(first.len(), second.len());
    let size = std::fs::metadata(&path).unwrap().len();
    println!("{name}: {ticks} ticks, {chunks} chunks, {} outputs again; {} bytes a tick", first.len(), size / ticks);
    // How many sessions there are when in an engine that runs free is the system's to say, and on threads how many ticks
    // an encode takes.
    assert!(chunks as u64 > if is_driven && lanes != RTE_LANES_THREADS { ticks / 2 } else { 0 });
}

fn sound() -> Model {
    Model::default()
}

fn failing() -> Model {
    Model { fails: true, ..Model::default() }
}

#[test]
fn ten_thousand_ticks_on_inline_lanes_are_repeated_chunk_for_chunk() {
    twice("inline", RTE_LANES_INLINE, RTE_DROP_OLDEST, true, sound);
    twice("inline_failing", RTE_LANES_INLINE, RTE_HOLD, true, failing);
}

#[test]
fn ten_thousand_ticks_on_threads_lanes_are_repeated_chunk_for_chunk() {
    twice("threads", RTE_LANES_THREADS, RTE_DROP_OLDEST, true, sound);
    twice("threads_free", RTE_LANES_THREADS, RTE_HOLD, false, sound);
    twice("threads_failing", RTE_LANES_THREADS, RTE_DROP_OLDEST, true, failing);
}

#[test]
fn ten_thousand_ticks_on_a_hosts_lanes_are_repeated_chunk_for_chunk() {
    twice("host", RTE_LANES_HOST, RTE_HOLD, true, sound);
    twice("host_failing", RTE_LANES_HOST, RTE_DROP_OLDEST, false, failing);
}

#[test]
fn a_death_is_repeated() {
    twice("dead", RTE_LANES_INLINE, RTE_DROP_OLDEST, true, || Model { dies_at: 5000, ..Model::default() });
}

/// A short record of a run, and what it was made with.
fn short(name: &str, ticks: u64, model: &Model) -> PathBuf {
    let (path, told) = (file(name), Mutex::new(Vec::new()));
    let host = Setup { lanes: RTE_LANES_INLINE, policy: 0, model, max_sessions: 4, record: Some(&path) }.host(&told);
    host.push(message(RTE_ATTACH, 1), &[]);
    for _ in 0..ticks {
        assert_eq!(host.tick(), 0);
    }
    drop(host);
    path
}

fn refused(path: &Path, max_sessions: u32, model: &Model) -> (i32, String) {
    let told = Mutex::new(Vec::new());
    let host = Setup { lanes: RTE_LANES_INLINE, policy: 0, model, max_sessions, record: None }.host(&told);
    let answer = replay(&host, path);
    let nothing_was_told = told.lock().unwrap().is_empty();
    assert!(nothing_was_told || answer.0 != rte_status_code::RTE_ERR_ARGUMENT as i32, "a refused record is not begun");
    answer
}

#[test]
fn a_record_that_is_cut_off_or_damaged_at_any_byte_is_refused() {
    let model = Model::default();
    let path = short("whole", 4, &model);
    let whole = std::fs::read(&path).unwrap();
    assert_eq!(refused(&path, 4, &model), (0, String::new()));
    println!("{} bytes", whole.len());
    for at in 0..whole.len() {
        let cut = file("cut");
        std::fs::write(&cut, &whole[..at]).unwrap();
        let (status, message) = refused(&cut, 4, &model);
        assert_eq!(status, rte_status_code::RTE_ERR_ARGUMENT as i32, "cut at {at}");
        assert!(message.contains("cut off") || message.contains("not a record"), "{message}");
        let mut damaged = whole.clone();
        damaged[at] ^= 0x40;
        std::fs::write(&cut, &damaged).unwrap();
        let (status, message) = refused(&cut, 4, &model);
        assert_eq!(status, rte_status_code::RTE_ERR_ARGUMENT as i32, "damaged at {at}: {message}");
    }
}

#[test]
fn a_record_of_something_else_is_refused_with_what_differs() {
    let model = Model::default();
    let path = short("foreign", 50, &model);
    let (status, message) = refused(&path, 5, &model);
    assert_eq!(status, rte_status_code::RTE_ERR_ARGUMENT as i32);
    assert!(
        message.ends_with("of another engine: there model.max_sessions: 4; here model.max_sessions: 5"),
        "{message}"
    );
    assert!(refused(&file("none"), 4, &model).1.contains("No such file"));
    std::fs::write(file("text"), "a text\n").unwrap();
    assert!(refused(&file("text"), 4, &model).1.contains("not a record"));
}

#[test]
fn a_model_that_does_not_repeat_itself_is_told_where() {
    let model = Model::default();
    let path = short("strange", 50, &model);
    let strange = Model { fails: true, ..Model::default() };
    let (status, message) = refused(&path, 4, &strange);
    assert_eq!(status, rte_status_code::RTE_ERR_STATE as i32);
    assert!(message.contains("a batch came to") && message.contains("call "), "{message}");
}

#[test]
fn a_record_that_cannot_be_made_is_refused_when_the_engine_is() {
    let (model, stages) = (Model::default(), [stage(RTE_HOT, hot)]);
    let table = rte_model { user: std::ptr::from_ref(&model).cast_mut().cast(), ..driver::model(&stages, 4, 8) };
    let options = rte_engine_options { record_path: c"/nowhere/at/all".as_ptr(), ..options() };
    let (mut engine, mut error): (*mut rte_engine, rte_error) = (std::ptr::null_mut(), zeroed());
    // SAFETY: valid descriptors and places.
    let status = unsafe { rte_engine_new(&table, &options, &mut engine, &mut error) };
    // SAFETY: written on error.
    let message = unsafe { CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy();
    assert_eq!(status, rte_status_code::RTE_ERR_ARGUMENT as i32);
    assert!(message.starts_with("options.record_path: /nowhere/at/all: "), "{message}");
}

#[test]
fn an_engine_that_was_driven_replays_nothing() {
    let model = Model::default();
    let path = short("driven", 50, &model);
    let told = Mutex::new(Vec::new());
    let host = Setup { lanes: RTE_LANES_INLINE, policy: 0, model: &model, max_sessions: 4, record: None }.host(&told);
    assert_eq!(host.tick(), 0);
    assert_eq!(replay(&host, &path).0, rte_status_code::RTE_ERR_STATE as i32);
    assert_eq!(host.tick(), 0, "and goes on");
}

// ---- a device that fails

/// Which of the functions below fails, and after how many calls of it.
static FAILING: AtomicU64 = AtomicU64::new(0);
static LEFT: AtomicU64 = AtomicU64::new(0);
const BROKEN: i32 = rte_status_code::RTE_ERR_DEVICE as i32;

/// What a call of function `number` comes to. From the one on that fails all do.
fn come_to(number: u64) -> i32 {
    let is_over = || LEFT.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1)).is_err();
    if FAILING.load(SeqCst) == number && is_over() { BROKEN } else { 0 }
}

unsafe extern "C-unwind" fn fail_event_new(_: *mut c_void, out: *mut rte_event) -> i32 {
    // SAFETY: the engine's place for an event.
    unsafe { out.write(std::ptr::without_provenance_mut(1)) };
    come_to(1)
}
unsafe extern "C-unwind" fn fail_record(_: *mut c_void, _: rte_event, _: rte_stream) -> i32 {
    come_to(2)
}
unsafe extern "C-unwind" fn fail_wait(_: *mut c_void, _: rte_stream, _: rte_event) -> i32 {
    come_to(3)
}
/// Not yet, on the first look.
unsafe extern "C-unwind" fn fail_query(_: *mut c_void, _: rte_event) -> i32 {
    let luck = mix(LUCK.fetch_add(1, SeqCst), 7);
    if come_to(4) != 0 { BROKEN } else { i32::from(!luck.is_multiple_of(3)) }
}
unsafe extern "C-unwind" fn fail_sync(_: *mut c_void, _: rte_event, _: u64) -> i32 {
    come_to(5)
}

#[test]
fn a_record_that_ends_with_the_death_of_a_device_is_repeated_up_to_it_and_says_so() {
    let table = rte_backend {
        event_new: Some(fail_event_new),
        record: Some(fail_record),
        wait: Some(fail_wait),
        query: Some(fail_query),
        sync: Some(fail_sync),
        ..backend()
    };
    let mut deaths = [0; 6];
    for (number, left) in (1..=5).flat_map(|number| (0..60).map(move |left| (number, left))) {
        let path = file("device");
        let (first, second) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        let (model, again) = (Model::default(), Model::default());
        let setup =
            Setup { lanes: RTE_LANES_HOST, policy: RTE_HOLD, model: &model, max_sessions: 4, record: Some(&path) };
        let host = setup.host_on(&first, &table);
        LEFT.store(left, SeqCst);
        FAILING.store(number, SeqCst);
        let mut random = left;
        // The first tick makes the streams: what that comes to it returns itself.
        let is_alive = |host: &Host| host.info().health == 0;
        while is_alive(&host) && host.info().ticks < 40 {
            (0..3).for_each(|_| random_message(&host, &mut random));
            host.tick();
        }
        // SAFETY: the engine lives, and is ticked by this thread.
        assert_eq!(unsafe { rte_engine_stop(host.engine, u64::MAX, std::ptr::null_mut()) }, 0);
        let (ticks, is_dead) = (host.info().ticks, !is_alive(&host));
        drop(host);
        FAILING.store(0, SeqCst);
        let host = Setup { record: None, model: &again, ..setup }.host_on(&second, &table);
        let (status, message) = replay(&host, &path);
        let expected = if is_dead { (rte_status_code::RTE_ERR_DEAD as i32, BROKEN) } else { (0, 0) };
        assert_eq!((status, host.info().health), expected, "function {number}, call {left}: {message}");
        assert_eq!(host.info().ticks, ticks, "function {number}, call {left}");
        drop(host);
        assert_eq!(first.into_inner().unwrap(), second.into_inner().unwrap(), "function {number}, call {left}");
        deaths[number as usize] += usize::from(is_dead);
    }
    assert!(deaths[1..].iter().all(|deaths| *deaths > 4), "{deaths:?}");
}

#[test]
fn a_record_with_a_hole_of_zeros_in_it_is_refused() {
    let model = Model::default();
    let path = short("hole", 2, &model);
    let whole = std::fs::read(&path).unwrap();
    for at in 0..=whole.len() {
        let mut bytes = whole[..at].to_vec();
        bytes.resize(at + 8, 0);
        bytes.extend_from_slice(&whole[at..]);
        let holed = file("holed");
        std::fs::write(&holed, &bytes).unwrap();
        let (status, message) = refused(&holed, 4, &model);
        assert_eq!(status, rte_status_code::RTE_ERR_ARGUMENT as i32, "at {at}: {message}");
    }
}

#[test]
fn a_record_is_refused_under_another_policy_for_slow_consumers() {
    let (model, told) = (Model::default(), Mutex::new(Vec::new()));
    let path = short("policy", 50, &model);
    let setup = Setup { lanes: RTE_LANES_INLINE, policy: RTE_HOLD, model: &model, max_sessions: 4, record: None };
    let (status, message) = replay(&setup.host(&told), &path);
    assert_eq!(status, rte_status_code::RTE_ERR_ARGUMENT as i32, "{message}");
    assert!(
        message.ends_with("there options.outbox_policy: RTE_DROP_OLDEST; here options.outbox_policy: RTE_HOLD"),
        "{message}"
    );
}

#[test]
fn an_engine_that_records_replays_nothing_and_may_be_driven_all_the_same() {
    let (model, told) = (Model::default(), Mutex::new(Vec::new()));
    let (path, own) = (short("first", 50, &model), file("own"));
    let setup = Setup { lanes: RTE_LANES_INLINE, policy: 0, model: &model, max_sessions: 4, record: Some(&own) };
    let host = setup.host(&told);
    let (status, message) = replay(&host, &path);
    assert_eq!(status, rte_status_code::RTE_ERR_STATE as i32);
    assert!(message.starts_with("options.record_path: set: "), "{message}");
    assert_eq!(host.tick(), 0);
    drop(host);
    assert_eq!(refused(&own, 4, &model), (0, String::new()), "what it records is whole");
}

#[test]
fn an_engine_that_has_messages_already_replays_nothing_and_says_why() {
    let (model, told) = (Model::default(), Mutex::new(Vec::new()));
    let path = short("pushed", 50, &model);
    let host = Setup { lanes: RTE_LANES_INLINE, policy: 0, model: &model, max_sessions: 4, record: None }.host(&told);
    assert_eq!(host.push(message(RTE_ATTACH, 7), &[]), 0);
    let (status, message) = replay(&host, &path);
    assert_eq!(status, rte_status_code::RTE_ERR_STATE as i32);
    assert!(message.contains("messages"), "{message}");
    assert_eq!(host.tick(), 0, "and may be driven");
    assert_eq!(host.info().attached, 1);
}

// ---- who pops in the middle of a drain

unsafe extern "C-unwind" fn one_byte(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe { std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1) };
    0
}

/// Pops all there is: a release may, on the engine's thread in its drain.
unsafe extern "C-unwind" fn pop_in_a_release(engine: *mut c_void) {
    let mut output = zeroed();
    // SAFETY: the engine lives; each output is released once.
    unsafe {
        while rte_outbox_pop(engine.cast(), &mut output) == 0 {
            rte_output_release(&mut output, std::ptr::null_mut());
        }
    }
}

#[test]
fn who_came_back_when_its_end_was_popped_in_the_middle_of_a_drain_comes_back_in_the_replay() {
    let stages = [stage(RTE_HOT, one_byte)];
    let keys = [rte_key { size: 8, ..NO_KEY }];
    let model = rte_model { keys: keys.as_ptr(), key_count: 1, ..model(&stages, 2, 8) };
    let path = file("told_in_a_drain");
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let host = Host::new(&model, &rte_engine_options { record_path: name.as_ptr(), ..options() });
    let send = |message: rte_message, values: &[rte_value]| assert_eq!(host.push(message, values), 0);
    send(message(RTE_ATTACH, 1), &[]);
    send(message(RTE_ATTACH, 2), &[]);
    assert_eq!(host.tick(), 0);
    send(rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, 1) }, &[]);
    assert_eq!(host.tick(), 0);
    let lent = rte_value { flags: RTE_VALUE_BORROWED, ..value(0, &[7; 8]) };
    let release_user = host.engine.cast();
    send(rte_message { release: Some(pop_in_a_release), release_user, ..message(RTE_ACTION, 2) }, &[lent]);
    send(message(RTE_ATTACH, 1), &[]);
    assert_eq!(host.tick(), 0);
    let mut told = Vec::new();
    host.pop_all(|output| told.push((output.kind, output.session, output.generation, output.flags)));
    assert!(told.contains(&(RTE_ATTACHED, 1, 3, 0)), "{told:?}");
    drop(host);
    let host = Host::new(&model, &options());
    assert_eq!(replay(&host, &path), (0, String::new()));
    told.clear();
    host.pop_all(|output| told.push((output.kind, output.session, output.generation, output.flags)));
    assert!(told.contains(&(RTE_ATTACHED, 1, 3, 0)), "{told:?}");
}

/// In a replay that nobody pops from meanwhile, too.
#[test]
fn a_replay_tells_each_end_also_where_nobody_pops_until_it_is_over() {
    let stages = [stage(RTE_HOT, one_byte)];
    let model = model(&stages, 1, 8);
    let path = file("drained_and_back");
    let name = CString::new(path.to_str().unwrap()).unwrap();
    let host = Host::new(&model, &rte_engine_options { record_path: name.as_ptr(), ..options() });
    let mut told = Vec::new();
    for life in 1..=3 {
        assert_eq!(host.push(message(RTE_ATTACH, life), &[]), 0);
        assert_eq!(host.tick(), 0);
        assert_eq!(host.push(rte_message { flags: RTE_DRAIN, ..message(RTE_DETACH, life) }, &[]), 0);
        assert_eq!(host.tick(), 0);
        host.pop_all(|output| told.push((output.kind, output.generation)));
    }
    assert_eq!(host.tick(), 0);
    drop(host);
    let host = Host::new(&model, &options());
    assert_eq!(replay(&host, &path), (0, String::new()));
    let mut again = Vec::new();
    host.pop_all(|output| again.push((output.kind, output.generation)));
    let ends = |told: &[(u32, u64)]| told.iter().filter(|told| told.0 != RTE_CHUNK).copied().collect::<Vec<_>>();
    let (mut told, mut again) = (ends(&told), ends(&again));
    told.sort();
    again.sort();
    assert_eq!(told, again);
}
