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
    let digit = |byte: u8| u32::from(byte.wrapping_sub(b'0'));
    // The usual lengths without a loop, where that many bytes are there.
    if let Some(&[a, b, c, d, e, f]) = buf.get(at..at + 6).and_then(|bytes| bytes.first_chunk()) {
        const END: (u8, u8) = (b'\r', b'\n');
        let (first, second, third, fourth) = (digit(a), digit(b), digit(c), digit(d));
        if first > 9 {
            return None;
        }
        if (b, c) == END {
            return Some((first, at + 3));
        }
        if (c, d) == END && second <= 9 {
            return Some((first * 10 + second, at + 4));
        }
        if (d, e) == END && second.max(third) <= 9 {
            return Some((first * 100 + second * 10 + third, at + 5));
        }
        if (e, f) == END && second.max(third).max(fourth) <= 9 {
            return Some((first * 1000 + second * 100 + third * 10 + fourth, at + 6));
        }
    }
    long_count(buf, at)
}

fn long_count(buf: &[u8], at: usize) -> Option<(u32, usize)> {
    let mut value = 0;
    for end in at..at + 10 {
        let byte = *buf.get(end)?;
        let digit = u32::from(byte.wrapping_sub(b'0'));
        if digit > 9 {
            let ends = end > at && byte == b'\r' && *buf.get(end + 1)? == b'\n';
            return ends.then_some((value, end + 2));
        }
        // Wraps only at the tenth digit, after which nothing is returned.
        value = value.wrapping_mul(10).wrapping_add(digit);
    }
    None
}

/// Whether a byte is ≥ 0x80. Eight bytes a step; the last step overlaps.
#[inline(always)]
pub(super) fn any_high(bytes: &[u8]) -> bool {
    if let Some(last) = bytes.last_chunk::<8>() {
        let (words, _) = bytes.as_chunks::<8>();
        let bits = words.iter().fold(u64::from_ne_bytes(*last), |bits, word| bits | u64::from_ne_bytes(*word));
        return bits & TOPS != 0;
    }
    if let (Some(first), Some(last)) = (bytes.first_chunk::<4>(), bytes.last_chunk::<4>()) {
        return (u32::from_ne_bytes(*first) | u32::from_ne_bytes(*last)) & TOPS as u32 != 0;
    }
    bytes.iter().fold(0, |bits, byte| bits | byte) >= 0x80
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
