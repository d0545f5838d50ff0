//! A message is whole and drained once, in its producer's order; a cell and its bytes are used again only when they were
//! read; what was refused had no room or came after the close.

use std::sync::Arc;

use loom::thread;

use super::in_every_order;
use crate::message::Envelope;
use crate::queue::{Inbox, Kind, Limits, Parcel, Refused, ValueIn};
use crate::word::{Generation, Session};

/// Four of them fill the arena.
const LARGE: usize = 4096 - 32;

fn inbox(messages: usize) -> Arc<Inbox> {
    Arc::new(Inbox::new(Limits { messages, message_bytes: 1000, bytes: 0 }).unwrap())
}

fn push(inbox: &Inbox, session: u64, tag: u64, size: usize) -> Result<(), Refused> {
    let envelope =
        Envelope { kind: Kind::Attach, session: Session(session), generation: Generation(0), user: 0, tag, pushed: 0 };
    let bytes = [tag as u8; LARGE];
    let values = [ValueIn { key: 5, revision: 0, content: Ok(&bytes[..size]) }];
    inbox.push(Parcel { envelope, values: &values, ready: None, release: None })
}

/// The tag of the next message before `mark`, which must be whole.
fn pop(inbox: &Inbox, mark: u64) -> Option<u64> {
    let message = inbox.pop(mark)?;
    let tag = message.envelope().tag;
    let value = message.values().next().unwrap();
    assert!(value.content.unwrap().iter().all(|byte| u64::from(*byte) == tag));
    Some(tag)
}

fn drain(inbox: &Inbox) -> Vec<u64> {
    let mark = inbox.mark();
    std::iter::from_fn(|| pop(inbox, mark)).collect()
}

#[test]
fn cells_are_used_again() {
    in_every_order(2, || {
        let inbox = inbox(2);
        let producers = [1, 2].map(|session| {
            let inbox = inbox.clone();
            thread::spawn(move || {
                let tags = [10 * session, 10 * session + 1];
                tags.into_iter().take_while(|tag| push(&inbox, session, *tag, 8).is_ok()).collect::<Vec<_>>()
            })
        });
        let mut drained = drain(&inbox);
        let pushed = producers.map(|producer| producer.join().unwrap());
        drained.extend(drain(&inbox));
        for of_one in &pushed {
            let first = of_one.first().map_or(0, |tag| tag / 10);
            assert!(drained.iter().filter(|tag| *tag / 10 == first).eq(of_one));
        }
        assert_eq!(drained.len(), pushed.iter().map(Vec::len).sum());
    });
}

#[test]
fn bytes_are_used_again() {
    in_every_order(3, || {
        let inbox = inbox(8);
        (1..4).for_each(|tag| push(&inbox, tag, tag, LARGE).unwrap());
        let producer = {
            let inbox = inbox.clone();
            thread::spawn(move || (4..6).take_while(|tag| push(&inbox, *tag, *tag, LARGE).is_ok()).count() as u64)
        };
        let mark = inbox.mark();
        let mut drained: Vec<u64> = pop(&inbox, mark).into_iter().collect();
        let pushed = producer.join().unwrap();
        assert!(pushed >= 1, "there was room for one");
        drained.extend(drain(&inbox));
        assert_eq!(drained, (1..4 + pushed).collect::<Vec<_>>());
    });
}

#[test]
fn nothing_is_refused_where_there_is_room() {
    in_every_order(2, || {
        let inbox = inbox(8);
        (1..3).for_each(|tag| push(&inbox, tag, tag, LARGE).unwrap());
        let producer = {
            let inbox = inbox.clone();
            thread::spawn(move || push(&inbox, 3, 3, LARGE))
        };
        push(&inbox, 4, 4, LARGE).unwrap();
        drain(&inbox);
        producer.join().unwrap().unwrap();
    });
}

#[test]
fn what_came_before_the_close_is_drained_and_nothing_comes_after_it() {
    in_every_order(2, || {
        let inbox = inbox(8);
        let producers = [1, 2].map(|tag| {
            let inbox = inbox.clone();
            thread::spawn(move || push(&inbox, tag, tag, 8))
        });
        inbox.close();
        let mark = inbox.mark();
        let mut drained = Vec::from_iter(pop(&inbox, mark));
        let pushed = producers.map(|producer| producer.join().unwrap());
        assert!(pushed.iter().all(|pushed| matches!(pushed, Ok(()) | Err(Refused::Closed))));
        drained.extend(std::iter::from_fn(|| pop(&inbox, mark)));
        drained.sort();
        let taken: Vec<u64> = (1..3).filter(|tag| pushed[*tag as usize - 1].is_ok()).collect();
        assert_eq!(drained, taken);
        assert!(inbox.is_empty());
    });
}
