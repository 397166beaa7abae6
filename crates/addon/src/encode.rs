//! A turn's operations → frames, in arrays that the caller owns.

use crate::State;
use crate::call::{Call, Fault, Returned};
use keylane_core::resp::encode::{self, EncodeError, Tables};

/// `encode(scratch, desc, count, slots, held, alias, out, place, sections)`
pub fn encode(call: &Call<'_, 9>, state: &State) -> Result<Returned, Fault> {
    let scratch = call.bytes(0, "scratch")?;
    let desc = call.words(1, "desc")?;
    let count = call.count(2, "count", desc.len(), false)?;
    let tables =
        Tables { slots: call.atomics(3, "slots")?, held: call.atomics(4, "held")?, alias: call.atomics(5, "alias")? };
    let out = call.bytes_mut(6, "out")?;
    let place = call.words_mut(7, "place")?;
    let sections = call.words_mut(8, "sections")?;
    let mut encoder = state.encoder.borrow_mut();
    finish(call, encoder.encode(scratch, desc, count, &tables, out, place, sections))
}

/// `encodeTo(scratch, desc, count, out)`
pub fn encode_to(call: &Call<'_, 4>, _: &State) -> Result<Returned, Fault> {
    let scratch = call.bytes(0, "scratch")?;
    let desc = call.words(1, "desc")?;
    let count = call.count(2, "count", desc.len(), false)?;
    let out = call.bytes_mut(3, "out")?;
    finish(call, encode::encode_to(scratch, desc, count, out))
}

#[inline(always)]
fn finish<const N: usize>(call: &Call<'_, N>, written: Result<i32, EncodeError>) -> Result<Returned, Fault> {
    match written {
        Ok(bytes) => call.int(bytes),
        Err(error) => Err(Fault::Range(error.to_string())),
    }
}
