//! What of a tick goes to a trace, where there is one.

use std::sync::atomic::Ordering::Relaxed;

use super::arena::Arena;
use super::cohort::Cohort;
use super::shared::Shared;
use crate::lane::{InlineLanes, TracedLanes};
use crate::telemetry::{Doing, End, Entry, Fact, Level, Pen, Trace};
use crate::word::{Fault, Generation, Nanos, Row, hook};

/// A trace and what was told to it.
pub struct Tracing {
    trace: Trace,
    pen: Pen,
    /// The tick at hand; `None` between ticks.
    tick: Option<Begin>,
    /// As the counters said.
    chunks: u64,
    dropped: u64,
    missed: u64,
    late: u64,
    rows: Box<[Told]>,
}

/// What was told of a row.
#[derive(Clone, Copy, Default)]
struct Told {
    /// Who lives in it, and does what.
    life: Option<(Generation, Doing)>,
    /// Of which life chunks were lost last, and how many by then.
    dropped: (Generation, u64),
}

#[derive(Clone, Copy)]
struct Begin {
    at: Nanos,
    is_late: bool,
}

impl Cohort {
    /// From now on what happens is told to `trace`; `is_real`: the engine's clock is the one that batches are timed by.
    pub fn trace_to(&mut self, trace: Trace, is_real: bool) {
        let (pen, clock) = (trace.pen(), (!is_real).then(|| self.shared.clock.clone()));
        let lanes = std::mem::replace(&mut self.lanes, Box::new(InlineLanes::new(self.target.clone())));
        self.lanes = Box::new(TracedLanes::new(lanes, pen.clone(), clock));
        let rows = vec![Told::default(); self.manifest().max_sessions as usize].into();
        let tracing = Tracing { trace, pen, tick: None, chunks: 0, dropped: 0, missed: 0, late: 0, rows };
        self.tracing = Some(Box::new(tracing));
    }

    /// Makes the thread that writes. Before the first tick.
    pub(super) fn start_trace(&mut self) -> Result<(), Fault> {
        let Some(tracing) = &mut self.tracing else { return Ok(()) };
        tracing.trace.start().map_err(|status| Fault { stage: hook::NONE, status })
    }

    /// A tick begins.
    #[inline]
    pub(super) fn trace_begin(&mut self) {
        if let Some(tracing) = &mut self.tracing {
            tracing.begin(&self.shared);
        }
    }

    /// A tick is over.
    #[inline]
    pub(super) fn trace_end(&mut self) {
        if let Some(tracing) = &mut self.tracing {
            tracing.end(&self.shared, self.tick - 1, self.cohort.len(), &self.arena);
        }
    }

    /// What is said anew of `row`.
    #[inline]
    pub(super) fn trace_row(&mut self, row: Row, entry: Option<&Entry>) {
        if let Some(tracing) = &mut self.tracing {
            tracing.row(&self.shared, row, entry);
        }
    }

    /// A call has failed as a whole, or for the row alone.
    pub(super) fn trace_fault(&mut self, fault: Fault, row: Row, is_whole: bool) {
        let Some(tracing) = &mut self.tracing else { return };
        let session = self.arena.life(row).filter(|_| !is_whole).map(|life| life.session);
        let (at, tick) = (self.shared.clock.now(), self.tick);
        tracing.pen.say(Fact::Failed { at, tick, fault, row, session });
    }

    /// The end of a trace. It says so here if something is not in it.
    pub(super) fn end_trace(&mut self, death: Option<Fault>) {
        let Some(mut tracing) = self.tracing.take() else { return };
        let (counters, shared) = (&self.shared.counters, &self.shared);
        let end = End {
            at: shared.clock.now(),
            death,
            ticks: self.tick,
            chunks: counters.chunks.load(Relaxed),
            dropped: shared.outbox.dropped(),
            missed_deadlines: counters.missed_deadlines.load(Relaxed),
            late_ticks: counters.late_ticks.load(Relaxed),
            failed_ticks: counters.failed_ticks.load(Relaxed),
        };
        let result = tracing.trace.close(Some(end));
        if shared.watch.is_abandoned() {
            return; // nobody is called any more
        }
        match result {
            Some(Err(problem)) => {
                shared.log.say(Level::Error, || format!("options.trace_path: {problem}: the trace is cut off"));
            }
            Some(Ok(lacks)) if lacks > 0 => {
                let line = || {
                    format!("options.trace_path: {lacks} facts were left out: they came faster than they are written")
                };
                shared.log.say(Level::Warn, line);
            }
            _ => {}
        }
    }
}

impl Tracing {
    fn begin(&mut self, Shared { counters, clock, .. }: &Shared) {
        let at = clock.now();
        let points = counters.missed_deadlines.load(Relaxed) - self.missed;
        let is_late = counters.late_ticks.load(Relaxed) > self.late;
        self.missed += points;
        self.late += u64::from(is_late);
        self.tick = Some(Begin { at, is_late });
        if points > 0 {
            self.pen.say(Fact::Missed { at, points });
        }
    }

    fn end(&mut self, shared: &Shared, tick: u64, stepped: u32, arena: &Arena) {
        let Some(Begin { at: begun, is_late }) = self.tick.take() else { return };
        let (all_chunks, all_dropped) = (shared.counters.chunks.load(Relaxed), shared.outbox.dropped());
        let (chunks, dropped, ended) = (all_chunks - self.chunks, all_dropped - self.dropped, shared.clock.now());
        self.pen.say(Fact::Tick { tick, begun, ended, stepped, is_late, chunks, dropped });
        (self.chunks, self.dropped) = (all_chunks, all_dropped);
        if dropped > 0 {
            self.drops(ended, shared, arena);
        }
    }

    /// Whose chunks were lost, of those that are here.
    fn drops(&mut self, at: Nanos, shared: &Shared, arena: &Arena) {
        for (row, Told { dropped: told, .. }) in (0..).map(Row).zip(&mut self.rows) {
            let Some(life) = arena.life(row) else { continue };
            let dropped = shared.outbox.dropped_of(row);
            let chunks = dropped - if told.0 == life.generation { told.1 } else { 0 };
            *told = (life.generation, dropped);
            if chunks > 0 {
                self.pen.say(Fact::Dropped { at, row, chunks });
            }
        }
    }

    fn row(&mut self, shared: &Shared, row: Row, entry: Option<&Entry>) {
        let told = &mut self.rows[row.at()];
        let life = entry.map(|entry| (entry.generation, Doing::of(entry.state, entry.paused)));
        if told.life == life {
            return;
        }
        let at = self.tick.map_or_else(|| shared.clock.now(), |begin| begin.at);
        let is_told = self.pen.say(match (entry, life) {
            (Some(entry), Some((generation, does))) => Fact::Row { at, row, session: entry.session, generation, does },
            _ => Fact::Free { at, row },
        });
        // Else when something is said of it next.
        if is_told {
            told.life = life;
        }
    }
}
