//! Lanes that are queues of a device: stages are called on the engine's thread and enqueue on a stream; an event behind
//! them is their fence. The host's own backend is such a device.
//!
//! An event is recorded again only when it has passed and nobody refers to it: rows and batches name fences by number,
//! chunks hold its [`Mark`], and so does work whose stream was told to wait for it, until that work has passed.

use std::collections::VecDeque;
use std::sync::Arc;

use super::{Events, Fence, Lanes, Mark, Outstanding, Place, Target, Work, backend_fault};
use crate::batch::Batch;
use crate::model::{RawEvent, RawStream};
use crate::queue::Passage;
use crate::time::real_now;
use crate::word::{Fault, Lane, Nanos, Queue, Status};

/// A device's streams.
pub trait Streams: Send {
    /// A stream for `lane`: one, of ENCODE as many as the lanes have queues of it.
    fn stream(&mut self, lane: Lane) -> Result<RawStream, Status>;
    /// What is enqueued on `stream` from now on waits for `event`.
    fn wait(&mut self, stream: RawStream, event: RawEvent) -> Result<(), Status>;
    /// Its events.
    fn events(&self) -> Arc<dyn Events>;
    /// Something has failed: waits for what may still run on the streams, if there is a way.
    fn settle(&mut self);
    /// Frees all streams that it made.
    fn close(&mut self);
    /// Whether it tells when an event has passed.
    fn wakes(&self) -> bool;
    /// Whether it waits best without end: see [`Lanes::waits_whole`].
    fn waits_whole(&self) -> bool {
        false
    }
}

/// See the module's comment.
pub struct StreamLanes {
    target: Target,
    device: Box<dyn Streams>,
    /// Queues of ENCODE.
    encodes: usize,
    streams: [RawStream; Queue::COUNT],
    outstanding: Outstanding,
    /// By queue: fences not seen to have passed, oldest first.
    pending: [VecDeque<Pending>; Queue::COUNT],
    /// By queue: fences up to this one have passed.
    done: [u64; Queue::COUNT],
    /// Of fences that have passed. Chunks may still hold some: those are not put anywhere else.
    spare: Vec<Arc<Mark>>,
    fault: Option<Fault>,
    /// Of work that could not be submitted: what ended the lanes is not what its calls came to.
    #[allow(clippy::vec_box, reason = "batches move as boxes between the engine and the lanes")]
    lost: Vec<Box<Batch>>,
}

/// Work on a stream.
struct Pending {
    sequence: u64,
    /// Behind it.
    mark: Arc<Mark>,
    /// What its stream was told to wait for before it.
    _awaited: [Option<Arc<Mark>>; 2],
}

impl StreamLanes {
    /// Lanes on `device`, with `encodes` queues of ENCODE.
    pub fn new(target: Target, device: Box<dyn Streams>, encodes: usize) -> StreamLanes {
        StreamLanes {
            target,
            device,
            encodes,
            streams: Default::default(),
            outstanding: Outstanding::default(),
            pending: Default::default(),
            done: Default::default(),
            spare: Vec::new(),
            fault: None,
            lost: Vec::new(),
        }
    }

    /// The device, unless the host has freed the engine while something hung: then it may be gone.
    fn reach(&mut self) -> Result<&mut dyn Streams, Status> {
        if self.target.watch.is_abandoned() { Err(Status::DEAD) } else { Ok(&mut *self.device) }
    }

    /// Runs work behind what it waits for. What fails behind it is the lanes' fault, not its own.
    fn try_submit(&mut self, work: &mut Work, queue: Queue, sequence: u64) -> Result<(), Status> {
        let stream = self.streams[queue.at()];
        let others = work.after.map(|after| after.filter(|fence| fence.queue != queue));
        let awaited = others.map(|fence| fence.and_then(|fence| self.mark_of(fence)));
        for mark in awaited.iter().flatten() {
            self.reach()?.wait(stream, mark.event())?;
        }
        let device = self.reach()?;
        work.batch.wait_for(|event| device.wait(stream, event))?;
        let mark = self.spare_mark()?;
        self.target.run(queue, work.lane, work.calls, &mut work.batch, stream);
        match self.reach().map(|_| ()).and_then(|()| mark.put(stream)) {
            Ok(()) => self.pending[queue.at()].push_back(Pending { sequence, mark, _awaited: awaited }),
            Err(status) => self.fail(status),
        }
        Ok(())
    }

    /// The queue that a lane's next work goes to: of ENCODE the first idle one, else the one with the least to do.
    fn queue_for(&mut self, lane: Lane) -> Queue {
        if lane != Lane::Encode || self.encodes == 1 {
            return Queue::of(lane);
        }
        let (mut best, mut least) = (Queue::ENCODE, u64::MAX);
        for queue in (0..self.encodes).map(Queue::encode) {
            let sequence = self.outstanding.submitted[queue.at()];
            self.passed(Fence { queue, sequence });
            let load = sequence - self.done[queue.at()];
            if load < least {
                (best, least) = (queue, load);
            }
        }
        best
    }

