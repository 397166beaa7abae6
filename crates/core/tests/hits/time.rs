//! Over time: when a key is found and let go, and that neither late nor frequent merges bend its rate.

use crate::support::{create, hash, key, memory, record, top};
use keylane_core::hits::{Aggregator, Bounds, Options, Recorder, SLOT_US, SLOTS};

const OPTIONS: Options = Options { max_threads: 2, sets: 64, name_bytes: 4096, cells: 0 };

fn with(act: impl FnOnce(&mut Recorder<'_>, &mut Aggregator<'_>)) {
    let memory = memory(OPTIONS);
    let hits = create(&memory, OPTIONS);
    let (mut recorder, mut aggregator) = (hits.join().unwrap(), hits.aggregate().unwrap());
    aggregator.merge(0);
    act(&mut recorder, &mut aggregator);
}

#[test]
fn a_key_of_5000_hits_a_second_has_them_after_ten_windows_and_keeps_them() {
    with(|recorder, aggregator| {
        for window in 1..=25 {
            record(recorder, &[(1, 500)]);
            aggregator.merge(window * SLOT_US);
            let rate = 500 * window.min(10);
            assert_eq!(top(aggregator, 0)[0].1, rate);
        }
    });
}

#[test]
fn a_key_that_begins_within_a_window_has_its_rate_at_most_eleven_merges_later() {
    with(|recorder, aggregator| {
        record(recorder, &[(1, 1)]);
        aggregator.merge(SLOT_US);
        for window in 2..=11 {
            record(recorder, &[(1, 500)]);
            aggregator.merge(window * SLOT_US);
        }
        assert_eq!(top(aggregator, 0)[0].1, 5_000);
    });
}

#[test]
fn h3_a_key_that_is_silent_is_gone_after_ten_windows_though_nobody_asked() {
    with(|recorder, aggregator| {
        for window in 1..=10 {
            record(recorder, &[(1, 5_000)]);
            aggregator.merge(window * SLOT_US);
        }
        for silent in 1..10 {
            aggregator.merge((10 + silent) * SLOT_US);
            assert_eq!(top(aggregator, 0)[0].1, 50_000 - 5_000 * silent);
        }
        assert_eq!(aggregator.merge(20 * SLOT_US).hits, 0);
        assert_eq!(aggregator.followed(), 0);
        assert_eq!(aggregator.bounds(hash(1)), Bounds { lower: 0, upper: 0 });
        assert_eq!(aggregator.unseen(), 0);
    });
}

#[test]
fn a_late_merge_is_a_long_window() {
    with(|recorder, aggregator| {
        for window in 1..=10 {
            record(recorder, &[(1, 500)]);
            aggregator.merge(window * SLOT_US);
        }
        record(recorder, &[(1, 500 * 30)]);
        aggregator.merge(40 * SLOT_US);
        assert_eq!(aggregator.span_us(), (SLOTS as u64 - 1 + 30) * SLOT_US);
        assert_eq!(top(aggregator, 0)[0].1, 5_000);
    });
}

#[test]
fn frequent_merges_share_a_window() {
    with(|recorder, aggregator| {
        for merge in 1..=200 {
            record(recorder, &[(1, 100)]);
            aggregator.merge(merge * SLOT_US / 5);
            assert!(aggregator.span_us() <= SLOTS as u64 * SLOT_US);
        }
        let (_, lower, upper) = top(aggregator, 0)[0];
        assert!((4_500..=5_000).contains(&lower) && lower == upper, "{lower} {upper}");
    });
}

#[test]
fn what_was_recorded_before_the_first_merge_is_dropped() {
    let memory = memory(OPTIONS);
    let hits = create(&memory, OPTIONS);
    let mut recorder = hits.join().unwrap();
    record(&mut recorder, &[(1, 1_000_000)]);
    let mut first = hits.aggregate().unwrap();
    assert!(hits.aggregate().is_none(), "there is one aggregator at a time");
    assert_eq!(first.merge(7 * SLOT_US).hits, 0);
    record(&mut recorder, &[(1, 1_000)]);
    assert_eq!(first.merge(8 * SLOT_US).hits, 1_000);
    assert_eq!(first.bounds(hash(1)).lower, 1_000);
    record(&mut recorder, &[(1, 2_000)]);
    drop(first);
    let mut second = hits.aggregate().unwrap();
    assert_eq!(second.merge(0).hits, 0);
    record(&mut recorder, &[(1, 3_000)]);
    assert_eq!(second.merge(SLOT_US).hits, 3_000);
    assert_eq!(second.bounds(hash(1)).lower, 3_000);
}

#[test]
fn a_thread_in_a_batch_is_late_and_loses_nothing() {
    with(|recorder, aggregator| {
        let mut batch = recorder.begin();
        batch.hit(&key(1), 40);
        assert_eq!(aggregator.merge(SLOT_US).late, 1);
        batch.hit(&key(1), 2);
        assert_eq!(aggregator.merge(2 * SLOT_US).late, 1);
        drop(batch);
        record(recorder, &[(1, 1_000)]);
        let merged = aggregator.merge(3 * SLOT_US);
        assert_eq!((merged.hits, merged.late), (42, 0));
        assert_eq!(aggregator.merge(4 * SLOT_US).hits, 1_000);
        assert_eq!(aggregator.bounds(hash(1)).lower, 1_042);
    });
}

#[test]
fn a_thread_that_left_is_still_heard() {
    with(|recorder, aggregator| {
        let mut other = recorder.hits().join().unwrap();
        record(&mut other, &[(1, 77)]);
        drop(other);
        assert_eq!(aggregator.merge(SLOT_US).hits, 77);
        assert_eq!(aggregator.bounds(hash(1)).lower, 77);
        assert_eq!(aggregator.merge(2 * SLOT_US).hits, 0);
    });
}

#[test]
fn of_more_keys_than_can_be_followed_the_hottest_are() {
    let options = Options { sets: 1, ..OPTIONS };
    let memory = memory(options);
    let hits = create(&memory, options);
    let (mut recorder, mut aggregator) = (hits.join().unwrap(), hits.aggregate().unwrap());
    aggregator.merge(0);
    for window in 0..10 {
        // Each window brings eight others, so that more are met than are followed.
        let batch: Vec<(usize, u32)> = (0..8).map(|at| (window * 8 + at, 10 + window as u32)).collect();
        record(&mut recorder, &batch);
        aggregator.merge((1 + window as u64) * SLOT_US);
    }
    assert_eq!(aggregator.followed(), 16);
    record(&mut recorder, &[(1000, 500)]);
    aggregator.merge(11 * SLOT_US);
    assert_eq!(top(&aggregator, 0)[0].1, 500);
    assert_eq!(aggregator.followed(), 16);
}
