//! Rotation of the summaries' windows under loom: a thread records while the aggregator takes its windows. A few seconds.
//!
//! ```text
//! RUSTFLAGS="--cfg loom" cargo test -p keylane-core --release --test loom-hits
//! ```
//! The configuration is the smallest that has all the parts: one set of two ways, room for two names.
//!
//! Invariant checked throughout: loom would report a window that both sides use at once only if its words were plain, so it is
//! checked by what it would do: each hit arrives exactly once, with its key's name whole.

#![cfg(loom)]

use keylane_core::hash::hash64;
use keylane_core::hits::{Bounds, Hits, Options, Recorder};
use keylane_core::region::Memory;
use loom::model::Builder;
use loom::thread;

const OPTIONS: Options = Options { max_threads: 1, sets: 1, name_bytes: 64, cells: 1 };
const WORDS: usize = 176;

fn explore(model: impl Fn(Hits<'static>) + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.max_branches = 100_000;
    builder.check(move || {
        let memory = Box::into_raw(Box::new(Memory::new(WORDS * 4)));
        // SAFETY: the box is freed below, after the model has joined its threads and dropped what it made.
        let hits = Hits::create(unsafe { &*memory }.region(), OPTIONS).unwrap();
        model(hits);
        // SAFETY: made above by `into_raw`, and nobody refers to it any more.
        drop(unsafe { Box::from_raw(memory) });
    });
}

fn record(recorder: &mut Recorder<'_>, key: u8, weight: u32) {
    recorder.begin().hit(&[key], weight);
}

fn hash(key: u8) -> u64 {
    hash64(&[key])
}

#[test]
fn a_hit_arrives_once_whenever_the_windows_are_flipped() {
    explore(|hits| {
        let mut aggregator = hits.aggregate().unwrap();
        let mut recorder = hits.join().unwrap();
        aggregator.merge(0);
        let recording = thread::spawn(move || {
            record(&mut recorder, 1, 2);
            record(&mut recorder, 2, 3);
            record(&mut recorder, 1, 4);
            recorder
        });
        let mut arrived = aggregator.merge(0).hits + aggregator.merge(0).hits;
        let recorder = recording.join().unwrap();
        for _ in 0..2 {
            let merged = aggregator.merge(0);
            assert_eq!(merged.late, 0);
            arrived += merged.hits;
        }
        assert_eq!(arrived, 9);
        assert_eq!(aggregator.bounds(hash(1)), Bounds { lower: 6, upper: 6 });
        assert_eq!(aggregator.bounds(hash(2)), Bounds { lower: 3, upper: 3 });
        let top = aggregator.top(10, 0);
        assert_eq!(top.len(), 2);
        assert!(top.iter().all(|hot| hash64(hot.key) == hot.hash), "{top:?}");
        drop((aggregator, recorder));
    });
}

#[test]
fn a_name_that_comes_after_its_hits_is_learned_whenever_the_windows_are_flipped() {
    explore(|hits| {
        let mut aggregator = hits.aggregate().unwrap();
        let mut recorder = hits.join().unwrap();
        aggregator.merge(0);
        let recording = thread::spawn(move || {
            let halves = [hash(1) as i32, (hash(1) >> 32) as i32];
            let mut wanted = [-1];
            assert_eq!(recorder.begin().counted(&mut [4], &[halves], 2, &mut wanted), 1);
            assert!(recorder.begin().name(&[1]));
            recorder
        });
        aggregator.merge(0);
        let recorder = recording.join().unwrap();
        aggregator.merge(0);
        aggregator.merge(0);
        let top = aggregator.top(10, 0);
        assert_eq!(top.len(), 1);
        assert_eq!((top[0].key, top[0].rate.lower), (&[1][..], 4));
        drop((aggregator, recorder));
    });
}

#[test]
fn a_seat_that_changes_hands_takes_its_hits_along() {
    explore(|hits| {
        let mut aggregator = hits.aggregate().unwrap();
        let mut recorder = hits.join().unwrap();
        aggregator.merge(0);
        let recording = thread::spawn(move || {
            record(&mut recorder, 1, 2);
            recorder.count(0, 2);
            drop(recorder);
            let mut next = hits.join().unwrap();
            record(&mut next, 1, 4);
            next.count(0, 4);
        });
        let mut arrived = aggregator.merge(0).hits;
        recording.join().unwrap();
        arrived += aggregator.merge(0).hits + aggregator.merge(0).hits;
        assert_eq!((arrived, hits.total(0)), (6, 6));
        drop(aggregator);
    });
}
