//! CUDA lanes, as the options ask for them.

use std::sync::Arc;

use super::descriptor;
use super::message::raw_stream;
use super::options::{RTE_LANES_AUTO, RTE_LANES_CUDA, rte_engine_options};
use crate::engine::Failure;
use crate::lane::{Choice, Equipment, Gpu, OnDevice, PageLocked, Releases, Trouble};
use crate::memory::Room;
use crate::model::Manifest;
use crate::word::Status;

/// The device that `table` names, if its lanes are CUDA's: asked for, or AUTO and one is there.
///
/// # Safety
/// `table.device_uuid` is NULL or a C string, `table.streams` are NULL or streams.
pub(super) unsafe fn open(table: &rte_engine_options, trouble: &Arc<Trouble>) -> Result<Option<Arc<Gpu>>, Failure> {
    match table.lanes {
        RTE_LANES_CUDA => {}
        RTE_LANES_AUTO if Gpu::is_there() => {}
        _ => return Ok(None),
    }
    // SAFETY: the caller's promise.
    let uuid = (!table.device_uuid.is_null()).then(|| unsafe { descriptor::text(table.device_uuid) });
    let choice = uuid.as_deref().map_or(Choice::Ordinal(table.device), Choice::Uuid);
    let gpu = Gpu::open(choice, table.spin_ns, trouble.clone()).map_err(|no| Failure::new(no.status, no.words))?;
    for (at, stream) in table.streams.iter().enumerate().filter(|(_, stream)| !stream.is_null()) {
        if let Some(why) = gpu.refuses(raw_stream(*stream)) {
            return Err(Failure::new(Status::ARGUMENT, format!("options.streams[{at}]: {why}")));
        }
    }
    Ok(Some(gpu))
}

/// What lies where on CUDA lanes.
pub(super) fn equipment(gpu: &Arc<Gpu>, manifest: &Manifest) -> Equipment {
    let page_locked: Arc<dyn Room> = Arc::new(PageLocked(gpu.clone()));
    let outputs: Arc<dyn Room> = if manifest.on_device { Arc::new(OnDevice(gpu.clone())) } else { page_locked.clone() };
    Equipment { releases: Some(Arc::new(Releases(gpu.clone()))), arrays: Some(page_locked), outputs: Some(outputs) }
}
