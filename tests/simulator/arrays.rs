//! A batch's arrays as a device sees them: by address, at a time of its own choosing.

use std::hash::{DefaultHasher, Hasher};

use rte::abi::message::rte_value;
use rte::batch::{Arrays, Batch};
use rte::conditioning::Keys;

/// Where a batch's arrays are, and what was in them when its work was submitted.
pub struct Snapshot {
    arrays: Arrays,
    rows: usize,
    /// By key: bytes of a position in the key's column.
    sizes: Vec<usize>,
    sum: u64,
}

impl Snapshot {
    /// Of a batch as it is now.
    pub fn of(batch: &mut Batch, keys: &Keys, rows: usize) -> Snapshot {
        let sizes = keys.iter().map(|(_, spec)| spec.size).collect();
        let mut snapshot = Snapshot { arrays: batch.arrays(), rows, sizes, sum: 0 };
        snapshot.sum = snapshot.now();
        snapshot
    }

    /// Whether every array says what it said at submit.
    pub fn is_unchanged(&self) -> bool {
        self.now() == self.sum
    }

    /// The buffer that the row at `at` writes its chunk to; 0: none.
    pub fn output(&self, at: usize) -> usize {
        if self.arrays.output == 0 { 0 } else { self.words(self.arrays.output)[at] }
    }

    fn now(&self) -> u64 {
        let (arrays, count) = (&self.arrays, self.arrays.count as usize);
        let mut hasher = DefaultHasher::new();
        let numbers = [arrays.row, arrays.frames, arrays.status].map(|array| (array, 4 * count));
        let longs = [arrays.session, arrays.user, arrays.generation, arrays.age, arrays.changed, arrays.output_size]
            .map(|array| (array, 8 * count));
        let rest = [(arrays.mask, self.rows), (arrays.output, if arrays.output == 0 { 0 } else { 8 * count })];
        for (array, size) in numbers.into_iter().chain(longs).chain(rest) {
            hasher.write(bytes(array, size));
        }
        for table in self.words(arrays.value) {
            hasher.write(bytes(*table, self.sizes.len() * size_of::<rte_value>()));
        }
        for (key, size) in self.sizes.iter().enumerate().filter(|(_, size)| **size > 0) {
            // SAFETY: the array of columns has one address a key.
            let column = unsafe { *std::ptr::with_exposed_provenance::<usize>(arrays.column).add(key) };
            hasher.write(bytes(column, size * count));
        }
        hasher.finish()
    }

    fn words(&self, array: usize) -> &[usize] {
        // SAFETY: an array of one word a position. It is the batch's own memory, which its engine never frees while it
        // lives, and lanes read no arrays once the engine is gone. All is on one thread.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(array), self.arrays.count as usize) }
    }
}

/// Sets how much the row at `at` has written to its buffer, as a stage does.
pub fn set_output_size(batch: &mut Batch, at: usize, size: usize) {
    let sizes = batch.arrays().output_size;
    // SAFETY: `at` is a position of the batch, which is exclusively ours.
    unsafe { *std::ptr::with_exposed_provenance_mut::<usize>(sizes).add(at) = size };
}

/// The age of the row at `at`.
pub fn age(batch: &mut Batch, at: usize) -> u64 {
    let ages = batch.arrays().age;
    // SAFETY: `at` is a position of the batch, which is exclusively ours.
    unsafe { *std::ptr::with_exposed_provenance::<u64>(ages).add(at) }
}

/// What `bytes` say, as one number.
pub fn digest(bytes: &[u8]) -> u64 {
    let mut hasher = DefaultHasher::new();
    hasher.write(bytes);
    hasher.finish()
}

/// What is at `address` now, as one number. Of memory that an honest engine keeps for its readers.
pub fn digest_at(address: usize, size: usize) -> u64 {
    digest(bytes(address, size))
}

fn bytes<'a>(address: usize, size: usize) -> &'a [u8] {
    if size == 0 {
        return &[];
    }
    // SAFETY: a batch's own arrays, see `words`, or a value that an honest engine keeps until the work that was shown it
    // is done; only such work asks.
    unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(address), size) }
}
