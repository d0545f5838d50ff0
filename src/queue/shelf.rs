//! A queue whose places are paid for before anything is put there: a push always finds room, whatever consumers do.
//!
//! What is queued lies in one of so many places, and a ring of numbers says in which order they were filled. A consumer
//! claims a number, takes what lies there and gives the place back; only then it may say that there is room again. One
//! that stands still in between keeps the place, which nobody was promised, and no part of the ring: the word that it has
//! read may be written again at once. (In [`ring`](super::ring) it would keep the cell, which is in everybody's way one
//! round later.)

use std::mem::MaybeUninit;

use crossbeam_utils::CachePadded;

use super::ring::Take;
use crate::sync::UnsafeCell;
use crate::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

/// See the module's comment.
pub struct Shelf<T> {
    /// Next position to fill.
    tail: CachePadded<AtomicUsize>,
    /// Next position to take; never above `tail`, and never more than all places below it.
    head: CachePadded<AtomicUsize>,
    /// By position: the position and one (upper half), and the place that was filled (lower half).
    turns: Box<[AtomicU64]>,
    places: Box<[UnsafeCell<MaybeUninit<T>>]>,
    /// The places that nobody has: one bit a place. No summary of them: in the middle of changing one, a thread that stands
    /// still would hide places from others.
    free: Box<[AtomicU64]>,
    /// Which word of `free` had a place last.
    hint: AtomicUsize,
}

// SAFETY: a place is written by who took it from `free`, and read once by who claimed its position.
unsafe impl<T: Send> Sync for Shelf<T> {}
// SAFETY: nothing in it belongs to a thread.
unsafe impl<T: Send> Send for Shelf<T> {}

impl<T: Copy> Shelf<T> {
    /// `count` places, of which each push needs one.
    pub fn new(count: usize) -> Shelf<T> {
        let of_word = |word: usize| !0 >> (64 - (count - word * 64).min(64));
        Shelf {
            tail: CachePadded::new(AtomicUsize::new(0)),
            head: CachePadded::new(AtomicUsize::new(0)),
            turns: (0..count.next_power_of_two()).map(|_| AtomicU64::new(0)).collect(),
            places: (0..count).map(|_| UnsafeCell::new(MaybeUninit::uninit())).collect(),
            free: (0..count.div_ceil(64)).map(|word| AtomicU64::new(of_word(word))).collect(),
            hint: AtomicUsize::new(0),
        }
    }

    fn turn(&self, position: usize) -> &AtomicU64 {
        &self.turns[position & (self.turns.len() - 1)]
    }

    /// Appends `value`. Who calls has made sure that a place is free: what was there has come out of [`Shelf::pop`], or
    /// never was. Any number of threads.
    pub fn push(&self, value: T) {
        let place = self.take_place();
        // SAFETY: the place is ours until its position is told.
        self.places[place].with_mut(|cell| unsafe { (*cell).write(value) });
        // Whoever had the place before has moved `head` before it was free: fewer than all places are between the two, so
        // what is overwritten was taken.
        let position = self.tail.fetch_add(1, Ordering::SeqCst);
        // Release: whoever sees the position sees the value.
        self.turn(position).store(upper(position) | place as u64, Ordering::Release);
    }

    fn take_place(&self) -> usize {
        // None: others have taken and given back places behind our look; each time they got on.
        let mut looks = (0..LOOKS).map(|_| self.find_place());
        looks.find_map(|place| place).expect("a free place: whoever pushes has paid for it")
    }

    fn find_place(&self) -> Option<usize> {
        let hint = self.hint.load(Ordering::Relaxed);
        let words = (0..self.free.len()).map(|ahead| (hint + ahead) % self.free.len());
        for at in words {
            let mut bits = self.free[at].load(Ordering::Relaxed);
            while bits != 0 {
                let bit = bits.trailing_zeros() as usize;
                // Acquire: who gave it back has read what was there.
                let before = self.free[at].fetch_and(!(1 << bit), Ordering::Acquire);
                if before >> bit & 1 != 0 {
                    self.hint.store(at, Ordering::Relaxed);
                    return Some(at * 64 + bit);
                }
                bits = before;
            }
        }
        None
    }

    /// Takes the oldest value. [`Take::Busy`]: who pushes it is in the middle of that.
    pub fn pop(&self) -> Take<T> {
        let mut head = self.head.load(Ordering::Relaxed);
        loop {
            // Acquire: pairs with the producer's store.
            let turn = self.turn(head).load(Ordering::Acquire);
            if turn & UPPER != upper(head) {
                let now = self.head.load(Ordering::Relaxed);
                if now != head {
                    head = now;
                    continue;
                }
                // SeqCst on `tail` here and in `push`: a consumer that says "empty" is ordered with a producer that
                // looks afterwards whether anybody waits.
                return if self.tail.load(Ordering::SeqCst) == head { Take::Empty } else { Take::Busy };
            }
            match self.head.compare_exchange_weak(head, head.wrapping_add(1), Ordering::SeqCst, Ordering::Relaxed) {
                Ok(_) => {
                    let place = (turn & !UPPER) as usize;
                    // SAFETY: the claim succeeded, so `turn` was that of our position: the place is filled, and ours.
                    let value = self.places[place].with(|cell| unsafe { (*cell).assume_init() });
                    // Release: pairs with who takes it next, who also sees `head` moved.
                    self.free[place / 64].fetch_or(1 << (place % 64), Ordering::Release);
                    return Take::Item(value);
                }
                Err(now) => head = now,
            }
        }
    }

