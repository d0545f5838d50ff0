//! The start of a tick: the inbox is drained, each message in its own failure boundary.

use super::super::outcome::Reason;
use super::super::schedule::{Message, Request};
use super::{Failure, Life, Notice, Pending, Session, SessionName, Spec, Switch, TickInput, Values};

impl Spec {
    pub(super) fn drain_inbox(&mut self, input: &TickInput) {
        for message in &input.messages {
            let Err(failure) = self.message(message) else {
                continue;
            };
            if self.is_on(Switch::Failure) {
                self.now.result.errors.push(failure);
            } else {
                self.now.result.dead = Some(failure);
                return;
            }
        }
    }

    fn message(&mut self, message: &Message) -> Result<(), Failure> {
        let name = &message.session;
        if self.is_on(Switch::Answers) && message.request.is_ill_formed() {
            return Ok(()); // refused at push
        }
        let session = self.session(name);
        let generation = session.map(|session| session.generation);
        if message.generation != 0 && generation != Some(message.generation) {
            self.now.result.stale += 1;
            return Ok(());
        }
        if session.is_some_and(|session| session.life.leaving) {
            return self.message_to_leaving(message);
        }
        match &message.request {
            Request::Attach(context) => {
                if self.attach(name, context.as_ref())?
                    && let Some(session) = self.session_mut(name)
                {
                    session.active = true;
                }
            }
            Request::Detach { drain: true } if self.has_chunk_in_flight(name) => {
                let session = self.session_mut(name).expect("it has a chunk in flight");
                session.life.leaving = true;
            }
            Request::Detach { .. } => self.drop_session(name)?,
            Request::Reset(context) => self.reset(name, context.as_ref())?,
            Request::Action { values, merge } => self.action(name, values.as_ref(), *merge)?,
            Request::SetActive(active) => match self.session_mut(name) {
                Some(session) => session.active = *active,
                None => self.now.result.unknown += 1,
            },
        }
        Ok(())
    }

    /// A session is leaving from the DETACH with DRAIN until its last chunk was delivered. Until then it is attached,
    /// but only a DETACH without DRAIN still has an effect: it ends the session at once. The others are answered as a
    /// living session's would be and change nothing; a RESET, which promises a new life, is rejected.
    fn message_to_leaving(&mut self, message: &Message) -> Result<(), Failure> {
        let name = &message.session;
        let generation = self.session(name).map_or(0, |session| session.generation);
        match message.request {
            Request::Detach { drain: false } => self.drop_session(name)?,
            Request::Attach(_) => self.note(Notice::Already(name.clone(), generation)),
            Request::Reset(_) => self.reject(name, generation, Reason::Draining),
            Request::Detach { drain: true } | Request::Action { .. } | Request::SetActive(_) => {}
        }
        Ok(())
    }

    fn has_chunk_in_flight(&self, name: &str) -> bool {
        let batch = self.in_flight.as_ref();
        batch.is_some_and(|batch| batch.slots.values().any(|slot| slot.session == name))
    }

    fn reject(&mut self, name: &str, generation: u64, reason: Reason) {
        self.now.result.rejected.push((name.to_owned(), reason));
        self.note(Notice::Rejected(name.to_owned(), generation, reason));
    }

    /// Gives whether the session is attached by this message; what was attached before is "again" for the reference.
    fn attach(&mut self, name: &str, context: Option<&Values>) -> Result<bool, Failure> {
        if let Some(generation) = self.session(name).map(|session| session.generation) {
            if self.is_on(Switch::Reattach) {
                self.note(Notice::Already(name.to_owned(), generation));
                return Ok(false);
            }
            let session = self.session_mut(name).expect("it is attached");
            session.conditioning = Values::new();
            session.context = context.cloned();
            return Ok(true);
        }
        let row = match self.free_row() {
            Ok(row) => row,
            Err(reason) => {
                self.reject(name, 0, reason);
                return Ok(false);
            }
        };
        let Some(context) = context else {
            if !self.is_on(Switch::Failure) {
                self.half_attached = Some((name.to_owned(), row));
            }
            return Err(Failure::IllFormed);
        };
        let session = Session {
            name: name.to_owned(),
            row,
            generation: self.next_generation(),
            active: false,
            conditioning: Values::new(),
            context: Some(context.clone()),
            life: self.new_life(context),
        };
        self.sessions.push(session);
        Ok(true)
    }

