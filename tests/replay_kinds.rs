//! A record of a model of any kind is repeated output for output, whatever its flags and hooks, on each kind of lanes, under
//! each policy, with a stop in the middle of a tick, and with consumers that kept outputs for a while.

mod driver;
mod replay_host;

use std::ffi::{CStr, CString, c_void};
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;
use replay_host::*;

const ROWS: usize = 4;
const TICKS: u64 = 120;
const SUM: u32 = 0;
const PROMPT: u32 = 1;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const CLOSED: i32 = rte_status_code::RTE_CLOSED as i32;

/// What is drawn for a run.
#[derive(Clone, Copy, Debug)]
struct Kind {
    seed: u64,
    lanes: u32,
    flags: u32,
    pipeline: u32,
    encode_lanes: u32,
    policy: u32,
    fails: bool,
    dies: bool,
    is_gated: bool,
    has_deferred: bool,
    keeps: bool,
}

impl Kind {
    fn of(seed: u64) -> Kind {
        let dice = |number: u64, sides: u64| mix(mix(seed, 99), number) % sides;
        let lanes = [RTE_LANES_INLINE, RTE_LANES_THREADS, RTE_LANES_HOST][dice(0, 3) as usize];
        let flag = |number: u64, flag: u32| if dice(number, 2) == 0 { flag } else { 0 };
        let outputs = match dice(1, 4) {
            0 => RTE_MODEL_OWN_OUTPUT | if lanes == RTE_LANES_HOST { RTE_MODEL_DEVICE_OUTPUT } else { 0 },
            1 => RTE_MODEL_OUTPUT_BLOCK,
            2 => RTE_MODEL_OWN_OUTPUT,
            _ => 0,
        };
        let flags = outputs
            | flag(2, RTE_MODEL_DENSE)
            | flag(3, RTE_MODEL_SEED_ASIDE)
            | flag(4, RTE_MODEL_RETRY_SAFE)
            | if dice(5, 8) == 0 { RTE_MODEL_NO_MIDRUN } else { 0 };
        let policy = [RTE_DROP_OLDEST, RTE_DROP_NEWEST, RTE_HOLD][dice(8, 3) as usize];
        Kind {
            seed,
            lanes,
            flags,
            pipeline: [RTE_PIPELINE_ON, RTE_PIPELINE_OFF][dice(6, 2) as usize],
            encode_lanes: if lanes == RTE_LANES_INLINE { 0 } else { dice(7, 4) as u32 },
            policy,
            fails: dice(9, 2) == 0,
            dies: dice(10, 6) == 0,
            is_gated: dice(11, 3) == 0,
            has_deferred: dice(12, 3) != 0,
            // Under the others it would lose chunks, which one that keeps none does not.
            keeps: policy == RTE_HOLD && dice(13, 2) == 0,
        }
    }
}

/// A model whose chunks tell of all that it was shown.
struct Model {
    kind: Kind,
    state: [AtomicU64; ROWS],
    latent: [[AtomicU64; ROWS]; 2],
    prompt: [AtomicU64; ROWS],
    owed: AtomicU64,
}

impl Model {
    fn new(kind: Kind) -> Model {
        Model {
            kind,
            state: Default::default(),
            latent: Default::default(),
            prompt: Default::default(),
            owed: AtomicU64::new(0),
        }
    }
}

/// The model's rows in a batch: position and row.
unsafe fn rows<'a>(user: *mut c_void, batch: *mut rte_batch) -> (&'a Model, &'a rte_batch, Vec<(usize, usize)>) {
    // SAFETY: the test's model, and the arrays of a batch.
    unsafe {
        let (model, batch) = (&*user.cast::<Model>(), &*batch);
        let rows = (0..batch.count as usize).map(|at| (at, *batch.row.add(at) as usize));
        (model, batch, rows.filter(|(_, row)| *batch.mask.add(*row) != 0).collect())
    }
}

unsafe fn shown(batch: &rte_batch, at: usize, key: u32) -> u64 {
    // SAFETY: a value of a batch.
    unsafe {
        let value = &*(*batch.value.add(at)).add(key as usize);
        let bytes =
            if value.size == 0 { &[][..] } else { std::slice::from_raw_parts(value.data.cast::<u8>(), value.size) };
        bytes.iter().fold(value.size as u64, |sum, byte| mix(sum, u64::from(*byte)))
    }
}

/// Fails rows and calls by what they are: the same again when it is repeated.
unsafe fn failure(model: &Model, batch: &rte_batch, lane: u64, rows: &[(usize, usize)]) -> i32 {
    if model.kind.dies && batch.tick > 80 && mix(batch.tick, lane + 5).is_multiple_of(23) {
        return DEAD;
    }
    if !model.kind.fails {
        return 0;
    }
    for (at, _) in rows {
        // SAFETY: arrays of a batch.
        unsafe {
            if mix(*batch.generation.add(*at), *batch.age.add(*at) * 7 + lane).is_multiple_of(61) {
                *batch.status.add(*at) = -1000 - lane as i32;
            }
        }
    }
    if mix(batch.tick / 2, lane).is_multiple_of(17) { -2000 - lane as i32 } else { 0 }
}

