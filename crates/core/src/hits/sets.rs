//! The counters of a window: sets of ways, each a hash with its count and error.
//!
//! Invariant: within a set a hash has at most one way, and a way whose count is 0 is free, whatever its tag says. For a key with
//! a way `count - error <= hits <= count`; for one without, `hits <= least count of its set`. A count is at most the hits of its
//! window, which the recorder keeps within a word.
//!
//! ```text
//! key in the set          count += weight
//! key that is not         a way with the least count: hash = the key's, error = count, count += weight
//!
//! marks    a byte a way: least? (1 bit) | the lowest 7 bits of the hash's upper half
//! way      lower half of the hash, its tag | upper half | count | error
//! ```
//! The marks lie apart, so that a set is searched without a look at its ways. The bits for "least" are made when the last one
//! is gone; until then they only go, since counts only grow. A key is told from another by its set, mark and tag: 49 bits of the
//! hash at 1,024 sets, so that a hit in 2^36 goes to a wrong key.
//!
//! Whether a key has a way, and which, cannot be guessed by a processor, so both cases take the same steps: a wrong guess costs
//! more than all of them.

use super::layout::{MARKS, SET, WAY, WAYS};
use super::window::CANDIDATE;
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;
use std::hint::select_unpredictable;

const ONES: u64 = 0x0101_0101_0101_0101;
/// The highest bit of each byte.
const TOPS: u64 = ONES << 7;
/// The bytes that belong to ways.
const USED: u64 = u64::MAX >> (64 - 8 * WAYS);
const TAG: usize = 0;
const UPPER: usize = 1;
const COUNT: usize = 2;
const ERROR: usize = 3;

/// The set that a hash falls into.
#[inline(always)]
pub(super) fn set_of(hash: u64, sets: u32) -> usize {
    (((hash >> 32) * u64::from(sets)) >> 32) as usize
}

/// One way of a set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub hash: u64,
    pub count: u32,
    pub error: u32,
}

/// A view of the counters.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sets<'m> {
    marks: &'m [[AtomicU32; MARKS]],
    sets: &'m [[AtomicU32; SET]],
}

#[inline(always)]
fn get(words: &[AtomicU32], at: usize) -> u32 {
    words[at].load(Relaxed)
}

#[inline(always)]
fn put(words: &[AtomicU32], at: usize, value: u32) {
    words[at].store(value, Relaxed);
}

/// First word of the way whose byte has the lowest bit.
#[inline(always)]
fn first_way(bits: u64) -> usize {
    (bits.trailing_zeros() / 8) as usize % WAYS * WAY
}

/// The highest bit of the byte of each way that has the least count of its set.
#[inline(never)]
fn least_ways(set: &[AtomicU32; SET]) -> u64 {
    let counts: [u32; WAYS] = std::array::from_fn(|way| get(set, way * WAY + COUNT));
    let least = counts.into_iter().fold(u32::MAX, u32::min);
    counts.iter().enumerate().fold(0, |bits, (way, &count)| bits | u64::from(count == least) << (8 * way + 7))
}

impl<'m> Sets<'m> {
    pub fn new(marks: &'m [AtomicU32], sets: &'m [AtomicU32]) -> Self {
        Self { marks: marks.as_chunks().0, sets: sets.as_chunks().0 }
    }

    /// Counts `weight` hits. True when the key's sure hits have just reached [`CANDIDATE`].
    #[inline(always)]
    pub fn add(&self, hash: u64, weight: u32) -> bool {
        let at = set_of(hash, self.sets.len() as u32);
        let (Some(set), Some(marks)) = (self.sets.get(at), self.marks.get(at)) else { return false };
        let (tag, upper) = (hash as u32, (hash >> 32) as u32);
        let is_at = |way: usize| get(set, way + TAG) == tag;
        let mark = u64::from(get(marks, 1)) << 32 | u64::from(get(marks, 0));
        let differ = mark ^ (u64::from(upper & 0x7f) * ONES);
        let matches = !((differ & !TOPS) + !TOPS) & TOPS & USED;
        let mut own = first_way(matches);
        let mut others = matches & matches.wrapping_sub(1);
        while others != 0 && !is_at(own) {
            own = first_way(others);
            others &= others - 1;
        }
        let found = is_at(own);
        let mut least = mark & TOPS;
        if least == 0 {
            least = least_ways(set);
        }
        let way = select_unpredictable(found, own, first_way(least));
        let count = get(set, way + COUNT);
        let error = select_unpredictable(found, get(set, way + ERROR), count);
        put(set, way + TAG, tag);
        put(set, way + UPPER, upper);
        put(set, way + ERROR, error);
        put(set, way + COUNT, count.wrapping_add(weight));
        let mark = (mark | least) ^ (differ | least) & 0xff << (way * 8 / WAY);
        put(marks, 0, mark as u32);
        put(marks, 1, (mark >> 32) as u32);
        // One comparison for "less than before, and no longer": what is missing to one hit less wraps once it is there.
        weight > (CANDIDATE - 1).wrapping_sub(count.wrapping_sub(error))
    }

    /// The ways of a set; those with count 0 are free.
    #[inline]
    pub fn ways(&self, set: usize) -> [Way; WAYS] {
        let Some(words) = self.sets.get(set) else { return [Way::default(); WAYS] };
        std::array::from_fn(|way| {
            let word = |word: usize| get(words, way * WAY + word);
            let hash = u64::from(word(UPPER)) << 32 | u64::from(word(TAG));
            Way { hash, count: word(COUNT), error: word(ERROR) }
        })
    }

    /// Frees all ways. Tags stay: a key that comes back finds its way.
    pub fn clear(&self) {
        for marks in self.marks {
            put(marks, 0, get(marks, 0) & !TOPS as u32);
            put(marks, 1, get(marks, 1) & !TOPS as u32);
        }
        for set in self.sets {
            for way in 0..WAYS {
                put(set, way * WAY + COUNT, 0);
                put(set, way * WAY + ERROR, 0);
            }
        }
    }
}
