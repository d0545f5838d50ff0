//! Zeroed bytes on cache-line boundaries: what batches, values and outputs are made of, so that a stage may read them as
//! any type. Of the process's heap, or of a [`Room`]: memory of a kind that a device asks for.

use std::ops::{Deref, DerefMut};
use std::ptr::NonNull;
use std::sync::Arc;

use bytemuck::{Pod, Zeroable};

/// Every array that a stage sees begins on such a boundary.
pub const LINE: usize = 64;

#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C, align(64))]
struct Line([u8; LINE]);

/// Where memory of another kind comes from. On any thread: memory may outlive the engine.
///
/// # Safety
/// What `take` gives is nobody else's until `give`, begins on a boundary of [`LINE`], and, if `is_host`, may be read and
/// written by the processor.
pub unsafe trait Room: Send + Sync {
    /// The address of `size` bytes, of whatever content; `None` where there are none.
    fn take(&self, size: usize) -> Option<usize>;
    /// They are needed no more. Once for each that was taken.
    fn give(&self, address: usize);
    /// Whether the processor reaches it.
    fn is_host(&self) -> bool;
}

/// A fixed number of aligned bytes. Its address does not change, wherever the value itself is moved.
pub struct Memory {
    place: Place,
    size: usize,
}

enum Place {
    Heap(Box<[Line]>),
    Room { address: usize, room: Arc<dyn Room> },
}

impl Memory {
    /// `size` zero bytes, or `None` where the machine has no such room.
    pub fn new(size: usize) -> Option<Memory> {
        let count = size.div_ceil(LINE);
        let mut lines = Vec::new();
        lines.try_reserve_exact(count).ok()?;
        lines.resize(count, Line([0; LINE]));
        Some(Memory { place: Place::Heap(lines.into()), size })
    }

    /// `size` bytes of `room`, if there is one: zero, if the processor reaches them.
    pub fn new_in(room: Option<&Arc<dyn Room>>, size: usize) -> Option<Memory> {
        let Some(room) = room.filter(|_| size > 0) else { return Memory::new(size) };
        let address = room.take(size)?;
        let mut memory = Memory { place: Place::Room { address, room: room.clone() }, size };
        if room.is_host() {
            memory.bytes_mut().fill(0);
        }
        Some(memory)
    }

    /// Its bytes; none where only a device reaches them.
    pub fn bytes(&self) -> &[u8] {
        match &self.place {
            Place::Heap(lines) => &bytemuck::cast_slice(lines)[..self.size],
            // SAFETY: the room's promise; `&self` excludes writes.
            Place::Room { address, room } if room.is_host() => unsafe {
                std::slice::from_raw_parts(std::ptr::with_exposed_provenance(*address), self.size)
            },
            Place::Room { .. } => &[],
        }
    }

    /// Its bytes, to be written; none where only a device reaches them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        match &mut self.place {
            Place::Heap(lines) => &mut bytemuck::cast_slice_mut(lines)[..self.size],
            // SAFETY: the room's promise; `&mut self` excludes other uses.
            Place::Room { address, room } if room.is_host() => unsafe {
                std::slice::from_raw_parts_mut(std::ptr::with_exposed_provenance_mut(*address), self.size)
            },
            Place::Room { .. } => &mut [],
        }
    }

    /// Where it begins.
    pub fn address(&self) -> usize {
        match &self.place {
            Place::Heap(lines) => lines.as_ptr().expose_provenance(),
            Place::Room { address, .. } => *address,
        }
    }

    /// How many bytes it has.
    pub fn size(&self) -> usize {
        self.size
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        if let Place::Room { address, room } = &self.place {
            room.give(*address);
        }
    }
}

/// One piece of memory that arrays are cut from, so that what asks for many takes from its room once.
pub struct Land {
    memory: Arc<Memory>,
    begin: usize,
    used: usize,
}

impl Land {
    /// Room for arrays of `sizes` bytes.
    pub fn new(room: Option<&Arc<dyn Room>>, sizes: impl Iterator<Item = usize>) -> Option<Land> {
        let mut sizes = sizes.map(|size| size.checked_next_multiple_of(LINE));
        let size = sizes.try_fold(0usize, |sum, size| sum.checked_add(size?))?;
        let mut memory = Memory::new_in(room, size)?;
        // Made from an exclusive borrow: the arrays are written through it.
        let begin = memory.bytes_mut().as_mut_ptr().expose_provenance();
        Some(Land { memory: Arc::new(memory), begin, used: 0 })
    }

