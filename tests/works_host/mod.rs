//! A model each of whose calls can be held up or made to fail, for whom and how the test says; and what it is to see
//! meanwhile: who may be where at once, which life is in a row, which latent and which prompt belong to it.

// Each test program includes this folder and uses its own part of it.
#![allow(dead_code)]

pub mod host;

use std::ffi::{c_char, c_void};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

use crate::driver::*;
use crate::host::batch::{Batch, Member};
use crate::host::traffic::{Errand, Traffic};

pub const ROWS: usize = 12;
/// A heavy key.
pub const PROMPT: u32 = 0;
/// A key whose values add up.
pub const TAPS: u32 = 1;
/// A status of the model's own.
pub const FAILED: i32 = -1000;

/// A callback.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Place {
    Seed,
    Hot,
    Deferred,
    Encode,
    Detach,
}

impl Place {
    pub const ALL: [Place; 5] = [Place::Seed, Place::Hot, Place::Deferred, Place::Encode, Place::Detach];

    /// What the library calls it.
    pub fn name(self) -> String {
        format!("{self:?}").to_lowercase()
    }
}

/// What becomes of calls with a session in them.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Rule {
    /// They stand still.
    Hold,
    /// They fail as a whole, and leave no trace.
    FailWhole(i32),
    /// That row fails alone.
    FailRow(i32),
}

/// An engine of it. Where a test fails, nobody stands still any more when it is freed.
pub struct Working {
    /// Dropped first.
    _opener: Opener,
    host: Host,
}

struct Opener(&'static Works);

impl Drop for Opener {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.0.forget_all();
        }
    }
}

impl std::ops::Deref for Working {
    type Target = Host;
    fn deref(&self) -> &Host {
        &self.host
    }
}

/// What a chunk says.
#[repr(C)]
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Said {
    pub session: u64,
    pub generation: u64,
    pub age: u64,
    /// The prompt that its HOT was shown.
    pub prompt: u64,
    /// The taps that its HOT was shown.
    pub taps: i64,
}

/// What the model keeps of a row.
#[derive(Clone, Copy, Default)]
struct Home {
    /// The life that was seeded and not detached; 0: none.
    generation: u64,
    /// What ENCODE has made of its prompt.
    encoded: u64,
    latents: [Said; 2],
}

#[derive(Default)]
struct State {
    rules: Vec<(Place, u64, Rule)>,
    /// Calls that stand still: where, and whose.
    standing: Vec<(Place, Vec<u64>)>,
    calls: Vec<(Place, Vec<u64>)>,
    homes: [Home; ROWS],
    complaints: Vec<String>,
    /// Pointers of its own that were chunks', and those that came back.
    given: u64,
    returned: u64,
}

/// The model. Never freed: an engine that was left to its stuck thread may call it at any time.
pub struct Works {
    state: Mutex<State>,
    changed: Condvar,
    /// Calls that have begun and not returned.
    inside: AtomicUsize,
    traffic: Traffic,
    flags: u32,
    is_seeded: bool,
    has_gate: bool,
    is_open: AtomicBool,
    /// How often the gate was asked.
    asked: AtomicUsize,
}

