//! One window: sets of counted hashes, and the names of those that were hit often.
//!
//! Invariant: within a set a hash has at most one way, and a way whose count is 0 is free, whatever its tag says. For a key with
//! a way `count - error <= hits <= count`; for one without, `hits <= least count of its set`. A count that is full stays full.
//! A name is written when a key's sure hits reach [`CANDIDATE`], so the hottest keys of a window are named first.
//!
//! ```text
//! hit of a key in the set          count += weight
//! hit of a key that is not         the way with the least count: hash = its own, error = count, count += weight
//! ```

use super::layout::{Layout, SET, WAYS, head};
use crate::region::{LINE, Region};
use crate::sync::AtomicU32;
use crate::sync::Ordering::Relaxed;

/// Bytes of a key that are kept; longer ones are kept by these and their length.
pub const NAME_BYTES: usize = 256;
/// Sure hits within a window from which on a key is named and followed: 80 a second.
pub const CANDIDATE: u32 = if cfg!(loom) { 2 } else { 8 };

/// Words of a name before its bytes.
pub(super) const NAME_HEAD: usize = 3;
/// Most words of a name's bytes.
pub(super) const NAME_WORDS: usize = NAME_BYTES / 4;

const COUNTS: usize = WAYS;
const UPPERS: usize = 2 * WAYS;
const ERRORS: usize = 3 * WAYS;

/// One way of a set.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Way {
    pub hash: u64,
    pub count: u32,
    pub error: u32,
}

/// A view of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'m> {
    head: &'m [AtomicU32],
    sets: &'m [AtomicU32],
    names: &'m [AtomicU32],
    set_count: u32,
}

/// The set that a hash falls into.
#[inline(always)]
pub(super) fn set_of(hash: u64, sets: u32) -> usize {
    (((hash >> 32) * u64::from(sets)) >> 32) as usize
}

#[inline(always)]
fn get(words: &[AtomicU32], at: usize) -> u32 {
    words[at].load(Relaxed)
}

#[inline(always)]
fn put(words: &[AtomicU32], at: usize, value: u32) {
    words[at].store(value, Relaxed);
}

impl<'m> Window<'m> {
    /// The window that begins at word `at`.
    pub fn new(region: Region<'m>, layout: &Layout, at: usize) -> Self {
        let part = |(from, count): (usize, usize)| region.slice(at + from, count).unwrap_or_default();
        Self {
            head: part((0, LINE)),
            sets: part(layout.sets()),
            names: part(layout.names_at()),
            set_count: layout.options.sets,
        }
    }

    #[inline(always)]
    fn set(&self, set: usize) -> Option<&'m [AtomicU32; SET]> {
        self.sets.get(set * SET..)?.first_chunk()
    }

    /// Counts `weight` hits. True when the key's sure hits have just reached [`CANDIDATE`].
    #[inline(always)]
    pub fn add(&self, hash: u64, weight: u32) -> bool {
        let Some(set) = self.set(set_of(hash, self.set_count)) else { return false };
        let (tag, upper) = (hash as u32, (hash >> 32) as u32);
        for way in 0..WAYS {
            if get(set, way) == tag && get(set, UPPERS + way) == upper {
                let (count, error) = (get(set, COUNTS + way), get(set, ERRORS + way));
                let sum = count.saturating_add(weight);
                put(set, COUNTS + way, sum);
                return count.wrapping_sub(error) < CANDIDATE && sum.wrapping_sub(error) >= CANDIDATE;
            }
        }
        let mut least = u64::MAX;
        for way in 0..WAYS {
            least = least.min(u64::from(get(set, COUNTS + way)) << 3 | way as u64);
        }
        let (way, error) = ((least & 7) as usize % WAYS, (least >> 3) as u32);
        put(set, way, tag);
        put(set, UPPERS + way, upper);
        put(set, ERRORS + way, error);
        put(set, COUNTS + way, error.saturating_add(weight));
        weight >= CANDIDATE
    }

    /// Writes down what a hash stands for, while there is room.
    #[cold]
    pub fn name(&self, hash: u64, key: &[u8]) {
        let kept = &key[..key.len().min(NAME_BYTES)];
        let used = get(self.head, head::NAMED) as usize;
        let words = NAME_HEAD + kept.len().div_ceil(4);
        let Some(room) = self.names.get(used..).and_then(|rest| rest.get(..words)) else {
            put(self.head, head::LOST, get(self.head, head::LOST).saturating_add(1));
            return;
        };
        put(room, 0, hash as u32);
        put(room, 1, (hash >> 32) as u32);
        put(room, 2, key.len() as u32);
        for (word, bytes) in room[NAME_HEAD..].iter().zip(kept.chunks(4)) {
            let mut padded = [0; 4];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u32::from_le_bytes(padded), Relaxed);
        }
        put(self.head, head::NAMED, (used + words) as u32);
    }

    /// Takes note of how many hits were recorded, so that an untouched window is known as such.
    pub fn add_hits(&self, hits: u32) {
        put(self.head, head::HITS, get(self.head, head::HITS).saturating_add(hits));
    }

    /// Hits recorded, as far as a word goes.
    pub fn hits(&self) -> u32 {
        get(self.head, head::HITS)
    }

    /// Names that found no room.
    pub fn lost(&self) -> u32 {
        get(self.head, head::LOST)
    }

    /// The ways of a set; those with count 0 are free.
    #[inline]
    pub fn ways(&self, set: usize) -> [Way; WAYS] {
        let Some(words) = self.set(set) else { return [Way::default(); WAYS] };
        std::array::from_fn(|way| Way {
            hash: u64::from(get(words, UPPERS + way)) << 32 | u64::from(get(words, way)),
            count: get(words, COUNTS + way),
            error: get(words, ERRORS + way),
        })
    }

    /// Hands each name to `visit`: the hash, the key's length, and a function that gives the bytes kept.
    pub fn each_name(&self, mut visit: impl FnMut(u64, u32, &dyn Fn() -> Box<[u8]>)) {
        let used = get(self.head, head::NAMED) as usize;
        let mut rest = self.names.get(..used).unwrap_or_default();
        while let Some((start, behind)) = rest.split_first_chunk::<NAME_HEAD>() {
            let [low, high, length] = start.each_ref().map(|word| word.load(Relaxed));
            let kept = (length as usize).min(NAME_BYTES);
            let Some((words, next)) = behind.split_at_checked(kept.div_ceil(4)) else { return };
            visit(u64::from(high) << 32 | u64::from(low), length, &|| {
                let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.load(Relaxed).to_le_bytes()).collect();
                bytes.truncate(kept);
                bytes.into_boxed_slice()
            });
            rest = next;
        }
    }

    /// Frees all ways and forgets the names. Tags stay: a key that comes back finds its way.
    pub fn clear(&self) {
        for set in self.sets.chunks_exact(SET) {
            for way in 0..WAYS {
                put(set, COUNTS + way, 0);
                put(set, ERRORS + way, 0);
            }
        }
        for word in self.head {
            word.store(0, Relaxed);
        }
    }
}
