//! Arrays and strings of JavaScript as slices of Rust: the one place that casts pointers.
//!
//! Invariant: a slice lives no longer than the call it was made in, but for those of `shared`, which `memory` keeps. During a
//! call no JavaScript runs in this thread, so an array can neither be collected, moved nor detached. Within a call a range that
//! is written overlaps no other range, which `Borrows` checks; an array that the same caller passes twice is refused. Views
//! over a SharedArrayBuffer are taken as they are: words that other threads may write meanwhile are read as atomics, all
//! others are the caller's alone, by contract.
//!
//! ```text
//! Uint8Array { buffer, byteOffset, length }  ->  napi_get_typedarray_info  ->  &[u8]   (start, end, writes) into Borrows
//! ```

#![allow(unsafe_code, reason = "pointers from N-API; every use states why it holds")]

use crate::call::{Call, Fault, check};
use napi_sys as sys;
use std::borrow::Cow;
use std::cell::Cell;
use std::ptr;
use std::slice;
use std::sync::atomic::{AtomicI32, AtomicU32};

/// Room that a key from a string gets at once; longer ones take a second look.
const KEY_ROOM: usize = 4096;
/// Most that a scratch vector keeps between calls, in elements.
const KEEP: usize = 1 << 20;

/// Vectors that strings are written to, reused between calls.
#[derive(Default)]
pub struct Scratch {
    bytes: Vec<u8>,
    units: Vec<u16>,
    pub key: Vec<u8>,
}

/// A joined batch: bytes when each is a key's unit, else UTF-16 units.
pub enum Text<'s> {
    Ascii(&'s [u8]),
    Wide(&'s [u16], &'s mut Vec<u8>),
}

#[derive(Clone, Copy, Default)]
struct Range {
    start: usize,
    end: usize,
    writes: bool,
}

/// The ranges of memory borrowed during one call; at most one an argument.
pub struct Borrows<const N: usize> {
    ranges: [Cell<Range>; N],
    count: Cell<usize>,
}

impl<const N: usize> Default for Borrows<N> {
    #[inline(always)]
    fn default() -> Self {
        Self { ranges: [const { Cell::new(Range { start: 0, end: 0, writes: false }) }; N], count: Cell::new(0) }
    }
}

impl<const N: usize> Borrows<N> {
    /// Takes note of a range; false when it overlaps another one and either is written.
    #[inline(always)]
    fn take(&self, range: Range) -> bool {
        let count = self.count.get();
        for other in self.ranges.iter().take(count) {
            let other = other.get();
            if range.start < other.end && other.start < range.end && (range.writes || other.writes) {
                return false;
            }
        }
        match self.ranges.get(count) {
            Some(slot) => slot.set(range),
            None => return false,
        }
        self.count.set(count + 1);
        true
    }
}

