//! Where in its set a hit is counted: in the key's way, or else in one with the least count, which the key then takes. Once word
//! by word, for any processor, and once by vectors ([`avx2`]); both leave the same words behind.
//!
//! Invariant: only a thread that is in a window tallies in it, so until it leaves nobody else reads or writes those words.
//!
//! ```text
//! set     8 tags | 8 counts | 8 upper halves | 8 sure hits
//! found   least count? no                    ->  count += weight, sure += weight
//! not     the first way with the least count ->  tag, upper half = the key's, count += weight, sure = weight
//! ```
//! Whether a key has a way, and which, cannot be guessed by a processor, so both cases take the same steps: a wrong guess costs
//! more than all of them.

#[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
#[allow(unsafe_code, reason = "vector instructions; every use states why it holds")]
mod avx2;

use super::layout::{SET, WAYS};
use super::window::CANDIDATE;
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;
use std::hint::select_unpredictable;

/// Words of a set before those of a kind, one a way.
pub(super) const TAG: usize = 0;
pub(super) const COUNT: usize = WAYS;
pub(super) const UPPER: usize = 2 * WAYS;
pub(super) const SURE: usize = 3 * WAYS;

/// Hits of a window up to which any way to tally will do; beyond, [`Words`] alone.
pub(super) const MOST: u32 = u32::MAX - 2 * WAYS as u32;

/// A way to tally.
pub(super) trait Tally: Copy {
    /// Counts `weight` hits. True when the key's sure hits have just reached [`CANDIDATE`].
    fn tally(self, set: &[AtomicU32; SET], hash: u64, weight: u32) -> bool;

    /// Has a set brought near that will be tallied in soon.
    #[inline(always)]
    fn fetch(self, _: &[AtomicU32; SET]) {}
}

/// Many hits, to be tallied in whichever way.
pub(super) trait Job {
    /// Does it; how many hits it were.
    fn run(self, tally: impl Tally) -> usize;
}

/// Does a job in the fastest way that this processor has.
#[inline]
pub(super) fn run(job: impl Job) -> usize {
    #[cfg(all(target_arch = "x86_64", not(loom), not(miri)))]
    if let Some(tally) = avx2::Avx2::detect() {
        return tally.run(job);
    }
    job.run(Words)
}

/// Word by word.
#[derive(Clone, Copy, Debug)]
pub(super) struct Words;

impl Tally for Words {
    #[inline(always)]
    fn tally(self, set: &[AtomicU32; SET], hash: u64, weight: u32) -> bool {
        let get = |at: usize| set[at].load(Relaxed);
        let put = |at: usize, value: u32| set[at].store(value, Relaxed);
        let (tag, upper) = (hash as u32, (hash >> 32) as u32);
        let (mut own, mut first, mut least) = (WAYS, 0, u32::MAX);
        for way in (0..WAYS).rev() {
            let differ = get(TAG + way) ^ tag | get(UPPER + way) ^ upper;
            own = select_unpredictable(differ == 0, way, own);
            let count = get(COUNT + way);
            first = select_unpredictable(count <= least, way, first);
            least = least.min(count);
        }
        let found = own < WAYS;
        let way = select_unpredictable(found, own, first) % WAYS;
        let sure = select_unpredictable(found, get(SURE + way), 0);
        put(TAG + way, tag);
        put(UPPER + way, upper);
        put(COUNT + way, get(COUNT + way).wrapping_add(weight));
        put(SURE + way, sure.wrapping_add(weight));
        // One comparison for "less than before, and no longer": what is missing to one hit less wraps once it is there.
        weight > (CANDIDATE - 1).wrapping_sub(sure)
    }
}
