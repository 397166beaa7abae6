//! Memory that somebody else wrote to: lookups may miss or return what stands there, but nothing panics, hangs or strays.

use crate::support::{ASK, Random, SMALL, entry, store};
use keylane_core::cache::Cache;
use keylane_core::hash::hash64;
use keylane_core::layout::{GROUP, LOCK};
use keylane_core::region::Memory;
use keylane_core::table::{Ask, Entry, Kind};

const KEYS: u32 = if cfg!(miri) { 60 } else { 2000 };
const ROUNDS: u64 = if cfg!(miri) { 3 } else { 60 };

#[test]
fn damaged_records_never_make_a_lookup_panic() {
    for round in 1..=ROUNDS {
        let mut random = Random(round);
        let memory = Memory::new(256 << 10);
        let cache = Cache::create(memory.region(), SMALL).unwrap();
        let session = cache.join().unwrap();
        for id in 0..KEYS {
            store(&session, &id.to_le_bytes(), &vec![id as u8; id as usize % 100]);
        }
        let (from, to) = (cache.layout().arena, cache.layout().words);
        for _ in 0..KEYS {
            let at = from + random.below((to - from) as u64) as usize;
            memory.region().set(at, random.next() as u32 >> random.below(32));
        }
        let mut out = vec![0; 2000];
        for id in 0..KEYS {
            let key = id.to_le_bytes();
            let found = session.lookup(hash64(&key), &key, ASK, &mut out);
            assert!(found.kind == Kind::Miss || found.value_len < 1 << 20);
        }
    }
}

#[test]
fn damage_anywhere_but_in_locks_never_makes_anything_panic_or_hang() {
    for round in 1..=ROUNDS {
        let mut random = Random(round * 7919);
        let memory = Memory::new(256 << 10);
        let cache = Cache::create(memory.region(), SMALL).unwrap();
        let session = cache.join().unwrap();
        let layout = *cache.layout();
        let is_lock = |at: usize| {
            let in_bucket = at.wrapping_sub(layout.buckets);
            let group_lock = (layout.buckets..layout.proofs).contains(&at) && in_bucket % (GROUP * 16) == LOCK;
            let first_of_line = at.is_multiple_of(16) && at < layout.epochs;
            group_lock || first_of_line
        };
        let mut out = vec![0; 2000];
        for step in 0..KEYS {
            for _ in 0..8 {
                let at = layout.shards + random.below((layout.words - layout.shards) as u64) as usize;
                if !is_lock(at) {
                    memory.region().set(at, random.next() as u32 >> random.below(32));
                }
            }
            let key = (random.below(u64::from(KEYS)) as u32).to_le_bytes();
            let hash = hash64(&key);
            session.lookup(hash, &key, Ask { stale_ms: 1 << 30, lease_ms: 10 }, &mut out);
            let value = vec![step as u8; random.below(1000) as usize];
            session.store(&Entry { ticket: cache.ticket(hash), ..entry(&session, &key, Some(&value)) });
            session.lookup(hash, &key, ASK, &mut out);
            session.claim(hash, 100);
            match random.below(60) {
                0 => session.invalidate_all(),
                1 => _ = session.invalidate_feeder(0),
                2 => _ = session.invalidate_prefix(0, b"\x01"),
                _ => _ = session.invalidate(hash, &key),
            }
        }
    }
}
