//! Step 1 of a tick: messages change who is here and what they hold. Each is acted on alone, in the order of arrival.

use std::sync::Arc;

use super::arena::Life;
use super::cohort::Cohort;
use crate::conditioning::{Block, Payload};
use crate::message::{Envelope, Kind};
use crate::output::{Event, Notice};
use crate::queue::{Device, Incoming, LIFE_NOTICES, Pool, ValueIn};
use crate::record::Tape;
use crate::telemetry::Counters;
use crate::word::{Generation, KeySet, Row, Session, Status};

impl Cohort {
    pub(super) fn drain(&mut self) {
        let shared = self.shared.clone();
        // First: who had popped a DETACHED before a push finds that row free.
        let mark = shared.inbox.mark();
        shared.outbox.take_stirred();
        self.retire_drained();
        while let Some(message) = shared.inbox.pop(mark) {
            if !self.settle_farewell(message.envelope().session) {
                // The next drain begins with it.
                return message.leave_in_place();
            }
            self.admit(message);
        }
    }

    /// Whoever was told DETACHED finds the life over. False: it is just being told; what comes after it waits.
    fn settle_farewell(&mut self, session: Session) -> bool {
        if self.arena.draining.is_empty() {
            return true;
        }
        let Some(row) = self.arena.find(session) else { return true };
        if !self.arena.life(row).is_some_and(|life| life.farewell_sent) {
            return true;
        }
        let is_gone = self.shared.outbox.is_gone(row);
        // A record has it where it was drained, and it does not wait there for the consumers of a replay.
        let plays = self.tape().is_some_and(Tape::plays);
        if !is_gone && !plays && self.shared.outbox.is_being_told(row) {
            return false;
        }
        if self.told(is_gone) {
            self.part_with(row);
        }
        true
    }

    /// The draining life in `row` leaves: its DETACHED was told. Of a replay's consumers, who are not waited for, that may not
    /// be so: it is told now, and what they have not taken before it is lost.
    fn part_with(&mut self, row: Row) {
        if let Some(notice) = self.shared.outbox.recall(row) {
            self.shared.outbox.purge(row);
            self.herald.tell(notice);
        }
        self.leave(row, None);
    }

    /// Draining lives whose DETACHED was told leave now.
    fn retire_drained(&mut self) {
        let mut from = 0;
        while let Some(row) = self.arena.draining.next(from) {
            from = row.0 + 1;
            let is_gone = self.told(self.shared.outbox.is_gone(row));
            if is_gone && self.arena.life(row).is_some_and(|life| life.farewell_sent) {
                self.part_with(row);
            }
        }
    }

    fn admit(&mut self, mut message: Incoming<'_>) {
        let envelope = message.envelope();
        if let Some(tape) = self.tape() {
            tape.message(&envelope, message.values());
        }
        self.shared.counters.inbox.record(self.now.saturating_sub(envelope.pushed));
        let row = self.arena.find(envelope.session);
        let living = row.and_then(|row| self.arena.life(row)).map_or(Generation(0), |life| life.generation);
        if envelope.generation != Generation(0) && envelope.generation != living {
            self.herald.stale(envelope.session, envelope.tag, self.tick);
            self.note_stray(envelope, living);
            self.refund(envelope.kind, LIFE_NOTICES);
            return;
        }
        match (envelope.kind, row) {
            (Kind::Attach, Some(row)) => self.already(row, envelope),
            (Kind::Attach, None) => self.attach(envelope, &mut message),
            (Kind::Reset, Some(row)) => self.reset(row, envelope, &mut message),
            (Kind::Reset, None) => self.attach(envelope, &mut message),
            (Kind::Detach { drain }, Some(row)) => self.detach(row, drain, envelope.tag),
            (Kind::Detach { .. }, None) => {}
            (_, None) => {
                self.herald.unknown(envelope.session, envelope.tag, self.tick);
                self.note_stray(envelope, living);
            }
            (_, Some(row)) if self.arena.draining.has(row) => {}
            (Kind::Action { partial }, Some(row)) => self.act(row, partial, envelope, &mut message),
            (Kind::Pause, Some(row)) => self.pause(row, true),
            (Kind::Resume, Some(row)) => self.pause(row, false),
        }
    }

