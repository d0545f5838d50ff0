//! Many live sessions of one model, stepped together, behind the C ABI of `include/rte.h`.
//!
//! From the bottom up, each using only what stands before it: the vocabulary ([`word`], [`rows`], [`memory`]), what goes
//! in and out ([`conditioning`], [`message`], [`output`], [`batch`]), what a model is ([`model`]), [`time`], [`queue`],
//! [`telemetry`], where stages run ([`lane`]), the tick and what drives it ([`engine`]), the built-in model
//! ([`reference`](mod@reference)), and the boundary ([`abi`]): the only place with exported functions and raw pointers of the host.

pub mod abi;
pub mod batch;
pub mod conditioning;
pub mod engine;
pub mod lane;
pub mod memory;
pub mod message;
pub mod model;
pub mod output;
pub mod queue;
pub mod reference;
pub mod rows;
pub mod telemetry;
pub mod time;
pub mod word;
