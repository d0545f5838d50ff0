//! How an engine ends: by a stop, a death, or a free that cannot wait.
//!
//! Whoever has the lock of the driver ends it: the driving thread, on its way out (`conclude`), or, where the host ticks or
//! nobody has begun to drive, the thread that stops it. All others ask (`ask_to_stop`) and wait for `Ending::turn`. A death
//! is told once and wakes whoever waits; what still runs then is waited for by the stop, and given up by a free after one
//! that ran out of time.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use parking_lot::MutexGuard;

use super::cohort::{Cohort, Progress};
use super::drive::close;
use super::handle::{Driver, Engine, Failure};
use crate::output::{Event, Notice};
use crate::queue::Popped;
use crate::telemetry::Level;
use crate::time::{Wake, real_now};
use crate::word::{Fault, Nanos, Status, hook};

/// How often a stop looks whether one on another thread is over.
const OTHER_STOP: Duration = Duration::from_micros(100);
/// Of a panic nobody knows the stage.
pub(super) const PANICKED: Fault = Fault { stage: hook::NONE, status: Status::DEAD };

/// How far the end has come. Any thread may look.
#[derive(Default)]
pub(super) struct Ending {
    /// No callback runs or will run. Set once, by whoever has the driver.
    has_ended: AtomicBool,
    /// Wakes who waits for `has_ended`, or for the engine to be opened.
    pub(super) turn: Wake,
    /// The last stop ran out of time: a free does not wait.
    timed_out: AtomicBool,
    /// The outbox was told of the death.
    death_is_told: AtomicBool,
    /// A free in a callback was told.
    free_is_told: AtomicBool,
}

impl Ending {
    /// Whether the driving thread has done its last. Under the lock of the driver that is settled.
    pub(super) fn is_over(&self) -> bool {
        self.has_ended.load(Ordering::SeqCst)
    }
}

impl Engine {
    /// Why it is dead, if it is.
    pub fn death(&self) -> Option<Status> {
        match self.shared.death.load(Ordering::SeqCst) {
            0 => None,
            status => Some(Status(status)),
        }
    }

    /// Refuses pushes and makes the driving thread look.
    pub fn ask_to_stop(&self) {
        self.shared.inbox.close();
        self.shared.stopping.store(true, Ordering::SeqCst);
        self.shared.parked.notify();
        self.shared.paced.notify();
    }

    /// Stops it, waiting at most `timeout` (`u64::MAX`: as long as it takes).
    pub fn stop(&self, timeout: Nanos) -> Result<(), Failure> {
        if self.is_inside() && timeout > 0 {
            let message = "rte_engine_stop in a callback of the same engine: pass timeout 0 to ask only";
            return Err(Failure::new(Status::DEADLOCK, message));
        }
        let deadline = (timeout != u64::MAX).then(|| real_now().saturating_add(timeout));
        if !self.reach_end(timeout, deadline)? {
            // With timeout 0 it only asked: a later free waits.
            self.ending.timed_out.fetch_or(timeout > 0, Ordering::SeqCst);
            return Err(self.still_running());
        }
        self.ending.timed_out.store(false, Ordering::SeqCst);
        if !self.is_inside() {
            self.join();
        }
        Ok(())
    }

    /// Whether it has ended by `deadline`, once it is asked to. An error, and nothing asked: another thread is in a tick.
    fn reach_end(&self, timeout: Nanos, deadline: Option<Nanos>) -> Result<bool, Failure> {
        if self.has_thread() {
            return Ok(self.await_end(deadline));
        }
        if self.is_inside() {
            self.ask_to_stop();
            return Ok(self.ending.is_over());
        }
        match self.take_driver(deadline) {
            Some(mut driver) => {
                self.ask_to_stop();
                Ok(self.stop_here(&mut driver, deadline))
            }
            // It was started just now.
            None if self.has_thread() => Ok(self.await_end(deadline)),
            None if timeout == 0 || !self.is_ticking.load(Ordering::SeqCst) => {
                self.ask_to_stop();
                Ok(false)
            }
            None => {
                let message = "another thread is in rte_engine_tick, step or replay: stop on that thread, or pass \
                               timeout 0 to ask only";
                Err(Failure::new(Status::STATE, message))
            }
        }
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

    /// The stop of an engine that `has_thread`.
    fn await_end(&self, deadline: Option<Nanos>) -> bool {
        self.ask_to_stop();
        self.ending.turn.sleep(deadline, || self.ending.is_over())
    }

    /// Our thread, if there is one, has done its last: what is left of it is its return.
    pub(super) fn join(&self) {
        if let Some(thread) = self.thread.lock().take() {
            drop(thread.join());
        }
    }

    /// The stop of one that has none, on the calling thread.
    fn stop_here(&self, driver: &mut Driver, deadline: Option<Nanos>) -> bool {
        if self.ending.is_over() {
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
                let name = self.model().manifest().stage_name(stage);
                format!("stage {name} (first row {row}) has not returned for {} ms", since / 1_000_000)
            }
            None => "the engine is still working".to_string(),
        };
        Failure::new(Status::TIMEOUT, message)
    }

