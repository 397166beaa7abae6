//! The tally by vectors of eight words, on processors with AVX2: a third of the time that it takes word by word.
//!
//! Invariant: an [`Avx2`] exists only where the processor has what this is compiled for. Rows are read and written whole: a
//! vector that is read from where single words were just written waits until these have left for the cache, and the hottest
//! keys come again that soon.

use super::{COUNT, Job, SURE, TAG, Tally, UPPER};
use crate::hits::layout::{SET, WAYS};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;
use core::arch::x86_64::{
    __m256i, _MM_HINT_T0, _mm_min_epu32, _mm_prefetch, _mm_shuffle_epi32, _mm256_add_epi32, _mm256_and_si256,
    _mm256_blendv_epi8, _mm256_broadcastd_epi32, _mm256_castsi256_ps, _mm256_castsi256_si128, _mm256_cmpeq_epi32,
    _mm256_extracti128_si256, _mm256_loadu_si256, _mm256_movemask_ps, _mm256_set1_epi32, _mm256_storeu_si256,
};
use std::hint::select_unpredictable;

/// For each way a row that has it alone.
static ONLY: [[u32; WAYS]; WAYS] = {
    let mut rows = [[0; WAYS]; WAYS];
    let mut way = 0;
    while way < WAYS {
        rows[way][way] = u32::MAX;
        way += 1;
    }
    rows
};

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
    fn tally(self, set: &[AtomicU32; SET], hash: u64, weight: u32) -> u32 {
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

/// A bit for each way whose word has all bits set.
#[inline]
#[target_feature(enable = "avx2")]
fn ways(row: __m256i) -> u32 {
    _mm256_movemask_ps(_mm256_castsi256_ps(row)) as u32
}

#[inline]
#[target_feature(enable = "avx2")]
fn tally(set: &[AtomicU32; SET], hash: u64, weight: u32) -> u32 {
    let (tags, counts, uppers) = (row::<TAG>(set), row::<COUNT>(set), row::<UPPER>(set));
    let (tag, upper) = (_mm256_set1_epi32(hash as i32), _mm256_set1_epi32((hash >> 32) as i32));
    let own = ways(_mm256_and_si256(_mm256_cmpeq_epi32(tags, tag), _mm256_cmpeq_epi32(uppers, upper)));
    // The least of eight, of four, of two.
    let least = _mm_min_epu32(_mm256_castsi256_si128(counts), _mm256_extracti128_si256::<1>(counts));
    let least = _mm_min_epu32(least, _mm_shuffle_epi32::<0b01_00_11_10>(least));
    let least = _mm_min_epu32(least, _mm_shuffle_epi32::<0b10_11_00_01>(least));
    let free = ways(_mm256_cmpeq_epi32(counts, _mm256_broadcastd_epi32(least)));
    let found = own != 0;
    let way = select_unpredictable(found, own, free).trailing_zeros() as usize % WAYS;
    // SAFETY: a row of eight words, which nobody writes.
    let only = unsafe { _mm256_loadu_si256(ONLY[way].as_ptr().cast()) };
    put_row::<TAG>(set, _mm256_blendv_epi8(tags, tag, only));
    put_row::<COUNT>(set, _mm256_add_epi32(counts, _mm256_and_si256(only, _mm256_set1_epi32(weight as i32))));
    put_row::<UPPER>(set, _mm256_blendv_epi8(uppers, upper, only));
    let sure = select_unpredictable(found, set[SURE + way].load(Relaxed), 0);
    set[SURE + way].store(sure.wrapping_add(weight), Relaxed);
    sure
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
        prop_oneof![4 => 0..4_u32, 1 => (1 << 31) - 1..(1 << 31) + 2_u32, 1 => u32::MAX - 1..=u32::MAX, 1 => any::<u32>()]
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
            let begin = [tags, counts, uppers, sure].concat();
            prop_assert_eq!(begin.len(), SURE + WAYS);
            let [one, other]: [Set; 2] = std::array::from_fn(|_| std::array::from_fn(|at| AtomicU32::new(begin[at])));
            for (tag, upper, weight) in hits {
                let hash = u64::from(upper) << 32 | u64::from(tag);
                prop_assert_eq!(avx2.tally(&one, hash, weight), Words.tally(&other, hash, weight));
                prop_assert_eq!(words(&one), words(&other));
            }
        }
    }
}
