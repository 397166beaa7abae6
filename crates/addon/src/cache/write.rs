//! Changing the cache: loads and who makes them, stores, invalidations.
//!
//! Invariant: a store carries the ticket of its load, so what was invalidated meanwhile is refused, not cached.

use super::{MOST_MS, Shared, tell};
use crate::call::{Call, Fault, Returned};
use keylane_core::flight::Claim;
use keylane_core::table::{Entry, Stored};

/// `beginLoad(key)`
pub(super) fn begin_load(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let ticket = seat.keyed(call, |hash, _| Ok(seat.session.begin_load(hash)))?;
        call.int(ticket as i32)
    })
}

/// `store(key, value, ttlMs, refreshMs, feeder, domain, ticket, info)`, where `value` is null for a key that does not exist.
pub(super) fn store(call: &Call<'_, 8>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let value = if call.is_null(1)? { None } else { Some(call.bytes(1, "value")?) };
        let ttl_ms = call.count(2, "ttlMs", MOST_MS, true)? as u32;
        let refresh_ms = call.count(3, "refreshMs", MOST_MS, true)? as u32;
        let feeder = call.count(4, "feeder", u16::MAX.into(), false)? as u16;
        let domain = call.count(5, "domain", u16::MAX.into(), false)? as u16;
        let ticket = call.word(6, "ticket")?;
        let info = call.words_mut(7, "info")?;
        seat.own.apart(value.unwrap_or_default(), "value")?;
        seat.own.apart(info, "info")?;
        let stored = seat.keyed(call, |hash, key| {
            Ok(seat.session.store(&Entry { hash, key, value, ttl_ms, refresh_ms, feeder, domain, ticket }))
        })?;
        let kind = match stored {
            Stored::Kept { proof_index, proof, expiry, check } => {
                let length = value.map_or(0, <[u8]>::len) as i32;
                let words = [proof_index as i32, proof as i32, expiry as i32, check as i32, feeder.into(), length, 0];
                tell(info, words)?;
                0
            }
            Stored::Overtaken => 1,
            Stored::Bypassed => 2,
            Stored::Busy => 3,
            Stored::Closed => 4,
        };
        call.int(kind)
    })
}

/// `claim(key, patienceMs, claim)`: with the ticket of the load to come and the key's hash; 3 when the key was cached meanwhile, and
/// nothing is claimed.
pub(super) fn claim(call: &Call<'_, 3>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let patience_ms = call.count(1, "patienceMs", MOST_MS, true)? as u32;
        let told = call.words_mut(2, "claim")?;
        seat.own.apart(told, "claim")?;
        let session = &seat.session;
        let (kind, words) = seat.keyed(call, |hash, key| {
            let (kind, index, value, ticket) = match session.claim(hash, patience_ms) {
                Claim::Wait { index, value } => (1, index, value, 0),
                Claim::Crowded => (2, 0, 0, session.begin_load(hash)),
                Claim::Elected { index, value } if session.cache().holds(hash, key) => {
                    session.cache().release(index, value);
                    (3, index, value, 0)
                }
                Claim::Elected { index, value } => (0, index, value, session.begin_load(hash)),
            };
            Ok((kind, [index as i32, value as i32, ticket as i32, hash as i32]))
        })?;
        *told.first_chunk_mut().ok_or_else(|| Fault::Range("claim has fewer than 4 words".into()))? = words;
        call.int(kind)
    })
}

/// `release(index, value)`
pub(super) fn release(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (index, value) = (call.word(0, "index")?, call.word(1, "value")?);
        call.boolean(seat.session.cache().release(index as usize, value))
    })
}

/// `invalidate(key)`
pub(super) fn invalidate(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let was_cached = seat.keyed(call, |hash, key| Ok(seat.session.invalidate(hash, key)))?;
        call.boolean(was_cached)
    })
}

/// `invalidateAll()`
pub(super) fn invalidate_all(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        seat.session.invalidate_all();
        call.undefined()
    })
}

/// `invalidateFeeder(feeder)`
pub(super) fn invalidate_feeder(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let feeder = call.count(0, "feeder", u16::MAX.into(), false)? as u16;
        call.int(seat.session.invalidate_feeder(feeder) as i32)
    })
}

/// `expireFeeder(feeder)`
pub(super) fn expire_feeder(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let feeder = call.count(0, "feeder", u16::MAX.into(), false)? as u16;
        call.int(seat.session.expire_feeder(feeder) as i32)
    })
}

/// `invalidateSeat(seat)`
pub(super) fn invalidate_seat(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let dead = call.count(0, "seat", u16::MAX.into(), false)? as u16;
        call.int(seat.session.invalidate_seat(dead) as i32)
    })
}

/// `invalidatePrefix(prefix, domain)`
pub(super) fn invalidate_prefix(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let domain = call.count(1, "domain", u16::MAX.into(), false)? as u16;
        let removed = seat.keyed(call, |_, prefix| Ok(seat.session.invalidate_prefix(domain, prefix)))?;
        call.int(removed as i32)
    })
}
