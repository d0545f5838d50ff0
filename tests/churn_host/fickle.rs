//! A model that fails in every way but one: each hook and stage as a whole, each row alone, with statuses and with numbers
//! that are none, and outputs of sizes that cannot be. (It never says DEAD.) What fails follows from the seed, whatever
//! thread runs it.

use std::collections::HashSet;
use std::ffi::c_void;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};

use crate::driver::*;
use crate::host::batch::{Batch, Member};
use crate::random::mix;

/// What a model of this kind is.
#[derive(Clone, Copy, Debug)]
pub struct Nature {
    pub seed: u64,
    pub rows: u32,
    pub flags: u32,
    pub has_deferred: bool,
    pub has_encode: bool,
}

/// One model. Its counts are read when the engine has stopped.
pub struct Fickle {
    nature: Nature,
    /// Nothing fails any more.
    pub is_calm: AtomicBool,
    /// Lives whose seed has succeeded and whose detach has not come.
    seeded: Mutex<HashSet<u64>>,
    pub seeds: AtomicU64,
    pub detaches: AtomicU64,
    pub failures: AtomicU64,
    /// Outputs of its own that are the engine's now.
    owned: Mutex<HashSet<usize>>,
    pub destroyed: AtomicU64,
}

/// The heavy key; the other one is a sum.
pub const PROMPT: u32 = 1;
pub const CHUNK_BYTES: usize = 32;

/// What may go wrong: two statuses of the host's, two of the library's, and two numbers that are none.
const STATUSES: [i32; 6] = [-1000, -4711, -3, -6, 7, -99];

impl Fickle {
    pub fn new(nature: Nature) -> Fickle {
        Fickle {
            nature,
            is_calm: AtomicBool::new(false),
            seeded: Mutex::default(),
            seeds: AtomicU64::new(0),
            detaches: AtomicU64::new(0),
            failures: AtomicU64::new(0),
            owned: Mutex::default(),
            destroyed: AtomicU64::new(0),
        }
    }

    /// As a C model. Its stages and keys must live until the engine is made, it until that is freed.
    pub fn table(&self, stages: &[rte_stage], keys: &[rte_key]) -> rte_model {
        rte_model {
            flags: self.nature.flags,
            user: std::ptr::from_ref(self).cast_mut().cast(),
            keys: keys.as_ptr(),
            key_count: keys.len() as u32,
            ready: Some(ready),
            seed: Some(seed),
            detach: Some(detach),
            finalize: Some(finalize),
            release_output: if self.owns_outputs() { Some(release_output) } else { None },
            destroy: Some(destroy),
            ..model(stages, self.nature.rows, CHUNK_BYTES)
        }
    }

    pub fn stages(&self) -> Vec<rte_stage> {
        let lanes = [
            (RTE_HOT, true),
            (RTE_HOT, true),
            (RTE_DEFERRED, self.nature.has_deferred),
            (RTE_ENCODE, self.nature.has_encode),
        ];
        lanes.iter().filter(|(_, is_there)| *is_there).map(|(lane, _)| stage(*lane, step)).collect()
    }

