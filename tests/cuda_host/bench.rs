//! An engine on CUDA lanes, sessions that are steered at random, and a consumer that looks at every byte.
//!
//! The host's thread has no context current but where it calls the driver itself: so each call of the library has to bring
//! its own, and to take it away again.

use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::atomic::{AtomicU32, Ordering};

use super::fake::{Census, Failing, Handle, fake};
use super::model::{self, CHUNK, Content, NOTE, Nature, PROMPT, STEER, World};
use crate::cuda;
use crate::driver::*;
use crate::random::Random;
use rte::lane::Lanes;

const OK: i32 = 0;

/// Makes other lanes of the engine's.
pub type Wrap = fn(Box<dyn Lanes>) -> Box<dyn Lanes>;

/// What is run.
#[derive(Clone, Copy, Default, Debug)]
pub struct Plan {
    pub nature: Nature,
    pub pipeline: u32,
    pub encode_lanes: u32,
    /// Of the model.
    pub flags: u32,
    /// The host's own streams.
    pub lends: bool,
    pub policy: u32,
    /// What becomes of the lanes.
    pub wrap: Option<Wrap>,
}

impl Plan {
    /// One of all of them.
    pub fn of(seed: u64) -> Plan {
        let outputs_on_device = seed & 1 != 0;
        let dense = if seed & 8 != 0 { RTE_MODEL_DENSE } else { 0 };
        let aside = if seed & 16 != 0 { RTE_MODEL_SEED_ASIDE } else { 0 };
        let outputs = match (outputs_on_device, seed & 32 != 0) {
            (true, _) => RTE_MODEL_DEVICE_OUTPUT,
            (false, true) => RTE_MODEL_OUTPUT_BLOCK,
            (false, false) => 0,
        };
        Plan {
            nature: Nature { rows: 5, has_deferred: seed & 2 == 0, outputs_on_device, ..Nature::default() },
            pipeline: if seed & 4 != 0 { RTE_PIPELINE_OFF } else { RTE_PIPELINE_ON },
            encode_lanes: if seed & 64 != 0 { 0 } else { (seed >> 7 & 3) as u32 },
            flags: dense | aside | outputs,
            lends: seed & 64 != 0,
            policy: [RTE_DROP_OLDEST, RTE_DROP_NEWEST, RTE_HOLD][(seed >> 9) as usize % 3],
            wrap: None,
        }
    }
}

/// A value that was lent, until the bench is over.
struct Loan {
    /// On the device, or page-locked.
    memory: u64,
    is_device: bool,
    event: Handle,
    /// What fills it.
    filling: u64,
    releases: AtomicU32,
}

unsafe extern "C-unwind" fn release(user: *mut c_void) {
    // SAFETY: a loan, which lives as long as the bench.
    let loan = unsafe { &*user.cast::<Loan>() };
    loan.releases.fetch_add(1, Ordering::Relaxed);
    // SAFETY: memory of the fake's. All work of the engine's on it was seen to be over; what fills it is the host's affair.
    unsafe {
        (fake().fake_cuda_saw)(loan.filling);
        (fake().fake_cuda_expect_seen)(std::ptr::with_exposed_provenance(loan.memory as usize), 8);
    }
}

/// A chunk that the consumer keeps, and until when.
struct Kept {
    output: rte_output,
    until: u64,
}

/// A chunk of the device that was copied on the consumer's stream, and given back there.
struct Copied {
    place: Handle,
    expected: Content,
}

/// How much was seen.
#[derive(Clone, Copy, Default, Debug)]
pub struct Tally {
    pub ticks: u64,
    pub chunks: u64,
    pub loans: u64,
}

/// See the module's comment.
pub struct Bench {
    pub host: Option<Host>,
    world: *mut World,
    plan: Plan,
    context: Handle,
    producer: Handle,
    pub consumer: Handle,
    lent: [Handle; 3],
    #[allow(clippy::vec_box, reason = "the engine has their addresses")]
    loans: Vec<Box<Loan>>,
    kept: Vec<Kept>,
    copied: Vec<Copied>,
    revision: u64,
    /// How many ticks a chunk is kept at most.
    pub patience: u64,
    pub tally: Tally,
}

