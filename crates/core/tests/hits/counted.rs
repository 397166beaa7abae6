//! Hits that a thread has counted by itself: they come to the same as hits recorded one by one, and names find their keys also
//! when they come late.

use crate::support::{create, hash, key, memory, name, record, record_counted, top};
use keylane_core::hits::{Options, SLOT_US};
use proptest::collection::{btree_map, vec};
use proptest::prelude::*;

const OPTIONS: Options = Options { max_threads: 1, sets: 3, name_bytes: 1 << 16, cells: 0 };
const KEYS: usize = 60;

fn halves(id: usize) -> [i32; 2] {
    [hash(id) as i32, (hash(id) >> 32) as i32]
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn counted_hits_and_names_give_the_same_as_hits_one_by_one(
        batches in vec((btree_map(0..KEYS, 0..50_u32, 0..KEYS), any::<bool>(), any::<bool>()), 1..30),
    ) {
        let (one, other) = (memory(OPTIONS), memory(OPTIONS));
        let (one, other) = (create(&one, OPTIONS), create(&other, OPTIONS));
        let (mut plain, mut counted) = (one.join().unwrap(), other.join().unwrap());
        let (mut of_plain, mut of_counted) = (one.aggregate().unwrap(), other.aggregate().unwrap());
        let mut now = 0;
        of_plain.merge(now);
        of_counted.merge(now);
        for (batch, merges, late) in batches {
            let batch: Vec<(usize, u32)> = batch.into_iter().collect();
            record(&mut plain, &batch);
            let wanted = record_counted(&mut counted, &batch);
            if !late {
                name(&mut counted, &wanted);
            }
            if merges || late {
                now += SLOT_US;
                prop_assert_eq!(of_plain.merge(now).hits, of_counted.merge(now).hits);
            }
            if late {
                name(&mut counted, &wanted);
            }
            for id in 0..KEYS {
                prop_assert_eq!(of_plain.bounds(hash(id)), of_counted.bounds(hash(id)));
            }
        }
        // Names that came late are learned with the next merge, whether or not there were hits since.
        prop_assert_eq!(of_plain.merge(now).hits, of_counted.merge(now).hits);
        prop_assert_eq!(top(&of_plain, 0), top(&of_counted, 0));
    }
}

#[test]
fn fewer_hits_than_the_least_wait_and_places_without_a_hash_are_left_alone() {
    let memory = memory(OPTIONS);
    let hits = create(&memory, OPTIONS);
    let (mut recorder, mut aggregator) = (hits.join().unwrap(), hits.aggregate().unwrap());
    aggregator.merge(0);
    let mut counts: Vec<i32> = (0..40).collect();
    counts[3] = -5;
    let hashes: Vec<[i32; 2]> = (0..38).map(halves).collect();
    let mut wanted = [0; 40];
    let names = recorder.begin().counted(&mut counts, &hashes, 32, &mut wanted);
    assert_eq!(wanted[..names], [37, 36, 35, 34, 33, 32], "the hottest first");
    let left: Vec<i32> = (0..40)
        .map(|at| {
            if (32..38).contains(&at) {
                0
            } else if at == 3 {
                -5
            } else {
                at
            }
        })
        .collect();
    assert_eq!(counts, left);
    assert_eq!(aggregator.merge(SLOT_US).hits, (32..38).sum::<u64>());
    assert_eq!(
        recorder.begin().counted(&mut counts, &hashes, 0, &mut wanted),
        24,
        "0 is 1; of 8 hits on keys are named"
    );
    assert!(counts[..38].iter().all(|&count| count <= 0));
}

#[test]
fn names_without_room_are_lost_and_the_coldest_are_these() {
    let length = key(0).len();
    // Room for the two hottest, with the three words before a name.
    let options = Options { name_bytes: 2 * (12 + length.next_multiple_of(4)) as u32, ..OPTIONS };
    let (kept, memory) =
        ((options.name_bytes as usize).next_multiple_of(64) / (12 + length.next_multiple_of(4)), memory(options));
    let hits = create(&memory, options);
    let (mut recorder, mut aggregator) = (hits.join().unwrap(), hits.aggregate().unwrap());
    aggregator.merge(0);
    let wanted = record_counted(&mut recorder, &[(1, 10), (2, 30), (3, 40), (4, 20), (5, 9)]);
    assert_eq!(wanted, [3, 2, 4, 1, 5]);
    let named = wanted.iter().take_while(|&&id| recorder.begin().name(&key(id))).count();
    assert_eq!(named, kept);
    assert_eq!(record_counted(&mut recorder, &[(6, 100)]), [0; 0], "nobody asks where there is no room");
    assert_eq!(aggregator.merge(SLOT_US).lost, 2);
    assert_eq!(aggregator.top(10, 0).len(), kept);
    // The next window has room again.
    assert_eq!(record_counted(&mut recorder, &[(6, 100), (7, 9)]), [6, 7]);
}

#[test]
fn hits_that_a_window_has_no_room_for_are_not_counted() {
    let memory = memory(OPTIONS);
    let hits = create(&memory, OPTIONS);
    let (mut recorder, mut aggregator) = (hits.join().unwrap(), hits.aggregate().unwrap());
    aggregator.merge(0);
    let most = i32::MAX as u32;
    record_counted(&mut recorder, &[(1, most), (2, most), (3, most), (4, 1)]);
    assert_eq!(aggregator.merge(SLOT_US).hits, u64::from(u32::MAX));
    assert_eq!(aggregator.bounds(hash(1)).lower, u64::from(most));
}
