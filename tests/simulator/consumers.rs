//! Consumers that use chunks on streams of their own: reads that run later, each behind its chunk's event and behind what
//! was enqueued before it, and marks that say when those of a chunk are over.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use rte::lane::Fence;
use rte::model::{RawEvent, RawStream};
use rte::queue::{Passage, ReleaseFence};

use super::dependency::Lie;
use super::lanes::HASTE;
use super::model::SharedWorld;
use super::options::Options;
use super::timeline::Timeline;
use super::world::{Content, Violation};
use crate::random::Random;

/// How many streams consumers have.
const STREAMS: usize = 2;

/// Of one chunk.
struct Read {
    address: usize,
    content: Content,
    /// Of its event, if it has one.
    after: Option<Fence>,
    has_begun: bool,
}

#[derive(Default)]
struct Stream {
    reads: VecDeque<Read>,
    enqueued: u64,
    done: u64,
}

struct State {
    streams: [Stream; STREAMS],
    random: Random,
    /// Steps between two looks of anybody, at most.
    steps: u64,
}

/// See the module's comment.
pub struct Consumers {
    world: SharedWorld,
    timeline: Arc<Timeline>,
    lie: Option<Lie>,
    state: Mutex<State>,
}

impl Consumers {
    /// With nothing to do.
    pub fn new(options: &Options, world: SharedWorld, timeline: Arc<Timeline>, lie: Option<Lie>) -> Arc<Consumers> {
        let state = State {
            streams: Default::default(),
            random: Random::stream(options.seed, 5),
            steps: options.consumer_steps,
        };
        Arc::new(Consumers { world, timeline, lie, state: Mutex::new(state) })
    }

    /// Enqueues a read of a chunk behind its event. Gives the stream.
    pub fn read(&self, address: usize, content: Content, after: Option<Fence>) -> RawStream {
        let state = &mut *self.state.lock().unwrap();
        let at = state.random.below(STREAMS as u64) as usize;
        let after = after.filter(|_| self.lie != Some(Lie::Ready));
        state.streams[at].reads.push_back(Read { address, content, after, has_begun: false });
        state.streams[at].enqueued += 1;
        self.world.lock().unwrap().enqueued(address, content);
        RawStream(at + 1)
    }

    /// Time passes.
    pub fn linger(&self) {
        let is_calm = self.world.lock().unwrap().is_calm();
        let state = &mut *self.state.lock().unwrap();
        let most = if is_calm { HASTE } else { state.steps };
        for _ in 0..state.random.below(most + 1) {
            let at = state.random.below(STREAMS as u64) as usize;
            self.step(&mut state.streams[at]);
        }
    }

    /// The oldest read of a stream begins or ends. False: it cannot.
    fn step(&self, stream: &mut Stream) -> bool {
        let Some(read) = stream.reads.front_mut() else { return false };
        if !read.has_begun && read.after.is_some_and(|fence| !self.timeline.is_done(fence)) {
            return false;
        }
        let mut world = self.world.lock().unwrap();
        world.look_at_output(read.address, read.content);
        if read.has_begun {
            world.has_read(read.address, read.content);
            stream.reads.pop_front();
            stream.done += 1;
        } else {
            read.has_begun = true;
        }
        true
    }
}

/// A point on a consumer's stream.
struct Passed {
    consumers: Arc<Consumers>,
    stream: usize,
    position: u64,
}

/// Marks the streams.
pub struct Releases(pub Arc<Consumers>);

impl ReleaseFence for Releases {
    fn mark(&self, stream: RawStream) -> Option<Arc<dyn Passage>> {
        let (consumers, stream) = (self.0.clone(), stream.0 - 1);
        let position = consumers.state.lock().unwrap().streams[stream].enqueued;
        Some(Arc::new(Passed { consumers, stream, position }))
    }
}

impl Passed {
    fn is_over(&self) -> bool {
        self.consumers.state.lock().unwrap().streams[self.stream].done >= self.position
    }
}

impl Passage for Passed {
    fn passed(&self) -> bool {
        self.consumers.linger();
        self.consumers.lie == Some(Lie::Released) || self.is_over()
    }

    /// For the end of an engine alone, and of the outputs that outlive it.
    fn wait(&self) {
        while !self.is_over() {
            let mut state = self.consumers.state.lock().unwrap();
            let goes_on = self.consumers.step(&mut state.streams[self.stream]);
            let mut world = self.consumers.world.lock().unwrap();
            if !goes_on || !world.is_over {
                return world.violated(Violation::Waited);
            }
        }
    }

    fn event(&self) -> RawEvent {
        unreachable!("nobody waits on a stream for what a consumer has used")
    }
}