impl Works {
    /// With these flags of a model.
    pub fn new(flags: u32) -> &'static Works {
        Works::build(flags, true, false)
    }

    /// Its rows need no first state.
    pub fn without_seed(flags: u32) -> &'static Works {
        Works::build(flags, false, false)
    }

    /// Its sessions are let in while a gate is open.
    pub fn gated(flags: u32) -> &'static Works {
        Works::build(flags, true, true)
    }

    fn build(flags: u32, is_seeded: bool, has_gate: bool) -> &'static Works {
        let (state, changed, inside, is_open, asked) = Default::default();
        Box::leak(Box::new(Works {
            state,
            changed,
            inside,
            traffic: Traffic::new(true),
            flags,
            is_seeded,
            has_gate,
            is_open,
            asked,
        }))
    }

    /// An engine of it, free-running unless the host ticks.
    pub fn engine(&'static self, options: &rte_engine_options) -> Working {
        let named = |name: &'static std::ffi::CStr, stage| rte_stage { name: name.as_ptr(), ..stage };
        let stages = [
            named(c"hot", stage(RTE_HOT, hot)),
            named(c"deferred", stage(RTE_DEFERRED, deferred)),
            named(c"encode", stage(RTE_ENCODE, encode)),
        ];
        let keys = [
            rte_key { flags: RTE_KEY_HEAVY, ..zeroed() },
            rte_key { size: 8, r#type: RTE_I64, merge: RTE_MERGE_SUM, ..zeroed() },
        ];
        let owns = self.flags & RTE_MODEL_OWN_OUTPUT != 0;
        let model = rte_model {
            user: std::ptr::from_ref(self).cast_mut().cast(),
            flags: self.flags,
            keys: keys.as_ptr(),
            key_count: keys.len() as u32,
            ready: self.has_gate.then_some(ready as _),
            seed: self.is_seeded.then_some(seed as _),
            detach: Some(detach),
            release_output: owns.then_some(take_back as _),
            ..model(&stages, ROWS as u32, size_of::<Said>())
        };
        Working { _opener: Opener(self), host: Host::new(&model, options) }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the test's side

    /// From now on.
    pub fn rule(&self, place: Place, session: u64, rule: Rule) {
        self.state().rules.push((place, session, rule));
    }

    /// What was said of such calls is forgotten.
    pub fn forget(&self, place: Place, session: u64) {
        self.state().rules.retain(|(at, who, _)| (*at, *who) != (place, session));
        self.changed.notify_all();
    }

    /// Nobody stands still any more; who is to fail does.
    pub fn let_go(&self) {
        self.state().rules.retain(|(.., rule)| *rule != Rule::Hold);
        self.changed.notify_all();
    }

    /// All that was said is forgotten.
    pub fn forget_all(&self) {
        self.state().rules.clear();
        self.changed.notify_all();
    }

    /// Calls of this kind that stand still, with this session in them.
    pub fn standing(&self, place: Place, session: u64) -> usize {
        let state = self.state();
        state.standing.iter().filter(|(at, whose)| *at == place && whose.contains(&session)).count()
    }

    /// Calls that have begun: of which kind, for whom.
    pub fn calls(&self) -> Vec<(Place, Vec<u64>)> {
        self.state().calls.clone()
    }

    /// How many calls of this kind have begun for this session.
    pub fn count(&self, place: Place, session: u64) -> usize {
        let state = self.state();
        state.calls.iter().filter(|(at, whose)| *at == place && whose.contains(&session)).count()
    }

    /// Opens the gate, or closes it.
    pub fn open_gate(&self, is_open: bool) {
        self.is_open.store(is_open, SeqCst);
    }

    /// How often it was asked whether it is open.
    pub fn asked(&self) -> usize {
        self.asked.load(SeqCst)
    }

    /// Calls that have begun and not returned.
    pub fn inside(&self) -> usize {
        self.inside.load(SeqCst)
    }

    /// Pointers of its own that are chunks', or were.
    pub fn given(&self) -> u64 {
        self.state().given
    }

    /// Those that came back.
    pub fn returned(&self) -> u64 {
        self.state().returned
    }

    /// Lives that were seeded and not detached.
    pub fn living(&self) -> usize {
        self.state().homes.iter().filter(|home| home.generation != 0).count()
    }

    /// Nothing was seen that must not be.
    pub fn expect_order(&self) {
        let mut complaints = std::mem::take(&mut self.state().complaints);
        complaints.extend(self.traffic.take_complaints());
        assert!(complaints.is_empty(), "{complaints:#?}");
    }

    // ---- the engine's side

    fn call(&self, place: Place, raw: *mut rte_batch) -> i32 {
        // SAFETY: the batch of a call.
        let mut batch = unsafe { Batch::new(raw, ROWS) };
        let is_aside = place == Place::Seed && self.flags & RTE_MODEL_SEED_ASIDE != 0;
        let errand = match place {
            Place::Encode => Errand::Encode,
            Place::Seed if is_aside => Errand::Encode,
            Place::Seed | Place::Detach => Errand::Life,
            Place::Hot => Errand::Hot,
            Place::Deferred => Errand::Deferred,
        };
        self.inside.fetch_add(1, SeqCst);
        let status = self.traffic.visit(Some(errand), &mut batch, |batch| self.work(place, batch));
        self.inside.fetch_sub(1, SeqCst);
        status
    }

    fn work(&self, place: Place, batch: &mut Batch) -> i32 {
        let members = batch.members();
        let whose: Vec<u64> = members.iter().map(|member| member.session).collect();
        let mut state = self.state();
        state.calls.push((place, whose.clone()));
        let holds = |state: &State| state.finds(place, &whose, |rule| rule == Rule::Hold).is_some();
        if holds(&state) {
            state.standing.push((place, whose.clone()));
            self.changed.notify_all();
            while holds(&state) {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            }
            let at = state.standing.iter().position(|call| *call == (place, whose.clone())).unwrap();
            state.standing.swap_remove(at);
        }
        if let Some(Rule::FailWhole(status)) = state.finds(place, &whose, |rule| matches!(rule, Rule::FailWhole(_))) {
            return status;
        }
        for member in members {
            match state.finds(place, &[member.session], |rule| matches!(rule, Rule::FailRow(_))) {
                Some(Rule::FailRow(status)) => batch.fail(member, status),
                _ => self.row(&mut state, place, batch, member),
            }
        }
        0
    }

    fn row(&self, state: &mut State, place: Place, batch: &mut Batch, member: Member) {
        let number =
            |key| batch.value(member, key as usize).map_or(0, |bytes| u64::from_ne_bytes(bytes.try_into().unwrap()));
        let (prompt, slot) = (number(PROMPT), batch.slot());
        let Member { session, generation, age, .. } = member;
        let home = state.homes[member.row];
        let is_ours = home.generation == generation || !self.is_seeded;
        let said = Said { session, generation, age, prompt, taps: number(TAPS) as i64 };
        let is_right = match place {
            Place::Seed => home.generation == 0,
            Place::Hot => is_ours && (home.encoded == prompt || !self.is_seeded),
            Place::Deferred => {
                let latent = home.latents[slot];
                is_ours && (latent.generation, latent.age) == (generation, age) && latent.prompt == prompt
            }
            Place::Encode | Place::Detach => is_ours,
        };
        if !is_right {
            let Home { generation, encoded, latents } = home;
            state.complaints.push(format!("{place:?} {member:?}, {prompt}: {generation} {encoded} {latents:?}"));
        }
        let home = &mut state.homes[member.row];
        match place {
            Place::Seed => *home = Home { generation, encoded: prompt, ..Home::default() },
            Place::Hot => home.latents[slot] = said,
            Place::Encode => home.encoded = prompt,
            Place::Detach => home.generation = 0,
            Place::Deferred => {
                let said = home.latents[slot];
                state.given += u64::from(self.flags & RTE_MODEL_OWN_OUTPUT != 0);
                self.give(batch, member, said);
            }
        }
    }

    fn give(&self, batch: &mut Batch, member: Member, said: Said) {
        if self.flags & RTE_MODEL_OWN_OUTPUT != 0 {
            batch.set_own_output(member, Box::into_raw(Box::new(said)).cast());
            return batch.set_output_size(member, size_of::<Said>());
        }
        // SAFETY: numbers without gaps.
        let bytes = unsafe { std::slice::from_raw_parts(std::ptr::from_ref(&said).cast::<u8>(), size_of::<Said>()) };
        batch.write(member, bytes);
    }
}

impl State {
    fn finds(&self, place: Place, whose: &[u64], is_it: impl Fn(Rule) -> bool) -> Option<Rule> {
        let mut rules = self.rules.iter().filter(|(at, who, _)| *at == place && whose.contains(who));
        rules.find(|(_, _, rule)| is_it(*rule)).map(|(_, _, rule)| *rule)
    }
}

macro_rules! callbacks {
    ($($name:ident: $place:expr),*) => {$(
        unsafe extern "C-unwind" fn $name(user: *mut c_void, batch: *mut rte_batch, _: rte_stream) -> i32 {
            // SAFETY: the model is never freed.
            unsafe { &*user.cast::<Works>() }.call($place, batch)
        }
    )*};
}

callbacks!(
    seed: Place::Seed,
    hot: Place::Hot,
    deferred: Place::Deferred,
    encode: Place::Encode,
    detach: Place::Detach
);

unsafe extern "C-unwind" fn ready(user: *mut c_void, _: *mut rte_batch, _: rte_stream) -> i32 {
    // SAFETY: the model is never freed.
    let works = unsafe { &*user.cast::<Works>() };
    let is_open = works.is_open.load(SeqCst);
    works.asked.fetch_add(1, SeqCst);
    if is_open { 0 } else { rte_status_code::RTE_AGAIN as i32 }
}

unsafe extern "C-unwind" fn take_back(user: *mut c_void, output: *mut c_void) {
    // SAFETY: the model is never freed; the pointer is one of `give`, and comes back once.
    unsafe {
        (*user.cast::<Works>()).state().returned += 1;
        drop(Box::from_raw(output.cast::<Said>()));
    }
}

/// The lines of a log.
pub unsafe extern "C-unwind" fn note_line(user: *mut c_void, level: u32, text: *const c_char) {
    // SAFETY: `user` is the test's, which outlives the engine; the text is NUL-terminated.
    let (lines, text) = unsafe { (&*user.cast::<Mutex<Vec<String>>>(), std::ffi::CStr::from_ptr(text)) };
    lines.lock().unwrap().push(format!("{level}: {}", text.to_string_lossy()));
}
