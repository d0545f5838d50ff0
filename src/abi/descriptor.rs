//! Structs of the host that begin with `struct_size`, and its C strings: read once, copied, checked.

use std::ffi::{CStr, c_char};

use crate::engine::Failure;
use crate::word::Status;

/// Copies a descriptor. `bytes`: what this library knows of it.
///
/// # Safety
/// `descriptor` is NULL, or points to a struct whose first field is its size in bytes as a `u32`.
pub(super) unsafe fn read<T: Copy>(descriptor: *const T, name: &str) -> Result<T, Failure> {
    if descriptor.is_null() {
        return Err(Failure::new(Status::ARGUMENT, format!("{name}: NULL")));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_struct(descriptor) };
    check_size::<T>(size, name)?;
    let tail = size - size_of::<T>();
    // SAFETY: the host says that the struct has `size` bytes.
    let tail = unsafe { std::slice::from_raw_parts(descriptor.cast::<u8>().add(size_of::<T>()), tail) };
    if let Some(at) = tail.iter().position(|byte| *byte != 0) {
        let at = size_of::<T>() + at;
        return Err(Failure::new(
            Status::VERSION,
            format!("{name}: byte {at} is set, and this library knows {} bytes", size_of::<T>()),
        ));
    }
    // SAFETY: it has at least the bytes of a T, all of whose bit patterns are valid (numbers, pointers).
    Ok(unsafe { descriptor.read_unaligned() })
}

/// Fills a descriptor that the host reads: what it has room for beyond what is known becomes zero.
///
/// # Safety
/// As for [`read`], and it may be written.
pub(super) unsafe fn write<T: Copy>(descriptor: *mut T, name: &str, value: T) -> Result<(), Failure> {
    if descriptor.is_null() {
        return Err(Failure::new(Status::ARGUMENT, format!("{name}: NULL")));
    }
    // SAFETY: the caller's promise.
    let size = unsafe { size_of_struct(descriptor) };
    check_size::<T>(size, name)?;
    // SAFETY: the host says that the struct has `size` bytes; a T is not longer.
    unsafe {
        descriptor.write_unaligned(value);
        descriptor.cast::<u8>().add(size_of::<T>()).write_bytes(0, size - size_of::<T>());
        descriptor.cast::<u32>().write_unaligned(size as u32);
    }
    Ok(())
}

unsafe fn size_of_struct<T>(descriptor: *const T) -> usize {
    // SAFETY: the first field of every descriptor.
    unsafe { descriptor.cast::<u32>().read_unaligned() as usize }
}

fn check_size<T>(size: usize, name: &str) -> Result<(), Failure> {
    const LARGEST: usize = 1 << 16;
    let known = size_of::<T>();
    if size < known || size > LARGEST {
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
