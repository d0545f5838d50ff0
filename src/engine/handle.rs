//! An engine as its host holds it: who may drive it, and how it ends.
//!
//! The cohort is behind a lock: the driving thread takes it, and any other that would drive is told that it may not,
//! instead of waiting. `shared` is for everybody.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU8, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use parking_lot::{Mutex, MutexGuard};

use super::cohort::{Cohort, Progress};
use super::drive::{Settings, close, drive};
use super::replay::{difference, facts, replay};
use super::serve::Serving;
use super::shared::Shared;
use crate::model::{Model, RawEngine};
use crate::output::{Event, Notice};
use crate::queue::Popped;
use crate::record::{Reader, Tape, Writer};
use crate::telemetry::{Level, Trace};
use crate::time::{Duty, Wake, real_now};
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
struct Driver {
    /// None: the model owns its loop, or the engine is being freed.
    cohort: Option<Cohort>,
    is_open: bool,
    has_ended: bool,
}

/// So many mistakes are told one by one.
const FEW_MISTAKES: u64 = 8;
/// How often a stop looks whether one on another thread is over.
const OTHER_STOP: Duration = Duration::from_micros(100);
/// Of a panic nobody knows the stage.
const PANICKED: Fault = Fault { stage: hook::NONE, status: Status::DEAD };

/// See the module's comment.
pub struct Engine {
    /// What any thread may touch.
    pub shared: Arc<Shared>,
    model: Arc<dyn Model>,
    settings: Settings,
    mode: AtomicU8,
    driver: Mutex<Driver>,
    /// Where the model owns its loop: what that has of the queues. Locked by the driving thread alone, so never waited for.
    serving: Option<Mutex<Serving>>,
    thread: Mutex<Option<JoinHandle<()>>>,
    /// The driving thread has done its last: no callback runs or will run. `over` tells who waits for that.
    has_ended: AtomicBool,
    over: Wake,
    /// What opening came to: 1 = not known yet, 0, or why it failed.
    opened: AtomicI32,
    timed_out: AtomicBool,
    /// The outbox was told of the death.
    death_is_told: AtomicBool,
    /// A free in a callback was told.
    free_is_told: AtomicBool,
    /// Where the host ticks: when it did last, and whether it was told since that messages wait for it to.
    ticked_at: AtomicU64,
    /// It is in a tick, or a replay.
    is_ticking: AtomicBool,
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
            driver: Mutex::new(Driver { cohort, is_open: false, has_ended: false }),
            serving,
            thread: Mutex::new(None),
            has_ended: AtomicBool::new(false),
            over: Wake::default(),
            opened: AtomicI32::new(1),
            timed_out: AtomicBool::new(false),
            death_is_told: AtomicBool::new(false),
            free_is_told: AtomicBool::new(false),
            ticked_at: AtomicU64::new(0),
            is_ticking: AtomicBool::new(false),
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

