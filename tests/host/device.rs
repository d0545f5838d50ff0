//! A backend for tests: three streams in a time that only the test moves.
//!
//! Work takes no time unless the model says so, with [`Device::enqueue`]. An event passes when the time has come up to
//! which its stream was full when it was recorded. What breaks the contract of `rte_backend` is kept as a complaint.

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

#[derive(Default)]
struct State {
    now: u64,
    /// By lane: when all that was enqueued is done.
    busy_until: [u64; 3],
    streams_made: usize,
    streams_freed: usize,
    /// By handle: `None` once freed.
    events: Vec<Option<Event>>,
    complaints: Vec<String>,
}

#[derive(Clone, Copy, Default)]
struct Event {
    passes_at: u64,
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

    /// Breaches of the contract so far.
    pub fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    /// Whether everything that was made was freed.
    pub fn is_clean(&self) -> bool {
        let state = self.state();
        state.streams_made == state.streams_freed && state.events.iter().all(Option::is_none)
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
    state_of(user).streams_made += 1;
    // SAFETY: the engine gave a place for the stream.
    unsafe { out.write(handle(lane as usize)) };
    OK
}

unsafe extern "C-unwind" fn stream_free(user: *mut c_void, _stream: rte_stream) {
    state_of(user).streams_freed += 1;
}

unsafe extern "C-unwind" fn event_new(user: *mut c_void, out: *mut rte_event) -> rte_status {
    let mut state = state_of(user);
    state.events.push(Some(Event::default()));
    // SAFETY: the engine gave a place for the event.
    unsafe { out.write(handle(state.events.len() - 1)) };
    OK
}

unsafe extern "C-unwind" fn event_free(user: *mut c_void, event: rte_event) {
    let mut state = state_of(user);
    state.event(event);
    state.events[event.addr() - 1] = None;
}

unsafe extern "C-unwind" fn record(user: *mut c_void, event: rte_event, stream: rte_stream) -> rte_status {
    let mut state = state_of(user);
    let (now, full_until) = (state.now, state.busy_until[lane_of(stream)]);
    let place = state.event(event);
    let was_pending = place.passes_at > now;
    place.passes_at = full_until;
    if was_pending {
        state.complaints.push("an event was recorded again before it had passed".to_owned());
    }
    OK
}

unsafe extern "C-unwind" fn wait(user: *mut c_void, stream: rte_stream, event: rte_event) -> rte_status {
    let mut state = state_of(user);
    let passes_at = state.event(event).passes_at;
    let busy_until = &mut state.busy_until[lane_of(stream)];
    *busy_until = passes_at.max(*busy_until);
    OK
}

unsafe extern "C-unwind" fn query(user: *mut c_void, event: rte_event) -> rte_status {
    let mut state = state_of(user);
    let now = state.now;
    if state.event(event).passes_at <= now { OK } else { AGAIN }
}

/// Who is ready to wait makes the time pass.
unsafe extern "C-unwind" fn sync(user: *mut c_void, event: rte_event, timeout_ns: u64) -> rte_status {
    let mut state = state_of(user);
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
