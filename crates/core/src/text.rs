//! Keys that arrive as UTF-16: one JavaScript string that joins a batch, and the length of each key in UTF-16 units.
//!
//! Invariant: key i becomes the bytes that `Buffer.from(key)` would give, whatever its neighbours are. A lone surrogate
//! becomes U+FFFD even when the next key begins with the half that would complete it, so keys are converted one by one.

const REPLACEMENT: [u8; 3] = [0xef, 0xbf, 0xbd];

/// Appends `units` to `out` as UTF-8, lone surrogates as U+FFFD. Grows `out` by at most three bytes a unit.
pub fn push_utf8(units: &[u16], out: &mut Vec<u8>) {
    let mut rest = units;
    while !rest.is_empty() {
        let ascii = rest.iter().position(|&unit| unit >= 0x80).unwrap_or(rest.len());
        out.extend(rest[..ascii].iter().map(|&unit| unit as u8));
        rest = &rest[ascii..];
        let run = rest.iter().position(|&unit| unit < 0x80).unwrap_or(rest.len());
        for scalar in char::decode_utf16(rest[..run].iter().copied()) {
            match scalar {
                Ok(scalar) => out.extend_from_slice(scalar.encode_utf8(&mut [0; 4]).as_bytes()),
                Err(_) => out.extend_from_slice(&REPLACEMENT),
            }
        }
        rest = &rest[run..];
    }
}

#[cfg(test)]
mod tests {
    use super::push_utf8;

    fn utf8(units: &[u16]) -> Vec<u8> {
        let mut out = Vec::new();
        push_utf8(units, &mut out);
        out
    }

    #[test]
    fn well_formed_text_is_its_utf8() {
        let text = "up:\u{e9}\u{20ac}\u{1f600}:x";
        assert_eq!(utf8(&text.encode_utf16().collect::<Vec<_>>()), text.as_bytes());
    }

    #[test]
    fn lone_surrogates_become_replacement_characters() {
        assert_eq!(utf8(&[0xd83d]), "\u{fffd}".as_bytes());
        assert_eq!(utf8(&[0xde00, 0xd83d]), "\u{fffd}\u{fffd}".as_bytes());
        assert_eq!(utf8(&[0xd83d, b'a' as u16, 0xde00]), "\u{fffd}a\u{fffd}".as_bytes());
        assert_eq!(utf8(&[0xd83d, 0xd83d, 0xde00]), "\u{fffd}\u{1f600}".as_bytes());
    }
}
