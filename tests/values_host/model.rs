//! Stages that take the device's time, fail as they are told, and note each value that they are shown. What the engine
//! must never do with one is kept as a complaint.

use std::collections::BTreeMap;
use std::ffi::c_void;
use std::sync::{Arc, Mutex, MutexGuard};

use super::ledger::{Form, Loans, SIZE};
use crate::driver::*;
use crate::host::batch::{Batch, Member};
use crate::host::device::Device;

/// Heavy, of any size.
pub const PROMPT: u32 = 0;
/// Cheap, of any size.
pub const STYLE: u32 = 1;
/// Cheap, with a size.
pub const SIZED: u32 = 2;
const KEYS: u32 = 3;

/// What a host's own callback may return.
pub const HOST_ERROR: i32 = rte_status_code::RTE_ERR_HOST as i32;

/// A callback.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Who {
    Seed,
    Hot,
    Deferred,
    Encode,
}

/// One value as a stage was shown it.
#[derive(Clone, Copy, Debug)]
pub struct Shown {
    pub who: Who,
    pub session: u64,
    pub key: u32,
    /// Of its message.
    pub number: u64,
    /// The key is among those that have changed.
    pub is_changed: bool,
    /// Where.
    pub stream: usize,
    /// How often the call's stream was told to wait for the message's event before.
    pub waits: usize,
    /// Rows of the call.
    pub rows: usize,
    pub now: u64,
}

/// What the stages do, as a test sets it.
#[derive(Clone, Default)]
pub struct Knobs {
    /// How long the work of each callback takes; 0: none.
    pub lengths: BTreeMap<Who, u64>,
    /// A callback returns this.
    pub results: BTreeMap<Who, i32>,
    /// A callback fails the row of this session.
    pub bad_rows: BTreeMap<Who, u64>,
}

#[derive(Default)]
struct State {
    knobs: Knobs,
    shown: Vec<Shown>,
    /// By generation: the message whose heavy value was seeded or encoded last; 0: none.
    encoded: BTreeMap<u64, u64>,
    /// By generation and callback: when its last work on the row is done.
    busy_until: BTreeMap<(u64, Who), u64>,
    /// What `init` was shown.
    streams: [usize; 3],
    complaints: Vec<String>,
}

/// See the module's comment. Kept by the test until the engine was freed.
pub struct World {
    pub device: Arc<Device>,
    pub loans: Loans,
    max_sessions: usize,
    state: Mutex<State>,
}

impl World {
    pub fn new(max_sessions: usize) -> Arc<World> {
        let (device, loans, state) = (Device::new(), Loans::default(), Mutex::default());
        Arc::new(World { device, loans, max_sessions, state })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("no callback panics with the world in hand")
    }

    /// Sets what the stages do next.
    pub fn set(&self, change: impl FnOnce(&mut Knobs)) {
        change(&mut self.state().knobs);
    }

    /// What was shown since the last time.
    pub fn take_shown(&self) -> Vec<Shown> {
        std::mem::take(&mut self.state().shown)
    }

    /// The streams of the lanes, as `init` was shown them.
    pub fn streams(&self) -> [usize; 3] {
        self.state().streams
    }

    /// What must not be.
    pub fn complaints(&self) -> Vec<String> {
        self.state().complaints.clone()
    }

    fn complain(&self, who: Who, member: Member, what: &str) {
        self.state().complaints.push(format!("{who:?} of {member:?}: {what}"));
    }

    /// Looks at all values of a batch, whose work is done at `until`. Gives the number of the message of each row's heavy
    /// value.
    fn look(&self, who: Who, batch: &Batch<'_>, stream: rte_stream, until: u64) -> Vec<(Member, u64)> {
        let members = batch.members();
        for member in batch.padding() {
            if (0..KEYS).any(|key| is_something(&batch.raw_value(member, key as usize))) {
                self.complain(who, member, "padding has a value");
            }
        }
        let each = |member: Member| {
            let numbers = (0..KEYS).map(|key| self.look_at(who, batch, member, key, stream, until, members.len()));
            (member, numbers.collect::<Vec<_>>()[PROMPT as usize])
        };
        members.iter().copied().map(each).collect()
    }

    #[allow(clippy::too_many_arguments, reason = "all that a call is")]
    fn look_at(
        &self,
        who: Who,
        batch: &Batch<'_>,
        member: Member,
        key: u32,
        stream: rte_stream,
        until: u64,
        rows: usize,
    ) -> u64 {
        let value = batch.raw_value(member, key as usize);
        let is_device = value.flags == RTE_VALUE_DEVICE;
        if value.size == 0 {
            if is_something(&value) {
                self.complain(who, member, "an absent value has flags, a revision or an address");
            }
            return 0;
        }
        let loan = if is_device {
            self.loans.by_address(value.data.addr())
        } else {
            let bytes = batch.value(member, key as usize).and_then(|bytes| bytes.first_chunk::<SIZE>());
            self.loans.by_number(bytes.map_or(0, |bytes| u64::from_ne_bytes(*bytes)))
        };
        let Some((loan, item)) = loan.and_then(|loan| Some((loan.clone(), loan.item(key)?))) else {
            self.complain(who, member, "nobody has pushed this value");
            return 0;
        };
        let check = |is_right: bool, what: &str| {
            if !is_right {
                self.complain(who, member, &format!("message {}, key {key}: {what}", loan.number));
            }
        };
        check(value.size == SIZE && value.revision == item.revision, "its size or its revision is not what was pushed");
        check(is_device == (item.form == Form::Device) && value.flags & !RTE_VALUE_DEVICE == 0, "its flags are wrong");
        check(!is_device || value.data.addr() == loan.address(key), "it is not where it was");
        check(loan.session == member.session, "it is another session's");
        check(item.form == Form::Copied || loan.releases() == 0, "it was released");
        if item.form != Form::Copied {
            loan.use_until(until);
        }
        let ready = loan.ready.as_ref().filter(|_| is_device);
        let now = self.device.now();
        if let Some(ready) = ready {
            check(ready.at <= now || self.device.busy_until(stream) >= ready.at, "its event is not waited for");
        }
        self.state().shown.push(Shown {
            who,
            session: member.session,
            key,
            number: loan.number,
            is_changed: member.changed & 1 << key != 0,
            stream: stream.addr(),
            waits: ready.map_or(0, |ready| self.device.waits(stream, ready.event())),
            rows,
            now,
        });
        loan.number
    }

