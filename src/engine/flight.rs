//! A batch on its way from HOT to the outbox, and the two slots it alternates between.

use std::sync::Arc;

use crate::batch::Batch;
use crate::lane::Fence;
use crate::memory::Array;
use crate::queue::Passage;
use crate::rows::Rows;
use crate::word::{Generation, Lane, Nanos, Row};

/// What a row's chunk will say, as it was when HOT was issued.
#[derive(Clone, Copy, Default)]
pub struct Mark {
    pub generation: Generation,
    pub index: u64,
    pub tag: u64,
    pub heavy_tag: u64,
    /// When the newest ACTION that it is the first to take into account was pushed.
    pub pushed: Option<Nanos>,
}

/// One tick's batch.
pub struct Flight {
    pub slot: usize,
    pub tick: u64,
    /// `Cohort::departures` when it began: if that has not grown, all its rows are still there.
    pub departures: u64,
    pub start: Nanos,
    /// The rows that ran HOT, less those that failed it.
    pub rows: Rows,
    /// By row.
    pub marks: Box<[Mark]>,
    /// Of HOT: one, or one a row where the lane isolates.
    pub hot: Vec<Fence>,
    pub hot_isolated: bool,
    /// What HOT said has been acted on.
    pub hot_settled: bool,
    /// HOT failed as a whole: there is nothing to deliver.
    pub lost: bool,
    /// Filled together with HOT's, so that both see the same.
    pub to_defer: Option<Box<Batch>>,
    pub deferred: Vec<Fence>,
    pub deferred_isolated: bool,
    pub deferred_submitted: bool,
    /// With outputs on a device: of each batch that ends chunks, in the order of its fences.
    pub completions: Vec<Option<Arc<dyn Passage>>>,
}

impl Flight {
    fn new(slot: usize, max: u32) -> Flight {
        Flight {
            slot,
            tick: 0,
            departures: 0,
            start: 0,
            rows: Rows::new(max),
            marks: vec![Mark::default(); max as usize].into(),
            hot: Vec::with_capacity(1),
            hot_isolated: false,
            hot_settled: false,
            lost: false,
            to_defer: None,
            deferred: Vec::with_capacity(1),
            deferred_isolated: false,
            deferred_submitted: false,
            completions: Vec::new(),
        }
    }

    /// Begins anew.
    pub fn begin(&mut self, tick: u64, departures: u64, start: Nanos, cohort: &Rows) {
        (self.tick, self.departures, self.start) = (tick, departures, start);
        self.rows.copy_from(cohort);
        self.hot.clear();
        self.deferred.clear();
        self.completions.clear();
        (self.hot_settled, self.deferred_submitted, self.lost) = (false, false, false);
        (self.hot_isolated, self.deferred_isolated) = (false, false);
    }

    /// The fences behind which its outputs are complete.
    pub fn last(&self, lane: Lane) -> &[Fence] {
        if lane == Lane::Deferred { &self.deferred } else { &self.hot }
    }

    /// Whether the life `generation` in `row` is in it.
    pub fn carries(&self, row: Row, generation: Generation) -> bool {
        self.rows.has(row) && self.marks[row.at()].generation == generation
    }
}

/// One of the two slots: its flight and batches while they are at home.
pub struct Slot {
    /// What its batch's outputs are written to, where they are one block; untouched from HOT until it was delivered.
    pub block: Option<Array<u8>>,
    pub flight: Option<Box<Flight>>,
    pub hot: Option<Box<Batch>>,
    pub deferred: Option<Box<Batch>>,
}

impl Slot {
    /// An empty flight, and no batches yet.
    pub fn new(slot: usize, max: u32) -> Slot {
        Slot { block: None, flight: Some(Box::new(Flight::new(slot, max))), hot: None, deferred: None }
    }
}

/// Work that nobody waits for: when its fence has passed its batch goes home.
pub struct Errand {
    pub fence: Fence,
    pub home: Home,
    /// What it came to was not looked at yet.
    pub is_unseen: bool,
}

/// Where a batch belongs.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Home {
    Spare,
    /// One row of a slot's batch, run alone.
    Single(usize),
    Hot(usize),
    Deferred(usize),
}
