//! Loads that an invalidation overtook, and closing.

use crate::support::{SMALL, entry, get, store};
use keylane_core::cache::{Cache, RegionError};
use keylane_core::hash::hash64;
use keylane_core::region::Memory;
use keylane_core::table::{Entry, Stored};
use keylane_core::thread::Counter;

#[test]
fn a_load_is_not_stored_when_its_key_was_invalidated_meanwhile() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let (session, other) = (cache.join().unwrap(), cache.join().unwrap());
    let hash = hash64(b"key");
    let invalidations: [(&str, &dyn Fn()); 6] = [
        ("key", &|| _ = other.invalidate(hash, b"key")),
        ("feeder", &|| _ = other.invalidate_feeder(1)),
        ("expired feeder", &|| _ = other.expire_feeder(1)),
        ("seat", &|| _ = other.invalidate_seat(0)),
        ("prefix", &|| _ = other.invalidate_prefix(0, b"k")),
        ("everything", &|| other.invalidate_all()),
    ];
    for (what, invalidate) in invalidations {
        let late = Entry { feeder: 1, ..entry(&session, b"key", Some(b"old")) };
        invalidate();
        assert_eq!(session.store(&late), Stored::Overtaken, "{what}");
        assert_eq!(get(&session, b"key"), None);
        let new = Entry { feeder: 1, ..entry(&session, b"key", Some(b"new")) };
        assert!(matches!(session.store(&new), Stored::Kept { .. }));
        assert_eq!(session.store(&late), Stored::Overtaken, "{what}");
        assert_eq!(get(&session, b"key"), Some(b"new".to_vec()));
    }
    assert_eq!(cache.total(Counter::Overtaken), 12);
}

#[test]
fn an_invalidation_of_another_key_does_not_overtake() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let kept = (0..1000).filter(|id| {
        let load = entry(&session, b"key", Some(b"value"));
        let other = format!("other {id}");
        session.invalidate(hash64(other.as_bytes()), other.as_bytes());
        matches!(session.store(&load), Stored::Kept { .. })
    });
    // Stripes are shared: some do.
    assert!(kept.count() > 1000 - 1000 / cache.layout().epoch_count * 2 - 10);
}

#[test]
fn a_closed_cache_answers_and_takes_nothing() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let (session, other) = (cache.join().unwrap(), cache.join().unwrap());
    store(&session, b"key", b"value");
    let late = entry(&other, b"key", Some(b"late"));
    session.close();
    assert_eq!(get(&other, b"key"), None);
    assert_eq!(other.store(&late), Stored::Closed);
    assert_eq!(store(&other, b"key", b"value"), Stored::Closed);
    assert_eq!(get(&other, b"key"), None);
    assert_eq!(cache.join().err(), Some(RegionError::Closed));
    assert_eq!(Cache::attach(memory.region()).err(), Some(RegionError::Closed));
}
