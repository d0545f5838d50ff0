//! Lanes, as the options ask for them: which kind, on which device, and what that brings.

use std::sync::Arc;

use super::backend::{HostStreams, Table};
use super::descriptor;
use super::message::raw_stream;
use super::model::CModel;
use super::options::{
    self, RTE_LANES_AUTO, RTE_LANES_CUDA, RTE_LANES_HOST, RTE_LANES_INLINE, RTE_LANES_THREADS, rte_engine_options,
};
use crate::engine::Failure;
use crate::lane::{
    Bell, Choice, CudaStreams, Equipment, Gpu, InContext, InlineLanes, Lanes, OnDevice, PageLocked, Releases,
    StreamLanes, Target, ThreadLanes, Trouble,
};
use crate::memory::Room;
use crate::model::{Manifest, Model};
use crate::telemetry::Watch;
use crate::time::Threads;
use crate::word::Status;

/// What an engine's lanes are, with the device that they have.
pub(super) enum Kind {
    Inline,
    Threads,
    Cuda(Arc<Gpu>),
    Host(Arc<Table>),
}

impl Kind {
    /// What `table` asks for; AUTO: CUDA's, if a device is there that the model can use.
    ///
    /// # Safety
    /// The pointers in `table` are valid for this call; its streams are NULL or streams.
    pub(super) unsafe fn of(
        table: &rte_engine_options,
        manifest: &Manifest,
        bell: &Bell,
        watch: &Arc<Watch>,
        trouble: &Arc<Trouble>,
    ) -> Result<Kind, Failure> {
        let kind = match table.lanes {
            RTE_LANES_HOST => {
                // SAFETY: the caller's promise.
                let backend = unsafe { options::read_backend(table)? };
                Kind::Host(Table::new(backend, bell.clone(), watch.clone()))
            }
            RTE_LANES_THREADS => Kind::Threads,
            // SAFETY: the caller's promise.
            RTE_LANES_CUDA => Kind::Cuda(unsafe { gpu(table, trouble)? }),
            // SAFETY: the caller's promise.
            RTE_LANES_AUTO if !manifest.serves() && Gpu::is_there() => Kind::Cuda(unsafe { gpu(table, trouble)? }),
            _ => Kind::Inline,
        };
        kind.check_outputs(manifest)?;
        Ok(kind)
    }

    /// Outputs on a device need lanes that have one, and such of ours a device that we know.
    fn check_outputs(&self, manifest: &Manifest) -> Result<(), Failure> {
        let what = match self {
            _ if !manifest.on_device => return Ok(()),
            Kind::Cuda(_) => return Ok(()),
            Kind::Host(_) if manifest.owns_outputs => return Ok(()),
            Kind::Host(_) => "without RTE_MODEL_OWN_OUTPUT: the memory of options.backend's device is yours",
            Kind::Inline | Kind::Threads => "the lanes have no device",
        };
        Err(Failure::new(Status::UNAVAILABLE, format!("model.flags: RTE_MODEL_DEVICE_OUTPUT, but {what}")))
    }

    /// RTE_LANES_*; never AUTO.
    pub(super) fn number(&self) -> u32 {
        match self {
            Kind::Inline => RTE_LANES_INLINE,
            Kind::Threads => RTE_LANES_THREADS,
            Kind::Cuda(_) => RTE_LANES_CUDA,
            Kind::Host(_) => RTE_LANES_HOST,
        }
    }

    pub(super) fn has_device(&self) -> bool {
        matches!(self, Kind::Cuda(_) | Kind::Host(_))
    }

    /// The model as these lanes call it.
    pub(super) fn model_of(&self, model: Arc<CModel>) -> Arc<dyn Model> {
        match self {
            Kind::Cuda(gpu) => Arc::new(InContext::new(gpu.clone(), model)),
            _ => model,
        }
    }

    /// The lanes.
    pub(super) fn lanes(
        &self,
        target: Target,
        table: &rte_engine_options,
        bell: Bell,
        threads: Arc<Threads>,
    ) -> Box<dyn Lanes> {
        let encodes = table.encode_lanes.max(1) as usize;
        let rows = target.model.manifest().max_sessions;
        match self {
            Kind::Inline => Box::new(InlineLanes::new(target)),
            Kind::Threads => Box::new(ThreadLanes::new(target, bell, encodes, rows, table.spin_ns, threads)),
            Kind::Cuda(gpu) => {
                let streams = CudaStreams::new(gpu.clone(), table.streams.map(raw_stream));
                Box::new(StreamLanes::new(target, Box::new(streams), encodes))
            }
            Kind::Host(host) => {
                let streams = HostStreams::new(host.clone(), table.streams);
                Box::new(StreamLanes::new(target, Box::new(streams), encodes))
            }
        }
    }

    /// What their device brings beside its streams.
    pub(super) fn equipment(&self, manifest: &Manifest) -> Equipment {
        match self {
            Kind::Inline | Kind::Threads => Equipment::default(),
            Kind::Host(host) => Equipment { releases: Some(Arc::new(Releases(host.clone()))), ..Equipment::default() },
            Kind::Cuda(gpu) => {
                let page_locked: Arc<dyn Room> = Arc::new(PageLocked(gpu.clone()));
                let on_device = || Arc::new(OnDevice(gpu.clone())) as Arc<dyn Room>;
                Equipment {
                    releases: Some(Arc::new(Releases(gpu.clone()))),
                    outputs: Some(if manifest.on_device { on_device() } else { page_locked.clone() }),
                    arrays: Some(page_locked),
                }
            }
        }
    }

    /// The engine is made: from now on the host's backend is its own.
    pub(super) fn take(&self) {
        if let Kind::Host(table) = self {
            table.take();
        }
    }
}

/// The CUDA device that `table` names.
///
/// # Safety
/// `table.device_uuid` is NULL or a C string, `table.streams` are NULL or streams.
unsafe fn gpu(table: &rte_engine_options, trouble: &Arc<Trouble>) -> Result<Arc<Gpu>, Failure> {
    // SAFETY: the caller's promise.
    let uuid = (!table.device_uuid.is_null()).then(|| unsafe { descriptor::text(table.device_uuid) });
    let choice = uuid.as_deref().map_or(Choice::Ordinal(table.device), Choice::Uuid);
    let gpu = Gpu::open(choice, table.spin_ns, trouble.clone()).map_err(|no| Failure::new(no.status, no.words))?;
    for (at, stream) in table.streams.iter().enumerate().filter(|(_, stream)| !stream.is_null()) {
        if let Some(why) = gpu.refuses(raw_stream(*stream)) {
            return Err(Failure::new(Status::ARGUMENT, format!("options.streams[{at}]: {why}")));
        }
    }
    Ok(gpu)
}
