//! A model on the device. Each row has a state, a conditioning and a decoder there, and a latent in each slot; stages
//! enqueue a kernel a row. The same arithmetic runs on the processor when a stage is called, in the order of the calls: what
//! the device comes to must be that, whatever time it takes.

use std::collections::HashMap;
use std::ffi::c_void;
use std::ptr::null_mut;
use std::sync::Mutex;

use super::fake::{Handle, Kernel, Range, fake};
use crate::cuda;
use crate::driver::*;

/// Bytes of a chunk.
pub const CHUNK: usize = 64;
pub const STEER: u32 = 0;
pub const NOTE: u32 = 1;
pub const PROMPT: u32 = 2;
const WORD: usize = 8;
const POISON: u64 = 0xdead_dead_dead_dead;

/// What a chunk says.
pub type Content = [u64; CHUNK / WORD];

/// One word a row, on the device and here.
struct Words {
    device: u64,
    here: Vec<u64>,
}

impl Words {
    fn new(rows: usize) -> Words {
        let mut device = 0;
        cuda!(cuMemAlloc_v2(&mut device, rows * WORD));
        Words { device, here: vec![0; rows] }
    }

    fn of(&self, row: usize) -> u64 {
        self.device + (row * WORD) as u64
    }
}

struct State {
    state: Words,
    cond: Words,
    decoder: Words,
    latent: [Words; 2],
    /// Where a host's values are copied to, for HOT and for the other lanes.
    note: Words,
    prompt: Words,
    /// A chunk of each row before it is copied to the host.
    chunk: u64,
    /// By generation and index.
    expected: HashMap<(u64, u64), Content>,
}

/// What may be different.
#[derive(Clone, Copy, Default, Debug)]
pub struct Nature {
    pub rows: usize,
    pub has_deferred: bool,
    pub outputs_on_device: bool,
    /// Wrong on purpose: the decoder reads the latent on a stream of its own, behind nothing.
    pub forgets_stream: bool,
}

/// See the module's comment. Made with the context current.
pub struct World {
    pub nature: Nature,
    state: Mutex<State>,
    stray: Handle,
}

// SAFETY: handles and addresses of the driver, which any thread may use.
unsafe impl Send for World {}
// SAFETY: as above.
unsafe impl Sync for World {}

/// What a kernel is given; it frees it.
struct Job {
    words: [u64; 4],
    host: *const u64,
    numbers: [u64; 2],
}

fn mix(a: u64, b: u64) -> u64 {
    let x = (a ^ b.rotate_left(31)).wrapping_mul(0x9e37_79b9_7f4a_7c15);
    x ^ x >> 29
}

fn content(latent: u64, decoder: u64) -> Content {
    std::array::from_fn(|at| mix(mix(latent, decoder), at as u64))
}

/// Enqueues `kernel` with what it reads and writes.
fn launch(stream: Handle, kernel: Kernel, job: Job, ranges: &[(u64, usize, bool)]) {
    let ranges: Vec<Range> = ranges
        .iter()
        .filter(|(memory, ..)| *memory != 0)
        .map(|(memory, size, is_written)| Range { memory: *memory, size: *size, is_written: i32::from(*is_written) })
        .collect();
    let user = Box::into_raw(Box::new(job)).cast();
    // SAFETY: the kernel takes the box; a launch that failed leaves it.
    unsafe { (fake().fake_cuda_launch)(stream, kernel, user, ranges.as_ptr(), ranges.len() as i32) };
}

/// A word of the device, in a kernel.
fn word<'a>(address: u64) -> &'a mut u64 {
    // SAFETY: in one of the kernel's ranges; ordered with all other work on it.
    unsafe { &mut *(fake().fake_cuda_content)(address, WORD).cast::<u64>() }
}

fn job_of(user: *mut c_void) -> Box<Job> {
    // SAFETY: from `launch`; a kernel runs once.
    unsafe { Box::from_raw(user.cast()) }
}

unsafe extern "C" fn hot_kernel(user: *mut c_void) {
    let Job { words: [state, cond, note, latent], host, numbers } = *job_of(user);
    // SAFETY: a cell of a column, which stays as it is until the batch's work has passed.
    let steer = unsafe { *host };
    let note = if note == 0 { 0 } else { *word(note) };
    let next = mix(mix(*word(state), steer), mix(note, *word(cond)));
    *word(state) = next;
    *word(latent) = mix(next, numbers[0]);
}

unsafe extern "C" fn decode_kernel(user: *mut c_void) {
    let Job { words: [latent, decoder, chunk, _], .. } = *job_of(user);
    *word(decoder) = mix(*word(decoder), *word(latent));
    let content = content(*word(latent), *word(decoder));
    // SAFETY: one of the kernel's ranges.
    unsafe { (fake().fake_cuda_content)(chunk, CHUNK).cast::<Content>().write(content) };
}

