//! The one hash of keylane: xxh3-64 with seed 0, over bytes. Equal bytes hash equally in every process and on every
//! platform, so a hash may be stored and sent.

/// xxh3-64 (seed 0) of `bytes`.
#[inline]
#[must_use]
pub fn hash64(bytes: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64(bytes)
}

#[cfg(test)]
mod tests {
    use super::hash64;

    #[test]
    fn reference_values() {
        // From the reference implementation's published vectors (XXH3_64bits, seed 0).
        assert_eq!(hash64(b""), 0x2d06_8005_38d3_94c2);
        assert_eq!(hash64(b"a"), 0xe6c6_32b6_1e96_4e1f);
        assert_eq!(hash64(b"abc"), 0x78af_5f94_892f_3950);
    }
}
