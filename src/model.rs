//! What the engine asks of a model, whoever wrote it: `abi` makes one of a C table, tests write theirs.

use crate::batch::Batch;
use crate::conditioning::Keys;
use crate::time::Rate;
use crate::word::{Lane, Status, hook};
pub use crate::word::{RawEvent, RawStream};

/// One stage.
#[derive(Clone, Debug)]
pub struct StageSpec {
    /// For messages.
    pub name: Box<str>,
    /// Where it runs.
    pub lane: Lane,
}

/// What a model says of itself. Checked where it came in.
pub struct Manifest {
    /// For logs.
    pub name: Box<str>,
    /// Rows of the arena.
    pub max_sessions: u32,
    /// Bytes of a chunk at most.
    pub chunk_bytes: usize,
    /// Ticks a second; `None`: as fast as work comes.
    pub rate: Option<Rate>,
    /// What a chunk's `frames` begins as.
    pub frames_per_chunk: u32,
    /// Chunks from action to generation.
    pub input_latency_chunks: u32,
    /// Batches are the whole arena.
    pub is_dense: bool,
    /// No session attaches while another is seeded.
    pub no_midrun: bool,
    /// A failed batch left no trace.
    pub is_retry_safe: bool,
    /// `seed` runs on the ENCODE lane, and nobody waits for it.
    pub seeds_aside: bool,
    /// Outputs are pointers of its own.
    pub owns_outputs: bool,
    /// Outputs are complete behind an event: nobody waits for them here.
    pub on_device: bool,
    /// Those of a batch are one block.
    pub outputs_block: bool,
    /// What sessions are steered by.
    pub keys: Keys,
    /// In the order in which those of a lane run.
    pub stages: Box<[StageSpec]>,
    /// Which hooks it has; absent ones are not called.
    pub hooks: Hooks,
}

/// Which hooks a model has.
#[derive(Clone, Copy, Default, Debug)]
#[allow(missing_docs)]
pub struct Hooks {
    pub ready: bool,
    pub seed: bool,
    pub detach: bool,
    pub finalize: bool,
}

impl Manifest {
    /// Whether a stage runs on `lane`.
    pub fn has(&self, lane: Lane) -> bool {
        self.stages.iter().any(|stage| stage.lane == lane)
    }

    /// Whether the model owns its loop: it has no stages then.
    pub fn serves(&self) -> bool {
        self.stages.is_empty()
    }

    /// The lane whose last stage ends a chunk.
    pub fn last_lane(&self) -> Lane {
        if self.has(Lane::Deferred) { Lane::Deferred } else { Lane::Hot }
    }

    /// Number of the last stage on `lane`.
    pub fn last_stage(&self, lane: Lane) -> u32 {
        self.stages.iter().rposition(|stage| stage.lane == lane).unwrap_or(0) as u32
    }

    /// What a stage number stands for.
    pub fn stage_name(&self, stage: u32) -> &str {
        hook::name(stage).unwrap_or_else(|| self.stages.get(stage as usize).map_or("none", |stage| &stage.name))
    }
}

/// An engine as its host holds it: only an adapter gives it a type.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct RawEngine(pub usize);

/// What is called.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Call {
    /// May these pending rows be seeded? AGAIN = not yet.
    Ready,
    /// First state of these rows.
    Seed,
    /// One of the stages.
    Stage(u32),
    /// No work touches this row any more.
    Detach,
    /// These rows' chunks were collected.
    Finalize,
}

impl Call {
    /// As the number that faults and batches name.
    pub fn number(self) -> u32 {
        match self {
            Call::Ready => hook::READY,
            Call::Seed => hook::SEED,
            Call::Stage(stage) => stage,
            Call::Detach => hook::DETACH,
            Call::Finalize => hook::FINALIZE,
        }
    }
}

/// `&self`: lanes may overlap. One object-safe trait: one cohort, one machine code, one thing to sanitise.
pub trait Model: Send + Sync {
    /// What it says of itself; the same for ever.
    fn manifest(&self) -> &Manifest;

    /// Once, before any other call, on the engine's thread.
    fn init(&self, streams: [RawStream; Lane::COUNT]) -> Result<(), Status>;

    /// An output of its own is needed no more. Any thread; only of a model whose outputs are its own.
    fn release_output(&self, address: usize) {
        let _ = address;
    }

    /// Runs `call` for the rows of `batch`. What it says of single rows is in the batch.
    fn call(&self, call: Call, batch: &mut Batch, stream: RawStream) -> Result<(), Status>;

    /// The model's own loop, where its manifest says that it serves: once, on the engine's thread, instead of all others.
    fn serve(&self, _: RawEngine) -> Result<(), Status> {
        Err(Status::UNAVAILABLE)
    }
}
