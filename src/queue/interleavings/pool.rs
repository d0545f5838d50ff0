//! A buffer is one user's at a time, a device included, and the memory goes once, when nobody uses any of it.

use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use loom::thread;

use super::{Witness, in_every_order};
use crate::model::{RawEvent, RawStream};
use crate::queue::{Device, Lease, Passage, Pool, Ready, ReleaseFence, Tally};
use crate::sync::atomic::{AtomicBool, Ordering};
use crate::word::Row;

/// Goes with the memory.
struct Memory {
    buffers: [Witness; 2],
    /// Not the checker's: what it counts is looked at when all is over.
    gone: Arc<AtomicUsize>,
    mark: Arc<Mark>,
}

impl ReleaseFence for Memory {
    fn mark(&self, _: RawStream) -> Option<Arc<dyn Passage>> {
        Some(self.mark.clone())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        self.buffers.iter().for_each(Witness::used);
        self.gone.fetch_add(1, Ordering::Relaxed);
    }
}

/// Passes when the device has used a buffer.
#[derive(Default)]
struct Mark(AtomicBool);

impl Passage for Mark {
    fn passed(&self) -> bool {
        self.0.load(Ordering::Acquire)
    }

    fn wait(&self) {
        while !self.passed() {
            thread::yield_now();
        }
    }

    fn event(&self) -> RawEvent {
        RawEvent(0)
    }
}

struct World {
    pool: Pool,
    leases: [Lease; 2],
    buffers: [Witness; 2],
    gone: Arc<AtomicUsize>,
    mark: Arc<Mark>,
}

impl World {
    fn new() -> World {
        let (buffers, gone, mark) = ([Witness::new(), Witness::new()], Arc::default(), Arc::<Mark>::default());
        let memory = Memory { buffers: buffers.clone(), gone: Arc::clone(&gone), mark: mark.clone() };
        let device = Device { fence: Arc::new(memory), resting: Arc::new(Ready::new(1)), row: Row(0), room: None };
        let pool = Pool::new(2, 1, Tally::default(), Some(device), None).unwrap();
        let leases = [(); 2].map(|()| pool.take().unwrap());
        World { pool, leases, buffers, gone, mark }
    }
}

#[test]
fn the_engine_and_two_consumers_let_go() {
    in_every_order(3, || {
        let World { pool, leases: [first, last], buffers: [one, two], gone, .. } = World::new();
        let word = first.to_consumer();
        let consumers = [
            thread::spawn(move || {
                // SAFETY: taken back once.
                let lease = unsafe { Lease::from_consumer(word) };
                one.used();
                drop(lease);
            }),
            thread::spawn(move || {
                two.used();
                drop(last);
            }),
        ];
        drop(pool);
        consumers.into_iter().for_each(|consumer| consumer.join().unwrap());
        assert_eq!(gone.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_buffer_is_used_again() {
    in_every_order(3, || {
        let World { pool, leases: [first, last], buffers: [one, two], gone, .. } = World::new();
        let address = first.address();
        let consumer = {
            let one = one.clone();
            thread::spawn(move || {
                one.used();
                drop(first);
            })
        };
        two.used();
        drop(last);
        for _ in 0..2 {
            if let Some(lease) = pool.take() {
                if lease.address() == address { &one } else { &two }.used();
            }
        }
        drop(pool);
        consumer.join().unwrap();
        assert_eq!(gone.load(Ordering::Relaxed), 1);
    });
}

#[test]
fn a_buffer_that_a_device_uses_is_not_taken_and_its_memory_not_freed() {
    in_every_order(3, || {
        let World { pool, leases: [mut first, last], buffers: [one, _], gone, mark } = World::new();
        let device = {
            let one = one.clone();
            thread::spawn(move || {
                one.used();
                mark.0.store(true, Ordering::Release);
            })
        };
        let consumer = thread::spawn(move || {
            first.used_on(RawStream::default());
            drop(first);
        });
        if let Some(lease) = pool.take() {
            one.used();
            drop(lease);
        }
        drop((last, pool));
        consumer.join().unwrap();
        device.join().unwrap();
        assert_eq!(gone.load(Ordering::Relaxed), 1);
    });
}
