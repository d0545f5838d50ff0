//! An engine as its host holds it, and who may drive it; how it ends: `ending`.
//!
//! The cohort is behind a lock: the driving thread takes it, for a tick or from opening to the end, and any other that
//! would drive is told that it may not, instead of waiting. `shared` is for everybody, as is each atomic here.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;

use parking_lot::{Mutex, MutexGuard};

use super::cohort::{Cohort, Progress};
use super::drive::{Settings, drive};
use super::ending::{Ending, PANICKED};
use super::replay::{difference, facts, replay};
use super::serve::Serving;
use super::shared::Shared;
use crate::model::{Model, RawEngine};
use crate::record::{Reader, Tape, Writer};
use crate::telemetry::{Level, Trace};
use crate::time::{Duty, real_now};
use crate::word::{Fault, Nanos, Session, Status, hook};

/// A status and what to tell of it.
#[derive(Debug)]
pub struct Failure {
    /// What is returned.
    pub status: Status,
    /// Names the field and the value.
    pub message: String,
}

impl Failure {
    /// A failure.
    pub fn new(status: Status, message: impl Into<String>) -> Failure {
        Failure { status, message: message.into() }
    }
}

/// How an engine is driven; the first call decides.
#[derive(Clone, Copy, PartialEq, Eq)]
#[repr(u8)]
enum Mode {
    Unset,
    Started,
    Run,
    Ticked,
    Replayed,
}

/// What the driving thread runs.
#[allow(clippy::large_enum_variant, reason = "there is one, and it stays where it is")]
pub enum Body {
    /// The tick.
    Cohort(Cohort),
    /// The model's own loop.
    Serving(Serving),
}

/// What the driving thread has.
pub(super) struct Driver {
    /// None: the model owns its loop, or the engine is being freed.
    pub(super) cohort: Option<Cohort>,
    is_open: bool,
}

/// So many mistakes are told one by one.
const FEW_MISTAKES: u64 = 8;

/// See the module's comment.
pub struct Engine {
    /// What any thread may touch.
    pub shared: Arc<Shared>,
    model: Arc<dyn Model>,
    settings: Settings,
    mode: AtomicU8,
    pub(super) driver: Mutex<Driver>,
    /// Where the model owns its loop: what that has of the queues. Locked by the driving thread alone, so never waited for.
    pub(super) serving: Option<Mutex<Serving>>,
    pub(super) thread: Mutex<Option<JoinHandle<()>>>,
    /// What opening came to: 1 = not known yet, 0, or why it failed. `ending.turn` tells who waits for it.
    pub(super) opened: AtomicI32,
    pub(super) ending: Ending,
    /// It is in a tick, or a replay.
    pub(super) is_ticking: AtomicBool,
    /// Where the host ticks: when it did last, and whether it was told since that messages wait for it to.
    ticked_at: AtomicU64,
    rest_is_told: AtomicBool,
    /// Calls that were told as such.
    mistakes: AtomicU64,
}

impl Engine {
    /// An engine that nobody drives yet.
    pub fn new(shared: Arc<Shared>, model: Arc<dyn Model>, body: Body, settings: Settings) -> Arc<Engine> {
        let (cohort, serving) = match body {
            Body::Cohort(cohort) => (Some(cohort), None),
            Body::Serving(serving) => (None, Some(Mutex::new(serving))),
        };
        Arc::new(Engine {
            shared,
            model,
            settings,
            mode: AtomicU8::new(Mode::Unset as u8),
            driver: Mutex::new(Driver { cohort, is_open: false }),
            serving,
            thread: Mutex::new(None),
            opened: AtomicI32::new(1),
            ending: Ending::default(),
            is_ticking: AtomicBool::new(false),
            ticked_at: AtomicU64::new(0),
            rest_is_told: AtomicBool::new(false),
            mistakes: AtomicU64::new(0),
        })
    }

    /// Its model.
    pub fn model(&self) -> &dyn Model {
        &*self.model
    }

    /// How it is driven.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }

    /// Whether the caller is in one of this engine's callbacks, whichever.
    pub fn is_inside(&self) -> bool {
        self.shared.watch.is_inside() || self.shared.log.is_inside()
    }

    /// Decides how the engine is driven, or says that it was decided otherwise.
    fn claim(&self, mode: Mode, again: bool) -> Result<(), Failure> {
        self.refuse_inside()?;
        if self.mode.load(Ordering::Relaxed) != mode as u8 || !again {
            let unset = self.mode.compare_exchange(Mode::Unset as u8, mode as u8, Ordering::SeqCst, Ordering::Relaxed);
            unset.map_err(|_| {
                Failure::new(Status::STATE, "the engine is driven already: one engine is driven in one way, once")
            })?;
        }
        Ok(())
    }