    /// Work on the rows that must be over is, or the stream is behind it.
    fn check_row_is_free(&self, who: Who, batch: &Batch<'_>, stream: rte_stream) {
        let now = self.device.now();
        let behind = self.device.busy_until(stream).max(now);
        let over = |what: Who, member: &Member, until: u64| {
            self.state().busy_until.get(&(member.generation, what)).is_none_or(|end| *end <= until)
        };
        for member in batch.members() {
            let is_free = match who {
                Who::Seed => true,
                // These are not even enqueued before.
                Who::Hot | Who::Deferred => over(Who::Encode, &member, now),
                Who::Encode => {
                    over(Who::Encode, &member, now)
                        && [Who::Seed, Who::Hot, Who::Deferred].iter().all(|who| over(*who, &member, behind))
                }
            };
            if !is_free {
                self.complain(who, member, "other work on the row is still under way");
            }
        }
    }

    fn call(&self, who: Who, batch: &mut Batch<'_>, stream: rte_stream) -> rte_status {
        let knobs = self.state().knobs.clone();
        self.check_row_is_free(who, batch, stream);
        let done = self.device.enqueue(stream, knobs.lengths.get(&who).copied().unwrap_or(0));
        let result = knobs.results.get(&who).copied().unwrap_or(0);
        for (member, heavy) in self.look(who, batch, stream, done) {
            self.state().busy_until.insert((member.generation, who), done);
            let is_bad = knobs.bad_rows.get(&who) == Some(&member.session);
            if is_bad {
                batch.fail(member, HOST_ERROR);
            }
            match who {
                Who::Seed | Who::Encode if result == 0 && !is_bad => {
                    self.state().encoded.insert(member.generation, heavy);
                }
                Who::Hot => {
                    let encoded = self.state().encoded.get(&member.generation).copied();
                    if encoded != Some(heavy) {
                        self.complain(who, member, &format!("{heavy} shows where {encoded:?} was encoded"));
                    }
                }
                _ => {}
            }
            if batch.has_output(member) {
                batch.write(member, &member.age.to_ne_bytes());
            }
        }
        result
    }
}

fn is_something(value: &rte_value) -> bool {
    value.size > 0 || value.revision != 0 || value.flags != 0 || !value.data.is_null()
}

/// The stages.
pub fn stages() -> [rte_stage; 3] {
    [stage(RTE_HOT, run_hot), stage(RTE_DEFERRED, run_deferred), stage(RTE_ENCODE, run_encode)]
}

/// The keys.
pub fn keys() -> [rte_key; KEYS as usize] {
    let heavy = rte_key { flags: RTE_KEY_HEAVY, ..zeroed() };
    [heavy, zeroed(), rte_key { size: SIZE, ..zeroed() }]
}

/// The model.
pub fn values_model(world: &Arc<World>, stages: &[rte_stage], keys: &[rte_key], flags: u32) -> rte_model {
    rte_model {
        flags,
        user: Arc::as_ptr(world).cast_mut().cast(),
        keys: keys.as_ptr(),
        key_count: keys.len() as u32,
        init: Some(init),
        seed: Some(run_seed),
        ..model(stages, world.max_sessions as u32, SIZE)
    }
}

unsafe extern "C-unwind" fn init(user: *mut c_void, streams: *const rte_stream) -> rte_status {
    // SAFETY: the test keeps the world until the engine was freed; there are three streams.
    unsafe { (*user.cast::<World>()).state().streams = [0, 1, 2].map(|lane| (*streams.add(lane)).addr()) };
    0
}

macro_rules! callbacks {
    ($($name:ident: $who:expr;)*) => {$(
        unsafe extern "C-unwind" fn $name(user: *mut c_void, raw: *mut rte_batch, stream: rte_stream) -> rte_status {
            // SAFETY: the test keeps the world until the engine was freed.
            let world = unsafe { &*user.cast::<World>() };
            // SAFETY: the engine gave the batch of a model with so many rows.
            world.call($who, &mut unsafe { Batch::new(raw, world.max_sessions) }, stream)
        }
    )*};
}

callbacks! {
    run_seed: Who::Seed;
    run_hot: Who::Hot;
    run_deferred: Who::Deferred;
    run_encode: Who::Encode;
}
