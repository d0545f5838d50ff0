//! The fourth way to drive an engine: through a record, in its time.

use std::fmt::Write;

use super::cohort::{Cohort, Progress};
use super::drive::Settings;
use super::shared::Shared;
use crate::conditioning::{KeySpec, Lent};
use crate::model::Manifest;
use crate::queue::{LIFE_NOTICES, Parcel, Policy, ValueIn};
use crate::record::{Delivery, Tape};
use crate::word::{Fault, Nanos, Status};

/// Runs `cohort`, which is on `tape`, to the end of the record, or to where the run leaves it: `tape` then says how.
/// Pushes of others are refused meanwhile.
pub fn replay(shared: &Shared, cohort: &mut Cohort, tape: &Tape) -> Result<(), Fault> {
    shared.inbox.close();
    while tape.problem().is_none() {
        let (is_stop, due) = match tape.next_call() {
            Ok(call) => call,
            Err(None) => break,
            // The record tells of a death that the model does not repeat: a device's.
            Err(Some(fault)) => return Err(fault),
        };
        tape.deliveries().into_iter().for_each(|message| push(shared, tape, message));
        let progress = if is_stop { cohort.shutdown(Nanos::MAX) } else { cohort.tick(due.as_deref(), Nanos::MAX) };
        if is_stop && progress? == Progress::Done {
            return Ok(());
        }
        progress?;
    }
    // It did not end by a stop: nothing runs any more all the same.
    cohort.halt(Nanos::MAX);
    shared.outbox.end(Status::CLOSED, None);
    Ok(())
}

/// As a host would, but that nothing is refused: it was taken when it was recorded.
fn push(shared: &Shared, tape: &Tape, message: Delivery) {
    let Delivery { envelope, values } = message;
    if envelope.kind.begins_life() {
        shared.outbox.refund(-LIFE_NOTICES);
    }
    let parts: Vec<_> = values.iter().filter(|value| value.is_lent).map(|value| value.bytes.clone()).collect();
    let (lents, release) = Lent::of_parts(parts);
    let release = (!lents.is_empty()).then_some(release);
    let mut lents = lents.into_iter();
    let values: Vec<_> = values
        .iter()
        .map(|part| {
            let content = if part.is_lent { lents.next().map_or(Ok(&[][..]), Err) } else { Ok(&part.bytes[..]) };
            ValueIn { key: part.key, revision: part.revision, content }
        })
        .collect();
    if shared.inbox.push_again(Parcel { envelope, values: &values, ready: None, release }).is_err() {
        tape.fail("a message of the record finds no room in the inbox".to_string());
    }
}

/// What an engine has to be like to run a record of another: one fact a line.
pub fn facts(manifest: &Manifest, settings: &Settings, policy: Policy) -> String {
    let mut facts = String::new();
    let mut say = |name: &str, value: String| {
        let _ = writeln!(facts, "{name}: {value}");
    };
    say("model.name", manifest.name.to_string());
    say("model.max_sessions", manifest.max_sessions.to_string());
    say("model.chunk_bytes", manifest.chunk_bytes.to_string());
    say("model.frames_per_chunk", manifest.frames_per_chunk.to_string());
    let flags = [
        (manifest.is_dense, "DENSE"),
        (manifest.no_midrun, "NO_MIDRUN"),
        (manifest.is_retry_safe, "RETRY_SAFE"),
        (manifest.seeds_aside, "SEED_ASIDE"),
        (manifest.owns_outputs, "OWN_OUTPUT"),
        (manifest.on_device, "DEVICE_OUTPUT"),
        (manifest.outputs_block, "OUTPUT_BLOCK"),
    ];
    let flags: Vec<_> = flags.iter().filter(|(is_set, _)| *is_set).map(|(_, name)| *name).collect();
    say("model.flags", flags.join(" "));
    for (at, stage) in manifest.stages.iter().enumerate() {
        say(&format!("model.stages[{at}]"), format!("{:?} {}", stage.lane, stage.name));
    }
    say("model's hooks", format!("{:?}", manifest.hooks));
    for (at, key) in manifest.keys.iter() {
        let KeySpec { name, size, element, merge, heavy } = key;
        let heavy = if *heavy { " HEAVY" } else { "" };
        say(&format!("model.keys[{at}]"), format!("{name} {size} {element:?} {merge:?}{heavy}"));
    }
    let plan = &settings.plan;
    say("pipeline depth", if plan.pipelined { "2" } else { "1" }.to_string());
    say("options.seed_attempts", plan.seed_attempts.to_string());
    say("options.encode_attempts", plan.encode_attempts.to_string());
    say("output buffers of a session", plan.quota.to_string());
    let policy = match policy {
        Policy::DropOldest => "RTE_DROP_OLDEST",
        Policy::DropNewest => "RTE_DROP_NEWEST",
        Policy::Hold => "RTE_HOLD",
    };
    say("options.outbox_policy", policy.to_string());
    facts
}

/// What is not the same in the facts of a record and of an engine, in words.
pub fn difference(record: &str, engine: &str) -> Option<String> {
    let (mut theirs, mut ours) = (record.lines(), engine.lines());
    loop {
        match (theirs.next(), ours.next()) {
            (None, None) => return None,
            (theirs, ours) if theirs != ours => {
                let [theirs, ours] = [theirs, ours].map(|line| line.unwrap_or("nothing more"));
                return Some(format!("of another engine: there {theirs}; here {ours}"));
            }
            _ => {}
        }
    }
}
