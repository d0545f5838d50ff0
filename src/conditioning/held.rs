//! The cheap values of one row as messages change them, and the values that its next step sees.

use std::sync::Arc;

use super::{Block, Element, Keys, Merge, Store, Table, View, empty_table};
use crate::word::KeySet;

/// What one life holds. Reused by the lives of a row one after another.
///
/// For SUM and OR keys `image` is what the next HOT sees. When HOT is issued its input moves to `given` and `image`
/// starts anew; if that HOT turns out to have failed and is to be retried, the two are merged again.
///
/// What a steady tick touches stands together, first.
#[repr(C)]
pub struct Held {
    /// Grows with each change of what a step sees; never reset, so no two contents of a row share one.
    version: u64,
    /// SUM and OR keys with input that no HOT was given yet, and those whose input the HOT in flight was given.
    fresh: KeySet,
    given_keys: KeySet,
    present: KeySet,
    image: Box<[u8]>,
    /// Heavy keys: the applied value; cheap ones of variable size: the newest.
    blocks: Table,
    /// OR keys: the newest value, which remains when the bits have been seen.
    level: Box<[u8]>,
    given: Box<[u8]>,
}

impl Held {
    /// Nothing held.
    pub fn new(keys: &Keys) -> Held {
        let image = || vec![0; keys.image_size()].into_boxed_slice();
        Held {
            image: image(),
            level: image(),
            given: image(),
            present: KeySet::NONE,
            fresh: KeySet::NONE,
            given_keys: KeySet::NONE,
            blocks: empty_table(keys),
            version: 0,
        }
    }

    /// For a new life: nothing is held.
    pub fn clear(&mut self, store: &mut Store) {
        self.image.fill(0);
        self.level.fill(0);
        (self.present, self.fresh, self.given_keys) = (KeySet::NONE, KeySet::NONE, KeySet::NONE);
        store.clear(&mut self.blocks);
        self.version += 1;
    }

    /// What the next step sees.
    pub fn view(&self) -> View<'_> {
        View { image: &self.image, present: self.present, blocks: &self.blocks }
    }

    /// Tells one content from another.
    pub fn version(&self) -> u64 {
        self.version
    }

    /// The applied value of a heavy `key`.
    pub fn applied(&self, key: usize) -> Option<&Arc<Block>> {
        self.blocks[key].as_ref()
    }

    /// A heavy value becomes the applied one, or a cheap one of variable size the newest.
    pub fn put(&mut self, key: usize, value: Option<Arc<Block>>, store: &mut Store) {
        store.replace(&mut self.blocks[key], value);
        self.version += 1;
    }

    /// An ACTION without PARTIAL leaves no LATEST cheap value that it does not name.
    pub fn keep_only(&mut self, named: KeySet, keys: &Keys, store: &mut Store) {
        for key in keys.latest().iter().filter(|key| !named.has(*key)) {
            if keys.fixed().has(key) {
                if self.present.has(key) {
                    self.image[keys.span(key)].fill(0);
                    self.present.remove(key);
                    self.version += 1;
                }
            } else if self.blocks[key].is_some() {
                self.put(key, None, store);
            }
        }
    }

    /// A new value of a fixed-size cheap key; empty = absent. `paused`: accumulating keys take no input then, but an OR
    /// key's newest value is kept, as that of a LATEST key is.
    pub fn set(&mut self, key: usize, value: &[u8], paused: bool, keys: &Keys) {
        let span = keys.span(key);
        if value.is_empty() {
            self.image[span.clone()].fill(0);
            self.level[span].fill(0);
            self.present.remove(key);
            self.fresh.remove(key);
            // Also what a HOT in flight was given: should that fail, it is not to come back.
            self.given_keys.remove(key);
            self.version += 1;
            return;
        }
        let spec = keys.spec(key);
        if spec.merge == Merge::Or {
            self.level[span.clone()].copy_from_slice(value);
        }
        if paused && spec.merge == Merge::Sum {
            return;
        }
        let image = &mut self.image[span];
        let accumulates = spec.merge != Merge::Latest && self.fresh.has(key);
        if paused && spec.merge == Merge::Or && accumulates {
            return; // what came before the pause is shown once, then the level
        }
        if accumulates {
            merge(spec.merge, spec.element, image, value);
        } else if self.present.has(key) && image == value && spec.merge == Merge::Latest {
            return;
        } else {
            image.copy_from_slice(value);
        }
        self.fresh.set(key, spec.merge != Merge::Latest && !paused);
        self.present.add(key);
        self.version += 1;
    }

    /// HOT was issued with this view: accumulators start anew, and remember what they gave.
    #[inline]
    pub fn issue(&mut self, keys: &Keys) {
        self.given_keys = self.fresh;
        if !self.fresh.is_empty() {
            self.start_anew(keys);
        }
    }

    fn start_anew(&mut self, keys: &Keys) {
        for key in self.fresh.iter() {
            let span = keys.span(key);
            self.given[span.clone()].copy_from_slice(&self.image[span.clone()]);
            self.rest(key, keys);
        }
        self.fresh = KeySet::NONE;
        self.version += 1;
    }

    /// That HOT failed and left no trace: what it was given is to be seen again, merged with what came since.
    pub fn take_back(&mut self, keys: &Keys) {
        for key in self.given_keys.iter() {
            let (span, spec) = (keys.span(key), keys.spec(key));
            let newer = self.fresh.has(key);
            if newer {
                merge(spec.merge, spec.element, &mut self.image[span.clone()], &self.given[span]);
            } else if self.present.has(key) {
                self.image[span.clone()].copy_from_slice(&self.given[span]);
                self.fresh.add(key);
            }
            self.version += 1;
        }
        self.given_keys = KeySet::NONE;
    }

    /// What an accumulating key shows when its input has been seen: 0, or the newest bits.
    fn rest(&mut self, key: usize, keys: &Keys) {
        let span = keys.span(key);
        match keys.spec(key).merge {
            Merge::Or => self.image[span.clone()].copy_from_slice(&self.level[span]),
            _ => self.image[span].fill(0),
        }
    }
}

