//! The driver of the tests: built of `tests/cuda`, found by the library through LD_LIBRARY_PATH, told by its own functions.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use crate::support::cuda;

/// A handle of the driver.
pub type Handle = *mut c_void;

/// What an operation reads or writes: `fake_cuda_range`.
#[repr(C)]
pub struct Range {
    pub memory: u64,
    pub size: usize,
    pub is_written: c_int,
}

/// What is alive: `fake_cuda_census`.
#[repr(C)]
#[derive(Clone, Copy, Default, PartialEq, Eq, Debug)]
pub struct Census {
    pub streams: u64,
    pub events: u64,
    pub contexts: u64,
    pub device_blocks: u64,
    pub pinned_blocks: u64,
    pub registered_blocks: u64,
    pub device_bytes: u64,
    pub pinned_bytes: u64,
    pub retained: u64,
}

/// A kernel or a host function.
pub type Kernel = unsafe extern "C" fn(*mut c_void);

macro_rules! functions {
    ($($name:ident($($argument:ident: $type:ty),*) $(-> $result:ty)?;)*) => {
        /// See the module's comment.
        #[allow(non_snake_case, reason = "as the driver names them")]
        pub struct Fake {
            $(pub $name: unsafe extern "C" fn($($type),*) $(-> $result)?,)*
        }

        impl Fake {
            fn load() -> Fake {
                let name = |name: &'static str| CStr::from_bytes_with_nul(name.as_bytes()).unwrap();
                Fake {
                    // SAFETY: declared so in `cuda/driver.h` and `cuda/fake_cuda.h`.
                    $($name: unsafe { cuda::function(name(concat!(stringify!($name), "\0"))) },)*
                }
            }
        }
    };
}

functions! {
    cuInit(flags: u32) -> c_int;
    cuDevicePrimaryCtxRetain(out: *mut Handle, device: c_int) -> c_int;
    cuDevicePrimaryCtxRelease_v2(device: c_int) -> c_int;
    cuDeviceGetUuid_v2(out: *mut [u8; 16], device: c_int) -> c_int;
    cuCtxCreate_v2(out: *mut Handle, flags: u32, device: c_int) -> c_int;
    cuCtxDestroy_v2(context: Handle) -> c_int;
    cuCtxGetCurrent(out: *mut Handle) -> c_int;
    cuCtxPushCurrent_v2(context: Handle) -> c_int;
    cuCtxPopCurrent_v2(out: *mut Handle) -> c_int;
    cuStreamCreateWithPriority(out: *mut Handle, flags: u32, priority: c_int) -> c_int;
    cuStreamDestroy_v2(stream: Handle) -> c_int;
    cuStreamSynchronize(stream: Handle) -> c_int;
    cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32) -> c_int;
    cuStreamBeginCapture_v2(stream: Handle, mode: c_int) -> c_int;
    cuStreamEndCapture(stream: Handle, out: *mut Handle) -> c_int;
    cuGraphDestroy(graph: Handle) -> c_int;
    cuEventCreate(out: *mut Handle, flags: u32) -> c_int;
    cuEventDestroy_v2(event: Handle) -> c_int;
    cuEventRecord(event: Handle, stream: Handle) -> c_int;
    cuEventQuery(event: Handle) -> c_int;
    cuMemAlloc_v2(out: *mut u64, size: usize) -> c_int;
    cuMemFree_v2(address: u64) -> c_int;
    cuMemHostAlloc(out: *mut Handle, size: usize, flags: u32) -> c_int;
    cuMemFreeHost(address: Handle) -> c_int;
    cuMemcpyHtoDAsync_v2(target: u64, source: *const c_void, size: usize, stream: Handle) -> c_int;
    cuMemcpyDtoHAsync_v2(target: *mut c_void, source: u64, size: usize, stream: Handle) -> c_int;
    fake_cuda_launch(stream: Handle, kernel: Kernel, user: *mut c_void, ranges: *const Range, count: c_int) -> c_int;
    fake_cuda_content(memory: u64, size: usize) -> *mut c_void;
    fake_cuda_peek(target: *mut c_void, memory: u64, size: usize) -> c_int;
    fake_cuda_violations(rule: *const c_char) -> u64;
    fake_cuda_last_violation() -> *const c_char;
    fake_cuda_fail(call: *const c_char, nth: u64, code: c_int, flags: u32) -> c_int;
    fake_cuda_fail_no_more();
    fake_cuda_lose(context: Handle, code: c_int);
    fake_cuda_calls(call: *const c_char) -> u64;
    fake_cuda_delay(microseconds: u64, seed: u64);
    fake_cuda_hold(stream: Handle);
    fake_cuda_open(stream: Handle);
    fake_cuda_count(out: *mut Census);
    fake_cuda_expect_current(context: Handle);
    fake_cuda_context_depth() -> c_int;
    fake_cuda_stream_info(stream: Handle, out: *mut StreamInfo) -> c_int;
    fake_cuda_one_host(is_on: c_int);
    fake_cuda_watch(is_on: c_int);
    fake_cuda_take_violations(rule: *const c_char) -> u64;
    fake_cuda_mode(mode: *const c_char);
    fake_cuda_op() -> u64;
    fake_cuda_saw(op: u64);
    fake_cuda_expect_seen(memory: *const c_void, size: usize);
}

/// `fake_cuda_stream`.
#[repr(C)]
#[derive(Clone, Copy, Default, Debug)]
pub struct StreamInfo {
    pub number: u64,
    pub device: c_int,
    pub flags: u32,
    pub priority: c_int,
    pub is_alive: c_int,
    pub enqueued: u64,
    pub ended: u64,
}

