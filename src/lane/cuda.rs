//! Lanes that are CUDA streams: a device as [`Streams`].
//!
//! A [`Gpu`] is one engine's hold on a device's primary context, the one that the runtime API uses too. The lanes have it,
//! and so has everything that may outlive them: outputs, and the marks of consumers' streams. The context is given up
//! with the last of them.
//!
//! **The caller's context.** Every call that needs the context current puts it on top of the calling thread's stack and
//! takes it off again ([`Gpu::within`]), unless it is on top already; so does every callback of the model
//! ([`InContext`]). No thread finds another one when a call of this library returns.
//!
//! **Failures.** The first one is kept in the driver's words, for whoever asks why the engine ended. Which ones a context
//! survives is not asked: work whose order is not sure any more is not gone on with.

use std::ptr::null_mut;
use std::sync::Arc;

use super::cuda_driver::{Driver, Handle, Refusal};
use super::{Events, Streams, Trouble};
use crate::batch::Batch;
use crate::memory::{LINE, Room};
use crate::model::{Call, Manifest, Model, RawEngine, RawEvent, RawStream};
use crate::time::real_now;
use crate::word::{Lane, Nanos, Status};

/// CU_STREAM_NON_BLOCKING: the legacy stream and ours do not wait for each other.
const NON_BLOCKING: u32 = 1;
/// CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING.
const EVENT_FLAGS: u32 = 1 | 2;
/// CU_MEMHOSTALLOC_PORTABLE: page-locked for every context.
const PORTABLE: u32 = 1;
/// CU_STREAM_LEGACY and CU_STREAM_PER_THREAD: names, not streams.
const DEFAULT_STREAMS: [usize; 2] = [1, 2];
/// How often an event is looked at by a wait that has an end: the driver's own has none.
const LOOK: Nanos = 50_000;

/// Which device.
pub enum Choice<'a> {
    /// The driver's number of it.
    Ordinal(i32),
    /// Its UUID, as `nvidia-smi -L` prints it.
    Uuid(&'a str),
}

/// Why there is no such lane.
pub struct NoGpu {
    /// What is returned.
    pub status: Status,
    /// Why, in words.
    pub words: String,
}

/// See the module's comment.
pub struct Gpu {
    driver: &'static Driver,
    device: i32,
    context: Handle,
    /// Before it sleeps for an event, a thread spins so long.
    spin: Nanos,
    trouble: Arc<Trouble>,
}

// SAFETY: the driver's functions may be called on any thread, and so used are its handles.
unsafe impl Send for Gpu {}
// SAFETY: as above.
unsafe impl Sync for Gpu {}

impl Gpu {
    /// Whether there is a device at all.
    pub fn is_there() -> bool {
        Driver::get().is_ok_and(|driver| count(driver).is_ok_and(|count| count > 0))
    }

    /// The chosen device. What fails later is told to `trouble`.
    pub fn open(choice: Choice<'_>, spin: Nanos, trouble: Arc<Trouble>) -> Result<Arc<Gpu>, NoGpu> {
        let driver = Driver::get().map_err(|why| NoGpu { status: Status::UNAVAILABLE, words: why.to_string() })?;
        let refused = |refusal: Refusal| NoGpu { status: status_of(refusal), words: driver.words(refusal) };
        let count = count(driver).map_err(refused)?;
        if count == 0 {
            return Err(NoGpu { status: Status::UNAVAILABLE, words: "the CUDA driver sees no device".to_string() });
        }
        let device = match choice {
            Choice::Ordinal(ordinal) if (0..count).contains(&ordinal) => device_of(driver, ordinal).map_err(refused)?,
            Choice::Ordinal(ordinal) => {
                let words = format!("options.device: {ordinal}, but the CUDA driver sees {count}, from 0");
                return Err(NoGpu { status: Status::ARGUMENT, words });
            }
            Choice::Uuid(uuid) => named(driver, count, uuid)?,
        };
        let mut context = null_mut();
        // SAFETY: a place for a handle; released when this is dropped.
        unsafe { driver.primary_retain(&mut context, device) }.map_err(refused)?;
        Ok(Arc::new(Gpu { driver, device, context, spin, trouble }))
    }

