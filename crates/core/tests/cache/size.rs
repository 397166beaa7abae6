//! What a cached key costs beyond its bytes, and that a full cache stays a cache.

use crate::support::{SMALL, get, store};
use keylane_core::cache::Cache;
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::table::{Ask, Kind, Stored};
use keylane_core::thread::Counter;

#[test]
fn a_million_keys_of_25_and_32_bytes_cost_at_most_64_bytes_each() {
    const KEYS: usize = 1_000_000;
    const BYTES: usize = KEYS * (57 + 56);
    let memory = Memory::new(BYTES);
    let options = Options { entry_bytes: 57, ..Options::default() };
    let cache = Cache::create(memory.region(), options).unwrap();
    let session = cache.join().unwrap();
    let key = |id: usize| format!("up:user_{id:010}:profil");
    for id in 0..KEYS {
        assert!(matches!(store(&session, key(id).as_bytes(), format!("{id:032}").as_bytes()), Stored::Kept { .. }));
    }
    let mut out = [0; 32];
    let kept = (0..KEYS).filter(|&id| {
        let key = key(id);
        let found = session.lookup(hash64(key.as_bytes()), key.as_bytes(), Ask::default(), &mut out);
        assert!(found.kind == Kind::Miss || out == *format!("{id:032}").as_bytes());
        found.kind == Kind::Hit
    });
    let kept = kept.count();
    assert_eq!(kept, cache.entries());
    let overhead = BYTES as f64 / kept as f64 - 57.0;
    println!("{kept} of {KEYS} keys in {BYTES} bytes: {overhead:.1} bytes a key beyond key and value");
    assert!(kept > KEYS * 99 / 100, "{kept} keys were kept");
    assert!(overhead <= 64.0, "{overhead} bytes a key");
}

#[test]
fn a_full_cache_goes_on_taking_and_answers_right() {
    for (bytes, options) in [
        (1 << 20, SMALL),
        (1 << 20, Options { shards: 8, segment_bytes: 2048, max_value_bytes: 512, ..SMALL }),
        // Index far too small for what fits, and far too large.
        (1 << 20, Options { entry_bytes: 4000, ..SMALL }),
        (1 << 20, Options { entry_bytes: 1, ..SMALL }),
    ] {
        let memory = Memory::new(bytes);
        let cache = Cache::create(memory.region(), options).unwrap();
        let session = cache.join().unwrap();
        for id in 0..50_000_u32 {
            let (key, value) = (id.to_le_bytes(), vec![id as u8; id as usize % 500]);
            assert!(matches!(store(&session, &key, &value), Stored::Kept { .. }), "{id}");
            assert_eq!(get(&session, &key), Some(value));
            let before = id / 2;
            let old = get(&session, &before.to_le_bytes());
            assert!(old.is_none_or(|old| old == vec![before as u8; before as usize % 500]));
        }
        assert!(cache.total(Counter::Evictions) > 10_000);
        assert!(cache.total(Counter::Recycled) > 100 || options.entry_bytes == 4000);
        assert!(cache.entries() > 0);
    }
}

#[test]
fn what_is_used_stays_while_a_scan_passes() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let hot: Vec<Vec<u8>> = (0..500).map(|id| format!("hot {id}").into_bytes()).collect();
    for key in &hot {
        store(&session, key, b"hot");
        get(&session, key);
    }
    for id in 0..100_000_u32 {
        store(&session, &id.to_le_bytes(), &[0; 40]);
        if id % 100 == 0 {
            hot.iter().for_each(|key| drop(get(&session, key)));
        }
    }
    let left = hot.iter().filter(|key| get(&session, key).is_some()).count();
    assert!(left > 490, "{left} of 500 are left");
}
