//! Structs of the host that begin with `struct_size`, and its C strings: read once, copied, checked.

use std::ffi::{CStr, c_char};
use std::mem::MaybeUninit;

use crate::engine::Failure;
use crate::word::Status;

/// A struct of the host that begins with its size in bytes, a `u32`, and has numbers and pointers: zero is valid.
pub(super) trait Descriptor: Copy {
    /// Its sizes in the headers of all releases, oldest first.
    const RELEASED: &'static [usize];
}

macro_rules! descriptors {
    ($($module:ident::$name:ident: [$($size:literal),+];)+) => {
        $(
            impl Descriptor for super::$module::$name {
                const RELEASED: &'static [usize] = if cfg!(target_pointer_width = "64") { &[$($size),+] } else { &[] };
            }
        )+

        /// Each descriptor with its sizes in the headers of all releases, where pointers have 64 bits: the oldest first, the
        /// present one last.
        pub const RELEASED: &[(&str, &[usize])] = &[$((stringify!($name), &[$($size),+])),+];
    };
}

// A field that is added at an end changes the last size here, or adds one behind it where that has been in a release.
descriptors! {
    model::rte_model: [144];
    options::rte_engine_options: [208];
    options::rte_backend: [96];
    options::rte_clock: [32];
    info::rte_engine_info: [320];
    info::rte_session_info: [104];
}

/// Copies a descriptor. What an older header does not have of it is zero.
///
/// # Safety
/// `descriptor` is NULL, or points to a struct whose first field is its size in bytes as a `u32`.
pub(super) unsafe fn read<T: Descriptor>(descriptor: *const T, name: &str) -> Result<T, Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe {
        check(descriptor, name)?;
        size_of_struct(descriptor)
    };
    let known = size.min(size_of::<T>());
    // SAFETY: the host says that the struct has `size` bytes.
    let tail = unsafe { std::slice::from_raw_parts(descriptor.cast::<u8>().add(known), size - known) };
    if let Some(at) = tail.iter().position(|byte| *byte != 0) {
        return Err(Failure::new(
            Status::VERSION,
            format!("{name}: byte {} is set, and this library knows {known} bytes", known + at),
        ));
    }
    let mut copy = MaybeUninit::<T>::zeroed();
    // SAFETY: both have so many bytes. All bit patterns of a descriptor are valid, zero too.
    unsafe {
        descriptor.cast::<u8>().copy_to_nonoverlapping(copy.as_mut_ptr().cast(), known);
        Ok(copy.assume_init())
    }
}

/// Whether it is one that `write` can fill.
///
/// # Safety
/// As for [`read`].
pub(super) unsafe fn check<T: Descriptor>(descriptor: *const T, name: &str) -> Result<(), Failure> {
    if descriptor.is_null() {
        return Err(Failure::new(Status::ARGUMENT, format!("{name}: NULL")));
    }
    // SAFETY: the caller's promise.
    check_size::<T>(unsafe { size_of_struct(descriptor) }, name)
}

/// Fills a descriptor that the host reads: as much of it as the host's header has. What it has room for beyond what is known
/// becomes zero.
///
/// # Safety
/// As for [`read`], and it may be written.
pub(super) unsafe fn write<T: Descriptor>(descriptor: *mut T, name: &str, value: T) -> Result<(), Failure> {
    // SAFETY: the caller's promise.
    let size = unsafe {
        check(descriptor, name)?;
        size_of_struct(descriptor)
    };
    let known = size.min(size_of::<T>());
    // SAFETY: the host says that the struct has `size` bytes; a T has at least `known`.
    unsafe {
        descriptor.cast::<u8>().copy_from_nonoverlapping((&raw const value).cast(), known);
        descriptor.cast::<u8>().add(known).write_bytes(0, size - known);
        descriptor.cast::<u32>().write_unaligned(size as u32);
    }
    Ok(())
}