unsafe extern "C" fn set_kernel(user: *mut c_void) {
    let Job { words: [target, source, ..], numbers, .. } = *job_of(user);
    *word(target) = if source == 0 { numbers[0] } else { mix(*word(source), numbers[0]) };
}

impl World {
    /// All its memory, on the device.
    pub fn new(nature: Nature) -> Box<World> {
        let words = || Words::new(nature.rows);
        let (mut chunk, mut stray) = (0, null_mut());
        cuda!(cuMemAlloc_v2(&mut chunk, nature.rows * CHUNK));
        cuda!(cuStreamCreateWithPriority(&mut stray, 1, 0));
        let state = State {
            state: words(),
            cond: words(),
            decoder: words(),
            latent: [words(), words()],
            note: words(),
            prompt: words(),
            chunk,
            expected: HashMap::new(),
        };
        Box::new(World { nature, state: Mutex::new(state), stray })
    }

    /// What chunk `index` of a life must say.
    pub fn expected(&self, generation: u64, index: u64) -> Option<Content> {
        self.state.lock().unwrap().expected.get(&(generation, index)).copied()
    }

    /// Frees its memory. All work is over.
    pub fn free(self: Box<World>) {
        let state = self.state.into_inner().unwrap();
        let [a, b] = state.latent;
        for words in [state.state, state.cond, state.decoder, a, b, state.note, state.prompt] {
            cuda!(cuMemFree_v2(words.device));
        }
        cuda!(cuMemFree_v2(state.chunk));
        cuda!(cuStreamSynchronize(self.stray));
        cuda!(cuStreamDestroy_v2(self.stray));
    }

    /// The stages: HOT, DEFERRED if there is one, ENCODE.
    pub fn stages(nature: Nature) -> Vec<rte_stage> {
        let mut stages = vec![stage(RTE_HOT, hot), stage(RTE_ENCODE, encode)];
        if nature.has_deferred {
            stages.push(stage(RTE_DEFERRED, decode));
        }
        stages
    }

    /// Its keys.
    pub fn keys() -> [rte_key; 3] {
        [
            rte_key { r#type: RTE_I64, size: WORD, merge: RTE_MERGE_SUM, ..zeroed() },
            zeroed(),
            rte_key { flags: RTE_KEY_HEAVY, ..zeroed() },
        ]
    }
}

/// A batch's arrays, and the world behind it.
struct Call<'a> {
    world: &'a World,
    batch: &'a rte_batch,
    stream: Handle,
}

impl<'a> Call<'a> {
    /// # Safety
    /// The arguments of a callback.
    unsafe fn new(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> Call<'a> {
        // SAFETY: the caller's promise; `user` is the world.
        unsafe { Call { world: &*user.cast(), batch: &*batch, stream: stream.cast() } }
    }

    fn rows(&self) -> impl Iterator<Item = (usize, usize)> + use<'a> {
        let batch = self.batch;
        // SAFETY: the arrays of a batch; `mask` is by row.
        (0..batch.count as usize).filter_map(move |at| unsafe {
            let row = *batch.row.add(at) as usize;
            (*batch.mask.add(row) != 0).then_some((at, row))
        })
    }

    /// A value's first word: where the device finds it, and what it says. `place`: where a host's is copied to.
    fn fetch(&self, at: usize, key: u32, place: u64) -> (u64, u64) {
        // SAFETY: the values of a batch.
        let value = unsafe { (*self.batch.value.add(at)).add(key as usize).read() };
        if value.size == 0 {
            return (0, 0);
        }
        if value.flags & RTE_VALUE_DEVICE != 0 {
            let address = value.data.addr() as u64;
            // What a device's value says is its revision: see `bench`.
            return (address, value.revision);
        }
        // SAFETY: a value of the host has a word at least.
        let said = unsafe { value.data.cast::<u64>().read_unaligned() };
        cuda!(cuMemcpyHtoDAsync_v2(place, value.data, WORD, self.stream));
        (place, said)
    }

    fn set(&self, words: &Words, row: usize, source: u64, number: u64) {
        let job = Job { words: [words.of(row), source, 0, 0], host: std::ptr::null(), numbers: [number, 0] };
        launch(self.stream, set_kernel, job, &[(words.of(row), WORD, true), (source, WORD, false)]);
    }
}

