//! The index: 64-byte buckets of 7 ways, four of them a group with one lock. A key lives in its home bucket, or, when that is
//! full, in another one of its group.
//!
//! Invariant: only the holder of a group's lock changes its tags, positions, spill flags and proofs. A change of what a way
//! holds comes first, the count of its proof after it, so a proof read before the position can never vouch for a value that is
//! no longer there. A tag only narrows the search: the record itself (hash and whole key) decides.
//!
//! ```text
//! bucket   tag 0 … tag 6 | position 0 … position 6 | lock (first of the group) | spill
//! tag      lower half of the hash; its two lowest bits are those of the upper half: the home bucket in the group
//! group    upper half of the hash, scaled to the number of groups
//! way      bucket * 7 + place in the bucket: index of its proof and hit words
//! ```

mod drop;
mod read;
mod write;

pub use drop::FEEDER_BITS;
pub use read::{Ask, Kind, Lookup};
pub use write::{Entry, MAX_TTL_MS, Stored};

use crate::cache::{Cache, Session};
use crate::entry::{self, Head};
use crate::hash::hash64;
use crate::layout::{BUCKET, GROUP, LOCK, POSITIONS, SPILL, TAGS, WAYS};
use crate::lock::{self, Taken};
use crate::sync::Ordering::{Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, Steps};
use crate::thread::Counter;

/// Hits past this many are not counted by lookups: more would not change what eviction does, and a line that is not written
/// stays in every core's cache.
pub const HIT_CAP: u32 = 3;

/// Where a key belongs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    pub group: usize,
    /// Home bucket, counted over the whole index.
    pub home: usize,
    pub tag: u32,
    /// Upper half of the hash, as records keep it.
    pub hash: u32,
}

/// One way of the index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Way {
    pub bucket: usize,
    pub place: usize,
}

impl Way {
    #[inline(always)]
    pub fn index(self) -> usize {
        self.bucket * WAYS + self.place
    }
}

const HOME_MASK: u32 = GROUP as u32 - 1;

impl<'m> Cache<'m> {
    #[inline(always)]
    pub(crate) fn place(&self, hash: u64) -> Place {
        let (upper, lower) = ((hash >> 32) as u32, hash as u32);
        let group = self.group_of(upper);
        let home = upper & HOME_MASK;
        Place { group, home: group * GROUP + home as usize, tag: lower & !HOME_MASK | home, hash: upper }
    }

    #[inline(always)]
    pub(crate) fn group_of(&self, upper: u32) -> usize {
        ((u64::from(upper) * self.layout.groups as u64) >> 32) as usize
    }

    #[inline(always)]
    pub(crate) fn bucket(&self, bucket: usize) -> usize {
        self.layout.buckets + bucket * BUCKET
    }

    #[inline(always)]
    pub(crate) fn tag(&self, way: Way) -> &'m AtomicU32 {
        self.region.word(self.bucket(way.bucket) + TAGS + way.place)
    }

    #[inline(always)]
    pub(crate) fn position(&self, way: Way) -> &'m AtomicU32 {
        self.region.word(self.bucket(way.bucket) + POSITIONS + way.place)
    }

    #[inline(always)]
    pub(crate) fn spill(&self, bucket: usize) -> &'m AtomicU32 {
        self.region.word(self.bucket(bucket) + SPILL)
    }

    #[inline(always)]
    pub(crate) fn proof(&self, way: Way) -> &'m AtomicU32 {
        self.region.word(self.layout.proofs + way.index())
    }

    #[inline(always)]
    pub(crate) fn hits(&self, way: Way) -> &'m AtomicU32 {
        self.region.word(self.layout.hits + way.index())
    }

    /// The ways of a group, those of bucket `home` first.
    pub(crate) fn ways(&self, group: usize, home: usize) -> impl Iterator<Item = Way> {
        (0..GROUP).flat_map(move |step| {
            let bucket = group * GROUP + (home + step) % GROUP;
            (0..WAYS).map(move |place| Way { bucket, place })
        })
    }

    /// The segment that `position` lies in, and the words from there to its end; `None` when it points nowhere.
    #[inline(always)]
    pub(crate) fn record(&self, position: u32) -> Option<(usize, &'m [AtomicU32])> {
        let at = (position as usize).checked_sub(self.layout.arena)?;
        let (segment, offset) = (at >> self.layout.segment_shift, at & (self.layout.segment_words - 1));
        let left = self.layout.segment_words - offset;
        if segment >= self.layout.segment_count() || left < entry::HEADER {
            return None;
        }
        Some((segment, self.region.slice(position as usize, left)?))
    }

    /// The way that holds `key`. Its result lasts as long as the group is locked.
    pub(crate) fn find(&self, place: Place, key: &[u8]) -> Option<(Way, u32)> {
        for way in self.ways(place.group, place.home % GROUP) {
            if self.tag(way).load(Relaxed) != place.tag {
                continue;
            }
            let position = self.position(way).load(Acquire);
            let Some((_, record)) = self.record(position).filter(|_| position != 0) else { continue };
            let head = Head::read(record);
            if head.hash == place.hash && head.is_key(record, key) {
                return Some((way, position));
            }
        }
        None
    }

    /// The way of a group that points at `position`. Lasts as long as the group is locked.
    pub(crate) fn holder(&self, group: usize, home: usize, position: u32) -> Option<Way> {
        self.ways(group, home).find(|&way| self.position(way).load(Relaxed) == position)
    }

    /// Number of keys in the index, expired ones included. O(index).
    #[must_use]
    pub fn entries(&self) -> usize {
        let groups = 0..self.layout.groups;
        groups.map(|group| self.ways(group, 0).filter(|&way| self.position(way).load(Relaxed) != 0).count()).sum()
    }
}

