//! `createHits` and `attachHits`: one thread's seat among the summaries of hot keys, as an object of functions that share it.
//!
//! Invariant: what a call reads or writes lies outside of the summaries' memory, so its words are reached as atomics alone. The
//! first seat that merges has the aggregator's part until it ends. A session that has ended, by `end` or with its thread,
//! refuses every call.
//!
//! ```text
//! rows     lower | upper | bytes of the key | bytes kept | hash low | hash high      one group a key
//! info     hits | threads that are late | names lost | most hits a second of a key that is not followed
//! totals   low | high                                                                one pair a plain counter
//! ```

use crate::State;
use crate::call::{Call, Fault, Returned, function};
use crate::keys::lengths;
use crate::memory::{Bounds, Held};
use crate::view::{Scratch, Text};
use keylane_core::cache::RegionError;
use keylane_core::hits::{Aggregator, Hits, Layout, MAX_TOP, Options, Recorder};
use keylane_core::region::Region;
use keylane_core::resp::keys::Keys;
use keylane_core::text::push_utf8;
use std::cell::RefCell;
use std::rc::Rc;

/// Words of a row of `top`.
const ROW: usize = 6;
/// Latest time, in microseconds: 285 years, as far as doubles count by one.
const LATEST: usize = 1 << 53;

/// The parts are in this order, so that the aggregator's is given up before the seat.
struct Seat {
    aggregator: RefCell<Option<Aggregator<'static>>>,
    recorder: RefCell<Recorder<'static>>,
    scratch: RefCell<Scratch>,
    lead: usize,
    own: Bounds,
}

type Shared = Held<Seat>;

/// `hitsBytes(options)`: bytes of memory that these options take.
pub fn bytes(call: &Call<'_, 1>, _: &State) -> Result<Returned, Fault> {
    let layout = Layout::new(options(call.words(0, "options")?)).map_err(RegionError::Layout).map_err(refused)?;
    match i32::try_from(layout.bytes()) {
        Ok(bytes) => call.int(bytes),
        Err(_) => Err(Fault::Range("the memory would be larger than 2 GiB".into())),
    }
}

/// `createHits(memory, options)`
pub fn create(call: &Call<'_, 2>, _: &State) -> Result<Returned, Fault> {
    let options = options(call.words(1, "options")?);
    seat(call, |region| Hits::create(region, options))
}

/// `attachHits(memory)`
pub fn attach(call: &Call<'_, 1>, _: &State) -> Result<Returned, Fault> {
    seat(call, Hits::attach)
}

/// The words of [`Options`], where 0 or none is the default; the bytes of names and the counters may be -1 for none.
fn options(words: &[i32]) -> Options {
    let default = Options::default();
    let given = |at: usize, default: u32| match words.get(at) {
        None | Some(0) => default,
        Some(-1) => 0,
        Some(&word) => word as u32,
    };
    Options {
        max_threads: given(0, default.max_threads),
        sets: given(1, default.sets),
        name_bytes: given(2, default.name_bytes),
        cells: given(3, default.cells),
    }
}

fn refused(error: RegionError) -> Fault {
    Fault::Range(error.to_string())
}

fn seat<const N: usize>(
    call: &Call<'_, N>,
    open: impl FnOnce(Region<'static>) -> Result<Hits<'static>, RegionError>,
) -> Result<Returned, Fault> {
    let held = Held::new(call, 0, "memory", |words| {
        let recorder = open(Region::new(words)).and_then(|hits| hits.join()).map_err(refused)?;
        Ok(Seat {
            aggregator: RefCell::default(),
            recorder: RefCell::new(recorder),
            scratch: RefCell::default(),
            lead: Region::lead(words),
            own: Bounds::of(words),
        })
    })?;
    let object = call.env().object()?;
    for function in [
        function!("describe", describe),
        function!("record", record),
        function!("recordBytes", record_bytes),
        function!("recordFrames", record_frames),
        function!("recordCounts", record_counts),
        function!("name", name),
        function!("count", count),
        function!("totals", totals),
        function!("merge", merge),
        function!("top", top),
        function!("end", end),
    ] {
        call.env().bind(object, function, Rc::clone(&held))?;
    }
    Ok(object)
}

impl Seat {
    /// The lengths of a batch (arguments 1 and 2) and its weights (argument 3), checked.
    #[inline(always)]
    fn batch<'a>(&self, call: &Call<'a, 4>) -> Result<(&'a [i32], Option<&'a [i32]>), Fault> {
        let lengths = lengths(call, 1, 2, usize::MAX)?;
        self.own.apart(lengths, "lengths")?;
        positive(lengths, "length")?;
        if call.is_null(3)? {
            return Ok((lengths, None));
        }
        let weights = call.words(3, "weights")?;
        self.own.apart(weights, "weights")?;
        let Some(weights) = weights.get(..lengths.len()) else {
            return Err(Fault::Range(format!("there are {} weights for {} keys", weights.len(), lengths.len())));
        };
        positive(weights, "weight")?;
        Ok((lengths, Some(weights)))
    }
}

