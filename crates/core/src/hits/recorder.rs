//! One thread's seat: it records its hits and adds to its plain counters.
//!
//! Invariant: a seat has one recorder, and a recorder has one batch open at a time, so all it writes has one writer. It leaves
//! its hits behind when it goes: the aggregator takes them next time.

use super::Hits;
use super::layout::seat;
use super::phase::Phase;
use super::tally::{self, Job, Tally, Words};
use super::window::Window;
use crate::hash::hash64;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::cell::Cell;
use std::marker::PhantomData;

/// Keys that are hashed in advance.
const BLOCK: usize = 32;

/// One thread's use of the summaries.
#[derive(Debug)]
pub struct Recorder<'m> {
    hits: Hits<'m>,
    seat: usize,
    phase: Phase<'m>,
    windows: [Window<'m>; 2],
    /// It may move to another thread, but two must not share it.
    alone: PhantomData<Cell<()>>,
}

impl<'m> Recorder<'m> {
    pub(super) fn take(hits: Hits<'m>) -> Option<Self> {
        let taken = (0..hits.seats()).find(|&at| {
            let word = hits.region.word(hits.layout.seat(at) + seat::STATE);
            let state = word.load(Acquire);
            state != seat::TAKEN && word.compare_exchange(state, seat::TAKEN, AcqRel, Relaxed).is_ok()
        })?;
        let windows = [hits.window(taken, 0), hits.window(taken, 1)];
        Some(Self { hits, seat: taken, phase: hits.phase(taken), windows, alone: PhantomData })
    }

    /// The summaries that it is part of.
    #[must_use]
    pub fn hits(&self) -> &Hits<'m> {
        &self.hits
    }

    /// Its seat, counted from 0.
    #[must_use]
    pub fn seat(&self) -> usize {
        self.seat
    }

    /// Begins a batch, which ends when it is dropped. Two atomic steps a batch, whatever its length.
    #[inline]
    pub fn begin(&mut self) -> Recording<'_, 'm> {
        let window = self.windows[self.phase.enter()];
        Recording { window, phase: self.phase, hits: window.hits(), recorder: PhantomData }
    }

    /// Adds to a plain counter; one that is not there is ignored.
    #[inline]
    pub fn count(&mut self, cell: usize, amount: u32) {
        if cell >= self.hits.layout.options.cells as usize {
            return;
        }
        let (region, at) = (self.hits.region, self.hits.layout.cells(self.seat) + 2 * cell);
        let (sum, wrapped) = region.get(at).overflowing_add(amount);
        region.set(at, sum);
        if wrapped {
            region.set(at + 1, region.get(at + 1).wrapping_add(1));
        }
    }
}

impl Drop for Recorder<'_> {
    fn drop(&mut self) {
        self.hits.region.word(self.hits.layout.seat(self.seat) + seat::STATE).store(seat::LEFT, Release);
    }
}

/// A batch of hits. What a window has no room for, past 2^32 - 1 hits, is not counted.
#[derive(Debug)]
pub struct Recording<'r, 'm> {
    window: Window<'m>,
    phase: Phase<'m>,
    /// Hits of the window.
    hits: u32,
    recorder: PhantomData<&'r mut Recorder<'m>>,
}

impl Recording<'_, '_> {
    /// Records `weight` hits of a key; 0 is none.
    pub fn hit(&mut self, key: &[u8], weight: u32) {
        let weight = weight.min(u32::MAX - self.hits);
        let hash = hash64(key);
        self.hits += weight;
        if weight > 0 && self.window.sets.add(Words, hash, weight) {
            self.window.name(hash, key);
        }
    }

    /// Records keys that lie back to back, with their lengths and their weights (none: 1 each; a missing one: 0). False, and
    /// nothing is recorded, when the lengths do not add up to the bytes or a number is negative.
    pub fn joined(&mut self, keys: &[u8], lengths: &[i32], weights: Option<&[i32]>) -> bool {
        let negative = |numbers: &[i32]| numbers.iter().fold(0, |signs, &number| signs | number) < 0;
        let sum = |numbers: &[i32]| numbers.iter().map(|&number| u64::from(number as u32)).sum::<u64>();
        if negative(lengths) || weights.is_some_and(negative) || sum(lengths) != keys.len() as u64 {
            return false;
        }
        let hits = u64::from(self.hits) + weights.map_or(lengths.len() as u64, sum);
        let weight_of = |at: usize| weights.map_or(1, |weights| weights.get(at).map_or(0, |&weight| weight as u32));
        match u32::try_from(hits) {
            Err(_) => self.one_by_one(keys, lengths, weight_of),
            Ok(hits) => {
                self.hits = hits;
                let (window, keys, room) = (self.window, split(keys, lengths), lengths.len());
                match weights {
                    None => tally::run(Each { window, keys, room, weight_of: |_| 1 }),
                    Some(_) => tally::run(Each { window, keys, room, weight_of }),
                };
            }
        }
        true
    }

    /// Records one hit of each key.
    pub fn keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        let room = (u32::MAX - self.hits) as usize;
        self.hits += tally::run(Each { window: self.window, keys, room, weight_of: |_| 1 }) as u32;
    }

    #[cold]
    fn one_by_one(&mut self, keys: &[u8], lengths: &[i32], weight_of: impl Fn(usize) -> u32) {
        for (at, key) in split(keys, lengths).enumerate() {
            self.hit(key, weight_of(at));
        }
    }
}

/// The keys that lie back to back.
fn split<'k>(keys: &'k [u8], lengths: &'k [i32]) -> impl Iterator<Item = &'k [u8]> + Clone {
    lengths.iter().scan(keys, |rest, &length| {
        let (key, behind) = rest.split_at_checked(length as usize)?;
        *rest = behind;
        Some(key)
    })
}

/// Records keys, each by the weight that its place has.
struct Each<'m, K, W> {
    window: Window<'m>,
    keys: K,
    /// Most keys.
    room: usize,
    weight_of: W,
}

impl<'k, K: Iterator<Item = &'k [u8]> + Clone, W: Fn(usize) -> u32> Job for Each<'_, K, W> {
    /// Some keys are hashed in advance: that is faster than to hash and count one by one.
    #[inline(always)]
    fn run(self, tally: impl Tally) -> usize {
        let Self { window, mut keys, room, weight_of } = self;
        let sets = window.sets;
        let mut hashes = [0; BLOCK];
        let mut done = 0;
        loop {
            let block = keys.clone();
            let most = BLOCK.min(room - done);
            let mut length = 0;
            while length < most {
                let Some(key) = keys.next() else { break };
                hashes[length] = hash64(key);
                sets.fetch(tally, hashes[length]);
                length += 1;
            }
            for (at, &hash) in hashes[..length].iter().enumerate() {
                let weight = weight_of(done + at);
                if weight > 0 && sets.add(tally, hash, weight) {
                    window.name_nth(hash, block.clone(), at);
                }
            }
            done += length;
            if length < BLOCK {
                return done;
            }
        }
    }
}

impl Drop for Recording<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.window.set_hits(self.hits);
        self.phase.leave();
    }
}