    /// Why it is dead, if it is.
    pub fn death(&self) -> Option<Status> {
        match self.shared.death.load(Ordering::SeqCst) {
            0 => None,
            status => Some(Status(status)),
        }
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
        self.over.sleep(None, || self.opened.load(Ordering::SeqCst) != 1);
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
                Err(Failure::new(Status(status), self.settings.why().map_or_else(init, str::to_string)))
            }
        }
    }

    /// From opening to the end, whatever happens. `prepare`: first of all, the calling thread.
    fn run_through(&self, prepare: impl FnOnce() -> Result<(), Status>) {
        let mut guard = self.driver.lock();
        let driver = &mut *guard;
        if driver.has_ended {
            // A stop on another thread was faster: nothing is opened any more.
            self.opened.store(Status::STATE.0, Ordering::SeqCst);
            return self.over.notify();
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
            self.over.notify();
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

    /// The queues' other ends, for the model's own loop alone: on its thread, while it runs, and not in a release.
    pub fn serving(&self) -> Option<MutexGuard<'_, Serving>> {
        let serving = self.serving.as_ref().filter(|_| self.shared.watch.is_inside())?;
        serving.try_lock().filter(|serving| serving.is_open())
    }

    /// The driving thread has nothing more to do: whatever callback still runs is inside. See `end`.
    fn conclude(&self, driver: &mut Driver, result: std::thread::Result<Result<(), Fault>>, until: Nanos) -> bool {
        self.shared.watch.driving(|| {
            if let Some(serving) = &self.serving {
                serving.lock().abandon();
            }
            let last_words = |_: &Fault| driver.cohort.iter_mut().for_each(Cohort::last_words);
            let result = result.map(|result| result.inspect_err(last_words)).unwrap_or(Err(PANICKED));
            driver.cohort.iter().for_each(|cohort| cohort.end_record(result.err()));
            if let Err(fault) = result {
                self.die(fault);
                let _ = self.opened.compare_exchange(1, fault.status.0, Ordering::SeqCst, Ordering::Relaxed);
            }
            // It may wait for the disk: who waits for the engine has heard of a death.
            driver.cohort.iter_mut().for_each(|cohort| cohort.end_trace(result.err()));
            self.end(driver, until)
        })
    }

    /// Whether no callback runs or will run. Those that a death has left running are waited for until `until`.
    fn end(&self, driver: &mut Driver, until: Nanos) -> bool {
        let is_over = self.shared.watch.driving(|| {
            // A panic in what is left can end no more than this.
            let halt = AssertUnwindSafe(|| match (self.death(), &mut driver.cohort) {
                (Some(_), Some(cohort)) => cohort.halt(until),
                _ => true,
            });
            let is_over = catch_unwind(halt).unwrap_or(true);
            let _ = catch_unwind(AssertUnwindSafe(|| self.shared.hand_over()));
            is_over
        });
        if !is_over {
            return false;
        }
        driver.has_ended = true;
        self.has_ended.store(true, Ordering::SeqCst);
        self.over.notify();
        true
    }

    /// The engine is dead: pushes and waits say so, what was delivered can still be popped. By whoever has the driver, so
    /// that nothing is delivered after it.
    fn die(&self, fault: Fault) {
        if self.death_is_told.swap(true, Ordering::SeqCst) {
            return;
        }
        let tick = self.shared.counters.ticks.load(Ordering::Relaxed);
        let _ = self.shared.death.compare_exchange(0, fault.status.0, Ordering::SeqCst, Ordering::Relaxed);
        self.shared.inbox.close();
        self.shared.outbox.end(Status::DEAD, Some(Notice::of_engine(Event::Dead(fault), tick)));
        let name = self.model.manifest().stage_name(fault.stage);
        let line = || match self.settings.why() {
            Some(why) => format!("the engine is dead: {why}"),
            None => format!("the engine is dead: stage {name}, status {}", fault.status),
        };
        if !self.shared.watch.is_abandoned() {
            self.shared.log.say(Level::Error, line);
        }
    }

    /// Ends an engine whose boundary caught a panic of ours. Never waits: who drives it just now finds it dead and tells; if
    /// nobody does, it is told here.
    pub fn poison(&self) {
        let _ = self.shared.death.compare_exchange(0, Status::DEAD.0, Ordering::SeqCst, Ordering::Relaxed);
        self.ask_to_stop();
        if let Some(driver) = self.driver.try_lock()
            && !driver.has_ended
        {
            self.shared.watch.driving(|| self.die(PANICKED));
        }
    }

    /// Drives it through what `path` has on record, on this thread.
    pub fn replay(&self, path: &str) -> Result<(), Failure> {
        self.refuse_inside()?;
        self.refuse_stopped()?;
        if self.serving.is_some() {
            return Err(Failure::new(Status::STATE, "the model has serve: there is no record of its loop"));
        }
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
        facts(self.model.manifest(), &self.settings)
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
                && !driver.has_ended
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

    /// The end of an engine that died while nobody drove it.
    fn bury(&self, driver: &mut Driver, until: Nanos) -> bool {
        if self.death_is_told.load(Ordering::SeqCst) {
            return self.end(driver, until);
        }
        self.conclude(driver, Ok(Err(PANICKED)), until)
    }

    // ---- the end

    /// Stops it, waiting at most `timeout` (`u64::MAX`: as long as it takes).
    pub fn stop(&self, timeout: Nanos) -> Result<(), Failure> {
        if self.is_inside() && timeout > 0 {
            let message = "rte_engine_stop in a callback of the same engine: pass timeout 0 to ask only";
            return Err(Failure::new(Status::DEADLOCK, message));
        }
        let deadline = (timeout != u64::MAX).then(|| real_now().saturating_add(timeout));
        let ended = if self.has_thread() {
            self.await_end(deadline)
        } else if self.is_inside() {
            self.ask_to_stop();
            self.has_ended.load(Ordering::SeqCst)
        } else {
            match self.take_driver(deadline) {
                Some(mut driver) => {
                    self.ask_to_stop();
                    self.stop_here(&mut driver, deadline)
                }
                // It was started just now.
                None if self.has_thread() => self.await_end(deadline),
                None if timeout == 0 || !self.is_ticking.load(Ordering::SeqCst) => {
                    self.ask_to_stop();
                    false
                }
                None => {
                    let message = "another thread is in rte_engine_tick, step or replay: stop on that thread, or pass \
                                   timeout 0 to ask only";
                    return Err(Failure::new(Status::STATE, message));
                }
            }
        };
        if !ended {
            // With timeout 0 it only asked: a later free waits.
            self.timed_out.fetch_or(timeout > 0, Ordering::SeqCst);
            return Err(self.still_running());
        }
        self.timed_out.store(false, Ordering::SeqCst);
        if !self.is_inside() {
            self.join();
        }
        Ok(())
    }

    /// Whether a thread drives it that looks for a stop by itself.
    fn has_thread(&self) -> bool {
        let mode = self.mode.load(Ordering::SeqCst);
        mode == Mode::Started as u8 || mode == Mode::Run as u8
    }

    /// What there is to drive, unless another thread does or, until `deadline`, stops it.
    fn take_driver(&self, deadline: Option<Nanos>) -> Option<MutexGuard<'_, Driver>> {
        loop {
            let driver = self.driver.try_lock();
            let is_late = deadline.is_some_and(|deadline| real_now() >= deadline);
            if driver.is_some() || is_late || self.has_thread() || self.is_ticking.load(Ordering::SeqCst) {
                return driver;
            }
            std::thread::sleep(OTHER_STOP);
        }
    }

    /// The stop of an engine that such a thread drives.
    fn await_end(&self, deadline: Option<Nanos>) -> bool {
        self.ask_to_stop();
        self.over.sleep(deadline, || self.has_ended.load(Ordering::SeqCst))
    }

    /// Our thread, if there is one, has done its last: what is left of it is its return.
    fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            drop(thread.join());
        }
    }

    /// Refuses pushes and makes the driving thread look.
    pub fn ask_to_stop(&self) {
        self.shared.inbox.close();
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.parked.notify();
        self.shared.paced.notify();
    }

    /// The stop of an engine that no such thread drives.
    fn stop_here(&self, driver: &mut Driver, deadline: Option<Nanos>) -> bool {
        if driver.has_ended {
            return true;
        }
        let until = deadline.unwrap_or(Nanos::MAX);
        if self.death().is_some() {
            return self.bury(driver, until);
        }
        let body = AssertUnwindSafe(|| {
            let Some(cohort) = &mut driver.cohort else {
                self.serving.iter().for_each(|serving| serving.lock().close());
                return Ok(true);
            };
            match deadline {
                None => close(&self.shared, cohort).map(|()| true),
                Some(deadline) => loop {
                    match cohort.shutdown(deadline)? {
                        Progress::Done => break Ok(true),
                        Progress::Busy if real_now() >= deadline => break Ok(false),
                        Progress::Busy => std::thread::yield_now(),
                    }
                },
            }
        });
        match self.shared.watch.driving(|| catch_unwind(body)) {
            Ok(Ok(false)) => false,
            Ok(result) => self.conclude(driver, Ok(result.map(|_| ())), until),
            Err(panic) => self.conclude(driver, Err(panic), until),
        }
    }

    fn still_running(&self) -> Failure {
        let message = match self.shared.watch.running() {
            Some((hook::SERVE, _, since)) => {
                format!("model.serve has not come back to the inbox for {} ms", since / 1_000_000)
            }
            Some((stage, row, since)) => {
                let name = self.model.manifest().stage_name(stage);
                format!("stage {name} (first row {row}) has not returned for {} ms", since / 1_000_000)
            }
            None => "the engine is still working".to_string(),
        };
        Failure::new(Status::TIMEOUT, message)
    }

    /// A free at a time when that cannot be: asks for the stop, and says so once (a log function may be that time).
    pub fn refuse_free(&self, when: &str) {
        self.ask_to_stop();
        if !self.free_is_told.swap(true, Ordering::SeqCst) {
            self.shared.log.say(Level::Error, || format!("rte_engine_free {when}: only the stop was asked for"));
        }
    }

    /// Once it has ended, before it is freed: lets go of all whose end a callback hears of, but of the model. So that one
    /// which calls the engine still finds it there, and is inside.
    pub fn let_go(&self) {
        let mut driver = self.driver.lock();
        self.shared.watch.driving(|| {
            drop(driver.cohort.take());
            let mark = self.shared.inbox.mark();
            while self.shared.inbox.pop(mark).is_some() {}
            while let Popped::Output(_) = self.shared.outbox.pop() {}
        });
    }

    /// After a stop that ran out of time: gives up what still runs, if it does. It is left to itself; when it returns no
    /// callback follows.
    pub fn abandon(&self) -> bool {
        let is_stuck = self.timed_out.load(Ordering::SeqCst) && !self.has_ended.load(Ordering::SeqCst);
        if is_stuck {
            self.shared.watch.abandon();
        }
        is_stuck
    }
}
