//! The arena: segments that records are appended to, and the shards that own them.
//!
//! Invariant: a segment's words are written only by the holder of its shard's lock, and only past its `used` words; it is
//! opened for new records only after a sweep saw every record in it, so no way of the index points into it, and its generation
//! is counted before the first new word. Each change of state is one word, so a thread that stops between two leaves at worst
//! a segment that holds nothing.
//!
//! ```text
//! segment    generation | used | queue (0 free, 1 small, 2 main) | order of opening
//! shard      lock | filling small | filling main | being swept | sweep's offset | free | small | next order | ghosts
//!            a segment is named by its number + 1
//! ```

use crate::cache::{Cache, Session};
use crate::layout::{SEGMENT, SHARD};
use crate::lock::{self, Taken};
use crate::sync::Ordering::{Relaxed, Release};
use crate::sync::{AtomicU32, Steps, fence};
use crate::thread::Counter;

const LOCK: usize = 0;
/// + queue: words 1 and 2.
pub(crate) const FILLING: usize = 0;
pub(crate) const SWEPT: usize = 3;
pub(crate) const OFFSET: usize = 4;
pub(crate) const FREE: usize = 5;
pub(crate) const SMALL: usize = 6;
pub(crate) const ORDER: usize = 7;
pub(crate) const GHOSTS: usize = 8;

const GENERATION: usize = 0;
const USED: usize = 1;
pub(crate) const QUEUE: usize = 2;
pub(crate) const OPENED: usize = 3;

/// Turns that a store waits for its shard: some tens of microseconds of spinning, then yielding.
const SHARD_TURNS: u32 = if cfg!(loom) { 8 } else { 4096 };

/// What a segment belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub(crate) enum Queue {
    Free = 0,
    Small = 1,
    Main = 2,
}

impl<'m> Cache<'m> {
    #[inline(always)]
    pub(crate) fn segment(&self, segment: usize, word: usize) -> &'m AtomicU32 {
        self.region.word(self.layout.segments + segment * SEGMENT + word)
    }

    #[inline(always)]
    pub(crate) fn shard(&self, shard: usize, word: usize) -> &'m AtomicU32 {
        self.region.word(self.layout.shards + shard * SHARD + word)
    }

    /// Counts how often a segment was opened.
    #[inline(always)]
    pub(crate) fn generation(&self, segment: usize) -> &'m AtomicU32 {
        self.segment(segment, GENERATION)
    }

    pub(crate) fn queue_of(&self, segment: usize) -> Queue {
        match self.segment(segment, QUEUE).load(Relaxed) {
            1 => Queue::Small,
            2 => Queue::Main,
            _ => Queue::Free,
        }
    }

    /// Sets the shards of a new region up.
    pub(crate) fn lay_shards(&self) {
        for shard in 0..self.layout.shard_count {
            self.shard(shard, FREE).store(self.layout.segments_per_shard as u32, Relaxed);
        }
    }

    pub(crate) fn segments_of(&self, shard: usize) -> std::ops::Range<usize> {
        let count = self.layout.segments_per_shard;
        shard * count..(shard + 1) * count
    }

    pub(crate) fn start_of(&self, segment: usize) -> usize {
        self.layout.arena + segment * self.layout.segment_words
    }

    pub(crate) fn used(&self, segment: usize) -> usize {
        (self.segment(segment, USED).load(Relaxed) as usize).min(self.layout.segment_words)
    }

    /// Words of records in the arena, those no longer pointed at included. O(segments).
    #[must_use]
    pub fn arena_words_used(&self) -> usize {
        let taken = |&segment: &usize| self.queue_of(segment) != Queue::Free;
        (0..self.layout.segment_count()).filter(taken).map(|segment| self.used(segment)).sum()
    }
}

/// A shard's lock, given back when dropped, unless its thread was stopped.
pub(crate) struct ShardGuard<'g, 'm, S: Steps> {
    session: &'g Session<'m, S>,
    shard: usize,
}

impl<S: Steps> Drop for ShardGuard<'_, '_, S> {
    fn drop(&mut self) {
        if self.session.steps.stopped() {
            return;
        }
        if std::thread::panicking() {
            self.session.mend_shard(self.shard);
        }
        lock::give(self.session.cache.shard(self.shard, LOCK));
    }
}

impl<'m, S: Steps> Session<'m, S> {
    #[inline(always)]
    pub(crate) fn shard_of(&self, group: usize) -> usize {
        group & (self.cache.layout.shard_count - 1)
    }

