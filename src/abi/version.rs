//! Which library this is.

use std::ffi::{CStr, c_char};

/// The number in the SONAME (`librte.so.0`): changes only with a break. Compare it with `rte_abi_version()`.
pub const RTE_ABI_VERSION: u32 = 0;

/// The ABI version of the library that is loaded. `rte_abi_version() != RTE_ABI_VERSION`: the header and the library do
/// not belong together.
///
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub extern "C" fn rte_abi_version() -> u32 {
    RTE_ABI_VERSION
}

const VERSION: &CStr = match CStr::from_bytes_with_nul(
    concat!(env!("CARGO_PKG_VERSION"), " (inline, threads, host, cuda)\0").as_bytes(),
) {
    Ok(text) => text,
    Err(_) => c"",
};

/// The release and what this build can do, as static text: `"0.1.0 (inline, threads, host, cuda)"`. Never NULL; do not free.
///
/// Threads: any. Callbacks: may be called in any.
#[unsafe(no_mangle)]
pub extern "C" fn rte_version_string() -> *const c_char {
    VERSION.as_ptr()
}
