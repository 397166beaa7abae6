//! Random operations of two sessions against a map with expiry: the cache may forget, it may never be wrong; and as long as it
//! has evicted nothing, it may not forget either.

use crate::support::{SMALL, entry, look};
use keylane_core::cache::Cache;
use keylane_core::hash::hash64;
use keylane_core::region::Memory;
use keylane_core::table::{Ask, Entry, Kind, Stored};
use keylane_core::thread::Counter;
use proptest::collection::vec;
use proptest::prelude::*;
use std::collections::HashMap;

#[derive(Clone, Debug)]
enum Act {
    Store {
        key: u16,
        len: u16,
        ttl: u32,
        refresh: u32,
        feeder: u16,
        absent: bool,
    },
    /// Begins a load that the next `Land` ends.
    Depart {
        key: u16,
    },
    Land {
        len: u16,
    },
    Look {
        key: u16,
        stale: u32,
    },
    Invalidate {
        key: u16,
    },
    Feeder(u16),
    /// A feeder's values expire at once.
    Expire(u16),
    /// All feeders of a seat: 0 to 511 are the first one's.
    Seat(u16),
    Prefix(u8),
    All,
    Wait(u32),
}

fn acts() -> impl Strategy<Value = Act> {
    let key = 0..400_u16;
    prop_oneof![
        6 => (key.clone(), 0..1200_u16, 1..20_000_u32, 0..10_000_u32, 0..4_u16, prop::bool::weighted(0.1)).prop_map(
            |(key, len, ttl, refresh, feeder, absent)| Act::Store { key, len, ttl, refresh, feeder, absent }
        ),
        1 => key.clone().prop_map(|key| Act::Depart { key }),
        1 => (0..300_u16).prop_map(|len| Act::Land { len }),
        10 => (key.clone(), prop_oneof![Just(0), 0..30_000_u32]).prop_map(|(key, stale)| Act::Look { key, stale }),
        2 => key.prop_map(|key| Act::Invalidate { key }),
        1 => (0..4_u16).prop_map(Act::Feeder),
        1 => (0..4_u16).prop_map(Act::Expire),
        1 => (0..2_u16).prop_map(Act::Seat),
        1 => (0..10_u8).prop_map(Act::Prefix),
        1 => Just(Act::All),
        3 => (0..3000_u32).prop_map(Act::Wait),
    ]
}

struct Known {
    value: Option<Vec<u8>>,
    expiry: u64,
    feeder: u16,
}

fn name(key: u16) -> Vec<u8> {
    format!("{}:{key:0width$}", key % 10, width = usize::from(key % 40)).into_bytes()
}

fn check(acts: &[Act], bytes: usize, start: u32) {
    let memory = Memory::new(bytes);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let sessions = [cache.join().unwrap(), cache.join().unwrap()];
    let mut model: HashMap<u16, Known> = HashMap::new();
    let mut flying: Option<(u16, u32, bool)> = None;
    let mut now = u64::from(start);
    cache.set_now(start);
    for (turn, act) in acts.iter().enumerate() {
        let session = &sessions[turn % 2];
        let fill = |len: u16| vec![turn as u8; usize::from(len)];
        match *act {
            Act::Store { key, len, ttl, refresh, feeder, absent } => {
                let (name, value) = (name(key), (!absent).then(|| fill(len)));
                let entry =
                    Entry { ttl_ms: ttl, refresh_ms: refresh, feeder, ..entry(session, &name, value.as_deref()) };
                match session.store(&entry) {
                    Stored::Kept { .. } => {
                        model.insert(key, Known { value, expiry: now + u64::from(ttl), feeder });
                    }
                    other => {
                        assert_eq!(other, Stored::Bypassed);
                        assert!(usize::from(len) > cache.layout().max_value);
                        model.remove(&key);
                    }
                }
            }
            Act::Depart { key } => flying = Some((key, session.begin_load(hash64(&name(key))), false)),
            Act::Land { len } => {
                let Some((key, ticket, overtaken)) = flying.take() else { continue };
                let (name, value) = (name(key), fill(len));
                let stored = session.store(&Entry { ticket, ..entry(session, &name, Some(&value)) });
                assert!(!overtaken || stored == Stored::Overtaken);
                if matches!(stored, Stored::Kept { .. }) {
                    model.insert(key, Known { value: Some(value), expiry: now + 60_000, feeder: 0 });
                }
            }
            Act::Look { key, stale } => {
                let (found, value) = look(session, &name(key), Ask { stale_ms: stale, lease_ms: 500 });
                let known = model.get(&key).filter(|known| now < known.expiry + u64::from(stale));
                match found.kind {
                    Kind::Miss => assert!(known.is_none() || cache.total(Counter::Evictions) > 0, "forgot {key}"),
                    kind => {
                        let known = known.expect("what was never stored, or is gone");
                        assert_eq!(value, known.value);
                        assert_eq!(kind == Kind::Absent, known.value.is_none());
                        assert_eq!(found.stale, now >= known.expiry);
                        assert_eq!(found.expiry, known.expiry as u32);
                    }
                }
            }
            Act::Invalidate { key } => {
                session.invalidate(hash64(&name(key)), &name(key));
                model.remove(&key);
                overtake(&mut flying, |flying| flying == key);
            }
            Act::Feeder(feeder) => {
                session.invalidate_feeder(feeder);
                model.retain(|_, known| known.feeder != feeder);
                overtake(&mut flying, |_| true);
            }
            Act::Expire(feeder) => {
                let expired = session.expire_feeder(feeder);
                let fresh = model.values_mut().filter(|known| known.feeder == feeder && now < known.expiry);
                let count = fresh.map(|known| known.expiry = now).count();
                assert!(expired == count || expired < count && cache.total(Counter::Evictions) > 0);
                overtake(&mut flying, |_| true);
            }
            Act::Seat(seat) => {
                session.invalidate_seat(seat);
                model.retain(|_, known| seat != 0 || known.feeder == 0);
                overtake(&mut flying, |_| true);
            }
            Act::Prefix(digit) => {
                session.invalidate_prefix(0, format!("{digit}:").as_bytes());
                model.retain(|key, _| key % 10 != u16::from(digit));
                overtake(&mut flying, |_| true);
            }
            Act::All => {
                session.invalidate_all();
                model.clear();
                overtake(&mut flying, |_| true);
            }
            Act::Wait(ms) => {
                now += u64::from(ms);
                cache.set_now(now as u32);
            }
        }
    }
}

fn overtake(flying: &mut Option<(u16, u32, bool)>, reached: impl Fn(u16) -> bool) {
    if let Some((key, _, overtaken)) = flying {
        *overtaken |= reached(*key);
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(if cfg!(miri) { 2 } else { 200 }))]

    #[test]
    fn never_wrong_when_crowded(acts in vec(acts(), 1..if cfg!(miri) { 60 } else { 600 })) {
        check(&acts, 96 << 10, u32::MAX - 40_000);
    }

    #[test]
    fn never_wrong_and_never_forgetful_with_room(acts in vec(acts(), 1..if cfg!(miri) { 60 } else { 600 })) {
        check(&acts, 4 << 20, 5);
    }
}