    /// The driving thread has nothing more to do: whatever callback still runs is inside. See `end`.
    pub(super) fn conclude(
        &self,
        driver: &mut Driver,
        result: std::thread::Result<Result<(), Fault>>,
        until: Nanos,
    ) -> bool {
        self.shared.watch.driving(|| {
            if let Some(serving) = &self.serving {
                serving.lock().abandon();
            }
            let last_words = |_: &Fault| {
                driver.cohort.iter_mut().for_each(Cohort::last_words);
                self.serving.iter().for_each(|serving| serving.lock().last_words());
            };
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
        self.ending.has_ended.store(true, Ordering::SeqCst);
        self.ending.turn.notify();
        true
    }

    /// The engine is dead: pushes and waits say so, what was delivered can still be popped. By whoever has the driver, so
    /// that nothing is delivered after it.
    fn die(&self, fault: Fault) {
        if self.ending.death_is_told.swap(true, Ordering::SeqCst) {
            return;
        }
        let tick = self.shared.counters.ticks.load(Ordering::Relaxed);
        let _ = self.shared.death.compare_exchange(0, fault.status.0, Ordering::SeqCst, Ordering::Relaxed);
        self.shared.inbox.close();
        self.shared.outbox.end(Status::DEAD, Some(Notice::of_engine(Event::Dead(fault), tick)));
        let name = self.model().manifest().stage_name(fault.stage);
        let line = || match self.settings().why(fault.status) {
            Some(why) => format!("the engine is dead: {why}"),
            None => format!("the engine is dead: stage {name}, status {}", fault.status),
        };
        if !self.shared.watch.is_abandoned() {
            self.shared.log.say(Level::Error, line);
        }
    }

    /// The end of an engine that died while nobody drove it.
    pub(super) fn bury(&self, driver: &mut Driver, until: Nanos) -> bool {
        if self.ending.death_is_told.load(Ordering::SeqCst) {
            return self.end(driver, until);
        }
        self.conclude(driver, Ok(Err(PANICKED)), until)
    }

    /// Ends an engine whose boundary caught a panic of ours. Never waits: who drives it just now finds it dead and tells; if
    /// nobody does, it is told here.
    pub fn poison(&self) {
        let _ = self.shared.death.compare_exchange(0, Status::DEAD.0, Ordering::SeqCst, Ordering::Relaxed);
        self.ask_to_stop();
        if let Some(_driver) = self.driver.try_lock()
            && !self.ending.is_over()
        {
            self.shared.watch.driving(|| self.die(PANICKED));
        }
    }

    /// A free at a time when that cannot be: asks for the stop, and says so once (a log function may be that time).
    pub fn refuse_free(&self, when: &str) {
        self.ask_to_stop();
        if !self.ending.free_is_told.swap(true, Ordering::SeqCst) {
            self.shared.log.say(Level::Error, || format!("rte_engine_free {when}: only the stop was asked for"));
        }
    }

    /// After a stop that ran out of time: gives up what still runs, if it does. It is left to itself; when it returns no
    /// callback follows.
    pub fn abandon(&self) -> bool {
        let is_stuck = self.ending.timed_out.load(Ordering::SeqCst) && !self.ending.is_over();
        if is_stuck {
            self.shared.watch.abandon();
            self.shared.log.abandon();
            // Else whoever drives it sees that it was.
            if let Some(mut driver) = self.driver.try_lock() {
                driver.cohort.iter_mut().for_each(Cohort::desert);
            }
        }
        is_stuck
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
}
