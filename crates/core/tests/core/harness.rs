//! What the fuzz targets run, as functions of bytes; `cargo test` runs the same on pseudo-random bytes.

use crate::generate::{self, Source};
use crate::{feed, models};
use keylane_core::resp::scan::Limits;
use keylane_core::route::{DOMAIN_NONE, Fallback, Router};
use keylane_core::slot::slot;

/// Scans the bytes, or a stream made from them, whole and in pieces, under limits that they choose; never panics, and both
/// agree with the model.
pub fn scan(data: &[u8]) {
    let mut source = Source(data);
    let choice = source.byte();
    let limits = match choice & 3 {
        0 => Limits { max_bulk: 16, max_rows: 8, max_depth: 2, max_line: 10 },
        1 => Limits { max_bulk: 0, max_rows: 1, max_depth: 0, max_line: 0 },
        _ => Limits { max_bulk: 1 << 29, max_rows: 1 << 20, max_depth: 32, max_line: 1 << 16 },
    };
    let mut cuts = Source(&data[..data.len().min(64)]);
    let stream = if choice & 4 == 0 {
        source.0.to_vec()
    } else {
        let mut stream = generate::stream(&mut source);
        if choice & 8 != 0 {
            generate::damage(&mut Source(data), &mut stream);
        }
        stream
    };
    let expected = models::replies(&stream, &limits);
    assert_eq!(feed::whole(&stream, &limits), expected);
    assert_eq!(feed::pieces(&stream, &limits, &mut || (1, 1)), expected);
    let mut next = || (1 + usize::from(cuts.byte() % 32), usize::from(cuts.byte() % 8));
    assert_eq!(feed::pieces(&stream, &limits, &mut next), expected);
}

/// Routes keys made from the bytes over prefixes made from them.
pub fn route(data: &[u8]) {
    let mut source = Source(data);
    let mut prefixes: Vec<Vec<u8>> = (0..source.below(12)).map(|_| generate::key(&mut source, 6)).collect();
    let count = prefixes.len();
    prefixes.sort();
    prefixes.dedup();
    let pairs: Vec<(&[u8], u16)> = prefixes.iter().zip(0..).map(|(prefix, at)| (prefix.as_slice(), at)).collect();
    let router = Router::new(&pairs, &Fallback::Reject).expect("distinct prefixes");
    if count > prefixes.len() {
        let twice = [pairs.as_slice(), &pairs[..1]].concat();
        assert!(Router::new(&twice, &Fallback::Reject).is_err());
    }
    while !source.is_empty() {
        let key = generate::key(&mut source, 80);
        let route = router.route(&key);
        let prefix = models::matched(&prefixes, &key);
        assert_eq!(route.prefix, prefix);
        assert_eq!(route.domain, prefix.map_or(DOMAIN_NONE, |index| index as u16));
        assert_eq!(route.slot, models::slot(&key));
    }
}

/// Takes the slot of the bytes themselves, at every offset of the first few.
pub fn slots(data: &[u8]) {
    for from in 0..data.len().min(9) {
        assert_eq!(slot(&data[from..]), models::slot(&data[from..]));
    }
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, Instant};

    /// xorshift64* (Vigna, 2016).
    fn random(state: &mut u64) -> u64 {
        *state ^= *state >> 12;
        *state ^= *state << 25;
        *state ^= *state >> 27;
        state.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Runs `harness` on the same inputs every time: at least 2,000, and more while there is time.
    fn drive(seed: u64, longest: u64, harness: fn(&[u8])) {
        let mut state = seed;
        let started = Instant::now();
        let mut runs = 0;
        while runs < 2_000 || started.elapsed() < Duration::from_secs(2) {
            let length = random(&mut state) % longest;
            let data: Vec<u8> = (0..length).map(|_| (random(&mut state) >> 56) as u8).collect();
            harness(&data);
            runs += 1;
        }
    }

    #[test]
    fn scan_on_random_bytes() {
        drive(0x9e37_79b9_7f4a_7c15, 400, super::scan);
    }

    #[test]
    fn route_on_random_bytes() {
        drive(0xd1b5_4a32_d192_ed03, 600, super::route);
    }

    #[test]
    fn slots_on_random_bytes() {
        drive(0x8cb9_2ba7_2f3d_8dd7, 200, super::slots);
    }
}
