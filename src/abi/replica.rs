//! A model of many rows made of models of one row: the oracle for a batched one.
//!
//! Each row that is seeded has a child of its own. A child is shown the parent's arrays, from its row's position on, as a
//! batch of one; only what is by row or by key is its own. So nothing is copied, and the engine above knows nothing of it.

use std::ffi::{CStr, CString, c_char, c_void};
use std::ptr::null_mut;
use std::sync::atomic::{AtomicPtr, Ordering};

use parking_lot::Mutex;

use super::descriptor;
use super::guard::guard;
use super::manifest::MAX_SESSIONS;
use super::message::rte_stream;
use super::model::*;
use super::status::rte_status;
use crate::engine::Failure;
use crate::word::{Lane, Status};

/// Makes a child model of one row for `rte_replica_model`: fills `child`, whose struct_size is set and the rest zero, as for
/// rte_engine_new. Its arrays and names are read after that: they may not be the function's own. Not OK: there is no child,
/// and nothing to clean up.
///
/// Threads: the caller's of rte_replica_model; later the lane's that seeds; never two at once. Callbacks: may call what a
/// callback may call.
pub type rte_replica_fn = Option<unsafe extern "C-unwind" fn(user: *mut c_void, child: *mut rte_model) -> rte_status>;

/// Fills `model` with `max_sessions` rows (1 to 65536), each a child model of one row (max_sessions 1) from `make`: what a
/// batched model must equal. The children of a batch run one after the other, each as row 0 of a batch of one, whose arrays
/// are not at the same addresses from batch to batch.
///
/// One child is made at once: keys, stages, chunk_bytes, rate and all else are as it says, RTE_MODEL_DENSE excepted. The
/// others are made when a row is seeded and no child is free, with the same keys, stages, hooks and chunk_bytes; else, or
/// where `make` or the child's `init` fails, the row is rejected. A child is free again after its `detach`; it is destroyed
/// where that, or its `seed`, has failed. A call of a child that fails as a whole fails that row alone (`ready`, `finalize`
/// and `detach`: is returned), and RTE_ERR_DEAD the engine.
///
/// `model->struct_size` must be set. Its state, `model->user`, is allocated here, with its arrays, and has the children:
/// rte_engine_new takes it; if that fails, or is never called, give it to `model->destroy`. `make` and `user` are used until
/// that has run. Before rte_engine_new change what you like but keys, stages and hooks; max_sessions not to more.
///
/// RTE_ERR_ARGUMENT: NULL, a number of rows that cannot be, or a child of more than one row or with `serve`.
/// RTE_ERR_UNAVAILABLE: a child with RTE_MODEL_OWN_OUTPUT. RTE_ERR_VERSION: a struct_size that is not known. What `make`
/// returned, and what rte_engine_new would say of its child.
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_replica_model(
    model: *mut rte_model,
    max_sessions: u32,
    make: rte_replica_fn,
    user: *mut c_void,
) -> rte_status {
    // SAFETY: the host gave NULL or a descriptor, and a factory that goes with its `user`.
    guard(|| unsafe { fill(model, max_sessions, make, user) }.map_or_else(|failure| failure.status.0, |()| 0))
}

/// # Safety
/// `model` is NULL or a descriptor; `make` may be called with `user`.
unsafe fn fill(
    model: *mut rte_model,
    max_sessions: u32,
    make: rte_replica_fn,
    user: *mut c_void,
) -> Result<(), Failure> {
    let wrong = |what: &str| Failure::new(Status::ARGUMENT, what);
    let make = make.ok_or_else(|| wrong("make: NULL"))?;
    if !(1..=MAX_SESSIONS).contains(&max_sessions) {
        return Err(wrong("max_sessions"));
    }
    // SAFETY: the caller's promise. First without state: a wrong struct_size leaves nothing behind.
    unsafe { descriptor::write(model, "model", empty())? };
    let factory = Factory { make, user };
    let first = factory.child().map_err(|status| Failure::new(status, "make"))?;
    let table = *first.model.table();
    // SAFETY: the names of a child that was made are C strings.
    let (keys, stages, names) = unsafe { copies(&first) };
    let rows = (0..max_sessions).map(|_| AtomicPtr::new(null_mut())).collect();
    let shape = Shape::of(&first);
    let (pool, streams) = (Mutex::new(vec![first]), Mutex::new(None));
    let replica = Box::new(Replica { factory: Mutex::new(factory), shape, rows, pool, streams, names, keys, stages });
    let filled = rte_model {
        flags: table.flags & !RTE_MODEL_DENSE,
        name: replica.names[0].as_ptr(),
        max_sessions,
        keys: replica.keys.as_ptr(),
        stages: replica.stages.as_ptr(),
        init: table.init.map(|_| init as _),
        ready: table.ready.map(|_| ready as _),
        seed: Some(seed),
        detach: Some(detach),
        finalize: table.finalize.map(|_| finalize as _),
        destroy: Some(destroy),
        user: Box::into_raw(replica).cast(),
        ..table
    };
    // SAFETY: as above.
    unsafe { descriptor::write(model, "model", filled) }
}

