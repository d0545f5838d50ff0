//! A backend for tests: a stream for each queue of the lanes, and some of the test's, in a time that only the test moves.
//!
//! Work takes no time unless the model says so, with [`Device::enqueue`]. An event passes when the time has come up to
//! which its stream was full when it was recorded; one of the test's own when it says. What breaks the contract of
//! `rte_backend` is kept as a complaint. Calls are counted, and a function can be made to fail.

use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};

use rte::abi::message::{rte_event, rte_stream};
use rte::abi::options::rte_backend;
use rte::abi::status::rte_status;

use super::engine::{AGAIN, OK, TIMEOUT, descriptor_size};

/// The device. The engine holds a count of it until its `destroy` was called.
#[derive(Default)]
pub struct Device {
    state: Mutex<State>,
}

struct State {
    now: u64,
    /// By stream, the lanes' first ones first: when all that was enqueued is done.
    busy_until: Vec<u64>,
    /// By stream: what it is.
    kinds: Vec<Kind>,
    /// By handle: `None` once freed.
    events: Vec<Option<Event>>,
    /// Which streams were told to wait for events of the test's own, by address, in that order.
    waits: Vec<(usize, usize)>,
    calls: Calls,
    /// What fails, with what, and how many calls of it go well before.
    failing: Option<(Function, rte_status, u64)>,
    complaints: Vec<String>,
}

/// Whose a stream is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Kind {
    /// The test's.
    #[default]
    Own,
    /// A lane's, to be made.
    Missing,
    Made,
    Freed,
}

#[derive(Clone, Copy, Default)]
struct Event {
    passes_at: u64,
    records: u64,
    /// It is the test's.
    is_own: bool,
}

/// How often which function was called; those that failed count.
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the functions of `rte_backend`")]
pub struct Calls {
    pub stream_new: u64,
    pub stream_free: u64,
    pub event_new: u64,
    pub event_free: u64,
    pub record: u64,
    pub wait: u64,
    pub query: u64,
    pub sync: u64,
}

/// A function that can be made to fail.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the functions of `rte_backend`")]
pub enum Function {
    StreamNew,
    EventNew,
    Record,
    Wait,
    Query,
    Sync,
}

impl Default for State {
    fn default() -> State {
        State {
            now: 0,
            busy_until: vec![0; 3],
            kinds: vec![Kind::Missing; 3],
            events: Vec::new(),
            waits: Vec::new(),
            calls: Calls::default(),
            failing: None,
            complaints: Vec::new(),
        }
    }
}

impl Device {
    /// A device at time 0.
    pub fn new() -> Arc<Self> {
        Arc::default()
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no callback panics with the device in hand")
    }

    /// Moves the time on.
    pub fn set_now(&self, now: u64) {
        let mut state = self.state();
        assert!(now >= state.now, "time never goes back");
        state.now = now;
    }

    /// The time.
    pub fn now(&self) -> u64 {
        self.state().now
    }

    /// Appends work of this length to a stream. Gives the time at which it will be done.
    pub fn enqueue(&self, stream: rte_stream, length: u64) -> u64 {
        let mut state = self.state();
        let lane = lane_of(stream);
        let done = state.busy_until[lane].max(state.now) + length;
        state.busy_until[lane] = done;
        done
    }

    /// Appends work to a stream that is done at this time, or with what is there already. Gives the time at which it will
    /// be done.
    pub fn finish_at(&self, stream: rte_stream, time: u64) -> u64 {
        let mut state = self.state();
        let lane = lane_of(stream);
        let done = state.busy_until[lane].max(state.now).max(time);
        state.busy_until[lane] = done;
        done
    }

    /// A stream that is no lane's.
    pub fn consumer_stream(&self) -> rte_stream {
        self.state().new_stream(Kind::Own)
    }

    /// When all is done that is enqueued on a stream.
    pub fn busy_until(&self, stream: rte_stream) -> u64 {
        self.state().busy_until[lane_of(stream)]
    }

    /// An event of the test's own, which passes at this time.
    pub fn own_event(&self, passes_at: u64) -> rte_event {
        let mut state = self.state();
        state.events.push(Some(Event { passes_at, records: 0, is_own: true }));
        handle(state.events.len() - 1)
    }