/// A group's lock, given back when dropped, unless its thread was stopped.
pub(crate) struct GroupGuard<'g, 'm, S: Steps> {
    session: &'g Session<'m, S>,
    group: usize,
}

impl<S: Steps> Drop for GroupGuard<'_, '_, S> {
    fn drop(&mut self) {
        if self.session.steps.stopped() {
            return;
        }
        if std::thread::panicking() {
            self.session.mend_group(self.group);
        }
        lock::give(self.session.cache.group_lock(self.group));
    }
}

impl<'m> Cache<'m> {
    #[inline(always)]
    fn group_lock(&self, group: usize) -> &'m AtomicU32 {
        self.region.word(self.bucket(group * GROUP) + LOCK)
    }
}

impl<'m, S: Steps> Session<'m, S> {
    /// Locks a group, mends it first when its holder died.
    #[inline]
    pub(crate) fn lock_group(&self, group: usize) -> GroupGuard<'_, 'm, S> {
        let taken = lock::take(self.cache.group_lock(group), self.owner, &self.cache.seats());
        self.guard_group(group, taken)
    }

    /// Locks a group unless another thread holds it for long.
    #[inline]
    pub(crate) fn try_lock_group(&self, group: usize, turns: u32) -> Option<GroupGuard<'_, 'm, S>> {
        let taken = lock::try_take(self.cache.group_lock(group), self.owner, &self.cache.seats(), turns)?;
        Some(self.guard_group(group, taken))
    }

    #[inline(always)]
    fn guard_group(&self, group: usize, taken: Taken) -> GroupGuard<'_, 'm, S> {
        let guard = GroupGuard { session: self, group };
        if taken == Taken::Stolen {
            self.count(Counter::Stolen);
            self.mend_group(group);
        }
        self.steps.step();
        guard
    }

    /// Empties a way. The group is locked.
    pub(crate) fn clear(&self, way: Way) {
        let cache = &self.cache;
        cache.position(way).store(0, Release);
        self.steps.step();
        self.void(way);
        let home = way.bucket / GROUP * GROUP + (cache.tag(way).load(Relaxed) & HOME_MASK) as usize;
        if home != way.bucket {
            self.steps.step();
            self.settle_spill(home);
        }
    }

    /// Points a way at a record: first of a new key, or in place of what it held. The group is locked.
    pub(crate) fn point(&self, way: Way, place: Place, position: u32) {
        let cache = &self.cache;
        if way.bucket != place.home {
            cache.spill(place.home).store(1, Relaxed);
            self.steps.step();
        }
        let before = cache.tag(way).load(Relaxed);
        cache.tag(way).store(place.tag, Relaxed);
        self.steps.step();
        cache.position(way).store(position, Release);
        self.steps.step();
        self.void(way);
        let left = way.bucket / GROUP * GROUP + (before & HOME_MASK) as usize;
        if left != way.bucket && left != place.home {
            self.steps.step();
            self.settle_spill(left);
        }
    }

    /// Voids what L0 caches rely on: counts the way's proof. The group is locked.
    fn void(&self, way: Way) {
        self.cache.proof(way).fetch_add(1, Release);
    }

    /// Whether a key of bucket `home` lies elsewhere in the group. The group is locked.
    fn settle_spill(&self, home: usize) {
        let cache = &self.cache;
        let strays = |way: Way| {
            way.bucket != home
                && cache.position(way).load(Relaxed) != 0
                && cache.tag(way).load(Relaxed) & HOME_MASK == home as u32 % GROUP as u32
        };
        let spilt = cache.ways(home / GROUP, 0).any(strays);
        cache.spill(home).store(u32::from(spilt), Relaxed);
    }

    /// Makes a group whole after its holder died at any point: drops ways whose tag is not their record's, and voids all
    /// proofs, because a change may have been made whose proof was not counted. The group is locked.
    #[cold]
    fn mend_group(&self, group: usize) {
        let cache = &self.cache;
        for way in cache.ways(group, 0) {
            let position = cache.position(way).load(Relaxed);
            if position != 0 && !self.belongs(way, position) {
                cache.position(way).store(0, Release);
            }
            self.void(way);
        }
        for bucket in group * GROUP..(group + 1) * GROUP {
            self.settle_spill(bucket);
        }
    }

    fn belongs(&self, way: Way, position: u32) -> bool {
        let Some((_, record)) = self.cache.record(position) else { return false };
        let head = Head::read(record);
        if head.words() > record.len() {
            return false;
        }
        let mut key = vec![0; head.key_len];
        let _ = entry::take(&record[entry::HEADER..], &mut key);
        let place = self.cache.place(hash64(&key));
        place.hash == head.hash && place.group == way.bucket / GROUP && place.tag == self.cache.tag(way).load(Relaxed)
    }
}
