//! Cluster slots: CRC16/XMODEM (polynomial 0x1021, initial value 0, most significant bit first) of a key's hash tag, or of
//! the whole key, modulo 16,384.
//!
//! The tag is what stands between the first `{` and the first `}` after it, when that is at least one byte; a later pair
//! does not count. Invariant: `slot` agrees with the servers' `CLUSTER KEYSLOT` for every byte string.
//!
//! Eight bytes a step ("slicing-by-8", Kounavis and Berry, 2005). Because the initial value is 0, zero bytes in front do not
//! change the sum, so the odd bytes are taken first, as one word padded with zeros, and no bytewise tail is left:
//!
//! ```text
//! key     b0 … b24              25 bytes
//! words   0 0 0 0 0 0 0 b0 | b1 … b8 | b9 … b16 | b17 … b24
//! step    crc, w0 … w7  ->  T7[w0] ^ T6[w1] ^ … ^ T0[w7] ^ T7[crc>>8] ^ T6[crc&255]
//! ```

/// Number of slots of a cluster.
pub const SLOTS: usize = 16_384;

const POLYNOMIAL: u16 = 0x1021;
const ONES: u64 = 0x0101_0101_0101_0101;
const TOPS: u64 = 0x8080_8080_8080_8080;

/// `TABLES[k][b]` is the CRC of byte `b` followed by `k` zero bytes.
static TABLES: [[u16; 256]; 8] = tables();

const fn tables() -> [[u16; 256]; 8] {
    let mut tables = [[0u16; 256]; 8];
    let mut byte = 0;
    while byte < 256 {
        let mut crc = (byte as u16) << 8;
        let mut bit = 0;
        while bit < 8 {
            crc = if crc & 0x8000 != 0 { (crc << 1) ^ POLYNOMIAL } else { crc << 1 };
            bit += 1;
        }
        tables[0][byte] = crc;
        byte += 1;
    }
    let mut zeros = 1;
    while zeros < 8 {
        let mut byte = 0;
        while byte < 256 {
            let crc = tables[zeros - 1][byte];
            tables[zeros][byte] = (crc << 8) ^ tables[0][(crc >> 8) as usize];
            byte += 1;
        }
        zeros += 1;
    }
    tables
}

/// The slot of `key`, 0 to 16,383. Linear in the key's length; one pass, unless the key may hold a tag.
#[inline]
#[must_use]
pub fn slot(key: &[u8]) -> u16 {
    let (head, words) = split(key);
    if may_hold_brace(head) {
        return tagged_slot(key);
    }
    let mut crc = start(head);
    for word in words {
        if may_hold_brace(u64::from_ne_bytes(*word)) {
            return tagged_slot(key);
        }
        crc = step(crc, word);
    }
    crc & (SLOTS as u16 - 1)
}

#[inline(never)]
fn tagged_slot(key: &[u8]) -> u16 {
    crc16(hash_tag(key)) & (SLOTS as u16 - 1)
}

/// CRC16/XMODEM of `bytes`.
#[inline]
#[must_use]
pub fn crc16(bytes: &[u8]) -> u16 {
    let (head, words) = split(bytes);
    words.iter().fold(start(head), step)
}

/// The part of `key` that decides its slot: its hash tag, or all of it.
#[inline]
#[must_use]
pub fn hash_tag(key: &[u8]) -> &[u8] {
    let Some(open) = find(key, b'{') else { return key };
    let inside = &key[open + 1..];
    match find(inside, b'}') {
        Some(close) if close > 0 => &inside[..close],
        _ => key,
    }
}

/// The first `len % 8` bytes as a big-endian word, and the rest in words of eight.
#[inline(always)]
fn split(bytes: &[u8]) -> (u64, &[[u8; 8]]) {
    let odd = bytes.len() % 8;
    let (head, words) = bytes.split_at(odd);
    let (words, _) = words.as_chunks::<8>();
    let word = match bytes.first_chunk::<8>() {
        _ if odd == 0 => 0,
        Some(first) => u64::from_be_bytes(*first) >> (64 - 8 * odd),
        None => head.iter().fold(0, |word, &byte| word << 8 | u64::from(byte)),
    };
    (word, words)
}

