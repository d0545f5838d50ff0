//! Each value is taken once, in order; a place is used again only when it was read; no push waits for a consumer.

use std::sync::Arc;

use loom::thread;

use super::in_every_order;
use crate::queue::ring::Take;
use crate::queue::shelf::Shelf;

fn pop(shelf: &Shelf<u64>) -> Option<u64> {
    match shelf.pop() {
        Take::Item(value) => Some(value),
        _ => None,
    }
}

/// Round after round, also while another is in the middle of its pop.
#[test]
fn a_push_finds_room_wherever_a_consumer_stands_still() {
    in_every_order(2, || {
        let shelf = Arc::new(Shelf::new(2));
        shelf.push(0);
        let consumer = {
            let shelf = shelf.clone();
            thread::spawn(move || pop(&shelf))
        };
        let mut found = Vec::new();
        for number in 1..5 {
            shelf.push(number);
            found.push(pop(&shelf).expect("there were two, and another takes one at most"));
        }
        assert!(found.is_sorted());
        found.extend(consumer.join().unwrap());
        found.extend(std::iter::from_fn(|| pop(&shelf)));
        found.sort();
        assert_eq!(found, [0, 1, 2, 3, 4]);
    });
}

#[test]
fn two_producers_have_places_of_their_own() {
    in_every_order(2, || {
        let shelf = Arc::new(Shelf::new(2));
        let producer = {
            let shelf = shelf.clone();
            thread::spawn(move || shelf.push(1))
        };
        shelf.push(2);
        let mut found: Vec<u64> = pop(&shelf).into_iter().collect();
        producer.join().unwrap();
        found.extend(std::iter::from_fn(|| pop(&shelf)));
        found.sort();
        assert_eq!(found, [1, 2]);
        assert!(shelf.is_empty());
    });
}
