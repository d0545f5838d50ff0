//! Reads a host's model table: every field is checked, and what is wrong is said with its name and value.

use super::descriptor::{array, text};
use super::model::*;
use crate::conditioning::{Element, KeySpec, Keys, MAX_KEYS, Merge};
use crate::engine::Failure;
use crate::model::{Hooks, Manifest, StageSpec};
use crate::time::Rate;
use crate::word::{Lane, Status};

pub(super) const MAX_SESSIONS: u32 = 1 << 16;
const MAX_STAGES: u32 = 256;
const MAX_BYTES: usize = 1 << 32;

fn wrong(message: String) -> Failure {
    Failure::new(Status::ARGUMENT, message)
}

/// `Ok` if `value` has no bits but `known`.
pub(super) fn check_bits(name: &str, value: u32, known: u32) -> Result<(), Failure> {
    match value & !known {
        0 => Ok(()),
        unknown => Err(wrong(format!("{name}: {value:#x} has unknown bits {unknown:#x}"))),
    }
}

pub(super) fn check_zero(name: &str, value: u64) -> Result<(), Failure> {
    if value == 0 { Ok(()) } else { Err(wrong(format!("{name}: {value} must be zero"))) }
}

/// # Safety
/// The table's `stages` are NULL or `stage_count` long.
pub(super) unsafe fn read_stages(table: &rte_model) -> Result<Vec<rte_stage>, Failure> {
    if table.stage_count > MAX_STAGES {
        return Err(wrong(format!("model.stage_count: {} is more than {MAX_STAGES}", table.stage_count)));
    }
    // SAFETY: the caller's promise.
    unsafe { array(table.stages, table.stage_count as usize, "model.stages") }
}

/// # Safety
/// The table's pointers are NULL or valid: `keys` has `key_count` items, names are C strings.
pub(super) unsafe fn read(table: &rte_model, stages: &[rte_stage]) -> Result<Manifest, Failure> {
    check_flags(table)?;
    if table.serve.is_some() {
        check_serve(table, stages)?;
    }
    check_range("model.max_sessions", table.max_sessions as usize, MAX_SESSIONS as usize)?;
    check_range("model.chunk_bytes", table.chunk_bytes, MAX_BYTES)?;
    check_zero("model.reserved0", table.reserved0.into())?;
    // SAFETY: the caller's promise.
    let (stages, keys, name) = unsafe { (check_stages(table, stages)?, read_keys(table)?, text(table.name)) };
    if let (true, Some(at)) =
        (table.serve.is_some(), keys.iter().position(|key| key.heavy || key.merge != Merge::Latest))
    {
        let key = &keys[at];
        let what = if key.heavy { "is HEAVY" } else { "merges" };
        return Err(wrong(format!(
            "model.keys[{at}]: {} {what}, but serve is shown messages as they were pushed",
            key.name
        )));
    }
    if let (false, Some(at)) = (stages.iter().any(|s| s.lane == Lane::Encode), keys.iter().position(|key| key.heavy)) {
        return Err(wrong(format!("model.keys[{at}].flags: {} is HEAVY, but no stage is RTE_ENCODE", keys[at].name)));
    }
    let or_one = |number: u32| number.max(1);
    Ok(Manifest {
        name,
        max_sessions: table.max_sessions,
        chunk_bytes: table.chunk_bytes,
        rate: read_rate(table)?,
        frames_per_chunk: or_one(table.frames_per_chunk),
        input_latency_chunks: or_one(table.input_latency_chunks),
        is_dense: table.flags & RTE_MODEL_DENSE != 0,
        no_midrun: table.flags & RTE_MODEL_NO_MIDRUN != 0,
        is_retry_safe: table.flags & RTE_MODEL_RETRY_SAFE != 0,
        seeds_aside: table.flags & RTE_MODEL_SEED_ASIDE != 0,
        owns_outputs: table.flags & RTE_MODEL_OWN_OUTPUT != 0,
        on_device: table.flags & RTE_MODEL_DEVICE_OUTPUT != 0,
        outputs_block: table.flags & RTE_MODEL_OUTPUT_BLOCK != 0,
        keys: Keys::new(keys),
        stages: stages.into(),
        hooks: Hooks {
            ready: table.ready.is_some(),
            seed: table.seed.is_some(),
            detach: table.detach.is_some(),
            finalize: table.finalize.is_some(),
        },
    })
}

fn check_flags(table: &rte_model) -> Result<(), Failure> {
    let known = RTE_MODEL_DENSE | RTE_MODEL_NO_MIDRUN | RTE_MODEL_RETRY_SAFE | RTE_MODEL_SEED_ASIDE;
    let outputs = RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT | RTE_MODEL_OUTPUT_BLOCK;
    check_bits("model.flags", table.flags, known | outputs)?;
    let elsewhere = table.flags & (RTE_MODEL_OWN_OUTPUT | RTE_MODEL_DEVICE_OUTPUT);
    if table.flags & RTE_MODEL_OUTPUT_BLOCK != 0 && elsewhere != 0 {
        let what =
            "model.flags: RTE_MODEL_OUTPUT_BLOCK, but with OWN_OUTPUT or DEVICE_OUTPUT there is no block of ours";
        return Err(wrong(what.to_string()));
    }
    if (table.flags & RTE_MODEL_OWN_OUTPUT != 0) != table.release_output.is_some() {
        let what = if table.release_output.is_some() { "set, but not" } else { "NULL, but" };
        return Err(wrong(format!("model.release_output: {what} RTE_MODEL_OWN_OUTPUT")));
    }
    Ok(())
}