impl<'a, const N: usize> Call<'a, N> {
    /// A `Uint8Array`, to read.
    #[inline(always)]
    pub fn bytes(&self, index: usize, name: &str) -> Result<&'a [u8], Fault> {
        let (pointer, length) = self.view(index, name, sys::TypedarrayType::uint8_array, false)?;
        // SAFETY: `view` found `length` bytes there, which stay for this call and are written through no other slice.
        Ok(unsafe { slice::from_raw_parts(pointer, length) })
    }

    /// A `Uint8Array`, to write.
    #[inline(always)]
    pub fn bytes_mut(&self, index: usize, name: &str) -> Result<&'a mut [u8], Fault> {
        let (pointer, length) = self.view(index, name, sys::TypedarrayType::uint8_array, true)?;
        // SAFETY: `view` found `length` bytes there, which stay for this call and are reached through no other slice.
        Ok(unsafe { slice::from_raw_parts_mut(pointer, length) })
    }

    /// An `Int32Array`, to read.
    #[inline(always)]
    pub fn words(&self, index: usize, name: &str) -> Result<&'a [i32], Fault> {
        let (pointer, length) = self.view(index, name, sys::TypedarrayType::int32_array, false)?;
        // SAFETY: `view` found `length` aligned words there, which stay for this call and are written through no other slice.
        Ok(unsafe { slice::from_raw_parts(pointer, length) })
    }

    /// An `Int32Array`, to write.
    #[inline(always)]
    pub fn words_mut(&self, index: usize, name: &str) -> Result<&'a mut [i32], Fault> {
        let (pointer, length) = self.view(index, name, sys::TypedarrayType::int32_array, true)?;
        // SAFETY: `view` found `length` aligned words there, which stay for this call and are reached through no other slice.
        Ok(unsafe { slice::from_raw_parts_mut(pointer, length) })
    }

    /// An `Int32Array` that other threads may write meanwhile.
    #[inline(always)]
    pub fn atomics(&self, index: usize, name: &str) -> Result<&'a [AtomicI32], Fault> {
        let (pointer, length) = self.view(index, name, sys::TypedarrayType::int32_array, false)?;
        // SAFETY: `view` found `length` aligned words there, which stay for this call; an `AtomicI32` has the layout of an
        // `i32`, and this thread writes them through no slice.
        Ok(unsafe { slice::from_raw_parts(pointer, length) })
    }

    /// An `Int32Array` over shared memory, as words that outlive the call, and the array itself, which keeps them.
    ///
    /// # Safety
    /// The words must not be used once nothing refers to the array any more. Memory that is not shared is refused, since its
    /// owner may detach it at any time.
    pub unsafe fn shared(&self, index: usize, name: &str) -> Result<(&'static [AtomicU32], sys::napi_value), Fault> {
        let (pointer, length) = self.view(index, name, sys::TypedarrayType::int32_array, false)?;
        let (env, array) = (self.env().raw(), self.argument(index));
        let (mut buffer, mut detachable) = (ptr::null_mut(), false);
        // SAFETY: a live environment, a typed array (`view` took it), and places for the results; nobody wants the others.
        unsafe {
            let (kind, length, data, offset) = (ptr::null_mut(), ptr::null_mut(), ptr::null_mut(), ptr::null_mut());
            check(sys::napi_get_typedarray_info(env, array, kind, length, data, &mut buffer, offset))?;
            check(sys::napi_is_arraybuffer(env, buffer, &mut detachable))?;
        }
        if detachable {
            return Err(Fault::Type(format!("{name} must lie in a SharedArrayBuffer")));
        }
        // SAFETY: `view` found `length` aligned words there; shared memory stays where it is while an array refers to it, as the
        // caller sees to; an `AtomicU32` has the layout of an `i32`.
        Ok((unsafe { slice::from_raw_parts(pointer, length) }, array))
    }

    /// Pointer and length, in elements, of a typed array, borrowed for this call. `T` must be as wide as `kind` says.
    #[inline(always)]
    fn view<T>(
        &self,
        index: usize,
        name: &str,
        kind: sys::napi_typedarray_type,
        writes: bool,
    ) -> Result<(*mut T, usize), Fault> {
        let (mut found, mut length, mut data) = (0, 0, ptr::null_mut());
        // SAFETY: a live environment, one of this call's arguments, and places for the results.
        let status = unsafe {
            sys::napi_get_typedarray_info(
                self.env().raw(),
                self.argument(index),
                &mut found,
                &mut length,
                &mut data,
                ptr::null_mut(),
                ptr::null_mut(),
            )
        };
        if status != sys::Status::napi_ok || found != kind {
            let wanted = if kind == sys::TypedarrayType::uint8_array { "a Uint8Array" } else { "an Int32Array" };
            return Err(Fault::Type(format!("{name} must be {wanted}")));
        }
        let pointer = data.cast::<T>();
        if length == 0 || pointer.is_null() {
            return Ok((ptr::dangling_mut(), 0));
        }
        if !pointer.is_aligned() {
            return Err(Fault::Range(format!("{name} is not aligned")));
        }
        let start = pointer as usize;
        if !self.borrows.take(Range { start, end: start + length * size_of::<T>(), writes }) {
            return Err(Fault::Range(format!("{name} overlaps another argument")));
        }
        Ok((pointer, length))
    }

    /// The bytes of a key: a string's UTF-8, lone surrogates as U+FFFD, or a `Uint8Array`'s own.
    #[inline(always)]
    pub fn key<'s>(&'s self, index: usize, scratch: &'s mut Scratch) -> Result<Cow<'s, [u8]>, Fault> {
        let bytes = &mut scratch.bytes;
        bytes.reserve(KEY_ROOM);
        match self.write_utf8(index, bytes) {
            // A code point has at most four bytes, so one that did not fit leaves at most three free.
            Ok(()) if bytes.len() + 4 < bytes.capacity() => Ok(Cow::Borrowed(bytes)),
            Ok(()) => {
                let mut whole = Vec::with_capacity(self.utf8_length(index)? + 1);
                self.write_utf8(index, &mut whole)?;
                Ok(Cow::Owned(whole))
            }
            Err(Fault::Napi(sys::Status::napi_string_expected)) => match self.bytes(index, "key") {
                Err(Fault::Type(_)) => Err(Fault::Type("key must be a string or a Uint8Array".into())),
                view => view.map(Cow::Borrowed),
            },
            Err(fault) => Err(fault),
        }
    }

    /// A string of `units` UTF-16 units.
    pub fn text<'s>(
        &self,
        index: usize,
        name: &str,
        units: usize,
        scratch: &'s mut Scratch,
    ) -> Result<Text<'s>, Fault> {
        let env = self.env().raw();
        let mut length = 0;
        // SAFETY: a live environment, one of this call's arguments; without a buffer only the length is told.
        let status =
            unsafe { sys::napi_get_value_string_utf16(env, self.argument(index), ptr::null_mut(), 0, &mut length) };
        match status {
            sys::Status::napi_string_expected => return Err(Fault::Type(format!("{name} must be a string"))),
            status => check(status)?,
        }
        if length != units {
            return Err(Fault::Range(format!("{name} has {length} units, its lengths add up to {units}")));
        }
        // With room for three bytes a unit the engine need not measure the string first.
        scratch.bytes.clear();
        scratch.bytes.reserve(units * 3 + 4);
        self.write_utf8(index, &mut scratch.bytes)?;
        if scratch.bytes.len() == units {
            return Ok(Text::Ascii(&scratch.bytes));
        }
        let wide = &mut scratch.units;
        wide.clear();
        wide.reserve(units + 1);
        let mut written = 0;
        // SAFETY: as above; the buffer has room for its capacity, and what is written is initialised.
        unsafe {
            check(sys::napi_get_value_string_utf16(
                env,
                self.argument(index),
                wide.as_mut_ptr(),
                wide.capacity(),
                &mut written,
            ))?;
            wide.set_len(written);
        }
        Ok(Text::Wide(wide, &mut scratch.key))
    }

    /// Writes a string's UTF-8 into `bytes`, as much as its capacity holds.
    #[inline(always)]
    fn write_utf8(&self, index: usize, bytes: &mut Vec<u8>) -> Result<(), Fault> {
        bytes.clear();
        let mut written = 0;
        // SAFETY: a live environment, one of this call's arguments; the buffer has room for its capacity, a NUL included,
        // and what is written is initialised.
        unsafe {
            check(sys::napi_get_value_string_utf8(
                self.env().raw(),
                self.argument(index),
                bytes.as_mut_ptr().cast(),
                bytes.capacity(),
                &mut written,
            ))?;
            bytes.set_len(written);
        }
        Ok(())
    }

    fn utf8_length(&self, index: usize) -> Result<usize, Fault> {
        let mut length = 0;
        // SAFETY: a live environment, one of this call's arguments; without a buffer only the length is told.
        check(unsafe {
            sys::napi_get_value_string_utf8(self.env().raw(), self.argument(index), ptr::null_mut(), 0, &mut length)
        })?;
        Ok(length)
    }
}

impl Scratch {
    /// Lets go of memory that only an unusually large batch needed.
    pub fn trim(&mut self) {
        if self.bytes.capacity() > KEEP {
            self.bytes = Vec::new();
        }
        if self.units.capacity() > KEEP {
            self.units = Vec::new();
        }
        if self.key.capacity() > KEEP {
            self.key = Vec::new();
        }
    }
}
