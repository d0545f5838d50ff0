//! The rows that one lane works on once: structure of arrays, plain data, addresses that never change.
//!
//! A batch *moves* engine -> lane -> engine; nobody edits what a lane reads. It owns what its rows' values point to:
//! columns by copy, blocks by a hold. Filling skips a row that stands
//! where it stood with the same conditioning, so a steady batch costs a few stores a row.

use std::sync::Arc;

use crate::conditioning::{Block, Keys, Shown, Store, View};
use crate::memory::{Array, Land, Room};
use crate::rows::Rows;
use crate::word::{Fault, Generation, KeySet, Lane, Nanos, RawEvent, Row, Session, Status};

/// One value as a stage sees it: the layout of `rte_value`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
pub struct ValueRef {
    data: usize,
    size: usize,
    revision: u64,
    key: u32,
    flags: u32,
}

impl ValueRef {
    /// `size` bytes at `data`.
    pub fn new(key: u32, revision: u64, data: usize, size: usize) -> ValueRef {
        ValueRef { data, size, revision, key, flags: 0 }
    }
}

/// Who stands at a position.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Seat {
    /// Where in the arena.
    pub row: Row,
    /// Whose.
    pub session: Session,
    /// Of its ATTACH.
    pub user: u64,
    /// Which life.
    pub generation: Generation,
    /// Tells one conditioning of the row from another; 0: fill in any case.
    pub version: u64,
}

/// See the module's comment.
pub struct Batch {
    /// Ticks run before it.
    pub tick: u64,
    /// Pipeline slot.
    pub slot: u32,
    /// Of a tick's batch: whose stages run.
    pub lane: Option<Lane>,
    /// What its calls as a whole came to.
    pub result: Result<(), Fault>,
    /// When its calls began, and when they were seen to have ended.
    pub begun: Nanos,
    /// See `begun`.
    pub ended: Nanos,
    dense: bool,
    /// Its rows have outputs.
    ends_chunk: bool,
    frames_per_chunk: u32,
    chunk_bytes: usize,
    keys: usize,
    count: usize,
    members: Rows,
    seats: Box<[Seat]>,
    row: Array<u32>,
    session: Array<u64>,
    user: Array<u64>,
    generation: Array<u64>,
    age: Array<u64>,
    changed: Array<u64>,
    status: Array<i32>,
    frames: Array<u32>,
    output: Array<usize>,
    output_size: Array<usize>,
    mask: Array<u8>,
    /// By position and key.
    table: Box<[ValueRef]>,
    value: Box<[usize]>,
    holds: Box<[Option<Arc<Block>>]>,
    /// By key; empty where the key has no size.
    columns: Box<[Array<u8>]>,
    column: Box<[usize]>,
    /// Rows with a lent value: to be let go as soon as the batch is home.
    lent: Rows,
    /// A row shows what its lane has not seen yet.
    has_news: bool,
    /// Behind which values of its rows on a device are complete: to be waited for before its calls.
    waits: Vec<RawEvent>,
    /// They were.
    has_waited: bool,
}

/// Addresses of the arrays, for an adapter.
#[allow(missing_docs)]
pub struct Arrays {
    pub count: u32,
    pub chunk_bytes: usize,
    pub row: usize,
    pub session: usize,
    pub user: usize,
    pub generation: usize,
    pub age: usize,
    pub changed: usize,
    pub value: usize,
    pub column: usize,
    pub mask: usize,
    pub output: usize,
    pub output_size: usize,
    pub frames: usize,
    pub status: usize,
}

/// What all batches of a model have in common.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Rows of the arena.
    pub max_sessions: u32,
    /// A position is a row.
    pub dense: bool,
    /// What `frames` begins as.
    pub frames_per_chunk: u32,
    /// Room of each output.
    pub chunk_bytes: usize,
}

/// In a value's flags: RTE_VALUE_DEVICE.
const DEVICE: u32 = 2;

