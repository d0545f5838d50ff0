//! Coming and going costs nothing that stays: sessions by the million on one engine, engines by the thousand in one
//! process, and lives that fail in every way.
//!
//! `RTE_CHURN_SESSIONS=n`, `RTE_CHURN_ENGINES=n`, `RTE_CHURN_LIVES=n` run so many instead.

mod backend;
mod churn_host;
mod driver;
mod host;
mod process;
mod random;

use churn_host::comings::{self, On};
use churn_host::{engines, failures};
use process::{alone, count_of};

#[global_allocator]
static ALLOCATOR: process::Counting = process::Counting;

#[test]
fn a_million_sessions_come_and_go_and_leave_nothing() {
    alone("a_million_sessions_come_and_go_and_leave_nothing", || {
        let sessions = count_of("RTE_CHURN_SESSIONS", 1_000_000);
        comings::check(On::Inline, sessions * 8 / 10);
        comings::check(On::SettledThreads, sessions / 10);
        comings::check(On::Threads, sessions / 10);
    });
}

#[test]
fn ten_thousand_engines_come_and_go_and_leave_nothing() {
    alone("ten_thousand_engines_come_and_go_and_leave_nothing", || {
        engines::check(count_of("RTE_CHURN_ENGINES", 10_000))
    });
}

#[test]
fn a_hundred_thousand_lives_that_fail_in_every_way_are_each_accounted_for() {
    failures::check(count_of("RTE_CHURN_LIVES", 100_000));
}

#[test]
fn an_init_that_fails_leaves_nothing_either() {
    alone("an_init_that_fails_leaves_nothing_either", failures::check_init);
}