fn empty() -> rte_model {
    // SAFETY: numbers, pointers and nullable functions: zero is a value of each.
    unsafe { std::mem::zeroed() }
}

/// Keys and stages as the child says, with names that are not its own.
///
/// # Safety
/// Its names are NULL or C strings.
unsafe fn copies(child: &Child) -> (Box<[rte_key]>, Box<[rte_stage]>, Vec<CString>) {
    let mut names = Vec::new();
    let mut copy = |name: *const c_char| {
        // SAFETY: the caller's promise.
        names.push(if name.is_null() { CString::default() } else { unsafe { CStr::from_ptr(name) }.to_owned() });
        names[names.len() - 1].as_ptr()
    };
    let table = child.model.table();
    copy(table.name);
    // SAFETY: `keys` has `key_count` items; it was read when the child was made.
    let keys = (0..table.key_count as usize).map(|at| unsafe { table.keys.add(at).read_unaligned() });
    let keys = keys.map(|key| rte_key { name: copy(key.name), ..key }).collect();
    let stages = child.model.stages().iter();
    let stages = stages.map(|stage| rte_stage { name: copy(stage.name), run: Some(run_stage), ..*stage }).collect();
    (keys, stages, names)
}

/// Where children come from.
struct Factory {
    make: unsafe extern "C-unwind" fn(user: *mut c_void, child: *mut rte_model) -> rte_status,
    user: *mut c_void,
}

/// What all children have in common.
#[derive(PartialEq)]
struct Shape {
    chunk_bytes: usize,
    /// Size, type, merge rule, flags.
    keys: Vec<[usize; 4]>,
    lanes: Vec<u32>,
    /// init, ready, seed, detach, finalize.
    hooks: [bool; 5],
}

/// See the module's comment.
struct Replica {
    /// Locked while a child is made: never two at once.
    factory: Mutex<Factory>,
    shape: Shape,
    /// By row: a `Box<Child>` from its first `ready` or its seed until its detach, else NULL.
    rows: Box<[AtomicPtr<Child>]>,
    /// Children that are free.
    #[allow(clippy::vec_box, reason = "children move as boxes between here and the rows")]
    pool: Mutex<Vec<Box<Child>>>,
    /// What `init` was given: children that are made later get it too.
    streams: Mutex<Option<[rte_stream; Lane::COUNT]>>,
    /// The model's own, then those that keys and stages point to.
    names: Vec<CString>,
    keys: Box<[rte_key]>,
    stages: Box<[rte_stage]>,
}

// SAFETY: the pointers in it are the host's, which promises that its callbacks may be called from the engine's threads; a
// child is touched by the calls on its row, which the engine orders.
unsafe impl Send for Replica {}
// SAFETY: as above.
unsafe impl Sync for Replica {}

/// A model of one row.
struct Child {
    model: CModel,
    /// What `rte_batch.column` points to, by place and key.
    columns: Box<[AtomicPtr<c_void>]>,
    sizes: Box<[usize]>,
}

/// Calls on one row that may be under way at once have columns of their own: HOT and DEFERRED by slot (0 to 3), and these.
const ENCODE: usize = 4;
/// seed and detach.
const LIFE: usize = 5;
/// `ready` and finalize.
const HOOK: usize = 6;
const PLACES: usize = 7;

