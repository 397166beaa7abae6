//! One thread's seat: it records its hits and adds to its plain counters.
//!
//! Invariant: a seat has one recorder, and a recorder has one batch open at a time, so all it writes has one writer. It leaves
//! its hits behind when it goes: the aggregator takes them next time.

mod counted;

use super::Hits;
use super::layout::seat;
use super::phase::Phase;
use super::sets::Set;
use super::tally::{self, Job, MOST, Tally, Words};
use super::window::Window;
use crate::hash::hash64;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::replace;

/// Keys that are hashed in advance.
const AHEAD: usize = 16;

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
        let Some(set) = self.window.sets.of(hash).filter(|_| weight > 0) else { return };
        if Words.tally(set, hash, weight) {
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
            Ok(hits) if hits <= MOST => {
                self.hits = hits;
                let (window, keys, room) = (self.window, split(keys, lengths), lengths.len());
                match weights {
                    None => tally::run(Each { window, keys, room, weight_of: |_| 1 }),
                    Some(_) => tally::run(Each { window, keys, room, weight_of }),
                };
            }
            _ => self.one_by_one(split(keys, lengths), weight_of),
        }
        true
    }

    /// Records one hit of each key.
    pub fn keys<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]> + Clone) {
        let room = MOST.saturating_sub(self.hits) as usize;
        let done = tally::run(Each { window: self.window, keys: keys.clone(), room, weight_of: |_| 1 });
        self.hits += done as u32;
        if done == room {
            self.one_by_one(keys.skip(room), |_| 1);
        }
    }

    #[cold]
    fn one_by_one<'k>(&mut self, keys: impl Iterator<Item = &'k [u8]>, weight_of: impl Fn(usize) -> u32) {
        for (at, key) in keys.enumerate() {
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
    /// A key's set is fetched when it is hashed, and by the time that it is counted some others were hashed.
    #[inline(always)]
    fn run(self, tally: impl Tally) -> usize {
        let Self { window, mut keys, room, weight_of } = self;
        let mut waiting = [(0, None); AHEAD];
        // What was there before the keys that wait, and how many keys were.
        let (mut before, mut done) = (keys.clone(), 0);
        let count = |(hash, set): (u64, Option<&Set>), keys: &K, place: usize, nth: usize| {
            let Some(set) = set else { return };
            let weight = weight_of(nth);
            if weight > 0 && tally.tally(set, hash, weight) {
                window.name_nth(hash, keys.clone(), place);
            }
        };
        loop {
            let block = keys.clone();
            let most = AHEAD.min(room - done);
            let mut length = 0;
            while length < most {
                let Some(key) = keys.next() else { break };
                let hash = hash64(key);
                let set = window.sets.of(hash);
                if let Some(set) = set {
                    tally.fetch(set);
                }
                count(replace(&mut waiting[length], (hash, set)), &before, length, (done + length).wrapping_sub(AHEAD));
                length += 1;
            }
            done += length;
            if length == AHEAD {
                before = block;
                continue;
            }
            for (at, &one) in waiting.iter().enumerate().skip(length) {
                count(one, &before, at, (done + at).wrapping_sub(AHEAD + length));
            }
            for (at, &one) in waiting[..length].iter().enumerate() {
                count(one, &block, at, done - length + at);
            }
            return done;
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