/// The driver that this process has found.
pub fn fake() -> &'static Fake {
    static FAKE: OnceLock<Fake> = OnceLock::new();
    FAKE.get_or_init(|| {
        let fake = Fake::load();
        // SAFETY: before all other calls.
        assert_eq!(unsafe { (fake.cuInit)(0) }, 0);
        fake
    })
}

/// A call of the driver that fails while the library is at work, and not while its host is.
pub struct Failing<'a> {
    pub call: &'a str,
    pub code: i32,
    /// It does what it is called for all the same.
    pub is_done: bool,
    /// How many calls of it from now on, the failing one included; 0: it has failed.
    left: std::cell::Cell<u64>,
}

impl<'a> Failing<'a> {
    /// The nth call, from 1.
    pub fn new(call: &'a str, nth: u64, code: i32, is_done: bool) -> Failing<'a> {
        Failing { call, code, is_done, left: std::cell::Cell::new(nth) }
    }

    /// Runs what belongs to the library.
    pub fn during<T>(&self, library: impl FnOnce() -> T) -> T {
        if self.left.get() == 0 {
            return library();
        }
        let before = fake().calls(self.call);
        fake().fail(self.call, self.left.get(), self.code, self.is_done);
        let result = library();
        fake().fail_no_more();
        self.left.set(self.left.get().saturating_sub(fake().calls(self.call) - before));
        result
    }
}

/// Calls a function of it that must succeed, or answers what it says.
#[macro_export]
macro_rules! cuda {
    ($name:ident($($argument:expr),* $(,)?)) => {{
        let function = $crate::cuda_host::fake::fake().$name;
        #[allow(clippy::macro_metavars_in_unsafe, reason = "arguments are handles and places")]
        // SAFETY: as the function's declaration says.
        let code = unsafe { function($($argument),*) };
        assert_eq!(code, 0, stringify!($name));
    }};
}

impl Fake {
    /// The primary context of a device, retained.
    pub fn context(&self, device: i32) -> Handle {
        let mut context = std::ptr::null_mut();
        // SAFETY: a place for a handle.
        assert_eq!(unsafe { (self.cuDevicePrimaryCtxRetain)(&mut context, device) }, 0);
        context
    }

    /// Gives up a hold on it.
    pub fn let_go(&self, device: i32) {
        // SAFETY: retained before.
        assert_eq!(unsafe { (self.cuDevicePrimaryCtxRelease_v2)(device) }, 0);
    }

    /// What is known of a stream.
    pub fn stream(&self, stream: Handle) -> StreamInfo {
        let mut info = StreamInfo::default();
        // SAFETY: a place for it.
        assert_eq!(unsafe { (self.fake_cuda_stream_info)(stream, &mut info) }, 1);
        info
    }

    /// What is alive.
    pub fn census(&self) -> Census {
        let mut census = Census::default();
        // SAFETY: a place for it.
        unsafe { (self.fake_cuda_count)(&mut census) };
        census
    }

    /// How often a function was called.
    pub fn calls(&self, name: &str) -> u64 {
        let name = CString::new(name).unwrap();
        // SAFETY: a C string.
        unsafe { (self.fake_cuda_calls)(name.as_ptr()) }
    }

    /// The nth call from now on of `name` fails.
    pub fn fail(&self, name: &str, nth: u64, code: i32, is_done: bool) {
        let name = CString::new(name).unwrap();
        // FAKE_CUDA_DONE: what it is called for is done all the same.
        let flags = if is_done { 4 } else { 0 };
        // SAFETY: a C string.
        assert_eq!(unsafe { (self.fake_cuda_fail)(name.as_ptr(), nth, code, flags) }, 1, "{name:?} is a function");
    }

    /// None fails any more.
    pub fn fail_no_more(&self) {
        // SAFETY: no arguments.
        unsafe { (self.fake_cuda_fail_no_more)() };
    }

    /// No rule was broken.
    #[track_caller]
    pub fn expect_rules_kept(&self) {
        // SAFETY: NULL: any rule; static text.
        unsafe {
            if (self.fake_cuda_violations)(std::ptr::null()) > 0 {
                panic!("{}", CStr::from_ptr((self.fake_cuda_last_violation)()).to_string_lossy());
            }
        }
    }

    /// How often a rule was broken; that is forgotten.
    pub fn take_violations(&self, rule: &str) -> u64 {
        let rule = CString::new(rule).unwrap();
        // SAFETY: a C string.
        unsafe { (self.fake_cuda_take_violations)(rule.as_ptr()) }
    }

    /// Whatever rules were broken, that is forgotten.
    pub fn forget_violations(&self) {
        // SAFETY: NULL: any rule.
        unsafe { (self.fake_cuda_take_violations)(std::ptr::null()) };
    }

    /// Broken rules are only counted from now on.
    pub fn count_violations(&self) {
        // SAFETY: a C string.
        unsafe { (self.fake_cuda_mode)(c"count".as_ptr()) };
    }

    /// Operations take a random time of up to so many microseconds.
    pub fn delay(&self, microseconds: u64, seed: u64) {
        // SAFETY: numbers.
        unsafe { (self.fake_cuda_delay)(microseconds, seed) };
    }
}

/// Runs `body` of the test `name` of this program in a process of its own that finds the driver, with these settings.
#[track_caller]
pub fn under(name: &str, settings: &[(&str, &str)], body: impl FnOnce()) {
    if crate::support::cuda::is_inside(name, settings) {
        body();
    }
}
