//! Each chunk comes out once, in its session's order, or is counted as lost; none stays behind; a notice comes before what
//! was queued after it, and a farewell after the last chunk.

use std::sync::Arc;

use loom::thread;

use super::in_every_order;
use crate::output::{Event, Notice, Output, Stamp};
use crate::queue::{Lease, Outbox, Policy, Pool, Popped, Sizes, Tally};
use crate::time::Wake;
use crate::word::{Generation, Row, Session, Status};

const ROW: Row = Row(0);

/// What a consumer found: a chunk of a life and what is missing before it, or the notice of one.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Found {
    Chunk(u64, u64, u64),
    Notice(u64),
}

fn pop(outbox: &Outbox) -> Option<Found> {
    match outbox.pop() {
        Popped::Output(Output::Chunk(chunk, missing)) => {
            Some(Found::Chunk(chunk.stamp.generation.0, chunk.stamp.index, missing))
        }
        Popped::Output(Output::Notice(notice)) => Some(Found::Notice(notice.generation.0)),
        _ => None,
    }
}

/// All that a consumer alone finds.
fn rest(outbox: &Outbox) -> Vec<Found> {
    std::iter::from_fn(|| pop(outbox)).collect()
}

/// A consumer that looks so many times.
fn consumer(outbox: &Arc<Outbox>, looks: usize) -> thread::JoinHandle<Vec<Found>> {
    let outbox = outbox.clone();
    thread::spawn(move || (0..looks).filter_map(|_| pop(&outbox)).collect())
}

fn notice(generation: u64) -> Notice {
    Notice { session: Session(1), generation: Generation(generation), ..Notice::of_engine(Event::Detached(None), 0) }
}

/// The engine's side of one row.
struct Engine {
    outbox: Arc<Outbox>,
    pool: Pool,
    making: Lease,
}

impl Engine {
    fn new(depth: usize, policy: Policy) -> Engine {
        let sizes = Sizes { rows: 1, depth, notices: 3 };
        let outbox = Outbox::new(sizes, policy, Arc::new(Wake::default()));
        let pool = Pool::new(depth + 3, 8, Tally::default(), None, None).unwrap();
        let making = pool.take().unwrap();
        Engine { outbox: Arc::new(outbox), pool, making }
    }

    fn push(&mut self, generation: u64, index: u64) -> bool {
        let stamp = Stamp { row: ROW, generation: Generation(generation), index, ..Stamp::default() };
        self.outbox.offer().push(ROW, 8, &mut self.making, &self.pool, || stamp)
    }
}

/// That the chunks of one life came in order, and what is missing between them was told.
fn check_order(found: &[Found], generation: u64) -> u64 {
    let mut next = 0;
    for one in found {
        match *one {
            Found::Chunk(of, index, missing) if of == generation => {
                assert_eq!(index, next + missing, "{found:?}");
                next = index + 1;
            }
            _ => (),
        }
    }
    next
}

#[test]
fn no_chunk_stays_behind() {
    for looks in [&[2][..], &[1, 1]] {
        in_every_order(2, move || {
            let mut engine = Engine::new(2, Policy::DropOldest);
            let consumers: Vec<_> = looks.iter().map(|looks| consumer(&engine.outbox, *looks)).collect();
            (0..2).for_each(|index| assert!(engine.push(1, index)));
            let mut found: Vec<_> = consumers.into_iter().flat_map(|consumer| consumer.join().unwrap()).collect();
            found.extend(rest(&engine.outbox));
            found.sort();
            assert_eq!(found, [Found::Chunk(1, 0, 0), Found::Chunk(1, 1, 0)]);
        });
    }
}

#[test]
fn a_chunk_comes_out_once_or_is_counted_as_lost() {
    for policy in [Policy::DropOldest, Policy::DropNewest] {
        in_every_order(2, move || {
            let mut engine = Engine::new(1, policy);
            engine.push(1, 0);
            let consumer = consumer(&engine.outbox, 1);
            (1..3).for_each(|index| _ = engine.push(1, index));
            let mut found = consumer.join().unwrap();
            found.extend(rest(&engine.outbox));
            assert_eq!(found.len() as u64 + engine.outbox.dropped(), 3);
            check_order(&found, 1);
        });
    }
}

