//! Children that know when they may be called, fail on request, and are counted.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU64, Ordering::SeqCst};

pub use rte::abi::reference::*;
pub use rte::abi::replica::*;

use super::driver::*;

pub const ARGUMENT: i32 = rte_status_code::RTE_ERR_ARGUMENT as i32;
pub const VERSION: i32 = rte_status_code::RTE_ERR_VERSION as i32;
pub const CALLBACK: i32 = rte_status_code::RTE_ERR_CALLBACK as i32;
pub const UNAVAILABLE: i32 = rte_status_code::RTE_ERR_UNAVAILABLE as i32;
pub const DEAD: i32 = rte_status_code::RTE_ERR_DEAD as i32;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;

/// A key: I64.
pub const MOVE: u32 = 0;

/// Sessions (modulo 10) that fail, and how.
pub const SEED_CALL: u64 = 1;
pub const SEED_ROW: u64 = 2;
pub const HOT_CALL: u64 = 3;
pub const DEFERRED_ROW: u64 = 4;
pub const DETACH_CALL: u64 = 5;
pub const BAD_STATUS: u64 = 6;
pub const DEAD_CALL: u64 = 7;
pub const SEED_CALL_STATUS: i32 = -1001;
pub const SEED_ROW_STATUS: i32 = -1002;
pub const HOT_CALL_STATUS: i32 = -1003;
pub const DEFERRED_ROW_STATUS: i32 = -1004;
pub const DETACH_CALL_STATUS: i32 = -1005;

/// A descriptor that is still to be filled.
pub fn descriptor() -> rte_model {
    rte_model { struct_size: size_of::<rte_model>() as u32, ..zeroed() }
}

/// Where children come from. Outlives them.
pub struct Nursery {
    made: AtomicU64,
    destroyed: AtomicU64,
    in_use: AtomicU64,
    thrown: AtomicU64,
    make_status: AtomicI32,
    is_other: AtomicBool,
    pub is_ready: AtomicU64,
}

impl Default for Nursery {
    fn default() -> Nursery {
        let zero = || AtomicU64::new(0);
        Nursery {
            made: zero(),
            destroyed: zero(),
            in_use: zero(),
            thrown: zero(),
            make_status: AtomicI32::new(0),
            is_other: AtomicBool::new(false),
            is_ready: AtomicU64::new(1),
        }
    }
}

#[derive(Clone, Copy, Debug)]
pub struct Counts {
    pub made: u64,
    pub destroyed: u64,
    pub alive: u64,
    /// Seeded and not detached.
    pub in_use: u64,
    /// Whose seed or detach has failed.
    pub thrown: u64,
}

impl Nursery {
    pub fn user(&self) -> *mut c_void {
        std::ptr::from_ref(self).cast_mut().cast()
    }

    /// A replica model.
    pub fn model(&self, rows: u32) -> rte_model {
        let mut model = descriptor();
        // SAFETY: a descriptor; the nursery outlives the model.
        assert_eq!(unsafe { rte_replica_model(&mut model, rows, Some(make), self.user()) }, 0);
        assert_eq!((model.max_sessions, model.chunk_bytes, model.stage_count, model.key_count), (rows, 8, 4, 1));
        model
    }

    pub fn counts(&self) -> Counts {
        let [made, destroyed, in_use, thrown] =
            [&self.made, &self.destroyed, &self.in_use, &self.thrown].map(|count| count.load(SeqCst));
        Counts { made, destroyed, alive: made - destroyed, in_use, thrown }
    }

    /// From now on `make` returns this.
    pub fn fails_to_make(&self, status: i32) {
        self.make_status.store(status, SeqCst);
    }

    /// From now on children have another chunk size.
    pub fn makes_another_shape(&self) {
        self.fails_to_make(0);
        self.is_other.store(true, SeqCst);
    }
}

