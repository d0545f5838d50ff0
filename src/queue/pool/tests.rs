//! What a pool keeps to, by itself.

use std::sync::atomic::AtomicBool;

use super::*;
use crate::batch::Batch;
use crate::model::{Call, Manifest};
use crate::queue::{Ring, Take};
use crate::word::{Lane, Status};

/// Says how often it was dropped: once with each pool's memory.
struct Witness(Arc<AtomicUsize>);

impl ReleaseFence for Witness {
    fn mark(&self, _: RawStream) -> Option<Arc<dyn Passage>> {
        None
    }
}

impl Drop for Witness {
    fn drop(&mut self) {
        self.0.fetch_add(1, Ordering::Relaxed);
    }
}

fn device(fence: impl ReleaseFence + 'static) -> Device {
    Device { fence: Arc::new(fence), resting: Arc::new(Ready::new(1)), row: Row(0), room: None }
}

fn pool(count: usize) -> (Pool, impl Fn() -> usize) {
    let gone = Arc::new(AtomicUsize::new(0));
    let pool = Pool::new(count, 100, Tally::default(), Some(device(Witness(gone.clone()))), None).unwrap();
    (pool, move || gone.load(Ordering::Relaxed))
}

#[test]
fn a_buffer_comes_back_whoever_lets_go_of_it_and_outlives_its_engine() {
    let (pool, gone) = pool(2);
    let mut first = pool.take().unwrap();
    first.bytes_mut().fill(7);
    let second = pool.take().unwrap();
    assert!(pool.take().is_none());
    drop(second);
    let word = first.to_consumer();
    assert_eq!((pool.count(), pool.at_home()), (2, 1));
    drop(pool);
    // SAFETY: taken back once.
    let back = unsafe { Lease::from_consumer(word) };
    assert_eq!(back.bytes(), [7; 100]);
    assert_eq!(gone(), 0);
    drop(back);
    assert_eq!(gone(), 1);
}

/// A device whose marks pass when the test says so, or when they were asked so often.
#[derive(Clone, Default)]
struct Slow {
    has_passed: Arc<AtomicBool>,
    patience: usize,
}

struct Asked(Slow, AtomicUsize);

impl ReleaseFence for Slow {
    fn mark(&self, _: RawStream) -> Option<Arc<dyn Passage>> {
        Some(Arc::new(Asked(self.clone(), AtomicUsize::new(0))))
    }
}

impl Passage for Asked {
    fn passed(&self) -> bool {
        self.0.has_passed.load(Ordering::Relaxed) || self.1.fetch_add(1, Ordering::Relaxed) > self.0.patience
    }

    fn wait(&self) {
        self.1.store(usize::MAX / 2, Ordering::Relaxed);
    }

    fn event(&self) -> RawEvent {
        RawEvent(1)
    }
}

#[test]
fn a_buffer_that_its_consumers_stream_still_uses_is_at_home_and_passed_over() {
    let slow = Slow { patience: 1000, ..Slow::default() };
    let pool = Pool::new(2, 8, Tally::default(), Some(device(slow.clone())), None).unwrap();
    let mut used = pool.take().unwrap();
    let address = used.address();
    used.used_on(RawStream(1));
    drop(used);
    assert_eq!((pool.at_home(), pool.has(1), pool.has(2), pool.is_idle()), (2, true, false, false));
    assert!(!pool.settle());
    let other = pool.take().unwrap();
    assert!(other.address() != address && pool.take().is_none());
    drop(other);
    slow.has_passed.store(true, Ordering::Relaxed);
    assert!(pool.settle() && pool.is_idle());
    assert_eq!(pool.take().map(|lease| lease.address()), Some(address));
}

#[test]
fn without_a_device_what_is_at_home_can_be_taken() {
    let pool = Pool::new(2, 8, Tally::default(), None, None).unwrap();
    assert!(pool.has(0) && pool.has(2) && !pool.has(3) && pool.is_idle());
    let lease = pool.take();
    assert!(pool.has(1) && !pool.has(2) && !pool.is_idle());
    drop(lease);
    assert!(pool.has(2));
}

