//! Lanes whose calls return at once and whose work runs later, in any order that FIFO queues and `Work::after` permit.
//!
//! Work goes on when the engine asks (`passed`, `take`) or waits (`block`), one step at a time: it begins or it ends, so
//! the work of two queues can be under way at once. Which queue goes on is drawn by a seeded generator, with weights that
//! make one lane slow and another fast.

use std::collections::{HashMap, VecDeque};
use std::sync::Arc;

use rte::batch::Batch;
use rte::lane::{Calls, Fence, Lanes, Target, Work};
use rte::model::{Call, RawStream};
use rte::queue::Passage;
use rte::word::{Fault, Lane, Nanos, Queue};

use super::arrays::Snapshot;
use super::consumers::Consumers;
use super::dependency::{Dependency, Lie};
use super::model::SharedWorld;
use super::options::{Options, Statuses, Temper};
use super::timeline::{Mark, Timeline};
use super::world::{Deed, Record, Violation};
use crate::random::Random;

/// Steps between two questions of the engine where nobody is slow, at most.
pub const HASTE: u64 = 64;

/// Work that was submitted and is not done.
struct Job {
    /// Of all work, in the order of submission.
    number: u64,
    deed: Deed,
    /// A row that is run alone, in a batch of its own.
    is_alone: bool,
    after: Vec<Fence>,
    record: Record,
    arrays: Snapshot,
    has_begun: bool,
}

/// What the engine asks of a fence.
#[derive(Clone, Copy)]
enum Question {
    HasItPassed,
    MayItBeTaken,
}

/// See the module's comment.
pub struct SimLanes {
    target: Target,
    world: SharedWorld,
    random: Random,
    temper: Temper,
    statuses: Statuses,
    queues: Vec<Queue>,
    lie: Option<Lie>,
    jobs: [VecDeque<Job>; Queue::COUNT],
    timeline: Arc<Timeline>,
    consumers: Arc<Consumers>,
    batches: HashMap<(usize, u64), Box<Batch>>,
    /// Of HOT and DEFERRED: where the batches of the pipeline's slots are.
    homes: [Vec<usize>; 2],
    slots: usize,
    submitted: u64,
}

impl SimLanes {
    /// Lanes that run `target`, and tell `lie`; what they have done stands in `timeline`.
    pub fn new(
        options: &Options,
        target: Target,
        world: SharedWorld,
        timeline: Arc<Timeline>,
        consumers: Arc<Consumers>,
        lie: Option<Lie>,
    ) -> SimLanes {
        let fixed = [Queue::of(Lane::Hot), Queue::of(Lane::Deferred)];
        SimLanes {
            target,
            world,
            random: Random::stream(options.seed, 3),
            temper: options.temper,
            statuses: options.statuses,
            queues: fixed.into_iter().chain((0..options.encode_queues).map(Queue::encode)).collect(),
            lie,
            jobs: Default::default(),
            timeline,
            consumers,
            batches: HashMap::new(),
            homes: Default::default(),
            slots: if options.is_pipelined { 2 } else { 1 },
            submitted: 0,
        }
    }

    /// Of ENCODE the first queue with nothing to do, or the one with least.
    fn queue_for(&self, lane: Lane) -> Queue {
        let of_lane = self.queues.iter().filter(|queue| lane_of(**queue) == lane);
        let shortest = of_lane.min_by_key(|queue| self.jobs[queue.at()].len());
        *shortest.expect("each lane has a queue")
    }

    /// The fences that work will wait for. That it waits for one that [`Dependency`] does not know is an error of this
    /// simulator.
    fn fences(&self, deed: Deed, after: [Option<Fence>; 2]) -> Vec<Fence> {
        let mut fences = Vec::new();
        for fence in after.into_iter().flatten() {
            let lane = lane_of(fence.queue);
            if Dependency::of_after(deed, lane).is_none() {
                self.world.lock().unwrap().violated(Violation::UnknownDependency);
            }
            if self.lie != Some(Lie::After(deed, lane)) {
                fences.push(fence);
            }
        }
        fences
    }

    /// Whether this is a batch of one row that is run alone. Those of the slots are known: they come first, for a lane runs
    /// rows alone only after two batches of its own have failed.
    fn is_alone(&mut self, deed: Deed, batch: &Batch) -> bool {
        let homes = match deed {
            Deed::Hot => &mut self.homes[0],
            Deed::Deferred => &mut self.homes[1],
            Deed::Seed | Deed::Encode | Deed::Detach => return false,
        };
        let address = std::ptr::from_ref(batch).addr();
        if !homes.contains(&address) && homes.len() < self.slots {
            homes.push(address);
        }
        !homes.contains(&address)
    }

    // ---- work goes on

    fn is_done(&self, fence: Fence) -> bool {
        self.timeline.is_done(fence)
    }

    fn may_go_on(&self, queue: Queue) -> bool {
        let job = self.jobs[queue.at()].front();
        job.is_some_and(|job| job.has_begun || job.after.iter().all(|fence| self.is_done(*fence)))
    }

