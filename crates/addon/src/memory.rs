//! What outlives a call: shared memory that a session works on, and the hook that ends the session with its thread.
//!
//! Invariant: the memory is let go last. A [`Held`] owns its value and a reference to the array that the value's words lie in;
//! the value goes first, whether it is ended by a call or by the environment's end, and no call finds it afterwards. The hook
//! runs before the environment drops its references, so a thread of the value's is joined while its memory is still there.
//!
//! ```text
//! hold(words) ── reference ──> Int32Array ──> SharedArrayBuffer
//!      └ value ── &'static [AtomicU32] ───────────┘
//! ```

#![allow(unsafe_code, reason = "references and hooks of N-API; every use states why it holds")]

use crate::call::{Call, Env, Fault, check};
use keylane_core::sync::AtomicU32;
use napi_sys as sys;
use std::cell::{Cell, RefCell};
use std::ffi::c_void;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;

/// Where a session's shared memory lies.
pub struct Bounds(std::ops::Range<usize>);

impl Bounds {
    /// Those of `words`.
    pub fn of(words: &[AtomicU32]) -> Self {
        let bounds = words.as_ptr_range();
        Self(bounds.start as usize..bounds.end as usize)
    }

    /// Refuses a slice that lies in there: those words are atomics and nothing else.
    #[inline(always)]
    pub fn apart<T>(&self, slice: &[T], name: &str) -> Result<(), Fault> {
        let bounds = slice.as_ptr_range();
        if (bounds.start as usize) < self.0.end && self.0.start < bounds.end as usize {
            return Err(Fault::Range(format!("{name} lies in the session's own memory")));
        }
        Ok(())
    }
}

/// A value over shared memory, until it or its environment ends.
pub struct Held<T> {
    value: RefCell<Option<T>>,
    reference: Cell<sys::napi_ref>,
    hook: Cell<*mut c_void>,
    env: Env,
}

impl<T> Held<T> {
    /// Makes a value over the words of the `Int32Array` that is argument `index`, by `make`.
    pub fn new<const N: usize>(
        call: &Call<'_, N>,
        index: usize,
        name: &str,
        make: impl FnOnce(&'static [AtomicU32]) -> Result<T, Fault>,
    ) -> Result<Rc<Self>, Fault> {
        // SAFETY: the reference below keeps the array until the value is gone; `make` gives its words to nothing but the value.
        let (words, array) = unsafe { call.shared(index, name) }?;
        let env = call.env();
        let mut reference = ptr::null_mut();
        // SAFETY: a live environment, a value of this call, and a place for the result.
        check(unsafe { sys::napi_create_reference(env.raw(), array, 1, &mut reference) })?;
        let held = Rc::new(Self {
            value: RefCell::new(None),
            reference: Cell::new(reference),
            hook: Cell::new(ptr::null_mut()),
            env,
        });
        held.value.replace(Some(make(words)?));
        let data = Rc::into_raw(Rc::clone(&held)).cast_mut().cast::<c_void>();
        // SAFETY: a live environment; `data` is what `at_exit` takes, and is taken once, there or in `end`.
        let status = unsafe { sys::napi_add_env_cleanup_hook(env.raw(), Some(at_exit::<T>), data) };
        if status != sys::Status::napi_ok {
            // SAFETY: from `into_raw` above; no hook was added.
            drop(unsafe { Rc::from_raw(data.cast::<Self>().cast_const()) });
            return Err(Fault::Napi(status));
        }
        held.hook.set(data);
        Ok(held)
    }

    /// Runs `body` on the value. Fails once it has ended.
    #[inline(always)]
    pub fn with<R>(&self, body: impl FnOnce(&T) -> Result<R, Fault>) -> Result<R, Fault> {
        match &*self.value.borrow() {
            Some(value) => body(value),
            None => Err(Fault::Type("the session has ended".into())),
        }
    }

    /// Ends the value, then lets the memory go. Again: nothing.
    pub fn end(&self) {
        drop(self.value.take());
        let hook = self.hook.replace(ptr::null_mut());
        if !hook.is_null() {
            // SAFETY: the environment is live, since it runs this call; the hook was added with this data and has not run, for
            // it clears `hook`; its count of the `Rc` is given back once, here.
            unsafe {
                sys::napi_remove_env_cleanup_hook(self.env.raw(), Some(at_exit::<T>), hook);
                drop(Rc::from_raw(hook.cast::<Self>().cast_const()));
            }
        }
        self.forget_memory();
    }

    fn forget_memory(&self) {
        let reference = self.reference.replace(ptr::null_mut());
        if !reference.is_null() {
            // SAFETY: made by `new` in this environment, and deleted once.
            unsafe { sys::napi_delete_reference(self.env.raw(), reference) };
        }
    }
}

/// When it could not be made after all. Else it is ended long before: by `end`, or by the hook, which owns a count of it.
impl<T> Drop for Held<T> {
    fn drop(&mut self) {
        drop(self.value.take());
        self.forget_memory();
    }
}

/// Runs as the environment ends, in its thread, before its references go; these it drops by itself.
unsafe extern "C" fn at_exit<T>(data: *mut c_void) {
    // SAFETY: `new` registered this with a count of the `Rc`, which is taken once: a hook that was removed does not run.
    let held = unsafe { Rc::from_raw(data.cast::<Held<T>>().cast_const()) };
    held.hook.set(ptr::null_mut());
    held.reference.set(ptr::null_mut());
    // A panic must not cross into Node.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(held.value.take())));
}
