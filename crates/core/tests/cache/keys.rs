//! Keys and values as they come: empty, absent, too long, and what an invalidation reaches.

use crate::support::{ASK, SMALL, entry, get, look, store, vouches};
use keylane_core::cache::Cache;
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::table::{Entry, Kind, Stored};

#[test]
fn l5_empty_absent_and_not_cached_are_three_things() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    store(&session, b"empty", b"");
    store(&session, b"zero", b"0");
    session.store(&entry(&session, b"nil", None));
    let (found, value) = look(&session, b"empty", ASK);
    assert_eq!((found.kind, value), (Kind::Hit, Some(vec![])));
    assert_eq!(get(&session, b"zero"), Some(b"0".to_vec()));
    assert_eq!(look(&session, b"nil", ASK).0.kind, Kind::Absent);
    assert_eq!(look(&session, b"none", ASK).0.kind, Kind::Miss);
    store(&session, b"nil", b"now it is");
    assert_eq!(get(&session, b"nil"), Some(b"now it is".to_vec()));
}

#[test]
fn e6_long_keys_are_distinct_or_not_cached() {
    let memory = Memory::new(4 << 20);
    let options = Options { max_threads: 2, max_key_bytes: 4095, ..Options::default() };
    let cache = Cache::create(memory.region(), options).unwrap();
    let session = cache.join().unwrap();
    for length in [255, 256, 1024, 4094, 4095, 4096, 65_535, 65_536, 70_000] {
        let mut one = vec![b'k'; length];
        let two = one.clone();
        one[length - 1] = b'x';
        let kept = store(&session, &one, b"one");
        assert_eq!(get(&session, &two), None, "{length}");
        store(&session, &two, b"two");
        if length > 4095 {
            assert_eq!(kept, Stored::Bypassed);
            assert_eq!((get(&session, &one), get(&session, &two)), (None, None));
        } else {
            assert_eq!((get(&session, &one), get(&session, &two)), (Some(b"one".to_vec()), Some(b"two".to_vec())));
        }
    }
}

#[test]
fn r4_keys_are_bytes() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    store(&session, &[0x80], b"80");
    assert_eq!(get(&session, &[0x81]), None);
    store(&session, &[0x81], b"81");
    store(&session, &[0x80, 0], b"80 00");
    store(&session, b"", b"no byte");
    assert_eq!(get(&session, &[0x80]), Some(b"80".to_vec()));
    assert_eq!(get(&session, &[0x80, 0]), Some(b"80 00".to_vec()));
    assert_eq!(get(&session, &[0x80, 0, 0]), None);
    assert_eq!(get(&session, b""), Some(b"no byte".to_vec()));
}

#[test]
fn keys_of_one_hash_are_told_apart() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let put = |key: &[u8], value: &[u8]| {
        session.store(&Entry { hash: 42, ticket: cache.ticket(42), ..entry(&session, key, Some(value)) })
    };
    put(b"one", b"1");
    put(b"two", b"2");
    let mut out = [0; 8];
    for (key, value) in [(b"one", b'1'), (b"two", b'2')] {
        assert_eq!(session.lookup(42, key, ASK, &mut out).kind, Kind::Hit);
        assert_eq!(out[0], value);
    }
    assert_eq!(session.lookup(42, b"six", ASK, &mut out).kind, Kind::Miss);
}

#[test]
fn a_value_past_the_limit_leaves_nothing_old_behind() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    assert!(matches!(store(&session, b"key", &[1; 1024]), Stored::Kept { .. }));
    assert_eq!(get(&session, b"key"), Some(vec![1; 1024]));
    assert_eq!(store(&session, b"key", &[2; 1025]), Stored::Bypassed);
    assert_eq!(get(&session, b"key"), None);
}

#[test]
fn a_buffer_too_small_is_told_what_it_takes() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    store(&session, b"key", &[7; 100]);
    let mut out = [0; 99];
    let found = session.lookup(hash64(b"key"), b"key", ASK, &mut out);
    assert_eq!((found.kind, found.value_len), (Kind::NoRoom, 100));
    assert_eq!(out, [0; 99]);
}

#[test]
fn each_change_of_a_key_voids_its_proof_and_no_other() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let keys: Vec<Vec<u8>> = (0..100).map(|id| format!("key {id}").into_bytes()).collect();
    for key in &keys {
        store(&session, key, b"old");
    }
    let proofs: Vec<(usize, u32)> =
        keys.iter().map(|key| look(&session, key, ASK).0).map(|found| (found.proof_index, found.proof)).collect();
    store(&session, &keys[3], b"new");
    assert!(session.invalidate(hash64(&keys[4]), &keys[4]));
    assert!(!session.invalidate(hash64(b"other"), b"other"));
    for (id, &(index, proof)) in proofs.iter().enumerate() {
        assert_eq!(vouches(&cache, &memory, index, proof), id != 3 && id != 4, "key {id}");
    }
    session.invalidate_all();
    assert!(proofs.iter().all(|&(index, proof)| !vouches(&cache, &memory, index, proof)));
}

#[test]
fn the_proof_of_a_store_is_the_one_a_lookup_finds() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let Stored::Kept { proof_index, proof, expiry, check } = store(&session, b"key", b"value") else {
        panic!("not kept");
    };
    let found = look(&session, b"key", ASK).0;
    assert_eq!((found.proof_index, found.proof, found.expiry, found.check), (proof_index, proof, expiry, check));
}

#[test]
fn l4_an_invalidation_reaches_its_domain_prefix_or_feeder_only() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let fill = || {
        for id in 0..50_u16 {
            for domain in 0..2 {
                let key = format!("{}:{domain}:{id}", if id % 2 == 0 { "even" } else { "odd" });
                let entry = Entry { domain, feeder: 10 + id % 5, ..entry(&session, key.as_bytes(), Some(b"value")) };
                session.store(&entry);
            }
        }
        assert_eq!(cache.entries(), 100);
    };
    fill();
    assert_eq!(session.invalidate_prefix(1, b"even:"), 25);
    assert_eq!(get(&session, b"even:1:2"), None);
    assert!(get(&session, b"even:0:2").is_some() && get(&session, b"odd:1:3").is_some());
    assert_eq!(session.invalidate_prefix(1, b"odd:1:49x"), 0);
    assert_eq!(session.invalidate_prefix(1, b""), 25);
    assert_eq!(cache.entries(), 50);
    fill();
    assert_eq!(session.invalidate_feeder(12), 20);
    assert_eq!(session.invalidate_feeder(12), 0);
    assert_eq!(cache.entries(), 80);
    session.invalidate_all();
    assert_eq!(cache.entries(), 0);
}

#[test]
fn what_a_seat_fed_goes_and_nothing_else() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let fed = [("nobody", 0), ("first", 1), ("last", 511), ("other seat", 512), ("other seat's first", 513)];
    for (key, feeder) in fed {
        session.store(&Entry { feeder, ..entry(&session, key.as_bytes(), Some(b"value")) });
    }
    assert_eq!(session.invalidate_seat(0), 2);
    assert!(get(&session, b"nobody").is_some() && get(&session, b"other seat's first").is_some());
    assert_eq!(session.invalidate_seat(1), 1);
    assert_eq!(get(&session, b"other seat's first"), None);
    assert_eq!(cache.entries(), 2);
}
