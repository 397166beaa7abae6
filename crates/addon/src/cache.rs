//! `createCache` and `attachCache`: one thread's seat in the shared cache, as an object of functions that share it.
//!
//! Invariant: what a call writes to (`out`, `info`) lies outside of the region, so the region's words are reached as atomics
//! alone. A session that has ended, by `end` or with its thread, refuses every call.
//!
//! ```text
//! info     proof index | proof | expiry | check | feeder | value length | flags | ticket | slot | hash low | high
//! claim    word index | value
//! ```

use crate::State;
use crate::call::{Call, Fault, Returned, function};
use crate::memory::{Bounds, Held};
use crate::view::Scratch;
use keylane_core::cache::{Cache, RegionError, Session};
use keylane_core::clock::Ticker;
use keylane_core::flight::Claim;
use keylane_core::hash::hash64;
use keylane_core::layout::{Options, THREAD, THREAD_COUNTERS};
use keylane_core::region::Region;
use keylane_core::resp::keys::Keys;
use keylane_core::slot;
use keylane_core::table::{Ask, Entry, Lookup, MAX_TTL_MS, Stored};
use keylane_core::thread::Counter;
use std::cell::RefCell;
use std::fmt::Write;
use std::rc::Rc;
use std::time::Duration;

const FLAG_ELECTED: i32 = 1;
const FLAG_STALE: i32 = 2;
const FLAG_HIGH: i32 = 4;

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
        function!("describe", describe),
        function!("lookup", lookup),
        function!("probe", probe),
        function!("stamp", stamp),
        function!("beginLoad", begin_load),
        function!("holds", holds),
        function!("ticket", ticket),
        function!("store", store),
        function!("invalidate", invalidate),
        function!("invalidateAll", invalidate_all),
        function!("invalidateFeeder", invalidate_feeder),
        function!("expireFeeder", expire_feeder),
        function!("invalidateSeat", invalidate_seat),
        function!("invalidatePrefix", invalidate_prefix),
        function!("claim", claim),
        function!("release", release),
        function!("counters", counters),
        function!("count", count),
        function!("usage", usage),
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

/// `lookup(key, staleMs, leaseMs, out, info)`
fn lookup(call: &Call<'_, 5>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let ask = Ask {
            stale_ms: call.count(1, "staleMs", MOST_MS, true)? as u32,
            lease_ms: call.count(2, "leaseMs", MOST_MS, true)? as u32,
        };
        let (out, info) = (call.bytes_mut(3, "out")?, call.words_mut(4, "info")?);
        seat.own.apart(out, "out")?;
        seat.own.apart(info, "info")?;
        let found: Lookup = seat.keyed(call, |hash, key| Ok(seat.session.lookup(hash, key, ask, out)))?;
        let flag = |set: bool, flag: i32| if set { flag } else { 0 };
        let flags = flag(found.elected, FLAG_ELECTED) | flag(found.stale, FLAG_STALE) | flag(found.high, FLAG_HIGH);
        let (index, length) = (found.proof_index as i32, found.value_len as i32);
        let (proof, expiry, check) = (found.proof as i32, found.expiry as i32, found.check as i32);
        tell(info, [index, proof, expiry, check, found.feeder.into(), length, flags])?;
        call.int(found.kind as i32)
    })
}

/// `probe(key, out, info)`: what is kept, the ticket with which to store it, and what else of the key costs little here.
fn probe(call: &Call<'_, 3>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (out, info) = (call.bytes_mut(1, "out")?, call.words_mut(2, "info")?);
        seat.own.apart(out, "out")?;
        seat.own.apart(info, "info")?;
        let (ticket, hash, own_slot, found) = seat.keyed(call, |hash, key| {
            let ticket = seat.session.cache().ticket(hash);
            Ok((ticket, hash, slot::slot(key), seat.session.probe(hash, key, out)))
        })?;
        let Some(place) = info.first_chunk_mut::<11>() else {
            return Err(Fault::Range("info has fewer than 11 words".into()));
        };
        let (low, high) = (hash as i32, (hash >> 32) as i32);
        let (index, length) = (found.proof_index as i32, found.value_len as i32);
        let (proof, expiry, check) = (found.proof as i32, found.expiry as i32, found.check as i32);
        *place =
            [index, proof, expiry, check, found.feeder.into(), length, 0, ticket as i32, own_slot.into(), low, high];
        call.int(found.kind as i32)
    })
}

