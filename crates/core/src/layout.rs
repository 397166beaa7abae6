//! Where everything lies in the shared region: the one source of truth. JavaScript asks for [`Layout::fields`] and does no
//! arithmetic of its own; both sides compare [`Layout::digest`].
//!
//! Invariant: the layout follows from the region's length and the options alone, and the options stand in the header, so
//! whoever attaches computes the very same offsets or is refused.
//!
//! ```text
//! header    4 lines: magic, version, digest, options | clock | load epoch of everything | state
//! threads   3 lines a thread: alive | generation, counters of two words each (only their thread writes them)
//! shards    1 line a shard: lock, active segments, segment being swept
//! flights   1 line a set of 7 claims: lock, tags, states
//! epochs    1 word a stripe of hashes: counts invalidations, so that a load can see that it was overtaken
//! ghost     1 line per 16 fingerprints of keys that were evicted while on probation
//! segments  4 words a segment: generation, words used, queue, order
//! buckets   1 line a bucket: 7 tags, 7 record positions, lock of the group of 4, spill flag
//! proofs    1 word a way                 hits      1 word a way
//! arena     the segments: records back to back
//! ```

mod options;

pub use options::{LayoutError, Options, header};

use crate::region::LINE;
use options::check;

/// Changed whenever bytes move or change meaning.
pub const VERSION: u32 = 1;
/// First word of a region.
pub const MAGIC: u32 = 0x4b4c_3031;

/// Ways of a bucket.
pub const WAYS: usize = if cfg!(loom) { 1 } else { 7 };
/// Buckets of a group: neighbours that share a lock and take each other's overflow.
pub const GROUP: usize = if cfg!(loom) { 1 } else { 4 };
/// Words of a bucket.
pub const BUCKET: usize = LINE;
/// Word of a bucket: its first tag.
pub const TAGS: usize = 0;
/// Word of a bucket: its first record position (an absolute word of the region; 0 = empty way).
pub const POSITIONS: usize = 7;
/// Word of a group's first bucket: the owner of the group's lock.
pub const LOCK: usize = 14;
/// Word of a bucket: nonzero when one of its keys lies in another bucket of the group.
pub const SPILL: usize = 15;

/// Words of a thread's block; the counters begin at [`THREAD_COUNTERS`].
pub const THREAD: usize = 48;
/// Word of a thread's block: `generation << 1 | alive`.
pub const THREAD_STATE: usize = 0;
/// Word of a thread's block: its first counter.
pub const THREAD_COUNTERS: usize = 8;
/// Most threads a region can be asked to seat.
pub const MAX_THREADS: u32 = 254;

/// Words of the segment table per segment.
pub const SEGMENT: usize = 4;
/// Words of a ghost set.
pub const GHOST_SET: usize = LINE;
/// Words of a set of claims.
pub const FLIGHT_SET: usize = LINE;
/// Words of a shard's block.
pub const SHARD: usize = LINE;

/// Fewest segments a shard can work with: one filling in each queue, one being swept, one in reserve, and some that hold.
pub const MIN_SEGMENTS: usize = if cfg!(loom) { 5 } else { 8 };
/// Largest segment, in words: 128 KiB.
const LARGEST_SEGMENT: usize = 32_768;
/// Load at which the index is planned, in percent of its ways.
const INDEX_LOAD: usize = 70;

/// Offsets in words from the start of the region, and the sizes that go with them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Layout {
    /// What it was made from.
    pub options: Options,
    /// Words of the region that are laid out.
    pub words: usize,
    /// Threads' blocks.
    pub threads: usize,
    /// Shards' blocks.
    pub shards: usize,
    /// Number of shards, a power of two.
    pub shard_count: usize,
    /// Sets of claims.
    pub flights: usize,
    /// Number of sets of claims, a power of two.
    pub flight_sets: usize,
    /// Load epochs.
    pub epochs: usize,
    /// Number of load epochs, a power of two.
    pub epoch_count: usize,
    /// Ghost sets, shard by shard.
    pub ghost: usize,
    /// Ghost sets of one shard.
    pub ghost_sets_per_shard: usize,
    /// The segment table, shard by shard.
    pub segments: usize,
    /// Segments of one shard.
    pub segments_per_shard: usize,
    /// Words of a segment, a power of two.
    pub segment_words: usize,
    /// log2 of `segment_words`.
    pub segment_shift: u32,
    /// The index.
    pub buckets: usize,
    /// Number of groups of buckets.
    pub groups: usize,
    /// Proof words, one a way.
    pub proofs: usize,
    /// Hit words, one a way: hits since eviction last looked, as far as anybody counted.
    pub hits: usize,
    /// Number of ways.
    pub ways: usize,
    /// The segments.
    pub arena: usize,
    /// Longest value that is cached, in bytes.
    pub max_value: usize,
    /// Longest key that is cached, in bytes.
    pub max_key: usize,
}

const fn power_below(value: usize) -> usize {
    if value == 0 { 0 } else { 1 << value.ilog2() }
}

const fn line(words: usize) -> usize {
    words.next_multiple_of(LINE)
}

impl Layout {
    /// Lays `words` words out. O(1).
    pub fn new(words: usize, options: Options) -> Result<Self, LayoutError> {
        check(&options)?;
        if words >= 1 << 30 {
            return Err(LayoutError::TooLarge);
        }
        match Self::divide(words, options) {
            Some(layout) => Ok(layout),
            None => Err(LayoutError::TooSmall { bytes: smallest(words, options) }),
        }
    }