/// Adds `value` to `sum`: both are whole elements of the same size.
fn merge(rule: Merge, element: Element, sum: &mut [u8], value: &[u8]) {
    match (rule, element) {
        (Merge::Sum, Element::I64) => {
            each(sum, value, |a, b| i64::from_ne_bytes(a).saturating_add(i64::from_ne_bytes(b)).to_ne_bytes())
        }
        (Merge::Sum, Element::F32) => {
            each(sum, value, |a, b| (f32::from_ne_bytes(a) + f32::from_ne_bytes(b)).to_ne_bytes())
        }
        (Merge::Sum, Element::F64) => {
            each(sum, value, |a, b| (f64::from_ne_bytes(a) + f64::from_ne_bytes(b)).to_ne_bytes())
        }
        (Merge::Or, _) => each(sum, value, |[a], [b]| [a | b]),
        _ => sum.copy_from_slice(value),
    }
}

fn each<const N: usize>(sum: &mut [u8], value: &[u8], join: impl Fn([u8; N], [u8; N]) -> [u8; N]) {
    for (a, b) in sum.as_chunks_mut::<N>().0.iter_mut().zip(value.as_chunks::<N>().0) {
        *a = join(*a, *b);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conditioning::KeySpec;

    fn keys() -> Keys {
        let key = |merge, element, size| KeySpec { name: "k".into(), size, element, merge, heavy: false };
        Keys::new(vec![
            key(Merge::Sum, Element::I64, 8),
            key(Merge::Or, Element::U32, 4),
            key(Merge::Latest, Element::Bytes, 1),
        ])
    }

    fn sum(held: &Held) -> i64 {
        i64::from_ne_bytes(held.view().image[..8].try_into().unwrap())
    }

    #[test]
    fn a_sum_is_seen_once_and_taken_back_when_its_step_failed() {
        let keys = keys();
        let mut held = Held::new(&keys);
        held.set(0, &2i64.to_ne_bytes(), false, &keys);
        held.set(0, &3i64.to_ne_bytes(), false, &keys);
        assert_eq!(sum(&held), 5);
        held.issue(&keys);
        assert_eq!(sum(&held), 0);
        held.set(0, &10i64.to_ne_bytes(), false, &keys);
        held.take_back(&keys);
        assert_eq!(sum(&held), 15);
        held.set(0, &i64::MAX.to_ne_bytes(), false, &keys);
        assert_eq!(sum(&held), i64::MAX);
    }

    #[test]
    fn what_was_taken_away_meanwhile_does_not_come_back_when_its_step_has_failed() {
        let keys = keys();
        let mut held = Held::new(&keys);
        for (key, first, second) in
            [(0, &2i64.to_ne_bytes()[..], &3i64.to_ne_bytes()[..]), (1, &[1, 0, 0, 0], &[2, 0, 0, 0])]
        {
            held.set(key, first, false, &keys);
            held.issue(&keys);
            held.set(key, &[], false, &keys);
            held.set(key, second, false, &keys);
            held.take_back(&keys);
            assert_eq!(&held.view().image[keys.span(key)], second);
        }
    }

    #[test]
    fn a_tap_shorter_than_a_step_is_seen_then_the_newest_level() {
        let keys = keys();
        let mut held = Held::new(&keys);
        held.set(1, &1u32.to_ne_bytes(), false, &keys);
        held.set(1, &0u32.to_ne_bytes(), false, &keys);
        assert_eq!(held.view().image[8], 1);
        held.issue(&keys);
        assert_eq!(held.view().image[8], 0);
        held.set(1, &4u32.to_ne_bytes(), false, &keys);
        held.issue(&keys);
        assert_eq!(held.view().image[8], 4, "a button that is held down stays down");
    }

    #[test]
    fn what_came_while_paused_is_dropped_but_for_levels() {
        let keys = keys();
        let mut held = Held::new(&keys);
        held.set(0, &2i64.to_ne_bytes(), false, &keys);
        held.set(1, &1u32.to_ne_bytes(), false, &keys);
        held.set(0, &5i64.to_ne_bytes(), true, &keys);
        held.set(1, &2u32.to_ne_bytes(), true, &keys);
        held.set(2, &[9], true, &keys);
        assert_eq!((sum(&held), held.view().image[8], held.view().image[12]), (2, 1, 9));
        held.issue(&keys);
        assert_eq!(held.view().image[8], 2);
    }
}
