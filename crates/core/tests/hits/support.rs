//! Summaries of a test's own, and keys by number.

use keylane_core::hash::hash64;
use keylane_core::hits::{Aggregator, Hits, Layout, Options, Recorder};
use keylane_core::region::Memory;

pub fn memory(options: Options) -> Memory {
    Memory::new(Layout::new(options).expect("options").bytes())
}

pub fn create(memory: &Memory, options: Options) -> Hits<'_> {
    Hits::create(memory.region(), options).expect("memory")
}

pub fn key(id: usize) -> Vec<u8> {
    format!("up:user_{id:010}:profile").into_bytes()
}

pub fn hash(id: usize) -> u64 {
    hash64(&key(id))
}

/// Records one batch of keys with weights.
pub fn record(recorder: &mut Recorder<'_>, hits: &[(usize, u32)]) {
    let mut batch = recorder.begin();
    for &(id, weight) in hits {
        batch.hit(&key(id), weight);
    }
}

/// Records one batch of keys that lie back to back.
pub fn record_joined(recorder: &mut Recorder<'_>, hits: &[(usize, u32)]) {
    let keys: Vec<Vec<u8>> = hits.iter().map(|&(id, _)| key(id)).collect();
    let lengths: Vec<i32> = keys.iter().map(|key| key.len() as i32).collect();
    let weights: Vec<i32> = hits.iter().map(|&(_, weight)| weight as i32).collect();
    assert!(recorder.begin().joined(&keys.concat(), &lengths, Some(&weights)));
}

/// Records one batch of keys that their thread has counted by itself, and gives those whose names are wanted.
pub fn record_counted(recorder: &mut Recorder<'_>, hits: &[(usize, u32)]) -> Vec<usize> {
    let mut counts: Vec<i32> = hits.iter().map(|&(_, weight)| weight as i32).collect();
    let halves = |hash: u64| [hash as i32, (hash >> 32) as i32];
    let hashes: Vec<[i32; 2]> = hits.iter().map(|&(id, _)| halves(hash(id))).collect();
    let mut wanted = vec![-1; hits.len()];
    let names = recorder.begin().counted(&mut counts, &hashes, 1, &mut wanted);
    assert!(counts.iter().all(|&count| count == 0));
    wanted[..names].iter().map(|&place| hits[place as usize].0).collect()
}

/// Tells the names of keys.
pub fn name(recorder: &mut Recorder<'_>, ids: &[usize]) {
    for &id in ids {
        recorder.begin().name(&key(id));
    }
}

/// The keys ranked, as text, with their lower and upper rates.
pub fn top(aggregator: &Aggregator<'_>, least: u64) -> Vec<(String, u64, u64)> {
    let text = |key: &[u8]| String::from_utf8_lossy(key).into_owned();
    aggregator.top(1000, least).iter().map(|hot| (text(hot.key), hot.rate.lower, hot.rate.upper)).collect()
}