    fn divide(words: usize, options: Options) -> Option<Self> {
        let segment_words = match options.segment_bytes as usize / 4 {
            0 => power_below(words / 64).clamp(256, LARGEST_SEGMENT),
            wanted => power_below(wanted).clamp(if cfg!(loom) { 8 } else { 32 }, LARGEST_SEGMENT),
        };
        let flight_sets = power_below(words / (1024 * FLIGHT_SET)).clamp(if cfg!(loom) { 1 } else { 4 }, 1024);
        let epoch_count = power_below(words / 1024).clamp(if cfg!(loom) { 1 } else { 64 }, 16_384);
        let record_words = crate::entry::HEADER + (options.entry_bytes as usize).div_ceil(4) + 1;

        let threads = header::WORDS;
        let shards = threads + options.max_threads as usize * THREAD;
        let most_shards = match options.shards as usize {
            0 => (words / segment_words / 128).clamp(1, 8),
            wanted => wanted.clamp(1, 8),
        };
        let shard_count = power_below(most_shards);
        let flights = shards + shard_count * SHARD;
        let epochs = flights + flight_sets * FLIGHT_SET;
        let ghost = line(epochs + epoch_count);
        let room = words.checked_sub(ghost)?;

        // Words that an entry costs: its record, its share of the ways (each a proof and a hit word more), its ghost.
        let way_share = (BUCKET + 2 * WAYS) * 100 * 100 / (WAYS * INDEX_LOAD);
        let entries = room * 100 / (record_words * 100 + way_share + 90);
        let ghost_sets_per_shard = (entries * 9 / 10).div_ceil(GHOST_SET * shard_count).max(1);
        let segments = ghost + ghost_sets_per_shard * shard_count * GHOST_SET;
        let groups = (entries.max(1) * 100).div_ceil(INDEX_LOAD * WAYS * GROUP).next_multiple_of(shard_count);
        let ways = groups * GROUP * WAYS;
        let index = groups * GROUP * BUCKET + 2 * line(ways);
        let left = words.checked_sub(segments + index + LINE)?;
        let segments_per_shard = left / (segment_words + SEGMENT) / shard_count;
        if segments_per_shard < MIN_SEGMENTS {
            return None;
        }
        let buckets = line(segments + segments_per_shard * shard_count * SEGMENT);
        let proofs = buckets + groups * GROUP * BUCKET;
        let hits = proofs + line(ways);
        let arena = hits + line(ways);
        let max_key = options.max_key_bytes as usize;
        let max_record = (segment_words - crate::entry::HEADER) * 4;
        let max_value = (options.max_value_bytes as usize).min(max_record.saturating_sub(max_key.next_multiple_of(4)));
        Some(Self {
            options,
            words,
            threads,
            shards,
            shard_count,
            flights,
            flight_sets,
            epochs,
            epoch_count,
            ghost,
            ghost_sets_per_shard,
            segments,
            segments_per_shard,
            segment_words,
            segment_shift: segment_words.ilog2(),
            buckets,
            groups,
            proofs,
            hits,
            ways,
            arena,
            max_value,
            max_key,
        })
    }

    /// Segments of all shards.
    #[must_use]
    pub fn segment_count(&self) -> usize {
        self.segments_per_shard * self.shard_count
    }

    /// Names and values that the mirror in JavaScript needs, offsets in words from the region's first line. Stable order.
    #[must_use]
    pub fn fields(&self) -> Vec<(&'static str, u32)> {
        [
            ("version", VERSION as usize),
            ("words", self.words),
            ("state", header::STATE),
            ("clock", header::CLOCK),
            ("epoch", header::EPOCH),
            ("threads", self.threads),
            ("threadWords", THREAD),
            ("threadCount", self.options.max_threads as usize),
            ("counters", THREAD_COUNTERS),
            ("shards", self.shards),
            ("flights", self.flights),
            ("flightSets", self.flight_sets),
            ("epochs", self.epochs),
            ("epochCount", self.epoch_count),
            ("ghost", self.ghost),
            ("segments", self.segments),
            ("segmentCount", self.segment_count()),
            ("segmentWords", self.segment_words),
            ("buckets", self.buckets),
            ("proofs", self.proofs),
            ("hits", self.hits),
            ("ways", self.ways),
            ("arena", self.arena),
            ("maxKeyBytes", self.max_key),
            ("maxValueBytes", self.max_value),
        ]
        .map(|(name, value)| (name, value as u32))
        .to_vec()
    }

    /// FNV-1a (64 bits) over the names and values of [`Layout::fields`], and the options.
    #[must_use]
    pub fn digest(&self) -> u64 {
        let mut hash = 0xcbf2_9ce4_8422_2325_u64;
        let mut eat = |bytes: &[u8]| {
            for &byte in bytes {
                hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3);
            }
        };
        for (name, value) in self.fields() {
            eat(name.as_bytes());
            eat(&value.to_le_bytes());
        }
        self.options.each_word(|_, word| eat(&word.to_le_bytes()));
        hash
    }
}

/// Bytes from which on a region with these options can be laid out.
fn smallest(from: usize, options: Options) -> usize {
    let (mut low, mut high) = (from, 1 << 30);
    while low + 1 < high {
        let middle = usize::midpoint(low, high);
        match Layout::divide(middle, options) {
            Some(_) => high = middle,
            None => low = middle,
        }
    }
    // A cache line more: where the region begins is not known here.
    (high + LINE) * 4
}
