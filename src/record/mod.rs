//! A run of an engine on a file, and the same run again.
//!
//! A tick is a function of what it is told: the messages that it drained, the times that it read, what the lanes said of
//! fences, what consumers had left room for, and what the model does. All but the last are *answers*, and a [`Tape`] is
//! a list of them in the order in which they were asked for. Recording writes each down as it is given. Playing gives
//! them again; so the engine takes the same way, and the model is called with the same batches in the same order.
//! Between the two stands only the order in which lanes overlap, of which a model's results do not depend.
//!
//! Touched by the engine's thread alone. Off it costs one look a question.

mod file;
mod lanes;
mod tape;

pub use file::{Reader, Writer};
pub use lanes::TapedLanes;
pub use tape::{Call, Delivery, Part, Tape};
