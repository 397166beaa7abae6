//! Hit ratio of the cache on recorded requests, beside LRU and textbook S3-FIFO of the same capacity in objects.
//!
//! ```text
//! cargo run --release -p keylane-core --example hit-ratio -- TRACE [PERCENT]     capacity in percent of the distinct objects
//! ```
//! TRACE holds big-endian 32-bit object numbers, one a request. All values have the same small size, so that the arena of the
//! region holds exactly the capacity, counted in whole segments.

use keylane_core::cache::Cache;
use keylane_core::entry;
use keylane_core::hash::hash64;
use keylane_core::layout::{Layout, Options};
use keylane_core::region::Memory;
use keylane_core::table::{Ask, Entry, Kind, Stored};
use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};

const VALUE: [u8; 8] = *b"8 bytes!";

fn main() {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().expect("usage: hit-ratio TRACE [PERCENT]");
    let percent: f64 = arguments.next().map_or(10.0, |text| text.parse().expect("a percentage"));
    let bytes = std::fs::read(&path).expect("a readable trace");
    let (words, _) = bytes.as_chunks::<4>();
    let trace: Vec<u32> = words.iter().map(|word| u32::from_be_bytes(*word)).collect();
    let distinct = trace.iter().collect::<HashSet<_>>().len();
    let capacity = (distinct as f64 * percent / 100.0) as usize;
    let ratio = |hits: usize| 100.0 * hits as f64 / trace.len() as f64;
    println!("{path}: {} requests, {distinct} objects, capacity {capacity}", trace.len());
    println!("lru      {:6.2} %", ratio(lru(&trace, capacity)));
    println!("s3-fifo  {:6.2} %", ratio(s3_fifo(&trace, capacity)));
    let (hits, held, segments) = keylane(&trace, capacity);
    println!("keylane  {:6.2} %   ({held} records fit, {segments} segments)", ratio(hits));
}

/// Requests answered by the cache, records that its arena holds, and its segments.
fn keylane(trace: &[u32], capacity: usize) -> (usize, usize, usize) {
    let record = entry::words(4, VALUE.len());
    let segment = (capacity * record / 192).next_power_of_two().clamp(32, 32_768);
    let options = Options {
        entry_bytes: 12,
        max_key_bytes: 4,
        max_value_bytes: 8,
        max_threads: 1,
        segment_bytes: segment as u32 * 4,
        shards: 1,
        ..Options::default()
    };
    let fits = |layout: &Layout| layout.segment_count() * (layout.segment_words / record);
    let sized = |words: &usize| Layout::new(*words, options).is_ok_and(|layout| fits(&layout) <= capacity);
    let words = (0..capacity * 64 + 65_536).step_by(16).rfind(sized).expect("capacity for a few segments");
    let memory = Memory::new(words * 4);
    let cache = Cache::create(memory.region(), options).expect("a region");
    let session = cache.join().expect("a seat");
    let mut hits = 0;
    let mut out = [0; 8];
    for object in trace {
        let key = object.to_be_bytes();
        let hash = hash64(&key);
        if session.lookup(hash, &key, Ask::default(), &mut out).kind == Kind::Hit {
            assert_eq!(out, VALUE);
            hits += 1;
            continue;
        }
        let ticket = session.begin_load(hash);
        let stored = session.store(&Entry {
            hash,
            key: &key,
            value: Some(&VALUE),
            ttl_ms: 1000,
            refresh_ms: 0,
            feeder: 0,
            domain: 0,
            ticket,
        });
        assert!(matches!(stored, Stored::Kept { .. }));
    }
    (hits, fits(cache.layout()), cache.layout().segment_count())
}

fn lru(trace: &[u32], capacity: usize) -> usize {
    let (mut used, mut order) = (HashMap::new(), BTreeMap::new());
    let mut hits = 0;
    for (now, &object) in trace.iter().enumerate() {
        if let Some(before) = used.insert(object, now) {
            hits += 1;
            order.remove(&before);
        } else if used.len() > capacity
            && let Some((_, oldest)) = order.pop_first()
        {
            used.remove(&oldest);
        }
        order.insert(now, object);
    }
    hits
}

/// S3-FIFO as its authors describe it: small queue 10 %, ghosts as many as the main queue, promotion from two hits on.
fn s3_fifo(trace: &[u32], capacity: usize) -> usize {
    let small_share = (capacity / 10).max(1);
    let main_share = capacity - small_share;
    let mut hits_of: HashMap<u32, u8> = HashMap::new();
    let (mut small, mut main, mut ghosts) = (VecDeque::new(), VecDeque::new(), VecDeque::new());
    let mut is_ghost = HashSet::new();
    let mut hits = 0;
    for &object in trace {
        if let Some(count) = hits_of.get_mut(&object) {
            hits += 1;
            *count = (*count + 1).min(3);
            continue;
        }
        while small.len() + main.len() >= capacity {
            if small.len() >= small_share {
                let oldest: u32 = small.pop_front().expect("a small queue");
                if hits_of[&oldest] > 1 {
                    hits_of.insert(oldest, 0);
                    main.push_back(oldest);
                } else {
                    hits_of.remove(&oldest);
                    ghosts.push_back(oldest);
                    is_ghost.insert(oldest);
                    if ghosts.len() > main_share {
                        let forgotten = ghosts.pop_front().expect("a ghost");
                        is_ghost.remove(&forgotten);
                    }
                }
                continue;
            }
            let oldest: u32 = main.pop_front().expect("a main queue");
            match hits_of[&oldest] {
                0 => drop(hits_of.remove(&oldest)),
                count => {
                    hits_of.insert(oldest, count - 1);
                    main.push_back(oldest);
                }
            }
        }
        hits_of.insert(object, 0);
        if is_ghost.contains(&object) { main.push_back(object) } else { small.push_back(object) }
    }
    hits
}
