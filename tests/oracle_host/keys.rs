//! The names of a scenario as declared keys, its values as bytes, its sessions as numbers.

use std::collections::{BTreeMap, BTreeSet};
use std::ptr::null;

use rte::abi::model::{RTE_BYTES, RTE_I64, RTE_KEY_HEAVY, RTE_MERGE_LATEST, rte_key};

use crate::oracle::codec::{Encoded, Interner};
use crate::oracle::digest::{self, Values};
use crate::oracle::schedule::Request;
use crate::oracle::trace::Scenario;

/// The values of some keys, by the number of the key.
pub type EncodedValues = BTreeMap<usize, Encoded>;

/// The key of the number that a session's chunks start from. The others follow it.
pub const SEED: usize = 0;

/// A declared key other than [`SEED`].
struct Key {
    name: String,
    is_heavy: bool,
    /// 0: values of any size, which batches carry without a column.
    size: usize,
}

/// The keys and sessions of a scenario.
pub struct Names {
    keys: Vec<Key>,
    sessions: Vec<String>,
    interner: Interner,
}

impl Names {
    /// Everything that the scenario names.
    pub fn of(scenario: &Scenario) -> Self {
        let mut keys: BTreeSet<&str> = scenario.header.config.heavy.iter().map(String::as_str).collect();
        let mut sessions: BTreeSet<&str> = BTreeSet::new();
        for tick in &scenario.ticks {
            for message in &tick.input.messages {
                sessions.insert(&message.session);
                let (values, is_context) = match &message.request {
                    Request::Attach(values) | Request::Reset(values) => (values, true),
                    Request::Action { values, .. } => (values, false),
                    Request::Detach { .. } | Request::SetActive(_) => continue,
                };
                let names = values.iter().flatten().map(|(name, _)| name.as_str());
                keys.extend(names.filter(|name| !(is_context && *name == "seed")));
            }
            sessions.extend(tick.input.due.iter().flatten().map(String::as_str));
        }
        let keys = keys.into_iter().enumerate().map(|(at, name)| Key {
            name: name.to_owned(),
            is_heavy: scenario.header.config.is_heavy(name),
            // Both ways of declaring a key.
            size: if at % 2 == 0 { Encoded::SIZE } else { 0 },
        });
        Self {
            keys: keys.collect(),
            sessions: sessions.into_iter().map(str::to_owned).collect(),
            interner: Interner::default(),
        }
    }

    /// The keys as a model declares them.
    pub fn declared(&self) -> Vec<rte_key> {
        let seed = rte_key {
            name: null(),
            size: size_of::<i64>(),
            r#type: RTE_I64,
            merge: RTE_MERGE_LATEST,
            flags: 0,
            reserved: 0,
        };
        let others = self.keys.iter().map(|key| rte_key {
            size: key.size,
            r#type: RTE_BYTES,
            flags: if key.is_heavy { RTE_KEY_HEAVY } else { 0 },
            ..seed
        });
        std::iter::once(seed).chain(others).collect()
    }

    /// Every session that the scenario names.
    pub fn sessions(&self) -> &[String] {
        &self.sessions
    }

    /// The number of a session. One of them is 0, and they are not in the order of the names.
    pub fn id(&self, session: &str) -> u64 {
        let at = self.sessions.iter().position(|name| name == session).expect("the scenario names it");
        (at as u64).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }

    /// The session of a number.
    pub fn session(&self, id: u64) -> &str {
        self.sessions.iter().find(|name| self.id(name) == id).expect("a session of the scenario")
    }

    /// What a message carries for these conditioning values.
    pub fn encode(&mut self, values: &Values) -> EncodedValues {
        let Self { keys, interner, .. } = self;
        let number = |name: &str| keys.iter().position(|key| key.name == name).expect("the scenario names it") + 1;
        values.iter().map(|(name, value)| (number(name), interner.encode(name, value))).collect()
    }

    /// What a message carries for this context: a seed in any case, and the rest.
    pub fn encode_context(&mut self, session: &str, context: &Values) -> (i64, EncodedValues) {
        let seed = digest::explicit_seed(context).unwrap_or_else(|| digest::derived_seed(session));
        let mut others = context.clone();
        others.remove("seed");
        (seed, self.encode(&others))
    }
}
