//! What the outbox keeps to, by itself.

use super::*;
use crate::output::Event;
use crate::word::{Generation, Session};

struct Bench {
    outbox: Outbox,
    pools: Vec<Pool>,
    making: Vec<Lease>,
}

impl Bench {
    fn new(depth: usize, policy: Policy) -> Bench {
        let sizes = Sizes { rows: 3, depth, notices: 9 };
        let outbox = Outbox::new(sizes, policy, Arc::default());
        let pool = |row| Pool::new(depth + 3, 8, outbox.tally(Row(row)), None, None).unwrap();
        let pools: Vec<_> = (0..3).map(pool).collect();
        let making = pools.iter().map(|pool| pool.take().unwrap()).collect();
        Bench { outbox, pools, making }
    }

    fn push(&mut self, row: u32, generation: u64, index: u64) -> bool {
        self.push_after_silent(row, generation, index, 0)
    }

    fn push_after_silent(&mut self, row: u32, generation: u64, index: u64, silent: u64) -> bool {
        let stamp = Stamp { row: Row(row), generation: Generation(generation), index, silent, ..Stamp::default() };
        let (making, pool) = (&mut self.making[row as usize], &self.pools[row as usize]);
        self.outbox.offer().push(Row(row), 8, making, pool, || stamp)
    }

    fn pop(&self) -> Option<(u32, u64, u64)> {
        match self.outbox.pop() {
            Popped::Output(Output::Chunk(chunk, missing)) => {
                // SAFETY: given back once.
                drop(unsafe { Lease::from_consumer(chunk.data.to_consumer()) });
                Some((chunk.stamp.row.0, chunk.stamp.index, missing))
            }
            Popped::Output(Output::Notice(notice)) => Some((99, notice.generation.0, 0)),
            _ => None,
        }
    }
}

fn notice(generation: u64) -> Notice {
    let event = Event::Detached(None);
    Notice { session: Session(1), generation: Generation(generation), ..Notice::of_engine(event, 0) }
}

#[test]
fn a_stop_after_a_death_does_not_undo_it() {
    let bench = Bench::new(4, Policy::DropOldest);
    bench.outbox.end(Status::DEAD, Some(notice(7)));
    bench.outbox.end(Status::CLOSED, None);
    assert_eq!(bench.pop(), Some((99, 7, 0)));
    assert!(matches!(bench.outbox.pop(), Popped::Ended(Status::DEAD)));
}

#[test]
fn rows_take_turns_and_each_keeps_its_order() {
    let mut bench = Bench::new(4, Policy::DropOldest);
    for index in 0..2 {
        for row in [0, 2] {
            bench.push(row, 1, index);
        }
    }
    let all: Vec<_> = std::iter::from_fn(|| bench.pop()).collect();
    assert_eq!(all, [(0, 0, 0), (2, 0, 0), (0, 1, 0), (2, 1, 0)]);
}

#[test]
fn what_is_lost_is_told_with_the_next_chunk() {
    let mut oldest = Bench::new(2, Policy::DropOldest);
    (0..5).for_each(|index| assert!(oldest.push(0, 1, index)));
    assert_eq!([oldest.pop(), oldest.pop(), oldest.pop()], [Some((0, 3, 3)), Some((0, 4, 0)), None]);
    assert_eq!(oldest.outbox.dropped(), 3);
    let mut newest = Bench::new(2, Policy::DropNewest);
    (0..5).for_each(|index| assert_eq!(newest.push(0, 1, index), index < 2));
    assert_eq!((newest.outbox.dropped(), newest.outbox.dropped_of(Row(0)), newest.outbox.queued(Row(0))), (3, 3, 2));
    assert_eq!([newest.pop(), newest.pop()], [Some((0, 0, 0)), Some((0, 1, 0))]);
    newest.push(0, 1, 5);
    assert_eq!(newest.pop(), Some((0, 5, 3)));
    newest.push(0, 2, 1);
    assert_eq!(newest.pop(), Some((0, 1, 1)), "counted from the life's begin");
}

#[test]
fn steps_that_gave_no_chunk_are_not_missing() {
    let mut bench = Bench::new(4, Policy::DropOldest);
    for (index, silent) in [(2, 2), (5, 4), (9, 5)] {
        bench.push_after_silent(0, 1, index, silent);
    }
    assert_eq!([bench.pop(), bench.pop(), bench.pop()], [Some((0, 2, 0)), Some((0, 5, 0)), Some((0, 9, 2))]);
}