    pub fn keys(&self) -> Vec<rte_key> {
        let wheel = rte_key { r#type: RTE_I64, size: 8, merge: RTE_MERGE_SUM, ..zeroed() };
        let flags = if self.nature.has_encode { RTE_KEY_HEAVY } else { 0 };
        vec![wheel, rte_key { flags, ..zeroed() }]
    }

    fn owns_outputs(&self) -> bool {
        self.nature.flags & RTE_MODEL_OWN_OUTPUT != 0
    }

    /// One in `odds` fails; `of`: what must be the same for it to be the same again.
    fn fails(&self, odds: u64, of: [u64; 3]) -> i32 {
        let mixed = of.iter().fold(mix(self.nature.seed), |mixed, number| mix(mixed ^ number));
        if self.is_calm.load(SeqCst) || !mixed.is_multiple_of(odds) {
            return 0;
        }
        self.failures.fetch_add(1, SeqCst);
        STATUSES[(mixed >> 32) as usize % STATUSES.len()]
    }

    /// Whether the whole call fails, and else which of its rows.
    fn judge(&self, batch: &mut Batch) -> Result<(), i32> {
        let (stage, tick) = (u64::from(batch.stage()), batch.tick());
        let members = batch.members();
        let first = members.first().expect("no batch is empty").generation;
        match self.fails(6, [stage, tick, first]) {
            0 => {}
            status => return Err(status),
        }
        for member in members {
            match self.fails(12, [stage ^ 1 << 40, tick, member.generation]) {
                0 => {}
                status => batch.fail(member, status),
            }
        }
        Ok(())
    }

    /// A chunk, or none, or one that says it is too large.
    fn finish(&self, batch: &mut Batch, member: Member) {
        if !self.owns_outputs() && !batch.has_output(member) || batch.status(member) != 0 {
            return;
        }
        let size = match mix(member.generation ^ member.age << 32) % 16 {
            0 => 0,
            1 if !self.is_calm.load(SeqCst) => CHUNK_BYTES + 1,
            _ => CHUNK_BYTES,
        };
        batch.set_output_size(member, size);
        if self.owns_outputs() && size > 0 {
            let own = Box::into_raw(Box::new([member.row as u8; CHUNK_BYTES]));
            batch.set_own_output(member, own.cast());
            self.owned.lock().unwrap().insert(own.addr());
        }
    }

    /// What must hold when no callback will run any more.
    pub fn expect_all_back(&self) {
        assert!(self.seeded.lock().unwrap().is_empty(), "detach is owed to {:?}", self.seeded.lock().unwrap());
        assert_eq!(self.seeds.load(SeqCst), self.detaches.load(SeqCst));
        assert_eq!(self.destroyed.load(SeqCst), 1, "the model comes back once");
        assert!(self.owned.lock().unwrap().is_empty(), "outputs of the model's own come back");
    }
}

/// The model and the batch of a callback.
unsafe fn called<'a>(user: *mut c_void, batch: *mut rte_batch) -> (&'a Fickle, Batch<'a>) {
    // SAFETY: as a stage is called.
    unsafe {
        let fickle = &*user.cast::<Fickle>();
        (fickle, Batch::new(batch, fickle.nature.rows as usize))
    }
}

unsafe extern "C-unwind" fn ready(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called.
    let (fickle, batch) = unsafe { called(user, batch) };
    match fickle.fails(8, [u64::from(batch.stage()), batch.tick(), 0]) {
        -3 => 1,
        status => status,
    }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called.
    let (fickle, mut batch) = unsafe { called(user, batch) };
    if let Err(status) = fickle.judge(&mut batch) {
        return status;
    }
    for member in batch.members().into_iter().filter(|member| batch.status(*member) == 0) {
        assert!(fickle.seeded.lock().unwrap().insert(member.generation), "seeded twice: {member:?}");
        fickle.seeds.fetch_add(1, SeqCst);
    }
    0
}

unsafe extern "C-unwind" fn step(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called.
    let (fickle, mut batch) = unsafe { called(user, batch) };
    if let Err(status) = fickle.judge(&mut batch) {
        return status;
    }
    let is_last = batch.stage() == if fickle.nature.has_deferred { 2 } else { 1 };
    if is_last {
        batch.members().into_iter().for_each(|member| fickle.finish(&mut batch, member));
    }
    0
}

unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called.
    let (fickle, batch) = unsafe { called(user, batch) };
    let [member] = batch.members()[..] else { panic!("detach is for one row") };
    assert!(fickle.seeded.lock().unwrap().remove(&member.generation), "detached without a seed, or twice: {member:?}");
    fickle.detaches.fetch_add(1, SeqCst);
    fickle.fails(4, [u64::from(batch.stage()), 0, member.generation])
}

unsafe extern "C-unwind" fn finalize(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as a stage is called.
    let (fickle, batch) = unsafe { called(user, batch) };
    fickle.fails(6, [u64::from(batch.stage()), batch.tick(), 0])
}

unsafe extern "C-unwind" fn release_output(user: *mut c_void, data: *mut c_void) {
    // SAFETY: as the hook is called.
    let fickle = unsafe { &*user.cast::<Fickle>() };
    assert!(fickle.owned.lock().unwrap().remove(&data.addr()), "given back twice, or never given");
    // SAFETY: made by `finish`, and given back once.
    drop(unsafe { Box::from_raw(data.cast::<[u8; CHUNK_BYTES]>()) });
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: as the hook is called.
    unsafe { (*user.cast::<Fickle>()).destroyed.fetch_add(1, SeqCst) };
}
