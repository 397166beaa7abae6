//! Regions, entries and randomness for the tests of the shared cache.

use keylane_core::cache::{Cache, Session};
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::sync::Steps;
use keylane_core::table::{Ask, Entry, Kind, Lookup, Stored};

/// Readers that refresh, with a lease of a second.
pub const ASK: Ask = Ask { stale_ms: 0, lease_ms: 1000 };

/// A few threads, small segments: what fills soon.
pub const SMALL: Options = Options {
    entry_bytes: 64,
    max_value_bytes: 1024,
    max_key_bytes: 128,
    max_threads: 8,
    segment_bytes: 4096,
    shards: 1,
    small_percent: 10,
};

/// An entry that lives for a minute, loaded just now.
pub fn entry<'a, S: Steps>(session: &Session<'_, S>, key: &'a [u8], value: Option<&'a [u8]>) -> Entry<'a> {
    let hash = hash64(key);
    let ticket = session.begin_load(hash);
    Entry { hash, key, value, ttl_ms: 60_000, refresh_ms: 0, feeder: 0, domain: 0, ticket }
}

/// Stores a value that lives for a minute.
pub fn store<S: Steps>(session: &Session<'_, S>, key: &[u8], value: &[u8]) -> Stored {
    session.store(&entry(session, key, Some(value)))
}

/// Looks a key up: what was found, and the value when there is one.
pub fn look<S: Steps>(session: &Session<'_, S>, key: &[u8], ask: Ask) -> (Lookup, Option<Vec<u8>>) {
    let mut out = vec![0xaa; 4096];
    let found = session.lookup(hash64(key), key, ask, &mut out);
    out.truncate(found.value_len);
    (found, (found.kind == Kind::Hit).then_some(out))
}

/// The value of a key, if it is cached and fresh.
pub fn get<S: Steps>(session: &Session<'_, S>, key: &[u8]) -> Option<Vec<u8>> {
    look(session, key, ASK).1
}

/// Whether a proof that was handed out still vouches.
pub fn vouches(cache: &Cache<'_>, memory: &Memory, proof_index: usize, proof: u32) -> bool {
    memory.region().get(cache.layout().proofs + proof_index) == proof
}

/// xorshift64* (Vigna, 2016).
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next()) * u128::from(bound)) >> 64) as u64
    }
}