/// Row 0, and its mask.
static ROW: u32 = 0;
static MASK: u8 = 1;

impl Factory {
    /// A child that was checked. What `make` has filled is ours, whatever is wrong with it.
    fn child(&self) -> Result<Box<Child>, Status> {
        let mut table = rte_model { struct_size: size_of::<rte_model>() as u32, ..empty() };
        // SAFETY: the factory was given with its `user`.
        Status::of_callback(unsafe { (self.make)(self.user, &mut table) })?;
        // SAFETY: a table that the host has filled.
        let model = unsafe { CModel::read(&table) }.map_err(|failure| {
            // SAFETY: the last callback of a child that is not used.
            table.destroy.into_iter().for_each(|destroy| unsafe { destroy(table.user) });
            failure.status
        })?;
        // From now on its `destroy` is owed.
        model.take();
        if table.max_sessions != 1 || table.serve.is_some() {
            return Err(Status::ARGUMENT);
        }
        if table.flags & RTE_MODEL_OWN_OUTPUT != 0 {
            return Err(Status::UNAVAILABLE);
        }
        // SAFETY: `keys` has `key_count` items; it was just read.
        let size = |at: usize| unsafe { table.keys.add(at).read_unaligned().size };
        let sizes: Box<[usize]> = (0..table.key_count as usize).map(size).collect();
        let columns = (0..PLACES * sizes.len()).map(|_| AtomicPtr::new(null_mut())).collect();
        Ok(Box::new(Child { model, columns, sizes }))
    }
}

