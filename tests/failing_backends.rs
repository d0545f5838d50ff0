//! A backend of the host's whose functions fail or hang, each at each call: the engine ends, whoever waits hears of it,
//! nothing that its streams still work on is freed, and who was left to what hangs calls nobody any more.

mod driver;

use std::ffi::{c_char, c_void};
use std::ptr::{null_mut, without_provenance_mut};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard};
use std::time::{Duration, Instant};

use driver::*;
use rte::abi::log::RTE_LOG_DEBUG;

const OK: i32 = 0;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;
const TIMEOUT: i32 = rte_status_code::RTE_TIMEOUT as i32;
const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const BROKEN: i32 = rte_status_code::RTE_ERR_DEVICE as i32;

/// What the library calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Function {
    StreamNew,
    StreamFree,
    SetWake,
    EventNew,
    EventFree,
    Record,
    Wait,
    Query,
    Sync,
    Destroy,
    Init,
    Ready,
    Seed,
    Stage,
    Detach,
    Finalize,
    ReleaseOutput,
    OnOutput,
    Log,
}
use Function::*;

/// What becomes of one call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Fate {
    Fail,
    Hang,
}

/// A stream is work that is done one after the other, each piece so many looks after it was enqueued.
#[derive(Default)]
struct State {
    /// Grows with each look at any event.
    now: u64,
    busy_until: Vec<u64>,
    freed: Vec<bool>,
    /// When they pass; `None`: freed.
    events: Vec<Option<u64>>,
    /// Pointers of the model's own that became chunks'.
    owed: Vec<usize>,
    /// What is to become of which function's call, after how many.
    fate: Option<(Function, u64, Fate)>,
    complaints: Vec<String>,
}

/// The backend, and the model. Never freed: an engine that was left to its stuck thread may call it at any time.
#[derive(Default)]
struct World {
    state: Mutex<State>,
    /// How long a piece of work takes.
    length: AtomicU64,
    has_hung: AtomicBool,
    is_open: Mutex<bool>,
    opened: Condvar,
    /// The engine was freed while something hung.
    is_abandoned: AtomicBool,
    gives_chunks: AtomicBool,
}

impl World {
    fn new() -> &'static World {
        Box::leak(Box::default())
    }

    fn of<'a>(user: *mut c_void) -> &'a World {
        // SAFETY: the world is never freed.
        unsafe { &*user.cast::<World>() }
    }

    fn user(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap()
    }

    fn plan(&self, function: Function, after: u64, fate: Fate) {
        self.state().fate = Some((function, after, fate));
    }

    fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    /// A call begins: what it comes to.
    fn enter(&self, function: Function) -> i32 {
        let fate = {
            let mut state = self.state();
            if self.is_abandoned.load(SeqCst) {
                state.complaints.push(format!("{function:?} begins though the engine was left to what hangs"));
            }
            match &mut state.fate {
                Some((of, left, _)) if *of == function && *left > 0 => {
                    *left -= 1;
                    None
                }
                Some((of, ..)) if *of == function => state.fate.take().map(|(_, _, fate)| fate),
                _ => None,
            }
        };
        match fate {
            None => OK,
            Some(Fate::Fail) => BROKEN,
            Some(Fate::Hang) => {
                let mut is_open = self.is_open.lock().unwrap();
                self.has_hung.store(true, SeqCst);
                while !*is_open {
                    is_open = self.opened.wait(is_open).unwrap();
                }
                OK
            }
        }
    }

    fn open(&self) {
        *self.is_open.lock().unwrap() = true;
        self.opened.notify_all();
    }

    fn table(&self, wakes: bool) -> rte_backend {
        rte_backend {
            struct_size: size_of::<rte_backend>() as u32,
            reserved: 0,
            user: self.user(),
            stream_new: Some(stream_new),
            stream_free: Some(stream_free),
            event_new: Some(event_new),
            event_free: Some(event_free),
            record: Some(record),
            wait: Some(wait),
            query: Some(query),
            sync: Some(sync),
            set_wake: if wakes { Some(set_wake) } else { None },
            destroy: Some(destroy),
        }
    }

    /// An engine of the model on the backend.
    fn engine(&self, wakes: bool, flags: u32, more: rte_engine_options) -> Host {
        let stages = [stage(RTE_HOT, hot), stage(RTE_DEFERRED, deferred), stage(RTE_ENCODE, encode)];
        let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
        let model = rte_model {
            user: self.user(),
            flags,
            keys: keys.as_ptr(),
            key_count: 1,
            init: Some(init),
            ready: Some(ready),
            seed: Some(seed),
            detach: Some(detach),
            finalize: Some(finalize),
            release_output: if flags & RTE_MODEL_OWN_OUTPUT != 0 { Some(release_output) } else { None },
            ..model(&stages, 4, 8)
        };
        let table = self.table(wakes);
        Host::new(&model, &rte_engine_options { lanes: RTE_LANES_HOST, backend: &table, ..more })
    }
}

