//! The test's model: its calls write into the batch what a host says at once, and record what their work will do.

use std::sync::{Arc, Mutex, MutexGuard};

use rte::batch::Batch;
use rte::conditioning::{Element, KeySpec, Keys, Merge, Shown};
use rte::model::{Call, Hooks, Manifest, Model, RawStream, StageSpec};
use rte::word::{Lane, Row, Status};

use super::arrays::{age, digest, set_output_size};
use super::options::Options;
use super::world::{Deed, Record, Touch, Value, World};
use crate::random::Random;

/// Bytes of a chunk.
const CHUNK: usize = 16;

/// A cheap key of fixed size, one of variable size, and, with an ENCODE stage, a heavy one.
pub const STEER: usize = 0;
pub const NOTE: usize = 1;
pub const PROMPT: usize = 2;
/// Bytes of a `STEER` value.
pub const STEER_BYTES: usize = 8;

/// Shared by model, lanes and host, which all run on one thread.
pub type SharedWorld = Arc<Mutex<World>>;

/// Which calls fail: one in `whole`, and one row in `row`.
struct Luck {
    random: Random,
    whole: u64,
    row: u64,
}

/// See the module's comment.
pub struct SimModel {
    manifest: Manifest,
    world: SharedWorld,
    luck: Mutex<Luck>,
}

impl SimModel {
    /// Of this shape.
    pub fn new(options: &Options, world: SharedWorld) -> SimModel {
        let stage = |name: &str, lane| StageSpec { name: name.into(), lane };
        let mut stages = vec![stage("step", Lane::Hot)];
        let mut keys = vec![key("steer", STEER_BYTES, false), key("note", 0, false)];
        if options.has_deferred {
            stages.push(stage("decode", Lane::Deferred));
        }
        if options.has_encode {
            stages.push(stage("encode", Lane::Encode));
            keys.push(key("prompt", 0, true));
        }
        let manifest = Manifest {
            name: "simulated".into(),
            max_sessions: options.rows,
            chunk_bytes: CHUNK,
            rate: None,
            frames_per_chunk: 1,
            input_latency_chunks: 0,
            is_dense: options.is_dense,
            no_midrun: false,
            is_retry_safe: options.is_retry_safe,
            seeds_aside: options.seeds_aside,
            owns_outputs: options.owns_outputs,
            on_device: options.on_device,
            outputs_block: false,
            keys: Keys::new(keys),
            stages: stages.into(),
            hooks: Hooks { ready: true, seed: options.has_seed, detach: options.has_detach, finalize: true },
        };
        let random = Random::stream(options.seed, 2);
        let luck = Luck { random, whole: options.whole_failures, row: options.row_failures };
        SimModel { manifest, world, luck: Mutex::new(luck) }
    }

    /// The values that a call on `batch` is shown by address.
    fn values(&self, batch: &Batch) -> Vec<Value> {
        let mut values = Vec::new();
        for (at, _) in batch.positions() {
            for key in 0..self.manifest.keys.len() {
                if let Shown::Block(block) = batch.shown(at, key) {
                    let (address, size, is_lent) = (block.address(), block.bytes().len(), block.is_lent());
                    values.push(Value { address, size, is_lent, digest: digest(block.bytes()) });
                }
            }
        }
        values
    }

    fn deed(&self, stage: u32) -> Deed {
        match self.manifest.stages[stage as usize].lane {
            Lane::Hot => Deed::Hot,
            Lane::Deferred => Deed::Deferred,
            Lane::Encode => Deed::Encode,
        }
    }

    /// A call on a lane: its work comes later.
    fn work(&self, deed: Deed, batch: &mut Batch) -> Result<(), Status> {
        let Luck { random, whole, row: one_row } = &mut *self.luck.lock().unwrap();
        let is_calm = self.world().is_calm();
        let fails = !is_calm && (random.once_in(*whole) || self.is_poisoned(deed, batch));
        let writes_chunk = deed == Deed::Deferred || (deed == Deed::Hot && !self.manifest.has(Lane::Deferred));
        let mut touches = Vec::new();
        let rows: Vec<(usize, Row)> = batch.positions().collect();
        for (at, row) in rows {
            let row_fails = !is_calm && deed != Deed::Detach && random.once_in(*one_row);
            if row_fails {
                batch.set_status(at, Some(Status::HOST));
            }
            let succeeds = !fails && !row_fails;
            let mut writes = writes_chunk && !random.once_in(10);
            if writes {
                set_output_size(batch, at, CHUNK);
            }
            if writes_chunk && self.manifest.owns_outputs {
                writes &= succeeds;
                self.point(batch, at, writes);
            }
            touches.push(Touch {
                deed,
                row: row.at(),
                session: batch.seat(at).session.0,
                generation: batch.seat(at).generation.0,
                age: age(batch, at),
                at,
                heavy: self.heavy(batch, at),
                succeeds,
                spoils: !succeeds && !self.manifest.is_retry_safe,
                writes: writes && (succeeds || !self.manifest.is_retry_safe),
            });
        }
        self.world().record = Record { slot: batch.slot, touches, values: self.values(batch) };
        if fails { Err(Status::HOST) } else { Ok(()) }
    }

    /// Hands over a pointer of its own, which becomes a chunk's, or does not: of a failed row, or with size 0.
    fn point(&self, batch: &mut Batch, at: usize, becomes: bool) {
        let mut world = self.world();
        let pointer = world.pointer();
        batch.set_output(at, pointer);
        if !becomes {
            world.keep_pointer(pointer);
        }
    }

    /// The heavy values shown at `at`, as one number; 0: none.
    fn heavy(&self, batch: &Batch, at: usize) -> u64 {
        match self.manifest.keys.heavy().iter().next().map(|key| batch.shown(at, key)) {
            Some(Shown::Block(block)) => digest(block.bytes()),
            _ => 0,
        }
    }

    fn is_poisoned(&self, deed: Deed, batch: &Batch) -> bool {
        let poison = self.world().poison;
        poison.is_some_and(|(kind, session)| {
            kind == deed && batch.positions().any(|(at, _)| batch.seat(at).session.0 == session)
        })
    }

    fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }

    /// A call on the engine's thread: it reads what it is shown at once. It fails now and then.
    fn look(&self, batch: &Batch, refusal: Status) -> Result<(), Status> {
        for value in self.values(batch) {
            self.world().look_at_value(&value);
        }
        let random = &mut self.luck.lock().unwrap().random;
        match random.below(24) {
            _ if self.world().is_calm() => Ok(()),
            0 => Err(Status::HOST),
            1..3 => Err(refusal),
            _ => Ok(()),
        }
    }
}

fn key(name: &str, size: usize, heavy: bool) -> KeySpec {
    KeySpec { name: name.into(), size, element: Element::Bytes, merge: Merge::Latest, heavy }
}

impl Model for SimModel {
    fn manifest(&self) -> &Manifest {
        &self.manifest
    }

    fn init(&self, _: [RawStream; Lane::COUNT]) -> Result<(), Status> {
        Ok(())
    }

    fn release_output(&self, address: usize) {
        self.world().pointer_back(address);
    }

    fn call(&self, call: Call, batch: &mut Batch, _: RawStream) -> Result<(), Status> {
        match call {
            Call::Ready => self.look(batch, Status::AGAIN),
            Call::Finalize => self.look(batch, Status::HOST),
            Call::Seed => self.work(Deed::Seed, batch),
            Call::Detach => self.work(Deed::Detach, batch),
            Call::Stage(stage) => self.work(self.deed(stage), batch),
        }
    }
}