unsafe extern "C-unwind" fn ready(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's model, and a batch.
    let (model, tick) = unsafe { (&*user.cast::<Model>(), (*batch).tick) };
    match mix(tick, model.kind.seed) % 4 {
        0 if model.kind.is_gated => AGAIN,
        1 if model.kind.is_gated && model.kind.fails => -3000,
        _ => 0,
    }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a hook of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        for (at, row) in &rows {
            model.state[*row].store(mix(*batch.session.add(*at), *batch.generation.add(*at)), SeqCst);
            model.prompt[*row].store(shown(batch, *at, PROMPT), SeqCst);
        }
        failure(model, batch, 4, &rows)
    }
}

unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a hook of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        for (_, row) in &rows {
            model.state[*row].store(0, SeqCst);
        }
        // What its statuses say on entry is why the life ended.
        failure(model, batch, 5, &[])
    }
}

unsafe extern "C-unwind" fn finalize(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a hook of the model.
    unsafe {
        let (model, batch, _) = rows(user, batch);
        failure(model, batch, 6, &[])
    }
}

unsafe fn finish(model: &Model, batch: &rte_batch, at: usize, told: u64) {
    // SAFETY: arrays of a batch whose rows have outputs.
    unsafe {
        if told.is_multiple_of(13) {
            return;
        }
        if model.kind.flags & RTE_MODEL_OWN_OUTPUT != 0 {
            *batch.output.add(at) = Box::into_raw(Box::new(told)).cast();
            model.owed.fetch_add(1, SeqCst);
        } else {
            (*batch.output.add(at)).cast::<u64>().write(told);
        }
        *batch.output_size.add(at) = 8;
    }
}

unsafe extern "C-unwind" fn release_output(user: *mut c_void, data: *mut c_void) {
    // SAFETY: from `finish`, once.
    unsafe {
        drop(Box::from_raw(data.cast::<u64>()));
        (*user.cast::<Model>()).owed.fetch_sub(1, SeqCst);
    }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        let status = failure(model, batch, 0, &rows);
        if status != 0 {
            return status;
        }
        for (at, row) in rows {
            let prompt = model.prompt[row].load(SeqCst);
            let told = mix(shown(batch, at, SUM), *batch.changed.add(at)) ^ mix(prompt, *batch.age.add(at));
            let state = mix(model.state[row].load(SeqCst), told);
            model.state[row].store(state, SeqCst);
            model.latent[batch.slot as usize][row].store(state, SeqCst);
            if !model.kind.has_deferred && *batch.status.add(at) == 0 {
                finish(model, batch, at, state);
            }
        }
    }
    0
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        let status = failure(model, batch, 1, &rows);
        if status != 0 {
            return status;
        }
        for (at, row) in rows {
            if *batch.status.add(at) == 0 {
                finish(model, batch, at, model.latent[batch.slot as usize][row].load(SeqCst));
            }
        }
    }
    0
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: called as a stage of the model.
    unsafe {
        let (model, batch, rows) = rows(user, batch);
        for (at, row) in &rows {
            model.prompt[*row].store(shown(batch, *at, PROMPT), SeqCst);
        }
        failure(model, batch, 2, &rows)
    }
}

// ---- runs

/// What takes outputs.
#[derive(Default)]
struct Consumer {
    told: Mutex<Vec<Line>>,
    kept: Mutex<Vec<rte_output>>,
    keeps: bool,
}

unsafe extern "C-unwind" fn take(user: *mut c_void, output: *mut rte_output) {
    // SAFETY: the test's consumer; the record is ours until we return, and is released once, or its copy is.
    unsafe {
        let (it, consumer) = (&mut *output, &*user.cast::<Consumer>());
        consumer.told.lock().unwrap().push(line_of(it));
        if consumer.keeps {
            consumer.kept.lock().unwrap().push(*it);
        } else {
            rte_output_release(it, std::ptr::null_mut());
        }
    }
}

impl Consumer {
    fn release(&self, but: usize) {
        let mut kept = self.kept.lock().unwrap();
        let count = kept.len().saturating_sub(but);
        for mut output in kept.drain(..count) {
            // SAFETY: a copy of a record, released once.
            unsafe { rte_output_release(&mut output, std::ptr::null_mut()) };
        }
    }
}

