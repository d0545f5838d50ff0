//! What the next tick would have to do: whether who drives the engine may rest, and what wakes it.

use super::cohort::Cohort;

/// What the next tick would have to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outlook {
    /// A row can step, or something is to be delivered or seeded.
    Step,
    /// Only fences are waited for; `wakes`: the lanes tell when one passes.
    Fences {
        /// See above.
        wakes: bool,
    },
    /// Only the model's `ready` is waited for, or a consumer that tells nobody: it holds all buffers of a session that waits
    /// for one. Beside it, at most, fences that tell.
    Gate,
    /// Only consumers are waited for, and they tell.
    Held,
    /// Nothing until somebody asks for something.
    Nothing,
}

impl Cohort {
    /// What the next tick would have to do.
    pub fn outlook(&mut self) -> Outlook {
        self.scratch.difference(&self.arena.by.ready, &self.arena.paused);
        self.scratch.subtract(&self.arena.draining);
        self.scratch.subtract(&self.arena.held);
        let is_pending = !self.arena.by.pending.is_empty();
        let can_step = !self.scratch.is_empty() || self.previous.is_some() || (is_pending && !self.is_gated);
        if can_step || self.can_resume() {
            return Outlook::Step;
        }
        // What tells nobody when it comes to be so.
        let has_gate = is_pending || self.awaits_release();
        if !self.asides.is_empty()
            || !self.encodes.is_empty()
            || !self.errands.is_empty()
            || !self.arena.by.retiring.is_empty()
        {
            // Nobody tells of a fence that has passed already: on inline lanes all have.
            let wakes = self.lanes.wakes();
            // The look may be what ends the lanes: of that nobody tells, either.
            return match self.has_fence_passed() || self.lanes.fault().is_some() {
                true => Outlook::Step,
                false if has_gate && wakes => Outlook::Gate,
                false => Outlook::Fences { wakes },
            };
        }
        if has_gate {
            Outlook::Gate
        } else if self.arena.held.is_empty() {
            Outlook::Nothing
        } else {
            Outlook::Held
        }
    }

    /// Whether there is something to resolve: a fence of work that nobody waits for has passed.
    fn has_fence_passed(&mut self) -> bool {
        let lanes = &mut self.lanes;
        let encodes = self.asides.iter().chain(&self.encodes).map(|encode| encode.fence);
        let mut fences = encodes.chain(self.errands.iter().map(|errand| errand.fence));
        if fences.any(|fence| lanes.passed(fence)) {
            return true;
        }
        let mut from = 0;
        while let Some(row) = self.arena.by.retiring.next(from) {
            from = row.0 + 1;
            if self.has_passed(row) {
                return true;
            }
        }
        false
    }
}
