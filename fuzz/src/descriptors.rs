//! A model and options that are in order, then changed as the bytes say: every field, the tails, the pointers (which are
//! NULL or valid). They are refused with nothing done, or there is an engine that works.

use std::ffi::{CStr, c_char, c_void};
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use crate::backend::backend;
use crate::bytes::Bytes;
use crate::driver::*;

const MAX_KEYS: usize = 65;
const MAX_STAGES: usize = 257;
const NAMES: [&CStr; 3] = [c"name", c"\xff\xfe not text", c""];
/// A descriptor says at most that it has so many bytes, and is refused if it says more.
const LARGEST: usize = 1 << 16;
const MANY_EDITS: usize = 64;

/// How often `destroy` ran: of this input's model.
static DESTROYED: AtomicU64 = AtomicU64::new(0);
static BACKENDS_DESTROYED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn destroy(_: *mut c_void) {
    DESTROYED.fetch_add(1, Relaxed);
}

unsafe extern "C-unwind" fn destroy_backend(_: *mut c_void) {
    BACKENDS_DESTROYED.fetch_add(1, Relaxed);
}

unsafe extern "C-unwind" fn init(_: *mut c_void, _: *const rte_stream) -> i32 {
    0
}

unsafe extern "C-unwind" fn nothing(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    0
}

/// Fills each output to its end.
unsafe extern "C-unwind" fn write(_: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the arrays of a batch.
    unsafe {
        let batch = &*batch;
        for at in (0..batch.count as usize).filter(|_| !batch.output.is_null()) {
            let output = *batch.output.add(at);
            if !output.is_null() {
                output.cast::<u8>().write_bytes(at as u8, batch.chunk_bytes);
                *batch.output_size.add(at) = batch.chunk_bytes;
            }
        }
    }
    0
}

unsafe extern "C-unwind" fn release_output(_: *mut c_void, _: *mut c_void) {}

unsafe extern "C-unwind" fn serve(_: *mut c_void, _: *mut rte_engine) -> i32 {
    0
}

unsafe extern "C-unwind" fn log(_: *mut c_void, _: u32, line: *const c_char) {
    // SAFETY: a NUL-terminated line.
    assert!(unsafe { CStr::from_ptr(line) }.to_str().is_ok_and(|line| !line.contains('\n')));
}

unsafe extern "C-unwind" fn on_output(_: *mut c_void, output: *mut rte_output) {
    // SAFETY: the record is ours until we return.
    unsafe { rte_output_release(output, null_mut()) };
}

static TIME: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn now(_: *mut c_void) -> u64 {
    TIME.fetch_add(1000, Relaxed)
}

unsafe extern "C-unwind" fn sleep_until(_: *mut c_void, at: u64) {
    TIME.fetch_max(at, Relaxed);
}

/// A host's descriptors. The pointers in them are set when they are all in place.
struct Host {
    model: rte_model,
    options: rte_engine_options,
    backend: rte_backend,
    clock: rte_clock,
    keys: Vec<rte_key>,
    stages: Vec<rte_stage>,
    /// By descriptor (model, options, backend, clock): bytes behind it, by their place.
    tails: [Vec<(usize, u8)>; 4],
    lacks: [bool; 6],
}

/// What may be NULL: see `lacks`.
const MODEL: usize = 0;
const OPTIONS: usize = 1;
const OUT: usize = 2;
const ERROR: usize = 3;
const KEYS: usize = 4;
const STAGES: usize = 5;

/// A nullable field's value, or NULL.
fn some<T>(bytes: &mut Bytes, value: T) -> Option<T> {
    bytes.byte().is_multiple_of(2).then_some(value)
}

fn name(bytes: &mut Bytes) -> *const c_char {
    NAMES.get(bytes.below(4)).map_or(null(), |name| name.as_ptr())
}