#[test]
fn nothing_of_a_life_comes_after_its_end_and_the_next_begins() {
    in_every_order(2, || {
        let mut engine = Engine::new(2, Policy::DropOldest);
        (0..2).for_each(|index| assert!(engine.push(1, index)));
        let consumer = consumer(&engine.outbox, 2);
        engine.outbox.purge(ROW);
        engine.outbox.notify(notice(1));
        engine.outbox.open(ROW);
        engine.push(2, 0);
        let mut found = consumer.join().unwrap();
        found.extend(rest(&engine.outbox));
        let end = found.iter().position(|one| *one == Found::Notice(1)).unwrap();
        assert_eq!(found[end + 1..], [Found::Chunk(2, 0, 0)], "{found:?}");
        check_order(&found, 1);
    });
}

#[test]
fn a_notice_comes_before_what_was_queued_after_it() {
    in_every_order(2, || {
        let mut engine = Engine::new(1, Policy::DropOldest);
        let consumers = [(); 2].map(|()| consumer(&engine.outbox, 1));
        engine.outbox.notify(notice(1));
        engine.push(1, 0);
        let found = consumers.map(|consumer| consumer.join().unwrap()).concat();
        assert_ne!(found, [Found::Chunk(1, 0, 0)]);
    });
}

#[test]
fn a_farewell_is_told_once_after_the_last_chunk() {
    for looks in [&[2][..], &[1, 1]] {
        in_every_order(2, move || {
            let mut engine = Engine::new(1, Policy::DropOldest);
            let consumers: Vec<_> = looks.iter().map(|looks| consumer(&engine.outbox, *looks)).collect();
            engine.push(1, 0);
            engine.outbox.farewell(ROW, notice(1));
            let found: Vec<_> = consumers.into_iter().map(|consumer| consumer.join().unwrap()).collect();
            assert!(!found.contains(&vec![Found::Notice(1), Found::Chunk(1, 0, 0)]));
            let mut found = found.concat();
            found.extend(rest(&engine.outbox));
            assert!(engine.outbox.is_gone(ROW));
            found.sort();
            assert_eq!(found, [Found::Chunk(1, 0, 0), Found::Notice(1)]);
        });
    }
}

/// Also where a consumer that has found a row empty stands still, while the engine fills it and says farewell.
#[test]
fn a_farewell_waits_for_a_chunk_that_came_after_the_row_was_empty() {
    in_every_order(2, || {
        let mut engine = Engine::new(2, Policy::DropOldest);
        engine.push(1, 0);
        let consumer = consumer(&engine.outbox, 1);
        engine.push(1, 1);
        engine.outbox.farewell(ROW, notice(1));
        let mut found = consumer.join().unwrap();
        found.extend(rest(&engine.outbox));
        assert_eq!(found, [Found::Chunk(1, 0, 0), Found::Chunk(1, 1, 0), Found::Notice(1)]);
    });
}

#[test]
fn a_farewell_that_is_taken_back_is_not_told_too() {
    in_every_order(2, || {
        let mut engine = Engine::new(1, Policy::DropOldest);
        let consumer = consumer(&engine.outbox, 2);
        engine.push(1, 0);
        engine.outbox.farewell(ROW, notice(1));
        if let Some(notice) = engine.outbox.recall(ROW) {
            engine.outbox.purge(ROW);
            engine.outbox.notify(notice);
        }
        let mut found = consumer.join().unwrap();
        found.extend(rest(&engine.outbox));
        assert_eq!(found.iter().filter(|one| **one == Found::Notice(1)).count(), 1);
    });
}

#[test]
fn a_life_that_was_left_does_not_end_the_next() {
    in_every_order(2, || {
        let mut engine = Engine::new(1, Policy::DropOldest);
        let consumer = consumer(&engine.outbox, 3);
        engine.push(1, 0);
        engine.outbox.farewell(ROW, notice(1));
        let is_back = engine.outbox.recall(ROW).map(|notice| {
            engine.outbox.purge(ROW);
            engine.outbox.notify(notice);
        });
        // While a consumer has it in hand there is no next life.
        let begins = is_back.is_some() || engine.outbox.is_gone(ROW);
        if begins {
            engine.outbox.open(ROW);
            engine.outbox.notify(notice(2));
        }
        let mut found = consumer.join().unwrap();
        found.extend(rest(&engine.outbox));
        assert_eq!(engine.outbox.has_parted(ROW), !begins);
        found.retain(|one| matches!(one, Found::Notice(_)));
        assert_eq!(found, [Found::Notice(1), Found::Notice(2)][..if begins { 2 } else { 1 }]);
    });
}

