//! Finding hot keys at 2,000,000 hits a second over 1,000,000 keys, of which 200 are planted around 5,000/s: precision, recall,
//! delay, and what a recorded hit costs. Time is simulated, so that the machine's speed does not matter to what is found.
//!
//! ```text
//! cargo run --release -p keylane-core --example hot-keys [-- SETS]
//! ```
//! Hits come at random (each key's are a Poisson process). The planted keys have rates from 4,000 to 5,990/s, 10 apart, and begin
//! one after the other within the second second, at any moment of a window. Some of the others follow Zipf's law in the second
//! traffic, so that the hottest of them count as hot too. A key is reported once its lower bound has reached 4,750/s; wrong are
//! reports of keys below 4,500/s, missed are keys of 5,000/s and more that are not reported 1.1 s after they began.

use keylane_core::hash::hash64;
use keylane_core::hits::{Hits, Layout, NAME_BYTES, Options, Recorder, SLOT_US};
use keylane_core::region::Memory;
use std::collections::HashMap;
use std::time::{Duration, Instant};

const KEYS: usize = 1_000_000;
const PLANTED: usize = 200;
const PER_WINDOW: usize = 200_000;
const BATCH: usize = 256;
/// Windows: one second without the planted keys, ten with them (after they all began), two without.
const BEGIN: usize = 10;
const END: usize = 120;
const WINDOWS: usize = 140;
const REPORT: u64 = 4_750;
const LENGTH: usize = 25;

fn main() {
    let sets = std::env::args().nth(1).map_or(1024, |text| text.parse().expect("a number of sets"));
    let keys: Vec<[u8; LENGTH]> = (0..KEYS).map(key).collect();
    let options = Options { max_threads: 16, sets, ..Options::default() };
    let layout = Layout::new(options).expect("options");
    println!(
        "{sets} sets, {} KiB a thread, {} names of {NAME_BYTES} bytes at least",
        layout.seat_bytes() >> 10,
        layout.names()
    );
    for (name, exponent) in [("uniform", 0.0), ("zipf 0.9", 0.9)] {
        for threads in [1, 4, 16] {
            println!("-- others {name}, {threads} threads");
            run(&keys, &Traffic::new(exponent), threads, options);
        }
    }
}

fn key(id: usize) -> [u8; LENGTH] {
    format!("up:user_{id:010}:profil").into_bytes().try_into().expect("25 bytes")
}