    /// How many were pushed so far, by the calling thread at least.
    pub fn given(&self) -> usize {
        self.tail.load(Ordering::Relaxed)
    }

    /// Whether all were taken that were pushed before [`Shelf::given`] said `given`.
    pub fn has_taken(&self, given: usize) -> bool {
        self.head.load(Ordering::SeqCst).wrapping_sub(given) as isize >= 0
    }

    /// Whether there is a whole value to take. A moment's truth.
    pub fn has_next(&self) -> bool {
        loop {
            let head = self.head.load(Ordering::SeqCst);
            let turn = self.turn(head).load(Ordering::Acquire);
            if self.head.load(Ordering::SeqCst) == head {
                return turn & UPPER == upper(head);
            }
        }
    }

    /// Whether there is none, not even one that is being pushed. A moment's truth.
    pub fn is_empty(&self) -> bool {
        let head = self.head.load(Ordering::SeqCst);
        self.tail.load(Ordering::SeqCst) == head
    }
}

/// More of them in vain are no bad luck: somebody did not pay. The engine ends of that, and does not hang.
const LOOKS: u32 = 1_000_000;
const UPPER: u64 = !0 << 32;

/// What the word of `position` says of it. Those of earlier rounds differ: a round is shorter than the half word.
fn upper(position: usize) -> u64 {
    (position as u64).wrapping_add(1) << 32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    #[test]
    fn what_goes_in_comes_out_in_order_round_after_round() {
        let shelf = Shelf::new(3);
        for round in 0..100 {
            assert!(matches!(shelf.pop(), Take::Empty) && shelf.is_empty() && !shelf.has_next());
            (0..3).for_each(|number| shelf.push(round * 3 + number));
            assert!(shelf.has_next() && !shelf.is_empty() && !shelf.has_taken(shelf.given()));
            for number in 0..3 {
                assert!(matches!(shelf.pop(), Take::Item(value) if value == round * 3 + number));
            }
            assert!(shelf.has_taken(shelf.given()));
        }
    }

    #[test]
    fn each_of_many_places_can_be_filled_at_once_and_again() {
        let shelf = Shelf::new(130);
        for round in 0..3 {
            (0..130).for_each(|number| shelf.push(round * 130 + number));
            let of = |number: u64| matches!(shelf.pop(), Take::Item(value) if value == round * 130 + number);
            assert!((0..130).all(of) && shelf.is_empty());
        }
    }

    #[test]
    fn positions_may_begin_anew() {
        let shelf = Shelf::new(2);
        for start in [u32::MAX as usize - 1, usize::MAX - 1] {
            shelf.head.store(start, Ordering::Relaxed);
            shelf.tail.store(start, Ordering::Relaxed);
            // As the round before has left it.
            (0..2).for_each(|at| shelf.turn(start + at).store(upper(start + at - 2), Ordering::Relaxed));
            for number in 0..6 {
                shelf.push(number);
                assert!(matches!(shelf.pop(), Take::Item(value) if value == number));
                assert!(matches!(shelf.pop(), Take::Empty));
            }
        }
    }

    #[test]
    fn who_stands_still_in_a_pop_is_in_nobodys_way() {
        let shelf = Shelf::new(2);
        shelf.push(0);
        let stands_still = shelf.turn(0).load(Ordering::Relaxed);
        shelf.head.store(1, Ordering::Relaxed);
        for number in 1..100 {
            shelf.push(number);
            assert!(matches!(shelf.pop(), Take::Item(value) if value == number));
        }
        let place = (stands_still & !UPPER) as usize;
        // SAFETY: the place was claimed above, and not given back.
        assert_eq!(shelf.places[place].with(|cell| unsafe { (*cell).assume_init() }), 0);
    }

    #[test]
    fn each_value_is_taken_once_and_a_producers_order_is_kept() {
        const EACH: u64 = 20_000;
        let (shelf, paid) = (Arc::new(Shelf::new(8)), Arc::new(std::sync::atomic::AtomicI64::new(8)));
        let producers: Vec<_> = (0..2u64)
            .map(|producer| {
                let (shelf, paid) = (shelf.clone(), paid.clone());
                std::thread::spawn(move || {
                    for number in 0..EACH {
                        while paid.fetch_sub(1, Ordering::Acquire) < 1 {
                            paid.fetch_add(1, Ordering::Release);
                            std::thread::yield_now();
                        }
                        shelf.push((producer, number));
                    }
                })
            })
            .collect();
        let (mut next, mut seen) = ([0u64; 2], 0);
        while seen < 2 * EACH {
            match shelf.pop() {
                Take::Item((producer, number)) => {
                    paid.fetch_add(1, Ordering::Release);
                    assert_eq!(number, next[producer as usize]);
                    next[producer as usize] += 1;
                    seen += 1;
                }
                _ => std::thread::yield_now(),
            }
        }
        producers.into_iter().for_each(|producer| producer.join().unwrap());
    }
}
