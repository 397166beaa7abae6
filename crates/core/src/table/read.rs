//! Lookups: no lock, no waiting, never a torn or a foreign value.
//!
//! Invariant: what a lookup returns was the value of exactly this key at some moment between its start and its end.
//!
//! ```text
//! proof | position p | generation of p's segment | position still p?     then p was published in this very generation
//!       | hash, key, expiry, copy | generation unchanged?                then no word of it was overwritten meanwhile
//! ```
//! A segment is reopened only after every way that pointed into it was cleared, and counts its generation before the first new
//! word is written; the fences below are those of a seqlock (Boehm, "Can seqlocks get along with programming language memory
//! models?", 2012).

use super::{HIT_CAP, Place, Way};
use crate::cache::{Cache, Session};
use crate::entry::{self, Head};
use crate::layout::{GROUP, TAGS, WAYS};
use crate::sync::Ordering::{Acquire, Relaxed};
use crate::sync::{Steps, fence};
use crate::thread::Counter;

/// Lookups begin anew when a record is moved under their eyes, this many times.
const TRIES: u32 = 4;
/// Turns that an election waits for the group's lock; whoever has it is about to change the key anyway.
const ELECTION_TURNS: u32 = if cfg!(loom) { 2 } else { 64 };

/// What a lookup may do beyond returning what is fresh.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ask {
    /// Return a value up to this long past its expiry, in ms; 0 for never.
    pub stale_ms: u32,
    /// How long an elected reader has to refresh before the next one is elected, in ms; 0 to elect nobody.
    pub lease_ms: u32,
}

/// What a lookup found.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// Not cached, or expired.
    #[default]
    Miss = 0,
    /// The value was copied out.
    Hit = 1,
    /// The key is known not to exist.
    Absent = 2,
    /// The value does not fit the buffer given; `value_len` says what it takes.
    NoRoom = 3,
}

/// Result of a lookup. Fields beyond `kind` are zero on a miss.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Lookup {
    /// What was found.
    pub kind: Kind,
    /// The caller is the one to refresh the value; told once a lease.
    pub elected: bool,
    /// The value is past its expiry and returned because the caller allowed it.
    pub stale: bool,
    /// Bytes of the value.
    pub value_len: usize,
    /// A byte of the value that was copied is 0x80 or more.
    pub high: bool,
    /// Index of the proof word, and of the hit word, of the way that holds the key.
    pub proof_index: usize,
    /// While the proof word equals this, the result stands (until `check`).
    pub proof: u32,
    /// When it expires, ms of the region's clock.
    pub expiry: u32,
    /// When to look it up again: at its expiry, or when the next refresher is to be elected.
    pub check: u32,
    /// The connection that keeps the value coherent.
    pub feeder: u16,
}

enum Try {
    Done(Lookup),
    Other,
    Moved,
}

#[inline(always)]
fn passed(now: u32, at: u32) -> bool {
    now.wrapping_sub(at) as i32 >= 0
}