fn at<T>(handle: *mut T) -> usize {
    handle.addr() - 1
}

unsafe extern "C-unwind" fn stream_new(user: *mut c_void, _: u32, out: *mut rte_stream) -> i32 {
    let world = World::of(user);
    let status = world.enter(StreamNew);
    if status == OK {
        let mut state = world.state();
        state.busy_until.push(0);
        state.freed.push(false);
        // SAFETY: the engine's place for a stream.
        unsafe { out.write(without_provenance_mut(state.freed.len())) };
    }
    status
}

unsafe extern "C-unwind" fn stream_free(user: *mut c_void, stream: rte_stream) {
    let world = World::of(user);
    world.enter(StreamFree);
    let mut state = world.state();
    state.freed[at(stream)] = true;
    if state.busy_until[at(stream)] > state.now {
        let complaint = format!("stream {} is freed with work on it", at(stream));
        state.complaints.push(complaint);
    }
}

unsafe extern "C-unwind" fn event_new(user: *mut c_void, out: *mut rte_event) -> i32 {
    let world = World::of(user);
    let status = world.enter(EventNew);
    if status == OK {
        let mut state = world.state();
        state.events.push(Some(0));
        // SAFETY: the engine's place for an event.
        unsafe { out.write(without_provenance_mut(state.events.len())) };
    }
    status
}

unsafe extern "C-unwind" fn event_free(user: *mut c_void, event: rte_event) {
    let world = World::of(user);
    world.enter(EventFree);
    world.state().events[at(event)] = None;
}

unsafe extern "C-unwind" fn record(user: *mut c_void, event: rte_event, stream: rte_stream) -> i32 {
    let world = World::of(user);
    let status = world.enter(Record);
    if status == OK {
        let mut state = world.state();
        state.events[at(event)] = Some(state.busy_until[at(stream)]);
    }
    status
}

unsafe extern "C-unwind" fn wait(user: *mut c_void, stream: rte_stream, event: rte_event) -> i32 {
    let world = World::of(user);
    let status = world.enter(Wait);
    let mut state = world.state();
    let passes_at = state.events[at(event)].unwrap_or(0);
    let busy_until = &mut state.busy_until[at(stream)];
    *busy_until = passes_at.max(*busy_until);
    status
}

unsafe extern "C-unwind" fn query(user: *mut c_void, event: rte_event) -> i32 {
    let world = World::of(user);
    let status = world.enter(Query);
    let mut state = world.state();
    state.now += 1;
    match state.events[at(event)] {
        _ if status != OK => status,
        Some(passes_at) if passes_at > state.now => AGAIN,
        _ => OK,
    }
}

unsafe extern "C-unwind" fn sync(user: *mut c_void, event: rte_event, timeout_ns: u64) -> i32 {
    let world = World::of(user);
    let status = world.enter(Sync);
    let mut state = world.state();
    let passes_at = state.events[at(event)].unwrap_or(0);
    match status {
        OK if passes_at > state.now && timeout_ns == 0 => TIMEOUT,
        OK => {
            state.now = state.now.max(passes_at);
            OK
        }
        status => status,
    }
}

unsafe extern "C-unwind" fn set_wake(user: *mut c_void, _: Option<unsafe extern "C" fn(*mut c_void)>, _: *mut c_void) {
    World::of(user).enter(SetWake);
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    World::of(user).enter(Destroy);
}

unsafe extern "C-unwind" fn init(user: *mut c_void, _: *const rte_stream) -> i32 {
    World::of(user).enter(Init)
}

/// A callback of the model that enqueues work.
fn enqueue(user: *mut c_void, stream: rte_stream, function: Function) -> i32 {
    let world = World::of(user);
    let status = world.enter(function);
    if !stream.is_null() {
        let mut state = world.state();
        let done = state.busy_until[at(stream)].max(state.now) + world.length.load(SeqCst);
        state.busy_until[at(stream)] = done;
    }
    status
}