/// CRC of the odd bytes, of which there are often few.
#[inline(always)]
fn start(head: u64) -> u16 {
    if head < 1 << 16 {
        return TABLES[1][(head >> 8) as usize] ^ TABLES[0][(head & 0xff) as usize];
    }
    step(0, &head.to_be_bytes())
}

#[inline(always)]
fn step(crc: u16, word: &[u8; 8]) -> u16 {
    // A CRC is linear: what does not depend on the sum so far is summed apart, and overlaps the step before.
    let own = TABLES[7][word[0] as usize]
        ^ TABLES[6][word[1] as usize]
        ^ TABLES[5][word[2] as usize]
        ^ TABLES[4][word[3] as usize]
        ^ TABLES[3][word[4] as usize]
        ^ TABLES[2][word[5] as usize]
        ^ TABLES[1][word[6] as usize]
        ^ TABLES[0][word[7] as usize];
    own ^ TABLES[7][(crc >> 8) as usize] ^ TABLES[6][(crc & 0xff) as usize]
}

/// Whether a byte of `word` is `{`, or a few others: every byte from 0x7b to 0xfa sets its top bit when 5 is added, and a
/// carry from below only adds false alarms.
#[inline(always)]
fn may_hold_brace(word: u64) -> bool {
    word.wrapping_add(ONES * (0x80 - b'{' as u64)) & TOPS != 0
}

/// Top bits of the zero bytes of `word`; bits above the first (lowest) zero byte may be wrong, the first is right.
#[inline(always)]
fn zero_bytes(word: u64) -> u64 {
    word.wrapping_sub(ONES) & !word & TOPS
}

/// Position of the first `byte` in `bytes`.
#[inline]
fn find(bytes: &[u8], byte: u8) -> Option<usize> {
    let (words, tail) = bytes.as_chunks::<8>();
    for (index, word) in words.iter().enumerate() {
        let hits = zero_bytes(u64::from_le_bytes(*word) ^ (ONES * u64::from(byte)));
        if hits != 0 {
            return Some(index * 8 + hits.trailing_zeros() as usize / 8);
        }
    }
    tail.iter().position(|&other| other == byte).map(|at| words.len() * 8 + at)
}

#[cfg(test)]
mod tests {
    use super::{crc16, hash_tag, slot};

    #[test]
    fn check_value_of_the_catalogue() {
        assert_eq!(crc16(b"123456789"), 0x31c3);
    }

    #[test]
    fn r2_nested_and_unbalanced_braces() {
        let measured: [(&[u8], u16); 11] = [
            (b"foo{{bar}}zap", 4015),
            (b"foo{bar}{zap}", 5061),
            (b"A}B{C", 7939),
            (b"a}b{c}d", 7365),
            (b"abc{}", 16021),
            (b"{", 4092),
            (b"", 0),
            (b"a{'1':{'i32':1}}", 5540),
            (b"foo{}{bar}", 8363),
            (b"foo", 12182),
            (b"{foo}.following", 12182),
        ];
        for (key, expected) in measured {
            assert_eq!(slot(key), expected, "{}", String::from_utf8_lossy(key));
        }
        assert_eq!(hash_tag(b"foo{{bar}}zap"), b"{bar");
        assert_eq!(hash_tag(b"foo{bar}{zap}"), b"bar");
    }

    #[test]
    fn r4_binary_keys() {
        assert_eq!(slot(&[0x80]), 4488);
        assert_eq!(slot("\u{fffd}".as_bytes()), 13381);
        assert_eq!(slot(&[0xff, 0xfe, 0x00]), 16301);
        let within = [b'x', 0xff, 0xfe, 0x00, b'y'];
        assert_eq!(slot(&within[1..4]), 16301);
    }

    #[test]
    fn e6_keys_past_16_bits_of_length() {
        assert_eq!(slot(&[b'k'; 65_536]), 2589);
        assert_eq!(slot(&[b'k'; 70_000]), 6928);
    }
}
