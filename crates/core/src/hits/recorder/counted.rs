//! Hits that their thread has counted by itself, key by key, and the names of keys apart: who keeps the hashes of its keys need
//! not hand over their bytes with every hit.
//!
//! Invariant: what is recorded is what [`Recording::hit`] would record. A name may come later than the hits and so in another
//! window, since it stands for its hash wherever it is found; and again, since it is learned once.
//!
//! ```text
//! counts    7 | 0 | 94 | 31 | 32 | …      of keys 0, 1, 2, …; those of 32 and more are recorded and set to 0, the others wait
//! hashes    low, high | low, high | …
//! wanted    2 | 4                         keys whose names are wanted, the hottest first
//! ```

use super::Recording;
use crate::hash::hash64;
use crate::hits::tally::{self, Job, MOST, Tally, Words};
use crate::hits::window::Window;
use std::cmp::Reverse;

/// Keys that are recorded together, so that their sets are fetched ahead.
const BLOCK: usize = 32;
/// Counts that are looked at together.
const LOOK: usize = 16;

impl Recording<'_, '_> {
    /// Records the hits of each key that has at least `least`, a positive number, by the hashes of the keys. Writes the places
    /// of those whose names are wanted to `wanted`, the hottest first, and says how many these are; a name that has no place
    /// there is lost to this window. O(counts), most of it 16 counts at a time.
    pub fn counted(&mut self, counts: &mut [i32], hashes: &[[i32; 2]], least: i32, wanted: &mut [i32]) -> usize {
        let mut nameless = Vec::new();
        let (window, hits) = (self.window, &mut self.hits);
        tally::run(Counted { window, hits, counts, hashes, least: least.max(1), nameless: &mut nameless });
        if window.lost() > 0 {
            window.lose_names(nameless.len());
            return 0;
        }
        nameless.sort_unstable_by_key(|&(weight, place)| (Reverse(weight), place));
        window.lose_names(nameless.len().saturating_sub(wanted.len()));
        wanted.iter_mut().zip(&nameless).for_each(|(wanted, &(_, place))| *wanted = place as i32);
        nameless.len().min(wanted.len())
    }

    /// Writes down a key's name, without a hit. False when there is no room for it.
    pub fn name(&mut self, key: &[u8]) -> bool {
        self.window.name(hash64(key), key)
    }
}

struct Counted<'a, 'm> {
    window: Window<'m>,
    hits: &'a mut u32,
    counts: &'a mut [i32],
    hashes: &'a [[i32; 2]],
    least: i32,
    /// Hits and place of each key whose name is wanted.
    nameless: &'a mut Vec<(u32, u32)>,
}

impl Job for Counted<'_, '_> {
    /// Places are picked without a branch on what is there, and a block of them is recorded at a time, so that its sets are
    /// fetched ahead.
    #[inline(always)]
    fn run(mut self, tally: impl Tally) -> usize {
        let mut block = [0; BLOCK + LOOK];
        let (mut length, mut done) = (0, 0);
        let size = self.counts.len().min(self.hashes.len());
        for from in (0..size).step_by(LOOK) {
            let counts = &self.counts[from..size.min(from + LOOK)];
            if counts.iter().fold(0, |most, &count| most.max(count)) < self.least {
                continue;
            }
            for (at, &count) in counts.iter().enumerate() {
                block[length] = from + at;
                length += usize::from(count >= self.least);
            }
            if length >= BLOCK {
                done += self.record(tally, &block[..length]);
                length = 0;
            }
        }
        done + self.record(tally, &block[..length])
    }
}

impl Counted<'_, '_> {
    #[inline(always)]
    fn record(&mut self, tally: impl Tally, places: &[usize]) -> usize {
        let sets = self.window.sets;
        let hash = |place: usize| {
            let [low, high] = self.hashes[place];
            u64::from(high as u32) << 32 | u64::from(low as u32)
        };
        places.iter().filter_map(|&place| sets.of(hash(place))).for_each(|set| tally.fetch(set));
        for &place in places {
            let weight = (std::mem::take(&mut self.counts[place]) as u32).min(u32::MAX - *self.hits);
            *self.hits += weight;
            let hash = hash(place);
            let Some(set) = sets.of(hash).filter(|_| weight > 0) else { continue };
            let nameless =
                if *self.hits <= MOST { tally.tally(set, hash, weight) } else { Words.tally(set, hash, weight) };
            if nameless {
                self.nameless.push((weight, place as u32));
            }
        }
        places.len()
    }
}
