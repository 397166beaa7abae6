//! Single flight across threads: the first thread that misses a key is elected to load it, the others wait for it.
//!
//! Invariant: a claim never decides what a value is. A claimant that died, or that is late, is superseded; two keys that look
//! alike, or a set that is full, cost a wait or a second load.
//!
//! ```text
//! set     lock | - | tag of claim 0 … 6 | state of claim 0 … 6          chosen by the key's hash
//! state   deadline, in 16 ms (16 bits) << 16 | turn (8 bits) << 8 | seat + 1 (8 bits, 0 = free)
//! ```
//! A waiter waits while the state word equals the value it was told (`Atomics.waitAsync`), then looks the key up again. Whoever
//! releases a claim calls `Atomics.notify` on the word; only JavaScript can wake JavaScript. The turn makes the next claim's
//! value differ from the last one's.

use crate::cache::{Cache, Session};
use crate::layout::{FLIGHT_SET, MAX_THREADS};
use crate::lock;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};
use crate::sync::{AtomicU32, Steps};
use crate::thread::Owner;

const CLAIMS: usize = 7;
const TAGS: usize = 2;
const STATES: usize = TAGS + CLAIMS;
const UNIT_MS: u32 = 16;
/// Longest patience with a claimant, in ms: half of what a deadline can count.
pub const MAX_PATIENCE_MS: u32 = 500_000;
/// Turns that a claim waits for its set.
const TURNS: u32 = if cfg!(loom) { 8 } else { 4096 };

/// Who loads a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Claim {
    /// The caller, who then releases the claim.
    Elected {
        /// The claim's word.
        index: usize,
        /// What the word says as long as the claim stands.
        value: u32,
    },
    /// Somebody else: wait while the word equals the value.
    Wait {
        /// The claim's word.
        index: usize,
        /// What the word says as long as the claim stands.
        value: u32,
    },
    /// The caller, without a claim: too many loads are under way in this set.
    Crowded,
}

const SEAT: u32 = 0xff;
const TURN: u32 = 0xff00;

fn freed(state: u32) -> u32 {
    state.wrapping_add(1 << 8) & TURN
}

impl<'m> Cache<'m> {
    /// Ends a claim. True when it was still the caller's: then notify the waiters of word `index`.
    pub fn release(&self, index: usize, value: u32) -> bool {
        let claims = self.layout.flights..self.layout.flights + self.layout.flight_sets * FLIGHT_SET;
        if !claims.contains(&index) || (index - claims.start) % FLIGHT_SET < STATES || value & SEAT == 0 {
            return false;
        }
        self.region.word(index).compare_exchange(value, freed(value), AcqRel, Relaxed).is_ok()
    }

    /// Ends all claims of a thread that is gone. O(claims).
    pub(crate) fn free_claims(&self, owner: Owner) {
        let seat = owner.seat() as u32 + 1;
        for set in 0..self.layout.flight_sets {
            for claim in 0..CLAIMS {
                let word = self.region.word(self.layout.flights + set * FLIGHT_SET + STATES + claim);
                let state = word.load(Acquire);
                if state & SEAT == seat {
                    let _ = word.compare_exchange(state, freed(state), AcqRel, Relaxed);
                }
            }
        }
    }

    /// Whether the holder of a claim is alive and in time.
    fn is_held(&self, state: u32) -> bool {
        let seat = state & SEAT;
        let deadline = (state >> 16) as u16;
        seat != 0
            && self.seats().is_taken(seat as usize - 1)
            && (deadline.wrapping_sub((self.now() / UNIT_MS) as u16) as i16) > 0
    }
}

impl<'m, S: Steps> Session<'m, S> {
    /// Asks to load the key of `hash`; a claimant that has not released after `patience_ms` (at most
    /// [`MAX_PATIENCE_MS`]) is superseded.
    pub fn claim(&self, hash: u64, patience_ms: u32) -> Claim {
        let cache = &self.cache;
        let set = (hash >> 20) as usize & (cache.layout.flight_sets - 1);
        let base = cache.layout.flights + set * FLIGHT_SET;
        let lock = cache.region.word(base);
        // A set is whole after each word written to it: a stolen lock needs no mending.
        if lock::try_take(lock, self.owner, &cache.seats(), TURNS).is_none() {
            return Claim::Crowded;
        }
        self.steps.step();
        let claim = self.claim_in(base, (hash >> 32) as u32 ^ hash as u32, patience_ms);
        self.steps.step();
        lock::give(lock);
        claim
    }

    fn claim_in(&self, base: usize, tag: u32, patience_ms: u32) -> Claim {
        let cache = &self.cache;
        let word = |at: usize| -> &'m AtomicU32 { cache.region.word(base + at) };
        let mut free = None;
        for claim in 0..CLAIMS {
            let state = word(STATES + claim).load(Acquire);
            let same = word(TAGS + claim).load(Relaxed) == tag;
            if !cache.is_held(state) {
                // A late claimant of this very key is superseded in its own word, so that those who wait there see it change.
                if free.is_none() || same {
                    free = Some((claim, state));
                }
            } else if same {
                return Claim::Wait { index: base + STATES + claim, value: state };
            }
        }
        let Some((claim, state)) = free else { return Claim::Crowded };
        let patience = patience_ms.clamp(UNIT_MS, MAX_PATIENCE_MS) / UNIT_MS;
        let deadline = (cache.now() / UNIT_MS + patience + 1) as u16;
        let value = u32::from(deadline) << 16 | freed(state) | (self.owner.seat() as u32 + 1);
        word(TAGS + claim).store(tag, Relaxed);
        self.steps.step();
        word(STATES + claim).store(value, Release);
        Claim::Elected { index: base + STATES + claim, value }
    }
}

const _: () = assert!(MAX_THREADS < SEAT);
