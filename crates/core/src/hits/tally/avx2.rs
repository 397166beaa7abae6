//! The tally by vectors of eight words, on processors with AVX2: a third of the time that it takes word by word.
//!
//! Invariant: an [`Avx2`] exists only where the processor has what this is compiled for. Rows are read and written whole: a
//! vector that is read from where single words were just written waits until these have left for the cache, and the hottest
//! keys come again that soon.
//!
//! ```text
//! rank    count + 1 | way       count + 1 = 0 where the key is; the way takes the lower three bits
//! ```
//! So the way to count in is the one with the least rank, and no two ranks are alike.

use super::{COUNT, Job, SURE, TAG, Tally, UPPER};
use crate::hits::layout::{SET, WAYS};
use crate::hits::window::CANDIDATE;
use crate::sync::AtomicU32;
use core::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_prefetch, _mm256_add_epi32, _mm256_and_si256, _mm256_andnot_si256, _mm256_blendv_epi8,
    _mm256_castsi256_ps, _mm256_cmpeq_epi32, _mm256_loadu_si256, _mm256_max_epu32, _mm256_min_epu32,
    _mm256_movemask_ps, _mm256_permute2x128_si256, _mm256_set1_epi32, _mm256_setr_epi32, _mm256_shuffle_epi32,
    _mm256_slli_epi32, _mm256_storeu_si256, _mm256_sub_epi32,
};

/// Bits of a way's number.
const WAY_BITS: i32 = WAYS.trailing_zeros() as i32;
/// Counts from here on rank alike. The least of a set's is below: it is at most an eighth of [`super::MOST`].
const RANKED: u32 = u32::MAX / WAYS as u32 - 1;

/// The word of who has seen that the processor can.
#[derive(Clone, Copy, Debug)]
pub(super) struct Avx2(());

impl Avx2 {
    /// `None` on a processor that lacks any of it. It is asked once a process.
    #[inline(always)]
    pub fn detect() -> Option<Self> {
        let can =
            is_x86_feature_detected!("avx2") && is_x86_feature_detected!("bmi1") && is_x86_feature_detected!("bmi2");
        can.then_some(Self(()))
    }

    /// Does a job, all of it compiled for this processor.
    #[inline(always)]
    pub fn run(self, job: impl Job) -> usize {
        // SAFETY: `detect` made `self`, so the processor has what `run` is compiled for.
        unsafe { run(self, job) }
    }
}

impl Tally for Avx2 {
    #[inline(always)]
    fn tally(self, set: &[AtomicU32; SET], hash: u64, weight: u32) -> bool {
        // SAFETY: `detect` made `self`, so the processor has what `tally` is compiled for.
        unsafe { tally(set, hash, weight) }
    }

    #[inline(always)]
    fn fetch(self, set: &[AtomicU32; SET]) {
        // SAFETY: SSE is part of x86-64, and to prefetch reads nothing; both lines lie within the set.
        unsafe {
            _mm_prefetch::<_MM_HINT_T0>(set.as_ptr().cast());
            _mm_prefetch::<_MM_HINT_T0>(set.as_ptr().add(SET / 2).cast());
        }
    }
}

#[target_feature(enable = "avx2,bmi1,bmi2")]
fn run(tally: Avx2, job: impl Job) -> usize {
    job.run(tally)
}

#[inline]
#[target_feature(enable = "avx2")]
fn row<const AT: usize>(set: &[AtomicU32; SET]) -> __m256i {
    const { assert!(WAYS == 8 && AT + WAYS <= SET) }
    // The words are atomics because the aggregator reads and empties them in another thread, but only while this one is out of
    // their window: `Phase` orders all it did there before its thread entered, and lets nobody in before it has left. Whoever
    // tallies is in: its `Recording` is all that reaches `tally`, a seat has one recorder, and that lends itself to one recording
    // at a time.
    //
    // SAFETY: the eight words lie within the set and need no alignment, and nobody writes them meanwhile, as told above.
    unsafe { _mm256_loadu_si256(set.as_ptr().add(AT).cast()) }
}

#[inline]
#[target_feature(enable = "avx2")]
fn put_row<const AT: usize>(set: &[AtomicU32; SET], row: __m256i) {
    const { assert!(WAYS == 8 && AT + WAYS <= SET) }
    // SAFETY: as for `row`; nobody reads them meanwhile either. Atomics may be written through a shared reference.
    unsafe { _mm256_storeu_si256(set.as_ptr().add(AT).cast_mut().cast(), row) }
}

/// The least of all words, in each of them: of two halves, of two pairs, of two.
#[inline]
#[target_feature(enable = "avx2")]
fn least(row: __m256i) -> __m256i {
    let row = _mm256_min_epu32(row, _mm256_permute2x128_si256::<1>(row, row));
    let row = _mm256_min_epu32(row, _mm256_shuffle_epi32::<0b01_00_11_10>(row));
    _mm256_min_epu32(row, _mm256_shuffle_epi32::<0b10_11_00_01>(row))
}

