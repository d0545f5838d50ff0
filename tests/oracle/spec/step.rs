//! The step of a tick: encodes resolve, pending rows are armed, the lanes run, chunks are collected.

use std::collections::BTreeMap;

use super::super::outcome::same_values;
use super::seeding::groups_of;
use super::{
    Batch, Due, ENCODES_RUNNING, Encode, EncodeOutcome, Failure, Hook, LOSSES_BEFORE_ISOLATION, LaneResult, ModelRow,
    Notice, SessionName, Slot, Spec, Statuses, Switch, Values, digest,
};

/// Chunks to deliver.
type Outputs = Vec<(SessionName, u8)>;

/// A row that can step in this tick.
struct Live {
    row: usize,
    session: SessionName,
    conditioning: Values,
}

impl Spec {
    /// Only the reference fails here: it then forgets the batch in flight and drains its lanes.
    pub(super) fn step(&mut self, due: &[Due]) -> Result<Outputs, Failure> {
        let outputs = self.run_steps(due);
        if outputs.is_err() {
            self.in_flight = None;
            self.drain_lanes();
        }
        outputs
    }

    fn run_steps(&mut self, due: &[Due]) -> Result<Outputs, Failure> {
        self.resolve_encodes();
        self.retire_rows()?;
        self.arm()?;
        self.in_flight = self.in_flight.take().and_then(|batch| self.see_hot(batch));
        let live = self.live(due);
        if live.is_empty() && self.in_flight.is_none() {
            return Ok(Outputs::new());
        }
        let starts = self.heavy_diff(&live);
        let cohort = self.cohort(&live, &starts);
        let mut previous = self.in_flight.take();
        // What DEFERRED reports is acted on at collect: HOT of this tick still has the row.
        let deferred = match &mut previous {
            Some(batch) => self.run_deferred(batch)?,
            None => LaneResult::default(),
        };
        self.start_encodes(starts)?;
        let current = match cohort {
            Some(batch) => self.run_hot(batch, &live)?,
            None => None,
        };
        if self.config.pipelined {
            self.in_flight = current;
            Ok(self.collect(previous, deferred))
        } else {
            let Some(mut batch) = current else {
                return Ok(Outputs::new());
            };
            let deferred = self.run_deferred(&mut batch)?;
            Ok(self.collect(Some(batch), deferred))
        }
    }

    /// An encode that has ended becomes what HOT sees, if it succeeded.
    fn resolve_encodes(&mut self) {
        let now = self.now.tick;
        let untold = self.untold_encodes.len();
        self.untold_encodes.retain(|ready_at| now < *ready_at);
        (self.untold_encodes.len()..untold).for_each(|_| self.note(Notice::TickFailed(Hook::Encode)));
        let (ended, running): (Vec<Encode>, Vec<Encode>) =
            std::mem::take(&mut self.encodes).into_iter().partition(|encode| now >= encode.ready_at);
        self.encodes = running;
        for encode in ended {
            let attempts = self.config.attempts;
            let life = &mut self.at_mut(encode.row).life;
            match encode.outcome {
                EncodeOutcome::Succeeded => {
                    life.applied = encode.wanted;
                    life.failed_encodes = 0;
                }
                EncodeOutcome::RowFailed => self.quarantine(encode.row, Hook::Encode),
                EncodeOutcome::CallFailed => {
                    life.failed_encodes += 1;
                    if life.failed_encodes >= attempts {
                        self.quarantine(encode.row, Hook::Encode);
                    }
                }
            }
        }
    }

    /// The due sessions that can step.
    fn live(&self, due: &[Due]) -> Vec<Live> {
        let mut live = Vec::new();
        for due in due {
            let Some(session) = self.session(&due.session) else {
                continue;
            };
            let life = &session.life;
            if session.is_seeded() && !life.quarantined && !life.leaving {
                live.push(Live {
                    row: session.row,
                    session: session.name.clone(),
                    conditioning: due.conditioning.clone(),
                });
            }
        }
        live
    }

