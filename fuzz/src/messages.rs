//! An engine with a model that fails in many ways, and a host that pushes, ticks and pops as the bytes say. Every push
//! returns what rte.h says of such a message; every life is accounted for; everything comes back.

use std::ffi::c_void;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

use crate::backend::backend;
use crate::bytes::Bytes;
use crate::churn_host::fickle::{Fickle, Nature};
use crate::churn_host::ledger::{Ledger, credits};
use crate::driver::*;

const OK: rte_status = 0;
const AGAIN: rte_status = 1;
const TIMEOUT: rte_status = 2;
const CLOSED: rte_status = 3;
const ARGUMENT: rte_status = -1;
const STATE: rte_status = -3;
const UNKNOWN: rte_status = -5;
const UNAVAILABLE: rte_status = -8;
const TOO_LARGE: rte_status = -14;

const MESSAGE_BYTES: usize = 256;
const MANY_STEPS: usize = 512;
const MANY_VALUES: usize = 66;

static LENT: [u8; 512] = {
    let mut bytes = [0; 512];
    let mut at = 0;
    while at < 512 {
        bytes[at] = (at * 7 % 251) as u8;
        at += 1;
    }
    bytes
};

/// Releases owed, and run.
static OWED: AtomicU64 = AtomicU64::new(0);
static RELEASED: AtomicU64 = AtomicU64::new(0);

unsafe extern "C-unwind" fn release(_: *mut c_void) {
    RELEASED.fetch_add(1, SeqCst);
}

struct Play<'a> {
    host: Host,
    nature: Nature,
    ledger: Ledger,
    tag: u64,
    kept: Vec<rte_output>,
    is_stopped: bool,
    bytes: Bytes<'a>,
}

/// Which model on which lanes: the first bytes.
fn shape(bytes: &mut Bytes) -> (Nature, rte_engine_options) {
    let flags = bytes.byte();
    let bit = |at: u32, flag: u32| if flags >> at & 1 != 0 { flag } else { 0 };
    let nature = Nature {
        seed: bytes.byte().into(),
        rows: 1 + bytes.below(4) as u32,
        flags: bit(0, RTE_MODEL_DENSE)
            | bit(1, RTE_MODEL_NO_MIDRUN)
            | bit(2, RTE_MODEL_OWN_OUTPUT)
            | bit(3, RTE_MODEL_RETRY_SAFE)
            | bit(4, RTE_MODEL_SEED_ASIDE),
        has_deferred: flags >> 5 & 1 != 0,
        has_encode: flags >> 6 & 1 != 0,
    };
    let options = rte_engine_options {
        lanes: if flags >> 7 != 0 { RTE_LANES_HOST } else { RTE_LANES_INLINE },
        pipeline: bytes.below(3) as u32,
        outbox_policy: bytes.below(3) as u32,
        outbox_depth: 1 + bytes.below(3) as u32,
        held_max: 1 + bytes.below(2) as u32,
        seed_attempts: bytes.below(3) as u32,
        encode_attempts: bytes.below(3) as u32,
        inbox_capacity: 16,
        message_bytes: MESSAGE_BYTES as u32,
        inbox_bytes: 1,
        ..options()
    };
    (nature, options)
}

