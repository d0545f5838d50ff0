//! Steps 2, 5 and 8 of a tick: heavy values that changed go through ENCODE, alone; nobody else waits for them.

use super::arena::{Life, RowFences, State};
use super::cohort::Cohort;
use super::flight::Home;
use crate::batch::{Batch, Seat};
use crate::conditioning::{Keys, Shown, View, same};
use crate::lane::{Calls, Fence, Work};
use crate::rows::Rows;
use crate::word::{Fault, KeySet, Lane, Row};

/// Encodes that a row may sit out running; then it steps once.
const MAX_SAT_OUT: u32 = 2;

/// A batch on the ENCODE lane.
#[derive(Clone, Copy)]
pub struct Encode {
    pub fence: Fence,
    /// That it failed as a whole was told, or is known not to be so.
    pub is_told: bool,
}

/// What is to be done about a row's wanted heavy values.
enum Diff {
    Nothing,
    /// It has sat out enough: it steps first.
    Later,
    Encode,
}

impl Cohort {
    /// Encodes whose fence has passed: wanted becomes applied, here and nowhere else.
    pub(super) fn resolve_encodes(&mut self) {
        let mut at = 0;
        while let Some(encode) = self.encodes.get(at).copied() {
            match self.take_encode(encode) {
                Some(batch) => {
                    self.encodes.remove(at);
                    self.encode_passed(encode.fence, &batch);
                    self.bring_home(Home::Spare, batch);
                }
                None => at += 1,
            }
        }
    }

    /// Work of `self.members` was submitted to the ENCODE lane. That it failed as a whole is told now, if it can be seen.
    pub(super) fn note_encode(&mut self, fence: Fence) -> Encode {
        let returned = self.lanes.observe(fence).map(|batch| batch.result);
        if let Some(Err(fault)) = returned {
            let first = self.members.first().unwrap_or_default();
            self.batch_failed(fault, first);
        }
        Encode { fence, is_told: returned.is_some() }
    }

    /// Its batch, if its fence has passed. That it failed as a whole is told now, if it was not yet.
    pub(super) fn take_encode(&mut self, encode: Encode) -> Option<Box<Batch>> {
        let batch = self.lanes.take(encode.fence)?;
        if let (false, Err(fault)) = (encode.is_told, batch.result) {
            self.batch_failed(fault, Row(batch.first_row()));
        }
        Some(batch)
    }

    fn encode_passed(&mut self, fence: Fence, batch: &Batch) {
        let stage = self.manifest().last_stage(Lane::Encode);
        self.shared.counters.lanes[Lane::Encode.at()].record(batch.ended.saturating_sub(batch.begun));
        for (at, row) in batch.positions() {
            let is_ours = self.arena.fences[row.at()].encode == Some(fence);
            if !is_ours || !matches!(self.arena.state(row), State::Encoding { .. }) {
                continue; // the row left meanwhile
            }
            match (batch.result, batch.failed(at)) {
                (Ok(()), None) => self.apply(row, batch, at),
                (Ok(()), Some(status)) => self.quarantine(row, Fault { stage, status }),
                (Err(fault), _) => self.encode_failed(row, fault),
            }
        }
    }

    fn apply(&mut self, row: Row, batch: &Batch, at: usize) {
        let State::Encoding { tag, .. } = self.arena.state(row) else { return };
        let tag = *tag;
        self.arena.change(row, |life| State::Ready { life });
        self.arena.touched.add(row);
        let Some(life) = self.arena.life_mut(row) else { return };
        for key in self.model.manifest().keys.heavy().iter() {
            let value = match batch.shown(at, key) {
                Shown::Block(block) => Some(block.clone()),
                _ => None,
            };
            life.held.put(key, value, &mut self.store);
        }
        life.encode_tries = 0;
        life.has_encoded = true;
        life.heavy_tag = tag;
    }

    /// The row keeps the applied value; its next attempt is a call of its own.
    fn encode_failed(&mut self, row: Row, fault: Fault) {
        self.arena.change(row, |life| State::Ready { life });
        self.arena.touched.add(row);
        let attempts = self.plan.encode_attempts;
        let Some(life) = self.arena.life_mut(row) else { return };
        life.encode_tries += 1;
        if life.encode_tries >= attempts {
            self.quarantine(row, fault);
        }
    }

    /// Whether `row` takes part in this tick: due, not paused, not leaving.
    pub(super) fn is_live(&self, row: Row) -> bool {
        !self.arena.paused.has(row) && !self.arena.draining.has(row) && self.due.as_ref().is_none_or(|due| due.has(row))
    }

