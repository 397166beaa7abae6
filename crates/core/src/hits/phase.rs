//! Which of a seat's two windows is live, and whether its thread is in one: a word that both sides change by single atomic
//! steps, so that all changes of it have one order.
//!
//! Invariant: [`Phase::enter`] and [`Phase::leave`] are the seat's thread's, [`Phase::flip`] is the aggregator's, and it flips
//! again only after it saw the thread out of the window that was live before. So the frozen window has one user at a time, and
//! each side sees what the other did there before: leaving releases to `is_out_of`, flipping to `enter`.
//!
//! ```text
//! bit 0   the live window        bit 1   the window entered last        bit 2   the thread is in it
//! ```

use crate::sync::AtomicU32;
use crate::sync::Ordering::{AcqRel, Acquire, Relaxed, Release};

const LIVE: u32 = 1;
const ENTERED: u32 = 2;
const INSIDE: u32 = 4;

#[derive(Clone, Copy, Debug)]
pub(super) struct Phase<'m>(&'m AtomicU32);

impl<'m> Phase<'m> {
    pub fn new(word: &'m AtomicU32) -> Self {
        Self(word)
    }

    /// Enters the live window and says which it is. Tries again only when the aggregator flips meanwhile.
    #[inline]
    pub fn enter(self) -> usize {
        let mut seen = self.0.load(Relaxed);
        loop {
            let live = seen & LIVE;
            match self.0.compare_exchange(seen, live | live << 1 | INSIDE, AcqRel, Relaxed) {
                Ok(_) => return live as usize,
                Err(found) => seen = found,
            }
        }
    }

    /// Leaves the window entered.
    #[inline]
    pub fn leave(self) {
        self.0.fetch_and(!INSIDE, Release);
    }

    /// Makes the other window live; returns the one that was, which is frozen once the thread is out of it.
    pub fn flip(self) -> usize {
        (self.0.fetch_xor(LIVE, AcqRel) & LIVE) as usize
    }

    /// The window that is not live.
    pub fn frozen(self) -> usize {
        (self.0.load(Relaxed) & LIVE ^ LIVE) as usize
    }

    /// Whether the thread is not in this window.
    pub fn is_out_of(self, window: usize) -> bool {
        let word = self.0.load(Acquire);
        word & INSIDE == 0 || usize::from(word & ENTERED != 0) != window
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::Phase;
    use crate::sync::AtomicU32;

    #[test]
    fn a_window_is_free_once_its_thread_left_it_even_when_it_is_in_the_other() {
        let word = AtomicU32::new(0);
        let phase = Phase::new(&word);
        assert_eq!(phase.enter(), 0);
        assert_eq!(phase.flip(), 0);
        assert!(!phase.is_out_of(0) && phase.is_out_of(1));
        phase.leave();
        assert!(phase.is_out_of(0));
        assert_eq!(phase.enter(), 1);
        assert!(phase.is_out_of(0) && !phase.is_out_of(1));
        assert_eq!(phase.frozen(), 0);
        phase.leave();
        assert_eq!(phase.flip(), 1);
        assert_eq!(phase.frozen(), 1);
    }
}
