//! The counters of a window: sets of ways, each a hash with its count and how much of that is sure.
//!
//! Invariant: within a set a hash has at most one way, and a way whose count is 0 is free, whatever its tag says. For a key with
//! a way `sure <= hits <= count`; for one without, `hits <= least count of its set`. A count is at most the hits of its window,
//! which the recorder keeps within a word.
//!
//! ```text
//! key in the set          count += weight, sure += weight
//! key that is not         a way with the least count: hash = the key's, count += weight, sure = weight
//!
//! set     line 0   tag: the lower half of the hash, one a way | count
//!         line 1   upper half                                 | sure hits
//! ```

use super::layout::{SET, WAYS};
use super::tally::{COUNT, SURE, TAG, UPPER};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;

/// The set that a hash falls into.
#[inline(always)]
pub(super) fn set_of(hash: u64, sets: u32) -> usize {
    (((hash >> 32) * u64::from(sets)) >> 32) as usize
}

/// The words of a set.
pub(super) type Set = [AtomicU32; SET];

/// One way of a set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub hash: u64,
    pub count: u32,
    pub sure: u32,
}

/// A view of the counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sets<'m> {
    sets: &'m [Set],
}

impl<'m> Sets<'m> {
    pub fn new(sets: &'m [AtomicU32]) -> Self {
        Self { sets: sets.as_chunks().0 }
    }

    /// The set that a hash falls into.
    #[inline(always)]
    pub fn of(&self, hash: u64) -> Option<&'m Set> {
        self.sets.get(set_of(hash, self.sets.len() as u32))
    }

    /// The ways of a set; those with count 0 are free.
    #[inline]
    pub fn ways(&self, set: usize) -> [Way; WAYS] {
        let Some(words) = self.sets.get(set) else { return [Way::default(); WAYS] };
        std::array::from_fn(|way| {
            let word = |kind: usize| words[kind + way].load(Relaxed);
            let hash = u64::from(word(UPPER)) << 32 | u64::from(word(TAG));
            Way { hash, count: word(COUNT), sure: word(SURE) }
        })
    }

    /// Frees all ways. Hashes stay: a key that comes back finds its way.
    pub fn clear(&self) {
        for set in self.sets {
            for way in 0..WAYS {
                set[COUNT + way].store(0, Relaxed);
                set[SURE + way].store(0, Relaxed);
            }
        }
    }
}