/// What is to be waited for before `block` is shown to a stage, if it is not among `waits`.
fn note_wait(waits: &mut Vec<RawEvent>, block: Option<&Arc<Block>>) {
    if let Some(ready) = block.and_then(|block| block.ready())
        && !waits.contains(&ready)
    {
        waits.push(ready);
    }
}

fn zeros<T: Clone + Default>(count: usize) -> Box<[T]> {
    vec![T::default(); count].into()
}

impl Batch {
    /// Room for `capacity` rows (dense: for the whole arena). `ends_chunk`: its rows have outputs. What a stage may copy to
    /// a device lies in `room`, if that is some.
    pub fn new(
        shape: Shape,
        capacity: usize,
        ends_chunk: bool,
        keys: &Keys,
        room: Option<&Arc<dyn Room>>,
    ) -> Option<Box<Batch>> {
        let max = shape.max_sessions as usize;
        let places = if shape.dense { max } else { capacity };
        let arrays =
            [4, 8, 8, 8, 8, 8, 4, 4, size_of::<usize>(), size_of::<usize>()].map(|size| places.checked_mul(size));
        let sizes = arrays.into_iter().chain([Some(max)]).collect::<Option<Vec<usize>>>()?;
        let of_columns = keys.iter().map(|(_, spec)| spec.size.checked_mul(places)).collect::<Option<Vec<usize>>>()?;
        let mut land = Land::new(room, sizes.into_iter().chain(of_columns.iter().copied()))?;
        let mut columns: Box<[Array<u8>]> = of_columns.into_iter().map(|size| land.array(size)).collect();
        let start = |column: &mut Array<u8>| {
            if column.is_empty() { 0 } else { column.as_mut_ptr().expose_provenance() }
        };
        let column: Box<[usize]> = columns.iter_mut().map(start).collect();
        let table: Box<[ValueRef]> = zeros(places * keys.len());
        let value = (0..places).map(|at| table[at * keys.len()..].as_ptr().expose_provenance()).collect();
        let mut batch = Batch {
            tick: 0,
            slot: 0,
            lane: None,
            result: Ok(()),
            begun: 0,
            ended: 0,
            dense: shape.dense,
            ends_chunk,
            frames_per_chunk: shape.frames_per_chunk,
            chunk_bytes: shape.chunk_bytes,
            keys: keys.len(),
            count: 0,
            members: Rows::new(shape.max_sessions),
            seats: zeros(places),
            row: land.array(places),
            session: land.array(places),
            user: land.array(places),
            generation: land.array(places),
            age: land.array(places),
            changed: land.array(places),
            status: land.array(places),
            frames: land.array(places),
            output: land.array(places),
            output_size: land.array(places),
            mask: land.array(max),
            table,
            value,
            holds: vec![None; places * keys.len()].into(),
            columns,
            column,
            lent: Rows::new(shape.max_sessions),
            has_news: false,
            waits: Vec::new(),
            has_waited: false,
        };
        for at in 0..places * keys.len() {
            batch.table[at].key = (at % keys.len()) as u32;
        }
        if shape.dense {
            (0..places).for_each(|at| batch.row[at] = at as u32);
        }
        Some(Box::new(batch))
    }

    /// For how many rows it has room.
    pub fn capacity(&self) -> usize {
        self.seats.len()
    }

    /// Which rows are in it.
    pub fn members(&self) -> &Rows {
        &self.members
    }

    /// Whether none is.
    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The first of its rows.
    pub fn first_row(&self) -> u32 {
        self.members.first().map_or(0, |row| row.0)
    }

    /// Its positions: padding of a dense batch included.
    pub fn span(&self) -> std::ops::Range<usize> {
        0..self.count
    }

    /// Which row stands at `at`; none: padding.
    pub fn row_at(&self, at: usize) -> Option<Row> {
        let row = Row(self.row[at]);
        (!self.dense || self.mask[at] != 0).then_some(row)
    }