    /// Locks a shard, mends it first when its holder died; `None` when another thread holds it for long.
    pub(crate) fn lock_shard(&self, shard: usize) -> Option<ShardGuard<'_, 'm, S>> {
        let word = self.cache.shard(shard, LOCK);
        let taken = lock::try_take(word, self.owner, &self.cache.seats(), SHARD_TURNS)?;
        let guard = ShardGuard { session: self, shard };
        if taken == Taken::Stolen {
            self.count(Counter::Stolen);
            self.mend_shard(shard);
        }
        self.steps.step();
        Some(guard)
    }

    /// Room for a record in the segment that `queue` fills; sweeps when none is free. The shard is locked.
    pub(crate) fn allocate(&self, shard: usize, queue: Queue, words: usize) -> Option<usize> {
        if let Some(position) = self.fit(shard, queue, words) {
            return Some(position);
        }
        self.make_room(shard);
        self.open(shard, queue)?;
        self.fit(shard, queue, words)
    }

    pub(crate) fn fit(&self, shard: usize, queue: Queue, words: usize) -> Option<usize> {
        let segment = self.named(shard, FILLING + queue as usize)?;
        let used = self.cache.used(segment);
        (used + words <= self.cache.layout.segment_words).then(|| self.cache.start_of(segment) + used)
    }

    /// Makes the record just written at `position` part of its segment.
    pub(crate) fn commit(&self, position: usize, words: usize) {
        let offset = position - self.cache.layout.arena;
        let (segment, start) = (offset / self.cache.layout.segment_words, offset % self.cache.layout.segment_words);
        self.cache.segment(segment, USED).store((start + words) as u32, Relaxed);
    }

    /// Opens a free segment for `queue`. From here on a reader of what it held before finds its generation changed.
    pub(crate) fn open(&self, shard: usize, queue: Queue) -> Option<()> {
        let cache = &self.cache;
        let segment = cache.segments_of(shard).find(|&segment| cache.queue_of(segment) == Queue::Free)?;
        cache.generation(segment).fetch_add(1, Release);
        fence(Release);
        self.steps.step();
        cache.segment(segment, USED).store(0, Relaxed);
        let order = cache.shard(shard, ORDER);
        cache.segment(segment, OPENED).store(order.load(Relaxed), Relaxed);
        order.store(order.load(Relaxed).wrapping_add(1), Relaxed);
        self.steps.step();
        cache.segment(segment, QUEUE).store(queue as u32, Relaxed);
        self.steps.step();
        cache.shard(shard, FILLING + queue as usize).store(segment as u32 + 1, Relaxed);
        self.steps.step();
        self.tally(shard, FREE, u32::MAX);
        if queue == Queue::Small {
            self.tally(shard, SMALL, 1);
        }
        Some(())
    }

    /// Makes a shard whole after its holder died at any point.
    #[cold]
    fn mend_shard(&self, shard: usize) {
        let cache = &self.cache;
        for queue in [Queue::Small, Queue::Main] {
            if self.named(shard, FILLING + queue as usize).is_some_and(|segment| cache.queue_of(segment) != queue) {
                cache.shard(shard, FILLING + queue as usize).store(0, Relaxed);
            }
        }
        if self.named(shard, SWEPT).is_some_and(|segment| cache.queue_of(segment) == Queue::Free) {
            cache.shard(shard, SWEPT).store(0, Relaxed);
        }
        for (word, queue) in [(FREE, Queue::Free), (SMALL, Queue::Small)] {
            let count = cache.segments_of(shard).filter(|&segment| cache.queue_of(segment) == queue).count();
            cache.shard(shard, word).store(count as u32, Relaxed);
        }
    }

    /// The segment that a word of the shard names, if it is one of the shard's.
    pub(crate) fn named(&self, shard: usize, word: usize) -> Option<usize> {
        let segment = (self.cache.shard(shard, word).load(Relaxed) as usize).checked_sub(1)?;
        self.cache.segments_of(shard).contains(&segment).then_some(segment)
    }

    pub(crate) fn tallied(&self, shard: usize, word: usize) -> u32 {
        self.cache.shard(shard, word).load(Relaxed)
    }

    pub(crate) fn tally(&self, shard: usize, word: usize, change: u32) {
        let count = self.cache.shard(shard, word);
        count.store(count.load(Relaxed).wrapping_add(change), Relaxed);
    }
}
