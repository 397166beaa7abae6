//! Threads that read, load, write and die at random over a cache much too small, for `KEYLANE_TORTURE_SECONDS` (3 by default)
//! on `KEYLANE_TORTURE_THREADS` (4 by default).
//!
//! ```text
//! truth    per key: the version that the server has               writer   truth + 1, invalidate, floor = that version
//! floor    per key: the version whose invalidation has returned   loader   ticket, read truth, store
//! value    key, version, then bytes that follow from both; 10 to 4,000 of them, short and long by turns
//! ```
//! Every value read must be whole, of its key, and at least as new as the floor was before the read began; what a thread keeps
//! in an L0 of its own must be so too, as long as its proof stands.

use crate::support::{ASK, Random};
use keylane_core::cache::{Cache, Session};
use keylane_core::hash::hash64;
use keylane_core::layout::Options;
use keylane_core::region::Memory;
use keylane_core::sync::{Fuse, Stopped};
use keylane_core::table::{Entry, Kind, Stored};
use keylane_core::thread::Counter;
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const KEYS: usize = if cfg!(miri) { 8 } else { 1500 };

struct World {
    truth: Vec<AtomicU32>,
    floor: Vec<AtomicU32>,
    over: AtomicBool,
    reads: AtomicU64,
    hits: AtomicU64,
    l0_hits: AtomicU64,
    deaths: AtomicU64,
}

fn setting(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("a number"))
}

fn key(id: usize) -> Vec<u8> {
    format!("up:user_{id:010}:profil").into_bytes()
}

fn fill(id: usize, version: u32, value: &mut Vec<u8>) {
    let mut random = Random((id as u64 + 1) << 32 | u64::from(version) << 1 | 1);
    let long = if cfg!(miri) { 300 } else { 4000 };
    let length = if version.is_multiple_of(2) { 10 + random.below(90) } else { 100 + random.below(long - 99) } as usize;
    value.clear();
    value.extend_from_slice(&(id as u32).to_le_bytes());
    value.extend_from_slice(&version.to_le_bytes());
    while value.len() < length {
        value.extend_from_slice(&random.next().to_le_bytes());
    }
    value.truncate(length);
}

/// The version of a value that is whole and of its key.
fn version_of(id: usize, value: &[u8], scratch: &mut Vec<u8>) -> u32 {
    assert!(value.len() >= 10, "a value of {} bytes", value.len());
    let word = |at: usize| u32::from_le_bytes(value[at..at + 4].try_into().unwrap());
    assert_eq!(word(0), id as u32, "a foreign value");
    fill(id, word(4), scratch);
    assert!(value == scratch, "a torn value of key {id}, version {}", word(4));
    word(4)
}

fn live(cache: &Cache<'_>, memory: &Memory, world: &World, seed: u64) {
    let mut random = Random(seed);
    let mut kept: HashMap<usize, (u32, usize, u32)> = HashMap::new();
    while !world.over.load(Ordering::Relaxed) {
        let session = cache.join_with(Fuse::default()).expect("a seat");
        let outcome = catch_unwind(AssertUnwindSafe(|| run(&session, memory, world, &mut random, &mut kept)));
        match outcome {
            Ok(()) => {}
            Err(payload) if payload.is::<Stopped>() => drop(world.deaths.fetch_add(1, Ordering::Relaxed)),
            Err(payload) => {
                world.over.store(true, Ordering::Relaxed);
                resume_unwind(payload);
            }
        }
    }
}

