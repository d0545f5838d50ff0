//! What a cohort says of what happened, and of who is here: notices, and what infos read.

use std::sync::atomic::Ordering::Relaxed;

use super::arena::State;
use super::cohort::Cohort;
use crate::output::{Event, Notice};
use crate::telemetry::{Counters, Entry, Level, State as Said};
use crate::word::{Fault, Row, Status};

impl Cohort {
    /// A notice of the life in `row`.
    pub(super) fn notice(&self, row: Row, event: Event, tag: u64) -> Notice {
        let mut notice = Notice { row, tag, ..Notice::of_engine(event, self.tick) };
        if let Some(life) = self.arena.life(row) {
            (notice.session, notice.user, notice.generation) = (life.session, life.user, life.generation);
        }
        notice
    }

    /// Tells a notice that the life in `row` has paid for.
    pub(super) fn tell(&mut self, row: Row, event: Event, tag: u64) {
        let notice = self.notice(row, event, tag);
        self.shared.log.say(Level::Debug, || format!("tick {}: session {}: {event:?}", self.tick, notice.session.0));
        if let Some(life) = self.arena.life_mut(row) {
            life.credits -= 1;
        }
        self.herald.tell(notice);
    }

    /// TICK_FAILED, or the end of the engine.
    pub(super) fn batch_failed(&mut self, fault: Fault, row: Row) {
        if fault.status == Status::DEAD {
            self.death.get_or_insert(fault);
            return;
        }
        self.shared.log.say(Level::Warn, || {
            let name = self.model.manifest().stage_name(fault.stage);
            format!("tick {}: stage {name} failed with status {}", self.tick, fault.status)
        });
        self.herald.tick_failed(fault, row, self.tick);
        self.trace_fault(fault, row, true);
        Counters::add(&self.shared.counters.failed_ticks, 1);
    }

    pub(super) fn publish(&mut self) {
        self.herald.flush();
        for row in self.aged.iter().filter(|row| !self.arena.news.has(*row)) {
            let age = self.arena.life(row).map_or(0, |life| life.age);
            self.shared.board.write_age(row, age);
        }
        self.aged.clear();
        let mut from = 0;
        while let Some(row) = self.arena.news.next(from) {
            from = row.0 + 1;
            let entry = self.entry(row);
            self.shared.board.write(row, entry.as_ref());
            self.trace_row(row, entry.as_ref());
        }
        self.arena.news.clear();
        let (arena, gauges) = (&self.arena, &self.shared.gauges);
        let by = &arena.by;
        let unseeded = arena.attached() - arena.seeded();
        for (gauge, value) in [
            (&gauges.attached, arena.attached()),
            (&gauges.live, self.cohort.len()),
            (&gauges.pending, unseeded),
            (&gauges.encoding, by.encoding.len()),
            (&gauges.paused, arena.paused.len()),
            (&gauges.quarantined, by.quarantined.len()),
            (&gauges.retiring, by.retiring.len()),
            (&gauges.held, arena.held.len()),
        ] {
            gauge.store(value, Relaxed);
        }
    }

    pub(super) fn entry(&self, row: Row) -> Option<Entry> {
        let life = self.arena.life(row)?;
        let (state, status) = match self.arena.state(row) {
            State::Ready { .. } if self.arena.held.has(row) => (Said::Held, None),
            State::Ready { .. } => (Said::Ready, None),
            State::Encoding { .. } => (Said::Encoding, None),
            State::Quarantined { fault, .. } => (Said::Quarantined, Some(fault.status)),
            _ => (Said::Pending, None),
        };
        Some(Entry {
            session: life.session,
            user: life.user,
            generation: life.generation,
            state,
            paused: self.arena.paused.has(row),
            status,
            age: life.age,
            tag: life.tag,
            heavy_tag: life.heavy_tag,
            encodes: life.encodes,
            ticks_out: life.ticks_out,
        })
    }
}
