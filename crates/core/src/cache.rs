//! The region as a cache that threads share: made once, attached to by others, joined by each thread that uses it.
//!
//! Invariant: a [`Session`] is one thread's seat. All that changes the region goes through one, so every lock has an owner;
//! when the session ends, however it ends, its seat is dead and its locks and claims are free to be taken over.

use crate::layout::{Layout, LayoutError, MAGIC, Options, VERSION, header};
use crate::region::Region;
use crate::sync::Ordering::{Acquire, Release};
use crate::sync::{Steady, Steps};
use crate::thread::{Counter, Owner, Seats};
use std::cell::Cell;
use std::marker::PhantomData;

const OPEN: u32 = 1;
const CLOSED: u32 = 2;

/// Why a region cannot be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RegionError {
    /// It cannot be divided so.
    Layout(LayoutError),
    /// It is in use already; attach to it.
    Made,
    /// It was not made by this library, or is still being made.
    Foreign,
    /// It was made by another version of this library.
    Version {
        /// Layout version found.
        theirs: u32,
        /// Layout version of this library.
        ours: u32,
    },
    /// Its layout differs from ours.
    Digest,
    /// It was closed.
    Closed,
    /// As many threads as `max_threads` are joined.
    Full,
}

impl std::fmt::Display for RegionError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Layout(LayoutError::TooSmall { bytes }) => {
                write!(f, "the region is too small for these options, {bytes} bytes would do")
            }
            Self::Layout(LayoutError::TooLarge) => f.write_str("the region is larger than 4 GiB"),
            Self::Layout(LayoutError::BadOption(name)) => write!(f, "option {name} is out of range"),
            Self::Made => f.write_str("the region is in use already"),
            Self::Foreign => f.write_str("the memory is not a region of keylane"),
            Self::Version { theirs, ours } => write!(f, "the region has layout version {theirs}, this is {ours}"),
            Self::Digest => f.write_str("the region is laid out differently"),
            Self::Closed => f.write_str("the region is closed"),
            Self::Full => f.write_str("as many threads as the region seats are joined already"),
        }
    }
}

impl std::error::Error for RegionError {}

/// A laid-out region. Copies are views of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct Cache<'m> {
    pub(crate) region: Region<'m>,
    pub(crate) layout: Layout,
}

impl<'m> Cache<'m> {
    /// Lays a zeroed region out. Touches only what is not zero.
    pub fn create(region: Region<'m>, options: Options) -> Result<Self, RegionError> {
        let layout = Layout::new(region.len(), options).map_err(RegionError::Layout)?;
        if region.word(header::MAGIC).load(Acquire) != 0 {
            return Err(RegionError::Made);
        }
        let cache = Self { region, layout };
        region.set(header::VERSION, VERSION);
        region.set(header::DIGEST_LOW, layout.digest() as u32);
        region.set(header::DIGEST_HIGH, (layout.digest() >> 32) as u32);
        options.each_word(|at, word| region.set(at, word));
        cache.lay_shards();
        region.set(header::MAGIC, MAGIC);
        region.word(header::STATE).store(OPEN, Release);
        Ok(cache)
    }

    /// A view of a region that was laid out elsewhere in this process.
    pub fn attach(region: Region<'m>) -> Result<Self, RegionError> {
        if region.len() < header::WORDS {
            return Err(RegionError::Foreign);
        }
        let state = region.word(header::STATE).load(Acquire);
        if region.get(header::MAGIC) != MAGIC || state == 0 {
            return Err(RegionError::Foreign);
        }
        let theirs = region.get(header::VERSION);
        if theirs != VERSION {
            return Err(RegionError::Version { theirs, ours: VERSION });
        }
        let options = Options::from_words(|at| region.get(at));
        let layout = Layout::new(region.len(), options).map_err(RegionError::Layout)?;
        let digest = u64::from(region.get(header::DIGEST_HIGH)) << 32 | u64::from(region.get(header::DIGEST_LOW));
        if digest != layout.digest() {
            return Err(RegionError::Digest);
        }
        if state != OPEN {
            return Err(RegionError::Closed);
        }
        Ok(Self { region, layout })
    }

    /// How the region is divided.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// The seats of its threads.
    #[inline(always)]
    #[must_use]
    pub fn seats(&self) -> Seats<'m> {
        Seats::new(self.region, &self.layout)
    }

    /// Seats the calling thread.
    pub fn join(&self) -> Result<Session<'m>, RegionError> {
        self.join_with(Steady)
    }

    /// Seats the calling thread as one that `steps` may stop.
    pub fn join_with<S: Steps>(&self, steps: S) -> Result<Session<'m, S>, RegionError> {
        if !self.is_open() {
            return Err(RegionError::Closed);
        }
        let owner = self.seats().take().ok_or(RegionError::Full)?;
        Ok(Session { cache: *self, owner, steps, alone: PhantomData })
    }

    /// Gives a thread's seat up in its place: its locks may be stolen, its claims are free. For the hook that runs when a
    /// thread has ended. O(claims).
    pub fn retire(&self, owner: Owner) {
        if self.seats().leave(owner) {
            self.free_claims(owner);
        }
    }

    /// Whether nobody has closed it.
    #[inline(always)]
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.region.word(header::STATE).load(Acquire) == OPEN
    }

    /// Milliseconds of the region's clock. Wraps after 49.7 days; compare by signed difference.
    #[inline(always)]
    #[must_use]
    pub fn now(&self) -> u32 {
        self.region.get(header::CLOCK)
    }

    /// Sets the region's clock, for its ticker and for tests. It must not go back.
    pub fn set_now(&self, ms: u32) {
        self.region.word(header::CLOCK).store(ms, Release);
    }

    /// Sum of a counter over all threads. O(seats).
    #[must_use]
    pub fn total(&self, counter: Counter) -> u64 {
        self.seats().total(counter)
    }
}

/// One thread's use of the cache.
#[derive(Debug)]
pub struct Session<'m, S: Steps = Steady> {
    pub(crate) cache: Cache<'m>,
    pub(crate) owner: Owner,
    pub(crate) steps: S,
    /// Counters have one writer: a session may move to another thread, but two must not share it.
    alone: PhantomData<Cell<()>>,
}

impl<'m, S: Steps> Session<'m, S> {
    /// The cache it belongs to.
    #[must_use]
    pub fn cache(&self) -> &Cache<'m> {
        &self.cache
    }

    /// The name under which it holds locks and claims.
    #[must_use]
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// What may stop it.
    #[must_use]
    pub fn steps(&self) -> &S {
        &self.steps
    }

    /// Closes the cache for all threads: nothing is stored any more, what is there is gone, and every proof is void.
    pub fn close(&self) {
        self.cache.region.word(header::STATE).store(CLOSED, Release);
        self.invalidate_all();
    }

    #[inline(always)]
    pub(crate) fn count(&self, counter: Counter) {
        self.cache.seats().add(self.owner, counter, 1);
    }
}

impl<S: Steps> Drop for Session<'_, S> {
    fn drop(&mut self) {
        self.cache.retire(self.owner);
    }
}
