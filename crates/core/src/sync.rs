//! The one place that says where atomics come from: `std`, or `loom` when the crate is built with `--cfg loom`.
//!
//! Invariant: every word of the shared region is reached through this `AtomicU32`, so what loom explores is what ships.
//! Nothing here blocks: waiting is spinning, then yielding, with a bound that the caller keeps.

#[cfg(loom)]
pub use loom::sync::atomic::{AtomicU32, Ordering, fence};
#[cfg(not(loom))]
pub use std::sync::atomic::{AtomicU32, Ordering, fence};

/// Turns that a waiter spins before it gives its time slice away.
const SPINS: u32 = if cfg!(loom) { 0 } else { 64 };

/// One turn of waiting for another thread; `turn` counts from 0.
#[inline]
pub fn wait(turn: u32) {
    if turn < SPINS {
        std::hint::spin_loop();
    } else {
        yield_now();
    }
}

#[cfg(loom)]
fn yield_now() {
    loom::thread::yield_now();
}

#[cfg(not(loom))]
fn yield_now() {
    std::thread::yield_now();
}

/// A place where a writer may be stopped for good. Writers call `step` between any two changes of shared state; tests stop
/// there, in a release build the calls vanish.
pub trait Steps {
    /// Called between two changes. Stops the writer by unwinding with [`Stopped`], or returns.
    fn step(&self) {}
    /// Whether this writer was stopped: its locks then stay locked, as those of a thread that is gone.
    fn stopped(&self) -> bool {
        false
    }
}

/// Never stops.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steady;

impl Steps for Steady {}

/// What a stopped writer unwinds with.
#[derive(Clone, Copy, Debug)]
pub struct Stopped;

/// Stops at the nth step from when it was lit, by unwinding past every guard without touching the region again.
#[derive(Debug, Default)]
pub struct Fuse {
    left: std::cell::Cell<u32>,
    burnt: std::cell::Cell<bool>,
}

impl Fuse {
    /// Stops the writer at its `steps`th step from now; 0 never.
    pub fn light(&self, steps: u32) {
        self.left.set(steps);
    }

    /// Steps that are left, 0 when none was lit or it went off.
    #[must_use]
    pub fn left(&self) -> u32 {
        self.left.get()
    }
}

impl Steps for Fuse {
    fn step(&self) {
        let left = self.left.get();
        if left == 0 {
            return;
        }
        self.left.set(left - 1);
        if left == 1 {
            self.burnt.set(true);
            std::panic::resume_unwind(Box::new(Stopped));
        }
    }

    fn stopped(&self) -> bool {
        self.burnt.get()
    }
}
