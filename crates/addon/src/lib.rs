//! The N-API face of keylane-core, as `NativeCore` of `src/native/types.ts` wants it.
//!
//! Functions stand on bare N-API rather than on generated wrappers: a wrapper costs more than the work of a call (about 45 ns
//! a function, 200 ns a method). What that takes is kept in two rooms, `call` (entering, throwing, binding) and `view`
//! (arrays and strings); everything else is safe code.
//!
//! Invariant: nothing a caller passes can cause undefined behaviour or abort the process. Arrays are borrowed for one call
//! and never kept; a wrong argument is a `TypeError` or `RangeError`, a panic an `Error`.

#![deny(unsafe_code)]

mod cache;
mod call;
mod encode;
mod hits;
mod keys;
mod memory;
mod router;
mod scanner;
mod view;

use call::{Call, Env, Fault, Returned, function};
use keylane_core::resp::encode::Encoder;
use std::cell::RefCell;
use std::rc::Rc;
use view::Scratch;

/// Raised whenever a function's arguments or the meaning of a word change; `src/native/load.ts` compares it.
const ABI_VERSION: i32 = 6;

/// Working memory of one environment: the main thread's, or a worker's. Kept so that calls need not allocate.
#[derive(Default)]
struct State {
    scratch: RefCell<Scratch>,
    encoder: RefCell<Encoder>,
}

/// Fills the exports of one environment.
fn register(env: Env, exports: Returned) -> Result<(), Fault> {
    let state = Rc::new(State::default());
    let functions = [
        function!("abiVersion", abi_version),
        function!("slot", keys::slot),
        function!("slotBatch", keys::slot_batch),
        function!("hash64", keys::hash64),
        function!("createRouter", router::create),
        function!("createScanner", scanner::create),
        function!("encode", encode::encode),
        function!("encodeTo", encode::encode_to),
        function!("createCache", cache::create),
        function!("attachCache", cache::attach),
        function!("hitsBytes", hits::bytes),
        function!("createHits", hits::create),
        function!("attachHits", hits::attach),
    ];
    functions.into_iter().try_for_each(|function| env.bind(exports, function, Rc::clone(&state)))
}

fn abi_version(call: &Call<'_, 0>, _: &State) -> Result<Returned, Fault> {
    call.int(ABI_VERSION)
}