    /// The rows whose wanted heavy values differ from the applied ones, with what they want.
    fn heavy_diff(&mut self, live: &[Live]) -> BTreeMap<usize, Values> {
        let mut starts = BTreeMap::new();
        if !self.config.has_encode {
            return starts;
        }
        let cap = self.is_on(Switch::SitOutCap);
        for Live { row, conditioning, .. } in live {
            if self.is_encoding(*row) {
                continue;
            }
            let changes = self.heavy_part(conditioning);
            let life = &mut self.at_mut(*row).life;
            let mut wanted = life.applied.clone();
            wanted.extend(changes);
            if same_values(&wanted, &life.applied) {
                life.failed_encodes = 0;
            } else if !(cap && life.encodes_since_hot >= ENCODES_RUNNING) {
                starts.insert(*row, wanted);
            }
        }
        starts
    }

    /// The batch that HOT is to run: the live rows that do not sit out.
    fn cohort(&self, live: &[Live], starts: &BTreeMap<usize, Values>) -> Option<Batch> {
        if live.is_empty() {
            return None;
        }
        let mut batch = Batch::default();
        for Live { row, session, .. } in live {
            if !self.is_encoding(*row) && !starts.contains_key(row) {
                let session = session.clone();
                batch.slots.insert(*row, Slot { session, value: 0 });
            }
        }
        Some(batch).filter(|batch| self.has_work(batch))
    }

    /// An empty batch is run by the reference only.
    fn has_work(&self, batch: &Batch) -> bool {
        !batch.slots.is_empty() || !self.is_on(Switch::NoEmptyBatch)
    }

    fn start_encodes(&mut self, mut starts: BTreeMap<usize, Values>) -> Result<(), Failure> {
        if starts.is_empty() {
            return Ok(());
        }
        let rows: Vec<usize> = starts.keys().copied().collect();
        let groups = if self.is_on(Switch::Failure) {
            groups_of(&rows, |row| self.at(row).life.failed_encodes > 0)
        } else {
            vec![rows]
        };
        for group in groups {
            let names = self.names_of(&group);
            // A call that failed still takes its time on the lane.
            let ready_at = self.encode_lane_free_at.max(self.now.tick) + self.now.encode_ticks;
            let (bad, outcome) = match self.call(Hook::Encode, &group, &names) {
                Ok(bad) => (bad, EncodeOutcome::Succeeded),
                Err(failure) if !self.is_on(Switch::Failure) => return Err(failure),
                Err(_) => {
                    match self.statuses {
                        Statuses::AtReturn => self.note(Notice::TickFailed(Hook::Encode)),
                        Statuses::AtFence { .. } => self.untold_encodes.push(ready_at),
                    }
                    (Vec::new(), EncodeOutcome::CallFailed)
                }
            };
            self.encode_lane_free_at = ready_at;
            for row in group {
                let wanted = starts.remove(&row).expect("each row starts once");
                let row_failed = bad.contains(&row);
                let outcome = if row_failed { EncodeOutcome::RowFailed } else { outcome };
                self.start_encode(Encode { row, wanted, ready_at, outcome });
            }
        }
        Ok(())
    }

    fn start_encode(&mut self, encode: Encode) {
        if encode.outcome == EncodeOutcome::Succeeded {
            let heavy = self.heavy_sum(&encode.wanted);
            self.model_row(encode.row).heavy = heavy;
        }
        self.at_mut(encode.row).life.encodes_since_hot += 1;
        self.encodes.push(encode);
    }

    fn model_row(&mut self, row: usize) -> &mut ModelRow {
        self.model.get_mut(&row).expect("a seeded row")
    }

    /// Gives the batch, or nothing if it is seen to be lost.
    fn run_hot(&mut self, mut batch: Batch, live: &[Live]) -> Result<Option<Batch>, Failure> {
        let rows: Vec<usize> = batch.slots.keys().copied().collect();
        for row in &rows {
            self.at_mut(*row).life.encodes_since_hot = 0; // a step counts when it is issued
        }
        let result = self.run_lane(Hook::Hot, &batch)?;
        for Live { row, conditioning, .. } in live {
            if result.succeeded.contains(row) {
                let value = self.chunk_value(*row, conditioning);
                batch.slots.get_mut(row).expect("a row of it").value = value;
            }
        }
        batch.unseen = Some(result);
        let outlasts = self.statuses == Statuses::AtFence { hot_outlasts: true } && self.config.pipelined;
        Ok(if outlasts { Some(batch) } else { self.see_hot(batch) })
    }