    /// The next array, of `count` zeros. There must be room for it.
    pub fn array<T: Pod>(&mut self, count: usize) -> Array<T> {
        let size = count * size_of::<T>();
        assert!(align_of::<T>() <= LINE && self.used + size <= self.memory.size(), "asked for when the land was made");
        let start = std::ptr::with_exposed_provenance_mut(self.begin + self.used);
        self.used += size.next_multiple_of(LINE);
        let start = NonNull::new(start).expect("memory is not at 0");
        Array { start, count, _memory: self.memory.clone() }
    }
}

/// A fixed number of elements, at an address that does not change.
pub struct Array<T> {
    /// `count` elements of `memory`, which no other array has, and which nobody else touches.
    start: NonNull<T>,
    count: usize,
    _memory: Arc<Memory>,
}

// SAFETY: the elements are the array's alone, and plain data.
unsafe impl<T: Pod + Send> Send for Array<T> {}
// SAFETY: a shared array only lets them be read.
unsafe impl<T: Pod + Sync> Sync for Array<T> {}

impl<T> Deref for Array<T> {
    type Target = [T];

    fn deref(&self) -> &[T] {
        // SAFETY: see `start`; any bytes are a `T`, which `Land::array` asks to be plain data.
        unsafe { std::slice::from_raw_parts(self.start.as_ptr(), self.count) }
    }
}

impl<T> DerefMut for Array<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        // SAFETY: as above, and `&mut self` excludes other uses.
        unsafe { std::slice::from_raw_parts_mut(self.start.as_ptr(), self.count) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::{AtomicUsize, Ordering};

    #[test]
    fn arrays_of_one_land_are_zero_aligned_and_apart() {
        let sizes = [3 * 4, 5 * 8, 0, 65];
        let mut land = Land::new(None, sizes.into_iter()).unwrap();
        let (mut a, mut b, none, mut c) =
            (land.array::<u32>(3), land.array::<u64>(5), land.array::<u8>(0), land.array::<u8>(65));
        drop(land);
        assert!(none.is_empty() && a.iter().all(|x| *x == 0) && c.iter().all(|x| *x == 0));
        a.fill(u32::MAX);
        c.fill(7);
        assert!(b.iter().all(|x| *x == 0));
        b.fill(1);
        assert!(a.iter().all(|x| *x == u32::MAX) && b.iter().all(|x| *x == 1) && c[64] == 7);
        assert!([a.as_ptr() as usize, b.as_ptr() as usize, c.as_ptr() as usize].iter().all(|at| at % LINE == 0));
    }

    /// Rooms of lines on the heap; counts what is out.
    struct Counted(AtomicUsize, bool);

    // SAFETY: a leaked box, of whole lines, until it is given back.
    unsafe impl Room for Counted {
        fn take(&self, size: usize) -> Option<usize> {
            self.0.fetch_add(1, Ordering::Relaxed);
            assert!(size <= LINE);
            Some(Box::into_raw(Box::new(Line([9; LINE]))).expose_provenance())
        }

        fn give(&self, address: usize) {
            self.0.fetch_sub(1, Ordering::Relaxed);
            // SAFETY: from `take`, given back once.
            drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Line>(address)) });
        }

        fn is_host(&self) -> bool {
            self.1
        }
    }

    #[test]
    fn memory_of_a_room_goes_back_once_and_is_read_only_where_the_processor_reaches_it() {
        for is_host in [true, false] {
            let counted = Arc::new(Counted(AtomicUsize::new(0), is_host));
            let room: Arc<dyn Room> = counted.clone();
            let memory = Memory::new_in(Some(&room), 60).unwrap();
            assert_eq!(memory.bytes(), if is_host { &[0; 60][..] } else { &[] });
            assert!(memory.size() == 60 && memory.address().is_multiple_of(LINE));
            drop(memory);
            assert_eq!(counted.0.load(Ordering::Relaxed), 0);
        }
    }
}
