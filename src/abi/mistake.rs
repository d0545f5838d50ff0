//! What is wrong with a message. A push has no place for an rte_error: it is put into words for the log, if somebody reads it.

use super::message::rte_value;
use crate::conditioning::{Element, KeySpec, Keys, MAX_KEYS};
use crate::word::Status;

/// What is wrong with a message.
#[derive(Clone, Copy)]
pub(super) enum Mistake {
    Null,
    Kind(u32),
    /// Its kind, its flags, and those that the kind knows.
    Flags(u32, u32, u32),
    Reserved(usize, u64),
    /// Of an ATTACH.
    Generation(u64),
    /// Its kind, which has none, and how many.
    HasValues(u32, usize),
    NoValues(usize),
    TooManyValues(usize),
    /// A run that is recorded; else lanes without a device.
    Ready {
        is_recorded: bool,
    },
    ReadyForNothing,
    /// The bytes to copy, and how many they may be.
    TooLarge(usize, usize),
    /// Of the value at this place.
    Value(usize, rte_value, Wrong),
}

/// What is wrong with a value.
#[derive(Clone, Copy)]
pub(super) enum Wrong {
    Key,
    Twice,
    Flags,
    /// As for `Ready`.
    Device {
        is_recorded: bool,
    },
    DeviceColumn,
    DeviceRevision,
    NoData,
    Size,
    /// Lent, and more than there can be.
    Vast,
}

/// Why the memory of a device is no use here.
fn no_device(is_recorded: bool) -> &'static str {
    if is_recorded {
        "what a device has is not on the record of options.record_path"
    } else {
        "the lanes have no device"
    }
}

impl Mistake {
    /// What the push returns.
    pub fn status(self) -> Status {
        match self {
            Mistake::Ready { .. } | Mistake::Value(_, _, Wrong::Device { .. }) => Status::UNAVAILABLE,
            Mistake::TooLarge(..) => Status::TOO_LARGE,
            _ => Status::ARGUMENT,
        }
    }

    /// Names the field and its value.
    pub fn words(self, keys: &Keys) -> String {
        const ZERO: &str = "zero the message before you set its fields";
        match self {
            Mistake::Null => "message: NULL".to_string(),
            Mistake::Kind(kind) => format!("message.kind: {kind} is not a kind: {ZERO}"),
            Mistake::Flags(kind, flags, known) => {
                format!("message.flags: {flags:#x}, but {} knows {known:#x}: {ZERO}", kind_name(kind))
            }
            Mistake::Reserved(at, value) => format!("message.reserved[{at}]: {value:#x} must be zero: {ZERO}"),
            Mistake::Generation(generation) => {
                format!("message.generation: {generation}, but RTE_ATTACH begins a new life: leave it 0")
            }
            Mistake::HasValues(kind, count) => {
                format!("message.value_count: {count}, but {} has none", kind_name(kind))
            }
            Mistake::NoValues(count) => format!("message.values: NULL, but value_count is {count}"),
            Mistake::TooManyValues(count) => format!("message.value_count: {count} is more than {MAX_KEYS}"),
            Mistake::Ready { is_recorded } => format!("message.ready: set, but {}", no_device(is_recorded)),
            Mistake::ReadyForNothing => "message.ready: set, but no value is RTE_VALUE_DEVICE".to_string(),
            Mistake::TooLarge(size, most) => {
                format!(
                    "message.values: {size} bytes are more than options.message_bytes {most}: pass them RTE_VALUE_BORROWED"
                )
            }
            Mistake::Value(at, value, wrong) => format!("message.values[{at}].{}", value_words(value, wrong, keys)),
        }
    }
}

fn value_words(value: rte_value, wrong: Wrong, keys: &Keys) -> String {
    let rte_value { key, size, flags, .. } = value;
    let spec = (key as usize) < keys.len();
    let spec = spec.then(|| keys.spec(key as usize));
    let name = spec.map_or("", |spec| &spec.name);
    match wrong {
        Wrong::Key => format!("key: {key}, but model.key_count is {}", keys.len()),
        Wrong::Twice => format!("key: {key} ({name}) is in the message already"),
        Wrong::Flags => format!("flags: {flags:#x} has unknown bits"),
        Wrong::Device { is_recorded } => format!("flags: RTE_VALUE_DEVICE, but {}", no_device(is_recorded)),
        Wrong::DeviceColumn => format!("flags: RTE_VALUE_DEVICE, but key {key} ({name}) has a size, and so a column"),
        Wrong::DeviceRevision => "revision: 0, but with RTE_VALUE_DEVICE nobody can tell what has changed".to_string(),
        Wrong::NoData => format!("data: NULL, but size is {size}"),
        Wrong::Vast => format!("size: {size} is more than any memory has"),
        Wrong::Size => match spec.map_or((0, 1), |spec| (spec.size, element(spec))) {
            (0, element) => format!("size: {size}, but key {key} ({name}) takes a multiple of {element}"),
            (exact, _) => format!("size: {size}, but key {key} ({name}) takes {exact}"),
        },
    }
}

fn kind_name(kind: u32) -> &'static str {
    ["RTE_ATTACH", "RTE_DETACH", "RTE_RESET", "RTE_ACTION", "RTE_PAUSE", "RTE_RESUME"]
        .get(kind.wrapping_sub(1) as usize)
        .unwrap_or(&"no kind")
}

/// Whether a value of a key may have so many bytes.
pub(super) fn fits(size: usize, spec: &KeySpec) -> bool {
    if spec.size > 0 { size == spec.size } else { size.is_multiple_of(element(spec)) }
}

fn element(spec: &KeySpec) -> usize {
    match spec.element {
        Element::Bytes => 1,
        Element::U32 | Element::F32 => 4,
        Element::I64 | Element::F64 => 8,
    }
}
