//! Entering from JavaScript and leaving again: arguments, results, exceptions, and functions bound to Rust data.
//!
//! Invariant: a function's data lives as long as the function object, which owns one count of its `Rc`; data and type are
//! tied together when the function is bound, so a call finds what its body expects whatever `this` is.
//!
//! ```text
//! f(a, b)  ->  enter::<2, T>  ->  catch_unwind  ->  body(&Call { args: [a, b] }, &T)  ->  value
//!                                      |                      |
//!                                 Error: panicked      TypeError, RangeError
//! ```

#![allow(unsafe_code, reason = "raw N-API; every use states why it holds")]

use crate::view::Borrows;
use napi_sys as sys;
use std::any::Any;
use std::ffi::{CString, c_void};
use std::marker::PhantomData;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::rc::Rc;

/// Why a call fails; becomes an exception.
#[derive(Debug)]
pub enum Fault {
    /// `TypeError`
    Type(String),
    /// `RangeError`
    Range(String),
    /// N-API refused with this status.
    Napi(sys::napi_status),
}

/// A JavaScript value made or received during the current call.
#[derive(Clone, Copy)]
pub struct Returned(sys::napi_value);

/// An environment, valid while a call or the registration runs.
#[derive(Clone, Copy)]
pub struct Env(sys::napi_env);

/// One call: its environment and its first `N` arguments, missing ones undefined.
pub struct Call<'a, const N: usize> {
    env: Env,
    args: [sys::napi_value; N],
    pub(crate) borrows: Borrows<N>,
    scope: PhantomData<&'a ()>,
}

/// A function to be bound to data of type `T`. Made by `function!`.
pub struct Function<T> {
    name: &'static str,
    callback: sys::napi_callback,
    data: PhantomData<fn(&T)>,
}

