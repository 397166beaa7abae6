//! One thread's seat: it records its hits and adds to its plain counters.
//!
//! Invariant: a seat has one recorder, and a recorder has one batch open at a time, so all it writes has one writer. It leaves
//! its hits behind when it goes: the aggregator takes them next time.

use super::Hits;
use super::layout::seat;
use super::phase::Phase;
use super::window::Window;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use std::cell::Cell;
use std::marker::PhantomData;

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
        Recording { window, phase: self.phase, hits: 0, recorder: PhantomData }
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

/// A batch of hits.
#[derive(Debug)]
pub struct Recording<'r, 'm> {
    window: Window<'m>,
    phase: Phase<'m>,
    hits: u32,
    recorder: PhantomData<&'r mut Recorder<'m>>,
}

impl Recording<'_, '_> {
    /// Records `weight` hits of a key; 0 is none. `hash` is [`crate::hash::hash64`] of its bytes.
    #[inline(always)]
    pub fn hit(&mut self, hash: u64, key: &[u8], weight: u32) {
        if weight == 0 {
            return;
        }
        self.hits = self.hits.saturating_add(weight);
        if self.window.add(hash, weight) {
            self.window.name(hash, key);
        }
    }
}

impl Drop for Recording<'_, '_> {
    #[inline]
    fn drop(&mut self) {
        self.window.add_hits(self.hits);
        self.phase.leave();
    }
}
