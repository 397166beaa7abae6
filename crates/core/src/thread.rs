//! Who uses the region: a seat per thread, taken when it joins and given back when it leaves or dies, and its counters.
//!
//! Invariant: an owner names a seat and the generation in which it was taken. It is alive exactly while the seat's state
//! word says so; the word only moves forward, so an owner that died never comes to life again, whoever sits there now.
//! Counters are written by the thread in the seat alone, two words each, and are kept from one generation to the next.
//!
//! ```text
//! state of a seat   generation (24 bits) << 1 | alive
//! owner             generation (24 bits) << 8 | seat + 1          0 is nobody
//! ```

use crate::layout::{Layout, THREAD, THREAD_COUNTERS, THREAD_STATE};
use crate::region::Region;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed};

const GENERATIONS: u32 = (1 << 24) - 1;

/// A thread in its seat, as lock words and claims name it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Owner(u32);

impl Owner {
    /// The word that names it; never 0.
    #[inline(always)]
    #[must_use]
    pub fn word(self) -> u32 {
        self.0
    }

    /// The owner that a nonzero word names.
    #[must_use]
    pub fn from_word(word: u32) -> Self {
        Self(word)
    }

    /// Its seat, counted from 0; out of range when the word was never an owner's.
    #[inline(always)]
    #[must_use]
    pub fn seat(self) -> usize {
        (self.0 as u8).wrapping_sub(1) as usize
    }

    fn alive(self) -> u32 {
        (self.0 >> 8) << 1 | 1
    }
}

/// What is counted per thread. The value is the counter's place in the thread's block.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(usize)]
pub enum Counter {
    /// Answered by a thread's own L0 (counted by JavaScript).
    L0Hits,
    /// Answered by L1 with a value.
    L1Hits,
    /// Answered by L1: the key is known to be absent.
    AbsentHits,
    /// Answered past its expiry because the caller allowed it.
    StaleHits,
    /// Not cached.
    Misses,
    /// Cached, but expired.
    Expired,
    /// Loads begun (a ticket taken).
    Loads,
    /// Times that a reader was elected to refresh.
    Refreshes,
    /// Records stored.
    Stores,
    /// Stores refused because the key was invalidated while it was loaded.
    Overtaken,
    /// Stores refused because of the key's or the value's length.
    Bypassed,
    /// Stores given up because another thread held the arena for too long.
    Busy,
    /// Keys, feeders, prefixes or everything invalidated.
    Invalidations,
    /// Records removed to make room.
    Evictions,
    /// Segments recycled.
    Recycled,
    /// Locks taken over from a dead thread.
    Stolen,
    /// Waits for another thread's load (counted by JavaScript).
    Waits,
}

impl Counter {
    /// All of them with the names JavaScript uses, in the order of their places.
    pub const ALL: [(Self, &'static str); 17] = [
        (Self::L0Hits, "l0Hits"),
        (Self::L1Hits, "l1Hits"),
        (Self::AbsentHits, "absentHits"),
        (Self::StaleHits, "staleHits"),
        (Self::Misses, "misses"),
        (Self::Expired, "expired"),
        (Self::Loads, "loads"),
        (Self::Refreshes, "refreshes"),
        (Self::Stores, "stores"),
        (Self::Overtaken, "overtaken"),
        (Self::Bypassed, "bypassed"),
        (Self::Busy, "busy"),
        (Self::Invalidations, "invalidations"),
        (Self::Evictions, "evictions"),
        (Self::Recycled, "recycled"),
        (Self::Stolen, "stolen"),
        (Self::Waits, "waits"),
    ];
}

/// The seats of a region.
#[derive(Clone, Copy, Debug)]
pub struct Seats<'m> {
    region: Region<'m>,
    base: usize,
    count: usize,
}

impl<'m> Seats<'m> {
    /// The seats that `layout` describes.
    #[inline(always)]
    #[must_use]
    pub fn new(region: Region<'m>, layout: &Layout) -> Self {
        Self { region, base: layout.threads, count: layout.options.max_threads as usize }
    }

