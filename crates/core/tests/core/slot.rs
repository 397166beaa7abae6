//! Slots against the bytewise model.

use crate::models;
use keylane_core::slot::{crc16, slot};
use proptest::prelude::*;

proptest! {
    #[test]
    fn any_bytes(key in prop::collection::vec(any::<u8>(), 0..300)) {
        prop_assert_eq!(crc16(&key), models::crc16(&key));
        prop_assert_eq!(slot(&key), models::slot(&key));
    }

    #[test]
    fn r2_keys_full_of_braces(key in "[{}a]{0,24}") {
        prop_assert_eq!(slot(key.as_bytes()), models::slot(key.as_bytes()));
    }

    #[test]
    fn r4_a_view_hashes_only_its_own_bytes(bytes in prop::collection::vec(any::<u8>(), 9..64), from in 0usize..8) {
        let own = bytes[from..].to_vec();
        prop_assert_eq!(slot(&bytes[from..]), slot(&own));
    }
}

#[test]
fn every_length_around_the_word_size() {
    let key: Vec<u8> = (0..64u8).map(|byte| byte.wrapping_mul(37) | 0x80).collect();
    for from in 0..8 {
        for to in from..key.len() {
            assert_eq!(slot(&key[from..to]), models::slot(&key[from..to]), "{from}..{to}");
        }
    }
}
