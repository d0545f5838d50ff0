//! Many live sessions of one model, stepped together, behind the C ABI of `include/rte.h`.
//!
//! From the bottom up, each using only what stands before it: the vocabulary ([`word`], [`rows`], [`memory`], [`sync`]), what goes
//! in and out ([`conditioning`], [`message`], [`output`], [`batch`]), what a model is ([`model`]), [`time`], [`queue`],
//! [`telemetry`], where stages run ([`lane`]), the tick and what drives it ([`engine`]), the built-in model
//! ([`reference`](mod@reference)), and the boundary ([`abi`]): the only place with exported functions and raw pointers of the host.

// The header is made of `abi` alone: cbindgen passes over the rest.
pub mod abi;
/// cbindgen:ignore
pub mod batch;
/// cbindgen:ignore
pub mod conditioning;
/// cbindgen:ignore
pub mod engine;
/// cbindgen:ignore
pub mod lane;
/// cbindgen:ignore
pub mod memory;
/// cbindgen:ignore
pub mod message;
/// cbindgen:ignore
pub mod model;
/// cbindgen:ignore
pub mod output;
/// cbindgen:ignore
pub mod queue;
/// cbindgen:ignore
pub mod record;
/// cbindgen:ignore
pub mod reference;
/// cbindgen:ignore
pub mod rows;
/// cbindgen:ignore
pub mod sync;
/// cbindgen:ignore
pub mod telemetry;
/// cbindgen:ignore
pub mod time;
/// cbindgen:ignore
pub mod word;
