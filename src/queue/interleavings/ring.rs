//! A value is whole and taken once, a producer's order is kept, and "empty" is the truth.

use std::sync::Arc;

use loom::thread;

use super::in_every_order;
use crate::queue::{Ring, Take};
use crate::sync::atomic::{AtomicBool, Ordering};

fn rest(ring: &Ring<u32>, into: &mut Vec<u32>) {
    while let Take::Item(value) = ring.pop() {
        into.push(value);
    }
}

#[test]
fn two_producers_and_a_consumer() {
    in_every_order(2, || {
        let ring = Arc::new(Ring::new(2));
        let producers = [10, 20].map(|value| {
            let ring = ring.clone();
            thread::spawn(move || ring.push(value).is_ok())
        });
        let mut taken = Vec::new();
        for _ in 0..2 {
            if let Take::Item(value) = ring.pop() {
                taken.push(value);
            }
        }
        assert!(producers.into_iter().all(|producer| producer.join().unwrap()));
        rest(&ring, &mut taken);
        taken.sort();
        assert_eq!(taken, [10, 20]);
    });
}

#[test]
fn two_consumers_and_a_producer_that_uses_cells_again() {
    in_every_order(2, || {
        let ring = Arc::new(Ring::new(2));
        assert!(ring.push(0).is_ok());
        let consumers = [(); 2].map(|()| {
            let ring = ring.clone();
            thread::spawn(move || match ring.pop() {
                Take::Item(value) => Some(value),
                _ => None,
            })
        });
        let pushed: Vec<u32> = (1..4).take_while(|value| ring.push(*value).is_ok()).collect();
        assert!(!pushed.is_empty(), "it has room for two");
        let mut taken: Vec<u32> = consumers.into_iter().filter_map(|consumer| consumer.join().unwrap()).collect();
        taken.sort();
        let first = taken.len();
        rest(&ring, &mut taken);
        assert_eq!(taken, (0..=pushed.len() as u32).collect::<Vec<_>>(), "{first} of them by the consumers");
    });
}

#[test]
fn one_producers_order() {
    in_every_order(3, || {
        let ring = Arc::new(Ring::new(2));
        let producer = {
            let ring = ring.clone();
            thread::spawn(move || (0..4).take_while(|value| ring.push(*value).is_ok()).count())
        };
        let mut taken = Vec::new();
        for _ in 0..3 {
            if let Take::Item(value) = ring.pop() {
                taken.push(value);
            }
        }
        let pushed = producer.join().unwrap();
        rest(&ring, &mut taken);
        assert_eq!(taken, (0..pushed as u32).collect::<Vec<_>>());
    });
}

#[test]
fn what_was_pushed_before_is_found() {
    in_every_order(2, || {
        let (ring, is_pushed) = (Arc::new(Ring::new(2)), Arc::new(AtomicBool::new(false)));
        let producers = [true, false].map(|tells| {
            let (ring, is_pushed) = (ring.clone(), is_pushed.clone());
            thread::spawn(move || {
                assert!(ring.push(1).is_ok());
                if tells {
                    is_pushed.store(true, Ordering::Release);
                }
            })
        });
        // Behind one that is in the middle of its push it is out of reach, but there.
        if is_pushed.load(Ordering::Acquire) {
            assert!(!ring.is_empty());
            assert!(!matches!(ring.pop(), Take::Empty));
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    });
}
