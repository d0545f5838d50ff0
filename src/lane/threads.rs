//! A thread for each queue of work. Batches move to it and back; status is seen when the work is done.
//!
//! Each queue has a ring of jobs that the engine's thread fills and its worker empties, a ring of finished batches the
//! other way, and `done`: how many of its jobs are. A worker that is told to wait for another queue sleeps until that
//! queue's `done` has got there; FIFO queues and fences that always name earlier work make that free of cycles. `done` is
//! stored after the batch was put into the ring, so whoever sees it finds the batch there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, AtomicUsize, Ordering};
use std::thread::JoinHandle;

use super::{Calls, Fence, Lanes, Outstanding, Place, Target, Work};
use crate::batch::Batch;
use crate::model::RawStream;
use crate::queue::{Ring, Take};
use crate::time::{Duty, Threads, Wake, real_now};
use crate::word::{Fault, Lane, Nanos, Queue, Status, hook};

/// How a worker tells a parked engine that a fence has passed.
#[derive(Clone, Default)]
pub struct Bell {
    /// Set before `parked` is notified.
    pub kicked: Arc<AtomicBool>,
    /// Where a parked engine sleeps.
    pub parked: Arc<Wake>,
}

struct Job {
    lane: Lane,
    calls: Calls,
    batch: Box<Batch>,
    after: [Option<Fence>; 2],
}

/// One queue, as its worker and the engine share it.
struct Post {
    jobs: Ring<Job>,
    /// The worker sleeps here when it has none.
    work: Wake,
    finished: Ring<Box<Batch>>,
    done: AtomicU64,
    /// Whoever waits for `done` sleeps here.
    passed: Wake,
}

/// Threads that have not said yet whether they are as they are to be. (Not a channel of the standard library: the thread
/// sanitizer does not see its lock.)
struct Muster {
    missing: AtomicUsize,
    /// 0, or why one of them is not.
    refused: AtomicI32,
    over: Wake,
}

impl Muster {
    fn of(threads: usize) -> Muster {
        Muster { missing: AtomicUsize::new(threads), refused: AtomicI32::new(0), over: Wake::default() }
    }

    fn say(&self, prepared: Result<(), Status>) {
        if let Err(Status(code)) = prepared {
            let _ = self.refused.compare_exchange(0, code, Ordering::SeqCst, Ordering::Relaxed);
        }
        self.missing.fetch_sub(1, Ordering::SeqCst);
        self.over.notify();
    }

    /// Returns when all have said it.
    fn result(&self) -> Result<(), Status> {
        self.over.sleep(None, || self.missing.load(Ordering::SeqCst) == 0);
        Status::of_callback(self.refused.load(Ordering::SeqCst))
    }
}

struct Crew {
    posts: Box<[Post]>,
    muster: Muster,
    target: Target,
    bell: Bell,
    closing: AtomicBool,
    /// Threads that have not come to their end.
    working: AtomicUsize,
    /// Whoever waits for that sleeps here.
    left: Wake,
}

/// See the module's comment.
pub struct ThreadLanes {
    crew: Arc<Crew>,
    threads: Vec<JoinHandle<()>>,
    plan: Arc<Threads>,
    outstanding: Outstanding,
    /// Before it sleeps for a fence, the engine's thread spins so long.
    spin: Nanos,
    /// The fence that was waited for last, and when that ends: a wait may come in pieces.
    spinning: Option<(Fence, Nanos)>,
}

