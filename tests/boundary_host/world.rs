//! A host that says of each of its callbacks that it was reached.

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::driver::*;

/// A callback of the host's.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Init,
    Ready,
    Seed,
    Hot,
    Deferred,
    Encode,
    Detach,
    Finalize,
    OnOutput,
    Now,
    SleepUntil,
    StreamNew,
    EventNew,
    Record,
    Wait,
    Query,
    Sync,
    SetWake,
    Log,
    Release,
    ReleaseOutput,
    EventFree,
    StreamFree,
    Destroy,
    DestroyBackend,
}

impl Place {
    pub const ALL: [Place; 25] = [
        Place::Init,
        Place::Ready,
        Place::Seed,
        Place::Hot,
        Place::Deferred,
        Place::Encode,
        Place::Detach,
        Place::Finalize,
        Place::OnOutput,
        Place::Now,
        Place::SleepUntil,
        Place::StreamNew,
        Place::EventNew,
        Place::Record,
        Place::Wait,
        Place::Query,
        Place::Sync,
        Place::SetWake,
        Place::Log,
        Place::Release,
        Place::ReleaseOutput,
        Place::EventFree,
        Place::StreamFree,
        Place::Destroy,
        Place::DestroyBackend,
    ];

    /// One of a backend.
    pub fn is_of_backend(self) -> bool {
        use Place::*;
        let streams = [StreamNew, StreamFree, SetWake, DestroyBackend];
        streams.contains(&self) || [EventNew, EventFree, Record, Wait, Query, Sync].contains(&self)
    }

    /// It answers with a status.
    pub fn answers(self) -> bool {
        use Place::*;
        !self.gives_back() && ![OnOutput, Now, SleepUntil, SetWake].contains(&self)
    }

    /// It gives something back, or only tells: nothing hangs on it.
    pub fn gives_back(self) -> bool {
        use Place::*;
        [Log, Release, ReleaseOutput, EventFree, StreamFree, Destroy, DestroyBackend].contains(&self)
    }
}

thread_local! {
    /// This thread pushes.
    pub static PUSHES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// See the module's comment. All its callbacks get it as their `user`.
pub struct World {
    /// What happens in a callback, once it has counted, and what it answers if it can.
    pub visit: Box<dyn Fn(Place) -> rte_status + Send + Sync>,
    pub lent: AtomicU64,
    pub released: AtomicU64,
    /// Outputs of the model's own: made, and given back.
    pub made: AtomicU64,
    pub back: AtomicU64,
    pub destroyed: AtomicU64,
    pub backends_destroyed: AtomicU64,
    pub events: AtomicU64,
    pub events_freed: AtomicU64,
    queries: AtomicU64,
    time: AtomicU64,
}

/// Bytes of an output.
pub const BYTES: usize = 16;
/// The heavy key.
pub const PROMPT: u32 = 0;

/// How an engine of this world is made.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    pub lanes: u32,
    pub has_on_output: bool,
    /// Time is the world's, and ticks are paced.
    pub has_clock: bool,
}

impl World {
    pub fn new(visit: impl Fn(Place) -> rte_status + Send + Sync + 'static) -> World {
        World {
            visit: Box::new(visit),
            lent: AtomicU64::new(0),
            released: AtomicU64::new(0),
            made: AtomicU64::new(0),
            back: AtomicU64::new(0),
            destroyed: AtomicU64::new(0),
            backends_destroyed: AtomicU64::new(0),
            events: AtomicU64::new(0),
            events_freed: AtomicU64::new(0),
            queries: AtomicU64::new(0),
            time: AtomicU64::new(1),
        }
    }

