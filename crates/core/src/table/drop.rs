//! Invalidation: of one key, of what one connection or one thread fed, of a domain's keys with a prefix, of everything.
//!
//! Invariant: when a call returns, no lookup that starts later, in any thread, returns what was cached before it as fresh, every
//! proof that vouched for it is void, and no load that began before it will be stored.
//!
//! ```text
//! feeder   seat of the thread that has the connection, 0 to 127 << 9 | number of the connection, 1 to 511       0 is nobody
//! ```

use crate::cache::Session;
use crate::entry::{self, Head};
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, Steps};
use crate::thread::Counter;

/// Bits of a feeder that number a thread's connections; those above name the thread's seat.
pub const FEEDER_BITS: u32 = 9;

impl<S: Steps> Session<'_, S> {
    /// Forgets one key. True when it was cached. O(key).
    pub fn invalidate(&self, hash: u64, key: &[u8]) -> bool {
        self.count(Counter::Invalidations);
        self.cache.overtake(hash);
        self.steps.step();
        self.remove(hash, key)
    }

    /// Removes a key without overtaking its loads.
    pub(crate) fn remove(&self, hash: u64, key: &[u8]) -> bool {
        let place = self.cache.place(hash);
        let _guard = self.lock_group(place.group);
        match self.cache.find(place, key) {
            Some((way, _)) => {
                self.clear(way);
                true
            }
            None => false,
        }
    }

    /// Forgets everything. O(index).
    pub fn invalidate_all(&self) {
        self.sweep_index(|_, _| true);
    }

    /// Forgets what `feeder` fed. Returns how many keys that were. O(index).
    pub fn invalidate_feeder(&self, feeder: u16) -> usize {
        self.sweep_index(|head, _| head.feeder == feeder)
    }

    /// Forgets what the connections of the thread in `seat` fed: nobody hears of changes for them any more. O(index).
    pub fn invalidate_seat(&self, seat: u16) -> usize {
        let number = (1 << FEEDER_BITS) - 1;
        self.sweep_index(|head, _| head.feeder & number != 0 && head.feeder >> FEEDER_BITS == seat)
    }

    /// Lets what `feeder` fed expire now. Only readers that allow it are given such values from then on. Returns how many keys
    /// that were. O(index).
    pub fn expire_feeder(&self, feeder: u16) -> usize {
        self.count(Counter::Invalidations);
        self.cache.overtake_all();
        self.steps.step();
        (0..self.cache.layout.groups).map(|group| self.expire_group(group, feeder)).sum()
    }

    /// Under the lock no record can be recycled while its words are written.
    fn expire_group(&self, group: usize, feeder: u16) -> usize {
        let cache = &self.cache;
        let now = cache.now();
        let _guard = self.lock_group(group);
        let mut expired = 0;
        for way in cache.ways(group, 0) {
            let position = cache.position(way).load(Relaxed);
            let Some((_, record)) = cache.record(position).filter(|_| position != 0) else { continue };
            let head = Head::read(record);
            let fresh = (head.expiry.wrapping_sub(now) as i32) > 0;
            if head.feeder == feeder && fresh {
                record[entry::EXPIRY].store(now, Relaxed);
                self.steps.step();
                self.void(way);
                expired += 1;
            }
        }
        expired
    }

    /// Forgets the keys of `domain` that begin with `prefix`. Returns how many they were. O(index).
    pub fn invalidate_prefix(&self, domain: u16, prefix: &[u8]) -> usize {
        self.sweep_index(|head, record| {
            head.domain == domain
                && head.key_len >= prefix.len()
                && record.get(entry::HEADER..).is_some_and(|key| entry::starts_with(key, prefix))
        })
    }

    fn sweep_index(&self, doomed: impl Fn(&Head, &[AtomicU32]) -> bool) -> usize {
        self.count(Counter::Invalidations);
        self.cache.overtake_all();
        self.steps.step();
        (0..self.cache.layout.groups).map(|group| self.sweep_group(group, &doomed)).sum()
    }

    /// Removes the records of a group that `doomed` picks. Under the lock no record can be recycled while it is looked at.
    fn sweep_group(&self, group: usize, doomed: &impl Fn(&Head, &[AtomicU32]) -> bool) -> usize {
        let cache = &self.cache;
        let _guard = self.lock_group(group);
        let mut removed = 0;
        for way in cache.ways(group, 0) {
            let position = cache.position(way).load(Relaxed);
            if position == 0 {
                continue;
            }
            if cache.record(position).is_none_or(|(_, record)| doomed(&Head::read(record), record)) {
                self.clear(way);
                removed += 1;
            }
        }
        removed
    }

    /// Removes what expired at least `ms` ago from `count` groups, from group `from` on. Returns the group to go on with.
    pub fn purge(&self, from: usize, count: usize, ms: u32) -> usize {
        let groups = self.cache.layout.groups;
        let now = self.cache.now();
        let old = |head: &Head, _: &[AtomicU32]| {
            let age = now.wrapping_sub(head.expiry);
            age as i32 >= 0 && age >= ms
        };
        let from = if from < groups { from } else { 0 };
        let to = (from + count).min(groups);
        for group in from..to {
            self.sweep_group(group, &old);
        }
        if to < groups { to } else { 0 }
    }
}
