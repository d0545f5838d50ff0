//! Chunks in consumers' hands: kept for a while, read there and then, later on a stream, or never, and given back.

use std::sync::Arc;

use rte::model::RawStream;
use rte::output::Chunk;

use super::consumers::Consumers;
use super::model::SharedWorld;
use super::options::Options;
use super::tally::Count;
use super::timeline::Timeline;
use super::world::chunk_of;
use crate::random::Random;

/// A chunk that was popped.
struct Kept {
    chunk: Chunk,
    /// On which it is to be read.
    stream: Option<RawStream>,
}

/// See the module's comment.
pub struct Hands {
    world: SharedWorld,
    timeline: Arc<Timeline>,
    consumers: Arc<Consumers>,
    has_streams: bool,
    random: Random,
    /// Oldest first.
    kept: Vec<Kept>,
}

impl Hands {
    /// Nothing in them.
    pub fn new(options: &Options, world: SharedWorld, timeline: Arc<Timeline>, consumers: Arc<Consumers>) -> Hands {
        let random = Random::stream(options.seed, 6);
        Hands { world, timeline, consumers, has_streams: options.has_streams, random, kept: Vec::new() }
    }

    /// Consumers' work goes on.
    pub fn linger(&self) {
        self.consumers.linger();
    }

    /// Takes one more.
    pub fn keep(&mut self, chunk: Chunk) {
        let behind = chunk.data.completion().map(|event| (event.0, self.timeline.mark(event).number));
        self.world.lock().unwrap().popped(&chunk.stamp, chunk.data.address(), behind);
        let mut kept = Kept { chunk, stream: None };
        if self.has_streams && self.random.once_in(2) {
            self.read(&mut kept);
        }
        self.kept.push(kept);
    }

    /// Some time later, on a stream.
    fn read(&self, kept: &mut Kept) {
        let data = &kept.chunk.data;
        let after = data.completion().map(|event| self.timeline.mark(event).fence);
        kept.stream = Some(self.consumers.read(data.address(), chunk_of(&kept.chunk.stamp), after));
    }

    /// Gives all back but the `count` newest.
    pub fn give_back_all_but(&mut self, count: usize) {
        while self.kept.len() > count {
            self.give_back();
        }
    }

    /// The oldest. If it was not read it is now: here if it is complete, else on a stream, or not at all.
    fn give_back(&mut self) {
        let mut kept = self.kept.remove(0);
        let (address, event) = (kept.chunk.data.address(), kept.chunk.data.completion());
        let is_complete = event.is_none_or(|event| self.timeline.is_done(self.timeline.mark(event).fence));
        if kept.stream.is_none() && is_complete {
            self.world.lock().unwrap().look_at_output(address, chunk_of(&kept.chunk.stamp));
        } else if kept.stream.is_none() && self.random.once_in(2) {
            self.read(&mut kept);
        }
        self.world.lock().unwrap().given_back(address, event.map(|event| event.0));
        if let Some(stream) = kept.stream {
            self.world.lock().unwrap().count(Count::Released, 1);
            kept.chunk.data.used_on(stream);
        }
    }
}

impl Drop for Hands {
    fn drop(&mut self) {
        self.timeline.close();
    }
}