#[test]
fn of_what_one_offer_pushes_each_row_is_heard_of_whatever_word_it_is_in() {
    let outbox = Outbox::new(Sizes { rows: 130, depth: 2, notices: 9 }, Policy::DropOldest, Arc::default());
    let pool = |row| Pool::new(4, 8, outbox.tally(row), None, None).unwrap();
    let rows = [1, 2, 70, 3, 129].map(Row);
    let pools = rows.map(pool);
    let mut offer = outbox.offer();
    for (row, pool) in rows.into_iter().zip(&pools) {
        let stamp = || Stamp { row, generation: Generation(1), ..Stamp::default() };
        assert!(offer.push(row, 8, &mut pool.take().unwrap(), pool, stamp));
    }
    drop(offer);
    let popped = || match outbox.pop() {
        Popped::Output(Output::Chunk(chunk, _)) => Some(chunk.stamp.row.0),
        _ => None,
    };
    assert_eq!(std::iter::from_fn(popped).collect::<Vec<_>>(), [1, 2, 3, 70, 129]);
}

#[test]
fn losses_are_counted_of_a_life_and_of_all() {
    let bench = Bench::new(2, Policy::DropOldest);
    bench.outbox.discard(Row(0));
    bench.outbox.discard(Row(1));
    bench.outbox.open(Row(1));
    assert_eq!([0, 1].map(|row| bench.outbox.dropped_of(Row(row))), [1, 0]);
    assert_eq!(bench.outbox.dropped(), 2);
}

#[test]
fn a_chunk_that_is_queued_gives_its_buffer_to_the_next_before_one_is_lost_that_is_held() {
    let mut bench = Bench::new(2, Policy::DropOldest);
    let mut kept = Vec::new();
    for index in 0..3 {
        bench.push(0, 1, index);
        let Popped::Output(Output::Chunk(chunk, _)) = bench.outbox.pop() else { panic!("it is there") };
        kept.push(chunk.data.to_consumer());
    }
    assert_eq!((bench.outbox.held(Row(0)), bench.outbox.held(Row(1))), (3, 0));
    assert!(bench.push(0, 1, 3) && bench.pools[0].take().is_none() && bench.push(0, 1, 4));
    assert_eq!([bench.pop(), bench.pop()], [Some((0, 4, 1)), None]);
    // SAFETY: each is taken back once.
    kept.into_iter().for_each(|word| drop(unsafe { Lease::from_consumer(word) }));
    assert_eq!(bench.outbox.held(Row(0)), 0);
}

#[test]
fn a_consumer_that_keeps_all_buffers_loses_its_own_next_chunks() {
    let mut bench = Bench::new(2, Policy::DropOldest);
    let mut kept = Vec::new();
    for index in 0..8 {
        bench.push(0, 1, index);
        if let Popped::Output(Output::Chunk(chunk, _)) = bench.outbox.pop() {
            kept.push(chunk);
        }
    }
    assert_eq!(kept.len(), 4);
    assert!(bench.push(1, 1, 0), "nobody else's quota is touched");
    kept.clear();
    assert!(bench.push(0, 1, 8));
}

#[test]
fn a_farewell_comes_after_the_last_chunk_and_once() {
    let mut bench = Bench::new(2, Policy::DropOldest);
    bench.push(0, 1, 0);
    bench.outbox.farewell(Row(0), notice(1));
    assert!(!bench.outbox.is_gone(Row(0)));
    assert_eq!([bench.pop(), bench.pop(), bench.pop()], [Some((0, 0, 0)), Some((99, 1, 0)), None]);
    assert!(bench.outbox.is_stirred() && !bench.outbox.has_parted(Row(1)) && bench.outbox.has_parted(Row(0)));
    assert!(bench.outbox.is_gone(Row(0)) && bench.outbox.take_stirred() && !bench.outbox.is_stirred());
    bench.outbox.farewell(Row(1), notice(2));
    assert_eq!([bench.pop(), bench.pop()], [Some((99, 2, 0)), None]);
}

#[test]
fn a_farewell_that_a_consumer_has_in_hand_is_neither_there_nor_told() {
    let mut bench = Bench::new(2, Policy::DropOldest);
    bench.push(0, 1, 0);
    bench.outbox.farewell(Row(0), notice(1));
    assert!(!bench.outbox.is_being_told(Row(0)));
    bench.outbox.purge(Row(0));
    let Some(in_hand) = bench.outbox.channel(Row(0)).farewell.take() else { panic!("it is there") };
    assert!(bench.outbox.is_being_told(Row(0)) && !bench.outbox.is_gone(Row(0)));
    assert!(bench.outbox.channel(Row(0)).farewell.put(in_hand).is_ok());
    assert!(bench.outbox.is_gone(Row(0)) && !bench.outbox.is_being_told(Row(0)));
    assert_eq!(bench.pop(), Some((99, 1, 0)));
}

