//! What the queues' comments promise, in every order of a few threads' steps and with every value that the memory model
//! lets them see. `make model` runs it.

use std::sync::Arc;

use crate::sync::{UnsafeCell, in_every_order};

mod inbox;
mod outbox;
mod pool;
mod ready;
mod ring;
mod shelf;

/// Something that one thread at a time may use: the checker fails where two uses are not ordered.
#[derive(Clone)]
struct Witness(Arc<UnsafeCell<()>>);

// SAFETY: that is what is checked.
unsafe impl Send for Witness {}
// SAFETY: as above.
unsafe impl Sync for Witness {}

impl Witness {
    fn new() -> Witness {
        #[allow(clippy::arc_with_non_send_sync, reason = "see above")]
        Witness(Arc::new(UnsafeCell::new(())))
    }

    fn used(&self) {
        if !std::thread::panicking() {
            self.0.with_mut(|_| ());
        }
    }
}
