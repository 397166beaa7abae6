//! Summaries by example: what is counted, named and ranked, and what crowding does.

use crate::support::{create, hash, key, memory, record, top};
use keylane_core::hits::{Bounds, CANDIDATE, Hits, NAME_BYTES, Options, Recorder, SLOT_US, WAYS};

const SMALL: Options = Options { max_threads: 2, sets: 64, name_bytes: 4096, cells: 4 };

/// Two seats, of which the first records, and what it records within one window is merged.
fn merged(
    options: Options,
    act: impl FnOnce(&mut Recorder<'_>),
    check: impl FnOnce(&keylane_core::hits::Aggregator<'_>),
) {
    let memory = memory(options);
    let hits: Hits<'_> = create(&memory, options);
    let mut recorder = hits.join().unwrap();
    let mut aggregator = hits.aggregate().unwrap();
    aggregator.merge(0);
    act(&mut recorder);
    aggregator.merge(SLOT_US);
    check(&aggregator);
}

#[test]
fn keys_are_ranked_by_their_hits() {
    let hits = [(1, 30), (2, 500), (1, 30), (3, 7), (4, 100), (2, 1), (5, 0)];
    merged(
        SMALL,
        |recorder| record(recorder, &hits),
        |aggregator| {
            let name = |id| String::from_utf8(key(id)).unwrap();
            assert_eq!(top(aggregator, 0), [(name(2), 501, 501), (name(4), 100, 100), (name(1), 60, 60)]);
            assert_eq!(top(aggregator, 100).len(), 2);
            assert_eq!(aggregator.top(1, 0).len(), 1);
            assert_eq!(aggregator.bounds(hash(4)), Bounds { lower: 100, upper: 100 });
            assert!(aggregator.bounds(hash(3)).upper >= 7, "too few hits to be followed, but not to be bounded");
            assert_eq!(aggregator.bounds(hash(5)).lower, 0);
        },
    );
}

#[test]
fn h2_cold_keys_are_not_taken_for_hot_and_the_hot_one_is_found() {
    let once = 100_000;
    merged(
        Options { max_threads: 1, ..Options::default() },
        |recorder| {
            for part in 0..50 {
                let cold = (0..once / 50).map(|at| (1 + part * (once / 50) + at, 1));
                let hot = (0..100).map(|_| (0, 1));
                record(recorder, &cold.chain(hot).collect::<Vec<_>>());
            }
        },
        |aggregator| {
            let hot = aggregator.bounds(hash(0));
            assert!(hot.lower >= 4_900 && hot.upper >= 5_000 && hot.upper <= 5_100, "{hot:?}");
            let names = top(aggregator, 1_000);
            assert_eq!(names.len(), 1, "{names:?}");
            assert!(aggregator.unseen() < 100, "{}", aggregator.unseen());
            let cold = (1..=once).map(|id| aggregator.bounds(hash(id)).upper).max();
            assert!(cold < Some(100), "{cold:?}");
        },
    );
}

#[test]
fn h2_a_count_does_not_wrap_or_fall() {
    let memory = memory(SMALL);
    let hits = create(&memory, SMALL);
    let mut recorder = hits.join().unwrap();
    let mut aggregator = hits.aggregate().unwrap();
    aggregator.merge(0);
    let mut last = 0;
    for round in 0..70 {
        for _ in 0..10 {
            record(&mut recorder, &[(1, 100)]);
        }
        aggregator.merge(round);
        let lower = aggregator.bounds(hash(1)).lower;
        assert_eq!(lower, last + 1000);
        last = lower;
    }
    record(&mut recorder, &[(2, u32::MAX), (2, u32::MAX), (2, 1)]);
    aggregator.merge(70);
    assert_eq!(aggregator.bounds(hash(2)).lower, u64::from(u32::MAX));
}

#[test]
fn a_key_that_takes_a_way_inherits_its_count_as_error() {
    let one_set = Options { max_threads: 1, sets: 1, ..SMALL };
    let full: Vec<(usize, u32)> = (0..WAYS).map(|id| (id, 20 + id as u32)).collect();
    merged(
        one_set,
        |recorder| {
            record(recorder, &full);
            record(recorder, &[(100, 50)]);
        },
        |aggregator| {
            assert_eq!(aggregator.bounds(hash(100)), Bounds { lower: 50, upper: 70 });
            assert_eq!(aggregator.bounds(hash(1)), Bounds { lower: 21, upper: 21 });
            let gone = aggregator.bounds(hash(0));
            assert_eq!(gone, Bounds { lower: 0, upper: 21 }, "what it had is at most the least count");
        },
    );
}

#[test]
fn long_keys_are_kept_by_their_first_bytes_and_binary_ones_as_they_are() {
    let long = vec![b'x'; NAME_BYTES + 1000];
    let binary: Vec<u8> = (0..NAME_BYTES).map(|at| at as u8).collect();
    merged(
        SMALL,
        |recorder| {
            let mut batch = recorder.begin();
            batch.hit(&long, 20);
            batch.hit(&binary, 19);
            batch.hit(b"", 18);
        },
        |aggregator| {
            let top = aggregator.top(10, 0);
            let kept: Vec<(&[u8], usize)> = top.iter().map(|hot| (hot.key, hot.length as usize)).collect();
            let wanted: [(&[u8], usize); 3] = [(&long[..NAME_BYTES], long.len()), (&binary, NAME_BYTES), (b"", 0)];
            assert_eq!(kept, wanted);
        },
    );
}

#[test]
fn names_that_find_no_room_come_with_a_later_window() {
    let options = Options { name_bytes: 64, sets: 256, ..SMALL };
    let memory = memory(options);
    let hits = create(&memory, options);
    let mut recorder = hits.join().unwrap();
    let mut aggregator = hits.aggregate().unwrap();
    aggregator.merge(0);
    let ids = [1, 2, 3];
    for round in 1..=3 {
        // Another one comes first each time; the first one alone has room.
        let batch: Vec<(usize, u32)> = ids.iter().map(|id| ((id + round) % 3 + 1, 50)).collect();
        record(&mut recorder, &batch);
        let merged = aggregator.merge(round as u64 * SLOT_US);
        assert_eq!((merged.hits, merged.lost, merged.late), (150, 2, 0));
        assert_eq!(aggregator.top(10, 0).len(), round);
        assert_eq!(aggregator.followed(), 3);
    }
}

#[test]
fn threads_add_up_and_each_one_that_lacks_a_key_adds_its_least_count() {
    let options = Options { max_threads: 2, sets: 1, ..SMALL };
    let memory = memory(options);
    let hits = create(&memory, options);
    let (mut one, mut two) = (hits.join().unwrap(), hits.join().unwrap());
    let mut aggregator = hits.aggregate().unwrap();
    aggregator.merge(0);
    record(&mut one, &[(1, 100), (2, 40)]);
    record(&mut two, &[(1, 11)]);
    let crowd: Vec<(usize, u32)> = (10..10 + WAYS - 1).map(|id| (id, 30)).collect();
    record(&mut two, &crowd);
    assert_eq!(aggregator.merge(SLOT_US).hits, 151 + 30 * (WAYS as u64 - 1));
    assert_eq!(aggregator.bounds(hash(1)), Bounds { lower: 111, upper: 111 });
    assert_eq!(aggregator.bounds(hash(2)), Bounds { lower: 40, upper: 51 });
    assert_eq!(aggregator.bounds(hash(10)), Bounds { lower: 30, upper: 30 });
}

#[test]
fn a_key_that_every_thread_hits_a_little_is_found() {
    let options = Options { max_threads: 16, ..SMALL };
    let memory = memory(options);
    let hits = create(&memory, options);
    let mut threads: Vec<Recorder<'_>> = (0..16).map(|_| hits.join().unwrap()).collect();
    let mut aggregator = hits.aggregate().unwrap();
    aggregator.merge(0);
    for recorder in &mut threads {
        record(recorder, &[(1, CANDIDATE / 2)]);
    }
    record(&mut threads[3], &[(1, CANDIDATE)]);
    aggregator.merge(SLOT_US);
    let all = u64::from(16 * (CANDIDATE / 2) + CANDIDATE);
    assert_eq!(aggregator.bounds(hash(1)), Bounds { lower: all, upper: all });
    assert_eq!(top(&aggregator, 0).len(), 1);
}

#[test]
fn keys_back_to_back_are_recorded_as_one_by_one() {
    let keys: Vec<(usize, u32)> = (0..100).map(|at| (at % 3, 1)).collect();
    let text: Vec<u8> = keys.iter().flat_map(|&(id, _)| key(id)).collect();
    let lengths = vec![key(0).len() as i32; 100];
    merged(
        SMALL,
        |recorder| {
            let mut batch = recorder.begin();
            assert!(batch.joined(&text, &lengths, None));
            assert!(batch.joined(&text, &lengths, Some(&[10, 0, 20])), "a missing weight is 0");
            assert!(batch.joined(b"", &[], None));
            assert!(!batch.joined(&text, &lengths[1..], None));
            assert!(!batch.joined(b"abc", &[4, -1], None));
            assert!(!batch.joined(b"abc", &[3], Some(&[-1])));
        },
        |aggregator| {
            let name = |id| String::from_utf8(key(id)).unwrap();
            assert_eq!(top(aggregator, 0), [(name(2), 53, 53), (name(0), 44, 44), (name(1), 33, 33)]);
        },
    );
}

#[test]
fn what_a_full_window_has_no_room_for_is_not_counted() {
    let batch = |recorder: &mut Recorder<'_>, weights: [i32; 2]| {
        let text = [key(1), key(2)].concat();
        assert!(recorder.begin().joined(&text, &[key(1).len() as i32; 2], Some(&weights)));
    };
    merged(
        SMALL,
        |recorder| {
            batch(recorder, [i32::MAX, 100]);
            batch(recorder, [i32::MAX, 100]);
            batch(recorder, [5, 5]);
        },
        |aggregator| {
            let rest = u64::from(u32::MAX) - 100 - i32::MAX as u64;
            assert_eq!(aggregator.bounds(hash(1)).lower, i32::MAX as u64 + rest);
            assert_eq!(aggregator.bounds(hash(2)).lower, 100);
        },
    );
}

#[test]
fn keys_of_a_turn_fill_a_window_to_its_last_hit() {
    merged(
        SMALL,
        |recorder| {
            record(recorder, &[(1, u32::MAX - 40)]);
            let two = key(2);
            recorder.begin().keys(std::iter::repeat_n(&two[..], 30));
            recorder.begin().keys(std::iter::repeat_n(&two[..], 30));
        },
        |aggregator| {
            assert_eq!(aggregator.bounds(hash(1)).lower, u64::from(u32::MAX) - 40);
            assert_eq!(aggregator.bounds(hash(2)).lower, 40);
        },
    );
}

#[test]
fn plain_counters_are_summed_over_threads_and_outlive_them() {
    let memory = memory(SMALL);
    let hits = create(&memory, SMALL);
    let (mut one, mut two) = (hits.join().unwrap(), hits.join().unwrap());
    one.count(0, 5);
    one.count(3, u32::MAX);
    one.count(3, 2);
    two.count(3, 10);
    two.count(4, 1);
    drop(one);
    assert_eq!([0, 1, 3, 4].map(|cell| hits.total(cell)), [5, 0, (1 << 32) + 11, 0]);
    let mut third = hits.join().unwrap();
    assert_eq!(third.seat(), 0);
    third.count(0, 1);
    assert_eq!(hits.total(0), 6);
}

#[test]
fn the_keys_of_operations_are_counted_but_for_those_that_do_not_count() {
    use keylane_core::resp::keys::Keys;
    use keylane_core::resp::{FLAG_UNCOUNTED, KEY_NONE};
    // GET k1 · SET k2 v · GENERIC HGETALL k1 · GET k3, uncounted · GENERIC PING · GET k1 cut off
    let scratch = b"k1k2valueHGETALLk1k3PINGk";
    let desc = [
        1,
        1,
        2,
        2,
        2,
        2,
        5,
        1 << 16,
        2,
        7,
        2,
        1 | (FLAG_UNCOUNTED << 8) as i32,
        1,
        2,
        (KEY_NONE << 16) as i32,
        1,
        4,
        1,
        1,
        2,
    ];
    let keys: Vec<&[u8]> = Keys::new(scratch, &desc, 6).collect();
    assert_eq!(keys, [b"k1", b"k2", b"k1"]);
    assert_eq!(Keys::new(scratch, &desc, 2).count(), 2, "no more than were asked for");
    let turn: Vec<&[u8]> = (0..100).flat_map(|_| keys.clone()).collect();
    merged(
        SMALL,
        |recorder| recorder.begin().keys(turn.into_iter()),
        |aggregator| {
            assert_eq!(top(aggregator, 0), [("k1".into(), 200, 200), ("k2".into(), 100, 100)]);
        },
    );
}