impl Bench {
    /// An engine that was not ticked yet. An error: the status, and the words.
    pub fn new(plan: Plan, options: rte_engine_options) -> Result<Bench, (i32, String)> {
        Bench::with(plan, options, None)
    }

    /// The same, while a call of the driver fails.
    pub fn with(
        plan: Plan,
        options: rte_engine_options,
        failing: Option<&Failing<'_>>,
    ) -> Result<Bench, (i32, String)> {
        let context = fake().context(0);
        let mut bench = Bench {
            host: None,
            world: null_mut(),
            plan,
            context,
            producer: null_mut(),
            consumer: null_mut(),
            lent: [null_mut(); 3],
            loans: Vec::new(),
            kept: Vec::new(),
            copied: Vec::new(),
            revision: 1 << 32,
            patience: 6,
            tally: Tally::default(),
        };
        within(context, || {
            bench.world = Box::into_raw(World::new(plan.nature));
            cuda!(cuStreamCreateWithPriority(&mut bench.producer, 1, 0));
            cuda!(cuStreamCreateWithPriority(&mut bench.consumer, 1, 0));
            if plan.lends {
                bench.lent.iter_mut().for_each(|stream| cuda!(cuStreamCreateWithPriority(stream, 1, 0)));
            }
        });
        let (stages, keys) = (World::stages(plan.nature), World::keys());
        let model = rte_model {
            user: bench.world.cast(),
            keys: keys.as_ptr(),
            key_count: 3,
            flags: plan.flags,
            seed: Some(model::seed),
            detach: Some(model::detach),
            ..model(&stages, plan.nature.rows as u32, CHUNK)
        };
        let options = rte_engine_options {
            lanes: RTE_LANES_CUDA,
            pipeline: plan.pipeline,
            encode_lanes: plan.encode_lanes,
            outbox_policy: plan.policy,
            streams: bench.lent.map(|stream| stream.cast()),
            ..options
        };
        let (mut engine, mut error): (*mut rte_engine, rte_error) = (null_mut(), zeroed());
        // SAFETY: valid descriptors and places.
        let mut make = || unsafe {
            match plan.wrap {
                None => rte_engine_new(&model, &options, &mut engine, &mut error),
                Some(wrap) => {
                    engine = engine_with(&model, &options, wrap).expect("an engine");
                    OK
                }
            }
        };
        let status = match failing {
            Some(failing) => failing.during(make),
            None => make(),
        };
        expect_nothing_current();
        if status != OK {
            bench.free();
            // SAFETY: the library's text.
            let words = unsafe { std::ffi::CStr::from_ptr(error.message.as_ptr()) }.to_string_lossy().into_owned();
            return Err((status, words));
        }
        bench.host = Some(Host { engine });
        Ok(bench)
    }

    pub fn engine(&self) -> *mut rte_engine {
        self.host.as_ref().expect("it was not freed").engine
    }

    /// A tick that waits as long as it takes.
    pub fn tick(&mut self) -> i32 {
        // SAFETY: the engine lives and is ticked by this thread.
        let status = unsafe { rte_engine_tick(self.engine(), u64::MAX) };
        expect_nothing_current();
        self.tally.ticks += 1;
        status
    }

    /// From now on the engine drives itself, and this thread is its consumer alone.
    pub fn start(&self) {
        // SAFETY: the engine lives.
        assert_eq!(unsafe { rte_engine_start(self.engine(), null_mut()) }, OK);
        expect_nothing_current();
    }

    /// Waits a little for outputs of an engine that drives itself: all buffers may be here.
    pub fn wait(&mut self) {
        // SAFETY: the engine lives.
        let status = unsafe { rte_outbox_wait(self.engine(), 100_000) };
        assert!(status == OK || status == rte_status_code::RTE_TIMEOUT as i32, "{status}");
        self.tally.ticks += 1;
    }

