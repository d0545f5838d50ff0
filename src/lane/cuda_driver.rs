//! The CUDA driver, looked for when an engine first asks for it: no CUDA is needed to build, to link or to run this
//! library. It finds what the driver has by name, all of it before the first call, and says exactly what it did not find.
//!
//! Results are plain numbers here: a driver newer than this library may answer what no list of ours has.

use std::error::Error;
use std::ffi::{CStr, c_char, c_void};
use std::sync::OnceLock;

use libloading::Library;

/// CUresult of success.
const SUCCESS: i32 = 0;
const OUT_OF_MEMORY: i32 = 2;
const NOT_READY: i32 = 600;

/// What a driver is called where it is installed. (Not `libcuda.so`: that is what linkers are shown.)
const NAME: &str = if cfg!(windows) { "nvcuda.dll" } else { "libcuda.so.1" };

/// A context, stream or event, as the driver names it.
pub type Handle = *mut c_void;

/// A call that the driver did not do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Refusal {
    /// Its name.
    pub call: &'static str,
    /// What it returned.
    pub code: i32,
}

impl Refusal {
    /// Whether it was memory that lacked.
    pub fn is_memory(self) -> bool {
        self.code == OUT_OF_MEMORY
    }

    /// Whether it is no failure, but "not yet".
    pub fn is_not_ready(self) -> bool {
        self.code == NOT_READY
    }
}

fn done(call: &'static str, code: i32) -> Result<(), Refusal> {
    if code == SUCCESS { Ok(()) } else { Err(Refusal { call, code }) }
}

/// Declares the driver's functions: one pointer each, looked up by name, and one method that gives its answer a name.
macro_rules! driver {
    ($($method:ident = $symbol:ident($($argument:ident: $type:ty),*);)*) => {
        /// See the module's comment.
        pub struct Driver {
            /// Never unloaded: the functions are in it.
            _library: Library,
            $($method: unsafe extern "C" fn($($type),*) -> i32,)*
        }

        /// Their names, in this order: a driver that lacks one is refused.
        pub const CUDA_FUNCTIONS: &[&str] = &[$(stringify!($symbol)),*];

        impl Driver {
            fn of(library: Library) -> Result<Driver, String> {
                Ok(Driver {
                    $($method: {
                        // SAFETY: the driver declares it with these arguments, and has not changed what a name means.
                        let symbol = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *symbol.map_err(|_| format!("the CUDA driver has no {}: it is too old", stringify!($symbol)))?
                    },)*
                    _library: library,
                })
            }

            $(
                /// # Safety
                /// As the driver's own documentation of the call says.
                pub unsafe fn $method(&self, $($argument: $type),*) -> Result<(), Refusal> {
                    // SAFETY: the caller's promise.
                    done(stringify!($symbol), unsafe { (self.$method)($($argument),*) })
                }
            )*
        }
    };
}

driver! {
    init = cuInit(flags: u32);
    error_name = cuGetErrorName(code: i32, out: *mut *const c_char);
    error_text = cuGetErrorString(code: i32, out: *mut *const c_char);
    device_count = cuDeviceGetCount(out: *mut i32);
    device_get = cuDeviceGet(out: *mut i32, ordinal: i32);
    device_uuid = cuDeviceGetUuid_v2(out: *mut [u8; 16], device: i32);
    primary_retain = cuDevicePrimaryCtxRetain(out: *mut Handle, device: i32);
    primary_release = cuDevicePrimaryCtxRelease_v2(device: i32);
    context_current = cuCtxGetCurrent(out: *mut Handle);
    context_push = cuCtxPushCurrent_v2(context: Handle);
    context_pop = cuCtxPopCurrent_v2(out: *mut Handle);
    priority_range = cuCtxGetStreamPriorityRange(least: *mut i32, greatest: *mut i32);
    stream_new = cuStreamCreateWithPriority(out: *mut Handle, flags: u32, priority: i32);
    stream_free = cuStreamDestroy_v2(stream: Handle);
    stream_wait = cuStreamWaitEvent(stream: Handle, event: Handle, flags: u32);
    stream_sync = cuStreamSynchronize(stream: Handle);
    stream_context = cuStreamGetCtx(stream: Handle, out: *mut Handle);
    stream_capturing = cuStreamIsCapturing(stream: Handle, out: *mut i32);
    event_new = cuEventCreate(out: *mut Handle, flags: u32);
    event_free = cuEventDestroy_v2(event: Handle);
    event_record = cuEventRecord(event: Handle, stream: Handle);
    event_query = cuEventQuery(event: Handle);
    event_sync = cuEventSynchronize(event: Handle);
    host_alloc = cuMemHostAlloc(out: *mut Handle, bytes: usize, flags: u32);
    host_free = cuMemFreeHost(address: Handle);
    device_alloc = cuMemAlloc_v2(out: *mut u64, bytes: usize);
    device_free = cuMemFree_v2(address: u64);
}

impl Driver {
    /// The process's driver, initialised; else why there is none.
    pub fn get() -> Result<&'static Driver, &'static str> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        DRIVER.get_or_init(Driver::load).as_ref().map_err(String::as_str)
    }

    fn load() -> Result<Driver, String> {
        let no_driver = |error: libloading::Error| {
            let words = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
            format!("no CUDA driver: {words}")
        };
        // SAFETY: the driver's library may be loaded by any process; its constructors ask for nothing.
        let library = unsafe { Library::new(NAME) }.map_err(no_driver)?;
        let driver = Driver::of(library).map_err(|what| format!("{NAME}: {what}"))?;
        // SAFETY: before all other calls.
        unsafe { driver.init(0) }.map_err(|refusal| driver.words(refusal))?;
        Ok(driver)
    }

    /// A refusal, in the driver's words.
    pub fn words(&self, Refusal { call, code }: Refusal) -> String {
        // Static text, or NULL where it does not know the code.
        let word = |text: *const c_char, asked: Result<(), Refusal>| {
            // SAFETY: as the driver documents it.
            (asked.is_ok() && !text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy())
        };
        let (mut name, mut text) = (std::ptr::null(), std::ptr::null());
        // SAFETY: places for pointers.
        let asked = unsafe { [self.error_name(code, &mut name), self.error_text(code, &mut text)] };
        let name = word(name, asked[0]).unwrap_or("unknown error".into());
        let text = word(text, asked[1]).unwrap_or_default();
        format!("{call}: {name} ({code}){}{text}", if text.is_empty() { "" } else { ": " })
    }
}
