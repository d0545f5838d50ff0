//! Memory of the host that is not copied: readable from push until its release has run.

/// Bytes that belong to the host. The push that lent them promised that they stay valid and unchanged until the
/// [`Release`] of their message has run; every holder of a `Lent` also holds that release (see `Payload`).
#[derive(Clone, Copy, Debug)]
pub struct Lent {
    address: usize,
    size: usize,
    /// Of a device's memory: not to be read here.
    is_device: bool,
}

impl Lent {
    /// # Safety
    /// `address..address + size` stays readable and unchanged until the release that travels with it has run.
    pub unsafe fn new(address: usize, size: usize) -> Lent {
        Lent { address, size, is_device: false }
    }

    /// Bytes of a device's memory, which are not read here.
    pub fn on_device(address: usize, size: usize) -> Lent {
        Lent { address, size, is_device: true }
    }

    /// Bytes that are lent by nobody: they go when the release is dropped.
    pub fn of_parts(parts: Vec<Box<[u8]>>) -> (Vec<Lent>, Release) {
        let lents = parts.iter().map(|part| Lent {
            address: part.as_ptr().expose_provenance(),
            size: part.len(),
            is_device: false,
        });
        let lents = lents.collect();
        let parts = Box::into_raw(Box::new(parts)).expose_provenance();
        let free = |[parts, _]: [usize; 2]| {
            // SAFETY: from `Box::into_raw` above; a release runs once.
            drop(unsafe { Box::from_raw(std::ptr::with_exposed_provenance_mut::<Vec<Box<[u8]>>>(parts)) });
        };
        (lents, Release::new(free, [parts, 0]))
    }

    /// The bytes; none of a device's. Only while the release that travels with them has not run.
    pub fn bytes(&self) -> &[u8] {
        if self.size == 0 || self.is_device {
            return &[];
        }
        // SAFETY: promised at `new`; the callers are blocks, which hold the payload whose drop runs the release, and
        // who drains the message, which has the release.
        unsafe { std::slice::from_raw_parts(std::ptr::with_exposed_provenance(self.address), self.size) }
    }

    /// Whether they are a device's.
    pub fn is_device(&self) -> bool {
        self.is_device
    }

    /// Where they are.
    pub fn address(&self) -> usize {
        self.address
    }

    /// How many.
    pub fn size(&self) -> usize {
        self.size
    }
}

/// Runs once when it is dropped, on whatever path: the host's `message.release`.
pub struct Release {
    call: fn([usize; 2]),
    words: [usize; 2],
}

impl Release {
    /// `call(words)` is what dropping it does.
    pub fn new(call: fn([usize; 2]), words: [usize; 2]) -> Release {
        Release { call, words }
    }

    /// For a push that was refused: the values stay the caller's, nothing runs.
    pub fn disarm(self) {
        std::mem::forget(self);
    }
}

impl Drop for Release {
    fn drop(&mut self) {
        (self.call)(self.words);
    }
}