impl ThreadLanes {
    /// Lanes that run `target`, with `encodes` queues of ENCODE; `rows`: of the arena. Threads are made by `open`, as
    /// `plan` says.
    pub fn new(target: Target, bell: Bell, encodes: usize, rows: u32, spin: Nanos, plan: Arc<Threads>) -> ThreadLanes {
        // A tick submits at most a seed, a HOT (isolated: one a row), a DEFERRED and a detach of each row; ENCODE has at
        // most one batch a row.
        let room = 4 * rows as usize + 64;
        let post = |_| Post {
            jobs: Ring::new(room),
            work: Wake::default(),
            finished: Ring::new(room),
            done: AtomicU64::new(0),
            passed: Wake::default(),
        };
        let posts: Box<[_]> = (0..2 + encodes).map(post).collect();
        let muster = Muster::of(posts.len());
        let (closing, working) = (AtomicBool::new(false), AtomicUsize::new(0));
        let crew = Arc::new(Crew { posts, muster, target, bell, closing, working, left: Wake::default() });
        ThreadLanes { crew, threads: Vec::new(), plan, outstanding: Outstanding::default(), spin, spinning: None }
    }

    fn done(&self, fence: Fence) -> bool {
        // Acquire: whoever sees it finds the batch in the ring.
        self.crew.posts[fence.queue.at()].done.load(Ordering::Acquire) >= fence.sequence
    }

    /// The queue that a lane's next work goes to: of ENCODE the first idle one, else the one with the least to do.
    fn queue_for(&self, lane: Lane) -> Queue {
        if lane != Lane::Encode {
            return Queue::of(lane);
        }
        let load = |queue: &Queue| {
            let submitted = self.outstanding.submitted[queue.at()];
            submitted - self.crew.posts[queue.at()].done.load(Ordering::Acquire)
        };
        (0..self.crew.posts.len() - 2).map(Queue::encode).min_by_key(load).unwrap_or(Queue::ENCODE)
    }

    /// Takes finished batches of a queue out of its ring.
    fn gather(&mut self, fence: Fence) {
        let post = &self.crew.posts[fence.queue.at()];
        while let Take::Item(batch) = post.finished.pop() {
            // In the order they were submitted.
            let works = &mut self.outstanding.works[fence.queue.at()];
            let Some(place) = works.iter_mut().find(|place| matches!(place, Place::Away)) else { break };
            *place = Place::Here(batch);
        }
    }
}

impl Lanes for ThreadLanes {
    fn open(&mut self) -> Result<[RawStream; Lane::COUNT], Fault> {
        let encodes = (0..self.crew.posts.len() - 2).map(|number| (Queue::encode(number), format!("encode {number}")));
        let others = [(Lane::Hot, "hot"), (Lane::Deferred, "deferred")];
        let others = others.map(|(lane, name)| (Queue::of(lane), name.to_string()));
        let fault = |status| Fault { stage: hook::INIT, status };
        for (queue, suffix) in others.into_iter().chain(encodes) {
            let (crew, plan) = (self.crew.clone(), self.plan.clone());
            let duty = if queue.at() < Queue::ENCODE.at() { Duty::Tick } else { Duty::Background };
            let thread = std::thread::Builder::new().name(format!("{} {suffix}", plan.name()));
            let shift = Shift::begin(&self.crew);
            let spawned = thread.spawn(move || {
                let _shift = shift;
                let prepared = plan.prepare(duty);
                crew.muster.say(prepared);
                if prepared.is_ok() {
                    crew.work(queue);
                }
            });
            let lack = |error| fault(self.plan.lack(&format!("the lane {suffix}"), &error));
            self.threads.push(spawned.map_err(lack)?);
        }
        self.crew.muster.result().map_err(fault)?;
        Ok([RawStream::default(); Lane::COUNT])
    }

    fn submit(&mut self, work: Work) -> Fence {
        let Work { lane, calls, batch, after } = work;
        let queue = self.queue_for(lane);
        let post = &self.crew.posts[queue.at()];
        let mut job = Job { lane, calls, batch, after };
        // There is room, but for a worker that stands still in the middle of a pop.
        while let Err(back) = post.jobs.push(job) {
            job = back;
            std::thread::yield_now();
        }
        post.work.notify();
        self.outstanding.add(queue, Place::Away)
    }

