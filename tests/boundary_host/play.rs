//! What the host does with its engine: sessions come, change, and go; a consumer on a thread of its own waits for outputs;
//! at the end it is stopped and freed.

use std::ptr::null_mut;
use std::sync::atomic::Ordering::SeqCst;

use rte::lane::Lanes;

use super::world::{Shape, World};
use crate::driver::*;

/// How an engine is driven.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Driven {
    Ticked,
    Started,
    Run,
}

impl Driven {
    pub const ALL: [Driven; 3] = [Driven::Ticked, Driven::Started, Driven::Run];
}

/// What came of it.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The first status of a tick, a start or a run that was not OK.
    pub driving: rte_status,
    /// After the stop: what info says, and what calls return.
    pub health: rte_status,
    pub stop: rte_status,
    pub push: rte_status,
    pub start: rte_status,
    pub again: rte_status,
    /// What ended the consumer, and the last that it got.
    pub consumer: rte_status,
    pub last_kind: u32,
    pub chunks: u64,
}

/// A handle that may be used on several threads, as rte.h says.
#[derive(Clone, Copy)]
pub struct Handle(pub *mut rte_engine);
// SAFETY: the functions that are called with it on other threads than its own may be.
unsafe impl Send for Handle {}

impl Handle {
    fn info(self) -> rte_engine_info {
        let mut info = rte_engine_info { struct_size: size_of::<rte_engine_info>() as u32, ..zeroed() };
        // SAFETY: the engine lives; a valid place.
        assert_eq!(unsafe { rte_engine_get_info(self.0, &mut info) }, 0);
        info
    }

    fn is_stopping(self) -> bool {
        // SAFETY: what a handle is; the engine lives.
        unsafe { &*self.0.cast::<rte::engine::Engine>() }.shared.stopping.load(SeqCst)
    }
}

thread_local! {
    /// This thread consumes: what it calls back is no callback of the engine's threads.
    pub static CONSUMES: std::cell::Cell<bool> = const { std::cell::Cell::new(false) };
}

/// Waits, pops and gives back, until nothing will come any more.
fn consume(engine: Handle, after: rte_stream) -> (rte_status, u32, u64) {
    CONSUMES.set(true);
    let (mut last, mut chunks, mut output) = (0, 0, zeroed::<rte_output>());
    // SAFETY: the engine lives until this thread was joined.
    unsafe {
        loop {
            match rte_outbox_wait(engine.0, u64::MAX) {
                0 => {}
                status => return (status, last, chunks),
            }
            while rte_outbox_pop(engine.0, &mut output) == 0 {
                last = output.kind;
                chunks += u64::from(last == RTE_CHUNK);
                rte_output_release(&mut output, after);
            }
        }
    }
}

/// What it says, one after the other, each with a tick or more behind it.
const SAYINGS: [(u32, u64, u32, &[u8]); 12] = [
    (RTE_ATTACH, 1, 0, b"a castle"),
    (RTE_ATTACH, 2, 0, b"a forest"),
    (RTE_ACTION, 1, 0, b"a castle on fire"),
    (RTE_ACTION, 1, 0, b""),
    (RTE_PAUSE, 2, 0, b""),
    (RTE_RESUME, 2, 0, b""),
    (RTE_RESET, 1, 0, b"a harbour"),
    (RTE_ACTION, 2, RTE_PARTIAL, b"a forest in winter"),
    (RTE_ACTION, 9, 0, b"nobody"),
    (RTE_DETACH, 2, RTE_DRAIN, b""),
    (RTE_DETACH, 1, 0, b""),
    (RTE_ATTACH, 3, 0, b"the end"),
];

/// See the module's comment. `wrap`, `made`: what is done with the lanes and with the engine before anything else; `between`:
/// after each saying.
pub fn play(
    world: &World,
    shape: Shape,
    driven: Driven,
    after: usize,
    wrap: impl FnOnce(Box<dyn Lanes>) -> Box<dyn Lanes>,
    made: impl FnOnce(*mut rte_engine),
    mut between: impl FnMut(),
) -> Outcome {
    let engine = world.describe(shape, |model, options| {
        // SAFETY: valid descriptors; the world outlives the engine.
        unsafe { engine_with(model, options, wrap) }
    });
    let engine = Handle(engine.unwrap_or_else(|failure| panic!("{}", failure.message)));
    made(engine.0);
    let after = std::ptr::without_provenance_mut::<CUstream_st>(after).expose_provenance();
    let consumer = (!shape.has_on_output).then(|| {
        std::thread::spawn(move || {
            let engine = engine;
            consume(engine, std::ptr::with_exposed_provenance_mut(after))
        })
    });
    let mut outcome = Outcome::default();
    let runner = match driven {
        Driven::Ticked => None,
        Driven::Started => {
            // SAFETY: the engine lives.
            outcome.driving = unsafe { rte_engine_start(engine.0, null_mut()) };
            None
        }
        Driven::Run => Some(std::thread::spawn(move || {
            let engine = engine;
            // SAFETY: the engine lives until this thread was joined.
            unsafe { rte_engine_run(engine.0, null_mut()) }
        })),
    };
    for (kind, session, flags, prompt) in SAYINGS {
        let before = engine.info().ticks;
        let taken = world.push(engine.0, rte_message { flags, ..message(kind, session) }, prompt);
        for _ in 0..3 {
            match driven {
                // SAFETY: the engine lives.
                Driven::Ticked => note(&mut outcome.driving, unsafe { rte_engine_tick(engine.0, u64::MAX) }),
                _ => {
                    // A message that was taken makes a tick.
                    let is_over = || {
                        let info = engine.info();
                        taken != 0 || info.ticks > before || info.health != 0 || engine.is_stopping()
                    };
                    while !is_over() {
                        std::thread::yield_now();
                    }
                }
            }
        }
        between();
    }
    // SAFETY: the engine lives until it is freed, and all threads that use it were joined before.
    unsafe {
        outcome.stop = rte_engine_stop(engine.0, u64::MAX, null_mut());
        runner.into_iter().for_each(|runner| note(&mut outcome.driving, runner.join().unwrap()));
        outcome.health = engine.info().health;
        outcome.push = world.push(engine.0, message(RTE_PAUSE, 1), b"");
        outcome.start = rte_engine_start(engine.0, null_mut());
        outcome.again = rte_engine_tick(engine.0, 0);
        if let Some(consumer) = consumer {
            (outcome.consumer, outcome.last_kind, outcome.chunks) = consumer.join().unwrap();
        }
        rte_engine_free(engine.0);
    }
    outcome
}

fn note(first: &mut rte_status, status: rte_status) {
    if *first == 0 {
        *first = status;
    }
}