    /// Whether a thread drives it that looks for a stop by itself.
    pub(super) fn has_thread(&self) -> bool {
        let mode = self.mode.load(Ordering::SeqCst);
        mode == Mode::Started as u8 || mode == Mode::Run as u8
    }

    /// The caller's thread is left as it is: what is asked of ours is refused where there are none.
    fn refuse_unheeded(&self) -> Result<(), Failure> {
        if self.settings.has_lane_threads || self.mode.load(Ordering::Relaxed) != Mode::Unset as u8 {
            return Ok(());
        }
        self.settings.threads.asked().map_or(Ok(()), |asked| {
            let why = "the thread that drives is the caller's, which is left as it is, and the lanes have none of ours";
            Err(Failure::new(Status::UNAVAILABLE, format!("{asked}: {why}")))
        })
    }

    /// A model with a loop of its own makes no ticks.
    fn refuse_served(&self) -> Result<(), Failure> {
        if self.serving.is_none() {
            return Ok(());
        }
        self.refuse_inside()?;
        Err(Failure::new(Status::STATE, "the model has serve: call rte_engine_start or rte_engine_run"))
    }

    fn refuse_inside(&self) -> Result<(), Failure> {
        if self.is_inside() {
            return Err(Failure::new(Status::DEADLOCK, "an engine cannot be driven from one of its own callbacks"));
        }
        Ok(())
    }