    /// Takes a free seat; `None` when all are taken. O(seats).
    #[must_use]
    pub fn take(&self) -> Option<Owner> {
        for seat in 0..self.count {
            let word = self.region.word(self.base + seat * THREAD + THREAD_STATE);
            let state = word.load(Acquire);
            if state & 1 == 1 {
                continue;
            }
            let generation = ((state >> 1) + 1) & GENERATIONS;
            if word.compare_exchange(state, generation << 1 | 1, AcqRel, Relaxed).is_ok() {
                return Some(Owner(generation << 8 | (seat as u32 + 1)));
            }
        }
        None
    }

    /// Gives the seat up: from now on the owner is dead and its locks may be stolen. True the first time only.
    ///
    /// Everything the thread wrote before is visible to whoever finds it dead.
    pub fn leave(&self, owner: Owner) -> bool {
        if owner.seat() >= self.count {
            return false;
        }
        let word = self.region.word(self.base + owner.seat() * THREAD + THREAD_STATE);
        word.compare_exchange(owner.alive(), owner.alive() & !1, AcqRel, Relaxed).is_ok()
    }

    /// Whether the owner is gone for good. A word that was never an owner's counts as dead.
    #[must_use]
    pub fn is_dead(&self, owner: Owner) -> bool {
        if owner.seat() >= self.count {
            return true;
        }
        self.region.word(self.base + owner.seat() * THREAD + THREAD_STATE).load(Acquire) != owner.alive()
    }

    /// Whether somebody sits in `seat`.
    #[must_use]
    pub fn is_taken(&self, seat: usize) -> bool {
        seat < self.count && self.region.word(self.base + seat * THREAD + THREAD_STATE).load(Acquire) & 1 == 1
    }

    /// Adds to a counter of the calling thread's own seat.
    #[inline(always)]
    pub fn add(&self, owner: Owner, counter: Counter, amount: u32) {
        let at = self.base + owner.seat() * THREAD + THREAD_COUNTERS + 2 * counter as usize;
        let (sum, wrapped) = self.region.get(at).overflowing_add(amount);
        self.region.set(at, sum);
        if wrapped {
            self.region.set(at + 1, self.region.get(at + 1).wrapping_add(1));
        }
    }

    /// Sum of a counter over all seats, past owners included. O(seats).
    #[must_use]
    pub fn total(&self, counter: Counter) -> u64 {
        let at = |seat: usize| self.base + seat * THREAD + THREAD_COUNTERS + 2 * counter as usize;
        (0..self.count).map(|seat| self.read(at(seat))).sum()
    }

    /// Two words that their writer changes low word first.
    fn read(&self, at: usize) -> u64 {
        loop {
            let high = self.region.get(at + 1);
            let low = self.region.get(at);
            if self.region.get(at + 1) == high {
                return u64::from(high) << 32 | u64::from(low);
            }
        }
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Counter, Seats};
    use crate::layout::{Layout, Options};
    use crate::region::Memory;

    #[test]
    fn a_seat_is_taken_anew_under_another_name() {
        let options = Options { max_threads: 2, ..Options::default() };
        let memory = Memory::new(1 << 20);
        let seats = Seats::new(memory.region(), &Layout::new(memory.region().len(), options).unwrap());
        let (first, second) = (seats.take().unwrap(), seats.take().unwrap());
        assert_eq!((first.seat(), second.seat()), (0, 1));
        assert!(seats.take().is_none());
        assert!(!seats.is_dead(first));
        assert!(seats.leave(first));
        assert!(!seats.leave(first));
        assert!(seats.is_dead(first));
        let third = seats.take().unwrap();
        assert_eq!(third.seat(), 0);
        assert_ne!(third, first);
        assert!(seats.is_dead(first) && !seats.is_dead(third));
    }

    #[test]
    fn counters_carry_into_their_high_word_and_outlive_their_thread() {
        let memory = Memory::new(1 << 20);
        let seats = Seats::new(memory.region(), &Layout::new(memory.region().len(), Options::default()).unwrap());
        let owner = seats.take().unwrap();
        seats.add(owner, Counter::Misses, u32::MAX);
        seats.add(owner, Counter::Misses, 3);
        seats.leave(owner);
        assert_eq!(seats.total(Counter::Misses), (1 << 32) + 2);
        assert_eq!(seats.total(Counter::Expired), 0);
    }

    #[test]
    fn counters_stand_at_their_places() {
        for (place, (counter, _)) in Counter::ALL.into_iter().enumerate() {
            assert_eq!(counter as usize, place);
        }
    }
}
