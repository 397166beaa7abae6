//! A record of the arena: one cached key with its value. Immutable once a way of the index points at it, but for its expiry,
//! which may be brought forward, and the word that elects refreshers. Both are written under the lock of the key's group.
//!
//! ```text
//! word 0   upper half of the key's hash            1   expiry, ms of the region's clock
//! word 2   when the next refresher is elected, ms  3   value length | key length << 20, in bytes
//! word 4   feeder | domain << 16 | flags << 26
//! word 5…  key, padded with zeros to a word; value, padded likewise
//! ```
//! Payload moves as relaxed 32-bit atomics, so a reader that races with the recycling of its segment reads stale or mixed
//! words, which is defined, and finds out by the segment's generation.

use crate::sync::{AtomicU32, Ordering::Relaxed};

/// Words before the key.
pub const HEADER: usize = 5;
/// Longest value that a record can describe, in bytes.
pub const MAX_VALUE: usize = (1 << 20) - 1;
/// Longest key that a record can describe, in bytes.
pub const MAX_KEY: usize = (1 << 12) - 1;
/// Domains that a record can tell apart: 0 to 1,023.
pub const DOMAINS: u16 = 1 << 10;

/// Word of a record: expiry.
pub const EXPIRY: usize = 1;
/// Word of a record: next election of a refresher.
pub const REFRESH: usize = 2;
const LENGTHS: usize = 3;
const ORIGIN: usize = 4;

const KEY_SHIFT: u32 = 20;
const DOMAIN_SHIFT: u32 = 16;
const FLAG_ABSENT: u32 = 1 << 26;

/// What a record says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    /// Upper half of the key's hash.
    pub hash: u32,
    /// From this ms of the clock on the value is expired.
    pub expiry: u32,
    /// From this ms on a reader is elected to refresh.
    pub refresh: u32,
    /// Bytes of the key.
    pub key_len: usize,
    /// Bytes of the value.
    pub value_len: usize,
    /// The connection that this value depends on.
    pub feeder: u16,
    /// Domain of the key, below [`DOMAINS`].
    pub domain: u16,
    /// The key is known not to exist.
    pub absent: bool,
}

/// Words of a record.
#[inline(always)]
#[must_use]
pub const fn words(key_len: usize, value_len: usize) -> usize {
    HEADER + key_len.div_ceil(4) + value_len.div_ceil(4)
}

impl Head {
    /// Words of the record.
    #[inline(always)]
    #[must_use]
    pub fn words(&self) -> usize {
        words(self.key_len, self.value_len)
    }

    /// Reads the header of the record that begins `record`, which has at least [`HEADER`] words.
    #[inline(always)]
    #[must_use]
    pub fn read(record: &[AtomicU32]) -> Self {
        let word = |at: usize| record[at].load(Relaxed);
        let (lengths, origin) = (word(LENGTHS), word(ORIGIN));
        Self {
            hash: word(0),
            expiry: word(EXPIRY),
            refresh: word(REFRESH),
            key_len: (lengths >> KEY_SHIFT) as usize,
            value_len: lengths as usize & MAX_VALUE,
            feeder: origin as u16,
            domain: (origin >> DOMAIN_SHIFT) as u16 & (DOMAINS - 1),
            absent: origin & FLAG_ABSENT != 0,
        }
    }

    /// Writes header, key and value to `record`, which has [`Head::words`] words.
    pub fn write(&self, record: &[AtomicU32], key: &[u8], value: &[u8]) {
        let lengths = (self.key_len as u32) << KEY_SHIFT | self.value_len as u32;
        let origin =
            u32::from(self.feeder) | u32::from(self.domain) << DOMAIN_SHIFT | if self.absent { FLAG_ABSENT } else { 0 };
        let (head, payload) = record.split_at(HEADER);
        for (at, word) in [self.hash, self.expiry, self.refresh, lengths, origin].into_iter().enumerate() {
            head[at].store(word, Relaxed);
        }
        let (keys, values) = payload.split_at(self.key_len.div_ceil(4));
        put(keys, key);
        put(values, value);
    }

    /// Whether the key of the record is `key`.
    #[inline(always)]
    #[must_use]
    pub fn is_key(&self, record: &[AtomicU32], key: &[u8]) -> bool {
        self.key_len == key.len() && record.get(HEADER..).is_some_and(|payload| starts_with(payload, key))
    }