    fn next_generation(&mut self) -> u64 {
        self.generations += 1;
        self.generations
    }

    fn new_life(&mut self, context: &Values) -> Life {
        self.pendings += 1;
        Life { pending: Some(Pending { context: context.clone(), order: self.pendings }), ..Life::default() }
    }

    /// The end of a session. Of an unknown one: nothing.
    pub(super) fn drop_session(&mut self, name: &str) -> Result<(), Failure> {
        let Some(session) = self.session(name) else {
            return Ok(());
        };
        let (row, generation) = (session.row, session.generation);
        self.note(Notice::Detached(name.to_owned(), generation));
        self.end_life(row, name)?;
        self.forget(name);
        Ok(())
    }

    fn forget(&mut self, name: &str) {
        self.sessions.retain(|session| session.name != name);
    }

    /// The seed of a session failed for good: it is gone without ever having been attached.
    pub(super) fn reject_seed(&mut self, row: usize) {
        let session = self.at(row);
        let (name, generation) = (session.name.clone(), session.generation);
        self.reject(&name, generation, Reason::Seed);
        self.forget(&name);
    }

    fn reset(&mut self, name: &SessionName, given: Option<&Values>) -> Result<(), Failure> {
        // An empty context stands for the last one.
        let given = given.filter(|given| !given.is_empty());
        if !self.is_on(Switch::ResetInPlace) {
            self.reset_by_detach(name, given)
        } else if self.session(name).is_some() {
            self.reset_in_place(name, given)
        } else {
            let context = given.cloned().unwrap_or_default();
            if self.attach(name, Some(&context))? {
                self.session_mut(name).expect("just attached").active = true;
            }
            Ok(())
        }
    }

    /// The reference's RESET is a DETACH and an ATTACH, which may be rejected or get another row.
    fn reset_by_detach(&mut self, name: &str, given: Option<&Values>) -> Result<(), Failure> {
        let session = self.session(name);
        let active = !self.version.has_pauses() || session.is_some_and(|session| session.active);
        let last = session.map_or(Some(Values::new()), |session| session.context.clone());
        let context = given.cloned().or(last);
        self.drop_session(name)?;
        if self.attach(name, context.as_ref())? && active {
            self.session_mut(name).expect("just attached").active = true;
        }
        Ok(())
    }

    fn reset_in_place(&mut self, name: &str, given: Option<&Values>) -> Result<(), Failure> {
        let session = self.session(name).expect("it is attached");
        let (row, generation) = (session.row, session.generation);
        let last = session.context.clone();
        let mut others = self.sessions.iter().filter(|other| other.row != row);
        if !self.config.midrun && others.any(Session::is_seeded) {
            self.reject(name, generation, Reason::Midrun);
            return Ok(());
        }
        let context = given.cloned().or(last).unwrap_or_default();
        self.note(Notice::Detached(name.to_owned(), generation));
        self.end_life(row, name)?;
        let generation = self.next_generation();
        let life = self.new_life(&context);
        let session = self.session_mut(name).expect("it is attached");
        session.generation = generation;
        session.conditioning = Values::new();
        session.context = Some(context);
        session.life = life;
        Ok(())
    }

    /// Replaces the conditioning, but for what the message leaves alone.
    fn action(&mut self, name: &str, values: Option<&Values>, merge: bool) -> Result<(), Failure> {
        let Some(session) = self.session(name) else {
            self.now.result.unknown += 1;
            return Ok(());
        };
        let values = values.ok_or(Failure::IllFormed)?;
        let mut kept = if merge {
            session.conditioning.clone()
        } else if self.is_on(Switch::StickyHeavy) {
            self.heavy_part(&session.conditioning)
        } else {
            Values::new()
        };
        for (key, value) in values {
            kept.insert(key.clone(), value.clone());
        }
        self.session_mut(name).expect("it is attached").conditioning = kept;
        Ok(())
    }
}
