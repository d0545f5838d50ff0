//! The inbox: what the host pushes.

use std::ffi::c_void;

use arrayvec::ArrayVec;

use super::engine::rte_engine;
use super::guard::{give_back, with_engine};
use super::message::*;
use super::mistake::{Mistake, Wrong, fits};
use super::options::{RTE_LANES_CUDA, RTE_LANES_HOST};
use super::status::rte_status;
use crate::conditioning::{Lent, MAX_KEYS, Release};
use crate::engine::Engine;
use crate::message::{Envelope, Kind};
use crate::queue::{Parcel, Refused, ValueIn};
use crate::telemetry::Level;
use crate::word::{Generation, KeySet, Session, Status};

/// Pushes one message. Never blocks, also before the engine is driven. Copies the message, its values and their bytes;
/// BORROWED bytes are borrowed until `message->release` has run. Messages of one thread keep their order.
///
/// RTE_OK: taken; what comes of it a notice tells. RTE_AGAIN: no room now (in the inbox, for this session, for its notices).
/// RTE_ERR_ARGUMENT: NULL; an unknown kind, flag or key; a key twice; a value of the wrong size; values with a kind that
/// has none; a generation with ATTACH; a non-zero reserved field; a DEVICE value of a key with a size, or without a
/// revision; `ready` without a DEVICE value. RTE_ERR_TOO_LARGE: more copied bytes than options.message_bytes.
/// RTE_ERR_UNAVAILABLE: DEVICE values or `ready` on lanes without a device, or with options.record_path. RTE_ERR_STATE:
/// after stop. RTE_ERR_DEAD. On all but RTE_OK nothing was taken, and the release does not run. Which field is wrong, a log
/// at WARN is told.
/// Threads: any, any number of them. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_inbox_push(engine: *mut rte_engine, message: *const rte_message) -> rte_status {
    with_engine(engine, |engine| {
        if message.is_null() {
            return refuse(engine, Mistake::Null).0;
        }
        // SAFETY: the host gave a valid message, whose `values` are NULL or `value_count` long.
        let message = unsafe { message.read_unaligned() };
        // SAFETY: as above.
        match unsafe { push(engine, &message) } {
            Ok(()) => {
                engine.shared.parked.notify();
                engine.note_push(Session(message.session));
                0
            }
            Err(status) => status.0,
        }
    })
}

#[cold]
fn refuse(engine: &Engine, mistake: Mistake) -> Status {
    engine.note_mistake("rte_inbox_push", || mistake.words(&engine.model().manifest().keys));
    mistake.status()
}

/// # Safety
/// `message.values` are NULL or `value_count` long, their data NULL or `size` long.
unsafe fn push(engine: &Engine, message: &rte_message) -> Result<(), Status> {
    let refuse = |mistake| refuse(engine, mistake);
    let kind = read_kind(message).map_err(refuse)?;
    // Large, so it is filled where it lies.
    let mut values = ValuesIn::new();
    // SAFETY: the caller's promise.
    unsafe { read_values(engine, message, &mut values) }.map_err(refuse)?;
    let shared = &engine.shared;
    let envelope = Envelope {
        kind,
        session: Session(message.session),
        generation: Generation(message.generation),
        user: message.user,
        tag: message.tag,
        pushed: shared.clock.now(),
    };
    if kind.begins_life() && !shared.outbox.reserve() {
        let why = if shared.inbox.is_closed() { Refused::Closed } else { Refused::Full };
        return Err(refused(engine, why, "no room for the notices of one more life: pop what is there"));
    }
    let release = message
        .release
        .map(|release| Release::new(run_release, [release as usize, message.release_user.expose_provenance()]));
    let ready = (!message.ready.is_null()).then(|| raw_event(message.ready));
    shared.inbox.push(Parcel { envelope, values: &values, ready, release }).map_err(|why| {
        if kind.begins_life() {
            shared.outbox.refund(crate::queue::LIFE_NOTICES);
        }
        refused(engine, why, NO_ROOM)
    })
}

const NO_ROOM: &str = "no room in the inbox, of which a session may use a quarter and ACTIONs three: push once a tick";

#[cold]
fn refused(engine: &Engine, why: Refused, words: &str) -> Status {
    match why {
        Refused::Closed if engine.death().is_some() => Status::DEAD,
        Refused::Closed => Status::STATE,
        Refused::Full => {
            let refused = engine.shared.counters.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed) + 1;
            if refused.is_power_of_two() {
                let line = || format!("rte_inbox_push: RTE_AGAIN, {words} ({refused} refused by now)");
                engine.shared.log.say(Level::Debug, line);
            }
            Status::AGAIN
        }
    }
}

fn run_release([release, user]: [usize; 2]) {
    // SAFETY: the two words are the `release` and `release_user` of a message, put together in `push`.
    give_back(|| unsafe {
        let release: unsafe extern "C-unwind" fn(*mut c_void) =
            std::mem::transmute(std::ptr::with_exposed_provenance::<()>(release));
        release(std::ptr::with_exposed_provenance_mut(user));
    });
}