    /// Pushes a message, with a value if there is one.
    pub fn push(&mut self, message: rte_message, value: Option<rte_value>) -> i32 {
        let values = value.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
        let message = rte_message { values, value_count: usize::from(value.is_some()), ..message };
        // SAFETY: the engine lives, the value until the call returns.
        unsafe { rte_inbox_push(self.engine(), &message) }
    }

    /// A message that steers a session: copied, page-locked and borrowed, or on the device behind an event.
    pub fn steer(&mut self, session: u64, key: u32, random: &mut Random) {
        let action = rte_message { flags: RTE_PARTIAL, ..message(RTE_ACTION, session) };
        let word = random.next();
        let plain = rte_value { key, data: (&raw const word).cast(), size: 8, ..zeroed() };
        if key == STEER || random.once_in(2) {
            assert_eq!(self.push(action, Some(plain)), OK);
            return;
        }
        let is_device = random.once_in(2);
        self.revision += 1;
        let mut loan =
            Box::new(Loan { memory: 0, is_device, event: null_mut(), filling: 0, releases: AtomicU32::new(0) });
        within(self.context, || {
            if is_device {
                cuda!(cuMemAlloc_v2(&mut loan.memory, 8));
                cuda!(cuEventCreate(&mut loan.event, 2));
                model::produce(self.producer, loan.memory, self.revision);
                // SAFETY: no arguments.
                loan.filling = unsafe { (fake().fake_cuda_op)() };
                cuda!(cuEventRecord(loan.event, self.producer));
            } else {
                let mut memory = null_mut();
                cuda!(cuMemHostAlloc(&mut memory, 8, 1));
                // SAFETY: just allocated.
                unsafe { memory.cast::<u64>().write(word) };
                loan.memory = memory.expose_provenance() as u64;
            }
        });
        let value = rte_value {
            key,
            data: std::ptr::with_exposed_provenance(loan.memory as usize),
            size: 8,
            revision: if is_device { self.revision } else { 0 },
            flags: if is_device { RTE_VALUE_DEVICE } else { RTE_VALUE_BORROWED },
        };
        let lent = rte_message {
            ready: loan.event.cast(),
            release: Some(release),
            release_user: std::ptr::from_ref(&*loan).cast_mut().cast(),
            ..action
        };
        assert_eq!(self.push(lent, Some(value)), OK);
        self.tally.loans += 1;
        self.loans.push(loan);
    }

    /// Takes what there is. Some is kept, some of the device is copied on the consumer's stream.
    pub fn consume(&mut self, random: &mut Random) {
        let mut output = zeroed();
        // SAFETY: the engine lives; each output is released once.
        while unsafe { rte_outbox_pop(self.engine(), &mut output) } == OK {
            expect_nothing_current();
            if output.kind == RTE_CHUNK {
                self.tally.chunks += 1;
                let until = self.tally.ticks + if random.once_in(4) { random.below(self.patience) } else { 0 };
                self.kept.push(Kept { output, until });
            } else {
                assert_ne!(output.kind, RTE_DEAD, "status {}", output.status);
                // SAFETY: as above.
                unsafe { rte_output_release(&mut output, null_mut()) };
            }
        }
        let now = self.tally.ticks;
        let over: Vec<_> = self.kept.extract_if(.., |kept| kept.until <= now).collect();
        over.into_iter().for_each(|kept| self.finish(kept.output));
    }

    /// Looks at a chunk and gives it back.
    fn finish(&mut self, mut output: rte_output) {
        // SAFETY: the world lives as long as the bench.
        let expected =
            unsafe { &*self.world }.expected(output.generation, output.index).expect("a chunk that was made");
        assert_eq!(output.size, CHUNK);
        if output.ready.is_null() {
            // SAFETY: the fake's memory; a chunk's bytes are readable until its release.
            let said = unsafe {
                (fake().fake_cuda_expect_seen)(output.data, CHUNK);
                output.data.cast::<Content>().read()
            };
            assert_eq!(said, expected, "session {}, chunk {}", output.session, output.index);
            // SAFETY: popped, and released once.
            unsafe { rte_output_release(&mut output, null_mut()) };
        } else {
            self.copy(output.data.addr() as u64, output.ready, expected);
            // SAFETY: popped, and released once; behind the copy.
            unsafe { rte_output_release(&mut output, self.consumer.cast()) };
        }
        expect_nothing_current();
    }