/// `stamp(scratch, desc, count, out)`: of each operation's key the ticket, the slot and the hash, four words an operation.
/// Words of operations without a key stay as they are; ends before one that is not well formed.
fn stamp(call: &Call<'_, 4>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (scratch, desc, out) = (call.bytes(0, "scratch")?, call.words(1, "desc")?, call.words_mut(3, "out")?);
        let count = call.count(2, "count", desc.len(), false)?;
        seat.own.apart(scratch, "scratch")?;
        seat.own.apart(desc, "desc")?;
        seat.own.apart(out, "out")?;
        let mut keys = Keys::new(scratch, desc, count);
        for place in out.as_chunks_mut::<4>().0 {
            let Some((key, _)) = keys.step() else { break };
            let Some(key) = key else { continue };
            let hash = hash64(key);
            let ticket = seat.session.cache().ticket(hash);
            *place = [ticket as i32, slot::slot(key).into(), hash as i32, (hash >> 32) as i32];
        }
        call.undefined()
    })
}

/// `beginLoad(key)`
fn begin_load(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let ticket = seat.keyed(call, |hash, _| Ok(seat.session.begin_load(hash)))?;
        call.int(ticket as i32)
    })
}

/// `holds(key)`
fn holds(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let held = seat.keyed(call, |hash, key| Ok(seat.session.cache().holds(hash, key)))?;
        call.boolean(held)
    })
}

/// `ticket(key)`: what a load that begins now would carry.
fn ticket(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let ticket = seat.keyed(call, |hash, _| Ok(seat.session.cache().ticket(hash)))?;
        call.int(ticket as i32)
    })
}

/// `store(key, value, ttlMs, refreshMs, feeder, domain, ticket, info)`, where `value` is null for a key that does not exist.
fn store(call: &Call<'_, 8>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let value = if call.is_null(1)? { None } else { Some(call.bytes(1, "value")?) };
        let ttl_ms = call.count(2, "ttlMs", MOST_MS, true)? as u32;
        let refresh_ms = call.count(3, "refreshMs", MOST_MS, true)? as u32;
        let feeder = call.count(4, "feeder", u16::MAX.into(), false)? as u16;
        let domain = call.count(5, "domain", u16::MAX.into(), false)? as u16;
        let ticket = call.word(6, "ticket")?;
        let info = call.words_mut(7, "info")?;
        seat.own.apart(value.unwrap_or_default(), "value")?;
        seat.own.apart(info, "info")?;
        let stored = seat.keyed(call, |hash, key| {
            Ok(seat.session.store(&Entry { hash, key, value, ttl_ms, refresh_ms, feeder, domain, ticket }))
        })?;
        let kind = match stored {
            Stored::Kept { proof_index, proof, expiry, check } => {
                let length = value.map_or(0, <[u8]>::len) as i32;
                let words = [proof_index as i32, proof as i32, expiry as i32, check as i32, feeder.into(), length, 0];
                tell(info, words)?;
                0
            }
            Stored::Overtaken => 1,
            Stored::Bypassed => 2,
            Stored::Busy => 3,
            Stored::Closed => 4,
        };
        call.int(kind)
    })
}

/// `invalidate(key)`
fn invalidate(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let was_cached = seat.keyed(call, |hash, key| Ok(seat.session.invalidate(hash, key)))?;
        call.boolean(was_cached)
    })
}

/// `invalidateAll()`
fn invalidate_all(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        seat.session.invalidate_all();
        call.undefined()
    })
}

/// `invalidateFeeder(feeder)`
fn invalidate_feeder(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let feeder = call.count(0, "feeder", u16::MAX.into(), false)? as u16;
        call.int(seat.session.invalidate_feeder(feeder) as i32)
    })
}