impl Shape {
    fn of(child: &Child) -> Shape {
        let table = child.model.table();
        // SAFETY: `keys` has `key_count` items, read when the child was made a moment ago.
        let key = |at: usize| unsafe { table.keys.add(at).read_unaligned() };
        let key = |at| {
            let rte_key { size, r#type, merge, flags, .. } = key(at);
            [size, r#type as usize, merge as usize, flags as usize]
        };
        Shape {
            chunk_bytes: table.chunk_bytes,
            keys: (0..table.key_count as usize).map(key).collect(),
            lanes: child.model.stages().iter().map(|stage| stage.lane).collect(),
            hooks: [
                table.init.is_some(),
                table.ready.is_some(),
                table.seed.is_some(),
                table.detach.is_some(),
                table.finalize.is_some(),
            ],
        }
    }
}

impl Replica {
    /// # Safety
    /// `user` is what `fill` made.
    unsafe fn of<'a>(user: *mut c_void) -> &'a Replica {
        // SAFETY: the caller's promise.
        unsafe { &*user.cast() }
    }

    /// The child of `row`.
    fn child(&self, row: usize) -> Option<&Child> {
        // Acquire: what its seed, or whoever put it there, has written. SAFETY: NULL or a box that only the row's detach
        // takes out, which comes after all other calls on the row.
        unsafe { self.rows.get(row)?.load(Ordering::Acquire).as_ref() }
    }

    /// The child of `row`, which gets one if it has none.
    fn settle(&self, row: usize) -> Result<&Child, Status> {
        let place = self.rows.get(row).ok_or(Status::STATE)?;
        if place.load(Ordering::Acquire).is_null() {
            // Release: whoever finds it finds it whole.
            place.store(Box::into_raw(self.take()?), Ordering::Release);
        }
        self.child(row).ok_or(Status::STATE)
    }

    /// Takes the child out of `row`.
    fn evict(&self, row: usize) -> Option<Box<Child>> {
        let child = self.rows.get(row)?.swap(null_mut(), Ordering::AcqRel);
        // SAFETY: not NULL: a box that `settle` has put there; it is taken out once.
        (!child.is_null()).then(|| unsafe { Box::from_raw(child) })
    }

    /// A free child, or a new one.
    fn take(&self) -> Result<Box<Child>, Status> {
        let free = self.pool.lock().pop();
        if let Some(child) = free {
            return Ok(child);
        }
        let child = self.factory.lock().child()?;
        if Shape::of(&child) != self.shape {
            return Err(Status::ARGUMENT);
        }
        let streams = *self.streams.lock();
        streams.map_or(Ok(()), |streams| child.init(&streams))?;
        Ok(child)
    }
}

impl Drop for Replica {
    fn drop(&mut self) {
        (0..self.rows.len()).for_each(|row| drop(self.evict(row)));
    }
}

impl Child {
    fn init(&self, streams: &[rte_stream; Lane::COUNT]) -> Result<(), Status> {
        let table = self.model.table();
        // SAFETY: a callback of the child, with three streams.
        table.init.map_or(Ok(()), |init| Status::of_callback(unsafe { init(table.user, streams.as_ptr()) }))
    }

    /// Runs `hook` for the row at position `at` of `batch`. `place`: whose columns.
    ///
    /// # Safety
    /// `batch` is one that the engine has given, `at` below its count.
    unsafe fn call(
        &self,
        hook: rte_stage_fn,
        batch: &rte_batch,
        at: usize,
        place: usize,
        stream: rte_stream,
    ) -> Result<(), Status> {
        let Some(hook) = hook else { return Ok(()) };
        // SAFETY: the caller's promise.
        let mut view = unsafe { self.view(batch, at, place) };
        // SAFETY: a callback of the child; the arrays are the engine's, which outlive the batch's work.
        let code = unsafe { hook(self.model.table().user, &mut view, stream) };
        if code == Status::AGAIN.0 && batch.stage == RTE_STAGE_READY {
            return Err(Status::AGAIN);
        }
        Status::of_callback(code)
    }

    /// The row at position `at` of `batch` as a batch of one.
    ///
    /// # Safety
    /// As for `call`.
    unsafe fn view(&self, batch: &rte_batch, at: usize, place: usize) -> rte_batch {
        let columns = &self.columns[place * self.sizes.len()..][..self.sizes.len()];
        for (key, (column, size)) in columns.iter().zip(&self.sizes).enumerate() {
            // SAFETY: `column` is by key; one that is not NULL has `size` bytes for each position.
            let cell = unsafe { *batch.column.add(key) };
            let cell = if cell.is_null() { cell } else { cell.cast::<u8>().wrapping_add(at * size).cast() };
            column.store(cell.cast_mut(), Ordering::Relaxed);
        }
        let output = if batch.output.is_null() { batch.output } else { batch.output.wrapping_add(at) };
        // SAFETY: arrays by position.
        unsafe {
            rte_batch {
                count: 1,
                row: &raw const ROW,
                session: batch.session.add(at),
                user: batch.user.add(at),
                generation: batch.generation.add(at),
                age: batch.age.add(at),
                changed: batch.changed.add(at),
                value: batch.value.add(at),
                column: columns.as_ptr().cast(),
                mask: &raw const MASK,
                output,
                output_size: batch.output_size.add(at),
                frames: batch.frames.add(at),
                status: batch.status.add(at),
                ..*batch
            }
        }
    }
}

/// Positions of real rows, with their row; padding of a dense batch is passed over.
///
/// # Safety
/// `batch` is one that the engine has given.
unsafe fn each(batch: &rte_batch) -> impl Iterator<Item = (usize, usize)> {
    (0..batch.count as usize).filter_map(|at| {
        // SAFETY: the arrays of a batch: `row` by position, `mask` by row.
        let (row, is_real) = unsafe {
            let row = *batch.row.add(at) as usize;
            (row, *batch.mask.add(row) != 0)
        };
        is_real.then_some((at, row))
    })
}

/// Fails one row, or the engine.
///
/// # Safety
/// As for `each`; `at` is below the count.
unsafe fn settle_row(batch: &rte_batch, at: usize, result: Result<(), Status>) -> rte_status {
    match result {
        Ok(()) => 0,
        Err(Status::DEAD) => Status::DEAD.0,
        Err(status) => {
            // SAFETY: an array by position.
            unsafe { *batch.status.add(at) = status.0 };
            0
        }
    }
}

unsafe extern "C-unwind" fn init(user: *mut c_void, streams: *const rte_stream) -> rte_status {
    // SAFETY: called as a hook of this model, with three streams.
    let (replica, streams) = unsafe { (Replica::of(user), *streams.cast::<[rte_stream; Lane::COUNT]>()) };
    *replica.streams.lock() = Some(streams);
    let result = replica.pool.lock().iter().try_for_each(|child| child.init(&streams));
    result.map_or_else(|status| status.0, |()| 0)
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
    // SAFETY: called as a hook of this model.
    let (replica, batch) = unsafe { (Replica::of(user), &*batch) };
    // SAFETY: a batch of the engine.
    for (at, row) in unsafe { each(batch) } {
        let seeded = replica.settle(row).and_then(|child| {
            // SAFETY: as above.
            unsafe { child.call(child.model.table().seed, batch, at, LIFE, stream) }
        });
        // SAFETY: an array by position.
        let has_failed = seeded.is_err() || unsafe { *batch.status.add(at) } != 0;
        // SAFETY: as above.
        let status = unsafe { settle_row(batch, at, seeded) };
        if has_failed {
            // There is no detach for it.
            drop(replica.evict(row));
        }
        if status != 0 {
            return status;
        }
    }
    0
}

unsafe extern "C-unwind" fn run_stage(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
    // SAFETY: called as a stage of this model.
    let (replica, batch) = unsafe { (Replica::of(user), &*batch) };
    // SAFETY: a batch of the engine.
    for (at, row) in unsafe { each(batch) } {
        // SAFETY: an array by position. A row that an earlier stage of the lane has failed is left alone.
        if unsafe { *batch.status.add(at) } != 0 {
            continue;
        }
        let result = replica.child(row).ok_or(Status::STATE).and_then(|child| {
            let stage = &child.model.stages()[batch.stage as usize];
            let place = if stage.lane == RTE_ENCODE { ENCODE } else { (stage.lane * 2 + batch.slot) as usize };
            // SAFETY: as above.
            unsafe { child.call(stage.run, batch, at, place, stream) }
        });
        // SAFETY: as above.
        let status = unsafe { settle_row(batch, at, result) };
        if status != 0 {
            return status;
        }
    }
    0
}

/// All of a batch, each whatever came of the others; the worst is returned.
///
/// # Safety
/// Called as a hook of this model; `call` is given a position and a row of the batch.
unsafe fn all(batch: &rte_batch, mut call: impl FnMut(usize, usize) -> Result<(), Status>) -> rte_status {
    let mut worst = 0;
    // SAFETY: a batch of the engine.
    for (at, row) in unsafe { each(batch) } {
        match call(at, row) {
            Err(Status::DEAD) => worst = Status::DEAD.0,
            Err(status) if worst == 0 || worst == Status::AGAIN.0 => worst = status.0,
            _ => {}
        }
    }
    worst
}

unsafe extern "C-unwind" fn ready(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
    // SAFETY: called as a hook of this model.
    let (replica, batch) = unsafe { (Replica::of(user), &*batch) };
    let ask = |at, row| match replica.settle(row) {
        // SAFETY: as above.
        Ok(child) => unsafe { child.call(child.model.table().ready, batch, at, HOOK, stream) },
        // Its seed will say so.
        Err(_) => Ok(()),
    };
    // SAFETY: as above.
    unsafe { all(batch, ask) }
}

unsafe extern "C-unwind" fn finalize(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
    // SAFETY: called as a hook of this model.
    let (replica, batch) = unsafe { (Replica::of(user), &*batch) };
    let call = |at, row| match replica.child(row) {
        // SAFETY: as above.
        Some(child) => unsafe { child.call(child.model.table().finalize, batch, at, HOOK, stream) },
        None => Ok(()),
    };
    // SAFETY: as above.
    unsafe { all(batch, call) }
}

unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> rte_status {
    // SAFETY: called as a hook of this model.
    let (replica, batch) = unsafe { (Replica::of(user), &*batch) };
    let leave = |at, row| {
        let Some(child) = replica.evict(row) else { return Ok(()) };
        // SAFETY: as above.
        unsafe { child.call(child.model.table().detach, batch, at, LIFE, stream)? };
        replica.pool.lock().push(child);
        Ok(())
    };
    // SAFETY: as above.
    unsafe { all(batch, leave) }
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: what `fill` made, given back once.
    drop(unsafe { Box::from_raw(user.cast::<Replica>()) });
}