    /// A mark that nobody holds.
    fn spare_mark(&mut self) -> Result<Arc<Mark>, Status> {
        let is_free = |mark: &mut Arc<Mark>| Arc::get_mut(mark).is_some();
        // From the newest: those that chunks hold stay behind.
        match self.spare.iter_mut().rposition(is_free) {
            Some(at) => Ok(self.spare.swap_remove(at)),
            None => Mark::new(self.reach()?.events()),
        }
    }

    /// The mark of a fence that has not been seen to pass.
    fn mark_of(&mut self, fence: Fence) -> Option<Arc<Mark>> {
        if self.passed(fence) {
            return None;
        }
        let pending = &self.pending[fence.queue.at()];
        pending.iter().find(|work| work.sequence == fence.sequence).map(|work| work.mark.clone())
    }

    /// Looks which of a lane's oldest events have passed.
    fn advance(&mut self, queue: Queue) -> Result<(), Status> {
        self.reach()?;
        while let Some(Pending { sequence, mark, .. }) = self.pending[queue.at()].front() {
            let sequence = *sequence;
            if !mark.look()? {
                break;
            }
            self.settle(queue, sequence);
        }
        Ok(())
    }

    /// All events of a lane up to `sequence` have passed.
    fn settle(&mut self, queue: Queue, sequence: u64) {
        let now = real_now();
        while let Some(work) = self.pending[queue.at()].pop_front_if(|first| first.sequence <= sequence) {
            work.mark.note_passed();
            self.spare.push(work.mark);
        }
        for done in self.done[queue.at()] + 1..=sequence {
            if let Some(batch) = self.outstanding.get(Fence { queue, sequence: done }) {
                batch.ended = now;
            }
        }
        self.done[queue.at()] = sequence;
    }

    fn fail(&mut self, status: Status) {
        self.fault.get_or_insert(backend_fault(status));
    }
}

impl Lanes for StreamLanes {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        let encodes = (0..self.encodes).map(|number| (Queue::encode(number), Lane::Encode));
        let others = [Lane::Hot, Lane::Deferred].map(|lane| (Queue::of(lane), lane));
        for (queue, lane) in others.into_iter().chain(encodes) {
            self.streams[queue.at()] = self.device.stream(lane).map_err(backend_fault)?;
        }
        Ok([Lane::Hot, Lane::Deferred, Lane::Encode].map(|lane| self.streams[Queue::of(lane).at()]))
    }

    fn submit(&mut self, mut work: Work) -> Fence {
        let queue = self.queue_for(work.lane);
        let sequence = self.outstanding.next(queue).sequence;
        let submitted =
            if self.fault.is_none() { self.try_submit(&mut work, queue, sequence) } else { Err(Status::DEAD) };
        let place = match submitted {
            Ok(()) => Place::Here(work.batch),
            Err(status) => {
                self.fail(status);
                self.lost.push(work.batch);
                Place::Away
            }
        };
        self.outstanding.add(queue, place)
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        self.outstanding.get(fence).map(|batch| &*batch)
    }

    fn passed(&mut self, fence: Fence) -> bool {
        if self.done[fence.queue.at()] < fence.sequence
            && self.fault.is_none()
            && let Err(status) = self.advance(fence.queue)
        {
            self.fail(status);
        }
        self.done[fence.queue.at()] >= fence.sequence
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        if self.passed(fence) { self.outstanding.take(fence) } else { None }
    }

    fn block(&mut self, fence: Fence, until: Nanos) -> bool {
        let Some(mark) = self.mark_of(fence) else { return self.fault.is_none() };
        let left = until.saturating_sub(real_now());
        match self.reach().map(|_| ()).and_then(|()| mark.sync(left)) {
            Ok(true) => self.settle(fence.queue, fence.sequence),
            Ok(false) => {}
            Err(status) => self.fail(status),
        }
        self.done[fence.queue.at()] >= fence.sequence
    }

    fn passage(&mut self, fence: Fence) -> Option<Arc<dyn Passage>> {
        let pending = &self.pending[fence.queue.at()];
        let work = pending.iter().rev().find(|work| work.sequence == fence.sequence);
        work.map(|work| work.mark.clone() as Arc<dyn Passage>)
    }

    fn halt(&mut self, _: Nanos) -> bool {
        true
    }

    fn fault(&self) -> Option<Fault> {
        self.fault
    }

    fn wakes(&self) -> bool {
        self.device.wakes()
    }

    fn waits_whole(&self) -> bool {
        self.device.waits_whole()
    }
}

impl Drop for StreamLanes {
    fn drop(&mut self) {
        // After a death work may still run: it reads batches, which go with us.
        if self.fault.is_none() || self.reach().is_ok() {
            // A failure, if there is one, may have been of one call alone.
            self.pending.iter().flatten().for_each(|work| work.mark.wait());
        }
        if self.fault.is_some() {
            // There may be work behind which no event could be put.
            self.reach().into_iter().for_each(|device| device.settle());
        }
        self.spare.clear();
        self.pending.iter_mut().for_each(VecDeque::clear);
        self.device.close();
    }
}