/// xorshift64*, so that every run is the same.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    fn below(&mut self, bound: usize) -> usize {
        ((u128::from(self.next()) * bound as u128) >> 64) as usize
    }

    fn unit(&mut self) -> f64 {
        (self.next() >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// Rates of all keys, and a way to draw one by them in O(1) (Walker's alias method). The planted keys come first.
struct Traffic {
    rates: Vec<f64>,
    begins: Vec<f64>,
    keep: Vec<f64>,
    alias: Vec<u32>,
}

impl Traffic {
    fn new(exponent: f64) -> Self {
        let total = (PER_WINDOW * 10) as f64;
        let mut rates: Vec<f64> = (0..PLANTED).map(|at| 4_000.0 + 10.0 * at as f64).collect();
        let planted: f64 = rates.iter().sum();
        let shares: Vec<f64> = (1..=KEYS - PLANTED).map(|rank| (rank as f64).powf(-exponent)).collect();
        let sum: f64 = shares.iter().sum();
        rates.extend(shares.iter().map(|share| (total - planted) * share / sum));
        let (mut keep, mut alias) =
            (rates.iter().map(|rate| rate * KEYS as f64 / total).collect::<Vec<f64>>(), vec![0; KEYS]);
        let (mut small, mut large): (Vec<usize>, Vec<usize>) = (0..KEYS).partition(|&id| keep[id] < 1.0);
        while let (Some(&less), Some(&more)) = (small.last(), large.last()) {
            small.pop();
            alias[less] = more as u32;
            keep[more] -= 1.0 - keep[less];
            if keep[more] < 1.0 {
                small.push(more);
                large.pop();
            }
        }
        small.iter().chain(&large).for_each(|&id| keep[id] = 1.0);
        // In an order of their own, so that a key's rate does not tell when it begins.
        let begins = (0..PLANTED).map(|at| BEGIN as f64 + 10.0 * (at * 77 % PLANTED) as f64 / PLANTED as f64).collect();
        Self { rates, begins, keep, alias }
    }

    /// A key that is hit at `at` windows; none where a planted one would be that is not on.
    fn draw(&self, random: &mut Random, at: f64) -> Option<usize> {
        let id = self.any(random);
        (id >= PLANTED || (self.begins[id] <= at && at < END as f64)).then_some(id)
    }

    fn any(&self, random: &mut Random) -> usize {
        let id = random.below(KEYS);
        if random.unit() < self.keep[id] { id } else { self.alias[id] as usize }
    }
}

/// What was seen of a key at the merges.
#[derive(Clone, Copy, Default)]
struct Seen {
    first: Option<usize>,
    last: usize,
    candidate: Option<usize>,
}

fn run(keys: &[[u8; LENGTH]], traffic: &Traffic, threads: usize, options: Options) {
    let memory = Memory::new(Layout::new(options).expect("options").bytes());
    let hits = Hits::create(memory.region(), options).expect("memory");
    let mut recorders: Vec<Recorder<'_>> = (0..threads).map(|_| hits.join().expect("a seat")).collect();
    let mut aggregator = hits.aggregate().expect("the aggregator's part");
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let mut seen: HashMap<u64, Seen> = HashMap::new();
    let (mut recording, mut merging, mut longest) = (Duration::ZERO, Duration::ZERO, Duration::ZERO);
    let (mut recorded, mut arrived) = (0, 0);
    let (mut widest, mut unseen, mut lost, mut followed) = (0, 0, 0, 0);
    aggregator.merge(0);
    let mut joined = Vec::with_capacity(BATCH * LENGTH);
    let lengths = vec![LENGTH as i32; BATCH];
    for window in 0..WINDOWS {
        for batch in 0..PER_WINDOW.div_ceil(BATCH) {
            let count = BATCH.min(PER_WINDOW - batch * BATCH);
            joined.clear();
            for place in 0..count {
                let at = window as f64 + (batch * BATCH + place) as f64 / PER_WINDOW as f64;
                if let Some(id) = traffic.draw(&mut random, at) {
                    joined.extend_from_slice(&keys[id]);
                }
            }
            let count = joined.len() / LENGTH;
            let recorder = &mut recorders[batch % threads];
            let start = Instant::now();
            assert!(recorder.begin().joined(&joined, &lengths[..count], None));
            recording += start.elapsed();
            recorded += count;
        }
        let start = Instant::now();
        let merged = aggregator.merge((window as u64 + 1) * SLOT_US);
        let took = start.elapsed();
        arrived += merged.hits as usize;
        (merging, longest, lost) = (merging + took, longest.max(took), lost + merged.lost);
        (unseen, followed) = (unseen.max(aggregator.unseen()), followed.max(aggregator.followed()));
        for hot in aggregator.top(1000, 2_000) {
            let entry = seen.entry(hot.hash).or_default();
            if hot.rate.upper >= 5_000 {
                entry.candidate.get_or_insert(window + 1);
            }
            if hot.rate.lower >= REPORT {
                entry.first.get_or_insert(window + 1);
                entry.last = window + 1;
                widest = widest.max(hot.rate.upper - hot.rate.lower);
            }
        }
    }
    assert_eq!(arrived, recorded);
    tell(keys, traffic, &seen);
    println!("bounds      at most {widest}/s apart for reported keys; any other key at most {unseen}/s");
    println!("followed    at most {followed} keys; {lost} names found no room");
    let per = |time: Duration, count: usize| time.as_nanos() as f64 / count as f64;
    println!("a hit       {:.1} ns (hash and count, in batches of {BATCH})", per(recording, recorded));
    println!("a merge     {:.0} us, the longest {} us", per(merging, WINDOWS) / 1000.0, longest.as_micros());
    println!("warm        {:.1} ns a hit", warm(keys, traffic, &mut recorders[0]));
}

/// Precision, recall and delays.
fn tell(keys: &[[u8; LENGTH]], traffic: &Traffic, seen: &HashMap<u64, Seen>) {
    let ids: HashMap<u64, usize> = keys.iter().enumerate().map(|(id, key)| (hash64(key), id)).collect();
    let reported: Vec<usize> =
        seen.iter().filter(|(_, seen)| seen.first.is_some()).map(|(hash, _)| ids[hash]).collect();
    let wrong = reported.iter().filter(|&&id| traffic.rates[id] < 4_500.0).count();
    let hot: Vec<usize> = (0..KEYS).filter(|&id| traffic.rates[id] >= 5_000.0).collect();
    let of = |id: usize| seen.get(&hash64(&keys[id])).copied().unwrap_or_default();
    let begin = |id: usize| traffic.begins.get(id).copied().unwrap_or(0.0);
    let delay = |first: usize, id: usize| (first as f64 - begin(id)) / 10.0;
    let delays: Vec<f64> = hot.iter().filter_map(|&id| Some(delay(of(id).first?, id))).collect();
    let in_time = delays.iter().filter(|&&delay| delay <= 1.1 + 1e-9).count();
    let candidates =
        hot.iter().filter(|&&id| of(id).candidate.is_some_and(|first| delay(first, id) <= 1.1 + 1e-9)).count();
    let below: Vec<f64> =
        (0..KEYS).map(|id| traffic.rates[id]).filter(|rate| (4_000.0..4_500.0).contains(rate)).collect();
    let (slowest, mean) =
        (delays.iter().fold(0.0, |a: f64, &b| a.max(b)), delays.iter().sum::<f64>() / delays.len() as f64);
    println!("hot keys    {} at 5,000/s or more, {} at 4,000 to 4,500/s", hot.len(), below.len());
    println!(
        "reported    {}, of which {wrong} below 4,500/s: precision {:.4}",
        reported.len(),
        1.0 - wrong as f64 / reported.len() as f64
    );
    println!(
        "recall      {:.4} within 1.1 s ({in_time}); by the upper bound {candidates}",
        in_time as f64 / hot.len() as f64
    );
    println!("delay       mean {mean:.2} s, longest {slowest:.2} s");
    let planted = (0..PLANTED).filter(|&id| of(id).first.is_some());
    let let_go = planted.map(|id| of(id).last as f64 - END as f64).fold(0.0, |a: f64, b| a.max(b));
    println!("let go      at most {:.1} s after the last hit", (let_go + 1.0) / 10.0);
}

/// Nanoseconds a hit when the batches of a window are joined beforehand.
fn warm(keys: &[[u8; LENGTH]], traffic: &Traffic, recorder: &mut Recorder<'_>) -> f64 {
    let mut random = Random(7);
    let joined: Vec<u8> = (0..PER_WINDOW).flat_map(|_| keys[traffic.any(&mut random)]).collect();
    let lengths = vec![LENGTH as i32; BATCH];
    let mut best = f64::MAX;
    for _ in 0..9 {
        let start = Instant::now();
        for batch in joined.chunks(BATCH * LENGTH) {
            assert!(recorder.begin().joined(batch, &lengths[..batch.len() / LENGTH], None));
        }
        best = best.min(start.elapsed().as_nanos() as f64 / PER_WINDOW as f64);
    }
    best
}
