//! The protocol of the shared cache under loom: the interleavings of two threads, and the values that the memory model lets a
//! relaxed load return. About a minute.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p keylane-core --release --test loom
//! ```
//! The configuration is the smallest that has all the parts: buckets of one way, two buckets, segments of one record.
//! loom finds races by the last access to each word: a word that a writer reads before it writes it hides an earlier reader. So
//! readers are the spawned threads, which run after the writer first and are then moved before each of its writes.
//!
//! Invariant checked throughout: a value read is whole, of its key, and one that was current at some moment of the read; when
//! all threads are done, a proof that still stands vouches for what a lookup returns.

#![cfg(loom)]

use keylane_core::cache::{Cache, Session};
use keylane_core::flight::Claim;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::sync::{AtomicU32, Fuse, Ordering, Steps, Stopped};
use keylane_core::table::{Ask, Entry, Kind, Lookup, Stored};
use loom::model::Builder;
use loom::thread;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

const OPTIONS: Options = Options {
    entry_bytes: 1 << 16,
    max_value_bytes: 8,
    max_key_bytes: 4,
    max_threads: 3,
    segment_bytes: 32,
    shards: 1,
    small_percent: 40,
};
const WORDS: usize = 420;
const ASK: Ask = Ask { stale_ms: 0, lease_ms: 1000 };

/// Hash and key of a number; all fall into the first bucket but for those of 100 and more.
fn key(id: u8) -> (u64, [u8; 4]) {
    (u64::from(id) << 8 | if id < 100 { 0 } else { u64::MAX << 63 }, [id, b'k', b'e', b'y'])
}

/// A value whose words tell on each other, and on a foreign key.
fn value(id: u8, version: u8) -> [u8; 8] {
    [id, version, 1, 1, id, version, 2, 2]
}

fn store<S: Steps>(session: &Session<'_, S>, id: u8, version: u8) -> Stored {
    store_with(session, id, version, session.cache().ticket(key(id).0))
}

fn store_with<S: Steps>(session: &Session<'_, S>, id: u8, version: u8, ticket: u32) -> Stored {
    let ((hash, key), value) = (key(id), value(id, version));
    let (ttl_ms, refresh_ms) = (1000, 10);
    session.store(&Entry { hash, key: &key, value: Some(&value), ttl_ms, refresh_ms, feeder: 0, domain: 0, ticket })
}

/// The version that is cached, after checking that the value is whole and of its key.
fn look<S: Steps>(session: &Session<'_, S>, id: u8) -> (Option<u8>, Lookup) {
    let mut out = [0; 8];
    let found = session.lookup(key(id).0, &key(id).1, ASK, &mut out);
    let version = (found.kind == Kind::Hit).then(|| {
        assert_eq!(out, value(id, out[1]), "torn or foreign");
        out[1]
    });
    (version, found)
}

fn invalidate<S: Steps>(session: &Session<'_, S>, id: u8) {
    session.invalidate(key(id).0, &key(id).1);
}