fn positive(numbers: &[i32], name: &str) -> Result<(), Fault> {
    if numbers.iter().fold(0, |signs, &number| signs | number) >= 0 {
        return Ok(());
    }
    let negative = numbers.iter().find(|&&number| number < 0).copied().unwrap_or_default();
    Err(Fault::Range(format!("a {name} is {negative}")))
}

fn disagree() -> Fault {
    Fault::Range("the lengths do not add up to the keys".into())
}

/// `record(text, lengths, count, weights)`
fn record(call: &Call<'_, 4>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (lengths, weights) = seat.batch(call)?;
        let units = lengths.iter().map(|&length| length as usize).sum();
        let mut scratch = seat.scratch.borrow_mut();
        let mut recorder = seat.recorder.borrow_mut();
        match call.text(0, "text", units, &mut scratch)? {
            Text::Ascii(keys) => {
                if !recorder.begin().joined(keys, lengths, weights) {
                    return Err(disagree());
                }
            }
            Text::Wide(mut rest, key) => {
                let mut batch = recorder.begin();
                for (at, &length) in lengths.iter().enumerate() {
                    let Some((wide, behind)) = rest.split_at_checked(length as usize) else { return Err(disagree()) };
                    key.clear();
                    push_utf8(wide, key);
                    batch.hit(key, weights.map_or(1, |weights| weights[at] as u32));
                    rest = behind;
                }
            }
        }
        scratch.trim();
        call.undefined()
    })
}

/// `recordBytes(keys, lengths, count, weights)`
fn record_bytes(call: &Call<'_, 4>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let keys = call.bytes(0, "keys")?;
        seat.own.apart(keys, "keys")?;
        let (lengths, weights) = seat.batch(call)?;
        if !seat.recorder.borrow_mut().begin().joined(keys, lengths, weights) {
            return Err(disagree());
        }
        call.undefined()
    })
}

/// `recordFrames(scratch, desc, count)`: the keys of operations, as `encode` takes them.
fn record_frames(call: &Call<'_, 3>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (scratch, desc) = (call.bytes(0, "scratch")?, call.words(1, "desc")?);
        seat.own.apart(scratch, "scratch")?;
        seat.own.apart(desc, "desc")?;
        let count = call.count(2, "count", desc.len(), false)?;
        seat.recorder.borrow_mut().begin().keys(Keys::new(scratch, desc, count));
        call.undefined()
    })
}

/// `recordCounts(counts, hashes, size, least, wanted)`: how many places of keys whose names are wanted were written.
fn record_counts(call: &Call<'_, 5>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let (counts, hashes) = (call.words_mut(0, "counts")?, call.words(1, "hashes")?);
        let wanted = call.words_mut(4, "wanted")?;
        seat.own.apart(counts, "counts")?;
        seat.own.apart(hashes, "hashes")?;
        seat.own.apart(wanted, "wanted")?;
        let hashes = hashes.as_chunks::<2>().0;
        let size = call.count(2, "size", counts.len().min(hashes.len()), false)?;
        let least = call.count(3, "least", i32::MAX as usize, false)? as i32;
        let names = seat.recorder.borrow_mut().begin().counted(&mut counts[..size], hashes, least, wanted);
        call.int(names as i32)
    })
}