unsafe fn size_of_struct<T>(descriptor: *const T) -> usize {
    // SAFETY: the first field of every descriptor.
    unsafe { descriptor.cast::<u32>().read_unaligned() as usize }
}

/// A size of a release, this one, or a larger one of a newer header.
fn check_size<T: Descriptor>(size: usize, name: &str) -> Result<(), Failure> {
    const LARGEST: usize = 1 << 16;
    let known = size_of::<T>();
    if size > LARGEST || size < known && !T::RELEASED.contains(&size) {
        return Err(Failure::new(
            Status::VERSION,
            format!("{name}.struct_size: {size}, but this library knows {known}: set it to sizeof"),
        ));
    }
    Ok(())
}

/// Copies a C string; NULL is empty.
///
/// # Safety
/// `text` is NULL or a NUL-terminated string.
pub(super) unsafe fn text(text: *const c_char) -> Box<str> {
    if text.is_null() {
        return "".into();
    }
    // SAFETY: the caller's promise.
    unsafe { CStr::from_ptr(text) }.to_string_lossy().into()
}

/// Copies an array; NULL only where `count` is 0.
///
/// # Safety
/// `array` is NULL or has `count` items.
pub(super) unsafe fn array<T: Copy>(array: *const T, count: usize, name: &str) -> Result<Vec<T>, Failure> {
    if count == 0 {
        return Ok(Vec::new());
    }
    if array.is_null() {
        return Err(Failure::new(Status::ARGUMENT, format!("{name}: NULL, but the count is {count}")));
    }
    // SAFETY: the caller's promise.
    Ok((0..count).map(|at| unsafe { array.add(at).read_unaligned() }).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A descriptor that has grown in its second release, and again since.
    #[repr(C)]
    #[derive(Clone, Copy, PartialEq, Debug)]
    struct Grown {
        struct_size: u32,
        first: u32,
        second: u64,
        third: u64,
    }

    impl Descriptor for Grown {
        const RELEASED: &'static [usize] = &[8, 16, 24];
    }

    const FULL: Grown = Grown { struct_size: 24, first: 1, second: 2, third: 3 };

    fn of_size(struct_size: u32) -> Grown {
        Grown { struct_size, ..FULL }
    }

    fn read_of(size: u32) -> Result<Grown, Failure> {
        let host = [of_size(size), FULL];
        // SAFETY: it begins with its size, and has as many bytes.
        unsafe { read(host.as_ptr(), "grown") }
    }

    #[test]
    fn what_an_older_header_does_not_have_is_zero() {
        assert_eq!(read_of(8).unwrap(), Grown { second: 0, third: 0, ..of_size(8) });
        assert_eq!(read_of(16).unwrap(), Grown { third: 0, ..of_size(16) });
        assert_eq!(read_of(24).unwrap(), FULL);
    }

    #[test]
    fn no_size_but_those_of_releases_and_newer_ones_is_known() {
        for size in [0, 4, 7, 9, 12, 15, 20, 23, 1 << 17] {
            let failure = read_of(size).unwrap_err();
            assert_eq!(failure.status, Status::VERSION);
            assert!(failure.message.starts_with(&format!("grown.struct_size: {size}, ")), "{}", failure.message);
        }
        assert_eq!(read_of(28).unwrap_err().message, "grown: byte 24 is set, and this library knows 24 bytes");
    }

    #[test]
    fn nothing_behind_an_older_struct_is_written() {
        for (size, words) in [(8_u32, 1), (16, 2), (24, 3), (32, 4)] {
            let mut host = [u64::from(size), u64::MAX, u64::MAX, u64::MAX, u64::MAX];
            // SAFETY: it begins with its size, and has as many bytes.
            unsafe { write(host.as_mut_ptr().cast(), "grown", FULL).unwrap() };
            let full = [u64::from(size) | 1 << 32, 2, 3, 0];
            assert_eq!(host[..words], full[..words]);
            assert!(host[words..].iter().all(|word| *word == u64::MAX), "{size}: {host:x?}");
        }
    }
}
