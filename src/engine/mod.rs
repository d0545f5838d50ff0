//! The engine: rows and lives, the tick, and how it is driven.

mod admission;
mod arena;
mod cohort;
mod collect;
mod drive;
mod encode;
mod ending;
mod failure;
mod flight;
mod handle;
mod herald;
mod hold;
mod outlook;
mod replay;
mod residents;
mod seeding;
mod serve;
mod served;
mod shared;
mod shutdown;
mod silence;
mod step;
mod telling;
mod tracing;

pub use cohort::{Cohort, Plan, Progress};
pub use drive::Settings;
pub use handle::{Body, Engine, Failure};
pub use outlook::Outlook;
pub use serve::{Saying, Serving, What};
pub use shared::{OnOutput, Shared};