unsafe extern "C-unwind" fn ready(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    enqueue(user, stream, Ready)
}
unsafe extern "C-unwind" fn seed(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    enqueue(user, stream, Seed)
}
unsafe extern "C-unwind" fn detach(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    enqueue(user, stream, Detach)
}
unsafe extern "C-unwind" fn finalize(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    enqueue(user, stream, Finalize)
}
unsafe extern "C-unwind" fn hot(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    enqueue(user, stream, Stage)
}
unsafe extern "C-unwind" fn encode(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> i32 {
    enqueue(user, stream, Stage)
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> i32 {
    let status = enqueue(user, stream, Stage);
    if World::of(user).gives_chunks.load(SeqCst) {
        // SAFETY: the arrays of a batch.
        unsafe {
            let batch = &*batch;
            for at in 0..batch.count as usize {
                let output = &mut *batch.output.add(at);
                if output.is_null() {
                    *output = Box::into_raw(Box::new(7u64)).cast();
                    World::of(user).state().owed.push(output.addr());
                }
                *batch.output_size.add(at) = 8;
            }
        }
    }
    status
}

unsafe extern "C-unwind" fn release_output(user: *mut c_void, data: *mut c_void) {
    let world = World::of(user);
    world.enter(ReleaseOutput);
    let mut state = world.state();
    match state.owed.iter().position(|owed| *owed == data.addr()) {
        // SAFETY: from `deferred`, once.
        Some(at) => drop((state.owed.swap_remove(at), unsafe { Box::from_raw(data.cast::<u64>()) })),
        None => state.complaints.push("a pointer came back that was not owed".to_string()),
    }
}

unsafe extern "C-unwind" fn on_output(user: *mut c_void, output: *mut rte_output) {
    World::of(user).enter(OnOutput);
    // SAFETY: ours until we return, released once.
    unsafe { rte_output_release(output, null_mut()) };
}

unsafe extern "C-unwind" fn log(user: *mut c_void, _: u32, _: *const c_char) {
    World::of(user).enter(Log);
}

/// Waits for what must come; a minute is for ever.
fn until(what: &str, mut is_so: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is_so() {
        assert!(begin.elapsed() < Duration::from_secs(60), "{what}: not within a minute");
        std::thread::sleep(Duration::from_micros(200));
    }
}

fn push(host: &Host, kind: u32, session: u64, values: &[rte_value]) {
    host.push(message(kind, session), values);
}

/// What its sessions go through, before it is driven.
fn prepare(host: &Host) {
    for session in 0..4 {
        push(host, RTE_ATTACH, session, &[value(0, b"a")]);
    }
    push(host, RTE_ACTION, 0, &[value(0, b"b")]);
    push(host, RTE_ACTION, 1, &[value(0, b"c")]);
}

#[test]
fn an_engine_that_sleeps_hears_of_a_device_that_fails_when_it_looks_last() {
    for after in 0..12 {
        let world = World::new();
        world.length.store(1_000_000_000, SeqCst);
        let host = world.engine(true, 0, options());
        push(&host, RTE_ATTACH, 1, &[]);
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_start(host.engine, null_mut()) }, OK);
        until("the encode", || {
            push(&host, RTE_ACTION, 1, &[value(0, b"new")]);
            host.info().encoding == 1
        });
        world.plan(Query, after, Fate::Fail);
        let is_spent = || world.state().fate.is_none();
        until("the query", || {
            // Each wakes it, and makes it look once more, before it sleeps again.
            push(&host, RTE_ACTION, 1, &[]);
            let mut looks = 0;
            while looks != world.state().now {
                looks = world.state().now;
                std::thread::sleep(Duration::from_millis(2));
            }
            is_spent()
        });
        until("the death", || host.info().health == BROKEN);
        drop(host);
    }
}