/// What is the stages' is not there.
fn check_serve(table: &rte_model, stages: &[rte_stage]) -> Result<(), Failure> {
    let hooks = [
        ("stages", !stages.is_empty()),
        ("init", table.init.is_some()),
        ("ready", table.ready.is_some()),
        ("seed", table.seed.is_some()),
        ("detach", table.detach.is_some()),
        ("finalize", table.finalize.is_some()),
        ("release_output", table.release_output.is_some()),
    ];
    match hooks.iter().find(|(_, is_there)| *is_there) {
        Some((name, _)) => Err(wrong(format!("model.{name}: set, but the model has serve, which does all of it"))),
        None if table.flags != 0 => Err(wrong(format!("model.flags: {:#x}, but the model has serve", table.flags))),
        None => Ok(()),
    }
}

fn check_range(name: &str, value: usize, most: usize) -> Result<(), Failure> {
    if (1..=most).contains(&value) { Ok(()) } else { Err(wrong(format!("{name}: {value} is not in 1..={most}"))) }
}

fn read_rate(table: &rte_model) -> Result<Option<Rate>, Failure> {
    match (table.rate_num, table.rate_den) {
        (0, 0) => Ok(None),
        (num, den) if num == 0 || den == 0 || u64::from(num) > 1_000_000_000 * u64::from(den) => Err(wrong(format!(
            "model.rate_num/rate_den: {num}/{den} is not a rate of at most 1e9 a second; 0/0 is free-running"
        ))),
        (num, den) => Ok(Some(Rate { num, den })),
    }
}

/// # Safety
/// Names are NULL or C strings.
unsafe fn check_stages(table: &rte_model, stages: &[rte_stage]) -> Result<Vec<StageSpec>, Failure> {
    let mut specs = Vec::with_capacity(stages.len());
    for (at, stage) in stages.iter().enumerate() {
        let lane = match stage.lane {
            RTE_HOT => Lane::Hot,
            RTE_DEFERRED => Lane::Deferred,
            RTE_ENCODE => Lane::Encode,
            other => return Err(wrong(format!("model.stages[{at}].lane: {other} is not a lane"))),
        };
        if stage.run.is_none() {
            return Err(wrong(format!("model.stages[{at}].run: NULL")));
        }
        check_zero(&format!("model.stages[{at}].flags"), stage.flags.into())?;
        check_zero(&format!("model.stages[{at}].reserved"), stage.reserved)?;
        // SAFETY: the caller's promise.
        specs.push(StageSpec { name: unsafe { text(stage.name) }, lane });
    }
    if table.serve.is_none() && !specs.iter().any(|stage| stage.lane == Lane::Hot) {
        return Err(wrong(format!("model.stages: none of {} is RTE_HOT, and there is no serve", specs.len())));
    }
    Ok(specs)
}

/// # Safety
/// `keys` is NULL or has `key_count` items whose names are NULL or C strings.
unsafe fn read_keys(table: &rte_model) -> Result<Vec<KeySpec>, Failure> {
    let count = table.key_count as usize;
    if count > MAX_KEYS {
        return Err(wrong(format!("model.key_count: {count} is more than RTE_MAX_KEYS ({MAX_KEYS})")));
    }
    // SAFETY: the caller's promise.
    let keys = unsafe { array(table.keys, count, "model.keys")? };
    // SAFETY: the caller's promise.
    keys.iter().enumerate().map(|(at, key)| unsafe { read_key(at, key) }).collect()
}

/// # Safety
/// The name is NULL or a C string.
unsafe fn read_key(at: usize, key: &rte_key) -> Result<KeySpec, Failure> {
    let (element, element_size) = match key.r#type {
        RTE_BYTES => (Element::Bytes, 1),
        RTE_U32 => (Element::U32, 4),
        RTE_I64 => (Element::I64, 8),
        RTE_F32 => (Element::F32, 4),
        RTE_F64 => (Element::F64, 8),
        other => return Err(wrong(format!("model.keys[{at}].type: {other} is not an element type"))),
    };
    let merge = match key.merge {
        RTE_MERGE_LATEST => Merge::Latest,
        RTE_MERGE_SUM => Merge::Sum,
        RTE_MERGE_OR => Merge::Or,
        other => return Err(wrong(format!("model.keys[{at}].merge: {other} is not a merge rule"))),
    };
    check_bits(&format!("model.keys[{at}].flags"), key.flags, RTE_KEY_HEAVY)?;
    check_zero(&format!("model.keys[{at}].reserved"), key.reserved.into())?;
    let heavy = key.flags & RTE_KEY_HEAVY != 0;
    if key.size > MAX_BYTES || !key.size.is_multiple_of(element_size) {
        return Err(wrong(format!(
            "model.keys[{at}].size: {} is not a multiple of {element_size} up to {MAX_BYTES}",
            key.size
        )));
    }
    let merges = match merge {
        Merge::Latest => true,
        Merge::Sum => matches!(element, Element::I64 | Element::F32 | Element::F64),
        Merge::Or => matches!(element, Element::Bytes | Element::U32 | Element::I64),
    };
    if !merges {
        return Err(wrong(format!("model.keys[{at}].merge: {} does not go with type {}", key.merge, key.r#type)));
    }
    if merge != Merge::Latest && (key.size == 0 || heavy) {
        let why = if heavy { "the key is HEAVY" } else { "the key has no size" };
        return Err(wrong(format!("model.keys[{at}].merge: {} needs a size and a cheap key, but {why}", key.merge)));
    }
    // SAFETY: the caller's promise.
    let name = unsafe { text(key.name) };
    let name = if name.is_empty() { format!("key {at}").into() } else { name };
    Ok(KeySpec { name, size: key.size, element, merge, heavy })
}
