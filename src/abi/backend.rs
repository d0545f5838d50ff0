//! A host's backend as the engine's [`Streams`].

use std::ffi::c_void;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::guard::{answer_of, give_back};
use super::message::{raw_stream, rte_event, rte_stream};
use super::options::rte_backend;
use crate::lane::{Bell, Events, Streams};
use crate::model::{RawEvent, RawStream};
use crate::telemetry::Watch;
use crate::word::{Lane, Nanos, Status};

/// The host's functions; shared by the lanes and the outputs that are still out. All but two were checked to be there.
pub(super) struct Table {
    table: rte_backend,
    /// What `set_wake` was given. It lives as long as the table.
    bell: Bell,
    /// The host may have freed the engine while something hung: then nothing of the table is called any more.
    watch: Arc<Watch>,
    /// The engine was made: `destroy` is owed.
    is_taken: AtomicBool,
}

// SAFETY: the host promises that its functions may be called from the threads that rte.h names.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

unsafe extern "C" fn wake(engine: *mut c_void) {
    // SAFETY: given to `set_wake` with the address of a bell that lives until the table goes.
    let bell = unsafe { &*engine.cast::<Bell>() };
    bell.kicked.store(true, Ordering::SeqCst);
    bell.parked.notify();
}

/// Calls a function of the table that is there, as `$around` does; none once the engine was abandoned.
macro_rules! call {
    ($around:ident, $self:ident . $name:ident ( $($argument:expr),* )) => {
        match $self.table.$name {
            Some(_) if $self.watch.is_abandoned() => abandoned::$around(),
            // SAFETY: a callback of the host, with its own handles.
            Some(function) => $around(|| unsafe { function($self.table.user $(, $argument)*) }),
            None => unreachable!("checked when the table was read"),
        }
    };
}

/// What a call that is not made comes to.
mod abandoned {
    use crate::word::Status;

    pub(super) fn answer_of() -> i32 {
        Status::DEAD.0
    }

    pub(super) fn give_back() {}
}

impl Table {
    pub(super) fn new(table: rte_backend, bell: Bell, watch: Arc<Watch>) -> Arc<Table> {
        Arc::new(Table { table, bell, watch, is_taken: AtomicBool::new(false) })
    }

    /// The engine is made: from now on `user` is the table's.
    pub(super) fn take(&self) {
        self.is_taken.store(true, Ordering::Relaxed);
    }
}

impl Events for Table {
    fn event(&self) -> Result<RawEvent, Status> {
        let mut event: rte_event = std::ptr::null_mut();
        Status::of_callback(call!(answer_of, self.event_new(&mut event)))?;
        Ok(RawEvent(event.expose_provenance()))
    }

    fn record(&self, event: RawEvent, stream: RawStream) -> Result<(), Status> {
        Status::of_callback(call!(answer_of, self.record(event_of(event), stream_of(stream))))
    }

    fn query(&self, event: RawEvent) -> Result<bool, Status> {
        match call!(answer_of, self.query(event_of(event))) {
            code if code == Status::AGAIN.0 => Ok(false),
            code => Status::of_callback(code).map(|()| true),
        }
    }

    fn sync(&self, event: RawEvent, timeout: Nanos) -> Result<bool, Status> {
        match call!(answer_of, self.sync(event_of(event), timeout)) {
            code if code == Status::TIMEOUT.0 => Ok(false),
            code => Status::of_callback(code).map(|()| true),
        }
    }

    fn free(&self, event: RawEvent) {
        call!(give_back, self.event_free(event_of(event)));
    }
}

impl Drop for Table {
    fn drop(&mut self) {
        if let (true, Some(destroy)) = (*self.is_taken.get_mut(), self.table.destroy) {
            // SAFETY: the last call: lanes and outputs have let go of the table.
            give_back(|| unsafe { destroy(self.table.user) });
        }
    }
}

fn stream_of(stream: RawStream) -> rte_stream {
    std::ptr::with_exposed_provenance_mut(stream.0)
}

fn event_of(event: RawEvent) -> rte_event {
    std::ptr::with_exposed_provenance_mut(event.0)
}

/// The lanes' side of the table.
pub(super) struct HostStreams {
    table: Arc<Table>,
    /// Streams that the host lent, by lane; 0: made here.
    lent: [RawStream; Lane::COUNT],
    made: Vec<RawStream>,
    is_open: bool,
}

impl HostStreams {
    pub(super) fn new(table: Arc<Table>, lent: [rte_stream; Lane::COUNT]) -> HostStreams {
        HostStreams { table, lent: lent.map(raw_stream), made: Vec::new(), is_open: false }
    }
}

impl Streams for HostStreams {
    fn stream(&mut self, lane: Lane) -> Result<RawStream, Status> {
        self.is_open = true;
        if let (Lane::Hot, Some(set_wake)) = (lane, self.table.table.set_wake) {
            let bell = (&raw const self.table.bell).cast_mut().cast();
            let user = self.table.table.user;
            let set = || {
                // SAFETY: a callback of the host; the bell outlives the NULL that `close` sends.
                unsafe { set_wake(user, Some(wake), bell) };
                0
            };
            Status::of_callback(answer_of(set))?;
        }
        if self.lent[lane.at()] != RawStream(0) {
            return Ok(self.lent[lane.at()]);
        }
        let mut stream: rte_stream = std::ptr::null_mut();
        let table = &self.table;
        Status::of_callback(call!(answer_of, table.stream_new(lane.at() as u32, &mut stream)))?;
        self.made.push(RawStream(stream.expose_provenance()));
        Ok(RawStream(stream.expose_provenance()))
    }

    fn wait(&mut self, stream: RawStream, event: RawEvent) -> Result<(), Status> {
        let table = &self.table;
        Status::of_callback(call!(answer_of, table.wait(stream_of(stream), event_of(event))))
    }

    fn events(&self) -> Arc<dyn Events> {
        self.table.clone()
    }

    fn settle(&mut self) {
        let lent = self.lent.iter().filter(|stream| self.is_open && **stream != RawStream(0));
        for stream in self.made.iter().chain(lent) {
            let Ok(event) = self.table.event() else { return };
            if self.table.record(event, *stream).is_ok() {
                while let Ok(false) = self.table.sync(event, Nanos::MAX) {}
            }
            self.table.free(event);
        }
    }

    fn close(&mut self) {
        let table = &self.table;
        for stream in self.made.drain(..) {
            call!(give_back, table.stream_free(stream_of(stream)));
        }
        if let (true, Some(set_wake)) = (self.is_open, table.table.set_wake) {
            // SAFETY: a callback of the host: no more wake-ups.
            give_back(|| unsafe { set_wake(table.table.user, None, std::ptr::null_mut()) });
        }
    }

    fn wakes(&self) -> bool {
        self.table.table.set_wake.is_some()
    }
}