#[test]
fn a_function_that_fails_once_leaves_what_streams_still_work_on_until_it_is_done() {
    for function in [EventNew, Record, Wait, Query, Sync] {
        let mut deaths = 0;
        for (after, flags) in (0..40).flat_map(|after| [(after, 0), (after, OWN), (after, RTE_MODEL_OWN_OUTPUT)]) {
            let world = World::new();
            world.length.store(50, SeqCst);
            world.gives_chunks.store(true, SeqCst);
            let host = world.engine(false, flags, options());
            prepare(&host);
            world.plan(function, after, Fate::Fail);
            let mut status = OK;
            for _ in 0..20 {
                // SAFETY: the engine lives, and is ticked by this thread.
                status = unsafe { rte_engine_tick(host.engine, u64::MAX) };
                host.pop_all(|_| ());
                if status != OK {
                    break;
                }
            }
            if status != OK {
                assert!(status == DEAD || status == BROKEN, "{function:?} {after}: {status}");
                deaths += 1;
            }
            world.state().fate = None;
            drop(host);
            assert_eq!(world.complaints(), Vec::<String>::new(), "{function:?} {after}");
            let state = world.state();
            assert!(state.events.iter().all(Option::is_none) && state.freed.iter().all(|freed| *freed));
            assert_eq!(state.owed.len(), 0, "{function:?} {after}: pointers");
        }
        assert!(deaths > 5, "{function:?}: {deaths}");
    }
}

const OWN: u32 = RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT;

/// An engine that runs on a thread of the test's, of which one call hangs; it is freed meanwhile. Whether it came to that.
fn leave_it_to(function: Function, after: u64, flags: u32, takes: bool) -> bool {
    struct Handle(*mut rte_engine);
    // SAFETY: as rte.h says of the functions that are called with it.
    unsafe impl Send for Handle {}

    let world = World::new();
    world.length.store(3, SeqCst);
    world.gives_chunks.store(true, SeqCst);
    let more = rte_engine_options {
        on_output: if takes { Some(on_output) } else { None },
        on_output_user: world.user(),
        log: Some(log),
        log_user: world.user(),
        log_level: RTE_LOG_DEBUG,
        outbox_depth: 1,
        ..options()
    };
    let host = world.engine(after.is_multiple_of(2), flags, more);
    prepare(&host);
    push(&host, RTE_RESET, 2, &[]);
    push(&host, RTE_DETACH, 3, &[]);
    world.plan(function, after, Fate::Hang);
    let handle = Handle(host.engine);
    let thread = std::thread::spawn(move || {
        let handle = handle;
        // SAFETY: the engine lives, or was freed after a stop that ran out of time.
        unsafe { rte_engine_run(handle.0, null_mut()) }
    });
    let mut round = 0u8;
    until("ticks", || {
        round = round.wrapping_add(1);
        push(&host, RTE_ACTION, 0, &[value(0, &[round])]);
        push(&host, RTE_RESET, 1, &[]);
        world.has_hung.load(SeqCst) || host.info().ticks > 60
    });
    if !world.has_hung.load(SeqCst) {
        let mut status = TIMEOUT;
        until("the stop", || {
            // SAFETY: the engine lives.
            status = unsafe { rte_engine_stop(host.engine, 10_000_000, null_mut()) };
            status == OK || world.has_hung.load(SeqCst)
        });
        if status == OK {
            thread.join().unwrap();
            return false;
        }
    }
    // SAFETY: the engine lives; no other call on it comes after the free, but the one that hangs.
    unsafe {
        assert_eq!(rte_engine_stop(host.engine, 2_000_000, null_mut()), TIMEOUT);
        rte_engine_free(host.engine);
    }
    std::mem::forget(host);
    world.is_abandoned.store(true, SeqCst);
    world.open();
    assert_eq!(thread.join().unwrap(), DEAD, "{function:?} {after}");
    let complaints = world.complaints();
    assert_eq!(complaints, Vec::<String>::new(), "{function:?} {after} {flags} {takes}");
    true
}

#[test]
fn an_engine_that_is_freed_while_a_function_of_its_backend_hangs_calls_nobody_any_more() {
    for function in [StreamNew, SetWake, EventNew, Record, Wait, Query, Sync] {
        let mut hung = 0;
        for after in 0..24 {
            for (flags, takes) in [(0, false), (0, true), (OWN, false), (OWN, true)] {
                hung += usize::from(leave_it_to(function, after, flags, takes));
            }
        }
        println!("{function:?}: {hung}");
        assert!(hung > 1, "{function:?}");
    }
}

#[test]
fn an_engine_that_is_freed_while_a_callback_hangs_calls_nobody_any_more() {
    for function in [Init, Ready, Seed, Stage, Detach, Finalize, ReleaseOutput, OnOutput, Log] {
        let mut hung = 0;
        for after in 0..12 {
            for (flags, takes) in [(0, false), (0, true), (OWN, false), (OWN, true)] {
                hung += usize::from(leave_it_to(function, after, flags, takes));
            }
        }
        println!("{function:?}: {hung}");
        assert!(hung > 1, "{function:?}");
    }
}