    fn user(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// Shows `make` a model and options with every callback that there is.
    pub fn describe<T>(&self, shape: Shape, make: impl FnOnce(&rte_model, &rte_engine_options) -> T) -> T {
        let stages = [stage(RTE_HOT, hot), stage(RTE_DEFERRED, deferred), stage(RTE_ENCODE, encode)];
        let keys = [rte_key { flags: RTE_KEY_HEAVY, ..zeroed() }];
        let rate = if shape.has_clock { 1000 } else { 0 };
        let model = rte_model {
            flags: RTE_MODEL_OWN_OUTPUT,
            user: self.user(),
            keys: keys.as_ptr(),
            key_count: 1,
            rate_num: rate,
            rate_den: rate.min(1),
            init: Some(init),
            ready: Some(ready),
            seed: Some(seed),
            detach: Some(detach),
            finalize: Some(finalize),
            release_output: Some(release_output),
            destroy: Some(destroy),
            ..model(&stages, 3, BYTES)
        };
        let backend = self.backend();
        let clock = rte_clock {
            struct_size: size_of::<rte_clock>() as u32,
            user: self.user(),
            now: Some(now),
            sleep_until: Some(sleep_until),
            ..zeroed()
        };
        let options = rte_engine_options {
            lanes: shape.lanes,
            backend: if shape.lanes == RTE_LANES_HOST { &backend } else { std::ptr::null() },
            clock: if shape.has_clock { &clock } else { std::ptr::null() },
            on_output: if shape.has_on_output { Some(on_output) } else { None },
            on_output_user: self.user(),
            log: Some(log),
            log_user: self.user(),
            log_level: rte::abi::log::RTE_LOG_DEBUG,
            inbox_capacity: 64,
            message_bytes: 256,
            inbox_bytes: 1,
            ..options()
        };
        make(&model, &options)
    }

    fn backend(&self) -> rte_backend {
        rte_backend {
            struct_size: size_of::<rte_backend>() as u32,
            user: self.user(),
            stream_new: Some(stream_new),
            stream_free: Some(stream_free),
            event_new: Some(event_new),
            event_free: Some(event_free),
            record: Some(record),
            wait: Some(wait),
            query: Some(query),
            sync: Some(sync),
            set_wake: Some(set_wake),
            destroy: Some(destroy_backend),
            ..zeroed()
        }
    }

    /// Pushes a message, with lent bytes as its prompt where there are any.
    pub fn push(&self, engine: *mut rte_engine, message: rte_message, prompt: &'static [u8]) -> rte_status {
        let values = [rte_value { flags: RTE_VALUE_BORROWED, ..value(PROMPT, prompt) }];
        let has_prompt = !prompt.is_empty();
        let message = rte_message {
            values: values.as_ptr(),
            value_count: has_prompt.into(),
            release: if has_prompt { Some(release) } else { None },
            release_user: self.user(),
            ..message
        };
        PUSHES.set(true);
        // SAFETY: the engine lives; what is lent is static.
        let status = unsafe { rte_inbox_push(engine, &message) };
        PUSHES.set(false);
        self.lent.fetch_add(u64::from(has_prompt && status == 0), SeqCst);
        status
    }

    /// What must hold when the engine is gone, however it ended. A panic in the middle of a tick may lose outputs
    /// (`loses_outputs`): nobody knows any more whose they were.
    pub fn expect_all_back(&self, case: &str, loses_outputs: bool) {
        let count = |number: &AtomicU64| number.load(SeqCst);
        assert_eq!(count(&self.destroyed), 1, "{case}: the model comes back once");
        assert_eq!(count(&self.released), count(&self.lent), "{case}: what was lent is given back once");
        let (made, back) = (count(&self.made), count(&self.back));
        assert!(
            back == made || loses_outputs && back < made,
            "{case}: outputs of the model's own: {back} of {made} are back"
        );
        assert_eq!(count(&self.events_freed), count(&self.events), "{case}: events are freed once");
    }
}

unsafe fn world<'a>(user: *mut c_void) -> &'a World {
    // SAFETY: the user of each callback; the world outlives the engine.
    unsafe { &*user.cast::<World>() }
}

/// The world of a callback, and what that is to answer; it is counted first.
unsafe fn reach<'a>(user: *mut c_void, place: Place, count: impl FnOnce(&World)) -> (&'a World, rte_status) {
    // SAFETY: as the callback is called.
    let world = unsafe { world(user) };
    count(world);
    (world, (world.visit)(place))
}

fn add(number: &AtomicU64) {
    number.fetch_add(1, SeqCst);
}