fn read_kind(message: &rte_message) -> Result<Kind, Mistake> {
    let (kind, flags) = match message.kind {
        RTE_ATTACH => (Kind::Attach, 0),
        RTE_DETACH => (Kind::Detach { drain: message.flags & RTE_DRAIN != 0 }, RTE_DRAIN),
        RTE_RESET => (Kind::Reset, 0),
        RTE_ACTION => (Kind::Action { partial: message.flags & RTE_PARTIAL != 0 }, RTE_PARTIAL),
        RTE_PAUSE => (Kind::Pause, 0),
        RTE_RESUME => (Kind::Resume, 0),
        kind => return Err(Mistake::Kind(kind)),
    };
    let has_values = matches!(kind, Kind::Attach | Kind::Reset | Kind::Action { .. });
    let (count, reserved) = (message.value_count, message.reserved);
    if message.flags & !flags != 0 {
        return Err(Mistake::Flags(message.kind, message.flags, flags));
    }
    if let Some(at) = reserved.iter().position(|word| *word != 0) {
        return Err(Mistake::Reserved(at, reserved[at]));
    }
    if kind == Kind::Attach && message.generation != 0 {
        return Err(Mistake::Generation(message.generation));
    }
    if count > 0 && !has_values {
        return Err(Mistake::HasValues(message.kind, count));
    }
    if count > 0 && message.values.is_null() {
        return Err(Mistake::NoValues(count));
    }
    if count > MAX_KEYS {
        return Err(Mistake::TooManyValues(count));
    }
    Ok(kind)
}

type ValuesIn<'a> = ArrayVec<ValueIn<'a>, MAX_KEYS>;

/// # Safety
/// As for `push`.
unsafe fn read_values<'a>(engine: &Engine, message: &'a rte_message, values: &mut ValuesIn<'a>) -> Result<(), Mistake> {
    let keys = &engine.model().manifest().keys;
    let (takes_device, mut has_device) = (engine.settings().takes_device_values, false);
    let is_recorded = matches!(engine.settings().lanes, RTE_LANES_CUDA | RTE_LANES_HOST);
    if !message.ready.is_null() && !takes_device {
        return Err(Mistake::Ready { is_recorded });
    }
    let most = engine.settings().message_bytes;
    let (mut seen, mut copied) = (KeySet::NONE, 0usize);
    for at in 0..message.value_count {
        // SAFETY: the caller's promise.
        let value = unsafe { message.values.add(at).read_unaligned() };
        let key = value.key as usize;
        let wrong = |what| Err(Mistake::Value(at, value, what));
        if key >= keys.len() {
            return wrong(Wrong::Key);
        }
        if seen.has(key) {
            return wrong(Wrong::Twice);
        }
        if value.flags & !(RTE_VALUE_BORROWED | RTE_VALUE_DEVICE) != 0 {
            return wrong(Wrong::Flags);
        }
        seen.add(key);
        let is_device = value.flags & RTE_VALUE_DEVICE != 0;
        if is_device && !takes_device {
            return wrong(Wrong::Device { is_recorded });
        }
        // A column lies in the processor's memory.
        if is_device && value.size > 0 && keys.spec(key).size > 0 {
            return wrong(Wrong::DeviceColumn);
        }
        // Nobody here can tell whether bytes of a device have changed.
        if is_device && value.size > 0 && value.revision == 0 {
            return wrong(Wrong::DeviceRevision);
        }
        has_device |= is_device && value.size > 0;
        if value.size > 0 && value.data.is_null() {
            return wrong(Wrong::NoData);
        }
        if value.size > 0 && !fits(value.size, keys.spec(key)) {
            return wrong(Wrong::Size);
        }
        let is_lent = value.flags & RTE_VALUE_BORROWED != 0;
        if is_lent && !is_device && value.size > isize::MAX as usize {
            return wrong(Wrong::Vast);
        }
        let content = if value.size == 0 {
            Ok(&[][..])
        } else if is_device {
            Err(Lent::on_device(value.data.expose_provenance(), value.size))
        } else if is_lent {
            // SAFETY: the host lends the bytes until its release has run, which travels with the message.
            Err(unsafe { Lent::new(value.data.expose_provenance(), value.size) })
        } else {
            copied = copied.saturating_add(value.size);
            if copied > most {
                // Refused below, unless it has a worse mistake; nobody has looked whether so many bytes can be.
                Ok(&[][..])
            } else {
                // SAFETY: the caller's promise; borrowed until the push returns.
                Ok(unsafe { std::slice::from_raw_parts(value.data.cast::<u8>(), value.size) })
            }
        };
        values.push(ValueIn { key: value.key, revision: value.revision, content });
    }
    match copied {
        _ if !message.ready.is_null() && !has_device => Err(Mistake::ReadyForNothing),
        copied if copied > most => Err(Mistake::TooLarge(copied, most)),
        _ => Ok(()),
    }
}
