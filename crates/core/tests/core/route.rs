//! Routes against prefix comparison, and fallbacks against their definitions.

use crate::models;
use keylane_core::hash::hash64;
use keylane_core::route::{DOMAIN_NONE, Fallback, Router};
use proptest::prelude::*;

proptest! {
    #[test]
    fn r5_the_longest_prefix_whatever_the_order(
        set in prop::collection::hash_set("[ab:]{0,5}", 0..12),
        keys in prop::collection::vec("[ab:c]{0,8}", 1..40),
        turn in 0usize..12,
    ) {
        let mut prefixes: Vec<Vec<u8>> = set.into_iter().map(String::into_bytes).collect();
        let turn = turn % prefixes.len().max(1);
        prefixes.rotate_left(turn);
        let pairs: Vec<(&[u8], u16)> = prefixes.iter().zip(0..).map(|(prefix, at)| (prefix.as_slice(), at)).collect();
        let router = Router::new(&pairs, &Fallback::Reject).unwrap();
        for key in keys {
            let expected = models::matched(&prefixes, key.as_bytes());
            let route = router.route(key.as_bytes());
            prop_assert_eq!(route.prefix, expected);
            prop_assert_eq!(route.domain, expected.map_or(DOMAIN_NONE, |index| index as u16));
            prop_assert_eq!(route.slot, models::slot(key.as_bytes()));
        }
    }

    #[test]
    fn the_hash_fallback_is_rendezvous_over_slots(key in prop::collection::vec(any::<u8>(), 0..40)) {
        let names = ["user_profile", "freq_control", "realtime_billing"];
        let candidates = names.iter().zip([7, 3, 9]).map(|(name, domain)| (domain, (*name).to_owned())).collect();
        let router = Router::new(&[], &Fallback::Hash(candidates)).unwrap();
        let slot = models::slot(&key);
        let score = |name: &str| hash64(&[name.as_bytes(), b"\0", &slot.to_le_bytes()].concat());
        let best = (0..3).max_by_key(|&at| (score(names[at]), 3 - at)).unwrap();
        prop_assert_eq!(router.route(&key).domain, [7, 3, 9][best]);
    }
}

#[test]
fn equal_names_go_to_the_earlier_one() {
    let twins = Fallback::Hash(vec![(4, "twin".to_owned()), (5, "twin".to_owned())]);
    let router = Router::new(&[], &twins).unwrap();
    assert!((0..1000u32).all(|key| router.route(&key.to_le_bytes()).domain == 4));
}
