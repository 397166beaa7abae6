//! The shared memory as Rust sees it: a slice of 32-bit atomics that begins on a cache line.
//!
//! Invariant: no index, length or pointer found in the region is trusted. A word is reached through a bounds check, a
//! record through a slice that was checked once; what another thread wrote there can make a lookup miss, never stray.
//!
//! ```text
//! words given   | lead | word 0 | word 1 | …      `lead` words are skipped so that word 0 lies on a 64-byte line
//! ```
//! All offsets of [`crate::layout`] count from word 0; add [`Region::lead`] for an index into the words given.

use crate::sync::{AtomicU32, Ordering};

/// Words of a cache line.
pub const LINE: usize = 16;

/// A borrowed shared region. Copies are views of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct Region<'m> {
    words: &'m [AtomicU32],
}

impl<'m> Region<'m> {
    /// A view over `words` from the first cache line that begins in it.
    #[must_use]
    pub fn new(words: &'m [AtomicU32]) -> Self {
        Self { words: &words[Self::lead(words)..] }
    }

    /// Words that [`Region::new`] skips: 0 to 15. The same for every view of the same memory in a process.
    #[must_use]
    pub fn lead(words: &[AtomicU32]) -> usize {
        if cfg!(loom) {
            return 0;
        }
        let past = (words.as_ptr() as usize / 4) % LINE;
        ((LINE - past) % LINE).min(words.len())
    }

    /// Words of the view.
    #[must_use]
    pub fn len(&self) -> usize {
        self.words.len()
    }

    /// Whether the view has no word.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.words.is_empty()
    }

    /// The word at `at`. Panics past the end: callers pass offsets of the layout, or what they have checked.
    #[inline(always)]
    #[must_use]
    pub fn word(&self, at: usize) -> &'m AtomicU32 {
        &self.words[at]
    }

    /// `count` words from `at` on, or `None` past the end.
    #[inline(always)]
    #[must_use]
    pub fn slice(&self, at: usize, count: usize) -> Option<&'m [AtomicU32]> {
        self.words.get(at..at.checked_add(count)?)
    }

    /// Relaxed load.
    #[inline(always)]
    #[must_use]
    pub fn get(&self, at: usize) -> u32 {
        self.word(at).load(Ordering::Relaxed)
    }

    /// Relaxed store.
    #[inline(always)]
    pub fn set(&self, at: usize, value: u32) {
        self.word(at).store(value, Ordering::Relaxed);
    }
}

/// Memory of one's own in place of a SharedArrayBuffer, for tests, benchmarks and tools; zeroed.
#[derive(Debug)]
pub struct Memory {
    words: Vec<AtomicU32>,
    count: usize,
}

impl Memory {
    /// `bytes` of zeros, rounded down to whole words.
    #[must_use]
    pub fn new(bytes: usize) -> Self {
        let count = bytes / 4;
        Self { words: (0..count + LINE - 1).map(|_| AtomicU32::new(0)).collect(), count }
    }

    /// The view over it: as many words as were asked for, from a line's begin on.
    #[must_use]
    pub fn region(&self) -> Region<'_> {
        Region { words: &Region::new(&self.words).words[..self.count] }
    }
}