/// A child's state. Never touched by two at once: these tests run on inline lanes.
struct Child<'a> {
    nursery: &'a Nursery,
    is_open: bool,
    /// Whose, and how many steps it made.
    life: Option<(u64, u64)>,
    latent: [u64; 2],
    /// What HOT of this life saw last.
    seen: Option<Option<i64>>,
}

pub unsafe extern "C-unwind" fn make(user: *mut c_void, child: *mut rte_model) -> i32 {
    // SAFETY: `user` is a nursery that outlives its children; `child` is a descriptor.
    let (nursery, child) = unsafe { (&*user.cast::<Nursery>(), &mut *child) };
    assert_eq!(
        (child.struct_size as usize, child.max_sessions),
        (size_of::<rte_model>(), 0),
        "empty, but for its size"
    );
    let status = nursery.make_status.load(SeqCst);
    if status != 0 {
        return status;
    }
    nursery.made.fetch_add(1, SeqCst);
    // Gone when this returns: all is copied.
    let stages = Box::leak(Box::new([
        stage(RTE_HOT, think),
        stage(RTE_HOT, look),
        stage(RTE_DEFERRED, show),
        stage(RTE_ENCODE, encode),
    ]));
    let keys = Box::leak(Box::new([rte_key { r#type: RTE_I64, size: 8, name: c"move".as_ptr(), ..zeroed() }]));
    let state = Child { nursery, is_open: false, life: None, latent: [0; 2], seen: None };
    *child = rte_model {
        name: c"child".as_ptr(),
        user: Box::into_raw(Box::new(state)).cast(),
        max_sessions: 1,
        chunk_bytes: if nursery.is_other.load(SeqCst) { 16 } else { 8 },
        keys: keys.as_ptr(),
        key_count: 1,
        stages: stages.as_ptr(),
        stage_count: 4,
        init: Some(init),
        ready: Some(ready),
        seed: Some(seed),
        detach: Some(detach),
        finalize: Some(finalize),
        destroy: Some(destroy),
        ..descriptor()
    };
    0
}

impl<'a> Child<'a> {
    /// # Safety
    /// As a callback of such a child is called.
    unsafe fn of(user: *mut c_void) -> &'a mut Child<'a> {
        // SAFETY: the caller's promise.
        unsafe { &mut *user.cast() }
    }
}

/// What a batch of one says, checked.
struct One {
    session: u64,
    age: u64,
    moved: Option<i64>,
    has_changed: bool,
}

/// # Safety
/// `batch` is the batch of a call.
unsafe fn one(batch: *mut rte_batch, stage: u32) -> One {
    // SAFETY: the arrays of a batch, by position, by key, and by row.
    unsafe {
        let batch = &*batch;
        assert_eq!((batch.count, batch.stage, batch.chunk_bytes), (1, stage, 8));
        assert_eq!((*batch.row, *batch.mask), (0, 1));
        assert_eq!(*batch.user, *batch.session + 5, "of ATTACH");
        assert!(*batch.generation > 0);
        let has_output = !batch.output.is_null() && !(*batch.output).is_null();
        assert_eq!(has_output, stage == 2, "only the stage that ends the chunk has outputs");
        let value = &**batch.value;
        let column = (*batch.column).cast::<i64>().read_unaligned();
        let moved = (value.size > 0).then(|| value.data.cast::<i64>().read_unaligned());
        assert_eq!((column, value.key), (moved.unwrap_or(0), MOVE), "the column is the row's");
        One { session: *batch.session, age: *batch.age, moved, has_changed: *batch.changed != 0 }
    }
}

unsafe extern "C-unwind" fn init(user: *mut c_void, streams: *const rte_stream) -> i32 {
    // SAFETY: a callback of a child; three streams.
    unsafe {
        let child = Child::of(user);
        assert!(!std::mem::replace(&mut child.is_open, true), "once");
        assert!((0..3).all(|lane| (*streams.add(lane)).is_null()));
    }
    0
}

unsafe extern "C-unwind" fn ready(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: a callback of a child.
    let (child, one) = unsafe { (Child::of(user), one(batch, RTE_STAGE_READY)) };
    assert!(child.is_open && child.life.is_none());
    // One of them that is not ready keeps all.
    if child.nursery.is_ready.load(SeqCst) == 0 && one.session % 20 == 0 { AGAIN } else { 0 }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: a callback of a child.
    let (child, one) = unsafe { (Child::of(user), one(batch, RTE_STAGE_SEED)) };
    assert!(child.is_open && child.life.is_none(), "detached before");
    match one.session % 10 {
        SEED_CALL => {
            child.nursery.thrown.fetch_add(1, SeqCst);
            return SEED_CALL_STATUS;
        }
        SEED_ROW => {
            child.nursery.thrown.fetch_add(1, SeqCst);
            // SAFETY: an array by position.
            unsafe { *(*batch).status = SEED_ROW_STATUS };
            return 0;
        }
        _ => {}
    }
    (child.life, child.seen) = (Some((one.session, 0)), None);
    child.nursery.in_use.fetch_add(1, SeqCst);
    0
}

unsafe extern "C-unwind" fn think(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: a callback of a child.
    let (child, one) = unsafe { (Child::of(user), one(batch, 0)) };
    let (session, steps) = child.life.expect("seeded");
    assert_eq!((session, steps), (one.session, one.age));
    let has_changed = child.seen.replace(one.moved).map_or(one.moved.is_some(), |seen| seen != one.moved);
    assert_eq!(one.has_changed, has_changed);
    match one.session % 10 {
        HOT_CALL if steps == 1 => return HOT_CALL_STATUS,
        BAD_STATUS => return 17,
        DEAD_CALL => return DEAD,
        _ => {}
    }
    child.life = Some((session, steps + 1));
    // SAFETY: the batch of a call.
    child.latent[unsafe { (*batch).slot } as usize] = session * 1000 + steps;
    0
}

unsafe extern "C-unwind" fn look(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: a callback of a child.
    let (child, one) = unsafe { (Child::of(user), one(batch, 1)) };
    assert_eq!(child.life, Some((one.session, one.age + 1)), "the stage before has run");
    0
}

unsafe extern "C-unwind" fn show(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: a callback of a child.
    let (child, one) = unsafe { (Child::of(user), one(batch, 2)) };
    // SAFETY: the arrays of a batch.
    unsafe {
        let latent = child.latent[(*batch).slot as usize];
        assert_eq!(latent, one.session * 1000 + one.age);
        if one.session % 10 == DEFERRED_ROW && one.age == 1 {
            *(*batch).status = DEFERRED_ROW_STATUS;
        }
        (*(*batch).output).cast::<u64>().write(latent);
        *(*batch).output_size = 8;
        assert_eq!(*(*batch).frames, 1, "the model's, on entry");
        *(*batch).frames = 2 + one.session as u32;
    }
    0
}

unsafe extern "C-unwind" fn encode(_: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    unreachable!("no key is heavy")
}

unsafe extern "C-unwind" fn finalize(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: a callback of a child.
    let (child, one) = unsafe { (Child::of(user), one(batch, RTE_STAGE_FINALIZE)) };
    assert!(child.life.is_some_and(|(session, _)| session == one.session));
    0
}

unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: a callback of a child.
    let (child, one) = unsafe { (Child::of(user), one(batch, RTE_STAGE_DETACH)) };
    assert!(child.life.take().is_some_and(|(session, _)| session == one.session));
    child.nursery.in_use.fetch_sub(1, SeqCst);
    if one.session % 10 == DETACH_CALL {
        child.nursery.thrown.fetch_add(1, SeqCst);
        return DETACH_CALL_STATUS;
    }
    0
}

unsafe extern "C-unwind" fn destroy(user: *mut c_void) {
    // SAFETY: the last callback of a child; it was made as a box.
    let child = unsafe { Box::from_raw(user.cast::<Child<'_>>()) };
    if child.life.is_some() {
        child.nursery.in_use.fetch_sub(1, SeqCst);
    }
    child.nursery.destroyed.fetch_add(1, SeqCst);
}
