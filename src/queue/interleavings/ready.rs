//! A row that was set is taken, once, by somebody who sees what its setter did; none is forgotten.

use std::sync::Arc;

use loom::thread;

use super::{Witness, in_every_order};
use crate::queue::ready::Ready;
use crate::word::Row;

/// What the rows stand for.
type Things = [Witness; 2];

fn take(ready: &Ready, things: &Things) -> Option<Row> {
    let row = ready.take()?;
    things[row.at()].used();
    Some(row)
}

#[test]
fn setters_and_a_taker() {
    in_every_order(3, || {
        let (ready, things) = (Arc::new(Ready::new(2)), Things::from([Witness::new(), Witness::new()]));
        let setters = [0, 1].map(|row| {
            let (ready, things) = (ready.clone(), things.clone());
            thread::spawn(move || {
                things[row].used();
                ready.set(Row(row as u32));
            })
        });
        let mut taken: Vec<Row> = (0..2).filter_map(|_| take(&ready, &things)).collect();
        setters.into_iter().for_each(|setter| setter.join().unwrap());
        taken.extend(std::iter::from_fn(|| take(&ready, &things)));
        taken.sort();
        assert_eq!(taken, [Row(0), Row(1)]);
        assert!(ready.is_empty());
    });
}

#[test]
fn takers_that_set_again() {
    in_every_order(2, || {
        let (ready, things) = (Arc::new(Ready::new(2)), Things::from([Witness::new(), Witness::new()]));
        ready.set(Row(0));
        let takers = [0, 1].map(|_| {
            let (ready, things) = (ready.clone(), things.clone());
            thread::spawn(move || take(&ready, &things).inspect(|row| ready.set(*row)).is_some())
        });
        things[1].used();
        ready.set(Row(1));
        let _ = takers.map(|taker| taker.join().unwrap());
        let mut taken: Vec<Row> = std::iter::from_fn(|| take(&ready, &things)).collect();
        taken.sort();
        assert_eq!(taken, [Row(0), Row(1)]);
    });
}

/// Who set it may tell others to look: they find it, or are told again by who kept it out of their sight.
#[test]
fn what_was_set_is_seen_or_told_again_by_who_hid_it() {
    in_every_order(3, || {
        let ready = Arc::new(Ready::new(2));
        ready.set(Row(0));
        let taker = {
            let ready = ready.clone();
            thread::spawn(move || ready.take())
        };
        ready.set(Row(1));
        let is_seen = !ready.is_empty();
        assert!(taker.join().unwrap().is_some());
        assert!(is_seen || ready.has_resurfaced());
        assert!(!ready.is_empty());
    });
}