    /// One queue's work begins or ends. False: there is none.
    fn step(&mut self) -> bool {
        let weight = |lanes: &SimLanes, queue: Queue| {
            if lanes.may_go_on(queue) { lanes.temper.weights[lane_of(queue).at()] } else { 0 }
        };
        let total = self.queues.iter().map(|queue| weight(self, *queue)).sum();
        if total == 0 {
            return false;
        }
        let mut drawn = self.random.below(total);
        for queue in self.queues.clone() {
            let weight = weight(self, queue);
            if drawn < weight {
                self.go_on(queue);
                break;
            }
            drawn -= weight;
        }
        true
    }

    fn go_on(&mut self, queue: Queue) {
        let jobs = &mut self.jobs[queue.at()];
        let Some(job) = jobs.front_mut() else { return };
        let mut world = self.world.lock().unwrap();
        if job.has_begun {
            world.end(job.number, &job.record, &job.arrays);
            jobs.pop_front();
            self.timeline.advance(queue);
        } else {
            job.has_begun = true;
            world.begin(job.number, &job.record, &job.arrays);
        }
    }

    /// Time passes while the engine asks.
    fn linger(&mut self) {
        let most = if self.world.lock().unwrap().is_calm() { HASTE } else { self.temper.steps };
        for _ in 0..self.random.below(most + 1) {
            self.step();
        }
        self.consumers.linger();
    }

    /// What the engine is told, true or not.
    fn answer(&self, question: Question, fence: Fence) -> bool {
        if self.is_done(fence) {
            return true;
        }
        let at = fence.sequence - self.timeline.done(fence.queue) - 1;
        let Some(job) = self.jobs[fence.queue.at()].get(at as usize) else { return false };
        match (self.lie, question) {
            (Some(Lie::Passed(deed)), Question::HasItPassed)
            | (Some(Lie::Taken(deed)), Question::MayItBeTaken)
            | (Some(Lie::Over(deed)), _) => deed == job.deed,
            (Some(Lie::OverAlone(deed)), _) => deed == job.deed && job.is_alone,
            _ => false,
        }
    }
}

impl Lanes for SimLanes {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        Ok([RawStream::default(); Lane::COUNT])
    }

    fn submit(&mut self, mut work: Work) -> Fence {
        let (queue, deed) = (self.queue_for(work.lane), deed_of(work.lane, work.calls));
        let after = self.fences(deed, work.after);
        self.target.run(queue, work.lane, work.calls, &mut work.batch, RawStream::default());
        let record = std::mem::take(&mut self.world.lock().unwrap().record);
        let manifest = self.target.model.manifest();
        let arrays = Snapshot::of(&mut work.batch, &manifest.keys, manifest.max_sessions as usize);
        self.submitted += 1;
        self.world.lock().unwrap().submit(self.submitted, &record, &arrays);
        let is_alone = self.is_alone(deed, &work.batch);
        let jobs = &mut self.jobs[queue.at()];
        jobs.push_back(Job { number: self.submitted, deed, is_alone, after, record, arrays, has_begun: false });
        let fence = Fence { queue, sequence: self.timeline.done(queue) + jobs.len() as u64 };
        self.batches.insert((queue.at(), fence.sequence), work.batch);
        fence
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        let is_told = self.statuses == Statuses::AtReturn || self.is_done(fence);
        if is_told { self.batches.get(&(fence.queue.at(), fence.sequence)).map(|batch| &**batch) } else { None }
    }

    fn passed(&mut self, fence: Fence) -> bool {
        self.linger();
        self.answer(Question::HasItPassed, fence)
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        self.linger();
        let may = self.answer(Question::MayItBeTaken, fence);
        if may { self.batches.remove(&(fence.queue.at(), fence.sequence)) } else { None }
    }

    fn block(&mut self, fence: Fence, until: Nanos) -> bool {
        while !self.answer(Question::HasItPassed, fence) {
            assert!(self.step(), "{fence:?} never passes");
            self.consumers.linger();
            if until == 0 {
                return self.answer(Question::HasItPassed, fence);
            }
        }
        true
    }

    fn passage(&mut self, fence: Fence) -> Option<Arc<dyn Passage>> {
        let at = fence.sequence.checked_sub(self.timeline.done(fence.queue) + 1)?;
        let number = self.jobs[fence.queue.at()].get(at as usize)?.number;
        Some(self.timeline.record(Mark { fence, number }))
    }

    fn halt(&mut self, _: Nanos) -> bool {
        if self.lie.is_none() && self.jobs.iter().any(|jobs| !jobs.is_empty()) {
            self.world.lock().unwrap().violated(Violation::LeftAtHalt);
        }
        while self.step() {}
        true
    }

    fn fault(&self) -> Option<Fault> {
        None
    }

    fn wakes(&self) -> bool {
        true
    }
}

fn lane_of(queue: Queue) -> Lane {
    match queue.at() {
        0 => Lane::Hot,
        1 => Lane::Deferred,
        _ => Lane::Encode,
    }
}

fn deed_of(lane: Lane, calls: Calls) -> Deed {
    match (calls, lane) {
        (Calls::Hook(Call::Seed), _) => Deed::Seed,
        (Calls::Hook(Call::Detach), _) => Deed::Detach,
        (Calls::Hook(call), _) => unreachable!("{call:?} runs on no lane"),
        (Calls::Stages, Lane::Hot) => Deed::Hot,
        (Calls::Stages, Lane::Deferred) => Deed::Deferred,
        (Calls::Stages, Lane::Encode) => Deed::Encode,
    }
}