    /// Acts on what HOT came to, for the rows that are still there. Gives the batch with those that succeeded, or
    /// nothing if it is lost.
    fn see_hot(&mut self, mut batch: Batch) -> Option<Batch> {
        let Some(LaneResult { succeeded, failed, lost }) = batch.unseen.take() else {
            return Some(batch);
        };
        if lost {
            self.note(Notice::TickFailed(Hook::Hot));
        }
        let all_step = lost && !self.config.retry_safe;
        for row in batch.slots.keys().filter(|row| all_step || succeeded.contains(row)) {
            self.at_mut(*row).life.age += 1;
        }
        for row in failed.iter().filter(|row| batch.slots.contains_key(row)) {
            self.quarantine(*row, Hook::Hot);
        }
        batch.slots.retain(|row, _| succeeded.contains(row));
        Some(batch).filter(|_| !lost)
    }

    fn chunk_value(&self, row: usize, conditioning: &Values) -> u8 {
        let model = &self.model[&row];
        let cheap = self.cheap_sum(conditioning);
        digest::chunk_value(model.seed, self.at(row).life.age, cheap, model.heavy)
    }

    /// DEFERRED of a batch, of the rows that have not failed meanwhile.
    fn run_deferred(&mut self, batch: &mut Batch) -> Result<LaneResult, Failure> {
        batch.slots.retain(|row, _| !self.at(*row).life.quarantined);
        if !self.has_work(batch) {
            return Ok(LaneResult::default());
        }
        self.run_lane(Hook::Deferred, batch)
    }

    /// HOT or DEFERRED over a batch: in one call, or singly after two losses in a row.
    fn run_lane(&mut self, hook: Hook, batch: &Batch) -> Result<LaneResult, Failure> {
        let rows: Vec<usize> = batch.slots.keys().copied().collect();
        let names: Vec<SessionName> = batch.slots.values().map(|s| s.session.clone()).collect();
        if !self.is_on(Switch::Failure) {
            self.call(hook, &rows, &names)?;
            return Ok(LaneResult { succeeded: rows, ..LaneResult::default() });
        }
        let mut failed = Vec::new();
        let isolate = *self.losses(hook) >= LOSSES_BEFORE_ISOLATION && !rows.is_empty();
        if isolate {
            *self.losses(hook) = 0;
            for (row, name) in rows.iter().zip(&names) {
                let alone = self.call(hook, &[*row], std::slice::from_ref(name));
                failed.extend(alone.unwrap_or_else(|_| vec![*row]));
            }
            // If no row succeeds alone, it is not the rows: nobody is quarantined.
            if failed == rows {
                return Ok(self.lose_batch(hook));
            }
        } else {
            match self.call(hook, &rows, &names) {
                Ok(bad) => failed = bad,
                Err(_) => {
                    *self.losses(hook) += 1;
                    return Ok(self.lose_batch(hook));
                }
            }
            *self.losses(hook) = 0;
        }
        let mut succeeded = rows;
        succeeded.retain(|row| !failed.contains(row));
        Ok(LaneResult { succeeded, failed, lost: false })
    }

    fn lose_batch(&mut self, hook: Hook) -> LaneResult {
        if hook == Hook::Deferred {
            self.note(Notice::TickFailed(hook)); // of HOT where it is seen
        }
        LaneResult { lost: true, ..LaneResult::default() }
    }

    /// Whole-batch failures of a lane in a row.
    fn losses(&mut self, hook: Hook) -> &mut u32 {
        match hook {
            Hook::Hot => &mut self.hot_losses,
            _ => &mut self.deferred_losses,
        }
    }

    /// Delivers a batch: ascending rows, those that DEFERRED succeeded for.
    fn collect(&mut self, batch: Option<Batch>, deferred: LaneResult) -> Outputs {
        for row in deferred.failed {
            self.quarantine(row, Hook::Deferred);
        }
        let mut outputs = Outputs::new();
        for (row, slot) in batch.unwrap_or_default().slots {
            if deferred.succeeded.contains(&row) {
                self.now.collected.push(slot.session.clone());
                outputs.push((slot.session, slot.value));
            }
        }
        outputs
    }
}
