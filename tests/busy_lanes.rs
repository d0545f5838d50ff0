//! Threads lanes on which calls hang and fail, while sessions join, leave and start anew, and the host stops or frees the
//! engine: who is told what, what is delivered, and that nothing is left.

mod driver;
mod host;
mod works_host;

use driver::*;
use works_host::host::*;
use works_host::{FAILED, Place, Rule, Works};

// ---- what is seen of a call when its rows have others already

/// What HOT said of a row is seen in the next tick, when the row may have been given to another life.
#[test]
fn a_row_that_fails_just_when_its_session_starts_anew_does_not_fail_the_new_life() {
    type Leave = (&'static str, fn(&Host), u64);
    let ways: [Leave; 3] = [
        ("reset", |host| send(host, RTE_RESET, 1), 1),
        ("left and came back", |host| [RTE_DETACH, RTE_ATTACH].iter().for_each(|kind| send(host, *kind, 1)), 1),
        (
            "another came in its place",
            |host| {
                send(host, RTE_DETACH, 1);
                send(host, RTE_ATTACH, 2);
            },
            2,
        ),
    ];
    for (name, leave, next) in ways {
        for is_seeded in [false, true] {
            for _ in 0..50 {
                let works = if is_seeded { Works::new(0) } else { Works::without_seed(0) };
                let host = works.engine(&on_threads(c"late"));
                send(&host, RTE_ATTACH, 1);
                tick(&host);
                tick(&host);
                works.rule(Place::Hot, 1, Rule::FailRow(FAILED));
                let calls = works.count(Place::Hot, 1);
                tick(&host);
                until("HOT", || works.count(Place::Hot, 1) > calls);
                std::thread::yield_now();
                works.forget(Place::Hot, 1);
                leave(&host);
                let mut came = Came::default();
                for _ in 0..4 {
                    let more = tick(&host);
                    came.notices.extend(more.notices);
                    came.chunks.extend(more.chunks);
                }
                let case = format!("{name}, seeded: {is_seeded}: {came:?}");
                assert!(!came.has(RTE_ROW_FAILED, next), "{case}");
                assert_eq!(host.info().quarantined, 0, "{case}");
                assert!(came.chunks.iter().any(|(session, index, _)| (*session, *index) == (next, 0)), "{case}");
                works.expect_order();
            }
        }
    }
}
