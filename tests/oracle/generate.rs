//! Random schedules for the engine. A seed gives the same schedule everywhere and always.

use std::ops::Range;

use serde_json::{Value, json};

use super::schedule::{
    Config, Fault, FaultScope, Gate, Hook, Message, Request, SessionName, TickInput, Values, Version,
};
use super::spec::{Spec, Switches};
use super::trace::{Header, Scenario, Tick};
use crate::random::Random;

/// A name that no session ever has.
pub const GHOST: &str = "ghost";

/// The longest encode.
pub const MAX_ENCODE_TICKS: u64 = 6;

/// The largest arena.
pub const MAX_SESSIONS: u64 = 6;

/// The most attempts a row has at its seed or its encode.
pub const MAX_ATTEMPTS: u64 = 4;

/// Hooks whose rows can fail one by one.
pub const ROW_HOOKS: [Hook; 4] = [Hook::Hot, Hook::Deferred, Hook::Encode, Hook::Seed];

/// The schedule of a seed.
pub fn schedule(seed: u64) -> Scenario {
    let mut generator = Generator::new(seed);
    let length = generator.random.between(40, 60);
    let ticks = (0..length).map(|number| generator.tick(number.cast_signed())).collect();
    Scenario {
        header: Header { name: format!("generated{seed}"), version: Version::Rte, config: generator.config },
        ticks,
    }
}

/// Something that goes on for some ticks.
struct Spell<T> {
    what: T,
    ticks: Range<i64>,
}

impl<T> Spell<T> {
    fn random(random: &mut Random, what: T) -> Self {
        let from = random.between(2, 40).cast_signed();
        let length = random.between(3, 14).cast_signed();
        let ticks = from..from + length;
        Self { what, ticks }
    }

    fn in_tick(&self, number: i64) -> Option<&T> {
        self.ticks.contains(&number).then_some(&self.what)
    }
}

/// What one schedule is full of and another is not.
struct Temper {
    /// The most messages that come by themselves in a tick.
    messages: u64,
    fault_percent: u64,
    slow_percent: u64,
    due_percent: u64,
    /// Faults that stay armed, as of a bad prompt or a driver hiccup.
    faults: Vec<Spell<Fault>>,
    /// A session whose prompt changes in every tick, as under a slider.
    slider: Option<Spell<SessionName>>,
}

struct Generator {
    random: Random,
    config: Config,
    names: Vec<SessionName>,
    temper: Temper,
    /// Runs along, to know who is attached and in which generation.
    spec: Spec,
}

