//! The region's clock: coarse monotonic milliseconds that every thread reads as one word, and the thread that moves it.
//!
//! Invariant: the clock never goes back, and whoever owns the memory joins the [`Ticker`] before the memory goes. A record's
//! expiry is compared by signed difference, so it must not stay around for half the clock's range (24.8 days): lives are cut to
//! 12.4 days, and the ticker walks the whole index every hour to remove what expired long ago.

use crate::cache::{Cache, RegionError};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Records stay for this long past their expiry at least, for readers that allow it: 24 hours.
pub const STALE_LIMIT_MS: u32 = 86_400_000;
/// Ticks between two steps of the purge.
const PURGE_EVERY: u32 = 1024;
/// Steps of the purge that make a round of the index.
const PURGE_STEPS: usize = 3600;

/// Runs the clock of a region until it is dropped.
#[derive(Debug)]
pub struct Ticker {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Ticker {
    /// Starts a thread that writes the clock every `period`. It takes a seat of its own, for the purge.
    pub fn start(cache: Cache<'static>, period: Duration) -> Result<Self, RegionError> {
        let session = cache.join()?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = Arc::clone(&stop);
        let from = (Instant::now(), cache.now());
        let thread = std::thread::Builder::new().name("keylane-clock".into()).spawn(move || {
            let (mut ticks, mut group) = (0_u32, 0);
            while !stopped.load(Ordering::Acquire) {
                session.cache().set_now(from.1.wrapping_add(from.0.elapsed().as_millis() as u32));
                ticks = ticks.wrapping_add(1);
                if ticks % PURGE_EVERY == 0 {
                    let count = session.cache().layout().groups.div_ceil(PURGE_STEPS);
                    group = session.purge(group, count, STALE_LIMIT_MS);
                }
                std::thread::park_timeout(period);
            }
        });
        // A machine that cannot start one thread more cannot run a clock either.
        let thread = thread.map_err(|_| RegionError::Full)?;
        Ok(Self { stop, thread: Some(thread) })
    }
}

impl Drop for Ticker {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            thread.thread().unpark();
            let _ = thread.join();
        }
    }
}