    /// A message that began no life gives back what it paid for and did not use.
    fn refund(&self, kind: Kind, notices: i64) {
        if kind.begins_life() {
            self.shared.outbox.refund(notices);
        }
    }

    // ---- ATTACH and RESET

    fn already(&mut self, row: Row, envelope: Envelope) {
        let notice = self.notice(row, Event::Attached { already: true }, envelope.tag);
        self.answer(notice);
    }

    /// The one notice of a message that began no life.
    fn answer(&mut self, notice: Notice) {
        self.herald.tell(notice);
        self.shared.outbox.refund(LIFE_NOTICES - 1);
    }

    fn refuse(&mut self, envelope: Envelope, generation: Generation, status: Status) {
        let Envelope { session, user, tag, .. } = envelope;
        let event = Event::Rejected(status);
        self.answer(Notice { session, user, generation, tag, ..Notice::of_engine(event, self.tick) });
    }

    fn attach(&mut self, envelope: Envelope, message: &mut Incoming<'_>) {
        let manifest = self.model.manifest();
        let is_full = self.arena.attached() == manifest.max_sessions;
        let is_closed = manifest.no_midrun && self.arena.seeded() > 0;
        let row = match self.arena.vacancy().filter(|_| !is_full) {
            None => return self.refuse(envelope, Generation(0), Status::FULL),
            Some(_) if is_closed => return self.refuse(envelope, Generation(0), Status::STATE),
            Some(row) => row,
        };
        if let Err(status) = self.commit_buffers(row) {
            return self.refuse(envelope, Generation(0), status);
        }
        let mut life = self.arena.spare_life(&self.model.manifest().keys);
        self.take_context(&mut life, message);
        self.begin_life(row, life, envelope.session, envelope.user, envelope.tag);
    }

    fn reset(&mut self, row: Row, envelope: Envelope, message: &mut Incoming<'_>) {
        let others = self.arena.seeded() - u32::from(self.arena.is_seeded(row));
        let is_closed = self.model.manifest().no_midrun && others > 0;
        let Some(old) = self.arena.life(row) else { return };
        let (session, user, generation) = (old.session, old.user, old.generation);
        if is_closed || self.arena.draining.has(row) {
            return self.refuse(Envelope { user, ..envelope }, generation, Status::STATE);
        }
        let mut life = self.arena.spare_life(&self.model.manifest().keys);
        if message.values().next().is_some() {
            self.take_context(&mut life, message);
        } else if let Some(old) = self.arena.life(row) {
            life.context.clone_from_slice(&old.context);
        }
        let is_paused = self.arena.paused.has(row);
        self.leave(row, Some((Event::Detached(None), envelope.tag)));
        self.arena.paused.set(row, is_paused);
        self.begin_life(row, life, session, user, envelope.tag);
        // It was here when the last tick ended, and still is.
        self.shared.board.write(row, self.entry(row).as_ref());
    }

    /// `life` has its context; the rest begins here. Its heavy values are what is applied once it is seeded.
    fn begin_life(&mut self, row: Row, mut life: Box<Life>, session: Session, user: u64, tag: u64) {
        self.generations += 1;
        let generation = Generation(self.generations);
        life.begin(session, user, generation, tag, &mut self.store);
        let heavy = self.model.manifest().keys.heavy();
        for key in heavy.iter() {
            life.wanted[key].clone_from(&life.context[key]);
        }
        let has_heavy = heavy.iter().any(|key| life.context[key].is_some());
        life.wanted_tag = if has_heavy { tag } else { 0 };
        life.heavy_tag = life.wanted_tag;
        self.shared.outbox.open(row);
        self.arena.house(row, life);
    }