impl Play<'_> {
    fn value(&mut self) -> rte_value {
        let bytes = &mut self.bytes;
        let key = bytes.below(4) as u32;
        // The first key's values have 8 bytes.
        let size = match bytes.below(4) {
            0 | 1 => 8,
            2 => usize::from(bytes.byte()) * 2,
            _ => bytes.number() as usize % 512,
        };
        let flags = match bytes.below(8) {
            0..=3 => 0,
            4..=6 => RTE_VALUE_BORROWED,
            _ => bytes.number() as u32,
        };
        let data = if bytes.byte() % 16 == 15 { null() } else { LENT.as_ptr().cast() };
        let revision = if bytes.is_rare() { bytes.number() } else { 0 };
        rte_value { data, size, revision, key, flags }
    }

    fn message(&mut self) -> rte_message {
        self.tag += 1;
        let bytes = &mut self.bytes;
        let kind = bytes.byte();
        let kind = if kind < 240 { 1 + u32::from(kind) % 6 } else { bytes.number() as u32 };
        rte_message {
            flags: if bytes.is_rare() { bytes.number() as u32 } else { 0 },
            session: bytes.below(self.nature.rows as usize + 2) as u64,
            generation: if bytes.is_rare() { bytes.number() } else { 0 },
            user: bytes.byte().into(),
            tag: self.tag,
            ready: if bytes.byte() == 255 { std::ptr::without_provenance_mut(1) } else { null_mut() },
            release: if bytes.byte().is_multiple_of(2) { Some(release) } else { None },
            reserved: [u64::from(bytes.byte() == 255), 0],
            ..message(kind, 0)
        }
    }

    fn push(&mut self) {
        let message = self.message();
        let count = match self.bytes.byte() {
            few @ 0..=249 => usize::from(few) % 4,
            many => usize::from(many - 249) * 11,
        };
        let values: Vec<rte_value> = (0..count.min(MANY_VALUES)).map(|_| self.value()).collect();
        let has_none = values.is_empty() || self.bytes.byte() == 255;
        let message = rte_message {
            values: if has_none { null() } else { values.as_ptr() },
            value_count: values.len(),
            ..message
        };
        let allowed = self.answers(&message, &values);
        // SAFETY: the engine lives; values are as many as is said, and their bytes static.
        let status = unsafe { rte_inbox_push(self.host.engine, &message) };
        assert!(allowed.contains(&status), "{status} is not one of {allowed:?}");
        if status == OK {
            OWED.fetch_add(message.release.is_some().into(), SeqCst);
            match message.kind {
                RTE_ATTACH => self.ledger.take(message.tag),
                RTE_RESET if message.generation == 0 => self.ledger.take(message.tag),
                RTE_RESET => self.ledger.take_perhaps(message.tag),
                _ => {}
            }
        }
    }

    /// What rte.h says of a push: each mistake that it has, or else that it is taken, or not now.
    fn answers(&self, message: &rte_message, values: &[rte_value]) -> Vec<rte_status> {
        let mut mistakes = Vec::new();
        let mut mistake = |is_one: bool, status: rte_status| {
            if is_one {
                mistakes.push(status)
            }
        };
        let known = match message.kind {
            RTE_ACTION => RTE_PARTIAL,
            RTE_DETACH => RTE_DRAIN,
            _ => 0,
        };
        let may_have_values = [RTE_ATTACH, RTE_RESET, RTE_ACTION].contains(&message.kind);
        mistake(!(RTE_ATTACH..=RTE_RESUME).contains(&message.kind), ARGUMENT);
        mistake(message.flags & !known != 0 || message.reserved != [0, 0], ARGUMENT);
        mistake(message.kind == RTE_ATTACH && message.generation != 0, ARGUMENT);
        mistake(!values.is_empty() && (message.values.is_null() || !may_have_values), ARGUMENT);
        mistake(values.len() > 64, ARGUMENT);
        let on_device = |value: &&rte_value| value.flags & RTE_VALUE_DEVICE != 0;
        let has_device = self.host.info().lanes == RTE_LANES_HOST;
        mistake(!message.ready.is_null() && !has_device, UNAVAILABLE);
        let is_shown = values.iter().filter(on_device).any(|value| value.size > 0);
        mistake(!message.ready.is_null() && has_device && !is_shown, ARGUMENT);
        for (at, value) in values.iter().enumerate() {
            mistake(value.key >= 2 || values[..at].iter().any(|other| other.key == value.key), ARGUMENT);
            mistake(value.flags & !(RTE_VALUE_BORROWED | RTE_VALUE_DEVICE) != 0, ARGUMENT);
            mistake(on_device(&value) && !has_device, UNAVAILABLE);
            mistake(on_device(&value) && value.size > 0 && (value.key == 0 || value.revision == 0), ARGUMENT);
            mistake(value.size > 0 && (value.data.is_null() || value.key == 0 && value.size != 8), ARGUMENT);
        }
        let is_lent = |value: &&rte_value| value.flags & (RTE_VALUE_BORROWED | RTE_VALUE_DEVICE) != 0;
        let copied = values.iter().filter(|value| !is_lent(value)).map(|value| value.size);
        mistake(copied.sum::<usize>() > MESSAGE_BYTES, TOO_LARGE);
        if mistakes.is_empty() { if self.is_stopped { vec![STATE] } else { vec![OK, AGAIN] } } else { mistakes }
    }

    fn tick(&mut self) {
        let due: Vec<u64> = match self.bytes.byte() {
            0..=191 => Vec::new(),
            bits => (0..6).filter(|at| bits >> at & 1 != 0).collect(),
        };
        // SAFETY: the engine lives; `due` until the call is over.
        let status = unsafe {
            match due.is_empty() {
                true => rte_engine_tick(self.host.engine, u64::MAX),
                false => rte_engine_step(self.host.engine, due.as_ptr(), due.len(), u64::MAX),
            }
        };
        assert_eq!(status, if self.is_stopped { CLOSED } else { OK });
    }

    /// Pops one output and keeps it; false: there is none.
    fn pop(&mut self) -> bool {
        let mut output = zeroed();
        // SAFETY: the engine lives; a valid place.
        match unsafe { rte_outbox_pop(self.host.engine, &mut output) } {
            OK => {
                self.ledger.tell(&output);
                self.kept.push(output);
                true
            }
            status => {
                assert!(status == AGAIN || self.is_stopped && status == CLOSED, "{status}");
                false
            }
        }
    }

    fn release(&mut self) {
        if !self.kept.is_empty() {
            let at = self.bytes.below(self.kept.len());
            give_back(self.kept.swap_remove(at));
        }
    }

    fn look(&mut self) {
        let info = self.host.info();
        assert!(info.attached <= info.max_sessions && info.health == OK, "{}", info.health);
        let mut session = rte_session_info { struct_size: size_of::<rte_session_info>() as u32, ..zeroed() };
        let name = self.bytes.below(8) as u64;
        // SAFETY: the engine lives; a valid place.
        let status = unsafe { rte_session_get_info(self.host.engine, name, &mut session) };
        assert!(status == UNKNOWN || status == OK && (RTE_PENDING..=RTE_HELD).contains(&session.state));
        // SAFETY: the engine lives.
        let status = unsafe { rte_outbox_wait(self.host.engine, 0) };
        assert!([OK, TIMEOUT, CLOSED].contains(&status));
    }

    fn stop(&mut self) {
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_stop(self.host.engine, u64::MAX, null_mut()) }, OK);
        self.is_stopped = true;
    }

    fn step(&mut self) {
        match self.bytes.byte() {
            0..=109 => self.push(),
            110..=179 => self.tick(),
            180..=199 => drop(self.pop()),
            200..=219 => while self.pop() {},
            220..=239 => self.release(),
            240..=253 => self.look(),
            _ if self.bytes.byte() > 250 => self.stop(),
            _ => {}
        }
    }
}

