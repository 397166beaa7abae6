//! A writer stopped between any two of its changes, one test run for each place: whoever comes next finds every value right,
//! takes the dead one's locks over, and no proof vouches for what is no longer so.

use crate::support::{ASK, SMALL, entry, get, look, store, vouches};
use keylane_core::cache::{Cache, Session};
use keylane_core::flight::Claim;
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::sync::{Fuse, Steps, Stopped};
use keylane_core::table::{Ask, Entry, Lookup, Stored};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};

const KEYS: u32 = 150;

fn key(id: u32) -> Vec<u8> {
    format!("key {id}").into_bytes()
}

fn value(id: u32, version: u8) -> Vec<u8> {
    vec![version; 20 + id as usize % 90]
}

/// Runs `act` stopped at its first step, then at its second, and so on until it comes to its end. `allowed` says which values
/// a key may have afterwards (`None`: not cached).
fn stop_everywhere(
    bytes: usize,
    act: impl Fn(&Session<'_, Fuse>),
    allowed: impl Fn(u32, Option<&[u8]>) -> bool,
) -> (u32, u32) {
    let mut stolen = 0;
    for steps in 1.. {
        let memory = Memory::new(bytes);
        let options = Options { entry_bytes: 90, segment_bytes: 1024, max_value_bytes: 256, ..SMALL };
        let cache = Cache::create(memory.region(), options).unwrap();
        let witness = cache.join().unwrap();
        for id in 0..KEYS {
            store(&witness, &key(id), &value(id, 1));
        }
        let held: HashMap<u32, Lookup> = (0..KEYS).map(|id| (id, look(&witness, &key(id), ASK).0)).collect();
        let before: HashMap<u32, Option<Vec<u8>>> = (0..KEYS).map(|id| (id, get(&witness, &key(id)))).collect();

        let victim = cache.join_with(Fuse::default()).unwrap();
        victim.steps().light(steps);
        let outcome = catch_unwind(AssertUnwindSafe(|| act(&victim)));
        let ended = victim.steps().left() > 0;
        assert!(ended || outcome.is_err_and(|payload| payload.is::<Stopped>()));
        assert_eq!(ended, !victim.steps().stopped());
        drop(victim);

        for id in 0..KEYS {
            let now = get(&witness, &key(id));
            assert!(allowed(id, now.as_deref()), "stopped at {steps}: key {id} is {now:?}");
        }
        // Taking every lock mends whatever was left half done.
        witness.purge(0, cache.layout().groups, u32::MAX);
        for (id, found) in held {
            let now = get(&witness, &key(id));
            assert!(allowed(id, now.as_deref()), "stopped at {steps}, mended: key {id} is {now:?}");
            if before[&id].is_some() && vouches(&cache, &memory, found.proof_index, found.proof) {
                assert_eq!(now, before[&id], "stopped at {steps}: a proof vouches for key {id}");
            }
        }
        for round in 0..4 {
            for id in 0..KEYS {
                assert!(matches!(store(&witness, &key(id), &value(id, 10 + round)), Stored::Kept { .. }));
                assert_eq!(get(&witness, &key(id)), Some(value(id, 10 + round)));
            }
        }
        for key in (0..KEYS).map(key).chain([b"new".to_vec(), b"soon".to_vec()]) {
            witness.invalidate(hash64(&key), &key);
        }
        assert_eq!(cache.entries(), 0, "stopped at {steps}: a key is left twice");
        stolen += cache.total(keylane_core::thread::Counter::Stolen) as u32;
        if ended {
            return (steps - 1, stolen);
        }
    }
    unreachable!("some step is the last")
}

fn one_of(now: Option<&[u8]>, id: u32, versions: &[u8]) -> bool {
    now.is_none_or(|now| versions.iter().any(|&version| now == value(id, version)))
}

/// Room for all keys, and room for a third of them.
const ROOMY: usize = 128 << 10;
const TIGHT: usize = 30 << 10;

#[test]
fn stopped_in_a_store_over_what_is_there() {
    let (steps, stolen) = stop_everywhere(
        ROOMY,
        |session| _ = store(session, &key(7), &value(7, 2)),
        |id, now| if id == 7 { one_of(now, id, &[1, 2]) && now.is_some() } else { now == Some(&value(id, 1)) },
    );
    assert!(steps >= 7 && stolen >= steps, "{steps} steps, {stolen} locks stolen");
}

#[test]
fn stopped_in_a_store_of_a_new_key() {
    let act = |session: &Session<'_, Fuse>| _ = store(session, b"new", b"value");
    let (steps, _) = stop_everywhere(ROOMY, act, |id, now| now == Some(&value(id, 1)));
    assert!(steps >= 7, "{steps}");
}

#[test]
fn stopped_while_making_room() {
    let act = |session: &Session<'_, Fuse>| {
        for id in 0..KEYS {
            store(session, &key(id), &value(id, 2));
            get(session, &key(id / 3));
        }
    };
    let (steps, stolen) = stop_everywhere(TIGHT, act, |id, now| one_of(now, id, &[1, 2]));
    assert!(steps > 1000 && stolen > 1000, "{steps} steps, {stolen} locks stolen");
}

#[test]
fn stopped_in_an_invalidation() {
    let act = |session: &Session<'_, Fuse>| _ = session.invalidate(hash64(&key(9)), &key(9));
    stop_everywhere(ROOMY, act, |id, now| now == Some(&value(id, 1)) || (id == 9 && now.is_none()));
    let act = |session: &Session<'_, Fuse>| session.invalidate_all();
    let (steps, stolen) = stop_everywhere(ROOMY, act, |id, now| one_of(now, id, &[1]));
    assert!(steps > KEYS && stolen > KEYS, "{steps} steps, {stolen} locks stolen");
}

#[test]
fn stopped_in_an_election() {
    let act = |session: &Session<'_, Fuse>| {
        let entry = Entry { refresh_ms: 1, ..entry(session, b"soon", Some(b"value")) };
        session.store(&entry);
        session.cache().set_now(5);
        look(session, b"soon", ASK);
    };
    stop_everywhere(ROOMY, act, |id, now| now == Some(&value(id, 1)));
}

#[test]
fn stopped_in_a_claim() {
    for steps in 1..=4 {
        let memory = Memory::new(1 << 20);
        let cache = Cache::create(memory.region(), SMALL).unwrap();
        let victim = cache.join_with(Fuse::default()).unwrap();
        victim.steps().light(steps);
        let ended = catch_unwind(AssertUnwindSafe(|| victim.claim(5, 1000))).is_ok();
        assert_eq!(ended, steps == 4);
        drop(victim);
        let next = cache.join().unwrap();
        assert!(matches!(next.claim(5, 1000), Claim::Elected { .. }), "stopped at {steps}");
        assert!(matches!(next.claim(5, 1000), Claim::Wait { .. }));
    }
}

#[test]
fn a_session_that_did_not_stop_asks_for_nothing_stale() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    store(&session, b"key", b"value");
    assert_eq!(look(&session, b"key", Ask::default()).1, Some(b"value".to_vec()));
    assert_eq!(cache.total(keylane_core::thread::Counter::Stolen), 0);
}