    fn take_context(&mut self, life: &mut Life, message: &mut Incoming<'_>) {
        let mut payload = self.payload_of(message);
        for value in message.values() {
            let block = self.block_of(&value, &mut payload);
            self.store.replace(&mut life.context[value.key as usize], block);
        }
        payload.into_iter().for_each(|payload| self.store.settle(payload));
    }

    /// What the lent values of a message share; `None` while there is nothing to release or to wait for.
    fn payload_of(&mut self, message: &mut Incoming<'_>) -> Option<Arc<Payload>> {
        let (release, ready) = (message.release.take(), message.ready());
        (release.is_some() || ready.is_some()).then(|| self.store.payload(release, ready))
    }

    /// `None` where the value is empty: its key is absent.
    fn block_of(&mut self, value: &ValueIn<'_>, payload: &mut Option<Arc<Payload>>) -> Option<Arc<Block>> {
        match value.content {
            Ok([]) => None,
            Ok(bytes) => self.store.copy(bytes, value.revision),
            Err(lent) if lent.size() == 0 => None,
            Err(lent) => {
                let payload = payload.get_or_insert_with(|| self.store.payload(None, None));
                Some(self.store.lend(lent, value.revision, payload))
            }
        }
    }

    /// The row's quota of output buffers: what earlier lives' consumers still hold, or use on their streams, is not of this
    /// one.
    ///
    /// The row may still be retiring: then its last batch may still write into the buffers in `making`, so a new quota
    /// waits for a life that finds the row free.
    pub(super) fn commit_buffers(&mut self, row: Row) -> Result<(), Status> {
        let place = &mut self.pools[row.at()];
        let making = &mut self.making[row.at()][..if self.plan.pipelined { 2 } else { 1 }];
        let is_used_up = |pool: &Pool| !self.arena.by.retiring.has(row) && !pool.has(pool.count() - making.len());
        if place.as_ref().is_none_or(is_used_up) {
            let tally = self.shared.outbox.tally(row);
            let device = self.device.as_ref().map(|device| Device { row, ..device.clone() });
            let manifest = self.model.manifest();
            let owner = manifest.owns_outputs.then(|| self.model.clone());
            let bytes = if owner.is_some() { 0 } else { manifest.chunk_bytes };
            let pool = Pool::new(self.plan.quota, bytes, tally, device, owner).ok_or(Status::MEMORY)?;
            for making in making {
                *making = Some(pool.take().ok_or(Status::MEMORY)?);
            }
            // Whoever frees one waits for the streams that use it: no tick and no release does that.
            self.old_pools.extend(place.replace(pool).filter(|_| self.device.is_some()));
        }
        Ok(())
    }

    // ---- DETACH

    fn detach(&mut self, row: Row, drain: bool, tag: u64) {
        let is_draining = self.arena.draining.has(row);
        let Some(life) = self.arena.life_mut(row) else { return };
        if !drain {
            // A farewell that is still at its row is taken back. One that a consumer has just taken it tells: the row is left
            // as all are that have drained, when it was told, for it is that consumer's until then.
            if life.farewell_sent {
                let farewell = self.shared.outbox.recall(row);
                match (self.told(farewell.is_some()), farewell) {
                    (true, Some(_)) => self.arena.life_mut(row).into_iter().for_each(|life| life.credits += 1),
                    (false, None) => return,
                    // The consumers of a replay are faster or slower than those of its record.
                    (true, None) => return self.leave(row, None),
                    (false, Some(farewell)) => return self.shared.outbox.farewell(row, farewell),
                }
            }
            return self.leave(row, Some((Event::Detached(None), tag)));
        }
        if is_draining {
            return;
        }
        life.drain_tag = tag;
        let generation = life.generation;
        let is_carried = self.previous.as_ref().is_some_and(|flight| flight.carries(row, generation));
        if self.told(self.shared.outbox.queued(row) > 0) || is_carried {
            self.arena.draining.add(row);
        } else {
            self.leave(row, Some((Event::Detached(None), tag)));
        }
    }