    /// The words of the value, or `None` when the lengths reach past `record`.
    #[inline(always)]
    #[must_use]
    pub fn value<'r>(&self, record: &'r [AtomicU32]) -> Option<&'r [AtomicU32]> {
        record.get(HEADER + self.key_len.div_ceil(4)..)?.get(..self.value_len.div_ceil(4))
    }
}

/// Whether the bytes that begin in `words` begin with `bytes`.
#[inline(always)]
#[must_use]
pub fn starts_with(words: &[AtomicU32], bytes: &[u8]) -> bool {
    let (chunks, tail) = bytes.as_chunks::<4>();
    if words.len() < chunks.len() + usize::from(!tail.is_empty()) {
        return false;
    }
    let same = |(word, chunk): (&AtomicU32, &[u8; 4])| word.load(Relaxed) == u32::from_le_bytes(*chunk);
    if !words.iter().zip(chunks).all(same) {
        return false;
    }
    tail.is_empty() || words[chunks.len()].load(Relaxed).to_le_bytes()[..tail.len()] == *tail
}

/// Writes `bytes` to `words`, the last word padded with zeros. `words` holds just them.
fn put(words: &[AtomicU32], bytes: &[u8]) {
    let (chunks, tail) = bytes.as_chunks::<4>();
    for (word, chunk) in words.iter().zip(chunks) {
        word.store(u32::from_le_bytes(*chunk), Relaxed);
    }
    if let Some(last) = words.get(chunks.len()).filter(|_| !tail.is_empty()) {
        let mut padded = [0; 4];
        padded[..tail.len()].copy_from_slice(tail);
        last.store(u32::from_le_bytes(padded), Relaxed);
    }
}

/// Copies bytes from `words` to all of `bytes`, as far as `words` reach. True when one of them is 0x80 or more.
#[inline(always)]
pub fn take(words: &[AtomicU32], bytes: &mut [u8]) -> bool {
    let mut seen = 0;
    let (chunks, tail) = bytes.as_chunks_mut::<4>();
    for (chunk, word) in chunks.iter_mut().zip(words) {
        let word = word.load(Relaxed);
        seen |= word;
        *chunk = word.to_le_bytes();
    }
    if let Some(last) = words.get(chunks.len()).filter(|_| !tail.is_empty()) {
        let word = last.load(Relaxed).to_le_bytes();
        tail.copy_from_slice(&word[..tail.len()]);
        // What pads the last word is 0.
        seen |= u32::from_le_bytes(word);
    }
    seen & 0x8080_8080 != 0
}

/// Copies the words of a whole record.
pub fn copy(from: &[AtomicU32], to: &[AtomicU32]) {
    for (from, to) in from.iter().zip(to) {
        to.store(from.load(Relaxed), Relaxed);
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Head, put, starts_with, take, words};
    use crate::region::Memory;

    #[test]
    fn a_record_reads_back_whatever_its_lengths_are() {
        for (key_len, value_len) in [(0, 0), (1, 0), (0, 1), (3, 5), (25, 32), (4095, 1), (4, (1 << 20) - 1)] {
            let memory = Memory::new(4 * words(key_len, value_len) + 64);
            let record = memory.region().slice(0, words(key_len, value_len)).unwrap();
            let (key, value) = (vec![b'k'; key_len], vec![0xfe; value_len]);
            let head = Head {
                hash: u32::MAX,
                expiry: 7,
                refresh: 5,
                key_len,
                value_len,
                feeder: u16::MAX,
                domain: 1023,
                absent: key_len == 1,
            };
            head.write(record, &key, &value);
            assert_eq!(Head::read(record), head);
            assert!(head.is_key(record, &key));
            let mut out = vec![0; value_len];
            assert_eq!(take(head.value(record).unwrap(), &mut out), value_len > 0);
            assert_eq!(out, value);
        }
    }

    #[test]
    fn a_prefix_that_reaches_past_the_words_is_none() {
        let memory = Memory::new(128);
        let words = memory.region().slice(0, 2).unwrap();
        put(words, b"abcdefg");
        assert!(starts_with(words, b""));
        assert!(starts_with(words, b"abcde"));
        assert!(!starts_with(words, b"abcdx"));
        assert!(!starts_with(words, b"abcdefgh"));
        assert!(!starts_with(words, b"abcdefg\0\0"));
    }
}