fn give_back(mut output: rte_output) {
    // SAFETY: popped, and given back once.
    unsafe { rte_output_release(&mut output, null_mut()) };
}

/// See the module's comment. One at a time.
pub fn run(bytes: &[u8]) {
    let mut bytes = Bytes(bytes);
    let (nature, options) = shape(&mut bytes);
    let fickle = Fickle::new(nature);
    let (stages, keys, backend) = (fickle.stages(), fickle.keys(), backend());
    let is_host = options.lanes == RTE_LANES_HOST;
    let options = rte_engine_options { backend: if is_host { &backend } else { null() }, ..options };
    let host = Host::new(&fickle.table(&stages, &keys), &options);
    let places = credits(&host);
    let mut play = Play { host, nature, ledger: Ledger::default(), tag: 0, kept: Vec::new(), is_stopped: false, bytes };
    for _ in 0..MANY_STEPS {
        if play.bytes.is_empty() {
            break;
        }
        play.step();
    }
    play.stop();
    while play.pop() {}
    play.ledger.expect_settled();
    assert_eq!(credits(&play.host), places, "what was paid for notices is back");
    let Play { host, mut kept, .. } = play;
    // Some go after the engine.
    let after = kept.split_off(kept.len() / 2);
    kept.into_iter().for_each(give_back);
    drop(host);
    after.into_iter().for_each(give_back);
    fickle.expect_all_back();
    assert_eq!(OWED.load(SeqCst), RELEASED.load(SeqCst), "each release once");
}