    /// The context fails now, for good.
    pub fn lose_context(&self, code: i32) {
        // SAFETY: a context.
        unsafe { (fake().fake_cuda_lose)(self.context, code) };
    }

    /// Lends a prompt in page-locked memory. See [`Bench::take_back`].
    pub fn lend_prompt(&mut self, session: u64, word: u64) {
        let mut memory = null_mut();
        within(self.context, || cuda!(cuMemHostAlloc(&mut memory, 8, 1)));
        // SAFETY: just allocated.
        unsafe { memory.cast::<u64>().write(word) };
        let memory = memory.expose_provenance() as u64;
        let loan =
            Box::new(Loan { memory, is_device: false, event: null_mut(), filling: 0, releases: AtomicU32::new(0) });
        let data = std::ptr::with_exposed_provenance(memory as usize);
        let value = rte_value { key: PROMPT, data, size: 8, flags: RTE_VALUE_BORROWED, ..zeroed() };
        let lent = rte_message {
            flags: RTE_PARTIAL,
            release: Some(release),
            release_user: std::ptr::from_ref(&*loan).cast_mut().cast(),
            ..message(RTE_ACTION, session)
        };
        assert_eq!(self.push(lent, Some(value)), OK);
        self.loans.push(loan);
    }

    /// Writes over what was lent: when it was released, or without a look.
    pub fn take_back(&mut self, looks: bool) {
        let is_back = |loan: &Loan| !looks || loan.releases.load(Ordering::Relaxed) > 0;
        for loan in self.loans.iter().filter(|loan| is_back(loan)) {
            // SAFETY: page-locked memory of the bench; that this is too early is what the driver is to see.
            unsafe { std::ptr::with_exposed_provenance_mut::<u64>(loan.memory as usize).write_volatile(0) };
        }
    }

    /// Gives everything back at once, unseen.
    pub fn discard(&mut self) {
        self.host.as_ref().expect("it was not freed").pop_all(|_| {});
    }

    /// Gives everything back at once; how many notices said that a session was rejected.
    pub fn rejections(&mut self) -> u64 {
        let mut rejected = 0;
        self.host
            .as_ref()
            .expect("it was not freed")
            .pop_all(|output| rejected += u64::from(output.kind == RTE_REJECTED));
        rejected
    }

    /// Copies all chunks on the consumer's stream and gives them back there; or, too early, at once.
    pub fn copy_all(&mut self, is_early: bool) {
        let mut output = zeroed();
        // SAFETY: the engine lives; each output is released once.
        unsafe {
            while rte_outbox_pop(self.engine(), &mut output) == OK {
                if output.kind == RTE_CHUNK && is_early {
                    let (data, ready) = (output.data.addr() as u64, output.ready);
                    self.copy(data, ready, [0; 8]);
                    rte_output_release(&mut output, null_mut());
                } else if output.kind == RTE_CHUNK {
                    self.finish(output);
                } else {
                    rte_output_release(&mut output, null_mut());
                }
            }
        }
    }

    /// What was copied is of no matter.
    pub fn forget_copies(&mut self) {
        within(self.context, || {
            cuda!(cuStreamSynchronize(self.consumer));
            self.copied.drain(..).for_each(|copied| cuda!(cuMemFreeHost(copied.place)));
        });
    }

    /// Copies a chunk of the device on the consumer's stream.
    fn copy(&mut self, data: u64, ready: rte_event, expected: Content) {
        let mut place = null_mut();
        within(self.context, || {
            cuda!(cuMemHostAlloc(&mut place, CHUNK, 1));
            cuda!(cuStreamWaitEvent(self.consumer, ready.cast(), 0));
            cuda!(cuMemcpyDtoHAsync_v2(place, data, CHUNK, self.consumer));
        });
        self.copied.push(Copied { place, expected });
    }