    fn observe(&mut self, fence: Fence) -> Option<&Batch> {
        if !self.done(fence) {
            return None;
        }
        self.gather(fence);
        self.outstanding.get(fence).map(|batch| &*batch)
    }

    fn passed(&mut self, fence: Fence) -> bool {
        self.done(fence)
    }

    fn take(&mut self, fence: Fence) -> Option<Box<Batch>> {
        if !self.done(fence) {
            return None;
        }
        self.gather(fence);
        self.outstanding.take(fence)
    }

    fn block(&mut self, fence: Fence, until: Nanos) -> bool {
        if self.spin > 0 {
            let end = match self.spinning {
                Some((last, end)) if last == fence => end,
                _ => real_now().saturating_add(self.spin),
            };
            self.spinning = Some((fence, end));
            while !self.done(fence) && real_now() < end.min(until) {
                std::hint::spin_loop();
            }
        }
        let post = &self.crew.posts[fence.queue.at()];
        post.passed.sleep(Some(until), || self.done(fence))
    }

    fn halt(&mut self, until: Nanos) -> bool {
        self.crew.closing.store(true, Ordering::SeqCst);
        for post in &self.crew.posts {
            post.work.notify();
            post.passed.notify();
        }
        let is_over = self.crew.left.sleep(Some(until), || self.crew.working.load(Ordering::SeqCst) == 0);
        if is_over {
            // They have done their last; what is left of them is their return.
            self.threads.drain(..).for_each(|thread| drop(thread.join()));
        }
        is_over
    }

    fn fault(&self) -> Option<Fault> {
        None
    }

    fn wakes(&self) -> bool {
        true
    }
}

impl Drop for ThreadLanes {
    fn drop(&mut self) {
        self.halt(Nanos::MAX);
    }
}

/// One of the threads that work, until it is dropped.
struct Shift(Arc<Crew>);

impl Shift {
    fn begin(crew: &Arc<Crew>) -> Shift {
        crew.working.fetch_add(1, Ordering::SeqCst);
        Shift(crew.clone())
    }
}

impl Drop for Shift {
    fn drop(&mut self) {
        self.0.working.fetch_sub(1, Ordering::SeqCst);
        self.0.left.notify();
    }
}

impl Crew {
    /// A worker's life.
    fn work(&self, queue: Queue) {
        let post = &self.posts[queue.at()];
        loop {
            post.work.sleep(None, || post.jobs.has_next() || self.closing.load(Ordering::SeqCst));
            match post.jobs.pop() {
                Take::Item(job) => self.run(queue, job),
                // All that was submitted was waited for before the lanes go; after a death it is not run.
                Take::Empty if self.closing.load(Ordering::SeqCst) => return,
                _ => std::hint::spin_loop(),
            }
        }
    }

    fn run(&self, queue: Queue, mut job: Job) {
        let post = &self.posts[queue.at()];
        for fence in job.after.into_iter().flatten() {
            let other = &self.posts[fence.queue.at()];
            let is_done =
                || other.done.load(Ordering::Acquire) >= fence.sequence || self.closing.load(Ordering::SeqCst);
            other.passed.sleep(None, is_done);
        }
        if !self.closing.load(Ordering::SeqCst) {
            let Job { lane, calls, batch, .. } = &mut job;
            let body = AssertUnwindSafe(|| self.target.run(queue, *lane, *calls, batch, RawStream::default()));
            if catch_unwind(body).is_err() {
                // A panic of ours: the engine ends with it, as on its own thread.
                job.batch.result = Err(Fault { stage: hook::NONE, status: Status::DEAD });
            }
        }
        let mut batch = job.batch;
        while let Err(back) = post.finished.push(batch) {
            batch = back;
            std::thread::yield_now();
        }
        // SeqCst: before the look at who sleeps, in `notify`. The batch is in the ring already.
        post.done.fetch_add(1, Ordering::SeqCst);
        post.passed.notify();
        self.bell.kicked.store(true, Ordering::SeqCst);
        self.bell.parked.notify();
    }
}