    /// Frees an event of the test's own: who uses it from now on breaks the contract.
    pub fn drop_own_event(&self, event: rte_event) {
        self.state().events[event.addr() - 1] = None;
    }

    /// How often a stream was told to wait for an event of the test's own.
    pub fn waits(&self, stream: rte_stream, event: rte_event) -> usize {
        self.state().waits.iter().filter(|wait| **wait == (stream.addr(), event.addr())).count()
    }

    /// How often any stream was told to wait for an event of the test's own.
    pub fn all_waits(&self, event: rte_event) -> usize {
        self.state().waits.iter().filter(|(_, waited)| *waited == event.addr()).count()
    }

    /// What is enqueued on a stream from now on runs after an event, as a consumer asks for it.
    pub fn wait_for(&self, stream: rte_stream, event: rte_event) {
        self.state().wait(stream, event);
    }

    /// Whether an event has passed.
    pub fn has_passed(&self, event: rte_event) -> bool {
        let mut state = self.state();
        let now = state.now;
        state.event(event).passes_at <= now
    }

    /// How often an event was recorded.
    pub fn records_of(&self, event: rte_event) -> u64 {
        self.state().event(event).records
    }

    /// The calls so far.
    pub fn calls(&self) -> Calls {
        self.state().calls
    }

    /// From now on this function fails with this status; `None`: none does.
    pub fn fail(&self, failing: Option<(Function, rte_status)>) {
        self.state().failing = failing.map(|(function, status)| (function, status, 0));
    }

    /// As that, after so many more calls of it.
    pub fn fail_after(&self, calls: u64, function: Function, status: rte_status) {
        self.state().failing = Some((function, status, calls));
    }

    /// Breaches of the contract so far.
    pub fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    /// Whether everything that was made was freed, and the test has dropped its own events.
    pub fn is_clean(&self) -> bool {
        let state = self.state();
        let calls = state.calls;
        calls.stream_new == calls.stream_free
            && calls.event_new == calls.event_free
            && state.events.iter().all(Option::is_none)
    }

    /// The table for `rte_engine_options`. Takes a count of the device, which `destroy` gives back.
    pub fn table(self: &Arc<Self>) -> rte_backend {
        rte_backend {
            struct_size: descriptor_size::<rte_backend>(),
            reserved: 0,
            user: Arc::into_raw(self.clone()).cast_mut().cast(),
            stream_new: Some(stream_new),
            stream_free: Some(stream_free),
            event_new: Some(event_new),
            event_free: Some(event_free),
            record: Some(record),
            wait: Some(wait),
            query: Some(query),
            sync: Some(sync),
            set_wake: None,
            destroy: Some(destroy),
        }
    }
}

impl State {
    fn event(&mut self, event: rte_event) -> &mut Event {
        let at = event.addr() - 1;
        if self.events[at].is_none() {
            self.complaints.push(format!("event {at} is used after it was freed"));
            self.events[at] = Some(Event::default());
        }
        self.events[at].as_mut().expect("just made sure")
    }

    fn new_stream(&mut self, kind: Kind) -> rte_stream {
        self.busy_until.push(self.now);
        self.kinds.push(kind);
        handle(self.busy_until.len() - 1)
    }

    fn wait(&mut self, stream: rte_stream, event: rte_event) {
        let Event { passes_at, is_own, .. } = *self.event(event);
        if is_own {
            self.waits.push((stream.addr(), event.addr()));
        }
        let busy_until = &mut self.busy_until[lane_of(stream)];
        *busy_until = passes_at.max(*busy_until);
    }

    /// What a function is to return in any case.
    fn failure(&mut self, function: Function) -> Option<rte_status> {
        let (_, status, left) = self.failing.as_mut().filter(|(failing, ..)| *failing == function)?;
        if *left == 0 {
            return Some(*status);
        }
        *left -= 1;
        None
    }
}

/// Handles are numbers from 1: lanes and events have no address.
fn handle<T>(at: usize) -> *mut T {
    std::ptr::without_provenance_mut(at + 1)
}

fn lane_of(stream: rte_stream) -> usize {
    stream.addr() - 1
}