    /// Its rows with their positions, ascending.
    pub fn positions(&self) -> impl Iterator<Item = (usize, Row)> + '_ {
        self.span().filter_map(|at| Some((at, self.row_at(at)?)))
    }

    /// Where `row`, one of its members, stands.
    pub fn position(&self, row: Row) -> usize {
        if self.dense { row.at() } else { self.row[..self.count].partition_point(|other| *other < row.0) }
    }

    /// Who stands at position `at`.
    pub fn seat(&self, at: usize) -> &Seat {
        &self.seats[at]
    }

    // ---- filling

    /// Begins anew, with `rows`. Then each of them is placed, ascending, then the batch is sealed.
    pub fn begin(&mut self, tick: u64, slot: u32, rows: &Rows) {
        (self.tick, self.slot, self.lane) = (tick, slot, None);
        (self.result, self.has_news) = (Ok(()), false);
        self.has_waited = false;
        self.waits.clear();
        if self.members != *rows {
            self.members.iter().for_each(|row| self.mask[row.at()] = 0);
            self.members.copy_from(rows);
            rows.iter().for_each(|row| self.mask[row.at()] = 1);
        }
        self.count = 0;
        let all = if self.dense { self.seats.len() } else { rows.len() as usize };
        self.changed[..all].fill(0);
        self.status[..all].fill(0);
        self.output[..all].fill(0);
        self.output_size[..all].fill(0);
        self.frames[..all].fill(self.frames_per_chunk);
    }

    /// Places the next of its rows; returns its position.
    #[inline]
    pub fn place(&mut self, seat: Seat, age: u64, view: View<'_>, keys: &Keys, store: &mut Store) -> usize {
        let at = if self.dense { seat.row.at() } else { self.count };
        self.count += 1;
        self.age[at] = age;
        if seat.version == 0 || self.seats[at] != seat {
            self.fill(at, seat, view, keys, store);
        }
        at
    }

    /// What stands at `at` is not what stood there.
    #[inline(never)]
    fn fill(&mut self, at: usize, seat: Seat, view: View<'_>, keys: &Keys, store: &mut Store) {
        self.seats[at] = seat;
        self.row[at] = seat.row.0;
        (self.session[at], self.user[at], self.generation[at]) = (seat.session.0, seat.user, seat.generation.0);
        let mut lends = false;
        for (key, spec) in keys.iter() {
            let block = view.blocks[key].as_ref();
            let hold = &mut self.holds[at * self.keys + key];
            if hold.as_ref().map(Arc::as_ptr) != block.map(Arc::as_ptr) {
                store.replace(hold, block.cloned());
            }
            lends |= block.is_some_and(|block| block.is_lent());
            note_wait(&mut self.waits, block);
            let cell = at * spec.size..(at + 1) * spec.size;
            let place = &mut self.table[at * self.keys + key];
            place.flags = if block.is_some_and(|block| block.is_device()) { DEVICE } else { 0 };
            (place.data, place.size, place.revision) = match block {
                Some(block) => (block.address(), block.size(), block.revision()),
                None if view.present.has(key) => (self.column[key] + cell.start, spec.size, 0),
                None => (0, 0, 0),
            };
            if spec.size > 0 {
                let cell = &mut self.columns[key][cell];
                match block {
                    // (A key with a size takes no value on a device.)
                    Some(block) => cell.copy_from_slice(block.bytes()),
                    None if view.present.has(key) => cell.copy_from_slice(&view.image[keys.span(key)]),
                    None => cell.fill(0),
                }
            }
        }
        if lends {
            self.lent.add(seat.row);
        }
    }

    /// All rows were placed: in a dense batch the other positions become padding.
    pub fn seal(&mut self, store: &mut Store) {
        if self.dense {
            self.count = self.seats.len();
            for at in 0..self.count {
                if self.mask[at] == 0 && self.generation[at] != 0 {
                    self.blank(at, store);
                }
            }
        }
    }

    /// Nobody stands at position `at`.
    fn blank(&mut self, at: usize, store: &mut Store) {
        self.seats[at] = Seat::default();
        (self.session[at], self.user[at], self.generation[at]) = (0, 0, 0);
        (self.age[at], self.changed[at], self.status[at]) = (0, 0, 0);
        (self.output[at], self.output_size[at]) = (0, 0);
        for key in 0..self.keys {
            store.replace(&mut self.holds[at * self.keys + key], None);
            let place = &mut self.table[at * self.keys + key];
            (place.data, place.size, place.revision, place.flags) = (0, 0, 0, 0);
            let size = self.columns[key].len() / self.seats.len();
            self.columns[key][at * size..(at + 1) * size].fill(0);
        }
    }

    /// What a stage sees of `key` at position `at`.
    pub fn shown(&self, at: usize, key: usize) -> Shown<'_> {
        match &self.holds[at * self.keys + key] {
            Some(block) => Shown::Block(block),
            None => match self.table[at * self.keys + key].size {
                0 => Shown::Absent,
                size => Shown::Bytes(&self.columns[key][at * size..(at + 1) * size]),
            },
        }
    }

    /// Says which keys of the row at `at` have changed.
    pub fn set_changed(&mut self, at: usize, changed: KeySet) {
        self.changed[at] = changed.0;
        self.has_news = true;
    }

    /// Whether a row shows what its lane has not seen yet.
    pub fn has_news(&self) -> bool {
        self.has_news
    }

    /// The keys that are present at `at`.
    pub fn present(&self, at: usize) -> KeySet {
        let mut present = KeySet::NONE;
        (0..self.keys).for_each(|key| present.set(key, self.table[at * self.keys + key].size > 0));
        present
    }

    /// Says where the row at `at` is to write its chunk.
    pub fn set_output(&mut self, at: usize, address: usize) {
        self.output[at] = address;
    }

    /// Presets the status of the row at `at`.
    pub fn set_status(&mut self, at: usize, status: Option<Status>) {
        self.status[at] = status.map_or(0, |status| status.0);
    }

    /// Takes `row`, a member, out of a batch that no lane has.
    pub fn drop_row(&mut self, row: Row, store: &mut Store) {
        let at = self.position(row);
        self.members.remove(row);
        self.mask[row.at()] = 0;
        if self.dense {
            self.blank(at, store);
            return;
        }
        for next in at + 1..self.count {
            self.shift(next, next - 1);
        }
        self.count -= 1;
        // What is left behind the end belongs to nobody.
        self.seats[self.count] = Seat::default();
    }

    /// Moves what stands at `from` to the free position `to`.
    fn shift(&mut self, from: usize, to: usize) {
        self.seats.swap(from, to);
        self.row.swap(from, to);
        self.session.swap(from, to);
        self.user.swap(from, to);
        self.generation.swap(from, to);
        self.age.swap(from, to);
        self.changed.swap(from, to);
        self.status.swap(from, to);
        self.frames.swap(from, to);
        self.output.swap(from, to);
        self.output_size.swap(from, to);
        for key in 0..self.keys {
            let (source, target) = (from * self.keys + key, to * self.keys + key);
            self.holds.swap(source, target);
            self.table.swap(source, target);
            let size = self.columns[key].len() / self.seats.len();
            self.columns[key].copy_within(from * size..(from + 1) * size, to * size);
            let place = &mut self.table[target];
            if self.holds[target].is_none() && place.size > 0 {
                place.data = self.column[key] + to * size;
            }
        }
    }

    /// Makes this a batch of one row: `one`, that stands at `at` of `other`.
    pub fn copy_one(&mut self, one: &Rows, other: &Batch, at: usize, store: &mut Store) {
        self.begin(other.tick, other.slot, one);
        self.ends_chunk = other.ends_chunk;
        let seat = Seat { version: 0, ..other.seats[at] };
        let to = if self.dense { seat.row.at() } else { 0 };
        self.count = 1;
        self.seats[to] = seat;
        self.row[to] = seat.row.0;
        (self.session[to], self.user[to], self.generation[to]) = (seat.session.0, seat.user, seat.generation.0);
        (self.age[to], self.changed[to], self.output[to]) = (other.age[at], other.changed[at], other.output[at]);
        self.has_news = true;
        for key in 0..self.keys {
            let (source, target) = (at * self.keys + key, to * self.keys + key);
            let hold = other.holds[source].clone();
            note_wait(&mut self.waits, hold.as_ref());
            if hold.as_ref().is_some_and(|block| block.is_lent()) {
                self.lent.add(seat.row);
            }
            let (from_size, size) =
                (other.columns[key].len() / other.seats.len(), self.columns[key].len() / self.seats.len());
            self.columns[key][to * size..(to + 1) * size]
                .copy_from_slice(&other.columns[key][at * from_size..(at + 1) * from_size]);
            self.table[target] = other.table[source];
            if hold.is_none() && self.table[target].size > 0 {
                self.table[target].data = self.column[key] + to * size;
            }
            store.replace(&mut self.holds[target], hold);
        }
        self.seal(store);
    }

    /// Whoever calls its stages has its stream wait for `each` of these before.
    pub fn wait_for<E>(&mut self, mut each: impl FnMut(RawEvent) -> Result<(), E>) -> Result<(), E> {
        self.has_waited = true;
        self.waits.drain(..).try_for_each(&mut each)
    }

    // ---- after its calls

    /// The stage said that the row at `at` failed. A number that is no status counts as CALLBACK, and so does DEAD, which is
    /// none of a row.
    pub fn failed(&self, at: usize) -> Option<Status> {
        let status = Status::of_callback(self.status[at]).err()?;
        Some(if status == Status::DEAD { Status::CALLBACK } else { status })
    }

    /// Whether a stage has said anything of any row.
    pub fn says_something(&self) -> bool {
        self.status[..self.count].iter().any(|status| *status != 0)
    }

    /// Where the output of the row at `at` is.
    pub fn output(&self, at: usize) -> usize {
        self.output[at]
    }

    /// What was written to the row's buffer.
    pub fn output_size(&self, at: usize) -> usize {
        self.output_size[at]
    }

    /// How many frames that is.
    pub fn frames(&self, at: usize) -> u32 {
        self.frames[at]
    }

    /// Home again, nobody reads it any more: lent values are let go at once, those of its own kept for the next fill. What
    /// its calls have waited for has passed.
    pub fn release_lent(&mut self, store: &mut Store) {
        if self.lent.is_empty() {
            return;
        }
        let keys = self.keys;
        for at in 0..self.seats.len() {
            for key in 0..keys {
                let hold = &mut self.holds[at * keys + key];
                if let Some(block) = hold.as_ref().filter(|block| block.is_lent()) {
                    if self.has_waited {
                        block.note_ready();
                    }
                    store.replace(hold, None);
                    self.table[at * keys + key].size = 0;
                    self.seats[at].version = 0;
                }
            }
        }
        self.lent.clear();
    }

    /// Gives up every value. From now on it is for hooks and ENCODE, which have no outputs, or for a row that runs alone.
    pub fn clear(&mut self, store: &mut Store) {
        self.ends_chunk = false;
        store.clear(&mut self.holds);
        self.seats.fill(Seat::default());
        self.lent.clear();
    }

    /// For an adapter: where the arrays are. What a stage may write, an adapter reaches through these addresses only,
    /// so they are made from exclusive borrows.
    pub fn arrays(&mut self) -> Arrays {
        fn at<T>(array: &mut [T]) -> usize {
            array.as_mut_ptr().expose_provenance()
        }
        Arrays {
            count: self.count as u32,
            chunk_bytes: self.chunk_bytes,
            row: at(&mut self.row),
            session: at(&mut self.session),
            user: at(&mut self.user),
            generation: at(&mut self.generation),
            age: at(&mut self.age),
            changed: at(&mut self.changed),
            value: at(&mut self.value),
            column: at(&mut self.column),
            mask: at(&mut self.mask),
            output: if self.ends_chunk { at(&mut self.output) } else { 0 },
            output_size: at(&mut self.output_size),
            frames: at(&mut self.frames),
            status: at(&mut self.status),
        }
    }
}