fn run(
    session: &Session<'_, Fuse>,
    memory: &Memory,
    world: &World,
    random: &mut Random,
    kept: &mut HashMap<usize, (u32, usize, u32)>,
) {
    let (mut out, mut scratch) = (vec![0; 4096], vec![]);
    let proofs = session.cache().layout().proofs;
    while !world.over.load(Ordering::Relaxed) {
        if random.below(2000) == 0 {
            session.steps().light(1 + random.below(200) as u32);
        }
        let skewed = random.below(KEYS as u64).min(random.below(KEYS as u64)) as usize;
        let (id, name) = (skewed, key(skewed));
        let hash = hash64(&name);
        if random.below(50) == 0 {
            let version = world.truth[id].fetch_add(1, Ordering::AcqRel) + 1;
            session.invalidate(hash, &name);
            world.floor[id].fetch_max(version, Ordering::AcqRel);
            continue;
        }
        if random.below(200_000) == 0 {
            session.invalidate_all();
        }
        world.reads.fetch_add(1, Ordering::Relaxed);
        let floor = world.floor[id].load(Ordering::Acquire);
        if let Some(&(version, index, proof)) = kept.get(&id)
            && memory.region().get(proofs + index) == proof
        {
            assert!(version >= floor, "L0 has version {version} of key {id}, {floor} was invalidated");
            world.l0_hits.fetch_add(1, Ordering::Relaxed);
            if random.below(4) != 0 {
                continue;
            }
        }
        let found = session.lookup(hash, &name, ASK, &mut out);
        match found.kind {
            Kind::Hit => {
                let version = version_of(id, &out[..found.value_len], &mut scratch);
                assert!(version >= floor, "L1 has version {version} of key {id}, {floor} was invalidated");
                world.hits.fetch_add(1, Ordering::Relaxed);
                kept.insert(id, (version, found.proof_index, found.proof));
            }
            Kind::Miss => {
                let ticket = session.begin_load(hash);
                let version = world.truth[id].load(Ordering::Acquire);
                fill(id, version, &mut scratch);
                let value = Some(scratch.as_slice());
                let entry = Entry { hash, key: &name, value, ttl_ms: 50, refresh_ms: 20, feeder: 0, domain: 0, ticket };
                if let Stored::Kept { proof_index, proof, .. } = session.store(&entry) {
                    kept.insert(id, (version, proof_index, proof));
                }
            }
            other => panic!("{other:?} was never stored"),
        }
    }
}

#[test]
fn threads_that_write_and_die_at_random_never_show_a_wrong_value() {
    let seconds = setting("KEYLANE_TORTURE_SECONDS", if cfg!(miri) { 1 } else { 3 });
    let threads = setting("KEYLANE_TORTURE_THREADS", if cfg!(miri) { 2 } else { 4 });
    let memory = Memory::new(if cfg!(miri) { 64 << 10 } else { 1 << 20 });
    let options = Options {
        entry_bytes: 1000,
        max_value_bytes: 4000,
        max_key_bytes: 32,
        max_threads: threads as u32,
        segment_bytes: if cfg!(miri) { 1024 } else { 8192 },
        shards: if cfg!(miri) { 1 } else { 2 },
        small_percent: 10,
    };
    let cache = Cache::create(memory.region(), options).unwrap();
    let zeros = || (0..KEYS).map(|_| AtomicU32::new(0)).collect();
    let world = World {
        truth: zeros(),
        floor: zeros(),
        over: AtomicBool::new(false),
        reads: AtomicU64::new(0),
        hits: AtomicU64::new(0),
        l0_hits: AtomicU64::new(0),
        deaths: AtomicU64::new(0),
    };
    let started = Instant::now();
    std::thread::scope(|scope| {
        for thread in 0..threads {
            let (cache, memory, world) = (&cache, &memory, &world);
            scope.spawn(move || live(cache, memory, world, 0x9e37_79b9 * (thread + 1)));
        }
        while started.elapsed() < Duration::from_secs(seconds) && !world.over.load(Ordering::Relaxed) {
            std::thread::park_timeout(Duration::from_millis(1));
            cache.set_now(started.elapsed().as_millis() as u32);
        }
        world.over.store(true, Ordering::Relaxed);
    });
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    println!(
        "{seconds} s, {threads} threads: {} reads, {} by L0, {} by L1, {} stores, {} overtaken, {} evictions, \
         {} segments recycled, {} writers stopped, {} locks stolen; 0 wrong",
        count(&world.reads),
        count(&world.l0_hits),
        count(&world.hits),
        cache.total(Counter::Stores),
        cache.total(Counter::Overtaken),
        cache.total(Counter::Evictions),
        cache.total(Counter::Recycled),
        count(&world.deaths),
        cache.total(Counter::Stolen),
    );
    assert!(count(&world.hits) > 0 && cache.total(Counter::Stores) > 0);
    assert!(cfg!(miri) || (count(&world.deaths) > 0 && cache.total(Counter::Recycled) > 0));
}
