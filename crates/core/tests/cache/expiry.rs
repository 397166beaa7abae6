//! Lives, leases, staleness, and a clock that wraps or leaps.

use crate::support::{ASK, SMALL, entry, get, look, store};
use keylane_core::cache::Cache;
use keylane_core::clock::{STALE_LIMIT_MS, Ticker};
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::table::{Ask, Entry, Kind, MAX_TTL_MS, Stored};
use keylane_core::thread::Counter;
use std::time::Duration;

#[test]
fn l3_a_life_ends_on_time_wherever_the_clock_stands() {
    for start in [0, 1, 1 << 31, u32::MAX - 150, u32::MAX] {
        let memory = Memory::new(1 << 20);
        let cache = Cache::create(memory.region(), SMALL).unwrap();
        let session = cache.join().unwrap();
        cache.set_now(start);
        session.store(&Entry { ttl_ms: 100, ..entry(&session, b"key", Some(b"value")) });
        session.store(&Entry { ttl_ms: 30, ..entry(&session, b"nil", None) });
        cache.set_now(start.wrapping_add(29));
        assert_eq!(look(&session, b"nil", ASK).0.kind, Kind::Absent);
        cache.set_now(start.wrapping_add(30));
        assert_eq!(look(&session, b"nil", ASK).0.kind, Kind::Miss);
        cache.set_now(start.wrapping_add(99));
        assert_eq!(get(&session, b"key"), Some(b"value".to_vec()));
        cache.set_now(start.wrapping_add(100));
        assert_eq!(get(&session, b"key"), None);
        assert_eq!(cache.total(Counter::Expired), 2);
    }
}

#[test]
fn what_a_lost_feeder_fed_is_stale_from_then_on() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    cache.set_now(u32::MAX - 10);
    for (key, feeder) in [(b"one", 7), (b"two", 8)] {
        session.store(&Entry { feeder, ..entry(&session, key, Some(b"value")) });
    }
    let (found, _) = look(&session, b"one", ASK);
    cache.set_now(20);
    assert_eq!((session.expire_feeder(7), session.expire_feeder(7), session.expire_feeder(9)), (1, 0, 0));
    assert!(!cache.is_vouched(found.proof_index, found.proof));
    assert_eq!((get(&session, b"one"), get(&session, b"two")), (None, Some(b"value".to_vec())));
    cache.set_now(119);
    let stale = Ask { stale_ms: 100, lease_ms: 0 };
    let (found, value) = look(&session, b"one", stale);
    assert_eq!((found.stale, found.expiry, value), (true, 20, Some(b"value".to_vec())));
    cache.set_now(120);
    assert_eq!(look(&session, b"one", stale).0.kind, Kind::Miss);
    assert!(session.invalidate(hash64(b"one"), b"one"));
}

#[test]
fn l3_a_huge_life_is_the_longest_one() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let Stored::Kept { expiry, .. } =
        session.store(&Entry { ttl_ms: u32::MAX, refresh_ms: u32::MAX, ..entry(&session, b"key", Some(b"value")) })
    else {
        panic!("not kept");
    };
    assert_eq!(expiry, MAX_TTL_MS);
    cache.set_now(MAX_TTL_MS - 1);
    assert!(get(&session, b"key").is_some());
    cache.set_now(MAX_TTL_MS);
    assert!(get(&session, b"key").is_none());
}

#[test]
fn what_expired_long_ago_is_purged_before_the_clock_comes_round() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    store(&session, b"old", b"value");
    cache.set_now(60_000 + STALE_LIMIT_MS - 1);
    store(&session, b"new", b"value");
    let groups = cache.layout().groups;
    assert_eq!(session.purge(0, groups, STALE_LIMIT_MS), 0);
    assert_eq!(cache.entries(), 2);
    cache.set_now(60_000 + STALE_LIMIT_MS);
    let mut from = session.purge(0, 1, STALE_LIMIT_MS);
    while from != 0 {
        from = session.purge(from, 1, STALE_LIMIT_MS);
    }
    assert_eq!(cache.entries(), 1);
    assert!(get(&session, b"new").is_some());
}

#[test]
fn one_reader_a_lease_is_elected_to_refresh() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let sessions = [cache.join().unwrap(), cache.join().unwrap()];
    let stored = sessions[0].store(&Entry { refresh_ms: 100, ..entry(&sessions[0], b"key", Some(b"value")) });
    assert!(matches!(stored, Stored::Kept { check: 100, .. }));
    let mut elected = vec![];
    for now in 0..4000 {
        cache.set_now(now);
        for session in &sessions {
            let (found, value) = look(session, b"key", ASK);
            assert_eq!(value, Some(b"value".to_vec()));
            if found.elected {
                elected.push(now);
            }
            let next = if now < 100 { 100 } else { 100 + (now - 100) / 1000 * 1000 + 1000 };
            assert_eq!(found.check, next, "at {now}");
        }
    }
    assert_eq!(elected, [100, 1100, 2100, 3100]);
    assert_eq!(cache.total(Counter::Refreshes), 4);
    store(&sessions[1], b"key", b"fresh");
    assert!(!look(&sessions[0], b"key", ASK).0.elected);
}

#[test]
fn without_a_lease_nobody_is_elected() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    session.store(&Entry { refresh_ms: 100, ..entry(&session, b"key", Some(b"value")) });
    cache.set_now(200);
    assert!(!look(&session, b"key", Ask::default()).0.elected);
    assert!(look(&session, b"key", ASK).0.elected);
}

#[test]
fn a_value_past_its_expiry_is_returned_to_whoever_allows_it() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    store(&session, b"key", b"value");
    cache.set_now(60_500);
    let (found, value) = look(&session, b"key", Ask { stale_ms: 501, lease_ms: 0 });
    assert_eq!((found.kind, found.stale, value), (Kind::Hit, true, Some(b"value".to_vec())));
    assert_eq!(look(&session, b"key", Ask { stale_ms: 500, lease_ms: 0 }).0.kind, Kind::Miss);
    assert_eq!(get(&session, b"key"), None);
    assert_eq!(cache.total(Counter::StaleHits), 1);
    session.invalidate(hash64(b"key"), b"key");
    let gone = look(&session, b"key", Ask { stale_ms: 1000, lease_ms: 0 }).0;
    assert_eq!(gone.kind, Kind::Miss, "an invalidation beats staleness");
}

#[test]
fn c4_the_ticker_moves_the_clock_forward_and_is_joined() {
    let memory = Box::leak(Box::new(Memory::new(1 << 20)));
    let cache = Cache::create(memory.region(), Options { max_threads: 2, ..SMALL }).unwrap();
    cache.set_now(u32::MAX - 5);
    let ticker = Ticker::start(cache, Duration::from_millis(1)).unwrap();
    let (mut last, mut moved) = (cache.now(), 0);
    while moved < 50 {
        let now = cache.now();
        assert!(now.wrapping_sub(last) < 1 << 31, "the clock went back from {last} to {now}");
        moved += now.wrapping_sub(last);
        last = now;
        std::thread::yield_now();
    }
    drop(ticker);
    // Its seat is free again: both of two are.
    let seats = [cache.join(), cache.join()];
    assert!(seats.iter().all(Result::is_ok));
}