fn state_of<'a>(user: *mut c_void) -> MutexGuard<'a, State> {
    // SAFETY: `user` is the device of `Device::table`, of which the engine holds a count until `destroy`.
    unsafe { &*user.cast::<Device>() }.state()
}

unsafe extern "C-unwind" fn stream_new(user: *mut c_void, lane: u32, out: *mut rte_stream) -> rte_status {
    let mut state = state_of(user);
    if let Some(status) = state.failure(Function::StreamNew) {
        return status;
    }
    state.calls.stream_new += 1;
    // The first of a lane has the lane's number.
    let stream = match state.kinds[lane as usize] {
        Kind::Missing => handle(lane as usize),
        _ => state.new_stream(Kind::Made),
    };
    state.kinds[lane_of(stream)] = Kind::Made;
    // SAFETY: the engine gave a place for the stream.
    unsafe { out.write(stream) };
    OK
}

unsafe extern "C-unwind" fn stream_free(user: *mut c_void, stream: rte_stream) {
    let mut state = state_of(user);
    state.calls.stream_free += 1;
    if std::mem::replace(&mut state.kinds[lane_of(stream)], Kind::Freed) != Kind::Made {
        state.complaints.push(format!("stream {} is freed, which was not made, or was freed before", lane_of(stream)));
    }
    if state.busy_until[lane_of(stream)] > state.now {
        state.complaints.push(format!("stream {} is freed with work on it", lane_of(stream)));
    }
}

unsafe extern "C-unwind" fn event_new(user: *mut c_void, out: *mut rte_event) -> rte_status {
    let mut state = state_of(user);
    if let Some(status) = state.failure(Function::EventNew) {
        return status;
    }
    state.calls.event_new += 1;
    state.events.push(Some(Event::default()));
    // SAFETY: the engine gave a place for the event.
    unsafe { out.write(handle(state.events.len() - 1)) };
    OK
}

unsafe extern "C-unwind" fn event_free(user: *mut c_void, event: rte_event) {
    let mut state = state_of(user);
    state.calls.event_free += 1;
    if state.event(event).passes_at > state.now && state.failing.is_none() {
        state.complaints.push("an event is freed before it has passed".to_owned());
    }
    state.events[event.addr() - 1] = None;
}

unsafe extern "C-unwind" fn record(user: *mut c_void, event: rte_event, stream: rte_stream) -> rte_status {
    let mut state = state_of(user);
    state.calls.record += 1;
    if let Some(status) = state.failure(Function::Record) {
        return status;
    }
    let (now, full_until) = (state.now, state.busy_until[lane_of(stream)]);
    let place = state.event(event);
    let (was_pending, is_own) = (place.passes_at > now, place.is_own);
    place.passes_at = full_until;
    place.records += 1;
    if was_pending {
        state.complaints.push("an event was recorded again before it had passed".to_owned());
    }
    if is_own {
        state.complaints.push("an event of the test's own was recorded".to_owned());
    }
    OK
}

unsafe extern "C-unwind" fn wait(user: *mut c_void, stream: rte_stream, event: rte_event) -> rte_status {
    let mut state = state_of(user);
    state.calls.wait += 1;
    if let Some(status) = state.failure(Function::Wait) {
        return status;
    }
    state.wait(stream, event);
    OK
}

unsafe extern "C-unwind" fn query(user: *mut c_void, event: rte_event) -> rte_status {
    let mut state = state_of(user);
    state.calls.query += 1;
    if let Some(status) = state.failure(Function::Query) {
        return status;
    }
    let now = state.now;
    if state.event(event).passes_at <= now { OK } else { AGAIN }
}

/// Who is ready to wait makes the time pass.
unsafe extern "C-unwind" fn sync(user: *mut c_void, event: rte_event, timeout_ns: u64) -> rte_status {
    let mut state = state_of(user);
    state.calls.sync += 1;
    if let Some(status) = state.failure(Function::Sync) {
        return status;
    }
    let passes_at = state.event(event).passes_at;
    if passes_at > state.now && timeout_ns == 0 {
        return TIMEOUT;
    }
    state.now = state.now.max(passes_at);
    OK
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: gives back the count that `Device::table` took; the engine calls this once.
    drop(unsafe { Arc::from_raw(user.cast::<Device>()) });
}