    /// The end of a life: out of the cohort and of undelivered work now; the row retires when its own fences allow.
    pub(super) fn leave(&mut self, row: Row, notice: Option<(Event, u64)>) {
        // First: whoever was told of the end finds the session here no more.
        self.shared.board.write(row, None);
        if let Some((event, tag)) = notice {
            // In this order: whoever pops the notice finds nothing older behind it.
            self.shared.outbox.purge(row);
            self.tell(row, event, tag);
        }
        let was_retiring = self.arena.by.retiring.has(row);
        self.end_life(row, None);
        // A row that was only claimed goes on as it did: it is free when retiring rows are looked at.
        if !was_retiring {
            self.try_retire(row);
        }
    }

    /// Takes the life out of `row`, which retires; it has been told, or will be. `why`: what `detach` is told.
    pub(super) fn end_life(&mut self, row: Row, why: Option<Status>) {
        self.departures += 1;
        if let Some(life) = self.arena.evict(row, why) {
            self.shared.outbox.refund(life.credits);
            self.arena.bury(life, &mut self.store);
        }
        self.arena.paused.remove(row);
    }

    // ---- ACTION, PAUSE, RESUME

    fn act(&mut self, row: Row, partial: bool, envelope: Envelope, message: &mut Incoming<'_>) {
        let model = self.model.clone();
        let keys = &model.manifest().keys;
        let is_paused = self.arena.paused.has(row);
        let mut payload = self.payload_of(message);
        let mut named = KeySet::NONE;
        for value in message.values() {
            let key = value.key as usize;
            named.add(key);
            if let (true, Ok(bytes)) = (keys.fixed().has(key), value.content) {
                let Some(life) = self.arena.life_mut(row) else { break };
                life.held.set(key, bytes, is_paused, keys);
                continue;
            }
            let block = self.block_of(&value, &mut payload);
            let Some(life) = self.arena.life_mut(row) else { break };
            if keys.fixed().has(key) {
                life.held.set(key, block.as_ref().map_or(&[], |block| block.bytes()), is_paused, keys);
                block.into_iter().for_each(|block| self.store.give(block));
            } else if keys.heavy().has(key) {
                self.store.replace(&mut life.wanted[key], block);
                life.wanted_tag = envelope.tag;
                self.arena.touched.add(row);
            } else {
                life.held.put(key, block, &mut self.store);
            }
        }
        payload.into_iter().for_each(|payload| self.store.settle(payload));
        let Some(life) = self.arena.life_mut(row) else { return };
        if !partial {
            life.held.keep_only(named, keys, &mut self.store);
        }
        life.tag = envelope.tag;
        if life.unseen_since.replace(envelope.pushed).is_some() {
            Counters::add(&self.shared.counters.coalesced, 1);
        }
        self.arena.news.add(row);
    }

    fn pause(&mut self, row: Row, paused: bool) {
        self.arena.paused.set(row, paused);
        self.arena.news.add(row);
    }

    // ---- stop

    /// What is still in the inbox when it was closed: who wanted in is told, the others end silently. False: a producer
    /// is in the middle of its push, or a consumer tells a farewell.
    pub(super) fn turn_away(&mut self) -> bool {
        let shared = self.shared.clone();
        let mark = shared.inbox.mark();
        while let Some(message) = shared.inbox.pop(mark) {
            let envelope = message.envelope();
            // Who was told DETACHED has no life that a RESET could have ended.
            if !self.settle_farewell(envelope.session) {
                message.leave_in_place();
                return false;
            }
            if let Some(tape) = self.tape() {
                tape.message(&envelope, message.values());
            }
            let living = self.arena.find(envelope.session).and_then(|row| self.arena.life(row));
            match (envelope.kind, living) {
                (Kind::Reset, Some(life)) => {
                    let (user, generation) = (life.user, life.generation);
                    self.refuse(Envelope { user, ..envelope }, generation, Status::CLOSED);
                }
                (Kind::Attach | Kind::Reset, _) => self.refuse(envelope, Generation(0), Status::CLOSED),
                _ => {}
            }
        }
        self.told(shared.inbox.is_empty())
    }
}
