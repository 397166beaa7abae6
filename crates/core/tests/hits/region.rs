//! The memory: how large it is, who may lay it out, attach and sit down.

use crate::support::{create, memory};
use keylane_core::cache::RegionError;
use keylane_core::hits::{Hits, Layout, Options};
use keylane_core::layout::LayoutError;
use keylane_core::region::Memory;

const SMALL: Options = Options { max_threads: 2, sets: 8, name_bytes: 256, cells: 4 };

#[test]
fn a_thread_takes_384_kib_and_its_counters_by_default() {
    let layout = Layout::new(Options::default()).unwrap();
    let windows = 2 * (1024 * 128 + (64 << 10));
    assert_eq!(layout.seat_bytes(), windows + 256 * 8 + 3 * 64);
    assert_eq!(layout.bytes(), 64 * layout.seat_bytes() + 2 * 64);
    assert_eq!(layout.names(), 244);
}

#[test]
fn seats_are_taken_once_and_given_back() {
    let memory = memory(SMALL);
    let hits = create(&memory, SMALL);
    let attached = Hits::attach(memory.region()).unwrap();
    assert_eq!(attached.layout(), hits.layout());
    let one = hits.join().unwrap();
    let two = attached.join().unwrap();
    assert_eq!((one.seat(), two.seat()), (0, 1));
    assert_eq!(hits.join().err(), Some(RegionError::Full));
    drop(one);
    assert_eq!(attached.join().unwrap().seat(), 0);
}

#[test]
fn memory_that_is_too_small_in_use_or_of_another_kind_is_refused() {
    let memory = memory(SMALL);
    let bytes = Layout::new(SMALL).unwrap().bytes();
    let small = Memory::new(bytes - 128);
    assert_eq!(Hits::create(small.region(), SMALL).err(), Some(RegionError::Layout(LayoutError::TooSmall { bytes })));
    assert_eq!(Hits::attach(memory.region()).err(), Some(RegionError::Foreign));
    assert_eq!(Hits::attach(Memory::new(4).region()).err(), Some(RegionError::Foreign));
    create(&memory, SMALL);
    assert_eq!(Hits::create(memory.region(), SMALL).err(), Some(RegionError::Made));
    memory.region().set(1, 3);
    assert_eq!(Hits::attach(memory.region()).err(), Some(RegionError::Version { theirs: 3, ours: 2 }));
    memory.region().set(1, 2);
    // Options that claim more than there is.
    memory.region().set(4, 200);
    assert!(matches!(Hits::attach(memory.region()), Err(RegionError::Layout(LayoutError::TooSmall { .. }))));
}

#[test]
fn options_out_of_range_are_refused() {
    let refused = |options| Hits::create(Memory::new(64).region(), options).err();
    let bad = |name| Some(RegionError::Layout(LayoutError::BadOption(name)));
    assert_eq!(refused(Options { max_threads: 0, ..SMALL }), bad("max_threads"));
    assert_eq!(refused(Options { max_threads: 255, ..SMALL }), bad("max_threads"));
    assert_eq!(refused(Options { sets: 0, ..SMALL }), bad("sets"));
    assert_eq!(refused(Options { sets: 65_537, ..SMALL }), bad("sets"));
    assert_eq!(refused(Options { name_bytes: (1 << 20) + 1, ..SMALL }), bad("name_bytes"));
    assert_eq!(refused(Options { cells: 65_537, ..SMALL }), bad("cells"));
    let large = Options { max_threads: 254, sets: 65_536, name_bytes: 1 << 20, cells: 0 };
    assert_eq!(refused(large), Some(RegionError::Layout(LayoutError::TooLarge)));
}