impl Generator {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        let config = random_config(&mut random);
        // Two more sessions than rows, so that the arena is full at times.
        let names: Vec<SessionName> = ["a", "b", "c", "d", "e", "f", "g", "h"]
            .iter()
            .take(config.max_sessions + 2)
            .map(ToString::to_string)
            .collect();
        let temper = random_temper(&mut random, &names);
        let spec = Spec::new(&config, Version::Rte, Switches::ALL);
        Self { random, config, names, temper, spec }
    }

    fn tick(&mut self, number: i64) -> Tick {
        let mut input = TickInput { number, faults: self.faults(number), ..TickInput::default() };
        if number == 0 {
            for _ in 0..self.config.max_sessions {
                self.push_attach(&mut input);
            }
        }
        for fault in input.faults.clone() {
            self.provoke(&mut input, &fault);
        }
        let slider = self.temper.slider.as_ref();
        if let Some(session) = slider.and_then(|slider| slider.in_tick(number)).cloned() {
            if self.attached().contains(&session) {
                self.push_new_prompt(&mut input, session);
            } else {
                self.push_attach_of(&mut input, session);
            }
        }
        for _ in 0..self.random.between(0, self.temper.messages) {
            self.push_any(&mut input);
        }
        if self.random.percent(self.temper.slow_percent) {
            let ticks = self.random.between(1, MAX_ENCODE_TICKS);
            input.encode_ticks = Some(ticks.cast_signed());
        }
        if self.random.percent(self.temper.due_percent) {
            input.due = Some(self.due());
        }
        self.spec.tick(&input);
        Tick { input, expected: None }
    }

    fn faults(&mut self, number: i64) -> Vec<Fault> {
        let spells = self.temper.faults.iter();
        let mut faults: Vec<Fault> = spells.filter_map(|spell| spell.in_tick(number)).cloned().collect();
        if self.random.percent(self.temper.fault_percent) {
            faults.push(random_fault(&mut self.random, &self.names));
        }
        faults
    }

    /// A message after which the fault's hook is likely to be called in this tick.
    fn provoke(&mut self, input: &mut TickInput, fault: &Fault) {
        if self.random.percent(25) {
            return;
        }
        let session = match &fault.scope {
            FaultScope::AnyCall => self.target(),
            FaultScope::CallWith(session) | FaultScope::RowOf(session) => session.clone(),
        };
        match fault.hook {
            Hook::Seed | Hook::Gate => {
                if self.attached().contains(&session) {
                    let context = Some(self.context());
                    self.push(input, session, Request::Reset(context));
                } else {
                    self.push_attach_of(input, session);
                }
            }
            Hook::Encode => self.push_new_prompt(input, session),
            Hook::Detach => self.push(input, session, Request::Detach { drain: false }),
            Hook::Hot | Hook::Deferred | Hook::Finalize => {}
        }
    }

    fn push_any(&mut self, input: &mut TickInput) {
        match self.random.between(0, 99) {
            0..22 => self.push_attach(input),
            22..32 => self.push_detach(input),
            32..42 => {
                let context = if self.random.percent(50) { Values::new() } else { self.context() };
                let session = self.target();
                self.push(input, session, Request::Reset(Some(context)));
            }
            42..84 => self.push_action(input),
            _ => {
                let active = self.random.percent(60);
                let session = self.target();
                self.push(input, session, Request::SetActive(active));
            }
        }
    }

    /// Mostly of a session that is not attached.
    fn push_attach(&mut self, input: &mut TickInput) {
        let mut session = self.random.pick(&self.names);
        if self.random.percent(75) {
            let attached = self.attached();
            let is_named = |name: &str| input.messages.iter().any(|message| message.session == name);
            let mut names = self.names.iter();
            let absent = names.find(|name| !attached.contains(name) && !is_named(name));
            session = absent.cloned().unwrap_or(session);
        }
        self.push_attach_of(input, session);
    }

    fn push_attach_of(&mut self, input: &mut TickInput, session: SessionName) {
        let context = Some(self.context());
        self.push(input, session, Request::Attach(context));
    }

    /// A session that leaves after its last chunk may be sent something in the meantime.
    fn push_detach(&mut self, input: &mut TickInput) {
        let session = self.target();
        let drain = self.random.percent(50);
        self.push(input, session.clone(), Request::Detach { drain });
        if drain && self.random.percent(50) {
            let context = Some(self.context());
            let values = Some(self.conditioning());
            let request = match self.random.between(0, 5) {
                0 => Request::Attach(context),
                1 => Request::Reset(context),
                2 => Request::Detach { drain: false },
                3 => Request::Detach { drain: true },
                4 => Request::SetActive(false),
                _ => Request::Action { values, merge: false },
            };
            self.push(input, session, request);
        }
    }

    fn push_action(&mut self, input: &mut TickInput) {
        let values = Some(self.conditioning());
        let merge = self.random.percent(25);
        let session = self.target();
        self.push(input, session, Request::Action { values, merge });
    }

    fn push_new_prompt(&mut self, input: &mut TickInput, session: SessionName) {
        let mut values = self.conditioning();
        self.maybe_insert(&mut values, "prompt", 100);
        let values = Some(values);
        let merge = false;
        self.push(input, session, Request::Action { values, merge });
    }

    fn push(&mut self, input: &mut TickInput, session: SessionName, request: Request) {
        let mut generation = 0;
        if self.random.percent(12) {
            let living = self.spec.generation_after(input, &session);
            generation = match living {
                Some(living) if self.random.percent(60) => living,
                _ => self.random.between(1, 40),
            };
        }
        input.messages.push(Message { session, request, generation });
    }

    fn attached(&self) -> Vec<SessionName> {
        self.spec.session_names().map(str::to_owned).collect()
    }

    /// Mostly a session that is attached.
    fn target(&mut self) -> SessionName {
        let attached = self.attached();
        if attached.is_empty() || self.random.percent(10) {
            self.random.pick(&self.names)
        } else {
            self.random.pick(&attached)
        }
    }

    /// Some of the sessions, nobody, strangers too.
    fn due(&mut self) -> Vec<SessionName> {
        if self.random.percent(15) {
            return Vec::new();
        }
        let mut due: Vec<SessionName> = self.names.clone();
        due.retain(|_| self.random.percent(65));
        if self.random.percent(25) {
            due.push(GHOST.to_owned());
        }
        due
    }

    fn context(&mut self) -> Values {
        let mut context = Values::new();
        if self.random.percent(70) {
            // Some are negative.
            let seed = self.random.between(0, 9999).cast_signed() - 500;
            context.insert("seed".to_owned(), json!(seed));
        }
        for (key, chance) in [("prompt", 60), ("image", 40), ("move", 15)] {
            self.maybe_insert(&mut context, key, chance);
        }
        context
    }

    fn conditioning(&mut self) -> Values {
        let mut values = Values::new();
        if self.random.percent(10) {
            return values;
        }
        for (key, chance) in [("prompt", 40), ("image", 20), ("move", 50), ("jump", 30), ("text", 25)] {
            self.maybe_insert(&mut values, key, chance);
        }
        values
    }

    fn maybe_insert(&mut self, values: &mut Values, key: &str, chance: u64) {
        if self.random.percent(chance) {
            let value = self.random.pick(&values_of(key));
            values.insert(key.to_owned(), value);
        }
    }
}

