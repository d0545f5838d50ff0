//! Rows: who gets one, and when it is free again.

use super::super::outcome::Reason;
use super::{Failure, Hook, Notice, Retiring, Session, Spec, Switch};

impl Spec {
    /// The lowest free row; if there is none, the lowest retiring one that nobody has claimed, which makes the new
    /// session wait.
    pub(super) fn free_row(&self) -> Result<usize, Reason> {
        let is_used = |row: &usize| self.sessions.iter().any(|session| session.row == *row);
        let unclaimed = (0..self.config.max_sessions).filter(|row| !is_used(row));
        let (retiring, free): (Vec<usize>, Vec<usize>) = unclaimed.partition(|row| self.retiring.contains_key(row));
        let row = free.into_iter().chain(retiring).next();
        let row = row.ok_or(Reason::Full)?;
        if !self.config.midrun && self.sessions.iter().any(Session::is_seeded) {
            return Err(Reason::Midrun);
        }
        Ok(row)
    }

    /// The end of a life: out of undelivered work now; the row is free when its own encode has ended. The caller removes
    /// the session or gives it a new life. Fails, and changes nothing, if the reference's `detach` does.
    pub(super) fn end_life(&mut self, row: usize, name: &str) -> Result<(), Failure> {
        self.drain_lanes();
        let running = self.encodes.iter().find(|encode| encode.row == row);
        let running_until = running.map(|encode| encode.ready_at).filter(|ready_at| *ready_at > self.now.tick);
        match running_until {
            Some(ready_at) if self.is_on(Switch::NoStall) => {
                let session = name.to_owned();
                self.retiring.insert(row, Retiring { ready_at, session });
            }
            _ if self.retiring.contains_key(&row) => {}
            _ => self.detach_row(row, name)?,
        }
        if let Some(batch) = &mut self.in_flight {
            batch.slots.retain(|_, slot| slot.session != name);
        }
        self.encodes.retain(|encode| encode.row != row);
        Ok(())
    }

    /// Calls the model's `detach`. With the failure rules: once for each successful seed, and the row is free even if
    /// the call fails.
    pub(super) fn detach_row(&mut self, row: usize, name: &str) -> Result<(), Failure> {
        let isolated = self.is_on(Switch::Failure);
        if isolated && !self.model.contains_key(&row) {
            return Ok(());
        }
        if let Err(failure) = self.call(Hook::Detach, &[row], &[name.to_owned()]) {
            if !isolated {
                return Err(failure);
            }
            self.note(Notice::TickFailed(Hook::Detach));
        }
        self.model.remove(&row);
        Ok(())
    }

    /// The reference waits for every running encode when it drains its lanes.
    pub(super) fn drain_lanes(&mut self) {
        if self.is_on(Switch::NoStall) || !self.config.drain_blocks {
            return;
        }
        self.now.result.stall += (self.encode_lane_free_at - self.now.tick).max(0);
        self.encode_lane_free_at = self.encode_lane_free_at.min(self.now.tick);
        for encode in &mut self.encodes {
            encode.ready_at = self.now.tick;
        }
    }

    /// Rows whose encode has ended are free, lowest first.
    pub(super) fn retire_rows(&mut self) -> Result<(), Failure> {
        let now = self.now.tick;
        let over = self.retiring.iter().filter(|(_, r)| now >= r.ready_at);
        let over: Vec<usize> = over.map(|(row, _)| *row).collect();
        for row in over {
            let retired = self.retiring.remove(&row).expect("it was listed");
            self.detach_row(row, &retired.session)?;
        }
        Ok(())
    }
}
