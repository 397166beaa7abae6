//! Which keys are hit most. Each thread counts into a summary of its own; ten times a second one aggregator takes all of them
//! and says, for the last second, how often a key was hit at least and at most.
//!
//! A summary is Space-Saving (Metwally, Agrawal and El Abbadi, 2005) cut into sets of 8 ways: a key that is not in its set takes
//! the way with the least count, and what it is hit from then on is sure. So `sure <= hits <= count`, and a key without a way
//! was hit at most as often as the least count says. In a set that took n hits the least count is at most n / 8, and at most
//! m / (8 - h) when h keys stand out and the others took m.
//!
//! ```text
//! hits/s   sets   the least count of a set per second, hits spread evenly     a thread's windows and names
//! 2 M        512   2,000,000 / 512 / 8 = 488                                   256 KiB
//! 2 M      1,024   2,000,000 / 1,024 / 8 = 244                                 384 KiB      (the default)
//! 2 M      2,048   122                                                         640 KiB
//! ```
//! A summary is emptied every 100 ms, so a key that is hot finds a free way, and has no error, in nearly every window. The
//! rate is that of the last ten windows, all counted in full: for hits that come at random, no other mean of one second
//! varies less (an exponential one that follows a step within 1.1 s to 95 % varies more, and is 5 % behind). A key that was not
//! hit for a second is gone, whether anybody asked for it or not.
//!
//! Invariant: a window is written by its thread alone while that thread is in it, and read and emptied by the aggregator alone
//! once the thread is out of it ([`phase`]). Nobody waits for a lock, and no thread ever for the aggregator.

mod aggregate;
mod layout;
mod merge;
mod phase;
mod recorder;
mod sets;
mod tally;
mod window;

pub use aggregate::{Aggregator, Bounds, Hot, MAX_TOP, Merged, SLOT_US, SLOTS};
pub use layout::{Layout, MAGIC, Options, VERSION, WAYS};
pub use recorder::{Recorder, Recording};
pub use window::{CANDIDATE, NAME_BYTES};

use crate::cache::RegionError;
use crate::region::Region;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use layout::{header, seat};
use phase::Phase;
use window::Window;

const OPEN: u32 = 1;

/// A laid-out region of summaries. Copies are views of the same memory.
#[derive(Clone, Copy, Debug)]
pub struct Hits<'m> {
    region: Region<'m>,
    layout: Layout,
}

impl<'m> Hits<'m> {
    /// Lays zeroed memory out.
    pub fn create(region: Region<'m>, options: Options) -> Result<Self, RegionError> {
        let layout = Layout::new(options).map_err(RegionError::Layout)?;
        layout.check(region.len()).map_err(RegionError::Layout)?;
        let magic = region.word(header::MAGIC);
        magic.compare_exchange(0, MAGIC, AcqRel, Acquire).map_err(|_| RegionError::Made)?;
        region.set(header::VERSION, VERSION);
        options.each_word(|at, word| region.set(at, word));
        region.word(header::STATE).store(OPEN, Release);
        Ok(Self { region, layout })
    }

    /// A view of memory that was laid out elsewhere in this process.
    pub fn attach(region: Region<'m>) -> Result<Self, RegionError> {
        if region.len() < header::WORDS
            || region.word(header::STATE).load(Acquire) != OPEN
            || region.get(header::MAGIC) != MAGIC
        {
            return Err(RegionError::Foreign);
        }
        let theirs = region.get(header::VERSION);
        if theirs != VERSION {
            return Err(RegionError::Version { theirs, ours: VERSION });
        }
        let layout = Layout::new(Options::from_words(|at| region.get(at))).map_err(RegionError::Layout)?;
        layout.check(region.len()).map_err(RegionError::Layout)?;
        Ok(Self { region, layout })
    }

    /// How the memory is divided.
    #[must_use]
    pub fn layout(&self) -> &Layout {
        &self.layout
    }

    /// Seats the calling thread. O(threads).
    pub fn join(&self) -> Result<Recorder<'m>, RegionError> {
        Recorder::take(*self).ok_or(RegionError::Full)
    }

    /// Takes the aggregator's part; `None` while another has it.
    #[must_use]
    pub fn aggregate(&self) -> Option<Aggregator<'m>> {
        let word = self.region.word(header::AGGREGATOR);
        word.compare_exchange(0, 1, AcqRel, Relaxed).ok()?;
        Some(Aggregator::new(*self))
    }

    /// A plain counter over all threads, past ones included. 0 for one that is not there. O(threads).
    #[must_use]
    pub fn total(&self, cell: usize) -> u64 {
        if cell >= self.layout.options.cells as usize {
            return 0;
        }
        (0..self.seats()).map(|seat| self.cell(self.layout.cells(seat) + 2 * cell)).sum()
    }

    /// Two words that their writer changes low word first.
    fn cell(&self, at: usize) -> u64 {
        loop {
            let high = self.region.get(at + 1);
            let low = self.region.get(at);
            if self.region.get(at + 1) == high {
                return u64::from(high) << 32 | u64::from(low);
            }
        }
    }

    fn seats(&self) -> usize {
        self.layout.options.max_threads as usize
    }

    /// Whether anybody ever sat there.
    fn is_used(&self, at: usize) -> bool {
        self.region.word(self.layout.seat(at) + seat::STATE).load(Acquire) != seat::NEW
    }

    fn phase(&self, at: usize) -> Phase<'m> {
        Phase::new(self.region.word(self.layout.seat(at) + seat::PHASE))
    }

    fn window(&self, at: usize, half: usize) -> Window<'m> {
        Window::new(self.region, &self.layout, self.layout.window(at, half))
    }

    /// Gives the aggregator's part up.
    fn retire_aggregator(&self) {
        self.region.word(header::AGGREGATOR).store(0, Release);
    }
}