#[test]
fn with_hold_nothing_is_lost_and_the_pop_that_makes_room_tells() {
    let mut bench = Bench::new(2, Policy::Hold);
    assert!(bench.push(0, 1, 0) && bench.outbox.has_room(Row(0), 0) && !bench.outbox.has_room(Row(0), 1));
    assert!(bench.push(0, 1, 1) && !bench.outbox.has_room(Row(0), 0) && !bench.push(0, 1, 2));
    assert!(!bench.outbox.take_stirred());
    assert_eq!(bench.pop(), Some((0, 0, 0)));
    assert!(bench.outbox.take_stirred() && bench.outbox.has_room(Row(0), 0) && bench.push(0, 1, 2));
    assert_eq!([bench.pop(), bench.pop(), bench.pop()], [Some((0, 1, 0)), Some((0, 2, 0)), None]);
    assert!(!bench.outbox.take_stirred() && bench.outbox.dropped() == 0);
}

#[test]
fn a_consumer_that_stood_still_with_a_token_leaves_a_later_lifes_chunk_to_its_notice() {
    let mut bench = Bench::new(2, Policy::DropOldest);
    bench.push(0, 1, 0);
    let row = bench.outbox.ready.take().unwrap();
    bench.outbox.purge(Row(0));
    bench.outbox.notify(notice(1));
    bench.push(0, 2, 0);
    assert!(bench.outbox.pop_chunk(row, |_| ()).is_none());
    assert_eq!([bench.pop(), bench.pop(), bench.pop()], [Some((99, 1, 0)), Some((0, 0, 0)), None]);
}

#[test]
fn notices_are_paid_for_before_and_their_places_come_back() {
    let bench = Bench::new(2, Policy::DropOldest);
    assert!(bench.outbox.reserve() && bench.outbox.reserve() && bench.outbox.reserve() && !bench.outbox.reserve());
    (1..4).for_each(|n| bench.outbox.notify(notice(n)));
    assert!(!bench.outbox.reserve() && bench.outbox.credits() == 0);
    (1..4).for_each(|n| assert_eq!(bench.pop(), Some((99, n, 0))));
    assert_eq!(bench.outbox.credits(), 3);
    assert!(bench.outbox.reserve());
}

#[test]
fn of_a_shared_kind_one_is_there_at_a_time_and_in_the_end_one_more() {
    let bench = Bench::new(2, Policy::DropOldest);
    assert!(bench.outbox.notify_shared(notice(1), 0) && bench.outbox.notify_shared(notice(2), 1));
    assert!(!bench.outbox.notify_shared(notice(3), 0) && !bench.outbox.is_stirred());
    assert_eq!(bench.pop(), Some((99, 1, 0)));
    assert!(bench.outbox.take_stirred() && bench.outbox.notify_shared(notice(4), 0));
    bench.outbox.notify_last(notice(5), 0);
    assert_eq!([2, 4, 5].map(|_| bench.pop()), [2, 4, 5].map(|n| Some((99, n, 0))));
    assert_eq!(bench.outbox.credits(), 9, "nobody has paid for them");
}

/// Whether `descriptor` is readable.
#[cfg(target_os = "linux")]
fn is_lit(descriptor: i32) -> bool {
    let mut poll = libc::pollfd { fd: descriptor, events: libc::POLLIN, revents: 0 };
    // SAFETY: one record, of a descriptor that is open.
    unsafe { libc::poll(&mut poll, 1, 0) == 1 }
}