impl<T> Function<T> {
    /// # Safety
    /// `callback` must pass its arguments to [`enter`] together with `body`.
    pub unsafe fn new<const N: usize>(
        name: &'static str,
        callback: unsafe extern "C" fn(sys::napi_env, sys::napi_callback_info) -> sys::napi_value,
        _body: fn(&Call<'_, N>, &T) -> Result<Returned, Fault>,
    ) -> Self {
        Self { name, callback: Some(callback), data: PhantomData }
    }
}

/// A JavaScript function of this name that runs `body`, a `fn(&Call<N>, &T) -> Result<Returned, Fault>`.
macro_rules! function {
    ($name:literal, $body:path) => {{
        #[allow(unsafe_code, reason = "the callback N-API wants")]
        let function = {
            unsafe extern "C" fn enter(
                env: napi_sys::napi_env,
                info: napi_sys::napi_callback_info,
            ) -> napi_sys::napi_value {
                // SAFETY: Node calls this with a live environment and call, and `bind` gave the function its data.
                unsafe { $crate::call::enter(env, info, $body) }
            }
            // SAFETY: `enter` passes its arguments on with this very body.
            unsafe { $crate::call::Function::new($name, enter, $body) }
        };
        function
    }};
}
pub(crate) use function;

/// Runs `body` for one call and turns its outcome, or its panic, into a value or an exception.
///
/// # Safety
/// `env` and `info` must be those of a call to a function that [`Env::bind`] bound to data of type `T`.
#[inline(always)]
pub unsafe fn enter<const N: usize, T, F>(env: sys::napi_env, info: sys::napi_callback_info, body: F) -> sys::napi_value
where
    F: Fn(&Call<'_, N>, &T) -> Result<Returned, Fault>,
{
    let mut args = [ptr::null_mut(); N];
    let mut count = N;
    let mut data = ptr::null_mut();
    // SAFETY: the caller vouches for `env` and `info`; `args` has room for `count` values.
    let status = unsafe { sys::napi_get_cb_info(env, info, &mut count, args.as_mut_ptr(), ptr::null_mut(), &mut data) };
    let outcome = if status == sys::Status::napi_ok {
        let call = Call { env: Env(env), args, borrows: Borrows::default(), scope: PhantomData };
        // SAFETY: `bind` made `data` from an `Rc<T>` that the function object keeps alive while it is being called.
        let data = unsafe { &*data.cast::<T>() };
        catch_unwind(AssertUnwindSafe(|| body(&call, data)))
    } else {
        Ok(Err(Fault::Napi(status)))
    };
    match outcome {
        Ok(Ok(value)) => value.0,
        Ok(Err(fault)) => throw(env, &fault),
        Err(panic) => throw_panic(env, panic),
    }
}

impl Env {
    /// Binds `function` to `data` and sets it on `object` under its name. The function object keeps `data` alive.
    pub fn bind<T>(self, object: Returned, function: Function<T>, data: Rc<T>) -> Result<(), Fault> {
        let name = function.name;
        let data = Rc::into_raw(data);
        let mut value = ptr::null_mut();
        // SAFETY: a live environment, a name of the given length; the callback matches the type of `data`.
        let mut status = unsafe {
            let length = name.len() as isize;
            sys::napi_create_function(
                self.0,
                name.as_ptr().cast(),
                length,
                function.callback,
                data as *mut c_void,
                &mut value,
            )
        };
        if status == sys::Status::napi_ok {
            // SAFETY: `value` is the function just made; `release` undoes the `into_raw` above, once.
            status = unsafe {
                let finalize: sys::napi_finalize = Some(release::<T>);
                sys::napi_add_finalizer(self.0, value, data as *mut c_void, finalize, ptr::null_mut(), ptr::null_mut())
            };
        }
        if status != sys::Status::napi_ok {
            // SAFETY: from `into_raw` above, and no finalizer was added. The function was never handed out.
            drop(unsafe { Rc::from_raw(data) });
            return Err(Fault::Napi(status));
        }
        let name = CString::new(name).map_err(|_| Fault::Napi(sys::Status::napi_invalid_arg))?;
        // SAFETY: both values belong to this environment; the name ends with a NUL.
        check(unsafe { sys::napi_set_named_property(self.0, object.0, name.as_ptr(), value) })
    }

    /// A new, empty object.
    pub fn object(self) -> Result<Returned, Fault> {
        let mut value = ptr::null_mut();
        // SAFETY: a live environment and a place for the result.
        check(unsafe { sys::napi_create_object(self.0, &mut value) })?;
        Ok(Returned(value))
    }

    pub(crate) fn raw(self) -> sys::napi_env {
        self.0
    }
}

impl<const N: usize> Call<'_, N> {
    pub fn env(&self) -> Env {
        self.env
    }

    pub(crate) fn argument(&self, index: usize) -> sys::napi_value {
        self.args[index]
    }

    /// A whole number from 0 to `most`; with `clamp`, larger ones (and Infinity) count as `most`.
    pub fn count(&self, index: usize, name: &str, most: usize, clamp: bool) -> Result<usize, Fault> {
        let mut value = 0.0;
        // SAFETY: a live environment, one of this call's arguments, and a place for the result.
        match unsafe { sys::napi_get_value_double(self.env.0, self.args[index], &mut value) } {
            sys::Status::napi_ok => {}
            sys::Status::napi_number_expected => return Err(Fault::Type(format!("{name} must be a number"))),
            status => return Err(Fault::Napi(status)),
        }
        let whole = value as usize;
        if whole as f64 == value && whole <= most {
            return Ok(whole);
        }
        if clamp && value > most as f64 {
            return Ok(most);
        }
        Err(Fault::Range(format!("{name} is {value}, not a whole number from 0 to {most}")))
    }

    /// A number taken modulo 2^32: a word, whether its reader calls it signed or not.
    pub fn word(&self, index: usize, name: &str) -> Result<u32, Fault> {
        let mut value = 0;
        // SAFETY: a live environment, one of this call's arguments, and a place for the result.
        match unsafe { sys::napi_get_value_int32(self.env.0, self.args[index], &mut value) } {
            sys::Status::napi_ok => Ok(value as u32),
            sys::Status::napi_number_expected => Err(Fault::Type(format!("{name} must be a number"))),
            status => Err(Fault::Napi(status)),
        }
    }

    /// Whether an argument is `null`.
    pub fn is_null(&self, index: usize) -> Result<bool, Fault> {
        let mut kind = 0;
        // SAFETY: a live environment, one of this call's arguments, and a place for the result.
        check(unsafe { sys::napi_typeof(self.env.0, self.args[index], &mut kind) })?;
        Ok(kind == sys::ValueType::napi_null)
    }

    pub fn boolean(&self, value: bool) -> Result<Returned, Fault> {
        let mut result = ptr::null_mut();
        // SAFETY: a live environment and a place for the result.
        check(unsafe { sys::napi_get_boolean(self.env.0, value, &mut result) })?;
        Ok(Returned(result))
    }

    pub fn string(&self, value: &str) -> Result<Returned, Fault> {
        let mut result = ptr::null_mut();
        // SAFETY: a live environment, a string of the given length, and a place for the result.
        let status = unsafe {
            sys::napi_create_string_utf8(self.env.0, value.as_ptr().cast(), value.len() as isize, &mut result)
        };
        check(status)?;
        Ok(Returned(result))
    }

    pub fn int(&self, value: i32) -> Result<Returned, Fault> {
        let mut result = ptr::null_mut();
        // SAFETY: a live environment and a place for the result.
        check(unsafe { sys::napi_create_int32(self.env.0, value, &mut result) })?;
        Ok(Returned(result))
    }

    pub fn bigint(&self, value: u64) -> Result<Returned, Fault> {
        let mut result = ptr::null_mut();
        // SAFETY: a live environment and a place for the result.
        check(unsafe { sys::napi_create_bigint_uint64(self.env.0, value, &mut result) })?;
        Ok(Returned(result))
    }

    pub fn undefined(&self) -> Result<Returned, Fault> {
        Ok(Returned(ptr::null_mut()))
    }
}

pub(crate) fn check(status: sys::napi_status) -> Result<(), Fault> {
    if status == sys::Status::napi_ok { Ok(()) } else { Err(Fault::Napi(status)) }
}

/// Gives back the count of an `Rc<T>` that a function object held.
unsafe extern "C" fn release<T>(_: sys::napi_env, data: *mut c_void, _: *mut c_void) {
    // SAFETY: `bind` registered this with the pointer it took from an `Rc<T>`; Node runs it once.
    let data = unsafe { Rc::from_raw(data.cast::<T>().cast_const()) };
    // A panic must not cross into Node.
    let _ = catch_unwind(AssertUnwindSafe(|| drop(data)));
}

#[cold]
fn throw(env: sys::napi_env, fault: &Fault) -> sys::napi_value {
    let message = text(match fault {
        Fault::Type(message) | Fault::Range(message) => message.clone(),
        Fault::Napi(status) => format!("N-API answered with status {status}"),
    });
    // SAFETY: a live environment and two strings that end with a NUL. When an exception is pending already, it stays.
    unsafe {
        match fault {
            Fault::Type(_) => sys::napi_throw_type_error(env, c"ERR_INVALID_ARG_TYPE".as_ptr(), message.as_ptr()),
            Fault::Range(_) => sys::napi_throw_range_error(env, c"ERR_OUT_OF_RANGE".as_ptr(), message.as_ptr()),
            Fault::Napi(_) => sys::napi_throw_error(env, c"ERR_KEYLANE_NATIVE".as_ptr(), message.as_ptr()),
        }
    };
    ptr::null_mut()
}

fn text(message: String) -> CString {
    CString::new(message.replace('\0', " ")).unwrap_or_default()
}

#[cold]
fn throw_panic(env: sys::napi_env, panic: Box<dyn Any + Send>) -> sys::napi_value {
    let reason = panic.downcast_ref::<&str>().map(|reason| (*reason).to_owned());
    let reason = reason.or_else(|| panic.downcast_ref::<String>().cloned()).unwrap_or_default();
    let message = text(format!("the native core panicked: {reason}"));
    // SAFETY: a live environment and two strings that end with a NUL.
    unsafe { sys::napi_throw_error(env, c"ERR_KEYLANE_NATIVE".as_ptr(), message.as_ptr()) };
    ptr::null_mut()
}

/// What Node calls when an environment loads the addon.
#[unsafe(no_mangle)]
unsafe extern "C" fn napi_register_module_v1(env: sys::napi_env, exports: sys::napi_value) -> sys::napi_value {
    #[cfg(target_env = "msvc")]
    {
        static SYMBOLS: std::sync::Once = std::sync::Once::new();
        // SAFETY: once, before any other N-API call. The host outlives the addon.
        SYMBOLS.call_once(|| std::mem::forget(unsafe { sys::setup() }));
    }
    match catch_unwind(|| crate::register(Env(env), Returned(exports))) {
        Ok(Ok(())) => exports,
        Ok(Err(fault)) => throw(env, &fault),
        Err(panic) => throw_panic(env, panic),
    }
}
