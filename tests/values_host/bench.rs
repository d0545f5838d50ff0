//! An engine on a device, ticked in each moment of its time.

use std::ptr::null_mut;
use std::sync::Arc;

use super::ledger::{Form, Item, Loan, Ready, release};
use super::model::{Shown, Who, World, keys, stages, values_model};
use crate::driver::*;
use crate::host::device::Device;

const OK: i32 = 0;
const AGAIN: i32 = rte_status_code::RTE_AGAIN as i32;

/// Of its arena.
pub const ROWS: usize = 4;

/// An engine on a device.
pub struct Bench {
    pub world: Arc<World>,
    pub host: Option<Host>,
    /// Events of messages that have no release.
    pub without_release: Vec<Arc<Ready>>,
}

/// A value.
pub fn on_device(key: u32, revision: u64) -> Item {
    Item { key, form: Form::Device, revision }
}

/// A value.
pub fn item(key: u32, form: Form, revision: u64) -> Item {
    Item { key, form, revision }
}

impl Bench {
    pub fn new(flags: u32, pipeline: u32) -> Bench {
        Bench::with(flags, rte_engine_options { pipeline, ..options() })
    }

    /// One with these options, on the device's lanes.
    pub fn with(flags: u32, options: rte_engine_options) -> Bench {
        Bench::prepared(flags, options, |_, _| {})
    }

    /// As that; `prepare` may change the options, with the device in hand.
    pub fn prepared(
        flags: u32,
        options: rte_engine_options,
        prepare: impl FnOnce(&Device, &mut rte_engine_options),
    ) -> Bench {
        let world = World::new(ROWS);
        let (stages, keys) = (stages(), keys());
        let model = values_model(&world, &stages, &keys, flags);
        let table = world.device.table();
        let mut options = rte_engine_options { lanes: RTE_LANES_HOST, backend: &table, ..options };
        prepare(&world.device, &mut options);
        let host = Some(Host::new(&model, &options));
        Bench { world, host, without_release: Vec::new() }
    }

    /// One that is not pipelined.
    pub fn simple() -> Bench {
        Bench::new(0, RTE_PIPELINE_OFF)
    }

    pub fn host(&self) -> &Host {
        self.host.as_ref().expect("it was not freed")
    }

    pub fn now(&self) -> u64 {
        self.world.device.now()
    }

    pub fn ready_at(&self, at: u64) -> Option<Arc<Ready>> {
        Some(Ready::new(&self.world.device, at))
    }

    pub fn set_length(&self, who: Who, length: u64) {
        self.world.set(|knobs| _ = knobs.lengths.insert(who, length));
    }

    pub fn set_result(&self, who: Who, result: i32) {
        self.world.set(|knobs| _ = knobs.results.insert(who, result));
    }

    pub fn push(&self, kind: u32, session: u64, items: &[Item], ready: Option<Arc<Ready>>) -> Arc<Loan> {
        self.push_flagged(kind, 0, session, items, ready)
    }

    pub fn push_flagged(
        &self,
        kind: u32,
        flags: u32,
        session: u64,
        items: &[Item],
        ready: Option<Arc<Ready>>,
    ) -> Arc<Loan> {
        let loan = self.world.loans.lend(&self.world.device, session, items, ready);
        let message = rte_message {
            flags,
            tag: loan.number,
            ready: loan.ready.as_ref().map_or(null_mut(), |ready| ready.event()),
            release: Some(release),
            release_user: loan.release_user(),
            ..message(kind, session)
        };
        assert_eq!(self.host().push(message, &loan.values()), OK);
        loan
    }

    /// An action that leaves the other keys as they are.
    pub fn act(&self, session: u64, items: &[Item], ready: Option<Arc<Ready>>) -> Arc<Loan> {
        self.push_flagged(RTE_ACTION, RTE_PARTIAL, session, items, ready)
    }

    pub fn attach(&self, session: u64) {
        self.push(RTE_ATTACH, session, &[], None);
    }

    /// One call of tick that waits for nothing.
    pub fn tick(&self) -> i32 {
        // SAFETY: the engine lives and is ticked by this thread.
        unsafe { rte_engine_tick(self.host().engine, 0) }
    }

    /// Until this time, one call of tick in each moment; what comes out is thrown away. Gives how many ticks were whole.
    pub fn run_until(&self, time: u64) -> u64 {
        let mut whole = 0;
        while self.now() < time {
            self.world.device.set_now(self.now() + 1);
            let status = self.tick();
            assert!(status == OK || status == AGAIN, "{status} at {}", self.now());
            whole += u64::from(status == OK);
            self.host().pop_all(|_| {});
        }
        whole
    }

    /// So many whole ticks, one in each moment.
    pub fn steps(&self, count: u64) {
        assert_eq!(self.run_until(self.now() + count), count);
    }

    /// What was shown of a message since the last time.
    pub fn shown(&self, loan: &Loan) -> Vec<Shown> {
        self.world.take_shown().into_iter().filter(|shown| shown.number == loan.number).collect()
    }

    pub fn stop(&self) {
        // SAFETY: the engine lives and is ticked by this thread.
        assert_eq!(unsafe { rte_engine_stop(self.host().engine, u64::MAX, null_mut()) }, OK);
    }

    /// The engine is freed.
    pub fn free(mut self) {
        self.host = None;
    }

    /// The engine is freed, and nothing is left behind.
    pub fn end(mut self) {
        self.host = None;
        self.without_release.drain(..).for_each(|ready| ready.drop_event());
        assert_eq!(self.world.complaints().first(), None);
        assert_eq!(self.world.loans.complaints(), Vec::<String>::new());
        assert_eq!(self.world.device.complaints(), Vec::<String>::new());
        assert!(self.world.device.is_clean());
    }
}
