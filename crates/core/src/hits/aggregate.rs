//! The one that reads all summaries: freezes each thread's live window, adds it to the last second, and ranks.
//!
//! Invariant: there is one aggregator at a time; its part is given up when it is dropped. Hits are attributed to the time between
//! two merges; what was recorded before the first merge is dropped, since nobody knows how long it took. A thread that is in
//! the middle of a batch for longer than a merge may wait is asked again next time, and its hits count then.

use super::Hits;
use super::merge::Span;
pub use super::merge::{SLOT_US, SLOTS};
use super::window::Window;
use crate::sync::wait;

/// Most keys that [`Aggregator::top`] gives.
pub const MAX_TOP: usize = 1000;
/// Turns that a merge waits for a thread to leave a window: some ten microseconds if the thread runs.
const TURNS: u32 = if cfg!(loom) { 2 } else { 256 };

/// What a merge did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merged {
    /// Hits taken from the threads.
    pub hits: u64,
    /// Threads whose hits will come with a later merge.
    pub late: u32,
    /// Names of keys that found no room in their window; their keys are named in a later one, or stay unnamed.
    pub lost: u32,
}

/// Least and most hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// Hits for certain.
    pub lower: u64,
    /// No more than this.
    pub upper: u64,
}

/// A key and its rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Hot<'a> {
    /// xxh3-64 of the whole key.
    pub hash: u64,
    /// The key, or its first [`super::NAME_BYTES`] bytes.
    pub key: &'a [u8],
    /// Bytes of the whole key.
    pub length: u32,
    /// Hits a second: least and most.
    pub rate: Bounds,
}

/// The aggregator's part.
#[derive(Debug)]
pub struct Aggregator<'m> {
    hits: Hits<'m>,
    span: Span,
    last_us: Option<u64>,
    late: Vec<bool>,
    frozen: Vec<Window<'m>>,
}

impl<'m> Aggregator<'m> {
    pub(super) fn new(hits: Hits<'m>) -> Self {
        let span = Span::new(hits.layout.options.sets as usize);
        Self { hits, span, last_us: None, late: vec![false; hits.seats()], frozen: Vec::new() }
    }

    /// Takes what all threads recorded since the last call, to be made every [`SLOT_US`]. `now_us` are microseconds of a clock
    /// that does not go back. The first call only begins. O(sets × threads).
    pub fn merge(&mut self, now_us: u64) -> Merged {
        let last_us = self.last_us.replace(now_us);
        if last_us.is_none() {
            self.empty_frozen();
        }
        let mut merged = Merged::default();
        self.frozen.clear();
        for seat in (0..self.hits.seats()).filter(|&seat| self.hits.is_used(seat)) {
            match freeze(&self.hits, seat, &mut self.late[seat]) {
                None => merged.late += 1,
                Some(window) if window.is_untouched() => {}
                Some(window) => self.frozen.push(window),
            }
        }
        if let Some(last_us) = last_us {
            self.span.advance(now_us.saturating_sub(last_us));
            self.span.merge(&self.frozen);
            for window in &self.frozen {
                merged.hits += u64::from(window.hits());
                merged.lost = merged.lost.saturating_add(window.lost());
                window.each_name(|hash, length, bytes| self.span.learn(hash, length, bytes));
            }
        }
        self.frozen.iter().for_each(Window::clear);
        merged
    }

    /// Empties what an aggregator before this one had no time to take.
    fn empty_frozen(&mut self) {
        for seat in (0..self.hits.seats()).filter(|&seat| self.hits.is_used(seat)) {
            let phase = self.hits.phase(seat);
            let half = phase.frozen();
            self.late[seat] = !phase.is_out_of(half);
            if !self.late[seat] {
                self.hits.window(seat, half).clear();
            }
        }
    }

    /// The named keys with the highest rates, at most [`MAX_TOP`], the surest first; only those that may reach `least` hits
    /// a second. O(followed keys).
    #[must_use]
    pub fn top(&self, limit: usize, least: u64) -> Vec<Hot<'_>> {
        let rate = |lower: u64, upper: u64| self.rate(Bounds { lower, upper });
        let named = self.span.followed().filter_map(|key| Some((key, key.key.as_deref()?)));
        let mut top: Vec<Hot<'_>> = named
            .map(|(entry, key)| {
                let rate = rate(entry.lower(), entry.upper());
                Hot { hash: entry.hash, key, length: entry.length, rate }
            })
            .filter(|hot| hot.rate.upper >= least)
            .collect();
        let (limit, rank) = (limit.min(MAX_TOP), |hot: &Hot<'_>| (std::cmp::Reverse(hot.rate.lower), hot.hash));
        // Those beyond need no order.
        if limit < top.len() {
            top.select_nth_unstable_by_key(limit, rank);
            top.truncate(limit);
        }
        top.sort_unstable_by_key(rank);
        top
    }

    /// Least and most hits of any key, by its hash, within [`Aggregator::span_us`].
    #[must_use]
    pub fn bounds(&self, hash: u64) -> Bounds {
        let (lower, upper) = self.span.bounds(hash);
        Bounds { lower, upper }
    }

    /// Most hits a second of any key that is not followed: the error of "not in the list". O(sets).
    #[must_use]
    pub fn unseen(&self) -> u64 {
        self.rate(Bounds { lower: 0, upper: self.span.unseen() }).upper
    }

    /// Keys that are followed, named or not.
    #[must_use]
    pub fn followed(&self) -> usize {
        self.span.followed().count()
    }

    /// Microseconds that the counts stand for, a second at least.
    #[must_use]
    pub fn span_us(&self) -> u64 {
        self.span.span_us()
    }

    /// Hits within the span as hits a second, the bounds rounded apart.
    fn rate(&self, hits: Bounds) -> Bounds {
        let span = u128::from(self.span_us());
        let per_second = |hits: u64| u128::from(hits) * 1_000_000;
        let word = |rate: u128| u64::try_from(rate).unwrap_or(u64::MAX);
        Bounds { lower: word(per_second(hits.lower) / span), upper: word(per_second(hits.upper).div_ceil(span)) }
    }
}

impl Drop for Aggregator<'_> {
    fn drop(&mut self) {
        self.hits.retire_aggregator();
    }
}

/// The window that the seat's thread wrote until now, once the thread is out of it; `None` when that takes too long.
fn freeze<'m>(hits: &Hits<'m>, seat: usize, late: &mut bool) -> Option<Window<'m>> {
    let phase = hits.phase(seat);
    let half = if *late { phase.frozen() } else { phase.flip() };
    let mut turn = 0;
    while !phase.is_out_of(half) {
        if turn == TURNS {
            *late = true;
            return None;
        }
        wait(turn);
        turn += 1;
    }
    *late = false;
    Some(hits.window(seat, half))
}
