//! Who is here while the model's own loop serves them: rows, lives, generations, and what each was told.

use std::sync::atomic::Ordering;

use super::serve::Serving;
use super::served::{Leaving, Served, Standing};
use crate::message::{Envelope, Kind};
use crate::output::{Event, Notice};
use crate::queue::{LIFE_NOTICES, Pool};
use crate::telemetry::Level;
use crate::word::{Generation, Row, Session, Status};

impl Serving {
    /// Acts on what concerns who is here. The row, if the message is the loop's to act on.
    pub(super) fn admit(&mut self, envelope: Envelope) -> Option<Row> {
        let Envelope { kind, session, tag, .. } = envelope;
        let (home, row) = (self.sessions.get(&session).copied(), self.home_of(session));
        let living = row.and_then(|row| self.places[row.at()].life.as_ref());
        let is_draining = living.is_some_and(Served::is_draining);
        if envelope.generation != Generation(0) && living.is_none_or(|life| life.generation != envelope.generation) {
            self.herald.stale(session, tag, self.tick);
            self.refund(kind);
            return None;
        }
        match (kind, row) {
            (Kind::Attach, Some(row)) => self.answer(self.notice(row, Event::Attached { already: true }, tag)),
            (Kind::Reset, Some(row)) if is_draining => self.decline(row, Status::STATE, tag),
            (Kind::Reset, Some(row)) => return self.reset(row, tag),
            (Kind::Attach | Kind::Reset, None) => return self.attach(home, envelope),
            (Kind::Detach { drain }, Some(row)) => return self.detach(row, drain, tag),
            (Kind::Detach { .. }, None) => {}
            (_, None) => self.herald.unknown(session, tag, self.tick),
            (_, Some(_)) if is_draining => {}
            (Kind::Action { .. }, Some(row)) => return self.note(row, |life| life.tag = tag),
            (Kind::Pause, Some(row)) => return self.note(row, |life| life.paused = true),
            (Kind::Resume, Some(row)) => return self.note(row, |life| life.paused = false),
        }
        None
    }

    /// Where `session` is for everybody, not for the loop alone.
    pub(super) fn home_of(&self, session: Session) -> Option<Row> {
        let home = self.sessions.get(&session).copied();
        home.filter(|row| self.places[row.at()].life.as_ref().is_some_and(|life| !life.is_gone()))
    }

    fn refund(&self, kind: Kind) {
        if kind.begins_life() {
            self.shared.outbox.refund(LIFE_NOTICES);
        }
    }

    /// Changes what is known of the life in `row`, and says so.
    pub(super) fn note(&mut self, row: Row, change: impl FnOnce(&mut Served)) -> Option<Row> {
        change(self.places[row.at()].life.as_mut()?);
        self.publish(row);
        Some(row)
    }

    /// `home`: where an earlier life of the session still waits for the loop to say DETACHED. It is said now.
    fn attach(&mut self, home: Option<Row>, envelope: Envelope) -> Option<Row> {
        if let Some(row) = home {
            self.dismiss(row);
        }
        if self.by.free.is_empty() {
            self.retire();
        }
        let Some(row) = self.by.free.first() else { return self.refuse(envelope, Status::FULL) };
        if let Err(status) = self.commit_buffers(row) {
            return self.refuse(envelope, status);
        }
        self.begin(row, envelope.session, envelope.user, envelope.tag)
    }

    fn reset(&mut self, row: Row, tag: u64) -> Option<Row> {
        let Served { session, user, paused, .. } = *self.places[row.at()].life.as_ref()?;
        self.shared.outbox.purge(row);
        self.tell(row, Event::Detached(None), tag);
        self.end(row);
        self.begin(row, session, user, tag);
        self.note(row, |life| life.paused = paused)
    }

    fn begin(&mut self, row: Row, session: Session, user: u64, tag: u64) -> Option<Row> {
        self.generations += 1;
        self.shared.outbox.open(row);
        self.by.free.remove(row);
        self.sessions.insert(session, row);
        self.places[row.at()].life = Some(Served::new(session, user, Generation(self.generations), tag));
        self.publish(row);
        Some(row)
    }

    fn detach(&mut self, row: Row, drain: bool, tag: u64) -> Option<Row> {
        let life = self.places[row.at()].life.as_ref()?;
        if drain && life.is_draining() {
            return None;
        }
        if life.standing == Standing::Parting {
            // The loop has said it: what waits for a consumer goes out now, unless one has just taken it.
            if self.shared.outbox.recall(row).is_some() {
                self.shared.outbox.purge(row);
                self.note(row, |life| life.credits += 1);
                self.tell(row, Event::Detached(None), tag);
                self.end(row);
            }
            return None;
        }
        if drain {
            return self.note(row, |life| life.leaving = Leaving::Draining { tag });
        }
        self.shared.outbox.purge(row);
        self.note(row, |life| life.leaving = Leaving::Gone { tag })
    }

    /// The row's quota of output buffers: what earlier lives' consumers still hold is not of this one.
    pub(super) fn commit_buffers(&mut self, row: Row) -> Result<(), Status> {
        let place = &mut self.places[row.at()];
        if place.pool.as_ref().is_none_or(|pool| pool.at_home() + 1 < pool.count()) {
            let held = self.shared.outbox.tally(row);
            let pool =
                Pool::new(self.quota, self.model.manifest().chunk_bytes, held, None, None).ok_or(Status::MEMORY)?;
            place.making = Some(pool.take().ok_or(Status::MEMORY)?);
            place.pool = Some(pool);
        }
        Ok(())
    }

