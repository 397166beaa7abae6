//! Where everything lies in the memory of the summaries.
//!
//! Invariant: the layout follows from the options alone, and the options stand in the header, so whoever attaches computes the
//! very same offsets.
//!
//! ```text
//! header   1 line: magic, version, state, aggregator, options
//! seat     1 line: state, phase | plain counters, two words each | window 0 | window 1
//! window   1 line: hits, words of names, names lost | sets | names
//! set      2 lines: 8 tags, 8 counts | 8 upper halves of the hash, 8 errors           a tag is the lower half
//! name     hash low | hash high | length | first bytes, padded to words             back to back, oldest first
//! ```

use super::window::{NAME_HEAD, NAME_WORDS};
use crate::layout::LayoutError;
use crate::region::LINE;

/// Changed whenever words move or change meaning.
pub const VERSION: u32 = 2;
/// First word of the memory.
pub const MAGIC: u32 = 0x4b4c_4831;
/// Ways of a set.
pub const WAYS: usize = if cfg!(loom) { 2 } else { 8 };
/// Words of a set.
pub(super) const SET: usize = 4 * WAYS;

/// Words of the header.
pub(super) mod header {
    pub const MAGIC: usize = 0;
    pub const VERSION: usize = 1;
    /// 0 = being made, 1 = open.
    pub const STATE: usize = 2;
    /// 1 while somebody aggregates.
    pub const AGGREGATOR: usize = 3;
    pub const OPTIONS: usize = 4;
    pub const WORDS: usize = 16;
}

/// Words of a seat's first line, and the states of a seat.
pub(super) mod seat {
    pub const STATE: usize = 0;
    pub const PHASE: usize = 1;
    /// Nobody ever sat there.
    pub const NEW: u32 = 0;
    pub const TAKEN: u32 = 1;
    /// Somebody did; the windows may hold the last hits.
    pub const LEFT: u32 = 2;
}

/// Words of a window's first line.
pub(super) mod head {
    /// Hits recorded, as far as a word goes.
    pub const HITS: usize = 0;
    /// Words of names.
    pub const NAMED: usize = 1;
    /// Names that found no room.
    pub const LOST: usize = 2;
}

/// What the memory is made for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Threads that can be joined at once, 1 to 254.
    pub max_threads: u32,
    /// Sets of a window, 1 to 65,536.
    pub sets: u32,
    /// Bytes of names that a window holds, at most 1 MiB.
    pub name_bytes: u32,
    /// Plain counters of a thread, at most 65,536.
    pub cells: u32,
}

impl Options {
    fn words(&self) -> [u32; 4] {
        [self.max_threads, self.sets, self.name_bytes, self.cells]
    }

    /// The words of the header, in order.
    pub(super) fn each_word(&self, mut write: impl FnMut(usize, u32)) {
        for (at, word) in self.words().into_iter().enumerate() {
            write(header::OPTIONS + at, word);
        }
    }

    /// Reads the words of the header back.
    pub(super) fn from_words(read: impl Fn(usize) -> u32) -> Self {
        let word = |at: usize| read(header::OPTIONS + at);
        Self { max_threads: word(0), sets: word(1), name_bytes: word(2), cells: word(3) }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self { max_threads: 64, sets: 1024, name_bytes: 64 << 10, cells: 256 }
    }
}

/// Offsets in words from the first line of the memory, and the sizes that go with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What it was made from.
    pub options: Options,
    /// Words that are laid out.
    pub words: usize,
    seat_words: usize,
    window_words: usize,
    name_words: usize,
    cell_words: usize,
}

impl Layout {
    /// Lays out. O(1).
    pub fn new(options: Options) -> Result<Self, LayoutError> {
        let Options { max_threads, sets, name_bytes, cells } = options;
        for (name, value, least, most) in [
            ("max_threads", max_threads, 1, crate::layout::MAX_THREADS),
            ("sets", sets, 1, 1 << 16),
            ("name_bytes", name_bytes, 0, 1 << 20),
            ("cells", cells, 0, 1 << 16),
        ] {
            if !(least..=most).contains(&value) {
                return Err(LayoutError::BadOption(name));
            }
        }
        let name_words = (name_bytes as usize).div_ceil(4).next_multiple_of(LINE);
        let cell_words = (2 * cells as usize).next_multiple_of(LINE);
        let window_words = LINE + (sets as usize * SET).next_multiple_of(LINE) + name_words;
        let seat_words = LINE + cell_words + 2 * window_words;
        let words = (1 << 30) / seat_words;
        if max_threads as usize > words {
            return Err(LayoutError::TooLarge);
        }
        let words = header::WORDS + max_threads as usize * seat_words;
        Ok(Self { options, words, seat_words, window_words, name_words, cell_words })
    }

    /// Bytes that hold it, wherever their first cache line begins.
    #[must_use]
    pub fn bytes(&self) -> usize {
        (self.words + LINE) * 4
    }

    /// Bytes of one thread's seat: its counters and both its windows.
    #[must_use]
    pub fn seat_bytes(&self) -> usize {
        self.seat_words * 4
    }

    /// Names that a window holds for certain, however long their keys are.
    #[must_use]
    pub fn names(&self) -> usize {
        self.name_words / (NAME_HEAD + NAME_WORDS)
    }

    pub(super) fn check(&self, words: usize) -> Result<(), LayoutError> {
        if words < self.words { Err(LayoutError::TooSmall { bytes: self.bytes() }) } else { Ok(()) }
    }

    /// First word of a seat.
    pub(super) fn seat(&self, seat: usize) -> usize {
        header::WORDS + seat * self.seat_words
    }

    /// First word of a seat's plain counters, two words each.
    #[must_use]
    pub fn cells(&self, seat: usize) -> usize {
        self.seat(seat) + LINE
    }

    /// First word of a window.
    pub(super) fn window(&self, seat: usize, half: usize) -> usize {
        self.cells(seat) + self.cell_words + half * self.window_words
    }

    /// First word of the sets within a window, and how many words they are.
    pub(super) fn sets(&self) -> (usize, usize) {
        (LINE, self.options.sets as usize * SET)
    }

    /// First word of the names within a window, and how many words they may fill.
    pub(super) fn names_at(&self) -> (usize, usize) {
        (self.window_words - self.name_words, self.name_words)
    }
}
