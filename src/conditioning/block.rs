//! Immutable counted values, and the store that makes and reuses them.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{Lent, Release};
use crate::memory::{LINE, Memory};
use crate::word::RawEvent;

/// One value. Immutable while anyone but the store holds it.
pub struct Block {
    content: Content,
    revision: u64,
    identity: u64,
}

enum Content {
    Empty,
    Copied { memory: Memory, size: usize },
    Lent { lent: Lent, payload: Arc<Payload> },
}

/// What the lent values of one message share.
pub struct Payload {
    /// Runs when the last of them is given up.
    release: Option<Release>,
    /// Behind which those on a device are complete; 0: they are. Read and written by the engine's thread alone.
    ready: AtomicUsize,
}

impl Block {
    /// Its bytes; none where only a device reaches them.
    pub fn bytes(&self) -> &[u8] {
        match &self.content {
            Content::Empty => &[],
            Content::Copied { memory, size } => &memory.bytes()[..*size],
            Content::Lent { lent, .. } => lent.bytes(),
        }
    }

    /// How many.
    pub fn size(&self) -> usize {
        match &self.content {
            Content::Empty => 0,
            Content::Copied { size, .. } => *size,
            Content::Lent { lent, .. } => lent.size(),
        }
    }

    /// Where they are.
    pub fn address(&self) -> usize {
        match &self.content {
            Content::Empty => 0,
            Content::Copied { memory, .. } => memory.address(),
            Content::Lent { lent, .. } => lent.address(),
        }
    }

    /// The host's word for what they say; 0 = none.
    pub fn revision(&self) -> u64 {
        self.revision
    }

    /// Differs from that of every other block of the same store, reused ones included.
    pub fn identity(&self) -> u64 {
        self.identity
    }

    /// Whether it is the host's memory.
    pub fn is_lent(&self) -> bool {
        matches!(self.content, Content::Lent { .. })
    }

    /// Whether only a device reaches it.
    pub fn is_device(&self) -> bool {
        matches!(self.content, Content::Lent { lent, .. } if lent.is_device())
    }

    /// Behind which it is complete; `None` where it is.
    pub fn ready(&self) -> Option<RawEvent> {
        let Content::Lent { lent, payload } = &self.content else { return None };
        let ready = payload.ready.load(Ordering::Relaxed);
        (lent.is_device() && ready != 0).then_some(RawEvent(ready))
    }

    /// That has passed. Of a value that is not on a device nobody waits for it, and this says nothing.
    pub fn note_ready(&self) {
        if let Content::Lent { lent, payload } = &self.content
            && lent.is_device()
        {
            payload.ready.store(0, Ordering::Relaxed);
        }
    }
}

/// Whether two values are the same: by revision where both have one, else bit for bit, which of a device's memory nobody
/// can tell. Absent equals absent alone.
pub fn same(a: Option<&Arc<Block>>, b: Option<&Arc<Block>>) -> bool {
    match (a, b) {
        (None, None) => true,
        (Some(a), Some(b)) if Arc::ptr_eq(a, b) => true,
        (Some(a), Some(b)) if a.revision != 0 && b.revision != 0 => a.revision == b.revision,
        (Some(a), Some(b)) => !a.is_device() && !b.is_device() && a.bytes() == b.bytes(),
        _ => false,
    }
}

/// Sizes of copied values are rounded up to a power of two; one list of spare blocks for each.
const CLASSES: usize = usize::BITS as usize;

/// Makes blocks, and takes them back. Used by the engine's thread alone. In a steady state nothing is allocated: what
/// was given up is made new again.
pub struct Store {
    copied: Vec<Vec<Arc<Block>>>,
    lent: Vec<Arc<Block>>,
    payloads: Vec<Arc<Payload>>,
    keep: usize,
    identities: u64,
}

impl Store {
    /// A store that keeps at most `keep` spare blocks of a size.
    pub fn new(keep: usize) -> Store {
        Store {
            copied: (0..CLASSES).map(|_| Vec::new()).collect(),
            lent: Vec::new(),
            payloads: Vec::new(),
            keep,
            identities: 0,
        }
    }

    fn identity(&mut self) -> u64 {
        self.identities += 1;
        self.identities
    }

    /// A block with a copy of `bytes`; `None` where there is no memory.
    pub fn copy(&mut self, bytes: &[u8], revision: u64) -> Option<Arc<Block>> {
        let room = bytes.len().next_power_of_two().max(LINE);
        let identity = self.identity();
        let spare = self.copied[room.trailing_zeros() as usize].pop();
        let mut block = match spare {
            Some(block) => block,
            None => {
                let memory = Memory::new(room)?;
                Arc::new(Block { content: Content::Copied { memory, size: 0 }, revision: 0, identity: 0 })
            }
        };
        let inside = Arc::get_mut(&mut block)?;
        if let Content::Copied { memory, size } = &mut inside.content {
            memory.bytes_mut()[..bytes.len()].copy_from_slice(bytes);
            *size = bytes.len();
        }
        (inside.revision, inside.identity) = (revision, identity);
        Some(block)
    }

