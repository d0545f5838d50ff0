//! Pending rows become seeded ones.

use super::{Failure, Hook, ModelRow, Notice, Spec, Switch, digest};

impl Spec {
    /// Shows the pending rows to the readiness hook, then seeds them. A row whose former life has not retired yet is not
    /// among them.
    pub(super) fn arm(&mut self) -> Result<(), Failure> {
        let mut rows = self.pending_rows();
        if rows.is_empty() {
            return Ok(());
        }
        match self.gate_is_open(&rows) {
            Ok(true) => {}
            Ok(false) => return Ok(()),
            Err(failure) if !self.is_on(Switch::Failure) => return Err(failure),
            Err(_) => {
                self.note(Notice::TickFailed(Hook::Gate));
                return Ok(());
            }
        }
        if self.is_on(Switch::SeedOrder) {
            rows.sort_unstable();
        }
        if !self.is_on(Switch::Failure) {
            return self.seed(&rows);
        }
        for group in self.seed_groups(&rows) {
            if self.seed(&group).is_err() {
                self.note(Notice::TickFailed(Hook::Seed));
                self.count_failed_seeds(&group);
            }
        }
        Ok(())
    }

    /// In the order in which they became pending.
    fn pending_rows(&self) -> Vec<usize> {
        let mut pending: Vec<(u64, usize)> = self
            .sessions
            .iter()
            .filter(|session| !self.retiring.contains_key(&session.row))
            .filter_map(|session| Some((session.life.pending.as_ref()?.order, session.row)))
            .collect();
        pending.sort_unstable();
        pending.into_iter().map(|(_, row)| row).collect()
    }

    fn gate_is_open(&mut self, rows: &[usize]) -> Result<bool, Failure> {
        let Some(gate) = self.config.gate else {
            return Ok(true);
        };
        let mut rows = rows.to_vec();
        rows.sort_unstable();
        let names = self.names_of(&rows);
        self.call(Hook::Gate, &rows, &names)?;
        Ok(gate.is_open(rows.len(), !self.model.is_empty()))
    }

    /// The rows that never failed in one call, then each that did in its own.
    fn seed_groups(&self, rows: &[usize]) -> Vec<Vec<usize>> {
        groups_of(rows, |row| self.at(row).life.failed_seeds > 0)
    }

    fn count_failed_seeds(&mut self, rows: &[usize]) {
        for row in rows {
            let life = &mut self.at_mut(*row).life;
            life.failed_seeds += 1;
            if life.failed_seeds >= self.config.attempts {
                self.reject_seed(*row);
            }
        }
    }

    fn seed(&mut self, rows: &[usize]) -> Result<(), Failure> {
        let names = self.names_of(rows);
        let bad = self.call(Hook::Seed, rows, &names)?;
        for row in rows {
            if bad.contains(row) {
                self.reject_seed(*row);
            } else {
                self.start_life(*row);
            }
        }
        Ok(())
    }

    fn start_life(&mut self, row: usize) {
        let session = self.at_mut(row);
        let pending = session.life.pending.take().expect("a pending row");
        let notice = Notice::Attached(session.name.clone(), session.generation);
        let context = pending.context;
        let seed = digest::explicit_seed(&context);
        let seed = seed.unwrap_or_else(|| digest::derived_seed(&session.name));
        let heavy = self.heavy_sum(&context);
        self.model.insert(row, ModelRow { seed, heavy });
        let applied = self.heavy_part(&context);
        let life = &mut self.at_mut(row).life;
        life.age = 0;
        life.applied = applied;
        life.failed_seeds = 0;
        self.note(notice);
    }
}

/// Rows in the order of calls: those that did not fail before together, then the others singly, lowest first.
pub(super) fn groups_of(rows: &[usize], has_failed: impl Fn(usize) -> bool) -> Vec<Vec<usize>> {
    let (mut alone, together): (Vec<usize>, Vec<usize>) = rows.iter().copied().partition(|row| has_failed(*row));
    alone.sort_unstable();
    let together = Some(together).filter(|rows| !rows.is_empty());
    let alone = alone.into_iter().map(|row| vec![row]);
    together.into_iter().chain(alone).collect()
}
