//! A batch as a stage sees it.

use rte::abi::message::rte_value;
use rte::abi::model::rte_batch;
use rte::abi::status::rte_status;

/// A batch, for as long as the callback runs that was given it.
pub struct Batch<'a> {
    raw: &'a mut rte_batch,
    max_sessions: usize,
}

/// A real row of a batch: its place in the arrays, and what stands there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Member {
    /// Position in the arrays.
    pub at: usize,
    /// Row of the arena.
    pub row: usize,
    /// Whose row it is.
    pub session: u64,
    /// Of its ATTACH.
    pub user: u64,
    /// Which life.
    pub generation: u64,
    /// Chunks made before this one.
    pub age: u64,
    /// Keys that the lane has not seen yet as they are now, one bit each.
    pub changed: u64,
}

impl<'a> Batch<'a> {
    /// # Safety
    ///
    /// `raw` is the batch that a callback of a model with `max_sessions` rows was given, and outlives `'a`.
    pub unsafe fn new(raw: *mut rte_batch, max_sessions: usize) -> Self {
        // SAFETY: the caller's promise.
        let raw = unsafe { &mut *raw };
        Self { raw, max_sessions }
    }

    /// Index of the stage, or the number of the hook.
    pub fn stage(&self) -> u32 {
        self.raw.stage
    }

    /// Which of the two latents is meant.
    pub fn slot(&self) -> usize {
        self.raw.slot as usize
    }

    /// Ticks run before this one.
    pub fn tick(&self) -> u64 {
        self.raw.tick
    }

    /// Positions of the batch, padding included.
    pub fn count(&self) -> usize {
        self.raw.count as usize
    }

    /// By row of the arena: 1 if it is in the batch.
    pub fn mask(&self) -> &[u8] {
        // SAFETY: the mask has one byte for each row of the arena.
        unsafe { std::slice::from_raw_parts(self.raw.mask, self.max_sessions) }
    }

    /// The rows of the batch, without padding.
    pub fn members(&self) -> Vec<Member> {
        let positions = 0..self.raw.count as usize;
        positions.map(|at| self.member(at)).filter(|member| self.is_real(member.row)).collect()
    }

    /// Rows that only fill a dense batch up.
    pub fn padding(&self) -> Vec<Member> {
        let positions = 0..self.raw.count as usize;
        positions.map(|at| self.member(at)).filter(|member| !self.is_real(member.row)).collect()
    }

    fn member(&self, at: usize) -> Member {
        // SAFETY: the arrays of a batch are `count` long, and `at` is below it.
        unsafe {
            Member {
                at,
                row: *self.raw.row.add(at) as usize,
                session: *self.raw.session.add(at),
                user: *self.raw.user.add(at),
                generation: *self.raw.generation.add(at),
                age: *self.raw.age.add(at),
                changed: *self.raw.changed.add(at),
            }
        }
    }

    fn is_real(&self, row: usize) -> bool {
        assert!(row < self.max_sessions, "row {row} of a batch is outside the arena");
        // SAFETY: the mask has one byte for each row of the arena.
        unsafe { *self.raw.mask.add(row) == 1 }
    }

    /// A key's value as it stands: where it is, and what is said of it.
    pub fn raw_value(&self, member: Member, key: usize) -> rte_value {
        // SAFETY: `value` has one pointer a position, each to one value for each key of the model.
        let value = unsafe { (*self.raw.value.add(member.at)).add(key).read() };
        assert_eq!(value.key as usize, key, "a value stands where another key's should");
        value
    }

    /// The bytes of a key's value; `None` where the key is absent.
    pub fn value(&self, member: Member, key: usize) -> Option<&[u8]> {
        let value = self.raw_value(member, key);
        // SAFETY: a present value's bytes are valid as long as the batch.
        (value.size > 0).then(|| unsafe { std::slice::from_raw_parts(value.data.cast::<u8>(), value.size) })
    }

    /// The bytes of a key with a declared size, as its column has them; zero where the key is absent.
    pub fn cell(&self, member: Member, key: usize, size: usize) -> &[u8] {
        // SAFETY: the column of a key with a size has `size` bytes for each position.
        unsafe {
            let column = *self.raw.column.add(key);
            std::slice::from_raw_parts(column.cast::<u8>().add(member.at * size), size)
        }
    }

    /// Whether the batch has a place for outputs at all.
    pub fn has_outputs(&self) -> bool {
        !self.raw.output.is_null()
    }

    /// Where the model is asked for an output of this row; `None`: nowhere.
    pub fn output(&self, member: Member) -> Option<*mut u8> {
        // SAFETY: `output` is NULL, or has one pointer a position.
        let output = (!self.raw.output.is_null()).then(|| unsafe { *self.raw.output.add(member.at) })?;
        (!output.is_null()).then_some(output.cast())
    }

    /// Whether the model is asked for an output here.
    pub fn has_output(&self, member: Member) -> bool {
        self.output(member).is_some()
    }

    /// Puts a pointer of the model's own where a row's output goes.
    pub fn set_output(&mut self, member: Member, output: *mut u8) {
        // SAFETY: the lane that ends the chunk has one pointer a position.
        unsafe { *self.raw.output.add(member.at) = output.cast() };
    }

    /// Fills a row's output with these bytes.
    pub fn write(&mut self, member: Member, bytes: &[u8]) {
        self.fill_output(member, bytes);
        self.set_output_size(member, bytes.len());
    }

    /// Writes these bytes where a row's output goes, and does not say so.
    pub fn fill_output(&mut self, member: Member, bytes: &[u8]) {
        assert!(bytes.len() <= self.raw.chunk_bytes, "more bytes than a chunk has room for");
        let output = self.output(member).expect("a place for an output");
        // SAFETY: the lane that ends the chunk has `chunk_bytes` for each real row.
        unsafe { output.copy_from_nonoverlapping(bytes.as_ptr(), bytes.len()) };
    }

    /// Says that the output of a row is at `own`, of the model's.
    pub fn set_own_output(&mut self, member: Member, own: *mut u8) {
        // SAFETY: one place for each position.
        unsafe { *self.raw.output.add(member.at) = own.cast() };
    }

    /// Says how many bytes a row's output has.
    pub fn set_output_size(&mut self, member: Member, size: usize) {
        // SAFETY: one size for each position.
        unsafe { *self.raw.output_size.add(member.at) = size };
    }

    /// Says how many frames a row's output has.
    pub fn set_frames(&mut self, member: Member, frames: u32) {
        // SAFETY: one number for each position.
        unsafe { *self.raw.frames.add(member.at) = frames };
    }

    /// The status of a row as it stands.
    pub fn status(&self, member: Member) -> rte_status {
        // SAFETY: one status for each position.
        unsafe { *self.raw.status.add(member.at) }
    }

    /// Fails one row.
    pub fn fail(&mut self, member: Member, status: rte_status) {
        // SAFETY: one status for each position.
        unsafe { *self.raw.status.add(member.at) = status }
    }
}