/// Callbacks that do nothing else: what they answer, if anything, and what they count.
macro_rules! callbacks {
    ($($name:ident($($parameter:ty),*) $(-> $answer:ty)? : $place:ident $(, $count:ident)?;)*) => {$(
        unsafe extern "C-unwind" fn $name(user: *mut c_void, $(_: $parameter),*) $(-> $answer)? {
            // SAFETY: as the callback is called.
            let (_, _status) = unsafe { reach(user, Place::$place, |_world| { $(add(&_world.$count))? }) };
            $(_status as $answer)?
        }
    )*};
}

type Wake = Option<unsafe extern "C" fn(*mut c_void)>;

callbacks! {
    init(*const rte_stream) -> i32: Init;
    ready(*mut rte_batch, rte_stream) -> i32: Ready;
    seed(*mut rte_batch, rte_stream) -> i32: Seed;
    hot(*mut rte_batch, rte_stream) -> i32: Hot;
    encode(*mut rte_batch, rte_stream) -> i32: Encode;
    detach(*mut rte_batch, rte_stream) -> i32: Detach;
    finalize(*mut rte_batch, rte_stream) -> i32: Finalize;
    destroy(): Destroy, destroyed;
    release(): Release, released;
    log(u32, *const c_char): Log;
    stream_free(rte_stream): StreamFree;
    event_free(rte_event): EventFree, events_freed;
    record(rte_event, rte_stream) -> i32: Record;
    wait(rte_stream, rte_event) -> i32: Wait;
    sync(rte_event, u64) -> i32: Sync;
    set_wake(Wake, *mut c_void): SetWake;
    destroy_backend(): DestroyBackend, backends_destroyed;
}

unsafe extern "C-unwind" fn deferred(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called; the arrays of a batch.
    unsafe {
        let (world, status) = reach(user, Place::Deferred, |_| {});
        for at in 0..if status == 0 { (*batch).count as usize } else { 0 } {
            add(&world.made);
            *(*batch).output.add(at) = Box::into_raw(Box::new([at as u8; BYTES])).cast();
            *(*batch).output_size.add(at) = BYTES;
        }
        status
    }
}

unsafe extern "C-unwind" fn release_output(user: *mut c_void, data: *mut c_void) {
    // SAFETY: as the hook is called, with what `deferred` made.
    unsafe {
        drop(Box::from_raw(data.cast::<[u8; BYTES]>()));
        reach(user, Place::ReleaseOutput, |world| add(&world.back));
    }
}

unsafe extern "C-unwind" fn on_output(user: *mut c_void, output: *mut rte_output) {
    // SAFETY: as the callback is called; the output is given back at once.
    unsafe {
        rte_output_release(output, std::ptr::null_mut());
        reach(user, Place::OnOutput, |_| {});
    }
}

unsafe extern "C-unwind" fn now(user: *mut c_void) -> u64 {
    // SAFETY: as a clock is called.
    unsafe { reach(user, Place::Now, |_| {}).0.time.fetch_add(1, SeqCst) }
}

unsafe extern "C-unwind" fn sleep_until(user: *mut c_void, at: u64) {
    // SAFETY: as a clock is called.
    unsafe { reach(user, Place::SleepUntil, |_| {}).0.time.fetch_max(at, SeqCst) };
}

unsafe extern "C-unwind" fn stream_new(user: *mut c_void, lane: u32, out: *mut rte_stream) -> i32 {
    // SAFETY: as a backend is called; any number but 0 names a stream.
    unsafe {
        out.write(std::ptr::without_provenance_mut(1 + lane as usize));
        reach(user, Place::StreamNew, |_| {}).1
    }
}

unsafe extern "C-unwind" fn event_new(user: *mut c_void, out: *mut rte_event) -> i32 {
    // SAFETY: as a backend is called; any number but 0 names an event.
    unsafe {
        let (world, status) = reach(user, Place::EventNew, |_| {});
        world.events.fetch_add(u64::from(status == 0), SeqCst);
        out.write(std::ptr::without_provenance_mut(1));
        status
    }
}

/// Mostly it has not passed yet, so that streams and the engine wait for it.
unsafe extern "C-unwind" fn query(user: *mut c_void, _: rte_event) -> i32 {
    // SAFETY: as a backend is called.
    let (world, status) = unsafe { reach(user, Place::Query, |_| {}) };
    let is_early = world.queries.fetch_add(1, SeqCst) % 3 < 2;
    if status == 0 { i32::from(is_early) } else { status }
}