impl<S: Steps> Session<'_, S> {
    /// Looks `key` up, whose xxh3-64 is `hash`, and copies its value to the beginning of `out`. O(key + value).
    pub fn lookup(&self, hash: u64, key: &[u8], ask: Ask, out: &mut [u8]) -> Lookup {
        let place = self.cache.place(hash);
        let mut found = Lookup::default();
        for _ in 0..TRIES {
            match self.scan(place, key, ask, out) {
                Try::Done(lookup) => {
                    found = lookup;
                    break;
                }
                Try::Other => break,
                Try::Moved => {}
            }
        }
        self.count(match found {
            Lookup { kind: Kind::Miss, .. } => Counter::Misses,
            Lookup { stale: true, .. } => Counter::StaleHits,
            Lookup { kind: Kind::Absent, .. } => Counter::AbsentHits,
            _ => Counter::L1Hits,
        });
        found
    }

    /// As `lookup` without elections, and counts nothing; for keys of our own that lie among the cached ones.
    pub fn probe(&self, hash: u64, key: &[u8], out: &mut [u8]) -> Lookup {
        let place = self.cache.place(hash);
        for _ in 0..TRIES {
            match self.scan(place, key, Ask { stale_ms: 0, lease_ms: 0 }, out) {
                Try::Done(lookup) => return lookup,
                Try::Other => break,
                Try::Moved => {}
            }
        }
        Lookup::default()
    }

    #[inline(always)]
    fn scan(&self, place: Place, key: &[u8], ask: Ask, out: &mut [u8]) -> Try {
        match self.scan_bucket(place.home, place, key, ask, out) {
            Try::Other if self.cache.spill(place.home).load(Relaxed) != 0 => {}
            result => return result,
        }
        for step in 1..GROUP {
            let bucket = place.group * GROUP + (place.home + step) % GROUP;
            match self.scan_bucket(bucket, place, key, ask, out) {
                Try::Other => {}
                result => return result,
            }
        }
        Try::Other
    }

    #[inline(always)]
    fn scan_bucket(&self, bucket: usize, place: Place, key: &[u8], ask: Ask, out: &mut [u8]) -> Try {
        let at = self.cache.bucket(bucket) + TAGS;
        let Some(tags) = self.cache.region.slice(at, WAYS) else { return Try::Other };
        for (index, tag) in tags.iter().enumerate() {
            if tag.load(Relaxed) != place.tag {
                continue;
            }
            match self.read(Way { bucket, place: index }, place, key, ask, out) {
                Try::Other => {}
                result => return result,
            }
        }
        Try::Other
    }

    #[inline(always)]
    fn read(&self, way: Way, place: Place, key: &[u8], ask: Ask, out: &mut [u8]) -> Try {
        let cache = &self.cache;
        let proof = cache.proof(way).load(Acquire);
        let position = cache.position(way).load(Relaxed);
        if position == 0 {
            return Try::Other;
        }
        let Some((segment, record)) = cache.record(position) else { return Try::Other };
        let generation = cache.generation(segment).load(Acquire);
        if cache.position(way).load(Acquire) != position {
            return Try::Moved;
        }
        let unchanged = || {
            fence(Acquire);
            cache.generation(segment).load(Relaxed) == generation
        };
        let head = Head::read(record);
        if head.hash != place.hash || !head.is_key(record, key) {
            return if unchanged() { Try::Other } else { Try::Moved };
        }
        let Some(value) = head.value(record) else {
            return if unchanged() { Try::Other } else { Try::Moved };
        };
        let now = cache.now();
        if passed(now, head.expiry) && now.wrapping_sub(head.expiry) >= ask.stale_ms {
            // No hit, and not worth the copy, which may have to come from another core's cache.
            if !unchanged() {
                return Try::Moved;
            }
            self.count(Counter::Expired);
            return Try::Done(Lookup::default());
        }
        let high = out.get_mut(..head.value_len).map(|room| entry::take(value, room));
        if !unchanged() {
            return Try::Moved;
        }
        Try::Done(self.judge(way, place, position, proof, head, ask, now, high))
    }

    /// What a record that was read whole is worth `now`; `high` is `None` when its value did not fit.
    #[inline(always)]
    #[allow(clippy::too_many_arguments, reason = "one call site, inlined into the hot path")]
    fn judge(
        &self,
        way: Way,
        place: Place,
        position: u32,
        proof: u32,
        head: Head,
        ask: Ask,
        now: u32,
        high: Option<bool>,
    ) -> Lookup {
        let cache = &self.cache;
        let hits = cache.hits(way);
        let count = hits.load(Relaxed);
        if count < HIT_CAP {
            hits.store(count + 1, Relaxed);
        }
        let stale = passed(now, head.expiry);
        let mut check = if passed(head.expiry, head.refresh) { head.refresh } else { head.expiry };
        let mut elected = false;
        if ask.lease_ms > 0 && passed(now, head.refresh) {
            elected = self.elect(way, place, position, head.refresh, now.wrapping_add(ask.lease_ms));
            check = now.wrapping_add(ask.lease_ms);
            if !stale && !passed(head.expiry, check) {
                check = head.expiry;
            }
        }
        let kind = match (head.absent, high.is_some()) {
            (true, _) => Kind::Absent,
            (false, true) => Kind::Hit,
            (false, false) => Kind::NoRoom,
        };
        Lookup {
            kind,
            elected,
            stale,
            value_len: head.value_len,
            high: high.unwrap_or_default(),
            proof_index: way.index(),
            proof,
            expiry: head.expiry,
            check,
            feeder: head.feeder,
        }
    }

    /// Moves a record's next election on, if nobody else did. The lock keeps the record from being recycled, so that the word
    /// written is still this record's.
    #[cold]
    fn elect(&self, way: Way, place: Place, position: u32, seen: u32, next: u32) -> bool {
        let Some(_guard) = self.try_lock_group(place.group, ELECTION_TURNS) else { return false };
        if self.cache.position(way).load(Relaxed) != position {
            return false;
        }
        let word = self.cache.region.word(position as usize + entry::REFRESH);
        if word.load(Relaxed) != seen {
            return false;
        }
        word.store(next, Relaxed);
        self.count(Counter::Refreshes);
        true
    }
}

impl Cache<'_> {
    /// Whether a proof that a lookup or a store handed out still stands. L0 caches compare the word themselves.
    #[must_use]
    pub fn is_vouched(&self, proof_index: usize, proof: u32) -> bool {
        proof_index < self.layout.ways && self.region.word(self.layout.proofs + proof_index).load(Acquire) == proof
    }

    /// Whether `key` is cached and fresh, without counting, copying or electing. A hint: while the key is being changed it may
    /// be wrong either way.
    #[must_use]
    pub fn holds(&self, hash: u64, key: &[u8]) -> bool {
        let found = self.find(self.place(hash), key).and_then(|(_, position)| self.record(position));
        found.is_some_and(|(_, record)| !passed(self.now(), Head::read(record).expiry))
    }
}
