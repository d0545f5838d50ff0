//! What goes in: a push, a message and a question each get the answer that is true at that moment, also from a callback in
//! the middle of a tick, beside a consumer that stands still, and at the end.

mod driver;
mod serve_host;

use std::ffi::c_void;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use driver::*;
use serve_host::{AGAIN, DEAD, Ends, OK, STATE};

const TOO_LARGE: i32 = rte_status_code::RTE_ERR_TOO_LARGE as i32;

/// What the callbacks do.
struct Play<'a> {
    hot: Box<dyn FnMut(&rte_batch) -> i32 + 'a>,
    seed: Box<dyn FnMut(&rte_batch) -> i32 + 'a>,
}

impl<'a> Play<'a> {
    fn new(hot: impl FnMut(&rte_batch) -> i32 + 'a) -> Play<'a> {
        Play { hot: Box::new(hot), seed: Box::new(|_| OK) }
    }

    fn host(&mut self, keys: &[rte_key], max_sessions: u32, options: &rte_engine_options) -> Host {
        let stages = [stage(RTE_HOT, hot)];
        let model = rte_model {
            user: std::ptr::from_mut(self).cast(),
            keys: keys.as_ptr(),
            key_count: keys.len() as u32,
            seed: Some(seed),
            ..model(&stages, max_sessions, 8)
        };
        Host::new(&model, options)
    }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the test's `Play`, which outlives its engine; callbacks of one lane never overlap; the arrays of a batch.
    unsafe {
        std::slice::from_raw_parts_mut((*batch).output_size, (*batch).count as usize).fill(1);
        ((*user.cast::<Play<'_>>()).hot)(&*batch)
    }
}

unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: as above.
    unsafe { ((*user.cast::<Play<'_>>()).seed)(&*batch) }
}

/// An engine as its callbacks, and other threads, have it: once it is made.
#[derive(Default)]
struct Later(AtomicU64);

impl Later {
    fn set(&self, host: &Host) {
        self.0.store(host.engine.expose_provenance() as u64, SeqCst);
    }

    fn ends(&self) -> Ends {
        Ends(std::ptr::with_exposed_provenance_mut(self.0.load(SeqCst) as usize))
    }
}

fn send(host: &Host, kind: u32, session: u64) {
    assert_eq!(host.push(message(kind, session), &[]), OK);
}

fn key(size: usize, of: u32, merge: u32, flags: u32) -> rte_key {
    rte_key { size, r#type: of, merge, flags, ..zeroed() }
}

// ---- pushes

/// Pushes ACTIONs of session 1 until there is no room for more of them.
fn use_up_the_share(ends: Ends) {
    let pushed = (0..1000).take_while(|_| ends.push(message(RTE_ACTION, 1), &[]) == OK).count();
    assert!((1..1000).contains(&pushed), "{pushed}");
    assert_eq!(ends.push(message(RTE_ACTION, 1), &[]), AGAIN);
}

#[test]
fn who_has_used_up_its_share_is_told_of_the_death_and_of_the_stop_all_the_same() {
    for dies in [true, false] {
        let later = Later::default();
        let mut play = Play::new(|_| {
            use_up_the_share(later.ends());
            if dies {
                return DEAD;
            }
            later.ends().stop(0);
            assert_eq!(later.ends().push(message(RTE_ACTION, 1), &[]), STATE, "the stop was asked for");
            OK
        });
        let host = play.host(&[], 1, &options());
        later.set(&host);
        send(&host, RTE_ATTACH, 1);
        assert_eq!(host.tick(), if dies { DEAD } else { OK });
        for session in [1, 2] {
            let expected = if dies { DEAD } else { STATE };
            assert_eq!(host.push(message(RTE_ACTION, session), &[]), expected, "session {session}, dies: {dies}");
        }
    }
}

#[test]
fn a_size_that_no_memory_has_is_too_large_and_nothing_more() {
    let mut play = Play::new(|_| OK);
    let host = play.host(&[key(0, RTE_BYTES, 0, 0), key(0, RTE_BYTES, 0, 0)], 1, &options());
    let byte = [1u8];
    for size in [usize::MAX, usize::MAX / 2 + 1, 1 << 40] {
        let huge = rte_value { size, ..value(0, &byte) };
        assert_eq!(host.push(message(RTE_ATTACH, 1), &[huge]), TOO_LARGE, "{size:#x}");
        assert_eq!(host.push(message(RTE_ATTACH, 1), &[value(1, &byte), huge]), TOO_LARGE, "{size:#x} and 1");
    }
}

#[test]
fn actions_of_many_leave_room_for_the_largest_context_wherever_the_bytes_wrap() {
    // The largest message, with its heads, is a quarter of the bytes to the last one.
    let largest = (1 << 16) - 64 * 40;
    for misplaced in [0, 1 << 14, 1 << 15, 3 << 14] {
        let mut play = Play::new(|_| OK);
        let sizes = rte_engine_options { message_bytes: largest, inbox_bytes: 1, ..options() };
        let host = play.host(&[key(0, RTE_BYTES, 0, 0)], 8, &sizes);
        let bytes = vec![7u8; largest as usize];
        assert_eq!(host.push(message(RTE_ACTION, 9), &[value(0, &bytes[..misplaced])]), OK);
        assert_eq!(host.tick(), OK);
        let taken =
            (1..100).filter(|session| host.push(message(RTE_ACTION, *session), &[value(0, &bytes)]) == OK).count();
        assert!((2..4).contains(&taken), "{taken} of the largest ACTIONs");
        let attach = host.push(message(RTE_ATTACH, 100), &[value(0, &bytes)]);
        assert_eq!(attach, OK, "behind {taken} ACTIONs, {misplaced} bytes after the begin");
    }
}
