//! Zeroed bytes on cache-line boundaries: what batches and values are made of, so that a stage may read them as any type.

use bytemuck::{Pod, Zeroable};

/// Every array that a stage sees begins on such a boundary.
pub const LINE: usize = 64;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// A fixed number of aligned bytes. Its address does not change, wherever the value itself is moved.
pub struct Memory {
    lines: Box<[Line]>,
    size: usize,
}

impl Memory {
    /// `size` zero bytes, or `None` where the machine has no such room.
    pub fn new(size: usize) -> Option<Memory> {
        let count = size.div_ceil(LINE);
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).ok()?;
        lines.resize(count, Line([0; LINE]));
        Some(Memory { lines: lines.into(), size })
    }

    /// Its bytes.
    pub fn bytes(&self) -> &[u8] {
        &bytemuck::cast_slice(&self.lines)[..self.size]
    }

    /// Its bytes, to be written.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut bytemuck::cast_slice_mut(&mut self.lines)[..self.size]
    }

    /// Where it begins.
    pub fn address(&self) -> usize {
        self.lines.as_ptr().expose_provenance()
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size
    }
}