#[inline]
#[target_feature(enable = "avx2")]
fn tally(set: &[AtomicU32; SET], hash: u64, weight: u32) -> bool {
    let (tags, counts, uppers, sure) = (row::<TAG>(set), row::<COUNT>(set), row::<UPPER>(set), row::<SURE>(set));
    let (tag, upper) = (_mm256_set1_epi32(hash as i32), _mm256_set1_epi32((hash >> 32) as i32));
    let own = _mm256_and_si256(_mm256_cmpeq_epi32(tags, tag), _mm256_cmpeq_epi32(uppers, upper));
    let bounded = _mm256_min_epu32(counts, _mm256_set1_epi32(RANKED as i32));
    let first = _mm256_setr_epi32(8, 9, 10, 11, 12, 13, 14, 15);
    let ranks = _mm256_add_epi32(_mm256_slli_epi32::<WAY_BITS>(bounded), first);
    let ranks = _mm256_andnot_si256(_mm256_slli_epi32::<WAY_BITS>(own), ranks);
    // All bits of the way's word, and none of any other.
    let only = _mm256_cmpeq_epi32(ranks, least(ranks));
    let weight = _mm256_set1_epi32(weight as i32);
    let added = _mm256_and_si256(only, weight);
    let before = _mm256_andnot_si256(_mm256_andnot_si256(own, only), sure);
    put_row::<TAG>(set, _mm256_blendv_epi8(tags, tag, only));
    put_row::<COUNT>(set, _mm256_add_epi32(counts, added));
    put_row::<UPPER>(set, _mm256_blendv_epi8(uppers, upper, only));
    put_row::<SURE>(set, _mm256_add_epi32(before, added));
    let missing = _mm256_sub_epi32(_mm256_set1_epi32(CANDIDATE as i32 - 1), before);
    let stays = _mm256_cmpeq_epi32(_mm256_max_epu32(missing, weight), missing);
    _mm256_movemask_ps(_mm256_castsi256_ps(_mm256_andnot_si256(stays, only))) != 0
}

#[cfg(test)]
mod tests {
    use super::super::{Tally, Words};
    use super::{Avx2, SET, SURE, WAYS};
    use crate::sync::AtomicU32;
    use crate::sync::Ordering::Relaxed;
    use proptest::collection::vec;
    use proptest::prelude::*;

    type Set = [AtomicU32; SET];

    fn words(set: &Set) -> [u32; SET] {
        set.each_ref().map(|word| word.load(Relaxed))
    }

    /// Few halves, so that hashes come again, and come with one half alike.
    fn half() -> impl Strategy<Value = u32> {
        prop_oneof![6 => 0..5_u32, 1 => Just(u32::MAX), 1 => any::<u32>()]
    }

    fn count() -> impl Strategy<Value = u32> {
        let eighth = super::super::MOST / WAYS as u32;
        prop_oneof![
            4 => 0..4_u32,
            1 => eighth - 2..eighth + 3,
            1 => (1 << 31) - 1..(1 << 31) + 2_u32,
            1 => u32::MAX - 1..=u32::MAX,
            1 => any::<u32>(),
        ]
    }

    /// As much of the counts, one after the other, as a window holds.
    fn held(counts: impl IntoIterator<Item = u32>, room: &mut u32) -> Vec<u32> {
        let take = |count: u32| {
            let taken = count.min(*room);
            *room -= taken;
            taken
        };
        counts.into_iter().map(take).collect()
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn vectors_leave_the_words_that_single_words_leave(
            tags in vec(half(), WAYS),
            counts in vec(count(), WAYS),
            uppers in vec(half(), WAYS),
            sure in vec(count(), WAYS),
            hits in vec((half(), half(), prop_oneof![3 => Just(1), 1 => count()]), 1..40),
        ) {
            // A processor without AVX2 has nothing to compare.
            let Some(avx2) = Avx2::detect() else { return Ok(()) };
            let mut room = super::super::MOST;
            let begin = [tags, held(counts, &mut room), uppers, sure].concat();
            prop_assert_eq!(begin.len(), SURE + WAYS);
            let [one, other]: [Set; 2] = std::array::from_fn(|_| std::array::from_fn(|at| AtomicU32::new(begin[at])));
            let weights = held(hits.iter().map(|&(_, _, weight)| weight), &mut room);
            for ((tag, upper, _), weight) in hits.into_iter().zip(weights).filter(|&(_, weight)| weight > 0) {
                let hash = u64::from(upper) << 32 | u64::from(tag);
                prop_assert_eq!(avx2.tally(&one, hash, weight), Words.tally(&other, hash, weight));
                prop_assert_eq!(words(&one), words(&other));
            }
        }
    }
}
