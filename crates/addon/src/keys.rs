//! Slots and hashes of keys, one at a time or joined into one string.
//!
//! Invariant: a key of a batch gives what it would give alone, also where its neighbour's surrogate half would complete its
//! own. While the text is ASCII, as it mostly is, its bytes are its units and no key is converted.

use crate::State;
use crate::call::{Call, Fault, Returned};
use crate::view::{Scratch, Text};
use keylane_core::{hash, slot, text};

/// `slot(key)`
pub fn slot(call: &Call<'_, 1>, state: &State) -> Result<Returned, Fault> {
    let mut scratch = state.scratch.borrow_mut();
    let slot = slot::slot(&call.key(0, &mut scratch)?);
    call.int(slot.into())
}

/// `hash64(key)`
pub fn hash64(call: &Call<'_, 1>, state: &State) -> Result<Returned, Fault> {
    let mut scratch = state.scratch.borrow_mut();
    let hash = hash::hash64(&call.key(0, &mut scratch)?);
    call.bigint(hash)
}

/// `slotBatch(text, lengths, count, out)`
pub fn slot_batch(call: &Call<'_, 4>, state: &State) -> Result<Returned, Fault> {
    let out = call.words_mut(3, "out")?;
    let lengths = lengths(call, 1, 2, out.len())?;
    let mut out = out.iter_mut();
    each_key(call, 0, lengths, &mut state.scratch.borrow_mut(), |key| {
        if let Some(word) = out.next() {
            *word = slot::slot(key).into();
        }
    })?;
    call.undefined()
}

/// The lengths of a batch: as many as its count says, which is at most `room`.
pub fn lengths<'a, const N: usize>(
    call: &Call<'a, N>,
    lengths: usize,
    count: usize,
    room: usize,
) -> Result<&'a [i32], Fault> {
    let lengths = call.words(lengths, "lengths")?;
    let count = call.count(count, "count", lengths.len().min(room), false)?;
    Ok(&lengths[..count])
}

/// Hands the bytes of each key of a joined text to `visit`, in order.
#[inline(always)]
pub fn each_key<const N: usize>(
    call: &Call<'_, N>,
    index: usize,
    lengths: &[i32],
    scratch: &mut Scratch,
    mut visit: impl FnMut(&[u8]),
) -> Result<(), Fault> {
    let mut units = 0usize;
    for &length in lengths {
        units += usize::try_from(length).map_err(|_| Fault::Range(format!("a length is {length}")))?;
    }
    match call.text(index, "text", units, scratch)? {
        Text::Ascii(mut rest) => {
            for &length in lengths {
                let (key, behind) = rest.split_at(length as usize);
                visit(key);
                rest = behind;
            }
        }
        Text::Wide(mut rest, key) => {
            for &length in lengths {
                let (wide, behind) = rest.split_at(length as usize);
                key.clear();
                text::push_utf8(wide, key);
                visit(key);
                rest = behind;
            }
        }
    }
    scratch.trim();
    Ok(())
}
