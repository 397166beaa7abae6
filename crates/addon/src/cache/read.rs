//! Asking the cache: what is kept of a key, and what a load of it must carry.
//!
//! Invariant: nothing here changes what is cached for others.

use super::{MOST_MS, Shared, tell};
use crate::call::{Call, Fault, Returned};
use keylane_core::hash::hash64;
use keylane_core::resp::keys::Keys;
use keylane_core::slot;
use keylane_core::table::{Ask, Lookup};

const FLAG_ELECTED: i32 = 1;
const FLAG_STALE: i32 = 2;
const FLAG_HIGH: i32 = 4;

/// `lookup(key, staleMs, leaseMs, out, info)`; where `info` has room for them, with the key's hash and the ticket of a load that
/// would begin now.
pub(super) fn lookup(call: &Call<'_, 5>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let ask = Ask {
            stale_ms: call.count(1, "staleMs", MOST_MS, true)? as u32,
            lease_ms: call.count(2, "leaseMs", MOST_MS, true)? as u32,
        };
        let (out, info) = (call.bytes_mut(3, "out")?, call.words_mut(4, "info")?);
        seat.own.apart(out, "out")?;
        seat.own.apart(info, "info")?;
        let (hash, ticket, found): (u64, u32, Lookup) = seat.keyed(call, |hash, key| {
            Ok((hash, seat.session.cache().ticket(hash), seat.session.lookup(hash, key, ask, out)))
        })?;
        let flag = |set: bool, flag: i32| if set { flag } else { 0 };
        let flags = flag(found.elected, FLAG_ELECTED) | flag(found.stale, FLAG_STALE) | flag(found.high, FLAG_HIGH);
        let (index, length) = (found.proof_index as i32, found.value_len as i32);
        let (proof, expiry, check) = (found.proof as i32, found.expiry as i32, found.check as i32);
        if let Some([told, _, low, high]) = info.get_mut(7..11) {
            *told = ticket as i32;
            *low = hash as i32;
            *high = (hash >> 32) as i32;
        }
        tell(info, [index, proof, expiry, check, found.feeder.into(), length, flags])?;
        call.int(found.kind as i32)
    })
}

/// `probe(key, out, info)`: what is kept, the ticket with which to store it, and what else of the key costs little here.
pub(super) fn probe(call: &Call<'_, 3>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (out, info) = (call.bytes_mut(1, "out")?, call.words_mut(2, "info")?);
        seat.own.apart(out, "out")?;
        seat.own.apart(info, "info")?;
        let (ticket, hash, own_slot, found) = seat.keyed(call, |hash, key| {
            let ticket = seat.session.cache().ticket(hash);
            Ok((ticket, hash, slot::slot(key), seat.session.probe(hash, key, out)))
        })?;
        let Some(place) = info.first_chunk_mut::<11>() else {
            return Err(Fault::Range("info has fewer than 11 words".into()));
        };
        let (low, high) = (hash as i32, (hash >> 32) as i32);
        let (index, length) = (found.proof_index as i32, found.value_len as i32);
        let (proof, expiry, check) = (found.proof as i32, found.expiry as i32, found.check as i32);
        *place =
            [index, proof, expiry, check, found.feeder.into(), length, 0, ticket as i32, own_slot.into(), low, high];
        call.int(found.kind as i32)
    })
}

/// `stamp(scratch, desc, count, out)`: of each operation's key the ticket, the slot and the hash, four words an operation.
/// Words of operations without a key stay as they are; ends before one that is not well formed.
pub(super) fn stamp(call: &Call<'_, 4>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (scratch, desc, out) = (call.bytes(0, "scratch")?, call.words(1, "desc")?, call.words_mut(3, "out")?);
        let count = call.count(2, "count", desc.len(), false)?;
        seat.own.apart(scratch, "scratch")?;
        seat.own.apart(desc, "desc")?;
        seat.own.apart(out, "out")?;
        let mut keys = Keys::new(scratch, desc, count);
        for place in out.as_chunks_mut::<4>().0 {
            let Some((key, _)) = keys.step() else { break };
            let Some(key) = key else { continue };
            let hash = hash64(key);
            let ticket = seat.session.cache().ticket(hash);
            *place = [ticket as i32, slot::slot(key).into(), hash as i32, (hash >> 32) as i32];
        }
        call.undefined()
    })
}

/// `holds(key)`
pub(super) fn holds(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let held = seat.keyed(call, |hash, key| Ok(seat.session.cache().holds(hash, key)))?;
        call.boolean(held)
    })
}

/// `ticket(key)`: what a load that begins now would carry.
pub(super) fn ticket(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let ticket = seat.keyed(call, |hash, _| Ok(seat.session.cache().ticket(hash)))?;
        call.int(ticket as i32)
    })
}
