//! One window: how much was recorded in it, its counters, and the names of the keys that were hit often.
//!
//! Invariant: a name is written when a key's sure hits reach [`CANDIDATE`], so the hottest keys of a window are named first, and
//! a window without room for all of them lacks the coldest.

use super::layout::{Layout, head};
use super::sets::Sets;
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

/// A view of one window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Window<'m> {
    head: &'m [AtomicU32],
    names: &'m [AtomicU32],
    /// Its counters.
    pub sets: Sets<'m>,
}

impl<'m> Window<'m> {
    /// The window that begins at word `at`.
    pub fn new(region: Region<'m>, layout: &Layout, at: usize) -> Self {
        let part = |(from, count): (usize, usize)| region.slice(at + from, count).unwrap_or_default();
        let sets = Sets::new(part(layout.sets()));
        Self { head: part((0, LINE)), names: part(layout.names_at()), sets }
    }

    fn get(&self, word: usize) -> u32 {
        self.head[word].load(Relaxed)
    }

    fn put(&self, word: usize, value: u32) {
        self.head[word].store(value, Relaxed);
    }

    /// Writes down what a hash stands for. False when there is no room.
    #[cold]
    pub fn name(&self, hash: u64, key: &[u8]) -> bool {
        let kept = &key[..key.len().min(NAME_BYTES)];
        let used = self.get(head::NAMED) as usize;
        let words = NAME_HEAD + kept.len().div_ceil(4);
        let Some(room) = self.names.get(used..).and_then(|rest| rest.get(..words)) else {
            self.lose_names(1);
            return false;
        };
        let (start, bytes) = room.split_at(NAME_HEAD);
        for (word, value) in start.iter().zip([hash as u32, (hash >> 32) as u32, key.len() as u32]) {
            word.store(value, Relaxed);
        }
        for (word, bytes) in bytes.iter().zip(kept.chunks(4)) {
            let mut padded = [0; 4];
            padded[..bytes.len()].copy_from_slice(bytes);
            word.store(u32::from_le_bytes(padded), Relaxed);
        }
        self.put(head::NAMED, (used + words) as u32);
        true
    }

    /// Writes the name of the key that comes after `place` others.
    #[cold]
    #[inline(never)]
    pub fn name_nth<'k>(&self, hash: u64, mut keys: impl Iterator<Item = &'k [u8]>, place: usize) {
        if let Some(key) = keys.nth(place) {
            self.name(hash, key);
        }
    }

    /// Takes note of names that find no room.
    pub fn lose_names(&self, count: usize) {
        self.put(head::LOST, self.lost().saturating_add(u32::try_from(count).unwrap_or(u32::MAX)));
    }

    /// Whether neither hits nor names were recorded.
    pub fn is_untouched(&self) -> bool {
        self.hits() == 0 && self.get(head::NAMED) == 0 && self.lost() == 0
    }

    /// Takes note of how many hits were recorded.
    pub fn set_hits(&self, hits: u32) {
        self.put(head::HITS, hits);
    }

    /// Hits recorded.
    pub fn hits(&self) -> u32 {
        self.get(head::HITS)
    }

    /// Names that found no room.
    pub fn lost(&self) -> u32 {
        self.get(head::LOST)
    }

    /// Hands each name to `visit`: the hash, the key's length, and a function that gives the bytes kept.
    pub fn each_name(&self, mut visit: impl FnMut(u64, u32, &dyn Fn() -> Box<[u8]>)) {
        let used = self.get(head::NAMED) as usize;
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

    /// Frees all counters and forgets the names.
    pub fn clear(&self) {
        self.sets.clear();
        self.head.iter().for_each(|word| word.store(0, Relaxed));
    }
}