    /// Waits for the consumer's stream, and looks at what it has copied.
    pub fn look(&mut self) {
        within(self.context, || {
            cuda!(cuStreamSynchronize(self.consumer));
            for Copied { place, expected } in self.copied.drain(..) {
                // SAFETY: page-locked, and the copy is over.
                assert_eq!(unsafe { place.cast::<Content>().read() }, expected);
                cuda!(cuMemFreeHost(place));
            }
        });
    }

    /// Frees the engine before or after its last outputs, and everything else. What is left then.
    pub fn end(mut self, outlive: bool) -> (Tally, Census) {
        if outlive {
            drop(self.host.take());
            expect_nothing_current();
        }
        let kept = std::mem::take(&mut self.kept);
        kept.into_iter().for_each(|kept| self.finish(kept.output));
        drop(self.host.take());
        expect_nothing_current();
        self.look();
        for loan in &self.loans {
            assert_eq!(loan.releases.load(Ordering::Relaxed), 1, "each loan comes back once");
        }
        self.free();
        (self.tally, fake().census())
    }

    /// Everything of the host's own. The engine is gone.
    pub fn free(&mut self) {
        within(self.context, || {
            for loan in self.loans.drain(..) {
                if loan.is_device {
                    cuda!(cuStreamSynchronize(self.producer));
                    cuda!(cuMemFree_v2(loan.memory));
                    cuda!(cuEventDestroy_v2(loan.event));
                } else {
                    cuda!(cuMemFreeHost(std::ptr::with_exposed_provenance_mut(loan.memory as usize)));
                }
            }
            for stream in self.lent.into_iter().chain([self.producer, self.consumer]).filter(|stream| !stream.is_null())
            {
                cuda!(cuStreamSynchronize(stream));
                cuda!(cuStreamDestroy_v2(stream));
            }
            // SAFETY: from `Box::into_raw`; the engine, which had it, is gone.
            unsafe { Box::from_raw(self.world) }.free();
        });
        fake().let_go(0);
    }

    /// `ticks` ticks of sessions that come, are steered, and go.
    pub fn play(&mut self, ticks: u64, random: &mut Random) {
        let sessions = self.plan.nature.rows as u64 + 1;
        for _ in 0..ticks {
            for _ in 0..random.below(5) {
                let session = random.below(sessions);
                match random.below(16) {
                    0..4 => assert_eq!(self.push(message(RTE_ATTACH, session), None), OK),
                    4 => {
                        let flags = if random.once_in(2) { RTE_DRAIN } else { 0 };
                        assert_eq!(self.push(rte_message { flags, ..message(RTE_DETACH, session) }, None), OK);
                    }
                    5 => assert_eq!(self.push(message(RTE_RESET, session), None), OK),
                    6 => assert_eq!(self.push(message(RTE_PAUSE, session), None), OK),
                    7 => assert_eq!(self.push(message(RTE_RESUME, session), None), OK),
                    8..11 => self.steer(session, STEER, random),
                    11..13 => self.steer(session, NOTE, random),
                    _ => self.steer(session, PROMPT, random),
                }
            }
            assert_eq!(self.tick(), OK);
            if !random.once_in(4) {
                self.consume(random);
            }
        }
    }
}

/// Runs `call` with the context current.
pub fn within(context: Handle, call: impl FnOnce()) {
    cuda!(cuCtxPushCurrent_v2(context));
    call();
    let mut popped = null_mut();
    cuda!(cuCtxPopCurrent_v2(&mut popped));
    assert_eq!(popped, context);
}

/// No call of the library leaves a context behind on its caller's thread.
#[track_caller]
pub fn expect_nothing_current() {
    // SAFETY: no arguments.
    assert_eq!(unsafe { (fake().fake_cuda_context_depth)() }, 0);
}
