//! Stores: a record is written whole into the arena, then a way of the index is pointed at it.
//!
//! Invariant: until the way points at it, nobody can reach a record; a writer that stops anywhere before has changed nothing
//! that a reader sees. Locks are taken in one order: shard, then group.
//!
//! ```text
//! shard locked   ticket? -> room in a segment -> record -> words used
//! group locked     ticket again? -> way of the key, else an empty one, else the least used of the group -> position -> proof
//! then           sweep a little more of the segment being recycled
//! ```

use super::{HIT_CAP, Place, Way};
use crate::arena::Queue;
use crate::cache::Session;
use crate::entry::{DOMAINS, Head};
use crate::layout::GROUP;
use crate::sync::Ordering::{Relaxed, Release};
use crate::sync::Steps;
use crate::thread::Counter;

/// Longest life of a record: 12.4 days. Longer ones are cut to it, so that no expiry is mistaken for one in the future before
/// the clock's ticker has purged it (see [`crate::clock`]).
pub const MAX_TTL_MS: u32 = 1 << 30;

/// What is to be stored.
#[derive(Clone, Copy, Debug)]
pub struct Entry<'a> {
    /// xxh3-64 of the key.
    pub hash: u64,
    /// The key.
    pub key: &'a [u8],
    /// `None` when the key does not exist.
    pub value: Option<&'a [u8]>,
    /// Life in ms, cut to [`MAX_TTL_MS`].
    pub ttl_ms: u32,
    /// From this age in ms on, one reader a lease is elected to refresh; 0 for never.
    pub refresh_ms: u32,
    /// The connection that keeps the value coherent, see `invalidate_feeder`.
    pub feeder: u16,
    /// The key's domain, below [`DOMAINS`].
    pub domain: u16,
    /// What `ticket` said before the value was asked for.
    pub ticket: u32,
}

/// What became of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stored {
    /// It is cached.
    Kept {
        /// As in a lookup.
        proof_index: usize,
        /// As in a lookup.
        proof: u32,
        /// As in a lookup.
        expiry: u32,
        /// As in a lookup.
        check: u32,
    },
    /// Refused: the key was invalidated after the ticket was taken.
    Overtaken,
    /// Refused: key or value too long. What was cached for the key is gone.
    Bypassed,
    /// Given up: another thread held the arena for too long. What was cached for the key is still there.
    Busy,
    /// Refused: the cache is closed.
    Closed,
}

impl<S: Steps> Session<'_, S> {
    /// Begins a load: what to hand to the store that ends it.
    #[inline]
    #[must_use]
    pub fn begin_load(&self, hash: u64) -> u32 {
        self.count(Counter::Loads);
        self.cache.ticket(hash)
    }

    /// Stores a value that was loaded. O(key + value); now and then some records of an old segment more.
    pub fn store(&self, entry: &Entry<'_>) -> Stored {
        let stored = self.try_store(entry);
        self.count(match stored {
            Stored::Kept { .. } => Counter::Stores,
            Stored::Overtaken => Counter::Overtaken,
            Stored::Bypassed => Counter::Bypassed,
            Stored::Busy | Stored::Closed => Counter::Busy,
        });
        stored
    }

    fn try_store(&self, entry: &Entry<'_>) -> Stored {
        let (cache, layout) = (&self.cache, &self.cache.layout);
        let value = entry.value.unwrap_or_default();
        if !cache.is_open() {
            return Stored::Closed;
        }
        if entry.key.len() > layout.max_key || value.len() > layout.max_value || entry.domain >= DOMAINS {
            self.remove(entry.hash, entry.key);
            return Stored::Bypassed;
        }
        let place = cache.place(entry.hash);
        let shard = self.shard_of(place.group);
        let Some(guard) = self.lock_shard(shard) else { return Stored::Busy };
        if cache.ticket(entry.hash) != entry.ticket {
            return Stored::Overtaken;
        }
        let now = cache.now();
        let ttl = entry.ttl_ms.min(MAX_TTL_MS);
        let expiry = now.wrapping_add(ttl);
        let refresh = if entry.refresh_ms == 0 { expiry } else { now.wrapping_add(entry.refresh_ms.min(ttl)) };
        let head = Head {
            hash: place.hash,
            expiry,
            refresh,
            key_len: entry.key.len(),
            value_len: value.len(),
            feeder: entry.feeder,
            domain: entry.domain,
            absent: entry.value.is_none(),
        };
        let queue = self.queue_for(shard, place, entry.key);
        let Some(position) = self.allocate(shard, queue, head.words()) else { return Stored::Busy };
        let Some(record) = cache.region.slice(position, head.words()) else { return Stored::Busy };
        head.write(record, entry.key, value);
        self.steps.step();
        self.commit(position, head.words());
        self.steps.step();
        let stored = self.publish(shard, place, entry, position as u32, expiry, refresh);
        self.steps.step();
        self.keep_room(shard, head.words());
        drop(guard);
        stored
    }

    /// Points a way of the group at a committed record.
    fn publish(&self, shard: usize, place: Place, entry: &Entry<'_>, position: u32, expiry: u32, check: u32) -> Stored {
        let cache = &self.cache;
        let _guard = self.lock_group(place.group);
        if !cache.is_open() {
            return Stored::Closed;
        }
        if cache.ticket(entry.hash) != entry.ticket {
            return Stored::Overtaken;
        }
        let way = match cache.find(place, entry.key) {
            Some((way, _)) => way,
            None => {
                let way = self.vacate(shard, place);
                cache.hits(way).store(0, Relaxed);
                way
            }
        };
        self.point(way, place, position);
        let proof = cache.proof(way).load(Relaxed);
        Stored::Kept { proof_index: way.index(), proof, expiry, check }
    }

    /// A way for a new key: an empty one, else the one of the group that is worth least. The group is locked.
    fn vacate(&self, shard: usize, place: Place) -> Way {
        let cache = &self.cache;
        let ways = || cache.ways(place.group, place.home % GROUP).map(|way| (way, cache.position(way).load(Relaxed)));
        if let Some((way, _)) = ways().find(|&(_, position)| position == 0) {
            return way;
        }
        let home = Way { bucket: place.home, place: 0 };
        let least = ways().min_by_key(|&(way, position)| self.worth(way, position)).map_or(home, |(way, _)| way);
        self.remember(shard, least);
        cache.position(least).store(0, Release);
        self.count(Counter::Evictions);
        least
    }

    /// 0 for what is expired, else more with each hit, and more in the main queue than on probation.
    fn worth(&self, way: Way, position: u32) -> u32 {
        let cache = &self.cache;
        let Some((segment, record)) = cache.record(position) else { return 0 };
        let left = Head::read(record).expiry.wrapping_sub(cache.now()) as i32;
        if left <= 0 {
            return 0;
        }
        let main = cache.queue_of(segment) == Queue::Main;
        1 + 2 * cache.hits(way).load(Relaxed).min(HIT_CAP) + u32::from(main)
    }

    /// Where a key's record goes: to the queue it is in already; to the main queue when it was evicted from probation lately.
    fn queue_for(&self, shard: usize, place: Place, key: &[u8]) -> Queue {
        let cache = &self.cache;
        if let Some((segment, _)) = cache.find(place, key).and_then(|(_, position)| cache.record(position)) {
            return if cache.queue_of(segment) == Queue::Main { Queue::Main } else { Queue::Small };
        }
        if self.is_remembered(shard, place) { Queue::Main } else { Queue::Small }
    }
}