fn host(kind: Kind, model: &Model, consumer: &Consumer, record_path: Option<&Path>) -> Host {
    let stages = [stage(RTE_HOT, hot), stage(RTE_ENCODE, encode), stage(RTE_DEFERRED, deferred)];
    let stages = &stages[..if kind.has_deferred { 3 } else { 2 }];
    let none: rte_key = zeroed();
    let keys =
        [rte_key { size: 8, r#type: RTE_I64, merge: RTE_MERGE_SUM, ..none }, rte_key { flags: RTE_KEY_HEAVY, ..none }];
    let table = rte_model {
        user: std::ptr::from_ref(model).cast_mut().cast(),
        flags: kind.flags,
        keys: keys.as_ptr(),
        key_count: 2,
        ready: Some(ready),
        seed: Some(seed),
        detach: Some(detach),
        finalize: Some(finalize),
        release_output: if kind.flags & RTE_MODEL_OWN_OUTPUT != 0 { Some(release_output) } else { None },
        ..driver::model(stages, ROWS as u32, 8)
    };
    let path = record_path.map(|path| CString::new(path.to_str().unwrap()).unwrap());
    let backend = backend();
    let options = rte_engine_options {
        lanes: kind.lanes,
        backend: if kind.lanes == RTE_LANES_HOST { &backend } else { std::ptr::null() },
        pipeline: kind.pipeline,
        encode_lanes: kind.encode_lanes,
        outbox_policy: kind.policy,
        outbox_depth: 2,
        on_output: Some(take),
        on_output_user: std::ptr::from_ref(consumer).cast_mut().cast(),
        record_path: path.as_ref().map_or(std::ptr::null(), |path| path.as_ptr()),
        ..options()
    };
    Host::new(&table, &options)
}

fn random_message(host: &Host, random: &mut u64) {
    *random = mix(*random, 1);
    let dice = *random;
    let kind = match dice % 16 {
        0 | 1 => RTE_ATTACH,
        2 => RTE_DETACH,
        3 => RTE_RESET,
        4 => RTE_PAUSE,
        5 => RTE_RESUME,
        _ => RTE_ACTION,
    };
    let flags = if kind == RTE_DETACH || kind == RTE_ACTION { (dice >> 8 & 1) as u32 } else { 0 };
    let message = rte_message { flags, tag: dice >> 40, user: dice >> 50, ..message(kind, dice >> 16 & 7) };
    let (sum, prompt) = ((dice % 100).to_ne_bytes(), [(dice >> 24) as u8 % 4; 300]);
    let values = [value(SUM, &sum), value(PROMPT, &prompt[..(dice >> 32 & 255) as usize])];
    let has_values = matches!(kind, RTE_ATTACH | RTE_RESET | RTE_ACTION);
    let count = if !has_values { 0 } else { 1 + usize::from(dice >> 60 < 6) };
    // A full inbox takes no more; what it took is on record.
    let _ = host.push(message, &values[..count]);
}

fn run(kind: Kind, host: &Host, consumer: &Consumer) {
    let mut random = mix(kind.seed, 5);
    for tick in 0..TICKS {
        (0..mix(tick, kind.seed) % 3).for_each(|_| random_message(host, &mut random));
        consumer.release((mix(tick, 3) % 9) as usize);
        let due = [0u64, 2, 3, 5];
        // SAFETY: the engine lives and is ticked by this thread.
        let step = || unsafe {
            match tick % 5 {
                0 => rte_engine_step(host.engine, due.as_ptr(), 4, 0),
                _ => rte_engine_tick(host.engine, 0),
            }
        };
        let mut status = step();
        // The last one may be stopped in its middle.
        while status == AGAIN && tick + 1 < TICKS {
            status = step();
        }
        if status != 0 && status != AGAIN {
            assert!(status == DEAD || status == CLOSED);
            break;
        }
    }
    // SAFETY: the engine lives; asked for again and again, without waiting.
    while unsafe { rte_engine_stop(host.engine, 0, std::ptr::null_mut()) } != 0 {
        consumer.release(2);
        std::thread::yield_now();
    }
    consumer.release(0);
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
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("replay_kinds");
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(name)
}

#[test]
fn a_record_of_a_model_of_any_kind_is_repeated_output_for_output() {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse::<u64>().expect(name));
    let seeds = match number("RTE_REPLAY_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("RTE_REPLAY_SCHEDULES").unwrap_or(600),
    };
    let path = file("record");
    let (mut outputs, mut deaths) = (0, 0);
    for kind in seeds.map(Kind::of) {
        let (first, second) = (Consumer { keeps: kind.keeps, ..Consumer::default() }, Consumer::default());
        let (model, again) = (Model::new(kind), Model::new(kind));
        let engine = host(kind, &model, &first, Some(&path));
        run(kind, &engine, &first);
        let (ticks, is_dead) = (engine.info().ticks, engine.info().health != 0);
        drop(engine);
        let engine = host(kind, &again, &second, None);
        let (status, message) = replay(&engine, &path);
        assert_eq!(status, if is_dead { DEAD } else { 0 }, "{kind:?}: {message}");
        assert_eq!(engine.info().ticks, ticks, "{kind:?}");
        drop(engine);
        let (first, second) = (first.told.into_inner().unwrap(), second.told.into_inner().unwrap());
        for (at, (was, is)) in first.iter().zip(&second).enumerate() {
            assert_eq!(was, is, "output {at} of {} {}, {kind:?}", first.len(), second.len());
        }
        assert_eq!(first.len(), second.len(), "{kind:?}");
        assert_eq!((model.owed.into_inner(), again.owed.into_inner()), (0, 0), "{kind:?}: pointers");
        (outputs, deaths) = (outputs + first.len(), deaths + usize::from(is_dead));
    }
    println!("{outputs} outputs, {deaths} deaths");
}