unsafe extern "C-unwind" fn hot(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> i32 {
    // SAFETY: the arguments of this callback.
    let call = unsafe { Call::new(user, batch, stream) };
    let mut state = call.world.state.lock().unwrap();
    let slot = call.batch.slot as usize;
    for (at, row) in call.rows() {
        // SAFETY: the arrays of a batch.
        let (steer, age) =
            unsafe { ((*call.batch.column.add(STEER as usize)).cast::<u64>().add(at), *call.batch.age.add(at)) };
        let (note, said) = call.fetch(at, NOTE, state.note.of(row));
        let words = [state.state.of(row), state.cond.of(row), note, state.latent[slot].of(row)];
        let ranges = [
            (words[0], WORD, true),
            (words[1], WORD, false),
            (words[2], WORD, false),
            (words[3], WORD, true),
            (steer.addr() as u64, WORD, false),
        ];
        launch(call.stream, hot_kernel, Job { words, host: steer, numbers: [age, 0] }, &ranges);
        // SAFETY: as above.
        let steer = unsafe { *steer };
        let next = mix(mix(state.state.here[row], steer), mix(said, state.cond.here[row]));
        state.state.here[row] = next;
        state.latent[slot].here[row] = mix(next, age);
    }
    if !call.world.nature.has_deferred {
        finish(&call, &mut state);
    }
    0
}

unsafe extern "C-unwind" fn decode(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> i32 {
    // SAFETY: the arguments of this callback.
    let mut call = unsafe { Call::new(user, batch, stream) };
    if call.world.nature.forgets_stream {
        call.stream = call.world.stray;
    }
    let mut state = call.world.state.lock().unwrap();
    finish(&call, &mut state);
    0
}

/// The chunks of a batch.
fn finish(call: &Call<'_>, state: &mut State) {
    let slot = call.batch.slot as usize;
    for (at, row) in call.rows() {
        // SAFETY: the arrays of a batch, in the lane that ends the chunk.
        let (output, generation, age) =
            unsafe { (*call.batch.output.add(at), *call.batch.generation.add(at), *call.batch.age.add(at)) };
        let on_device = call.world.nature.outputs_on_device;
        let chunk = if on_device { output.addr() as u64 } else { state.chunk + (row * CHUNK) as u64 };
        let words = [state.latent[slot].of(row), state.decoder.of(row), chunk, 0];
        let ranges = [(words[0], WORD, false), (words[1], WORD, true), (chunk, CHUNK, true)];
        launch(call.stream, decode_kernel, Job { words, host: std::ptr::null(), numbers: [0, 0] }, &ranges);
        if !on_device {
            // SAFETY: an output of CHUNK bytes. In a context that is lost it fails, as the launch does: the engine sees to it.
            unsafe { (fake().cuMemcpyDtoHAsync_v2)(output, chunk, CHUNK, call.stream) };
        }
        // SAFETY: as above.
        unsafe { *call.batch.output_size.add(at) = CHUNK };
        let (latent, decoder) = (state.latent[slot].here[row], state.decoder.here[row]);
        let decoder = mix(decoder, latent);
        state.decoder.here[row] = decoder;
        state.expected.insert((generation, age), content(latent, decoder));
    }
}

unsafe extern "C-unwind" fn encode(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> i32 {
    // SAFETY: the arguments of this callback.
    let call = unsafe { Call::new(user, batch, stream) };
    let mut state = call.world.state.lock().unwrap();
    for (at, row) in call.rows() {
        condition(&call, &mut state, at, row);
    }
    0
}

/// The row's conditioning is what its prompt says.
fn condition(call: &Call<'_>, state: &mut State, at: usize, row: usize) {
    let (source, said) = call.fetch(at, PROMPT, state.prompt.of(row));
    call.set(&state.cond, row, source, 7);
    state.cond.here[row] = if source == 0 { 7 } else { mix(said, 7) };
}

/// First state of a batch's rows.
pub unsafe extern "C-unwind" fn seed(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> i32 {
    // SAFETY: the arguments of this callback.
    let call = unsafe { Call::new(user, batch, stream) };
    let mut state = call.world.state.lock().unwrap();
    for (at, row) in call.rows() {
        // SAFETY: the arrays of a batch.
        let generation = unsafe { *call.batch.generation.add(at) };
        condition(&call, &mut state, at, row);
        call.set(&state.state, row, 0, generation);
        call.set(&state.decoder, row, 0, 1);
        state.state.here[row] = generation;
        state.decoder.here[row] = 1;
    }
    0
}

/// Nothing of the row is used any more.
pub unsafe extern "C-unwind" fn detach(user: *mut c_void, batch: *mut rte_batch, stream: rte_stream) -> i32 {
    // SAFETY: the arguments of this callback.
    let call = unsafe { Call::new(user, batch, stream) };
    let mut state = call.world.state.lock().unwrap();
    for (_, row) in call.rows() {
        let state = &mut *state;
        for words in [&mut state.state, &mut state.cond, &mut state.decoder] {
            call.set(words, row, 0, POISON);
            words.here[row] = POISON;
        }
    }
    0
}

/// Enqueues that a word of the device becomes `number`.
pub fn produce(stream: Handle, target: u64, number: u64) {
    let job = Job { words: [target, 0, 0, 0], host: std::ptr::null(), numbers: [number, 0] };
    launch(stream, set_kernel, job, &[(target, WORD, true)]);
}
