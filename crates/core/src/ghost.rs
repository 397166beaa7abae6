//! Ghosts: fingerprints of keys that were evicted on probation, so that one that comes back goes to the main queue at once.
//!
//! Invariant: a hint, never a proof: a wrong answer costs hit ratio only. Changed under the shard's lock alone.
//!
//! ```text
//! set    16 fingerprints, one a word         word   fingerprint (16 bits) << 16 | age stamp (16 bits); 0 = none
//! stamp  ghosts made in the shard so far, in units of 1/256 of its ghost table
//! ```
//! An entry counts for one table's worth of ghosts, as in a FIFO of that length; sets replace their oldest.

use crate::arena::GHOSTS;
use crate::cache::Session;
use crate::layout::GHOST_SET;
use crate::sync::Ordering::Relaxed;
use crate::sync::{AtomicU32, Steps};
use crate::table::{Place, Way};

/// Stamps that make a table's worth of ghosts.
const WINDOW: u16 = 256;

impl<S: Steps> Session<'_, S> {
    /// Notes the key of a way that is about to be evicted. The shard and the way's group are locked.
    pub(crate) fn remember(&self, shard: usize, way: Way) {
        let cache = &self.cache;
        let tag = cache.tag(way).load(Relaxed);
        let made = cache.shard(shard, GHOSTS);
        made.store(made.load(Relaxed).wrapping_add(1), Relaxed);
        let stamp = self.stamp(shard);
        let set = self.ghosts(shard, way.bucket, tag);
        let age = |word: u32| if word == 0 { u16::MAX } else { stamp.wrapping_sub(word as u16) };
        let same = |word: &&AtomicU32| word.load(Relaxed) >> 16 == print(tag);
        let oldest = || set.iter().max_by_key(|word| age(word.load(Relaxed)));
        if let Some(word) = set.iter().find(same).or_else(oldest) {
            word.store(print(tag) << 16 | u32::from(stamp), Relaxed);
        }
    }

    /// Whether the key was evicted on probation within the last table's worth of ghosts.
    pub(crate) fn is_remembered(&self, shard: usize, place: Place) -> bool {
        let stamp = self.stamp(shard);
        self.ghosts(shard, place.home, place.tag).iter().any(|word| {
            let word = word.load(Relaxed);
            word >> 16 == print(place.tag) && stamp.wrapping_sub(word as u16) <= WINDOW
        })
    }

    fn stamp(&self, shard: usize) -> u16 {
        let capacity = self.cache.layout.ghost_sets_per_shard * GHOST_SET;
        (self.cache.shard(shard, GHOSTS).load(Relaxed) as usize * WINDOW as usize / capacity) as u16
    }

    /// The set of a key: chosen by its group and tag, both of which a way in the index still tells.
    fn ghosts(&self, shard: usize, bucket: usize, tag: u32) -> &[AtomicU32] {
        let layout = &self.cache.layout;
        let mixed = (bucket / crate::layout::GROUP) as u64 ^ u64::from(tag) << 32;
        let mixed = mixed.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32;
        let set = shard * layout.ghost_sets_per_shard + ((mixed * layout.ghost_sets_per_shard as u64) >> 32) as usize;
        self.cache.region.slice(layout.ghost + set * GHOST_SET, GHOST_SET).unwrap_or_default()
    }
}

/// Upper bits of a tag, never 0.
fn print(tag: u32) -> u32 {
    (tag >> 16).max(1)
}
