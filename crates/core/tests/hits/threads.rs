//! Threads that record as fast as they can while they are read: no hit is lost or counted twice, and no name is torn.

use crate::support::{create, hash, key, memory, record};
use keylane_core::hits::Options;
use std::sync::atomic::{AtomicU32, Ordering};

const THREADS: usize = 3;
const BATCHES: usize = 20_000;
const KEYS: usize = 40;
/// Hits of a key within a merge after which it is followed: from then on all of its hits are sure.
const FIRST: u32 = 8;

#[test]
fn every_hit_arrives_once() {
    let options = Options { max_threads: THREADS as u32, sets: 256, name_bytes: 4096, cells: 1 };
    let memory = memory(options);
    let hits = create(&memory, options);
    let mut aggregator = hits.aggregate().unwrap();
    aggregator.merge(0);
    let running = AtomicU32::new(THREADS as u32);
    let mut first = hits.join().unwrap();
    for id in 0..KEYS {
        record(&mut first, &[(id, FIRST)]);
        first.count(0, FIRST);
    }
    drop(first);
    let mut arrived = aggregator.merge(0).hits + aggregator.merge(0).hits;
    std::thread::scope(|scope| {
        for thread in 0..THREADS {
            let running = &running;
            scope.spawn(move || {
                let mut recorder = hits.join().unwrap();
                for batch in 0..BATCHES {
                    let id = (batch + thread) % KEYS;
                    record(&mut recorder, &[(id, 1), ((id + 1) % KEYS, 2), (id, 3)]);
                    recorder.count(0, 6);
                }
                drop(recorder);
                running.fetch_sub(1, Ordering::Release);
            });
        }
        // Time stands still, so that all windows are one and nothing ages.
        while running.load(Ordering::Acquire) > 0 {
            let merged = aggregator.merge(0);
            arrived += merged.hits;
            for hot in aggregator.top(1000, 0) {
                assert!((0..KEYS).any(|id| key(id) == hot.key && hash(id) == hot.hash));
            }
        }
    });
    // Twice: the first takes up what was late.
    arrived += aggregator.merge(0).hits + aggregator.merge(0).hits;
    let sent = (THREADS * BATCHES * 6 + KEYS * FIRST as usize) as u64;
    assert_eq!(arrived, sent);
    assert_eq!(hits.total(0), sent);
    let each = sent / KEYS as u64;
    for id in 0..KEYS {
        let bounds = aggregator.bounds(hash(id));
        assert!(bounds.lower <= each && each <= bounds.upper, "{bounds:?}");
        assert!(bounds.upper - bounds.lower <= each / 10, "{bounds:?}");
    }
}
