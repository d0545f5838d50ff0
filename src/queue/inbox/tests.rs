//! What the inbox keeps to, by itself.

use super::*;
use crate::word::Generation;
use std::sync::Arc;

fn inbox(messages: usize, message_bytes: usize, bytes: u64) -> Inbox {
    Inbox::new(Limits { messages, message_bytes, bytes }).unwrap()
}

fn envelope(kind: Kind, session: u64, tag: u64) -> Envelope {
    Envelope { kind, session: Session(session), generation: Generation(0), user: 0, tag, pushed: 0 }
}

fn push(inbox: &Inbox, kind: Kind, session: u64, tag: u64, bytes: &[u8]) -> Result<(), Refused> {
    let values = [ValueIn { key: 5, revision: 9, content: Ok(bytes) }];
    inbox.push(Parcel { envelope: envelope(kind, session, tag), values: &values, ready: None, release: None })
}

const ACTION: Kind = Kind::Action { partial: false };

#[test]
fn values_of_any_size_arrive_whole_across_many_turns_of_the_arena() {
    let inbox = inbox(8, 1000, 0);
    for turn in 0..5000usize {
        let bytes: Vec<u8> = (0..turn * 37 % 1001).map(|at| (at + turn) as u8).collect();
        push(&inbox, ACTION, turn as u64, turn as u64, &bytes).unwrap();
        if turn % 2 == 1 {
            for back in [1, 0] {
                let message = inbox.pop(inbox.mark()).unwrap();
                let turn = turn - back;
                assert_eq!(message.envelope().tag, turn as u64);
                let value = message.values().next().unwrap();
                let content = value.content.unwrap();
                assert_eq!((value.key, value.revision, content.len()), (5, 9, turn * 37 % 1001));
                assert!(content.iter().enumerate().all(|(at, byte)| *byte == (at + turn) as u8));
            }
        }
    }
}

#[test]
fn a_session_that_floods_has_a_quarter_and_actions_have_three_quarters() {
    let inbox = inbox(64, 64, 0);
    let pushed = (0..64).take_while(|n| push(&inbox, ACTION, 1, *n, b"x").is_ok()).count();
    assert_eq!(pushed, 16);
    let others = (0..64).take_while(|n| push(&inbox, ACTION, 100 + n, *n, b"x").is_ok()).count();
    assert_eq!(pushed + others, 48);
    assert!(push(&inbox, Kind::Attach, 7, 0, b"x").is_ok());
    while inbox.pop(inbox.mark()).is_some() {}
    assert!(push(&inbox, ACTION, 1, 0, b"x").is_ok());
}

#[test]
fn bytes_are_shared_out_as_cells_are() {
    let inbox = inbox(1024, 4096, 64 * 1024);
    let big = [3u8; 4096];
    let pushed = (0..64).take_while(|n| push(&inbox, ACTION, 1, *n, &big).is_ok()).count();
    assert!((1..=4).contains(&pushed));
    assert!(push(&inbox, ACTION, 2, 0, &big).is_ok());
}

#[test]
fn a_share_is_used_to_its_last_byte_and_so_is_the_whole() {
    // 64 KiB: sixteen such messages with their heads, four a session, twelve of them ACTIONs.
    let inbox = inbox(1024, 4096, 64 << 10);
    let big = [3u8; 4096 - HEAD];
    for _ in 0..3 {
        let push_all = |kind, session| (0..64).take_while(|n| push(&inbox, kind, session, *n, &big).is_ok()).count();
        assert_eq!([1, 2, 3, 4].map(|session| push_all(ACTION, session)), [4, 4, 4, 0]);
        assert_eq!([4, 5].map(|session| push_all(Kind::Attach, session)), [4, 0]);
        let drained = std::iter::from_fn(|| inbox.pop(inbox.mark())).count();
        assert_eq!(drained, 16);
    }
}

#[test]
fn what_was_recorded_gets_in_again_whatever_refuses_it_and_is_whole() {
    let inbox = inbox(8, 1000, 0);
    let contents: Vec<Vec<u8>> = (0..8).map(|at| vec![at as u8; [3, 1000][at % 2]]).collect();
    let push_all = || {
        for (content, tag) in contents.iter().zip(0..) {
            let values = [ValueIn { key: 5, revision: 9, content: Ok(content) }];
            inbox
                .push_again(Parcel { envelope: envelope(ACTION, 1, tag), values: &values, ready: None, release: None })
                .unwrap();
        }
        let refused = if inbox.is_closed() { Refused::Closed } else { Refused::Full };
        assert_eq!(push(&inbox, Kind::Attach, 2, 0, b""), Err(refused));
    };
    let drain = || {
        for (content, tag) in contents.iter().zip(0..) {
            let message = inbox.pop(inbox.mark()).unwrap();
            assert_eq!(message.envelope().tag, tag);
            assert_eq!(message.values().next().unwrap().content.unwrap(), content);
        }
    };
    for _ in 0..100 {
        push_all();
        drain();
    }
    assert!(push(&inbox, ACTION, 1, 0, b"").is_ok(), "its shares came back");
    assert!(inbox.pop(inbox.mark()).is_some());
    inbox.close();
    push_all();
    drain();
}

#[test]
fn a_message_left_in_place_comes_once_more_and_whole() {
    static RELEASED: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
    let inbox = inbox(8, 64, 0);
    let bytes = [7u8; 3];
    // SAFETY: `bytes` outlives the queue's use of it.
    let lent = unsafe { Lent::new(bytes.as_ptr().expose_provenance(), 3) };
    let values = [ValueIn { key: 5, revision: 9, content: Err(lent) }];
    let release = Some(Release::new(|_| _ = RELEASED.fetch_add(1, Ordering::Relaxed), [0; 2]));
    inbox.push(Parcel { envelope: envelope(ACTION, 1, 3), values: &values, ready: None, release }).unwrap();
    inbox.pop(inbox.mark()).unwrap().leave_in_place();
    assert!(inbox.has_next() && !inbox.has_second());
    push(&inbox, ACTION, 1, 4, b"x").unwrap();
    assert!(inbox.has_second());
    let mut again = inbox.pop(inbox.mark()).unwrap();
    assert_eq!((again.envelope().tag, again.values().next().map(|value| value.key)), (3, Some(5)));
    let release = again.release.take();
    again.leave_in_place();
    assert!(inbox.pop(inbox.mark()).is_some_and(|message| message.release.is_none()));
    assert_eq!(RELEASED.load(Ordering::Relaxed), 0);
    drop(release);
    assert_eq!(RELEASED.load(Ordering::Relaxed), 1);
    assert!(inbox.pop(inbox.mark()).is_some_and(|message| message.envelope().tag == 4));
    assert!(inbox.is_empty());
}

#[test]
fn nothing_gets_in_after_close() {
    let inbox = Arc::new(inbox(1024, 64, 0));
    let pushers: Vec<_> = (0..2)
        .map(|p| {
            let inbox = inbox.clone();
            std::thread::spawn(move || {
                (0..400).filter(|n| push(&inbox, Kind::Pause, p * 1000 + n, *n, b"").is_ok()).count()
            })
        })
        .collect();
    assert!(!inbox.is_closed());
    inbox.close();
    assert!(inbox.is_closed());
    let mark = inbox.mark();
    let pushed: usize = pushers.into_iter().map(|p| p.join().unwrap()).sum();
    let mut drained = 0;
    while inbox.pop(mark).is_some() {
        drained += 1;
    }
    assert_eq!(drained, pushed);
    assert_eq!(push(&inbox, Kind::Pause, 1, 0, b""), Err(Refused::Closed));
}
