//! `createCache` and `attachCache`: one thread's seat in the shared cache, as an object of functions that share it.
//!
//! Invariant: what a call writes to (`out`, `info`) lies outside of the region, so the region's words are reached as atomics
//! alone. A session that has ended, by `end` or with its thread, refuses every call.
//!
//! ```text
//! info     proof index | proof | expiry | check | feeder | value length | flags | ticket | slot | hash low | high
//! claim    word index | value
//! ```

mod read;
mod report;
mod write;

use crate::State;
use crate::call::{Call, Fault, Returned, function};
use crate::memory::{Bounds, Held};
use crate::view::Scratch;
use keylane_core::cache::{Cache, RegionError, Session};
use keylane_core::clock::Ticker;
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Region;
use keylane_core::table::MAX_TTL_MS;
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

/// How often the clock moves.
const TICK: Duration = Duration::from_millis(1);
/// Most that a number of ms may say: the clock's range is compared by signed difference.
const MOST_MS: usize = MAX_TTL_MS as usize;

/// The seat with the ticker is the owner's: without a clock nothing would expire any more, so the cache is closed with it.
/// Any other seat takes along what its connections fed: they end with the thread, and nobody hears of changes then.
struct Seat {
    ticker: Option<Ticker>,
    session: Session<'static>,
    scratch: RefCell<Scratch>,
    lead: usize,
    own: Bounds,
}

type Shared = Held<Seat>;

impl Drop for Seat {
    fn drop(&mut self) {
        if self.ticker.is_some() {
            self.session.close();
        } else {
            self.session.invalidate_seat(self.session.owner().seat() as u16);
        }
    }
}

/// `createCache(memory, options)`, where `options` are the first words of [`Options`], 0 for the default.
pub fn create(call: &Call<'_, 2>, _: &State) -> Result<Returned, Fault> {
    let words = call.words(1, "options")?;
    let given = |at: usize, default: u32| match words.get(at) {
        None | Some(0) => default,
        Some(&word) => word as u32,
    };
    let default = Options::default();
    let options = Options {
        entry_bytes: given(0, default.entry_bytes),
        max_value_bytes: given(1, default.max_value_bytes),
        max_key_bytes: given(2, default.max_key_bytes),
        max_threads: given(3, default.max_threads),
        ..default
    };
    seat(call, |region| {
        let cache = Cache::create(region, options)?;
        Ok((cache, Some(Ticker::start(cache, TICK)?)))
    })
}

/// `attachCache(memory)`
pub fn attach(call: &Call<'_, 1>, _: &State) -> Result<Returned, Fault> {
    seat(call, |region| Ok((Cache::attach(region)?, None)))
}

fn refused(error: RegionError) -> Fault {
    Fault::Range(error.to_string())
}

fn seat<const N: usize>(
    call: &Call<'_, N>,
    open: impl FnOnce(Region<'static>) -> Result<(Cache<'static>, Option<Ticker>), RegionError>,
) -> Result<Returned, Fault> {
    let held = Held::new(call, 0, "memory", |words| {
        let (cache, ticker) = open(Region::new(words)).map_err(refused)?;
        let session = cache.join().map_err(refused)?;
        Ok(Seat { ticker, session, scratch: RefCell::default(), lead: Region::lead(words), own: Bounds::of(words) })
    })?;
    let object = call.env().object()?;
    for function in [
        function!("describe", report::describe),
        function!("lookup", read::lookup),
        function!("probe", read::probe),
        function!("stamp", read::stamp),
        function!("beginLoad", write::begin_load),
        function!("holds", read::holds),
        function!("ticket", read::ticket),
        function!("store", write::store),
        function!("invalidate", write::invalidate),
        function!("invalidateAll", write::invalidate_all),
        function!("invalidateFeeder", write::invalidate_feeder),
        function!("expireFeeder", write::expire_feeder),
        function!("invalidateSeat", write::invalidate_seat),
        function!("invalidatePrefix", write::invalidate_prefix),
        function!("claim", write::claim),
        function!("release", write::release),
        function!("counters", report::counters),
        function!("count", report::count),
        function!("usage", report::usage),
        function!("end", end),
    ] {
        call.env().bind(object, function, Rc::clone(&held))?;
    }
    Ok(object)
}

impl Seat {
    /// Runs `body` on the bytes of the key that is argument 0.
    #[inline(always)]
    fn keyed<const N: usize, R>(
        &self,
        call: &Call<'_, N>,
        body: impl FnOnce(u64, &[u8]) -> Result<R, Fault>,
    ) -> Result<R, Fault> {
        let mut scratch = self.scratch.borrow_mut();
        let key = call.key(0, &mut scratch)?;
        self.own.apart(&key, "key")?;
        body(hash64(&key), &key)
    }
}

fn tell(info: &mut [i32], words: [i32; 7]) -> Result<(), Fault> {
    match info.first_chunk_mut() {
        Some(place) => *place = words,
        None => return Err(Fault::Range("info has fewer than 7 words".into())),
    }
    Ok(())
}

/// `end(closeRegion)`, where `closeRegion` is 1 to end the cache for all threads.
fn end(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    if call.word(0, "closeRegion")? != 0 {
        // Closing a session that has ended already is none of the caller's faults.
        let _ = held.with(|seat| {
            seat.session.close();
            Ok(())
        });
    }
    held.end();
    call.undefined()
}
