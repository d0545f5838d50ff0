//! Stages that hand pointers over, in all the ways in which a stage may.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Arc;

use super::ledger::{CHUNK, Ledger};
use crate::driver::{
    RTE_DEFERRED, RTE_HOT, RTE_MODEL_OWN_OUTPUT, model, rte_batch, rte_model, rte_stage, rte_status, rte_stream, stage,
};
use crate::host::batch::{Batch, Member};

/// What a host's own callback may return.
pub const HOST_ERROR: i32 = -1000;

/// The stages: HOT alone, or with DEFERRED, which then ends the chunk.
pub fn stages(has_deferred: bool) -> Vec<rte_stage> {
    if has_deferred { vec![stage(RTE_HOT, pass), stage(RTE_DEFERRED, finish)] } else { vec![stage(RTE_HOT, finish)] }
}

/// The model, with a count of the ledger that its `destroy` gives back. An engine must be made of it.
pub fn own_model(stages: &[rte_stage], ledger: &Arc<Ledger>, flags: u32) -> rte_model {
    rte_model {
        flags: RTE_MODEL_OWN_OUTPUT | flags,
        user: Arc::into_raw(ledger.clone()).cast_mut().cast(),
        release_output: Some(release_output),
        destroy: Some(destroy),
        ..model(stages, u32::try_from(ledger.max_sessions).expect("few sessions"), CHUNK)
    }
}

fn ledger_of<'a>(user: *mut c_void) -> &'a Ledger {
    // SAFETY: `user` is the ledger of `own_model`, of which the engine holds a count until `destroy`.
    unsafe { &*user.cast::<Ledger>() }
}

unsafe extern "C-unwind" fn pass(user: *mut c_void, _: *mut rte_batch, stream: rte_stream) -> rte_status {
    let ledger = ledger_of(user);
    enqueue(ledger, stream, ledger.knobs().length);
    0
}

fn enqueue(ledger: &Ledger, stream: rte_stream, length: u64) -> u64 {
    ledger.device.as_ref().map_or(0, |device| device.enqueue(stream, length))
}

/// What a stage says of a row.
#[derive(Clone, Copy)]
struct Saying {
    has_pointer: bool,
    size: usize,
    status: i32,
}

const A_CHUNK: Saying = Saying { has_pointer: true, size: CHUNK, status: 0 };
const TOO_LARGE: Saying = Saying { size: CHUNK + 1, ..A_CHUNK };

/// What else it may say.
const MISHAPS: [Saying; 6] = [
    Saying { size: 0, ..A_CHUNK },
    Saying { has_pointer: false, size: 0, status: 0 },
    Saying { has_pointer: false, ..A_CHUNK },
    TOO_LARGE,
    Saying { status: HOST_ERROR, ..A_CHUNK },
    Saying { has_pointer: false, size: 0, status: HOST_ERROR },
];

unsafe extern "C-unwind" fn finish(user: *mut c_void, raw: *mut rte_batch, stream: rte_stream) -> rte_status {
    let ledger = ledger_of(user);
    // SAFETY: the engine gave the batch of a model with so many rows.
    let mut batch = unsafe { Batch::new(raw, ledger.max_sessions) };
    let knobs = ledger.knobs();
    let done_at = enqueue(ledger, stream, knobs.length);
    let result = if ledger.once_in(knobs.batch_mishaps) { HOST_ERROR } else { knobs.result };
    for member in batch.members() {
        if batch.has_output(member) {
            ledger.complain("an output of the model's own is there on entry");
        }
        let saying = match knobs.too_large {
            Some(session) if session == member.session => TOO_LARGE,
            _ if ledger.once_in(knobs.row_mishaps) => MISHAPS[ledger.below(MISHAPS.len() as u64) as usize],
            _ => A_CHUNK,
        };
        say(ledger, &mut batch, member, saying, result, done_at);
    }
    result
}

fn say(ledger: &Ledger, batch: &mut Batch<'_>, member: Member, saying: Saying, result: i32, done_at: u64) {
    if saying.has_pointer {
        let is_chunks = result == 0 && saying.status == 0 && saying.size > 0;
        let address = ledger.hand_over([member.generation, member.age], is_chunks, done_at);
        batch.set_output(member, std::ptr::with_exposed_provenance_mut(address));
    } else {
        batch.set_output(member, null_mut());
    }
    batch.set_output_size(member, saying.size);
    batch.fail(member, saying.status);
}

unsafe extern "C-unwind" fn release_output(user: *mut c_void, data: *mut c_void) {
    ledger_of(user).back(data.addr());
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    ledger_of(user).destroy();
    // SAFETY: gives back the count that `own_model` took; the engine calls this once.
    drop(unsafe { Arc::from_raw(user.cast::<Ledger>()) });
}
