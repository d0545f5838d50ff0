//! Hosts that do what bytes say, for a fuzzer (`make fuzz`) and for `tests/fuzz.rs`, which runs them without one. What they
//! are made of is the tests'.

pub mod bytes;
pub mod descriptors;
pub mod messages;

#[path = "../../tests/backend/mod.rs"]
pub mod backend;
#[path = "../../tests/driver/mod.rs"]
pub mod driver;
#[path = "../../tests/random/mod.rs"]
pub mod random;

#[path = "../../tests/host"]
pub mod host {
    pub mod batch;
}

#[path = "../../tests/churn_host"]
pub mod churn_host {
    pub mod fickle;
    pub mod ledger;
}
