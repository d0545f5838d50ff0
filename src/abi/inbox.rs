//! The inbox: what the host pushes.

use std::ffi::c_void;

use arrayvec::ArrayVec;

use super::engine::rte_engine;
use super::guard::{give_back, with_engine};
use super::message::*;
use super::status::rte_status;
use crate::conditioning::{Element, KeySpec, Lent, MAX_KEYS, Release};
use crate::engine::Engine;
use crate::message::{Envelope, Kind};
use crate::queue::{Parcel, Refused, ValueIn};
use crate::word::{Generation, KeySet, Session, Status};

/// Pushes one message. Never blocks, also before the engine is driven. Copies the message, its values and their bytes;
/// BORROWED bytes are borrowed until `message->release` has run. Messages of one thread keep their order.
///
/// RTE_OK: taken; what comes of it a notice tells. RTE_AGAIN: no room now (in the inbox, for this session, for its notices).
/// RTE_ERR_ARGUMENT: NULL; an unknown kind, flag or key; a key twice; a value of the wrong size; values with a kind that
/// has none; a generation with ATTACH; a non-zero reserved field; a DEVICE value of a key with a size, or without a
/// revision; `ready` without a DEVICE value. RTE_ERR_TOO_LARGE: more copied bytes than
/// options.message_bytes. RTE_ERR_UNAVAILABLE: DEVICE values or `ready` on lanes without a device, or with
/// options.record_path. RTE_ERR_STATE: after
/// stop. RTE_ERR_DEAD. On all but RTE_OK nothing was taken, and the release does not run.
/// Threads: any, any number of them. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn rte_inbox_push(engine: *mut rte_engine, message: *const rte_message) -> rte_status {
    with_engine(engine, |engine| {
        if message.is_null() {
            return Status::ARGUMENT.0;
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

/// # Safety
/// `message.values` are NULL or `value_count` long, their data NULL or `size` long.
unsafe fn push(engine: &Engine, message: &rte_message) -> Result<(), Status> {
    let kind = read_kind(message)?;
    // SAFETY: the caller's promise.
    let values = unsafe { read_values(engine, message)? };
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
        return Err(refused(engine, if shared.inbox.is_closed() { Refused::Closed } else { Refused::Full }));
    }
    let release = message
        .release
        .map(|release| Release::new(run_release, [release as usize, message.release_user.expose_provenance()]));
    let ready = (!message.ready.is_null()).then(|| raw_event(message.ready));
    shared.inbox.push(Parcel { envelope, values: &values, ready, release }).map_err(|why| {
        if kind.begins_life() {
            shared.outbox.refund(crate::queue::LIFE_NOTICES);
        }
        refused(engine, why)
    })
}

fn refused(engine: &Engine, why: Refused) -> Status {
    match why {
        Refused::Closed if engine.death().is_some() => Status::DEAD,
        Refused::Closed => Status::STATE,
        Refused::Full => {
            engine.shared.counters.refused.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
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

fn read_kind(message: &rte_message) -> Result<Kind, Status> {
    let (kind, flags) = match message.kind {
        RTE_ATTACH => (Kind::Attach, 0),
        RTE_DETACH => (Kind::Detach { drain: message.flags & RTE_DRAIN != 0 }, RTE_DRAIN),
        RTE_RESET => (Kind::Reset, 0),
        RTE_ACTION => (Kind::Action { partial: message.flags & RTE_PARTIAL != 0 }, RTE_PARTIAL),
        RTE_PAUSE => (Kind::Pause, 0),
        RTE_RESUME => (Kind::Resume, 0),
        _ => return Err(Status::ARGUMENT),
    };
    let has_values = matches!(kind, Kind::Attach | Kind::Reset | Kind::Action { .. });
    let is_wrong = message.flags & !flags != 0
        || message.reserved != [0; 2]
        || (kind == Kind::Attach && message.generation != 0)
        || (message.value_count > 0 && (!has_values || message.values.is_null()))
        || message.value_count > MAX_KEYS;
    if is_wrong {
        return Err(Status::ARGUMENT);
    }
    Ok(kind)
}

type ValuesIn<'a> = ArrayVec<ValueIn<'a>, MAX_KEYS>;

/// # Safety
/// As for `push`.
unsafe fn read_values<'a>(engine: &Engine, message: &'a rte_message) -> Result<ValuesIn<'a>, Status> {
    let keys = &engine.model().manifest().keys;
    let (takes_device, mut has_device) = (engine.settings().takes_device_values, false);
    if !message.ready.is_null() && !takes_device {
        return Err(Status::UNAVAILABLE);
    }
    let (mut values, mut seen, mut copied) = (ValuesIn::new(), KeySet::NONE, 0usize);
    for at in 0..message.value_count {
        // SAFETY: the caller's promise.
        let value = unsafe { message.values.add(at).read_unaligned() };
        let key = value.key as usize;
        if key >= keys.len() || seen.has(key) || value.flags & !(RTE_VALUE_BORROWED | RTE_VALUE_DEVICE) != 0 {
            return Err(Status::ARGUMENT);
        }
        seen.add(key);
        let is_device = value.flags & RTE_VALUE_DEVICE != 0;
        if is_device && !takes_device {
            return Err(Status::UNAVAILABLE);
        }
        // A column lies in the processor's memory, and nobody here can tell whether bytes of a device have changed.
        if is_device && value.size > 0 && (keys.spec(key).size > 0 || value.revision == 0) {
            return Err(Status::ARGUMENT);
        }
        has_device |= is_device && value.size > 0;
        if value.size > 0 && (value.data.is_null() || !fits(value.size, keys.spec(key))) {
            return Err(Status::ARGUMENT);
        }
        let content = if value.size == 0 {
            Ok(&[][..])
        } else if is_device {
            Err(Lent::on_device(value.data.expose_provenance(), value.size))
        } else if value.flags & RTE_VALUE_BORROWED != 0 {
            // SAFETY: the host lends the bytes until its release has run, which travels with the message.
            Err(unsafe { Lent::new(value.data.expose_provenance(), value.size) })
        } else {
            copied = copied.saturating_add(value.size);
            // SAFETY: the caller's promise; borrowed until the push returns.
            Ok(unsafe { std::slice::from_raw_parts(value.data.cast::<u8>(), value.size) })
        };
        values.push(ValueIn { key: value.key, revision: value.revision, content });
    }
    match copied {
        _ if !message.ready.is_null() && !has_device => Err(Status::ARGUMENT),
        copied if copied > engine.settings().message_bytes => Err(Status::TOO_LARGE),
        _ => Ok(values),
    }
}

fn fits(size: usize, spec: &KeySpec) -> bool {
    let element = match spec.element {
        Element::Bytes => 1,
        Element::U32 | Element::F32 => 4,
        Element::I64 | Element::F64 => 8,
    };
    if spec.size > 0 { size == spec.size } else { size.is_multiple_of(element) }
}
