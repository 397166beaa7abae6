//! Regions that are refused, and threads that come and go.

use crate::support::{SMALL, get, store};
use keylane_core::cache::{Cache, RegionError};
use keylane_core::layout::{Layout, LayoutError, MAGIC, Options, VERSION, header};
use keylane_core::region::Memory;

#[test]
fn a_region_too_small_says_what_would_do() {
    for bytes in [0, 4, 64, 1000, 20_000] {
        let memory = Memory::new(bytes);
        let Err(RegionError::Layout(LayoutError::TooSmall { bytes: enough })) = Cache::create(memory.region(), SMALL)
        else {
            panic!("{bytes} bytes were enough");
        };
        let memory = Memory::new(enough);
        let cache = Cache::create(memory.region(), SMALL).unwrap();
        let session = cache.join().unwrap();
        store(&session, b"key", b"value");
        assert_eq!(get(&session, b"key"), Some(b"value".to_vec()));
    }
}

#[test]
fn options_out_of_range_are_refused_by_name() {
    let wrong = [
        ("max_value_bytes", Options { max_value_bytes: 1 << 20, ..SMALL }),
        ("max_key_bytes", Options { max_key_bytes: 4096, ..SMALL }),
        ("max_threads", Options { max_threads: 255, ..SMALL }),
        ("small_percent", Options { small_percent: 0, ..SMALL }),
        ("entry_bytes", Options { entry_bytes: 0, ..SMALL }),
    ];
    for (name, options) in wrong {
        assert_eq!(Layout::new(1 << 20, options), Err(LayoutError::BadOption(name)));
    }
}

#[test]
fn attaching_sees_the_same_cache() {
    let memory = Memory::new(1 << 20);
    let made = Cache::create(memory.region(), SMALL).unwrap();
    let attached = Cache::attach(memory.region()).unwrap();
    assert_eq!(made.layout(), attached.layout());
    store(&made.join().unwrap(), b"key", b"value");
    assert_eq!(get(&attached.join().unwrap(), b"key"), Some(b"value".to_vec()));
    assert_eq!(Cache::create(memory.region(), SMALL).err(), Some(RegionError::Made));
}

#[test]
fn a_foreign_or_differing_region_is_refused() {
    let blank = Memory::new(1 << 20);
    assert_eq!(Cache::attach(blank.region()).err(), Some(RegionError::Foreign));
    assert_eq!(Cache::attach(Memory::new(16).region()).err(), Some(RegionError::Foreign));
    let memory = Memory::new(1 << 20);
    Cache::create(memory.region(), SMALL).unwrap();
    let refused = |word: usize, value: u32| {
        let before = memory.region().get(word);
        memory.region().set(word, value);
        let error = Cache::attach(memory.region()).err();
        memory.region().set(word, before);
        error
    };
    assert_eq!(refused(header::MAGIC, MAGIC + 1), Some(RegionError::Foreign));
    assert_eq!(refused(header::STATE, 0), Some(RegionError::Foreign));
    let theirs = VERSION + 1;
    assert_eq!(refused(header::VERSION, theirs), Some(RegionError::Version { theirs, ours: VERSION }));
    assert_eq!(refused(header::DIGEST_LOW, 7), Some(RegionError::Digest));
    assert_eq!(refused(header::OPTIONS, 65), Some(RegionError::Digest));
    assert!(matches!(refused(header::OPTIONS, 0), Some(RegionError::Layout(_))));
    assert!(Cache::attach(memory.region()).is_ok());
}

#[test]
fn the_layout_has_no_overlap_and_ends_within_the_region() {
    for bytes in [64 << 10, 1 << 20, 3_333_333, 64 << 20, 700 << 20] {
        for options in [SMALL, Options::default(), Options { entry_bytes: 1000, shards: 8, ..Options::default() }] {
            let Ok(layout) = Layout::new(bytes / 4, options) else { continue };
            let sections = [
                layout.threads,
                layout.shards,
                layout.flights,
                layout.epochs,
                layout.ghost,
                layout.segments,
                layout.buckets,
                layout.proofs,
                layout.hits,
                layout.arena,
                layout.arena + layout.segment_count() * layout.segment_words,
            ];
            assert!(sections.is_sorted(), "{sections:?}");
            assert!(sections[..10].iter().all(|section| section % 16 == 0), "{sections:?}");
            assert!(sections[10] <= layout.words, "{layout:?}");
            // What is left over is less than the segments that one more step of each shard would take.
            let left = layout.words - sections[10];
            assert!(left < layout.shard_count * (layout.segment_words + 4) + 64, "{left} words left of {bytes} bytes");
        }
    }
}

#[test]
fn the_digest_tells_layouts_apart() {
    let digest = |words: usize, options: Options| Layout::new(words, options).unwrap().digest();
    let one = digest(1 << 20, SMALL);
    assert_eq!(one, digest(1 << 20, SMALL));
    assert_ne!(one, digest((1 << 20) + 4096, SMALL));
    assert_ne!(one, digest(1 << 20, Options { small_percent: 11, ..SMALL }));
}

#[test]
fn seats_are_limited_and_come_back() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    for _ in 0..50 {
        let sessions: Vec<_> = (0..8).map(|_| cache.join().unwrap()).collect();
        assert_eq!(cache.join().err(), Some(RegionError::Full));
        drop(sessions);
    }
    assert!(cache.join().is_ok());
}
