//! What leaves the arena: S3-FIFO (Yang et al., SOSP 2023) over segments instead of single objects.
//!
//! Invariant: a segment is free only when each of its records was seen and no way points at one any more. Promotion moves a
//! record without voiding its proof: the value is the same.
//!
//! ```text
//! new key ──> small queue (10 % of the arena) ──swept──> hit since: main queue     else: gone, its fingerprint a ghost
//! ghost's key ──> main queue ──swept──> hit since: main queue again, one hit less     else: gone
//! ```
//! A sweep is paid for in small parts by the stores that need its room, so no store walks a whole segment, unless it finds the
//! reserve used up.

use crate::arena::{FILLING, FREE, OFFSET, OPENED, ORDER, QUEUE, Queue, SMALL, SWEPT};
use crate::cache::Session;
use crate::entry::{self, Head};
use crate::layout::GROUP;
use crate::sync::Ordering::{Relaxed, Release};
use crate::sync::{AtomicU32, Steps};
use crate::table::{HIT_CAP, Way};
use crate::thread::Counter;

/// Free segments to keep: one to fill next, one for what a sweep promotes meanwhile.
const RESERVE: u32 = 2;
/// Words swept per word stored while the reserve is not whole: enough for several victims that are all promoted before the
/// segment being filled is full.
const PACE: usize = 8;
/// Whole segments that a store in need sweeps without gain before it evicts whatever comes.
const PATIENCE: usize = 8;
impl<S: Steps> Session<'_, S> {
    /// Sweeps until the reserve is there.
    pub(crate) fn make_room(&self, shard: usize) {
        let mut rounds = 0;
        while self.tallied(shard, FREE) < RESERVE && rounds < 4 * self.cache.layout.segments_per_shard {
            if !self.sweep(shard, usize::MAX, rounds >= PATIENCE) {
                return;
            }
            rounds += 1;
        }
    }

    /// Pays for `words` stored: sweeps some words when the reserve is not whole.
    pub(crate) fn keep_room(&self, shard: usize, words: usize) {
        if self.tallied(shard, FREE) < RESERVE {
            self.sweep(shard, words * PACE, false);
        }
    }

    /// Sweeps up to `budget` words of the oldest segment of the queue that is over its share. False when there is none.
    fn sweep(&self, shard: usize, budget: usize, force: bool) -> bool {
        let cache = &self.cache;
        let Some(segment) = self.named(shard, SWEPT).or_else(|| self.choose(shard)) else { return false };
        let (start, used) = (cache.start_of(segment), cache.used(segment));
        let offset = cache.shard(shard, OFFSET);
        let mut at = offset.load(Relaxed) as usize;
        let stop = at.saturating_add(budget).min(used);
        while at < stop {
            let step = self.sweep_record(shard, segment, start + at, used - at.min(used), force);
            at += step;
            offset.store(at as u32, Relaxed);
            self.steps.step();
        }
        if at >= used {
            self.free(shard, segment);
        }
        true
    }

    /// The oldest segment of the small queue when that is over its share, else of the main queue; marked as being swept.
    fn choose(&self, shard: usize) -> Option<usize> {
        let cache = &self.cache;
        let share = cache.layout.segments_per_shard * cache.layout.options.small_percent as usize / 100;
        let over = self.tallied(shard, SMALL) as usize > share.max(1);
        let (first, second) = if over { (Queue::Small, Queue::Main) } else { (Queue::Main, Queue::Small) };
        let segment = self.oldest(shard, first).or_else(|| self.oldest(shard, second))?;
        cache.shard(shard, OFFSET).store(0, Relaxed);
        self.steps.step();
        cache.shard(shard, SWEPT).store(segment as u32 + 1, Relaxed);
        Some(segment)
    }

    fn oldest(&self, shard: usize, queue: Queue) -> Option<usize> {
        let cache = &self.cache;
        let filling = self.named(shard, FILLING + queue as usize);
        let next = cache.shard(shard, ORDER).load(Relaxed);
        let sealed = |&segment: &usize| cache.queue_of(segment) == queue && Some(segment) != filling;
        let age = |segment: &usize| next.wrapping_sub(cache.segment(*segment, OPENED).load(Relaxed));
        cache.segments_of(shard).filter(sealed).max_by_key(age)
    }

    /// Promotes or evicts the record at `position`, if a way still points at it. Returns its words.
    fn sweep_record(&self, shard: usize, segment: usize, position: usize, left: usize, force: bool) -> usize {
        let cache = &self.cache;
        let Some(record) = cache.region.slice(position, left).filter(|record| record.len() >= entry::HEADER) else {
            return self.abandon(segment, left);
        };
        let head = Head::read(record);
        let words = head.words();
        if words > left {
            return self.abandon(segment, left);
        }
        let group = cache.group_of(head.hash);
        let Some(way) = cache.holder(group, head.hash as usize % GROUP, position as u32) else { return words };
        let hits = cache.hits(way).load(Relaxed).min(HIT_CAP);
        let fresh = head.expiry.wrapping_sub(cache.now()) as i32 > 0;
        let small = cache.queue_of(segment) == Queue::Small;
        let promoted = fresh && hits > 0 && !force && self.promote(shard, group, way, position, &record[..words]);
        if promoted {
            cache.hits(way).store(if small { 0 } else { hits - 1 }, Relaxed);
            return words;
        }
        let _guard = self.lock_group(group);
        if cache.position(way).load(Relaxed) == position as u32 {
            if small && fresh {
                self.remember(shard, way);
            }
            self.clear(way);
            self.count(Counter::Evictions);
        }
        words
    }

    /// Copies a record to the main queue and points its way there; its proof stands, for its value is the same. False when the
    /// main queue has no room.
    fn promote(&self, shard: usize, group: usize, way: Way, position: usize, record: &[AtomicU32]) -> bool {
        let cache = &self.cache;
        let room = self.fit(shard, Queue::Main, record.len()).or_else(|| {
            self.open(shard, Queue::Main)?;
            self.fit(shard, Queue::Main, record.len())
        });
        let Some((to, copy)) = room.and_then(|to| Some((to, cache.region.slice(to, record.len())?))) else {
            return false;
        };
        entry::copy(record, copy);
        self.steps.step();
        self.commit(to, record.len());
        self.steps.step();
        let _guard = self.lock_group(group);
        if cache.position(way).load(Relaxed) == position as u32 {
            // Written under the lock, and perhaps since the record was copied.
            for word in [entry::EXPIRY, entry::REFRESH] {
                copy[word].store(record[word].load(Relaxed), Relaxed);
            }
            cache.position(way).store(to as u32, Release);
        }
        true
    }

    /// A chain of records that leads nowhere (memory overwritten from outside): clears every way into the segment. O(index).
    #[cold]
    fn abandon(&self, segment: usize, left: usize) -> usize {
        let cache = &self.cache;
        for group in 0..cache.layout.groups {
            let _guard = self.lock_group(group);
            for way in cache.ways(group, 0) {
                let position = cache.position(way).load(Relaxed);
                if cache.record(position).is_some_and(|(of, _)| of == segment) {
                    self.clear(way);
                }
            }
        }
        left.max(1)
    }

    /// Ends a sweep: nothing points into the segment any more.
    fn free(&self, shard: usize, segment: usize) {
        let cache = &self.cache;
        let small = cache.queue_of(segment) == Queue::Small;
        cache.shard(shard, SWEPT).store(0, Relaxed);
        self.steps.step();
        cache.segment(segment, QUEUE).store(Queue::Free as u32, Relaxed);
        self.steps.step();
        self.tally(shard, FREE, 1);
        if small {
            self.tally(shard, SMALL, u32::MAX);
        }
        self.count(Counter::Recycled);
    }
}