    /// Looks at the rows whose conditioning was touched, and starts what differs: one batch of the changed rows, and one
    /// for each row whose last attempt failed.
    pub(super) fn start_encodes(&mut self) {
        if !self.has_encode || self.arena.touched.is_empty() {
            return;
        }
        let mut starts = std::mem::replace(&mut self.scratch, Rows::new(0));
        starts.clear();
        let mut from = 0;
        while let Some(row) = self.arena.touched.next(from) {
            from = row.0 + 1;
            if !self.arena.by.ready.has(row) || !self.is_live(row) {
                continue;
            }
            match self.diff(row) {
                Diff::Nothing => drop(self.arena.touched.remove(row)),
                Diff::Later => {}
                Diff::Encode => drop(starts.add(row)),
            }
        }
        self.encode_together(&mut starts);
        for row in starts.iter() {
            let mut batch = self.spare_batch(1);
            self.members.set_only(row);
            batch.begin(self.tick, 0, &self.members);
            self.place_wanted(&mut batch, row);
            self.submit_encode(batch);
        }
        self.scratch = starts;
    }

    /// Starts the rows that have not failed before, and leaves the others in `starts`.
    fn encode_together(&mut self, starts: &mut Rows) {
        let mut fresh = std::mem::replace(&mut self.members, Rows::new(0));
        fresh.clear();
        for row in starts.iter() {
            fresh.set(row, self.arena.life(row).is_some_and(|life| life.encode_tries == 0));
        }
        if !fresh.is_empty() {
            let mut batch = self.spare_batch(fresh.len() as usize);
            batch.begin(self.tick, 0, &fresh);
            fresh.iter().for_each(|row| self.place_wanted(&mut batch, row));
            starts.subtract(&fresh);
            self.members = fresh;
            self.submit_encode(batch);
        } else {
            self.members = fresh;
        }
    }

    fn diff(&mut self, row: Row) -> Diff {
        let keys = &self.model.manifest().keys;
        let Some(life) = self.arena.life_mut(row) else { return Diff::Nothing };
        if differing(life, keys).is_empty() {
            life.encode_tries = 0;
            if std::mem::replace(&mut life.heavy_tag, life.wanted_tag) != life.wanted_tag {
                // It may be long ago that the message came.
                self.arena.news.add(row);
            }
            Diff::Nothing
        } else if life.sat_out >= MAX_SAT_OUT {
            Diff::Later
        } else {
            Diff::Encode
        }
    }

    fn place_wanted(&mut self, batch: &mut Batch, row: Row) {
        let keys = &self.model.manifest().keys;
        let Some(life) = self.arena.life_mut(row) else { return };
        let seat = Seat { row, session: life.session, user: life.user, generation: life.generation, version: 0 };
        let view = View { image: &[], present: KeySet::NONE, blocks: &life.wanted };
        let at = batch.place(seat, life.age, view, keys, &mut self.store);
        // What seed saw is applied, too: a key of the context that is absent by now has changed.
        let first = if life.has_encoded { KeySet::NONE } else { batch.present(at) };
        batch.set_changed(at, differing(life, keys) | first);
        life.sat_out += 1;
        life.encodes += 1;
        let tag = life.wanted_tag;
        self.arena.change(row, |life| State::Encoding { life, tag });
        self.arena.touched.remove(row);
    }

    fn submit_encode(&mut self, mut batch: Box<Batch>) {
        batch.seal(&mut self.store);
        let (members, fences) = (&mut self.members, &mut self.arena.fences);
        members.copy_from(batch.members());
        // Lanes are FIFO: the newest fence of a lane stands for all its older ones.
        let newest = |of: fn(&RowFences) -> Option<Fence>| {
            members.iter().filter_map(|row| of(&fences[row.at()])).max_by_key(|fence| fence.sequence)
        };
        // Of a life that needed no seed and has made no step: what its row was last in on that lane is another's `detach`.
        let after = [newest(|fences| fences.hot.or(fences.detach)), newest(|fences| fences.deferred)];
        let fence = self.lanes.submit(Work { lane: Lane::Encode, calls: Calls::Stages, batch, after });
        members.iter().for_each(|row| fences[row.at()].encode = Some(fence));
        let encode = self.note_encode(fence);
        self.encodes.push(encode);
    }
}

/// Heavy keys whose wanted value is not the applied one.
fn differing(life: &Life, keys: &Keys) -> KeySet {
    let mut differing = KeySet::NONE;
    for key in keys.heavy().iter() {
        differing.set(key, !same(life.wanted[key].as_ref(), life.held.applied(key)));
    }
    differing
}