#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_readable_at_once_if_there_is_something() {
    let empty = Bench::new(2, Policy::DropOldest);
    assert!(!is_lit(empty.outbox.descriptor().unwrap()) && empty.outbox.wait(Some(0)).is_none());
    let with_a_notice = Bench::new(2, Policy::DropOldest);
    with_a_notice.outbox.notify(notice(1));
    let mut with_a_chunk = Bench::new(2, Policy::DropOldest);
    with_a_chunk.push(0, 1, 0);
    let dead = Bench::new(2, Policy::DropOldest);
    dead.outbox.end(Status::DEAD, Some(notice(1)));
    for bench in [with_a_notice, with_a_chunk, dead] {
        let descriptor = bench.outbox.descriptor().unwrap();
        assert!(is_lit(descriptor) && matches!(bench.outbox.wait(None), Some(Popped::Empty)));
        assert!(bench.pop().is_some() && bench.pop().is_none());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn after_the_end_a_descriptor_is_readable_for_ever_whoever_takes_the_last_output() {
    let mut bench = Bench::new(2, Policy::DropOldest);
    let descriptor = bench.outbox.descriptor().unwrap();
    bench.push(0, 1, 0);
    bench.outbox.wake_consumers();
    // Another consumer stands still with the last chunk's token, and will not pop again.
    let row = bench.outbox.ready.take().unwrap();
    bench.outbox.end(Status::DEAD, None);
    assert!(matches!(bench.outbox.pop(), Popped::Empty) && is_lit(descriptor), "look again");
    assert!(bench.outbox.pop_chunk(row, |_| ()).is_some());
    assert!(is_lit(descriptor) && matches!(bench.outbox.pop(), Popped::Ended(_)) && is_lit(descriptor));
    let late = Bench::new(2, Policy::DropOldest);
    late.outbox.end(Status::CLOSED, None);
    assert!(matches!(late.outbox.pop(), Popped::Ended(_)));
    assert!(is_lit(late.outbox.descriptor().unwrap()), "also where it is asked for only then");
}

/// So a consumer may take one output each time that it is readable.
#[cfg(target_os = "linux")]
#[test]
fn a_descriptor_is_readable_until_a_pop_has_said_that_there_is_nothing() {
    let outbox = Bench::new(2, Policy::DropOldest).outbox;
    let descriptor = outbox.descriptor().unwrap();
    for turn in 0..3 {
        assert!(matches!(outbox.pop(), Popped::Empty) && !is_lit(descriptor));
        (0..1 + turn).for_each(|_| outbox.notify(notice(turn)));
        outbox.wake_consumers();
        (0..1 + turn).for_each(|_| assert!(is_lit(descriptor) && matches!(outbox.pop(), Popped::Output(_))));
        // Two come just when a pop has found nothing and is about to arm it.
        assert!(matches!(outbox.look(&mut |_| ()), Popped::Empty));
        (0..2).for_each(|_| outbox.notify(notice(turn)));
        outbox.wake_consumers();
        let beacon = outbox.beacon.get().unwrap().as_ref().unwrap();
        assert!(matches!(outbox.arm_and_look(beacon, &mut |_| ()), Popped::Output(_)) && is_lit(descriptor));
        assert!(matches!(outbox.pop(), Popped::Output(_)) && is_lit(descriptor));
        // And the end.
        if turn == 2 {
            assert!(matches!(outbox.look(&mut |_| ()), Popped::Empty));
            outbox.end(Status::CLOSED, None);
            assert!(matches!(outbox.arm_and_look(beacon, &mut |_| ()), Popped::Ended(_)) && is_lit(descriptor));
        }
    }
}

#[test]
fn nothing_has_ended_while_another_consumer_is_at_what_is_left() {
    for is_farewell in [false, true] {
        let mut bench = Bench::new(2, Policy::DropOldest);
        bench.push(0, 1, 0);
        let row = bench.outbox.ready.take().unwrap();
        if is_farewell {
            bench.outbox.farewell(row, notice(2));
            bench.outbox.purge(row);
        }
        bench.outbox.end(Status::CLOSED, None);
        assert!(matches!(bench.outbox.pop(), Popped::Empty));
        assert!(matches!(bench.outbox.wait(None), Some(Popped::Empty)), "look again");
        assert_eq!(bench.outbox.pop_chunk(row, |_| ()).is_some(), !is_farewell);
        assert_eq!(bench.pop(), is_farewell.then_some((99, 2, 0)));
        assert!(matches!(bench.outbox.pop(), Popped::Ended(Status::CLOSED)));
    }
}

#[test]
fn all_that_was_delivered_comes_before_the_end_and_death_is_last() {
    let mut bench = Bench::new(2, Policy::DropOldest);
    bench.push(0, 1, 0);
    bench.outbox.end(Status::DEAD, Some(notice(7)));
    assert_eq!([bench.pop(), bench.pop(), bench.pop()], [Some((0, 0, 0)), Some((99, 7, 0)), None]);
    assert!(matches!(bench.outbox.pop(), Popped::Ended(Status::DEAD)));
    assert!(matches!(bench.outbox.wait(None), Some(Popped::Ended(Status::DEAD))));
}