impl Host {
    fn new() -> Host {
        let stages = [stage(RTE_HOT, write), stage(RTE_DEFERRED, write), stage(RTE_ENCODE, nothing)];
        let keys = [rte_key { r#type: RTE_I64, size: 8, merge: RTE_MERGE_SUM, ..zeroed() }, zeroed()];
        let (mut all_stages, mut all_keys) = (vec![stages[0]; MAX_STAGES], vec![zeroed::<rte_key>(); MAX_KEYS]);
        all_stages[..3].copy_from_slice(&stages);
        all_keys[..2].copy_from_slice(&keys);
        let clock = rte_clock {
            struct_size: size_of::<rte_clock>() as u32,
            now: Some(now),
            sleep_until: Some(sleep_until),
            ..zeroed()
        };
        Host {
            model: rte_model { key_count: 2, destroy: Some(destroy), ..model(&stages, 4, 64) },
            options: rte_engine_options { inbox_capacity: 8, message_bytes: 64, inbox_bytes: 1, ..options() },
            backend: rte_backend { destroy: Some(destroy_backend), ..backend() },
            clock,
            keys: all_keys,
            stages: all_stages,
            tails: Default::default(),
            lacks: [false; 6],
        }
    }

    fn edit(&mut self, bytes: &mut Bytes) {
        match bytes.below(8) {
            0 | 1 => self.edit_model(bytes),
            2 => self.edit_key(bytes),
            3 => self.edit_stage(bytes),
            4 | 5 => self.edit_options(bytes),
            6 => self.edit_tables(bytes),
            _ => match bytes.below(8) {
                lacking @ 0..=5 => self.lacks[lacking] = bytes.is_rare(),
                _ => {
                    let (tail, place) = (bytes.below(4), bytes.number() as usize % LARGEST);
                    self.tails[tail].push((place, bytes.byte()));
                }
            },
        }
    }

    fn edit_model(&mut self, bytes: &mut Bytes) {
        let model = &mut self.model;
        match bytes.below(23) {
            0 => model.struct_size = bytes.number() as u32,
            1 => model.flags = bytes.number() as u32,
            2 => model.flags ^= 1 << bytes.below(8),
            3 => model.name = name(bytes),
            4 => model.max_sessions = bytes.number() as u32,
            5 => model.frames_per_chunk = bytes.number() as u32,
            6 => model.input_latency_chunks = bytes.number() as u32,
            7 => model.key_count = bytes.number() as u32,
            8 => model.chunk_bytes = bytes.number() as usize,
            9 => model.rate_num = bytes.number() as u32,
            10 => model.rate_den = bytes.number() as u32,
            11 => model.stage_count = bytes.number() as u32,
            12 => model.reserved0 = bytes.number() as u32,
            13 => model.init = some(bytes, init),
            14 => model.ready = some(bytes, nothing),
            15 => model.seed = some(bytes, nothing),
            16 => model.detach = some(bytes, nothing),
            17 => model.finalize = some(bytes, nothing),
            18 => model.release_output = some(bytes, release_output),
            19 => model.serve = bytes.is_rare().then_some(serve),
            20 => {
                model.flags = RTE_MODEL_OWN_OUTPUT;
                model.release_output = Some(release_output);
            }
            21 => (model.rate_num, model.rate_den) = (30_000, 1001),
            _ => model.destroy = some(bytes, destroy),
        }
    }

    fn edit_key(&mut self, bytes: &mut Bytes) {
        let key = &mut self.keys[bytes.below(4)];
        match bytes.below(6) {
            0 => key.name = name(bytes),
            1 => key.size = bytes.number() as usize,
            2 => key.r#type = bytes.number() as u32,
            3 => key.merge = bytes.number() as u32,
            4 => key.flags = bytes.number() as u32,
            _ => key.reserved = bytes.number() as u32,
        }
    }

    fn edit_stage(&mut self, bytes: &mut Bytes) {
        let stage = &mut self.stages[bytes.below(4)];
        match bytes.below(5) {
            0 => stage.name = name(bytes),
            1 => stage.run = some(bytes, nothing),
            2 => stage.lane = bytes.number() as u32,
            3 => stage.flags = bytes.number() as u32,
            _ => stage.reserved = bytes.number(),
        }
    }

    fn edit_options(&mut self, bytes: &mut Bytes) {
        let options = &mut self.options;
        match bytes.below(31) {
            0 => options.struct_size = bytes.number() as u32,
            // Not CUDA's: where there is a driver, any number would be a stream to it.
            1 | 2 => {
                options.lanes = Some(bytes.number() as u32).filter(|lanes| *lanes != RTE_LANES_CUDA).unwrap_or(u32::MAX)
            }
            3 => options.pipeline = bytes.number() as u32,
            4 => options.device = bytes.number() as i32,
            5 => options.streams[bytes.below(3)] = std::ptr::without_provenance_mut(bytes.number() as usize),
            6 => options.inbox_capacity = bytes.number() as u32,
            7 => options.message_bytes = bytes.number() as u32,
            8 => options.inbox_bytes = bytes.number(),
            9 => options.outbox_depth = bytes.number() as u32,
            10 => options.held_max = bytes.number() as u32,
            11 => options.outbox_policy = bytes.number() as u32,
            12 => options.overrun = bytes.number() as u32,
            13 => options.max_catch_up = bytes.number() as u32,
            14 => options.seed_attempts = bytes.number() as u32,
            15 => options.encode_attempts = bytes.number() as u32,
            16 => options.encode_lanes = bytes.number() as u32,
            17 => options.log_level = bytes.number() as u32,
            18 => options.log = some(bytes, log),
            19 => options.on_output = some(bytes, on_output),
            20 => options.thread_name = name(bytes),
            21 => options.cpu_mask = bytes.number(),
            22 => options.priority = bytes.number() as u32,
            23 => options.flags = bytes.number() as u32,
            24 => options.stall_ns = bytes.number(),
            // Files that cannot be made: others would be.
            25 => options.trace_path = if bytes.is_rare() { c"/nowhere/trace".as_ptr() } else { null() },
            26 => options.record_path = if bytes.is_rare() { c"/nowhere/record".as_ptr() } else { null() },
            // Named here, in place when all are.
            27 => options.backend = some(bytes, &raw const self.backend).unwrap_or(null()),
            28 => options.clock = some(bytes, &raw const self.clock).unwrap_or(null()),
            29 => options.device_uuid = name(bytes),
            _ => (options.lanes, options.backend) = (RTE_LANES_HOST, &self.backend),
        }
    }

    fn edit_tables(&mut self, bytes: &mut Bytes) {
        let (backend, clock, whole) = (&mut self.backend, &mut self.clock, crate::backend::backend());
        match bytes.below(16) {
            0 => backend.struct_size = bytes.number() as u32,
            1 => backend.reserved = bytes.number() as u32,
            2 => backend.stream_new = whole.stream_new.filter(|_| bytes.is_rare()),
            3 => backend.stream_free = whole.stream_free.filter(|_| bytes.is_rare()),
            4 => backend.event_new = whole.event_new.filter(|_| bytes.is_rare()),
            5 => backend.event_free = whole.event_free.filter(|_| bytes.is_rare()),
            6 => backend.record = whole.record.filter(|_| bytes.is_rare()),
            7 => backend.wait = whole.wait.filter(|_| bytes.is_rare()),
            8 => backend.query = whole.query.filter(|_| bytes.is_rare()),
            9 => backend.sync = whole.sync.filter(|_| bytes.is_rare()),
            10 => backend.destroy = some(bytes, destroy_backend),
            11 => clock.struct_size = bytes.number() as u32,
            12 => clock.reserved = bytes.number() as u32,
            13 => clock.now = some(bytes, now),
            14 => clock.sleep_until = some(bytes, sleep_until),
            _ => *backend = rte_backend { destroy: Some(destroy_backend), ..whole },
        }
    }

    /// What would be granted, and take much memory, is made small. What is refused stays as it is.
    fn shrink(&mut self) {
        let less =
            |value: u64, above: u64, most: u64| if value > above && value <= most { value % above } else { value };
        let (model, options) = (&mut self.model, &mut self.options);
        model.max_sessions = less(model.max_sessions.into(), 64, 1 << 16) as u32;
        model.chunk_bytes = less(model.chunk_bytes as u64, 4096, 1 << 32) as usize;
        for key in &mut self.keys {
            key.size = less(key.size as u64, 4096, 1 << 32) as usize;
        }
        options.inbox_capacity = less(options.inbox_capacity.into(), 1024, 1 << 16) as u32;
        options.message_bytes = less(options.message_bytes.into(), 1 << 16, 64 << 20) as u32;
        options.inbox_bytes = less(options.inbox_bytes, 1 << 20, 512 << 20);
        options.outbox_depth = less(options.outbox_depth.into(), 64, 4096) as u32;
        options.held_max = less(options.held_max.into(), 64, 4096) as u32;
    }

    /// Whether an engine of it may be driven here: threads with a priority would stand before others.
    fn is_tame(&self) -> bool {
        self.options.cpu_mask == 0 && self.options.priority == 0
    }

    /// A mistake that rte.h names and that must not pass; not all of them.
    fn mistake(&self) -> Option<&'static str> {
        let (model, options) = (&self.model, &self.options);
        let [of_model, of_options, of_backend, of_clock] = &self.tails;
        let keys = &self.keys[..(model.key_count as usize).min(MAX_KEYS)];
        let stages = &self.stages[..(model.stage_count as usize).min(MAX_STAGES)];
        let has_encode = stages.iter().any(|stage| stage.lane == RTE_ENCODE);
        let has_options = !self.lacks[OPTIONS];
        let is_host = has_options && options.lanes == RTE_LANES_HOST;
        let has_clock = has_options && !options.clock.is_null();
        let serves = model.serve.is_some();
        let hooks = [model.ready, model.seed, model.detach, model.finalize].map(|hook| hook.is_some());
        let hooks = [hooks[0], hooks[1], hooks[2], hooks[3], model.init.is_some(), model.release_output.is_some()];
        let rules = [
            ("a NULL", self.lacks[MODEL] || self.lacks[OUT]),
            ("a NULL array", self.lacks[STAGES] || self.lacks[KEYS] && model.key_count > 0),
            ("a model of another size", is_strange::<rte_model>(model.struct_size, of_model)),
            (
                "options of another size",
                has_options && is_strange::<rte_engine_options>(options.struct_size, of_options),
            ),
            ("a backend of another size", is_host && is_strange::<rte_backend>(self.backend.struct_size, of_backend)),
            ("a clock of another size", has_clock && is_strange::<rte_clock>(self.clock.struct_size, of_clock)),
            ("model flags", model.flags >= 2 * RTE_MODEL_OUTPUT_BLOCK),
            (
                "a block of outputs that are elsewhere",
                model.flags & RTE_MODEL_OUTPUT_BLOCK != 0
                    && model.flags & (RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT) != 0,
            ),
            ("max_sessions", model.max_sessions == 0 || model.max_sessions > 65_536),
            ("chunk_bytes", model.chunk_bytes == 0 || model.chunk_bytes > 1 << 32),
            ("counts", model.key_count > 64 || model.stage_count > 256),
            ("a rate", (model.rate_num == 0) != (model.rate_den == 0)),
            (
                "serve beside what is the stages'",
                serves
                    && (!stages.is_empty()
                        || model.flags != 0
                        || hooks.into_iter().any(|is_there| is_there)
                        || keys.iter().any(|key| key.flags != 0 || key.merge != RTE_MERGE_LATEST)
                        || has_options && (options.lanes > RTE_LANES_INLINE || options.pipeline == RTE_PIPELINE_ON)),
            ),
            ("no HOT", !serves && !stages.iter().any(|stage| stage.lane == RTE_HOT)),
            (
                "a stage",
                stages.iter().any(|s| s.run.is_none() || s.lane > RTE_ENCODE || s.flags != 0 || s.reserved != 0),
            ),
            (
                "a key",
                keys.iter().any(|k| k.r#type > RTE_F64 || k.merge > RTE_MERGE_OR || k.flags > 1 || k.reserved != 0),
            ),
            ("a heavy key without ENCODE", !has_encode && keys.iter().any(|key| key.flags == RTE_KEY_HEAVY)),
            (
                "reserved",
                model.reserved0 != 0 || is_host && self.backend.reserved != 0 || has_clock && self.clock.reserved != 0,
            ),
            ("lanes", has_options && options.lanes > RTE_LANES_HOST),
            ("a backend", has_options && options.backend.is_null() == is_host),
            ("choices", has_options && (options.pipeline > 2 || options.outbox_policy > 2 || options.overrun > 1)),
            ("more choices", has_options && (options.log_level > 4 || options.encode_lanes > 8 || options.flags > 1)),
            (
                "limits",
                has_options
                    && (options.inbox_capacity > 65_536 || options.outbox_depth > 4096 || options.held_max > 4096),
            ),
            ("bytes", has_options && (options.message_bytes > 64 << 20 || options.inbox_bytes > 512 << 20)),
            (
                "a trace or a record that cannot be made",
                has_options && !(options.trace_path.is_null() && options.record_path.is_null()),
            ),
            ("a clock without a function", has_clock && (self.clock.now.is_none() || self.clock.sleep_until.is_none())),
            ("a backend without a function", is_host && (self.backend.query.is_none() || self.backend.sync.is_none())),
        ];
        rules.into_iter().find(|(_, is_broken)| *is_broken).map(|(rule, _)| rule)
    }

    /// Makes the engine, or what the error says.
    fn make(&self) -> Result<*mut rte_engine, rte_status> {
        let [of_model, of_options, of_backend, of_clock] = &self.tails;
        let (backend, clock) = (Padded::new(self.backend, of_backend), Padded::new(self.clock, of_clock));
        let in_place = |is_there: bool, padded: *const c_void| if is_there { padded } else { null() };
        let model = rte_model {
            keys: in_place(!self.lacks[KEYS], self.keys.as_ptr().cast()).cast(),
            stages: in_place(!self.lacks[STAGES], self.stages.as_ptr().cast()).cast(),
            ..self.model
        };
        let options = rte_engine_options {
            backend: in_place(!self.options.backend.is_null(), backend.address()).cast(),
            clock: in_place(!self.options.clock.is_null(), clock.address()).cast(),
            ..self.options
        };
        let (model, options) = (Padded::new(model, of_model), Padded::new(options, of_options));
        let untouched = std::ptr::without_provenance_mut(0x5a5a);
        let (mut engine, mut error) = (untouched, rte_error { status: 77, message: [1; 252] });
        // SAFETY: all pointers are NULL or valid, and so many bytes are there as the descriptors say.
        let status = unsafe {
            rte_engine_new(
                in_place(!self.lacks[MODEL], model.address()).cast(),
                in_place(!self.lacks[OPTIONS], options.address()).cast(),
                if self.lacks[OUT] { null_mut() } else { &mut engine },
                if self.lacks[ERROR] { null_mut() } else { &mut error },
            )
        };
        if status == 0 {
            assert!(!engine.is_null() && engine != untouched && error.status == 77);
            return Ok(engine);
        }
        assert_eq!(engine, untouched, "nothing is stored");
        if !self.lacks[ERROR] {
            assert_eq!(error.status, status);
            let text = bytemuck::cast_slice::<c_char, u8>(&error.message);
            let text = CStr::from_bytes_until_nul(text).expect("ends with a NUL").to_str().expect("is text");
            assert!(!text.is_empty());
        }
        Err(status)
    }
}

/// Whether a descriptor has a size that is not known, or something in a tail that is not.
fn is_strange<T>(size: u32, tail: &[(usize, u8)]) -> bool {
    let (size, known) = (size as usize, size_of::<T>());
    // What comes later at a place stands there.
    let last = |place: usize| tail.iter().rev().find(|(at, _)| *at == place).map_or(0, |(_, byte)| *byte);
    !(known..=LARGEST).contains(&size) || tail.iter().any(|(at, _)| (known..size).contains(at) && last(*at) != 0)
}

/// A descriptor with room behind it.
struct Padded(Box<[u64]>);

impl Padded {
    fn new<T: Copy>(descriptor: T, tail: &[(usize, u8)]) -> Padded {
        let mut words = vec![0u64; LARGEST / 8 + 1].into_boxed_slice();
        for (place, byte) in tail.iter().filter(|(place, _)| *place >= size_of::<T>()) {
            bytemuck::cast_slice_mut::<u64, u8>(&mut words)[*place] = *byte;
        }
        // SAFETY: there is room for one, and its alignment is that of words.
        unsafe { words.as_mut_ptr().cast::<T>().write(descriptor) };
        Padded(words)
    }

    fn address(&self) -> *const c_void {
        self.0.as_ptr().cast()
    }
}

/// A short life of the engine.
fn drive(engine: *mut rte_engine) {
    let mut output = zeroed();
    let mut info = rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() };
    // SAFETY: the engine lives; places are valid; each output is released once.
    unsafe {
        for session in 0..3 {
            let status = rte_inbox_push(engine, &message(RTE_ATTACH, session));
            assert!([0, 1].contains(&status), "{status}");
            let status = rte_engine_tick(engine, u64::MAX);
            assert_eq!(status, 0);
            while rte_outbox_pop(engine, &mut output) == 0 {
                rte_output_release(&mut output, null_mut());
            }
        }
        assert_eq!(rte_engine_get_info(engine, &mut info), 0);
        assert!(info.attached <= info.max_sessions && info.health == 0, "{}", info.health);
        assert_eq!(rte_engine_stop(engine, u64::MAX, null_mut()), 0);
    }
}

const REFUSALS: [rte_status; 4] = [-1, -2, -6, -8];

/// See the module's comment. One at a time.
pub fn run(bytes: &[u8]) {
    let (mut bytes, mut host) = (Bytes(bytes), Host::new());
    let may_be_driven = bytes.byte().is_multiple_of(2);
    for _ in 0..MANY_EDITS {
        if bytes.is_empty() {
            break;
        }
        host.edit(&mut bytes);
    }
    host.shrink();
    DESTROYED.store(0, Relaxed);
    BACKENDS_DESTROYED.store(0, Relaxed);
    match host.make() {
        Err(status) => {
            assert!(REFUSALS.contains(&status), "{status}");
            assert_eq!((DESTROYED.load(Relaxed), BACKENDS_DESTROYED.load(Relaxed)), (0, 0), "nothing is taken");
        }
        Ok(engine) => {
            assert_eq!(host.mistake(), None, "must be refused");
            if may_be_driven && host.model.serve.is_none() && host.is_tame() {
                drive(engine);
            }
            // SAFETY: freed once.
            unsafe { rte_engine_free(engine) };
            let is_hosts = !host.lacks[OPTIONS] && host.options.lanes == RTE_LANES_HOST;
            let owed = (host.model.destroy.is_some(), is_hosts && host.backend.destroy.is_some());
            let destroyed = (DESTROYED.load(Relaxed), BACKENDS_DESTROYED.load(Relaxed));
            assert_eq!(destroyed, (owed.0.into(), owed.1.into()), "what was taken comes back once");
        }
    }
}
