//! The built-in model as a C table.

use std::ffi::c_void;

use super::descriptor;
use super::guard::guard;
use super::message::{rte_stream, rte_value};
use super::model::*;
use super::status::rte_status;
use crate::engine::Failure;
use crate::reference::Reference;
use crate::word::Status;

/// Key of the built-in model: HEAVY, bytes of any number.
pub const RTE_REFERENCE_PROMPT: u32 = 0;
/// Key of the built-in model: cheap, I64.
pub const RTE_REFERENCE_ACTION: u32 = 1;
/// Key of the built-in model: I64; looked at in the context only; absent: derived from the session's id.
pub const RTE_REFERENCE_SEED: u32 = 2;

/// A static array of names and functions.
struct Static<T>(T);
// SAFETY: never written.
unsafe impl<T> Sync for Static<T> {}

static KEYS: Static<[rte_key; 3]> = {
    const fn number(name: *const std::ffi::c_char) -> rte_key {
        rte_key { name, size: 8, r#type: RTE_I64, merge: RTE_MERGE_LATEST, flags: 0, reserved: 0 }
    }
    let prompt = rte_key { size: 0, r#type: RTE_BYTES, flags: RTE_KEY_HEAVY, ..number(c"prompt".as_ptr()) };
    Static([prompt, number(c"action".as_ptr()), number(c"seed".as_ptr())])
};

static STAGES: Static<[rte_stage; 3]> = {
    const fn stage(name: *const std::ffi::c_char, run: rte_stage_fn, lane: u32) -> rte_stage {
        rte_stage { name, run, lane, flags: 0, reserved: 0 }
    }
    Static([
        stage(c"generate".as_ptr(), Some(generate), RTE_HOT),
        stage(c"decode".as_ptr(), Some(decode), RTE_DEFERRED),
        stage(c"encode".as_ptr(), Some(encode), RTE_ENCODE),
    ])
};

/// Fills `model` with a model that runs anywhere: each byte of a chunk is
/// (seed*131 + age*7 + action*3 + prompt*17) mod 251, where prompt is the sum of its bytes mod 256 and action is taken
/// mod 256. 8 rows, 64-byte chunks, 60 a second, HOT, DEFERRED and ENCODE, RETRY_SAFE; change what you like before
/// rte_engine_new. `model->struct_size` must be set. Its arrays are static. Its state, `model->user`, is allocated here:
/// rte_engine_new takes it; if that fails, or is never called, give it to `model->destroy`.
///
/// RTE_ERR_ARGUMENT: NULL. RTE_ERR_VERSION: a struct_size that is not known.
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_reference_model(model: *mut rte_model) -> rte_status {
    // SAFETY: the host gave NULL or a descriptor.
    guard(|| unsafe { fill(model) }.map_or_else(|failure| failure.status.0, |()| 0))
}

/// # Safety
/// `model` is NULL or a descriptor.
unsafe fn fill(model: *mut rte_model) -> Result<(), Failure> {
    if model.is_null() {
        return Err(Failure::new(Status::ARGUMENT, "model: NULL"));
    }
    // SAFETY: numbers, pointers and nullable functions: zero is a value of each.
    let empty: rte_model = unsafe { std::mem::zeroed() };
    // SAFETY: the caller's promise. First without state: a wrong struct_size leaves nothing behind.
    unsafe { descriptor::write(model, "model", empty)? };
    let state = Box::into_raw(Box::new(Reference::new(super::manifest::MAX_SESSIONS as usize)));
    let filled = rte_model {
        flags: RTE_MODEL_RETRY_SAFE,
        name: c"reference".as_ptr(),
        user: state.cast(),
        max_sessions: 8,
        chunk_bytes: 64,
        rate_num: 60,
        rate_den: 1,
        keys: KEYS.0.as_ptr(),
        key_count: KEYS.0.len() as u32,
        stages: STAGES.0.as_ptr(),
        stage_count: STAGES.0.len() as u32,
        seed: Some(seed),
        destroy: Some(destroy),
        ..empty
    };
    // SAFETY: as above.
    unsafe { descriptor::write(model, "model", filled) }
}

/// A batch as a Rust stage sees it.
struct Rows<'a> {
    model: &'a Reference,
    batch: &'a rte_batch,
}

impl Rows<'_> {
    /// # Safety
    /// As an rte_stage_fn of this model is called.
    unsafe fn new<'a>(user: *mut c_void, batch: *mut rte_batch) -> Rows<'a> {
        // SAFETY: the caller's promise: `user` is what `fill` made.
        unsafe { Rows { model: &*user.cast::<Reference>(), batch: &*batch } }
    }

    /// Positions of real rows, with their row; padding of a dense batch is passed over.
    fn each(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        (0..self.batch.count as usize).filter_map(|at| {
            // SAFETY: the arrays of a batch: `row` by position, `mask` by row.
            let (row, is_real) = unsafe {
                let row = *self.batch.row.add(at) as usize;
                (row, *self.batch.mask.add(row) != 0)
            };
            is_real.then_some((at, row))
        })
    }

    fn value(&self, at: usize, key: u32) -> &[u8] {
        // SAFETY: the table of a batch: by position, then by key; its bytes live as long as the batch's work.
        unsafe {
            let value: &rte_value = &*(*self.batch.value.add(at)).add(key as usize);
            if value.size == 0 { &[] } else { std::slice::from_raw_parts(value.data.cast(), value.size) }
        }
    }

    fn number(&self, at: usize, key: u32) -> Option<i64> {
        self.value(at, key).first_chunk().map(|bytes| i64::from_ne_bytes(*bytes))
    }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> rte_status {
    // SAFETY: called as a stage of this model.
    let rows = unsafe { Rows::new(user, batch) };
    for (at, row) in rows.each() {
        // SAFETY: an array of the batch, by position.
        let session = unsafe { *rows.batch.session.add(at) };
        rows.model.seed(row, session, rows.number(at, RTE_REFERENCE_SEED), rows.value(at, RTE_REFERENCE_PROMPT));
    }
    0
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> rte_status {
    // SAFETY: called as a stage of this model.
    let rows = unsafe { Rows::new(user, batch) };
    for (at, row) in rows.each() {
        rows.model.encode(row, rows.value(at, RTE_REFERENCE_PROMPT));
    }
    0
}

unsafe extern "C-unwind" fn generate(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> rte_status {
    // SAFETY: called as a stage of this model.
    let rows = unsafe { Rows::new(user, batch) };
    for (at, row) in rows.each() {
        // SAFETY: an array of the batch, by position.
        let age = unsafe { *rows.batch.age.add(at) };
        let action = rows.number(at, RTE_REFERENCE_ACTION).unwrap_or(0);
        rows.model.step(row, rows.batch.slot as usize, age, action);
    }
    0
}

unsafe extern "C-unwind" fn decode(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> rte_status {
    // SAFETY: called as a stage of this model.
    let rows = unsafe { Rows::new(user, batch) };
    for (at, row) in rows.each() {
        let byte = rows.model.decode(row, rows.batch.slot as usize);
        // SAFETY: the output of a row has `bytes`; `output_size` is by position.
        unsafe {
            let output = *rows.batch.output.add(at);
            let bytes = rows.batch.chunk_bytes;
            output.cast::<u8>().write_bytes(byte, bytes);
            *rows.batch.output_size.add(at) = bytes;
        }
    }
    0
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: what `fill` made, given back once.
    drop(unsafe { Box::from_raw(user.cast::<Reference>()) });
}