    /// Runs `call` with the context current, and leaves the calling thread's as it was.
    fn within<T>(&self, call: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Status> {
        let mut current = null_mut();
        // SAFETY: a place for a handle.
        let asked = unsafe { self.driver.context_current(&mut current) };
        let result = match asked {
            Ok(()) if current == self.context => call(),
            Ok(()) => self.pushed(call),
            Err(refusal) => Err(refusal),
        };
        result.map_err(|refusal| self.note(refusal))
    }

    /// As that, what is no call of the driver. An error: it was not run.
    fn around<T>(&self, call: impl FnOnce() -> T) -> Result<T, Status> {
        self.within(|| Ok(call()))
    }

    fn pushed<T>(&self, call: impl FnOnce() -> Result<T, Refusal>) -> Result<T, Refusal> {
        // SAFETY: the context is ours; popped below.
        unsafe { self.driver.context_push(self.context)? };
        let popped = Popped(self.driver);
        let result = call();
        drop(popped);
        result
    }

    /// Keeps the words of the first failure.
    fn note(&self, refusal: Refusal) -> Status {
        let status = status_of(refusal);
        self.trouble.note(|| (status, self.driver.words(refusal)));
        status
    }

    /// Why a stream cannot be lent as one of this device's, if so. Asks the driver: it must be a stream, or a name of one.
    pub fn refuses(&self, stream: RawStream) -> Option<String> {
        if DEFAULT_STREAMS.contains(&stream.0) {
            return Some("a default stream, which waits for others".to_string());
        }
        let (handle, mut context, mut capturing) = (handle_of(stream.0), null_mut(), 0);
        let asked = self.within(|| {
            // SAFETY: the host says that it is a stream; places for a handle and a number.
            unsafe {
                self.driver.stream_context(handle, &mut context)?;
                self.driver.stream_capturing(handle, &mut capturing)
            }
        });
        match asked {
            Err(status) => Some(format!("the driver does not take it: status {status}")),
            Ok(()) if context != self.context => {
                Some("of another context than the device's primary one, or of another device".to_string())
            }
            Ok(()) if capturing != 0 => Some("being captured".to_string()),
            Ok(()) => None,
        }
    }

    fn has_passed(&self, event: RawEvent) -> Result<bool, Refusal> {
        // SAFETY: an event of ours, which lives.
        match unsafe { self.driver.event_query(handle_of(event.0)) } {
            Ok(()) => Ok(true),
            Err(refusal) if refusal.is_not_ready() => Ok(false),
            Err(refusal) => Err(refusal),
        }
    }

    fn await_event(&self, event: RawEvent, timeout: Nanos) -> Result<bool, Refusal> {
        let begun = real_now();
        let (end, spun) = (begun.saturating_add(timeout), begun.saturating_add(self.spin));
        loop {
            if self.has_passed(event)? {
                return Ok(true);
            }
            match real_now() {
                now if now >= end => return Ok(false),
                now if now < spun => std::hint::spin_loop(),
                _ if end == Nanos::MAX => {
                    // SAFETY: an event of ours, which lives.
                    return unsafe { self.driver.event_sync(handle_of(event.0)) }.map(|()| true);
                }
                now => std::thread::sleep(std::time::Duration::from_nanos(LOOK.min(end - now))),
            }
        }
    }
}

/// Takes our context off the thread's stack when it goes, also where a callback unwinds.
struct Popped(&'static Driver);

impl Drop for Popped {
    fn drop(&mut self) {
        // SAFETY: a place for a handle. What a callback has put there in place of ours goes with it.
        let _ = unsafe { self.0.context_pop(&mut null_mut()) };
    }
}

impl Drop for Gpu {
    fn drop(&mut self) {
        // SAFETY: retained once, in `open`.
        let _ = unsafe { self.driver.primary_release(self.device) };
    }
}

fn status_of(refusal: Refusal) -> Status {
    if refusal.is_memory() { Status::MEMORY } else { Status::DEVICE }
}

fn handle_of(address: usize) -> Handle {
    std::ptr::with_exposed_provenance_mut(address)
}

fn count(driver: &Driver) -> Result<i32, Refusal> {
    let mut count = 0;
    // SAFETY: a place for a number.
    unsafe { driver.device_count(&mut count) }.map(|()| count)
}

fn device_of(driver: &Driver, ordinal: i32) -> Result<i32, Refusal> {
    let mut device = 0;
    // SAFETY: a place for a number.
    unsafe { driver.device_get(&mut device, ordinal) }.map(|()| device)
}

/// The device with this UUID.
fn named(driver: &Driver, count: i32, uuid: &str) -> Result<i32, NoGpu> {
    let no = |status, words| NoGpu { status, words };
    let digits: String = uuid.strip_prefix("GPU-").unwrap_or(uuid).chars().filter(|digit| *digit != '-').collect();
    if digits.len() != 32 || !digits.chars().all(|digit| digit.is_ascii_hexdigit()) {
        return Err(no(
            Status::ARGUMENT,
            format!("options.device_uuid: \"{uuid}\" is not a UUID (GPU-..., 32 digits)"),
        ));
    }
    for ordinal in 0..count {
        let mut bytes = [0; 16];
        let asked = device_of(driver, ordinal).and_then(|device| {
            // SAFETY: a place for 16 bytes.
            unsafe { driver.device_uuid(&mut bytes, device) }.map(|()| device)
        });
        let device = asked.map_err(|refusal| no(status_of(refusal), driver.words(refusal)))?;
        if bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>() == digits.to_ascii_lowercase() {
            return Ok(device);
        }
    }
    Err(no(
        Status::ARGUMENT,
        format!("options.device_uuid: none of the {count} devices that the driver sees is {uuid}"),
    ))
}

impl Events for Gpu {
    fn event(&self) -> Result<RawEvent, Status> {
        let mut event = null_mut();
        // SAFETY: a place for a handle.
        self.within(|| unsafe { self.driver.event_new(&mut event, EVENT_FLAGS) })?;
        Ok(RawEvent(event.expose_provenance()))
    }

    fn record(&self, event: RawEvent, stream: RawStream) -> Result<(), Status> {
        // SAFETY: an event of ours, which lives; a stream of the lanes, or one that a consumer says is one.
        self.within(|| unsafe { self.driver.event_record(handle_of(event.0), handle_of(stream.0)) })
    }

    fn query(&self, event: RawEvent) -> Result<bool, Status> {
        self.within(|| self.has_passed(event))
    }

    fn sync(&self, event: RawEvent, timeout: Nanos) -> Result<bool, Status> {
        self.within(|| self.await_event(event, timeout))
    }

    fn free(&self, event: RawEvent) {
        // SAFETY: an event of ours, once; the driver frees it when what waits for it has passed.
        let _ = self.within(|| unsafe { self.driver.event_free(handle_of(event.0)) });
    }
}

/// Page-locked memory: what the device copies from and to while the processor goes on.
pub struct PageLocked(pub Arc<Gpu>);

// SAFETY: the driver gives whole pages of the process's own, to nobody else until they are freed.
unsafe impl Room for PageLocked {
    fn take(&self, size: usize) -> Option<usize> {
        let (gpu, mut address) = (&self.0, null_mut());
        // SAFETY: a place for a pointer.
        gpu.within(|| unsafe { gpu.driver.host_alloc(&mut address, size, PORTABLE) }).ok()?;
        Some(address.expose_provenance())
    }

    fn give(&self, address: usize) {
        // SAFETY: from `take`, once.
        let _ = self.0.within(|| unsafe { self.0.driver.host_free(handle_of(address)) });
    }

    fn is_host(&self) -> bool {
        true
    }
}

/// Memory of the device.
pub struct OnDevice(pub Arc<Gpu>);

// SAFETY: the driver gives memory to nobody else until it is freed, on boundaries of 256 bytes.
unsafe impl Room for OnDevice {
    fn take(&self, size: usize) -> Option<usize> {
        let (gpu, mut address) = (&self.0, 0);
        // SAFETY: a place for an address.
        gpu.within(|| unsafe { gpu.driver.device_alloc(&mut address, size) }).ok()?;
        debug_assert!(address.is_multiple_of(LINE as u64));
        usize::try_from(address).ok()
    }

    fn give(&self, address: usize) {
        // SAFETY: from `take`, once.
        let _ = self.0.within(|| unsafe { self.0.driver.device_free(address as u64) });
    }

    fn is_host(&self) -> bool {
        false
    }
}

/// The lanes' side of a device.
pub struct CudaStreams {
    gpu: Arc<Gpu>,
    /// Streams that the host lent, by lane; 0: made here.
    lent: [RawStream; Lane::COUNT],
    made: Vec<Handle>,
}

// SAFETY: handles of the driver may be used on any thread.
unsafe impl Send for CudaStreams {}

impl CudaStreams {
    /// Streams of `gpu`, but those of the lanes that `lent` has one for.
    pub fn new(gpu: Arc<Gpu>, lent: [RawStream; Lane::COUNT]) -> CudaStreams {
        CudaStreams { gpu, lent, made: Vec::new() }
    }
}

impl Streams for CudaStreams {
    fn stream(&mut self, lane: Lane) -> Result<RawStream, Status> {
        if self.lent[lane.at()] != RawStream(0) {
            return Ok(self.lent[lane.at()]);
        }
        let (gpu, mut stream) = (&self.gpu, null_mut());
        gpu.within(|| {
            let (mut least, mut greatest) = (0, 0);
            // SAFETY: places for numbers and a handle.
            unsafe {
                gpu.driver.priority_range(&mut least, &mut greatest)?;
                // The greater the priority, the lower the number.
                let priority = match lane {
                    Lane::Hot => greatest,
                    Lane::Deferred => i32::midpoint(greatest, least),
                    Lane::Encode => least,
                };
                gpu.driver.stream_new(&mut stream, NON_BLOCKING, priority)
            }
        })?;
        self.made.push(stream);
        Ok(RawStream(stream.expose_provenance()))
    }

    fn wait(&mut self, stream: RawStream, event: RawEvent) -> Result<(), Status> {
        // SAFETY: a stream of the lanes and an event that lives.
        self.gpu.within(|| unsafe { self.gpu.driver.stream_wait(handle_of(stream.0), handle_of(event.0), 0) })
    }

    fn events(&self) -> Arc<dyn Events> {
        self.gpu.clone()
    }

    fn settle(&mut self) {
        for stream in self.made.iter().copied().chain(self.lent.map(|stream| handle_of(stream.0))) {
            if !stream.is_null() {
                // SAFETY: a stream of the lanes. Where the context is lost this returns at once.
                let _ = self.gpu.within(|| unsafe { self.gpu.driver.stream_sync(stream) });
            }
        }
    }

    fn close(&mut self) {
        for stream in self.made.drain(..) {
            // SAFETY: made here, freed once; what is on it has passed, or the context is lost.
            let _ = self.gpu.within(|| unsafe { self.gpu.driver.stream_free(stream) });
        }
    }

    fn wakes(&self) -> bool {
        false
    }

    fn waits_whole(&self) -> bool {
        true
    }
}

/// A model whose callbacks find the device's context current.
pub struct InContext {
    gpu: Arc<Gpu>,
    /// None once it is dropped.
    model: Option<Arc<dyn Model>>,
}

impl InContext {
    /// `model`, on `gpu`.
    pub fn new(gpu: Arc<Gpu>, model: Arc<dyn Model>) -> InContext {
        InContext { gpu, model: Some(model) }
    }

    fn model(&self) -> &dyn Model {
        &**self.model.as_ref().expect("there until it is dropped")
    }
}

impl Model for InContext {
    fn manifest(&self) -> &Manifest {
        self.model().manifest()
    }

    fn init(&self, streams: [RawStream; Lane::COUNT]) -> Result<(), Status> {
        self.gpu.around(|| self.model().init(streams))?
    }

    fn release_output(&self, address: usize) {
        let release = || self.model().release_output(address);
        // Where the context is lost it was not called.
        if self.gpu.around(release).is_err() {
            release();
        }
    }

    fn call(&self, call: Call, batch: &mut Batch, stream: RawStream) -> Result<(), Status> {
        self.gpu.around(|| self.model().call(call, batch, stream))?
    }

    fn serve(&self, engine: RawEngine) -> Result<(), Status> {
        self.model().serve(engine)
    }
}

impl Drop for InContext {
    fn drop(&mut self) {
        let model = self.model.take();
        // Where the context is lost, `model` goes with the closure that was not run.
        let _ = self.gpu.around(move || drop(model));
    }
}
