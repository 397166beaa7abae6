//! What the cache tells of itself: counters, room in use, layout, as JSON.
//!
//! Invariant: none of it is asked for on a hot path.

use super::Shared;
use crate::call::{Call, Fault, Returned};
use keylane_core::layout::{THREAD, THREAD_COUNTERS};
use keylane_core::thread::Counter;
use std::fmt::Write;

/// `counters()`: sums over all threads, as JSON.
pub(super) fn counters(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let cache = seat.session.cache();
        call.string(&json(Counter::ALL.map(|(counter, name)| (name, cache.total(counter)))))
    })
}

/// `count(counter, amount)`
pub(super) fn count(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let place = call.count(0, "counter", Counter::ALL.len() - 1, false)?;
        let amount = call.count(1, "amount", u32::MAX as usize, false)? as u32;
        seat.session.cache().seats().add(seat.session.owner(), Counter::ALL[place].0, amount);
        call.undefined()
    })
}

/// `usage()`: entries and bytes in use, as JSON.
pub(super) fn usage(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let cache = seat.session.cache();
        let bytes = (cache.layout().arena + cache.arena_words_used()) * 4;
        call.string(&json([("entries", cache.entries() as u64), ("bytes", bytes as u64)]))
    })
}

/// `describe()`: base, digest and layout, as JSON.
pub(super) fn describe(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (cache, owner) = (seat.session.cache(), seat.session.owner());
        let own = cache.layout().threads + owner.seat() * THREAD + THREAD_COUNTERS;
        let fields = cache.layout().fields().into_iter().map(|(name, value)| (name, u64::from(value)));
        let own = [("ownCounters", own as u64), ("ownSeat", owner.seat() as u64)];
        let fields = json(fields.chain(own));
        let digest = cache.layout().digest();
        call.string(&format!("{{\"base\":{},\"digest\":\"{digest:016x}\",\"layout\":{fields}}}", seat.lead))
    })
}

fn json<'n>(fields: impl IntoIterator<Item = (&'n str, u64)>) -> String {
    let mut text = String::from("{");
    for (name, value) in fields {
        let comma = if text.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}\"{name}\":{value}");
    }
    text + "}"
}