/// `expireFeeder(feeder)`
fn expire_feeder(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let feeder = call.count(0, "feeder", u16::MAX.into(), false)? as u16;
        call.int(seat.session.expire_feeder(feeder) as i32)
    })
}

/// `invalidateSeat(seat)`
fn invalidate_seat(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let dead = call.count(0, "seat", u16::MAX.into(), false)? as u16;
        call.int(seat.session.invalidate_seat(dead) as i32)
    })
}

/// `invalidatePrefix(prefix, domain)`
fn invalidate_prefix(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let domain = call.count(1, "domain", u16::MAX.into(), false)? as u16;
        let removed = seat.keyed(call, |_, prefix| Ok(seat.session.invalidate_prefix(domain, prefix)))?;
        call.int(removed as i32)
    })
}

/// `claim(key, patienceMs, claim)`: with the ticket of the load to come; 3 when the key was cached meanwhile, and nothing is
/// claimed.
fn claim(call: &Call<'_, 3>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let patience_ms = call.count(1, "patienceMs", MOST_MS, true)? as u32;
        let told = call.words_mut(2, "claim")?;
        seat.own.apart(told, "claim")?;
        let session = &seat.session;
        let (kind, index, value, ticket) = seat.keyed(call, |hash, key| {
            Ok(match session.claim(hash, patience_ms) {
                Claim::Wait { index, value } => (1, index, value, 0),
                Claim::Crowded => (2, 0, 0, session.begin_load(hash)),
                Claim::Elected { index, value } if session.cache().holds(hash, key) => {
                    session.cache().release(index, value);
                    (3, index, value, 0)
                }
                Claim::Elected { index, value } => (0, index, value, session.begin_load(hash)),
            })
        })?;
        let place = told.first_chunk_mut().ok_or_else(|| Fault::Range("claim has fewer than 3 words".into()))?;
        *place = [index as i32, value as i32, ticket as i32];
        call.int(kind)
    })
}

/// `release(index, value)`
fn release(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (index, value) = (call.word(0, "index")?, call.word(1, "value")?);
        call.boolean(seat.session.cache().release(index as usize, value))
    })
}

/// `count(counter, amount)`
fn count(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let place = call.count(0, "counter", Counter::ALL.len() - 1, false)?;
        let amount = call.count(1, "amount", u32::MAX as usize, false)? as u32;
        seat.session.cache().seats().add(seat.session.owner(), Counter::ALL[place].0, amount);
        call.undefined()
    })
}

/// `counters()`: sums over all threads, as JSON.
fn counters(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let cache = seat.session.cache();
        call.string(&json(Counter::ALL.map(|(counter, name)| (name, cache.total(counter)))))
    })
}

/// `usage()`: entries and bytes in use, as JSON.
fn usage(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let cache = seat.session.cache();
        let bytes = (cache.layout().arena + cache.arena_words_used()) * 4;
        call.string(&json([("entries", cache.entries() as u64), ("bytes", bytes as u64)]))
    })
}

/// `describe()`: base, digest and layout, as JSON.
fn describe(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (cache, owner) = (seat.session.cache(), seat.session.owner());
        let own = cache.layout().threads + owner.seat() * THREAD + THREAD_COUNTERS;
        let fields = cache.layout().fields().into_iter().map(|(name, value)| (name, u64::from(value)));
        let own = [("ownCounters", own as u64), ("ownSeat", owner.seat() as u64)];
        let fields = json(fields.chain(own));
        let digest = cache.layout().digest();
        call.string(&format!("{{\"base\":{},\"digest\":\"{digest:016x}\",\"layout\":{fields}}}", seat.lead))
    })
}

fn json<'n>(fields: impl IntoIterator<Item = (&'n str, u64)>) -> String {
    let mut text = String::from("{");
    for (name, value) in fields {
        let comma = if text.len() > 1 { "," } else { "" };
        // Writing to a string cannot fail.
        let _ = write!(text, "{comma}\"{name}\":{value}");
    }
    text + "}"
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
