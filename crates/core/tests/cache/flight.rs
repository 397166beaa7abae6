//! Claims: one loader a key, whoever asks; the dead and the late are superseded.

use crate::support::SMALL;
use keylane_core::cache::Cache;
use keylane_core::flight::Claim;
use keylane_core::hash::hash64;
use keylane_core::region::Memory;
use std::sync::atomic::{AtomicU32, Ordering};

#[test]
fn l2_one_of_many_threads_is_elected_per_round() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let barrier = std::sync::Barrier::new(4);
    let elected = AtomicU32::new(0);
    const ROUNDS: u32 = 500;
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                let session = cache.join().unwrap();
                for round in 0..ROUNDS {
                    let hash = hash64(&round.to_le_bytes());
                    barrier.wait();
                    let mine: Vec<Claim> = (0..5).map(|_| session.claim(hash, 10_000)).collect();
                    elected.fetch_add(
                        mine.iter().filter(|claim| matches!(claim, Claim::Elected { .. })).count() as u32,
                        Ordering::Relaxed,
                    );
                    assert!(!mine.contains(&Claim::Crowded));
                    barrier.wait();
                    for claim in mine {
                        if let Claim::Elected { index, value } = claim {
                            assert!(cache.release(index, value));
                        }
                    }
                }
            });
        }
    });
    assert_eq!(elected.into_inner(), ROUNDS);
}

#[test]
fn l2_waiters_see_the_word_change_when_the_claim_ends_however_it_ends() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    let word = |index: usize| memory.region().get(index);
    for end in ["released", "dead", "late"] {
        let holder = cache.join().unwrap();
        let Claim::Elected { index, value } = holder.claim(7, 1000) else { panic!("not elected") };
        assert_eq!(session.claim(7, 1000), Claim::Wait { index, value });
        assert_eq!(word(index), value);
        match end {
            "released" => assert!(cache.release(index, value)),
            "dead" => drop(holder),
            _ => {
                cache.set_now(cache.now() + 999);
                assert_eq!(session.claim(7, 1000), Claim::Wait { index, value });
                cache.set_now(cache.now() + 64);
            }
        }
        let Claim::Elected { index: again, value: new } = session.claim(7, 1000) else { panic!("{end}: not elected") };
        assert_eq!(again, index);
        assert_ne!(word(index), value);
        assert!(!cache.release(index, value), "{end}: the old claim is over");
        assert!(cache.release(again, new));
        assert!(!cache.release(again, new));
    }
}

#[test]
fn different_keys_do_not_wait_for_each_other_and_a_full_set_does_not_block() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    let session = cache.join().unwrap();
    // All in one set: the set is chosen by bits 20 and up.
    let claims: Vec<Claim> = (0..8).map(|key| session.claim(key, 1000)).collect();
    assert!(claims[..7].iter().all(|claim| matches!(claim, Claim::Elected { .. })));
    assert_eq!(claims[7], Claim::Crowded);
    assert!(matches!(session.claim(3, 1000), Claim::Wait { .. }));
}

#[test]
fn a_release_of_what_is_no_claim_is_refused() {
    let memory = Memory::new(1 << 20);
    let cache = Cache::create(memory.region(), SMALL).unwrap();
    for index in [0, 16, cache.layout().flights, cache.layout().arena, usize::MAX] {
        assert!(!cache.release(index, 1));
    }
}
