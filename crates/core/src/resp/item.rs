//! The items that replies are mostly made of, read in one go when all their bytes are there: `$3\r\nfoo\r\n`, `$-1\r\n`,
//! `:7\r\n`, `+OK\r\n`, `*2\r\n`.
//!
//! Invariant: `quick` accepts a subset of what `read` accepts and reports it identically; whatever is long, cut off, rare or
//! wrong is `None`, and `read` takes the slow and exact way.

use super::kind;

const TOPS: u64 = 0x8080_8080_8080_8080;

/// Longest line `quick` accepts, type byte and CRLF not counted.
pub(super) const QUICK_LINE: u32 = 11;

/// An item read whole. An `ARRAY` has only its count read.
pub(super) struct Item {
    pub kind: i32,
    pub start: usize,
    pub length: i32,
    pub next: usize,
}

/// Reads the item at `at`, if it is one of the common ones and complete.
#[inline(always)]
pub(super) fn quick(buf: &[u8], at: usize, max_bulk: u32) -> Option<Item> {
    match buf.get(at)? {
        b'$' => match count(buf, at + 1) {
            Some((size, start)) if size <= max_bulk => {
                let end = start + size as usize;
                if buf.get(end..end + 2)? != b"\r\n" {
                    return None;
                }
                let high = if any_high(&buf[start..end]) { kind::HIGH } else { 0 };
                Some(Item { kind: kind::BULK | high, start, length: size as i32, next: end + 2 })
            }
            Some(_) => None,
            None if buf.get(at + 1..at + 5)? == b"-1\r\n" => {
                Some(Item { kind: kind::NULL, start: at + 1, length: 0, next: at + 5 })
            }
            None => None,
        },
        b':' => {
            let negative = *buf.get(at + 1)? == b'-';
            let (value, next) = count(buf, at + 1 + usize::from(negative))?;
            let value = if negative { -(value as i32) } else { value as i32 };
            Some(Item { kind: kind::INT32, start: at + 1, length: value, next })
        }
        b'+' if buf.get(at + 1..at + 5)? == b"OK\r\n" => {
            Some(Item { kind: kind::SIMPLE, start: at + 1, length: 2, next: at + 5 })
        }
        b'*' => {
            let (children, next) = count(buf, at + 1)?;
            Some(Item { kind: kind::ARRAY, start: at + 1, length: children as i32, next })
        }
        _ => None,
    }
}

/// One to nine digits and CRLF at `at`: their value, and the offset behind the CRLF.
#[inline(always)]
fn count(buf: &[u8], at: usize) -> Option<(u32, usize)> {
    let mut value = u32::from(buf.get(at)?.wrapping_sub(b'0'));
    if value > 9 {
        return None;
    }
    for end in at + 1..at + 10 {
        let byte = *buf.get(end)?;
        let digit = u32::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            return (byte == b'\r' && *buf.get(end + 1)? == b'\n').then_some((value, end + 2));
        }
        // Wraps only at the tenth digit, after which nothing is returned.
        value = value.wrapping_mul(10).wrapping_add(digit);
    }
    None
}

/// Whether a byte is ≥ 0x80. Eight bytes a step; the last step overlaps.
#[inline(always)]
pub(super) fn any_high(bytes: &[u8]) -> bool {
    let Some(last) = bytes.last_chunk::<8>() else {
        return bytes.iter().fold(0, |bits, byte| bits | byte) >= 0x80;
    };
    let (words, _) = bytes.as_chunks::<8>();
    let bits = words.iter().fold(u64::from_ne_bytes(*last), |bits, word| bits | u64::from_ne_bytes(*word));
    bits & TOPS != 0
}

#[cfg(test)]
mod tests {
    use super::any_high;

    #[test]
    fn a_high_byte_is_seen_wherever_it_stands() {
        for len in 0..40 {
            let mut bytes = vec![0x7f; len];
            assert!(!any_high(&bytes));
            for at in 0..len {
                bytes[at] = 0x80;
                assert!(any_high(&bytes), "{at} of {len}");
                bytes[at] = 0x7f;
            }
        }
    }
}
