//! What stands on a line: counts, integers, doubles. Each function judges all bytes of a line (type byte and CRLF taken
//! off) and guesses nothing: what is not a number of its kind is refused.

/// A count as `$`, `*` and their kin announce it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Count {
    /// Digits, at most 2^31 - 1.
    Of(u32),
    /// `-1`, by which RESP2 says null.
    MinusOne,
    /// `?`, by which RESP3 announces a stream.
    Streamed,
}

/// Reads a count; `None` when `line` is not one.
#[must_use]
pub fn count(line: &[u8]) -> Option<Count> {
    match line {
        b"?" => Some(Count::Streamed),
        b"-1" => Some(Count::MinusOne),
        _ => {
            let value = magnitude(line)?;
            (value <= i32::MAX as u64).then_some(Count::Of(value as u32))
        }
    }
}

/// Reads an integer of any size: `Some(Some(value))` when it fits 32 bits signed, `Some(None)` when not, `None` when `line`
/// is no integer.
#[must_use]
pub fn integer(line: &[u8]) -> Option<Option<i32>> {
    let digits = unsigned(line);
    let value = magnitude(digits)? as i64;
    Some(i32::try_from(if line.first() == Some(&b'-') { -value } else { value }).ok())
}

/// Whether `line` is a double: `inf` or `nan`, or digits with an optional fraction and exponent; each signed or not.
#[must_use]
pub fn is_double(line: &[u8]) -> bool {
    let rest = unsigned(line);
    if matches!(rest, b"inf" | b"nan") {
        return true;
    }
    let (whole, rest) = digits(rest);
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => digits(rest),
        _ => (0, rest),
    };
    if whole + fraction == 0 {
        return false;
    }
    match rest {
        [] => true,
        [b'e' | b'E', rest @ ..] => matches!(digits(unsigned(rest)), (1.., [])),
        _ => false,
    }
}

/// `line` without its sign, if it has one.
fn unsigned(line: &[u8]) -> &[u8] {
    match line {
        [b'+' | b'-', rest @ ..] => rest,
        _ => line,
    }
}

/// How many digits `line` begins with, and what follows them.
fn digits(line: &[u8]) -> (usize, &[u8]) {
    let count = line.iter().take_while(|byte| byte.is_ascii_digit()).count();
    (count, &line[count..])
}

/// Value of one or more digits, with 2^40 standing for anything at or above it; `None` when there is anything else.
fn magnitude(line: &[u8]) -> Option<u64> {
    const MANY: u64 = 1 << 40;
    let mut value = 0;
    for &byte in line {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            return None;
        }
        value = (value * 10 + u64::from(digit)).min(MANY);
    }
    (!line.is_empty()).then_some(value)
}

#[cfg(test)]
mod tests {
    use super::{Count, count, integer, is_double};

    #[test]
    fn counts() {
        assert_eq!(count(b"0"), Some(Count::Of(0)));
        assert_eq!(count(b"007"), Some(Count::Of(7)));
        assert_eq!(count(b"2147483647"), Some(Count::Of(2_147_483_647)));
        assert_eq!(count(b"?"), Some(Count::Streamed));
        assert_eq!(count(b"-1"), Some(Count::MinusOne));
        let refused =
            ["", "-", "-2", "-01", "+1", "2147483648", "99999999999999999999999", "1 ", "1?", "0x1", "\u{661}"];
        for line in refused {
            assert_eq!(count(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn e2_integers_are_exact_or_left_as_text() {
        for (line, value) in [("0", 0), ("-0", 0), ("+5", 5), ("2147483647", i32::MAX), ("-2147483648", i32::MIN)] {
            assert_eq!(integer(line.as_bytes()), Some(Some(value)), "{line}");
        }
        for line in ["2147483648", "-2147483649", "9007199254740993", "-9223372036854775808", "18446744073709551616"] {
            assert_eq!(integer(line.as_bytes()), Some(None), "{line}");
        }
        for line in ["", "-", "+", "--1", "1.0", "1e3", " 1", "1 ", "a"] {
            assert_eq!(integer(line.as_bytes()), None, "{line:?}");
        }
    }

    #[test]
    fn doubles() {
        for line in ["0", "-0", "1.5", "10.", ".5", "+1e9", "1E-7", "1.7976931348623157e+308", "inf", "-inf", "nan"] {
            assert!(is_double(line.as_bytes()), "{line}");
        }
        for line in ["", ".", "-", "1e", "1e+", "e5", "infinity", "INF", "1.2.3", "1,5", " 1", "0x10", "--1", ".e1"] {
            assert!(!is_double(line.as_bytes()), "{line:?}");
        }
    }
}
