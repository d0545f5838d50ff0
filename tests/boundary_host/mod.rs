//! Hosts that try the boundary from inside.
//!
//! - [`world`]: a host that says of each of its callbacks that it was reached; [`play`]: what it does with its engine;
//! - [`panics`]: panics in its callbacks, and in the lanes of the engine: [`faulty`];
//! - [`reentry`]: calls of exported functions in its callbacks: [`functions`];
//! - [`neighbours`]: two engines in one process.

pub mod faulty;
pub mod functions;
pub mod neighbours;
pub mod panics;
pub mod play;
pub mod reentry;
pub mod world;
