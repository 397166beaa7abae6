//! The shared cache from Rust, one thread: 25-byte keys, 32-byte values, 10,000 and 1,000,000 of them; every value is asserted
//! before it is timed. A crossing from JavaScript comes on top.

use criterion::{Criterion, criterion_group, criterion_main};
use keylane_core::cache::{Cache, Session};
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::table::{Ask, Entry, Kind, Stored};
use std::hint::black_box;
use std::time::Duration;

const ASK: Ask = Ask { stale_ms: 0, lease_ms: 1000 };

fn key(id: usize) -> [u8; 25] {
    format!("up:user_{id:010}:profil").into_bytes().try_into().expect("25 bytes")
}

fn value(id: usize) -> [u8; 32] {
    format!("{{\"id\":{id:010},\"segment\":\"ab\"}}").into_bytes().try_into().expect("32 bytes")
}

fn store(session: &Session<'_>, key: &[u8], value: &[u8]) -> Stored {
    let hash = hash64(key);
    let ticket = session.begin_load(hash);
    let (ttl_ms, refresh_ms) = (60_000, 30_000);
    session.store(&Entry { hash, key, value: Some(value), ttl_ms, refresh_ms, feeder: 1, domain: 0, ticket })
}

/// Walks the ids in an order that no prefetcher guesses.
fn scattered(step: &mut usize, count: usize) -> usize {
    *step = (*step * 6_364_136_223_846_793_005 + 1_442_695_040_888_963_407) & (usize::MAX >> 1);
    ((*step >> 31) * count) >> 32
}

fn cache(criterion: &mut Criterion) {
    for count in [10_000, 1_000_000] {
        let memory = Memory::new(count * 121 + (2 << 20));
        let options = Options { entry_bytes: 57, max_threads: 8, ..Options::default() };
        let cache = Cache::create(memory.region(), options).expect("a region");
        let session = cache.join().expect("a seat");
        let keys: Vec<[u8; 25]> = (0..count).map(key).collect();
        for (id, key) in keys.iter().enumerate() {
            assert!(matches!(store(&session, key, &value(id)), Stored::Kept { .. }));
        }
        let mut out = [0; 64];
        let kept = (0..count)
            .filter(|&id| {
                let found = session.lookup(hash64(&keys[id]), &keys[id], ASK, &mut out);
                found.kind == Kind::Hit && out[..found.value_len] == value(id)
            })
            .count();
        assert!(kept * 1000 >= count * 995, "{kept} of {count} are cached");

        let mut group = criterion.benchmark_group(format!("cache of {count}"));
        group.sample_size(30).warm_up_time(Duration::from_millis(300)).measurement_time(Duration::from_secs(2));
        let (mut step, fixed) = (1, value(7));
        group.bench_function("lookup, hit", |bencher| {
            bencher.iter(|| {
                let key = &keys[scattered(&mut step, count)];
                session.lookup(hash64(black_box(key)), key, ASK, &mut out).value_len
            });
        });
        let absent: Vec<[u8; 25]> = (count..2 * count).map(key).collect();
        group.bench_function("lookup, miss", |bencher| {
            bencher.iter(|| {
                let key = &absent[scattered(&mut step, count)];
                session.lookup(hash64(black_box(key)), key, ASK, &mut out).value_len
            });
        });
        group.bench_function("store over what is there", |bencher| {
            bencher.iter(|| store(&session, &keys[scattered(&mut step, count)], &fixed));
        });
        group.bench_function("invalidate a key that is absent", |bencher| {
            bencher.iter(|| {
                let key = &absent[scattered(&mut step, count)];
                session.invalidate(hash64(black_box(key)), key)
            });
        });
        group.bench_function("store, then invalidate", |bencher| {
            bencher.iter(|| {
                let key = &keys[scattered(&mut step, count)];
                store(&session, key, &fixed);
                assert!(session.invalidate(hash64(key), key));
            });
        });
        group.finish();
    }
}

criterion_group!(benches, cache);
criterion_main!(benches);
