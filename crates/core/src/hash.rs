//! The one hash of keylane: xxh3-64 with seed 0, over bytes. Equal bytes hash equally in every process and on every
//! platform, so a hash may be stored and sent.

use xxhash_rust::xxh3::xxh3_64;

/// What xxh3 mixes the first and the last 16 bytes with, word by word: the first 32 bytes of its secret.
const SECRET: [u64; 4] = [0xbe4b_a423_396c_feb8, 0x1cad_21f7_2c81_017c, 0xdb97_9083_e96d_d4de, 0x1f67_b3b7_a4a4_4072];

/// xxh3-64 (seed 0) of `bytes`.
#[inline(always)]
#[must_use]
pub fn hash64(bytes: &[u8]) -> u64 {
    // Most keys are that long.
    if let 17..=32 = bytes.len()
        && let (Some(first), Some(last)) = (bytes.first_chunk(), bytes.last_chunk())
    {
        return of_two(bytes.len() as u64, first, last);
    }
    of_any(bytes)
}

#[cold]
#[inline(never)]
fn of_any(bytes: &[u8]) -> u64 {
    xxh3_64(bytes)
}

/// Of 17 to 32 bytes, told by the first and the last 16.
#[inline(always)]
fn of_two(length: u64, first: &[u8; 16], last: &[u8; 16]) -> u64 {
    let word = |bytes: &[u8; 16], at: usize| (u128::from_le_bytes(*bytes) >> (64 * at)) as u64;
    let mix = |bytes: &[u8; 16], at: usize| {
        let (low, high) = (word(bytes, 0) ^ SECRET[at], word(bytes, 1) ^ SECRET[at + 1]);
        let product = u128::from(low) * u128::from(high);
        product as u64 ^ (product >> 64) as u64
    };
    let sum = length.wrapping_mul(0x9e37_79b1_85eb_ca87).wrapping_add(mix(first, 0)).wrapping_add(mix(last, 2));
    let mixed = (sum ^ sum >> 37).wrapping_mul(0x1656_6791_9e37_79f9);
    mixed ^ mixed >> 32
}

#[cfg(test)]
mod tests {
    use super::hash64;
    use xxhash_rust::xxh3::xxh3_64;

    #[test]
    fn reference_values() {
        // From the reference implementation's published vectors (XXH3_64bits, seed 0).
        assert_eq!(hash64(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(hash64(b"a"), 0xe6c6_32b6_1e96_4e1f);
        assert_eq!(hash64(b"abc"), 0x78af_5f94_892f_3950);
    }

    #[test]
    fn every_length_hashes_as_xxh3_does() {
        let bytes: Vec<u8> = (0..400_u32).map(|at| (at.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
        for length in 0..300 {
            for from in [0, 1, 50, 100] {
                let key = &bytes[from..from + length];
                assert_eq!(hash64(key), xxh3_64(key), "{length} bytes");
            }
        }
    }
}