#[test]
fn each_buffer_is_its_own_and_the_memory_goes_once_with_the_last_of_them_or_the_engine() {
    for count in [1, 2, 63, 200] {
        let (pool, gone) = pool(count);
        let mut leases: Vec<Lease> = std::iter::from_fn(|| pool.take()).collect();
        assert_eq!((leases.len(), pool.at_home()), (count, 0));
        leases.iter_mut().enumerate().for_each(|(at, lease)| lease.bytes_mut().fill(at as u8));
        assert!(leases.iter().enumerate().all(|(at, lease)| lease.bytes().iter().all(|byte| *byte == at as u8)));
        let last = leases.pop();
        drop(leases);
        assert_eq!(pool.at_home(), count - 1);
        drop(pool);
        assert_eq!(gone(), 0);
        drop(last);
        assert_eq!(gone(), 1, "of {count}");
    }
    let (pool, gone) = pool(64);
    drop(pool.take());
    drop(pool);
    assert_eq!(gone(), 1);
}

/// Whose pointers are numbers, each of which is to come back once.
struct Owner {
    /// By number: not atomic, as whoever gives one back is the only one that has it.
    back: Box<[std::cell::UnsafeCell<u32>]>,
}

// SAFETY: each number is one thread's at a time.
unsafe impl Sync for Owner {}

impl Model for Owner {
    fn manifest(&self) -> &Manifest {
        unreachable!("a pool asks for nothing")
    }

    fn init(&self, _: [RawStream; Lane::COUNT]) -> Result<(), Status> {
        Ok(())
    }

    fn release_output(&self, address: usize) {
        // SAFETY: it is ours alone, if it comes back once.
        unsafe { *self.back[address - 1].get() += 1 };
    }

    fn call(&self, _: Call, _: &mut Batch, _: RawStream) -> Result<(), Status> {
        unreachable!("a pool calls nothing")
    }
}

#[test]
fn pointers_that_come_back_on_any_thread_come_back_once_each_after_their_marks() {
    const POINTERS: usize = 40_000;
    let owner = Arc::new(Owner { back: (0..POINTERS).map(|_| std::cell::UnsafeCell::new(0)).collect() });
    let device = device(Slow { patience: 2, ..Slow::default() });
    let pool = Pool::new(70, 8, Tally::default(), Some(device.clone()), Some(owner.clone())).unwrap();
    let (words, is_over) = (Ring::new(64), AtomicBool::new(false));
    std::thread::scope(|scope| {
        for giver in 0..3 {
            let (words, is_over) = (&words, &is_over);
            scope.spawn(move || {
                loop {
                    match words.pop() {
                        Take::Item((word, number)) => {
                            // SAFETY: taken back once.
                            let mut lease = unsafe { Lease::from_consumer(word) };
                            assert_eq!(lease.address(), number);
                            if number % 3 != giver {
                                lease.used_on(RawStream(1));
                            }
                        }
                        _ if is_over.load(Ordering::Acquire) => break,
                        _ => std::thread::yield_now(),
                    }
                }
            });
        }
        for number in 1..=POINTERS {
            let mut lease = loop {
                if number % 5 == 0 && device.resting.take().is_some() && !pool.settle() {
                    device.resting.set(Row(0));
                }
                match pool.take() {
                    Some(lease) => break lease,
                    None => std::thread::yield_now(),
                }
            };
            lease.adopt(number, (number % 2 == 0).then(|| device.fence.mark(RawStream(2)).unwrap()));
            let mut item = (lease.to_consumer(), number);
            while let Err(back) = words.push(item) {
                item = back;
                std::thread::yield_now();
            }
        }
        // The last buffers come back after the pool is gone.
        drop(pool);
        is_over.store(true, Ordering::Release);
    });
    let mut owner = Arc::into_inner(owner).expect("the pool has let go of it");
    assert!(owner.back.iter_mut().all(|back| *back.get_mut() == 1));
}