/// The values a key is given: few, so that they come back, and with the pairs that Python calls equal.
fn values_of(key: &str) -> Vec<Value> {
    match key {
        "prompt" => vec![
            json!("castle"),
            json!("sea"),
            json!("a castle at night"),
            json!(1),
            json!(1.0),
            json!(true),
            json!("1"),
            json!(2.5),
        ],
        "image" => vec![json!("i0"), json!("i1"), json!(0), json!(false)],
        "move" => {
            vec![json!(-3), json!(0), json!(2), json!(300), json!(2.9), json!(-2.9), json!(" 12 "), json!("1_000")]
        }
        "jump" => vec![json!(true), json!(false), json!(1), json!(5)],
        "text" => vec![json!("hi"), json!("x y"), json!("12"), json!("\u{e9}")],
        _ => unreachable!("no values for {key}"),
    }
}

fn random_config(random: &mut Random) -> Config {
    let mut heavy = vec!["prompt".to_owned()];
    if random.percent(40) {
        heavy.push("image".to_owned());
    }
    // Larger arenas are drawn more often: more happens there.
    let max_sessions = random.pick(&[1, 2, 3, 3, 4, 4, 5, 5, 6, MAX_SESSIONS]);
    let needed = usize::try_from(random.between(1, max_sessions.min(3))).expect("small");
    let gate = match random.between(0, 9) {
        0..2 => Some(Gate::Pending(needed)),
        2..4 => Some(Gate::First(needed)),
        _ => None,
    };
    let slow = random.percent(30);
    Config {
        max_sessions: usize::try_from(max_sessions).expect("small"),
        pipelined: random.percent(65),
        midrun: random.percent(80),
        gate,
        heavy,
        has_encode: true,
        encode_ticks: if slow { random.between(2, 4).cast_signed() } else { 1 },
        drain_blocks: true,
        retry_safe: random.percent(60),
        attempts: u32::try_from(random.between(1, MAX_ATTEMPTS)).expect("small"),
    }
}

fn random_temper(random: &mut Random, names: &[SessionName]) -> Temper {
    let faults = random.pick(&[0, 0, 1, 2, 3]);
    let faults = (0..faults).map(|_| {
        let fault = random_fault(random, names);
        Spell::random(random, fault)
    });
    let faults = faults.collect();
    let slider = random.percent(35).then(|| {
        let session = random.pick(names);
        Spell::random(random, session)
    });
    Temper {
        messages: random.between(1, 4),
        fault_percent: random.pick(&[0, 10, 20, 40]),
        slow_percent: random.pick(&[0, 15, 40]),
        due_percent: random.pick(&[0, 0, 10, 30]),
        faults,
        slider,
    }
}

fn random_fault(random: &mut Random, names: &[SessionName]) -> Fault {
    let session = random.pick(names);
    if random.percent(30) {
        return Fault { hook: random.pick(&ROW_HOOKS), scope: FaultScope::RowOf(session) };
    }
    let (hook, _, _) = random.pick(&Hook::NAMES);
    let scope = if random.percent(50) { FaultScope::AnyCall } else { FaultScope::CallWith(session) };
    Fault { hook, scope }
}