#[test]
fn an_engine_that_found_no_room_is_told_when_there_is() {
    in_every_order(2, || {
        let mut engine = Engine::new(1, Policy::Hold);
        engine.push(1, 0);
        let consumer = consumer(&engine.outbox, 1);
        let has_room = engine.outbox.has_room(ROW, 0);
        assert_eq!(consumer.join().unwrap(), [Found::Chunk(1, 0, 0)]);
        assert!(has_room || engine.outbox.take_stirred());
        assert!(engine.outbox.has_room(ROW, 0));
    });
}

/// Also where a consumer stands still in the middle of a pop, and lives end meanwhile.
#[test]
fn an_engine_that_found_room_has_it() {
    in_every_order(1, || {
        let mut engine = Engine::new(1, Policy::Hold);
        engine.push(1, 0);
        let outbox = engine.outbox.clone();
        let engine = thread::spawn(move || {
            for generation in 2..4 {
                engine.outbox.purge(ROW);
                assert!(!engine.outbox.has_room(ROW, 0) || engine.push(generation, 0));
            }
        });
        pop(&outbox);
        engine.join().unwrap();
    });
}

#[test]
fn a_shared_notice_is_one_at_a_time() {
    in_every_order(2, || {
        let engine = Engine::new(1, Policy::DropOldest);
        let consumer = consumer(&engine.outbox, 2);
        let queued = (1..4).filter(|count| engine.outbox.notify_shared(notice(*count), 0)).count();
        let mut found = consumer.join().unwrap();
        found.extend(rest(&engine.outbox));
        assert_eq!(found.len(), queued);
        assert!(engine.outbox.take_stirred());
        assert!(engine.outbox.notify_shared(notice(4), 0) && !engine.outbox.notify_shared(notice(5), 0));
    });
}

/// A consumer that sleeps while there is nothing, and takes all until the end.
fn patient(outbox: &Arc<Outbox>) -> thread::JoinHandle<Vec<Found>> {
    let outbox = outbox.clone();
    thread::spawn(move || {
        let mut found = Vec::new();
        while let Some(Popped::Empty) = outbox.wait(None) {
            found.extend(pop(&outbox));
        }
        found
    })
}

/// One that slept on would be a deadlock, which the checker reports.
#[test]
fn who_waits_is_woken_and_who_looks_finds_all_before_the_end() {
    for waits in [true, false] {
        in_every_order(2, move || {
            let mut engine = Engine::new(1, Policy::DropOldest);
            let consumer = if waits { patient(&engine.outbox) } else { consumer(&engine.outbox, 2) };
            engine.push(1, 0);
            engine.outbox.wake_consumers();
            engine.outbox.end(Status::CLOSED, Some(notice(7)));
            let mut found = consumer.join().unwrap();
            found.extend(rest(&engine.outbox));
            assert_eq!(found, [Found::Chunk(1, 0, 0), Found::Notice(7)]);
        });
    }
}

/// Also where another takes the last chunk, and with it tells the farewell.
#[test]
fn nothing_comes_out_after_somebody_was_told_of_the_end() {
    in_every_order(2, || {
        let mut engine = Engine::new(1, Policy::DropOldest);
        engine.push(1, 0);
        engine.outbox.farewell(ROW, notice(1));
        engine.outbox.end(Status::CLOSED, None);
        let other = consumer(&engine.outbox, 1);
        let mut found = Vec::new();
        let has_ended = loop {
            match engine.outbox.pop() {
                Popped::Output(output) => found.push(matches!(output, Output::Notice(_))),
                Popped::Ended(_) => break true,
                Popped::Empty => break false,
            }
        };
        let after = rest(&engine.outbox);
        assert!(!has_ended || after.is_empty(), "{after:?} came out after the end");
        let others = other.join().unwrap();
        assert_eq!(found.len() + after.len() + others.len() + rest(&engine.outbox).len(), 2);
    });
}