/// `name(key)`
fn name(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let mut scratch = seat.scratch.borrow_mut();
        let key = call.key(0, &mut scratch)?;
        seat.own.apart(&key, "key")?;
        let named = seat.recorder.borrow_mut().begin().name(&key);
        call.boolean(named)
    })
}

/// `count(cell, amount)`
fn count(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let mut recorder = seat.recorder.borrow_mut();
        let cells = recorder.hits().layout().options.cells as usize;
        let cell = call.count(0, "cell", cells.saturating_sub(1), false)?;
        let amount = call.count(1, "amount", u32::MAX as usize, false)? as u32;
        recorder.count(cell, amount);
        call.undefined()
    })
}

/// `totals(out)`
fn totals(call: &Call<'_, 1>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let out = call.words_mut(0, "out")?;
        seat.own.apart(out, "out")?;
        let recorder = seat.recorder.borrow();
        for (cell, pair) in out.as_chunks_mut::<2>().0.iter_mut().enumerate() {
            let total = recorder.hits().total(cell);
            *pair = [total as i32, (total >> 32) as i32];
        }
        call.undefined()
    })
}

fn saturated(value: u64) -> i32 {
    i32::try_from(value).unwrap_or(i32::MAX)
}

/// `merge(nowUs, info)`: false when another session aggregates.
fn merge(call: &Call<'_, 2>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let now_us = call.count(0, "nowUs", LATEST, false)? as u64;
        let info = call.words_mut(1, "info")?;
        seat.own.apart(info, "info")?;
        let place = info.first_chunk_mut().ok_or_else(|| Fault::Range("info has fewer than 4 words".into()))?;
        let mut aggregator = seat.aggregator.borrow_mut();
        if aggregator.is_none() {
            *aggregator = seat.recorder.borrow().hits().aggregate();
        }
        let Some(aggregator) = aggregator.as_mut() else { return call.boolean(false) };
        let merged = aggregator.merge(now_us);
        let (late, lost) = (merged.late as i32, saturated(merged.lost.into()));
        *place = [saturated(merged.hits), late, lost, saturated(aggregator.unseen())];
        call.boolean(true)
    })
}

/// `top(limit, least, rows, names)`: keys written, as many as `limit`, `rows` and `names` have room for.
fn top(call: &Call<'_, 4>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let limit = call.count(0, "limit", MAX_TOP, true)?;
        let least = call.count(1, "least", i32::MAX as usize, true)? as u64;
        let (rows, mut names) = (call.words_mut(2, "rows")?, call.bytes_mut(3, "names")?);
        seat.own.apart(rows, "rows")?;
        seat.own.apart(names, "names")?;
        let aggregator = seat.aggregator.borrow();
        let Some(aggregator) = aggregator.as_ref() else { return call.int(0) };
        let mut written = 0;
        for (hot, row) in aggregator.top(limit, least).iter().zip(rows.as_chunks_mut::<ROW>().0) {
            let Some((name, behind)) = std::mem::take(&mut names).split_at_mut_checked(hot.key.len()) else { break };
            name.copy_from_slice(hot.key);
            names = behind;
            let (lower, upper) = (saturated(hot.rate.lower), saturated(hot.rate.upper));
            let (hash_low, hash_high) = (hot.hash as i32, (hot.hash >> 32) as i32);
            *row = [lower, upper, hot.length as i32, hot.key.len() as i32, hash_low, hash_high];
            written += 1;
        }
        call.int(written)
    })
}

/// `describe()`: where this thread's plain counters lie and how many there are, as JSON.
fn describe(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.with(|seat| {
        let recorder = seat.recorder.borrow();
        let layout = recorder.hits().layout();
        let own = seat.lead + layout.cells(recorder.seat());
        let (cells, bytes) = (layout.options.cells, layout.seat_bytes());
        call.string(&format!("{{\"ownCells\":{own},\"cells\":{cells},\"seatBytes\":{bytes}}}"))
    })
}

/// `end()`
fn end(call: &Call<'_, 0>, held: &Shared) -> Result<Returned, Fault> {
    held.end();
    call.undefined()
}