    /// What the lent values of one message share. Give it to [`Store::settle`] when all of them were made.
    pub fn payload(&mut self, release: Option<Release>, ready: Option<RawEvent>) -> Arc<Payload> {
        let ready = AtomicUsize::new(ready.map_or(0, |event| event.0));
        let Some(mut payload) = self.payloads.pop() else { return Arc::new(Payload { release, ready }) };
        if let Some(inside) = Arc::get_mut(&mut payload) {
            *inside = Payload { release, ready };
        }
        payload
    }

    /// A block that shows `lent`.
    pub fn lend(&mut self, lent: Lent, revision: u64, payload: &Arc<Payload>) -> Arc<Block> {
        let identity = self.identity();
        let content = Content::Lent { lent, payload: payload.clone() };
        let spare = self.lent.pop();
        let Some(mut block) = spare else { return Arc::new(Block { content, revision, identity }) };
        if let Some(inside) = Arc::get_mut(&mut block) {
            *inside = Block { content, revision, identity };
        }
        block
    }

    /// Gives up a hold on a block. The last one makes it spare, and runs its release if it was lent.
    pub fn give(&mut self, mut block: Arc<Block>) {
        let Some(inside) = Arc::get_mut(&mut block) else { return };
        match &inside.content {
            Content::Copied { memory, .. } => {
                let list = &mut self.copied[memory.size().trailing_zeros() as usize];
                if list.len() < self.keep {
                    list.push(block);
                }
            }
            Content::Lent { .. } => {
                if let Content::Lent { payload, .. } = std::mem::replace(&mut inside.content, Content::Empty) {
                    self.settle(payload);
                }
                if self.lent.len() < self.keep {
                    self.lent.push(block);
                }
            }
            Content::Empty => {}
        }
    }

    /// Gives up a hold on a payload. The last one runs the release.
    pub fn settle(&mut self, mut payload: Arc<Payload>) {
        let Some(inside) = Arc::get_mut(&mut payload) else { return };
        drop(inside.release.take());
        if self.payloads.len() < self.keep {
            self.payloads.push(payload);
        }
    }

    /// Puts `value` in `place` and gives up what was there.
    pub fn replace(&mut self, place: &mut Option<Arc<Block>>, value: Option<Arc<Block>>) {
        if let Some(old) = std::mem::replace(place, value) {
            self.give(old);
        }
    }

    /// Gives up a whole table.
    pub fn clear(&mut self, table: &mut [Option<Arc<Block>>]) {
        for place in table {
            self.replace(place, None);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    static RELEASED: AtomicUsize = AtomicUsize::new(0);

    #[test]
    fn a_release_runs_once_when_the_last_value_is_given_up() {
        let bytes = [7u8; 3];
        let mut store = Store::new(4);
        let release = Release::new(|_| _ = RELEASED.fetch_add(1, Ordering::Relaxed), [0; 2]);
        let payload = store.payload(Some(release), None);
        // SAFETY: `bytes` outlives the store.
        let lent = unsafe { Lent::new(bytes.as_ptr().expose_provenance(), 3) };
        let (a, b) = (store.lend(lent, 0, &payload), store.lend(lent, 0, &payload));
        store.settle(payload);
        let again = a.clone();
        store.give(a);
        store.give(b);
        assert_eq!(RELEASED.load(Ordering::Relaxed), 0);
        assert_eq!(again.bytes(), bytes);
        store.give(again);
        assert_eq!(RELEASED.load(Ordering::Relaxed), 1);
    }

    #[test]
    fn the_event_of_a_message_is_waited_for_until_it_has_passed_for_a_value_on_a_device() {
        let mut store = Store::new(4);
        let payload = store.payload(None, Some(RawEvent(9)));
        let bytes = [7u8; 3];
        // SAFETY: `bytes` outlives the store.
        let lent = unsafe { Lent::new(bytes.as_ptr().expose_provenance(), 3) };
        let (here, there) = (store.lend(lent, 0, &payload), store.lend(Lent::on_device(64, 3), 1, &payload));
        assert_eq!((here.ready(), there.ready()), (None, Some(RawEvent(9))));
        here.note_ready();
        assert_eq!(there.ready(), Some(RawEvent(9)), "nobody has waited for it");
        there.note_ready();
        assert_eq!(there.ready(), None);
    }

    #[test]
    fn equality_is_by_revision_where_both_have_one() {
        let mut store = Store::new(4);
        let (a, b, c) = (store.copy(b"x", 1), store.copy(b"y", 1), store.copy(b"x", 0));
        assert!(same(a.as_ref(), b.as_ref()) && same(a.as_ref(), c.as_ref()) && !same(b.as_ref(), c.as_ref()));
        assert!(!same(a.as_ref(), None) && same(None, None));
    }
}