/// Explores `model` over fresh memory, with all preemptions or at most so many.
fn explore(preemptions: Option<usize>, model: impl Fn(Cache<'static>) + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = preemptions;
    builder.max_branches = 100_000;
    builder.check(move || {
        let memory = Box::into_raw(Box::new(Memory::new(WORDS * 4)));
        // SAFETY: the box is freed below, after the model has joined its threads and dropped its sessions.
        let cache = Cache::create(unsafe { &*memory }.region(), OPTIONS).unwrap();
        assert_eq!((cache.layout().groups, cache.layout().segment_count()), (2, 5));
        model(cache);
        // SAFETY: made above by `into_raw`, and nobody refers to it any more.
        drop(unsafe { Box::from_raw(memory) });
    });
}

/// When all is quiet: whatever still vouches for `seen` is right.
fn settle<S: Steps>(session: &Session<'_, S>, id: u8, seen: &(Option<u8>, Lookup)) -> Option<u8> {
    session.purge(0, session.cache().layout().groups, u32::MAX);
    let now = look(session, id).0;
    if let (Some(version), found) = seen
        && session.cache().is_vouched(found.proof_index, found.proof)
    {
        assert_eq!(now, Some(*version), "a proof vouches for what is no longer so");
    }
    now
}

#[test]
fn a_reader_sees_the_old_or_the_new_value_while_a_key_is_overwritten() {
    explore(None, |cache| {
        let (main, reader) = (cache.join().unwrap(), cache.join().unwrap());
        store(&main, 1, 1);
        let reading = thread::spawn(move || (look(&reader, 1), reader));
        store(&main, 1, 2);
        let (seen, reader) = reading.join().unwrap();
        assert!(matches!(seen.0, None | Some(1 | 2)));
        assert_eq!(settle(&main, 1, &seen), Some(2));
        drop((main, reader));
    });
}

/// Brings a record to the point where the store after the next one writes over it, or over where it was promoted from, while
/// it is read.
fn recycled(hot: bool) {
    explore(Some(5), move |cache| {
        let (main, reader) = (cache.join().unwrap(), cache.join().unwrap());
        store(&main, 1, 1);
        if hot {
            look(&main, 1);
        }
        store(&main, 101, 1);
        store(&main, 101, 2);
        let reading = thread::spawn(move || (look(&reader, 1), reader));
        store(&main, 101, 3);
        assert_eq!(cache.holds(key(1).0, &key(1).1), hot);
        store(&main, 101, 4);
        let (seen, reader) = reading.join().unwrap();
        assert!(matches!(seen.0, None | Some(1)));
        assert_eq!(settle(&main, 1, &seen).is_some(), hot);
        assert_eq!(look(&main, 101).0, Some(4));
        drop((main, reader));
    });
}

#[test]
fn a_reader_never_sees_what_a_recycled_segment_holds_now() {
    recycled(false);
}

#[test]
fn a_reader_follows_a_record_that_is_promoted() {
    recycled(true);
}

#[test]
fn a_proof_handed_out_during_an_invalidation_is_void_after_it() {
    explore(None, |cache| {
        let (main, reader) = (cache.join().unwrap(), cache.join().unwrap());
        store(&main, 1, 1);
        let reading = thread::spawn(move || (look(&reader, 1), reader));
        invalidate(&main, 1);
        let (seen, reader) = reading.join().unwrap();
        assert_eq!(settle(&main, 1, &seen), None);
        drop((main, reader));
    });
}

#[test]
fn a_load_that_was_overtaken_is_not_stored() {
    explore(None, |cache| {
        let (main, loader) = (cache.join().unwrap(), cache.join().unwrap());
        let truth = Arc::new(AtomicU32::new(1));
        let server = Arc::clone(&truth);
        let loading = thread::spawn(move || {
            let ticket = loader.begin_load(key(1).0);
            let version = server.load(Ordering::Acquire) as u8;
            store_with(&loader, 1, version, ticket);
            loader
        });
        truth.store(2, Ordering::Release);
        invalidate(&main, 1);
        let loader = loading.join().unwrap();
        assert!(matches!(look(&main, 1).0, None | Some(2)), "a value from before the invalidation is cached");
        drop((main, loader));
    });
}

#[test]
fn a_load_of_everything_that_was_overtaken_is_not_stored() {
    explore(None, |cache| {
        let (main, loader) = (cache.join().unwrap(), cache.join().unwrap());
        let ticket = cache.ticket(key(1).0);
        let loading = thread::spawn(move || {
            store_with(&loader, 1, 1, ticket);
            loader
        });
        main.invalidate_all();
        let loader = loading.join().unwrap();
        assert_eq!(look(&main, 1).0, None);
        drop((main, loader));
    });
}

/// A writer that stops at each of its steps in turn, until no execution stops it any more, beside a thread that goes on with
/// the same key.
fn stopped(act: fn(&Session<'_, Fuse>), allowed: fn(Option<u8>) -> bool) {
    for steps in 1.. {
        let stops = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stops);
        explore(None, move |cache| {
            let (main, victim) = (cache.join().unwrap(), cache.join_with(Fuse::default()).unwrap());
            store(&main, 1, 1);
            let count = Arc::clone(&count);
            let writing = thread::spawn(move || {
                victim.steps().light(steps);
                if let Err(payload) = catch_unwind(AssertUnwindSafe(|| act(&victim))) {
                    assert!(payload.is::<Stopped>());
                    count.fetch_add(1, Ordering::Relaxed);
                }
            });
            let seen = look(&main, 1);
            assert!(allowed(seen.0), "{seen:?}");
            invalidate(&main, 1);
            let kept = store(&main, 1, 7);
            writing.join().unwrap();
            let now = settle(&main, 1, &seen);
            assert!(now == Some(7) || allowed(now), "{now:?}");
            assert!(now != Some(1) || !matches!(kept, Stored::Kept { .. }), "what was invalidated is back");
            assert!(matches!(store(&main, 1, 8), Stored::Kept { .. }));
            assert_eq!(look(&main, 1).0, Some(8));
        });
        if stops.load(Ordering::Relaxed) == 0 {
            return;
        }
    }
}

/// A writer that stops likewise, while a thread reads; a third one then finds what it left and mends it.
fn stopped_beside_a_reader(act: fn(&Session<'_, Fuse>), allowed: fn(Option<u8>) -> bool) {
    for steps in 1.. {
        let stops = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&stops);
        explore(None, move |cache| {
            let (main, reader) = (cache.join().unwrap(), cache.join().unwrap());
            let victim = cache.join_with(Fuse::default()).unwrap();
            store(&main, 1, 1);
            let reading = thread::spawn(move || (look(&reader, 1), reader));
            victim.steps().light(steps);
            if let Err(payload) = catch_unwind(AssertUnwindSafe(|| act(&victim))) {
                assert!(payload.is::<Stopped>());
                count.fetch_add(1, Ordering::Relaxed);
            }
            drop(victim);
            let (seen, reader) = reading.join().unwrap();
            assert!(allowed(seen.0), "{seen:?}");
            let now = settle(&main, 1, &seen);
            assert!(allowed(now), "{now:?}");
            drop((main, reader));
        });
        if stops.load(Ordering::Relaxed) == 0 {
            return;
        }
    }
}

#[test]
fn a_store_that_stops_anywhere_is_taken_over() {
    stopped(|session| _ = store(session, 1, 2), |version| matches!(version, None | Some(1 | 2)));
    stopped_beside_a_reader(|session| _ = store(session, 1, 2), |version| matches!(version, None | Some(1 | 2)));
}

#[test]
fn an_invalidation_that_stops_anywhere_is_taken_over() {
    stopped(|session| invalidate(session, 1), |version| matches!(version, None | Some(1)));
    stopped_beside_a_reader(|session| invalidate(session, 1), |version| matches!(version, None | Some(1)));
}

#[test]
fn one_of_two_claimants_is_elected() {
    explore(None, |cache| {
        let (main, other) = (cache.join().unwrap(), cache.join().unwrap());
        let claiming = thread::spawn(move || {
            let claim = other.claim(1, 1000);
            (claim, other)
        });
        let mine = main.claim(1, 1000);
        let (theirs, other) = claiming.join().unwrap();
        let elected = [mine, theirs].iter().filter(|claim| matches!(claim, Claim::Elected { .. })).count();
        let waits = [mine, theirs].iter().filter(|claim| matches!(claim, Claim::Wait { .. })).count();
        assert_eq!((elected, waits), (1, 1));
        drop((main, other));
    });
}

#[test]
fn one_of_two_readers_is_elected_to_refresh() {
    explore(None, |cache| {
        let (main, other) = (cache.join().unwrap(), cache.join().unwrap());
        store(&main, 1, 1);
        cache.set_now(20);
        let reading = thread::spawn(move || {
            let seen = look(&other, 1);
            (seen, other)
        });
        let mine = look(&main, 1);
        let (theirs, other) = reading.join().unwrap();
        assert_eq!((mine.0, theirs.0), (Some(1), Some(1)));
        assert_eq!(u32::from(mine.1.elected) + u32::from(theirs.1.elected), 1);
        drop((main, other));
    });
}