    /// The life in `row` is over, and was told so.
    pub(super) fn end(&mut self, row: Row) {
        if let Some(life) = self.places[row.at()].life.take() {
            self.sessions.remove(&life.session);
            self.shared.outbox.refund(life.credits);
            self.by.free.add(row);
            self.publish(row);
        }
    }

    // ---- telling

    fn notice(&self, row: Row, event: Event, tag: u64) -> Notice {
        let mut notice = Notice { row, tag, ..Notice::of_engine(event, self.tick) };
        if let Some(life) = &self.places[row.at()].life {
            (notice.session, notice.user, notice.generation) = (life.session, life.user, life.generation);
        }
        notice
    }

    /// Tells a notice that the life in `row` has paid for.
    pub(super) fn tell(&mut self, row: Row, event: Event, tag: u64) {
        let notice = self.notice(row, event, tag);
        self.shared.log.say(Level::Debug, || format!("session {}: {event:?}", notice.session.0));
        self.pay(row);
        if matches!(event, Event::Rejected(_) | Event::Detached(_)) {
            // First: whoever is told of the end finds the session here no more.
            self.shared.board.write(row, None);
        }
        self.herald.tell(notice);
    }

    fn pay(&mut self, row: Row) {
        if let Some(life) = &mut self.places[row.at()].life {
            life.credits -= 1;
        }
    }

    /// The one notice of a message that began no life.
    fn answer(&mut self, notice: Notice) {
        self.herald.tell(notice);
        self.shared.outbox.refund(LIFE_NOTICES - 1);
    }

    /// A RESET of the life in `row` that has not ended it.
    pub(super) fn decline(&mut self, row: Row, status: Status, tag: u64) {
        self.answer(self.notice(row, Event::Rejected(status), tag));
    }

    pub(super) fn refuse(&mut self, envelope: Envelope, status: Status) -> Option<Row> {
        let Envelope { session, user, tag, .. } = envelope;
        let event = Event::Rejected(status);
        self.answer(Notice { session, user, tag, ..Notice::of_engine(event, self.tick) });
        None
    }

    /// DETACHED after the last chunk. True: that was popped, it is told.
    pub(super) fn say_farewell(&mut self, row: Row, event: Event, tag: u64) -> bool {
        let notice = self.notice(row, event, tag);
        self.pay(row);
        self.shared.outbox.farewell(row, notice);
        self.shared.outbox.is_gone(row)
    }

    /// Whoever was told DETACHED finds the life over. False: it is just being told; what comes after it waits.
    pub(super) fn settle_farewell(&mut self, session: Session) -> bool {
        let is_parting = |row: &Row| self.by.parting.has(*row);
        let Some(row) = self.sessions.get(&session).copied().filter(is_parting) else { return true };
        if self.shared.outbox.is_gone(row) {
            self.end(row);
            return true;
        }
        !self.shared.outbox.is_being_told(row)
    }

    /// Rows whose last chunk was popped are free.
    pub(super) fn retire(&mut self) {
        let mut from = 0;
        while let Some(row) = self.by.parting.next(from) {
            from = row.0 + 1;
            if self.shared.outbox.is_gone(row) {
                self.end(row);
            }
        }
    }

    /// The life in `row` ends without a word of the loop.
    pub(super) fn dismiss(&mut self, row: Row) {
        let Some(life) = &self.places[row.at()].life else { return };
        match (life.leaving, life.standing) {
            (_, Standing::Parting) => {}
            (Leaving::Gone { tag }, _) => {
                self.shared.outbox.purge(row);
                self.tell(row, Event::Detached(None), tag);
            }
            (Leaving::Draining { tag }, _) => _ = self.say_farewell(row, Event::Detached(None), tag),
            (Leaving::No, Standing::Pending) => {
                self.tell(row, Event::Rejected(Status::CLOSED), life.begin_tag);
            }
            (Leaving::No, _) => _ = self.say_farewell(row, Event::Detached(Some(Status::CLOSED)), 0),
        }
        self.end(row);
    }

    /// Says what is new of `row`.
    pub(super) fn publish(&mut self, row: Row) {
        let life = self.places[row.at()].life.as_ref();
        let standing = life.map(|life| life.standing);
        self.by.pending.set(row, standing == Some(Standing::Pending));
        self.by.failed.set(row, matches!(standing, Some(Standing::Failed(_))));
        self.by.parting.set(row, standing == Some(Standing::Parting));
        self.by.paused.set(row, life.is_some_and(|life| life.paused));
        if life.is_none() {
            self.by.starved.remove(row);
        }
        self.shared.board.write(row, life.map(Served::entry).as_ref());
        let gauges = &self.shared.gauges;
        for (gauge, value) in [
            (&gauges.attached, self.sessions.len() as u32),
            (&gauges.pending, self.by.pending.len()),
            (&gauges.quarantined, self.by.failed.len()),
            (&gauges.paused, self.by.paused.len()),
        ] {
            gauge.store(value, Ordering::Relaxed);
        }
    }
}