    fn refuse_stopped(&self) -> Result<(), Failure> {
        if let Some(status) = self.death() {
            return Err(Failure::new(Status::DEAD, format!("the engine is dead: {}", self.settings.cause(status))));
        }
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Err(Failure::new(Status::STATE, "the engine was stopped"));
        }
        Ok(())
    }

    // ---- a thread of ours, or this one

    /// Drives it on a thread of its own. Returns when the model's `init` has. On failure no thread is left.
    pub fn start(self: &Arc<Engine>) -> Result<(), Failure> {
        self.refuse_stopped()?;
        self.claim(Mode::Started, false)?;
        let engine = self.clone();
        let body = move || engine.run_through(|| engine.settings.threads.prepare(Duty::Tick));
        let spawned = std::thread::Builder::new().name(self.settings.threads.name().to_string()).spawn(body);
        let handle = spawned.map_err(|error| {
            self.mode.store(Mode::Unset as u8, Ordering::SeqCst);
            Failure::new(Status::MEMORY, format!("no thread for the engine: {error}"))
        })?;
        *self.thread.lock() = Some(handle);
        self.ending.turn.sleep(None, || self.opened.load(Ordering::SeqCst) != 1);
        self.open_result().inspect_err(|_| self.join())
    }

    /// Drives it on this thread until it is stopped.
    pub fn run(&self) -> Result<(), Failure> {
        self.refuse_stopped()?;
        self.refuse_unheeded()?;
        self.claim(Mode::Run, false)?;
        self.run_through(|| Ok(()));
        self.open_result()?;
        match self.death() {
            // Its last line may be what hung.
            None if self.shared.watch.is_abandoned() => {
                Err(Failure::new(Status::DEAD, "the engine was freed while a callback hung"))
            }
            None => Ok(()),
            Some(status) => {
                Err(Failure::new(Status::DEAD, format!("the engine died: {}", self.settings.cause(status))))
            }
        }
    }

    fn open_result(&self) -> Result<(), Failure> {
        match self.opened.load(Ordering::SeqCst) {
            0 | 1 => Ok(()),
            status if status == Status::STATE.0 && self.death().is_none() => {
                Err(Failure::new(Status::STATE, "the engine was stopped"))
            }
            status => {
                let init = || format!("model.init or the lanes' streams failed: status {status}");
                Err(Failure::new(Status(status), self.settings.why(Status(status)).map_or_else(init, str::to_string)))
            }
        }
    }

    /// From opening to the end, whatever happens. `prepare`: first of all, the calling thread.
    fn run_through(&self, prepare: impl FnOnce() -> Result<(), Status>) {
        let mut guard = self.driver.lock();
        let driver = &mut *guard;
        if self.ending.is_over() {
            // A stop on another thread was faster: nothing is opened any more.
            self.opened.store(Status::STATE.0, Ordering::SeqCst);
            return self.ending.turn.notify();
        }
        let body = AssertUnwindSafe(|| {
            prepare().map_err(|status| Fault { stage: hook::INIT, status })?;
            self.open(driver)?;
            match (&mut driver.cohort, &self.serving) {
                (Some(cohort), _) => drive(&self.shared, cohort, &self.settings),
                (None, Some(serving)) => self.serve(serving),
                (None, None) => Ok(()),
            }
        });
        let result = self.shared.watch.driving(|| catch_unwind(body));
        self.conclude(driver, result, Nanos::MAX);
    }

    fn open(&self, driver: &mut Driver) -> Result<(), Fault> {
        if driver.is_open {
            return Ok(());
        }
        let result = driver.cohort.as_mut().map_or(Ok(()), Cohort::open);
        driver.is_open = result.is_ok();
        if driver.is_open {
            self.opened.store(0, Ordering::SeqCst);
            self.ending.turn.notify();
        }
        // Else `conclude` tells: whoever hears of it finds the engine dead.
        result
    }

    /// Runs the model's own loop.
    fn serve(&self, serving: &Mutex<Serving>) -> Result<(), Fault> {
        self.shared.log.say(Level::Info, || "the engine runs".to_string());
        serving.lock().open();
        // The handle that the host has is this address.
        let result = self.model.serve(RawEngine(std::ptr::from_ref(self).expose_provenance()));
        if self.death().is_some() {
            return Err(PANICKED);
        }
        let was_asked = self.shared.stopping.load(Ordering::SeqCst);
        match result {
            Ok(()) => {}
            // What the inbox says when it is time to end is an answer only then.
            Err(Status::CLOSED) if was_asked => {}
            Err(Status::CLOSED) => return Err(Fault { stage: hook::SERVE, status: Status::CALLBACK }),
            Err(status) => return Err(Fault { stage: hook::SERVE, status }),
        }
        serving.lock().close();
        self.shared.log.say(Level::Info, || "the engine has stopped".to_string());
        Ok(())
    }

    /// The queues' other ends, for the model's own loop alone: on its thread, while it runs, and not in a release or
    /// on_output.
    pub fn serving(&self) -> Option<MutexGuard<'_, Serving>> {
        let serving = self.serving.as_ref().filter(|_| self.shared.watch.is_inside())?;
        serving.try_lock().filter(|serving| serving.is_open())
    }

    /// Of one that a replay may drive: it is told what is on record alone, and does not write over it.
    fn refuse_told(&self) -> Result<(), Failure> {
        let refused = |why| Err(Failure::new(Status::STATE, why));
        let records = |driver: MutexGuard<'_, Driver>| driver.cohort.as_ref().is_some_and(|own| own.tape().is_some());
        if self.mode.load(Ordering::Relaxed) != Mode::Unset as u8 {
            Ok(()) // that is refused when it is claimed
        } else if self.driver.try_lock().is_some_and(records) {
            refused("options.record_path: set: one engine either records or replays")
        } else if self.shared.inbox.has_next() {
            refused("there are messages in the inbox: the record has all that the engine is to be told")
        } else {
            Ok(())
        }
    }

    /// Drives it through what `path` has on record, on this thread.
    pub fn replay(&self, path: &str) -> Result<(), Failure> {
        self.refuse_inside()?;
        self.refuse_stopped()?;
        if self.serving.is_some() {
            return Err(Failure::new(Status::STATE, "the model has serve: there is no record of its loop"));
        }
        self.refuse_told()?;
        let record = Reader::open(path).map_err(|why| Failure::new(Status::ARGUMENT, why))?;
        let facts = self.facts();
        if let Some(what) = difference(record.facts(), &facts) {
            return Err(Failure::new(Status::ARGUMENT, format!("{path}: {what}")));
        }
        self.claim(Mode::Replayed, false)?;
        let tape = Arc::new(Tape::play(record));
        let mut guard = self.driver.lock();
        let driver = &mut *guard;
        driver.cohort.iter_mut().for_each(|cohort| cohort.put_on(tape.clone()));
        let body = AssertUnwindSafe(|| {
            self.open(driver)?;
            driver.cohort.as_mut().map_or(Ok(()), |cohort| replay(&self.shared, cohort, &tape))
        });
        self.is_ticking.store(true, Ordering::Relaxed);
        let result = self.shared.watch.driving(|| catch_unwind(body));
        self.is_ticking.store(false, Ordering::Relaxed);
        self.conclude(driver, result, Nanos::MAX);
        drop(guard);
        self.open_result()?;
        match (tape.problem(), self.death()) {
            (Some(problem), _) => Err(Failure::new(Status::STATE, format!("{path}: {problem}"))),
            (None, Some(status)) => Err(Failure::new(Status::DEAD, format!("the engine died: status {status}"))),
            (None, None) => Ok(()),
        }
    }

    /// What a record says that it is of, and another engine has to be like.
    pub fn facts(&self) -> String {
        facts(self.model.manifest(), &self.settings, self.shared.outbox.policy())
    }

    /// From now on what happens in it is told to `trace`; `is_real`: its clock is the machine's. Before it is driven, and
    /// before [`Engine::record`].
    pub fn trace_to(&self, trace: Trace, is_real: bool) {
        if let Some(cohort) = &mut self.driver.lock().cohort {
            cohort.trace_to(trace, is_real);
        }
    }

    /// From now on what it is told goes to `writer`. Before it is driven.
    pub fn record(&self, writer: Writer) {
        let tape = Arc::new(Tape::record(writer));
        self.driver.lock().cohort.iter_mut().for_each(|cohort| cohort.put_on(tape.clone()));
    }

    // ---- the host's loop

    /// One tick, or the rest of one, on this thread. `Ok(false)`: the lanes are still busy.
    pub fn tick(&self, due: Option<&[u64]>, wait: Nanos) -> Result<bool, Status> {
        let call = if due.is_some() { "rte_engine_step" } else { "rte_engine_tick" };
        let refuse = |failure: Failure| {
            self.note_mistake(call, || failure.message);
            failure.status
        };
        self.refuse_served().and_then(|()| self.refuse_unheeded()).map_err(refuse)?;
        self.claim(Mode::Ticked, true).map_err(refuse)?;
        if self.death().is_some() {
            if let Some(mut driver) = self.driver.try_lock()
                && !self.ending.is_over()
            {
                self.bury(&mut driver, real_now().saturating_add(wait));
            }
            return Err(Status::DEAD);
        }
        if self.shared.stopping.load(Ordering::SeqCst) {
            return Err(Status::CLOSED);
        }
        // Another thread is in its tick: the host's mistake, told instead of waited for.
        let busy =
            || refuse(Failure::new(Status::STATE, "another thread is in it, or stops the engine: tick on one thread"));
        let mut guard = self.driver.try_lock().ok_or_else(busy)?;
        let driver = &mut *guard;
        let now = real_now();
        self.ticked_at.store(now, Ordering::Relaxed);
        self.rest_is_told.store(false, Ordering::Relaxed);
        let until = now.saturating_add(wait);
        let body = AssertUnwindSafe(|| {
            self.open(driver)?;
            driver.cohort.as_mut().map_or(Ok(Progress::Done), |cohort| cohort.tick(due, until))
        });
        self.is_ticking.store(true, Ordering::Relaxed);
        let result = self.shared.watch.driving(|| catch_unwind(body));
        self.is_ticking.store(false, Ordering::Relaxed);
        match result {
            Ok(Ok(progress)) => Ok(progress == Progress::Done),
            Ok(Err(fault)) => {
                let failed_to_open = !driver.is_open;
                self.conclude(driver, Ok(Err(fault)), until);
                Err(if failed_to_open { fault.status } else { Status::DEAD })
            }
            Err(panic) => {
                self.conclude(driver, Err(panic), until);
                Err(Status::DEAD)
            }
        }
    }

    /// A call that has no place for an rte_error returned one: a log at WARN is told the words, of the first ones each, then
    /// of the 16th, 32nd...
    pub fn note_mistake(&self, call: &str, words: impl FnOnce() -> String) {
        if !self.shared.log.wants(Level::Warn) {
            return;
        }
        let mistakes = self.mistakes.fetch_add(1, Ordering::Relaxed) + 1;
        if mistakes <= FEW_MISTAKES || mistakes.is_power_of_two() {
            let again =
                if mistakes > FEW_MISTAKES { format!(" ({mistakes} such lines by now)") } else { String::new() };
            self.shared.log.say(Level::Warn, || format!("{call}: {}{again}", words()));
        }
    }

    /// A message of `session` was pushed: tells, once, where nobody is there to drain the inbox. For a log at DEBUG alone.
    pub fn note_push(&self, session: Session) {
        if !self.shared.log.wants(Level::Debug) {
            return;
        }
        let mode = self.mode.load(Ordering::Relaxed);
        let idle = real_now().saturating_sub(self.ticked_at.load(Ordering::Relaxed));
        let is_left = mode == Mode::Ticked as u8 && idle > self.settings.stall;
        if (mode != Mode::Unset as u8 && !is_left) || self.rest_is_told.swap(true, Ordering::Relaxed) {
            return;
        }
        self.shared.log.say(Level::Debug, || {
            let why = if is_left {
                format!("rte_engine_tick was not called for {} ms: call it in your loop", idle / 1_000_000)
            } else {
                "nobody drives the engine: call rte_engine_start, run or tick".to_string()
            };
            format!("session {} has a message in the inbox, and {why}", session.0)
        });
    }
}
