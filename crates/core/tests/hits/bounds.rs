//! Bounds against a counter that forgets nothing: whatever is recorded, by whom, and whenever it is merged, the hits of every
//! key lie between them, also of keys that were replaced in their summary, let go by the aggregator, or never seen.

use crate::support::{create, hash, key, memory, name, record, record_counted, record_joined};
use keylane_core::hits::{Options, SLOT_US, SLOTS};
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::{HashMap, VecDeque};

const KEYS: usize = 120;

#[derive(Clone, Copy, Debug)]
enum Way {
    OneByOne,
    Joined,
    Counted,
}

#[derive(Clone, Debug)]
enum Step {
    Record(usize, Way, Vec<(usize, u32)>),
    /// Merges after so many microseconds.
    Merge(u64),
}

fn step() -> impl Strategy<Value = Step> {
    // Low numbers come often, so that some keys stand out and most do not.
    let id = prop_oneof![0..6_usize, 0..30_usize, 0..KEYS];
    let weight = prop_oneof![8 => Just(1_u32), 3 => 0..40_u32, 1 => Just(100_000_u32)];
    let late = prop_oneof![Just(0), Just(SLOT_US / 2), Just(SLOT_US), Just(SLOT_US), Just(SLOT_US * 7)];
    let way = prop_oneof![Just(Way::OneByOne), Just(Way::Joined), Just(Way::Counted)];
    prop_oneof![
        3 => (0..3_usize, way, vec((id, weight), 0..60)).prop_map(|(thread, way, hits)| Step::Record(thread, way, hits)),
        2 => late.prop_map(Step::Merge),
    ]
}

/// Exact counts of the same windows that the aggregator has.
#[derive(Default)]
struct Exact {
    slots: VecDeque<(u64, HashMap<usize, u64>)>,
    waiting: HashMap<usize, u64>,
}

impl Exact {
    fn merge(&mut self, elapsed: u64) {
        if self.slots.back().is_none_or(|slot| slot.0 >= SLOT_US - SLOT_US / 20) {
            self.slots.push_back(Default::default());
        }
        if self.slots.len() > SLOTS {
            self.slots.pop_front();
        }
        let slot = self.slots.back_mut().expect("a slot");
        slot.0 += elapsed;
        for (id, count) in self.waiting.drain() {
            *slot.1.entry(id).or_default() += count;
        }
    }

    fn hits(&self, id: usize) -> u64 {
        self.slots.iter().filter_map(|slot| slot.1.get(&id)).sum()
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(300))]

    #[test]
    fn every_key_lies_between_its_bounds(sets in 1..4_u32, steps in vec(step(), 1..80)) {
        let options = Options { max_threads: 3, sets, name_bytes: 2000, cells: 0 };
        let memory = memory(options);
        let hits = create(&memory, options);
        let mut threads = [hits.join().unwrap(), hits.join().unwrap(), hits.join().unwrap()];
        let mut aggregator = hits.aggregate().unwrap();
        let mut exact = Exact::default();
        let mut now = 5;
        aggregator.merge(now);
        for step in steps {
            match step {
                Step::Record(thread, way, batch) => {
                    let recorder = &mut threads[thread];
                    match way {
                        Way::OneByOne => record(recorder, &batch),
                        Way::Joined => record_joined(recorder, &batch),
                        Way::Counted => {
                            let wanted = record_counted(recorder, &batch);
                            name(recorder, &wanted);
                        }
                    }
                    for (id, weight) in batch {
                        *exact.waiting.entry(id).or_default() += u64::from(weight);
                    }
                    continue;
                }
                Step::Merge(elapsed) => {
                    let waiting: u64 = exact.waiting.values().sum();
                    now += elapsed;
                    prop_assert_eq!(aggregator.merge(now).hits, waiting);
                    exact.merge(elapsed);
                }
            }
            for id in 0..KEYS {
                let (bounds, hits) = (aggregator.bounds(hash(id)), exact.hits(id));
                prop_assert!(bounds.lower <= hits && hits <= bounds.upper, "key {id}: {hits} not in {bounds:?}");
            }
            for hot in aggregator.top(1000, 0) {
                let id = (0..KEYS).find(|&id| hash(id) == hot.hash).expect("a key that was recorded");
                prop_assert_eq!(hot.key, key(id));
                prop_assert_eq!(hot.length as usize, hot.key.len());
                let (hits, span) = (exact.hits(id) * 1_000_000, aggregator.span_us());
                prop_assert!(hot.rate.lower * span <= hits && hits <= hot.rate.upper * span);
            }
        }
    }
}
