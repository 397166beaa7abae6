//! The fast ways against the naive ones, over 25-byte keys as ad servers have them; every value is asserted before it is
//! timed. Figures are per batch of 256: divide.

#[allow(dead_code, reason = "the models serve the tests too")]
#[path = "../tests/core/models.rs"]
mod models;

use criterion::{BatchSize, Criterion, Throughput, criterion_group, criterion_main};
use keylane_core::hash::hash64;
use keylane_core::resp::encode::{Encoder, Tables};
use keylane_core::resp::scan::{Limits, Scanner};
use keylane_core::route::{Fallback, Router};
use keylane_core::slot::slot;
use models::Operation;
use std::hint::black_box;
use std::sync::atomic::AtomicI32;

const BATCH: usize = 256;
const LIMITS: Limits = Limits { max_bulk: 1 << 29, max_rows: 1 << 20, max_depth: 32, max_line: 1 << 16 };

fn keys(tagged: bool) -> Vec<Vec<u8>> {
    let key =
        |id: usize| if tagged { format!("up:{{user_{id:010}}}:prof") } else { format!("up:user_{id:010}:profil") };
    let keys: Vec<Vec<u8>> = (0..BATCH).map(|at| key(at * 7_919_477).into_bytes()).collect();
    assert!(keys.iter().all(|key| key.len() == 25));
    keys
}

fn slots(c: &mut Criterion) {
    let mut group = c.benchmark_group("slot");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, keys) in [("plain", keys(false)), ("tagged", keys(true))] {
        assert!(keys.iter().all(|key| slot(key) == models::slot(key)));
        group.bench_function(format!("{name}/fast"), |b| {
            b.iter(|| keys.iter().map(|key| u32::from(slot(black_box(key)))).sum::<u32>())
        });
        group.bench_function(format!("{name}/naive"), |b| {
            b.iter(|| keys.iter().map(|key| u32::from(models::slot(black_box(key)))).sum::<u32>());
        });
    }
    let keys = keys(false);
    assert_eq!(hash64(b"abc"), 0x78af_5f94_892f_3950);
    group.bench_function("hash64", |b| b.iter(|| keys.iter().map(|key| hash64(black_box(key))).fold(0, |a, b| a ^ b)));
    group.finish();
}

fn routes(c: &mut Criterion) {
    let mut group = c.benchmark_group("route");
    group.throughput(Throughput::Elements(BATCH as u64));
    for count in [3, 30, 300] {
        let prefixes: Vec<Vec<u8>> = (0..count).map(|at| format!("d{at}:").into_bytes()).collect();
        let pairs: Vec<(&[u8], u16)> = prefixes.iter().zip(0..).map(|(prefix, at)| (prefix.as_slice(), at)).collect();
        let router = Router::new(&pairs, &Fallback::Reject).expect("distinct prefixes");
        let keys: Vec<Vec<u8>> = (0..BATCH).map(|at| format!("d{}:user_{at:018}", at % count).into_bytes()).collect();
        assert!(keys.iter().all(|key| router.matched(key) == models::matched(&prefixes, key)));
        group.bench_function(format!("{count} prefixes/fast"), |b| {
            b.iter(|| keys.iter().map(|key| u32::from(router.route(black_box(key)).domain)).sum::<u32>());
        });
        group.bench_function(format!("{count} prefixes/naive"), |b| {
            b.iter(|| keys.iter().filter_map(|key| models::matched(black_box(&prefixes), key)).sum::<u32>());
        });
    }
    group.finish();
}

fn frames(c: &mut Criterion) {
    let operations: Vec<Operation> = keys(false)
        .into_iter()
        .map(|key| Operation { opcode: 1, flags: 0, key: Some(0), arguments: vec![key] })
        .collect();
    let nodes: Vec<i32> = (0..16_384).map(|slot| slot % 3).collect();
    let slots: Vec<AtomicI32> = nodes.iter().copied().map(AtomicI32::new).collect();
    let held: Vec<AtomicI32> = (0..512).map(|_| AtomicI32::new(0)).collect();
    let alias: Vec<AtomicI32> = (0..3).map(AtomicI32::new).collect();
    let tables = Tables { slots: &slots, held: &held, alias: &alias };
    let (scratch, desc) = models::describe(&operations);
    let (runs, _) = models::partition(&operations, &nodes, &[], &[0, 1, 2]);
    let expected: Vec<u8> = runs.into_iter().flat_map(|run| run.1).collect();
    let mut out = vec![0; expected.len()];
    let (mut place, mut sections) = ([0; BATCH], [0; 12]);
    let mut encoder = Encoder::default();
    let mut encode = |out: &mut [u8]| encoder.encode(&scratch, &desc, BATCH, &tables, out, &mut place, &mut sections);
    assert_eq!(encode(&mut out), Ok(expected.len() as i32));
    assert_eq!(out, expected);

    let mut group = c.benchmark_group("encode GET");
    group.throughput(Throughput::Elements(BATCH as u64));
    group.bench_function("fast", |b| b.iter(|| encode(black_box(&mut out))));
    group.bench_function("naive", |b| b.iter(|| models::partition(black_box(&operations), &nodes, &[], &[0, 1, 2])));
    group.finish();
}

fn replies(c: &mut Criterion) {
    let profile = [b"$64\r\n".as_slice(), &[b'v'; 64], b"\r\n"].concat();
    let streams: [(&str, Vec<u8>); 6] = [
        ("bulk of 5", b"$5\r\nvalue\r\n".repeat(BATCH)),
        ("bulk of 64", profile.repeat(BATCH)),
        ("null", b"$-1\r\n".repeat(BATCH)),
        ("integer", b":1234\r\n".repeat(BATCH)),
        ("status", b"+OK\r\n".repeat(BATCH)),
        ("array of 4", b"*4\r\n$5\r\nfield\r\n$5\r\nvalue\r\n:1\r\n$-1\r\n".repeat(BATCH)),
    ];
    let mut group = c.benchmark_group("scan");
    group.throughput(Throughput::Elements(BATCH as u64));
    for (name, stream) in streams {
        let mut words = vec![0; 8 + BATCH * 5 * 3];
        let mut scanner = Scanner::new(LIMITS);
        assert_eq!(scanner.scan(&stream, 0, stream.len(), &mut words), Ok(BATCH as i32));
        let rows: Vec<i32> = models::replies(&stream, &LIMITS).replies.concat().concat();
        assert_eq!(words[8..8 + rows.len()], rows);
        group.bench_function(format!("{name}/fast"), |b| {
            b.iter(|| scanner.scan(black_box(&stream), 0, stream.len(), &mut words))
        });
        group.bench_function(format!("{name}/naive"), |b| {
            b.iter_batched(|| (), |()| models::replies(black_box(&stream), &LIMITS), BatchSize::SmallInput);
        });
    }
    group.finish();
}

criterion_group! {
    name = core;
    config = Criterion::default().sample_size(20).warm_up_time(std::time::Duration::from_millis(300)).measurement_time(std::time::Duration::from_millis(1000));
    targets = slots, routes, frames, replies
}
criterion_main!(core);
