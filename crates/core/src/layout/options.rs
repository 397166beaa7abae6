//! How a region may be divided, and the header that says how it was.
//!
//! Invariant: the options in the header are all that the layout depends on besides the region's length.

/// Header words.
pub mod header {
    /// [`crate::layout::MAGIC`].
    pub const MAGIC: usize = 0;
    /// [`crate::layout::VERSION`].
    pub const VERSION: usize = 1;
    /// Lower half of the layout's digest.
    pub const DIGEST_LOW: usize = 2;
    /// Upper half of it.
    pub const DIGEST_HIGH: usize = 3;
    /// First of [`super::Options::WORDS`] option words.
    pub const OPTIONS: usize = 4;
    /// Coarse monotonic milliseconds, alone on its line.
    pub const CLOCK: usize = 16;
    /// Load epoch of everything.
    pub const EPOCH: usize = 32;
    /// 0 = being made, 1 = open, 2 = closed.
    pub const STATE: usize = 48;
    /// Words of the header.
    pub const WORDS: usize = 64;
}

/// How a region is divided. Zero means "by the region's size" where a field says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// Mean bytes of key + value to plan the index for. Smaller entries than that leave arena unused, larger ones index.
    pub entry_bytes: u32,
    /// Longest value in bytes; longer ones are not cached. Bounded by the segment size, at most 1 MiB - 1.
    pub max_value_bytes: u32,
    /// Longest key in bytes, at most 4,095; longer ones are not cached.
    pub max_key_bytes: u32,
    /// Threads that can be joined at once, at most [`MAX_THREADS`](super::MAX_THREADS).
    pub max_threads: u32,
    /// Bytes of a segment, rounded down to a power of two; 0 by size, at most 128 KiB.
    pub segment_bytes: u32,
    /// Independent arenas, rounded down to a power of two; 0 by size, at most 8.
    pub shards: u32,
    /// Share of the arena on probation, in percent (the S of S3-FIFO).
    pub small_percent: u32,
}

impl Options {
    /// Number of option words in the header.
    pub const WORDS: usize = 7;

    fn words(&self) -> [u32; Self::WORDS] {
        [
            self.entry_bytes,
            self.max_value_bytes,
            self.max_key_bytes,
            self.max_threads,
            self.segment_bytes,
            self.shards,
            self.small_percent,
        ]
    }

    /// The words of the header, in order.
    pub fn each_word(&self, mut write: impl FnMut(usize, u32)) {
        for (at, word) in self.words().into_iter().enumerate() {
            write(header::OPTIONS + at, word);
        }
    }

    /// Reads the words of the header back.
    pub fn from_words(read: impl Fn(usize) -> u32) -> Self {
        let word = |at: usize| read(header::OPTIONS + at);
        Self {
            entry_bytes: word(0),
            max_value_bytes: word(1),
            max_key_bytes: word(2),
            max_threads: word(3),
            segment_bytes: word(4),
            shards: word(5),
            small_percent: word(6),
        }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self {
            entry_bytes: 192,
            max_value_bytes: 16 << 10,
            max_key_bytes: 1024,
            max_threads: 128,
            segment_bytes: 0,
            shards: 0,
            small_percent: 10,
        }
    }
}

/// Why a region cannot be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LayoutError {
    /// The region holds too few segments with these options; `bytes` would do.
    TooSmall {
        /// Smallest size that is known to do.
        bytes: usize,
    },
    /// Positions are 30-bit word indices: at most 4 GiB.
    TooLarge,
    /// An option is out of its range.
    BadOption(&'static str),
}

pub(super) fn check(options: &Options) -> Result<(), LayoutError> {
    let within = |value: u32, low: u32, high: u32| (low..=high).contains(&value);
    if !within(options.max_value_bytes, 1, crate::entry::MAX_VALUE as u32) {
        return Err(LayoutError::BadOption("max_value_bytes"));
    }
    if !within(options.max_key_bytes, 1, crate::entry::MAX_KEY as u32) {
        return Err(LayoutError::BadOption("max_key_bytes"));
    }
    if !within(options.max_threads, 1, super::MAX_THREADS) {
        return Err(LayoutError::BadOption("max_threads"));
    }
    if !within(options.small_percent, 1, 90) {
        return Err(LayoutError::BadOption("small_percent"));
    }
    if !within(options.entry_bytes, 1, 1 << 20) {
        return Err(LayoutError::BadOption("entry_bytes"));
    }
    Ok(())
}
