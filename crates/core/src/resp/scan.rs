//! Replies → rows. A scanner reads one connection's bytes; payloads are never copied: a row says where they lie.
//!
//! Invariant: what a scanner reports depends on the bytes alone, not on how they were cut. A reply that is cut off, or for
//! which the table has no room, leaves its rows in `kept`, with starts counted from its first byte, so it may be moved; no
//! byte is read twice. Memory is bounded by the limits: rows are kept only for bytes that have arrived, never for a count
//! that was merely declared.
//!
//! ```text
//! buf    … :1\r\n+OK\r\n | *3\r\n:1\r\n:2\r\n:         words  [ header | INT32 … | SIMPLE … | ]
//!        from            ^ consumed         ^ to       kept   [ ARRAY 1 3 | INT32 5 1 | INT32 9 2 ]
//! ```

use super::header::{BAD_AT, CONSUMED, NEEDED, ROW_WORDS, ROWS, ROWS_BASE, ROWS_NEEDED, STATUS};
use super::read::{Reader, Step};
use super::sink::{Kept, Row, Table};
use super::status;
use std::fmt;

/// Rows whose memory a scanner keeps between replies.
const KEEP_ROWS: usize = 4096;

/// What a scanner refuses, so that a hostile peer cannot make it spend.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Longest declared bulk, in bytes.
    pub max_bulk: u32,
    /// Most rows in one top-level reply.
    pub max_rows: u32,
    /// Deepest nesting; attributes and streamed strings count.
    pub max_depth: u32,
    /// Longest line, in bytes, its type byte and CRLF not counted.
    pub max_line: u32,
}

/// How `scan` was called wrongly. The scanner is unchanged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Misuse {
    /// `from ≤ to ≤ buf.len()` and `to < 2^31` do not both hold.
    Range,
    /// The table has no room for its header.
    Header,
    /// Fewer bytes are presented than were read before of the reply in progress.
    Rewound,
}

impl fmt::Display for Misuse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Range => "from and to are not a range of the buffer",
            Self::Header => "the table of rows is shorter than its header",
            Self::Rewound => "bytes of the reply in progress are missing",
        })
    }
}

impl std::error::Error for Misuse {}

/// Resumable reader of one connection's replies. Cost is linear in the bytes, however they are cut.
#[derive(Debug)]
pub struct Scanner {
    reader: Reader,
    kept: Vec<Row>,
    /// Rows of the reply in progress go to `kept`.
    is_kept: bool,
    /// All of them are there; the reply waits for a table that holds it.
    is_whole: bool,
    bad: Option<usize>,
}

impl Scanner {
    /// A scanner at the start of a connection.
    #[must_use]
    pub fn new(limits: Limits) -> Self {
        Self { reader: Reader::new(limits), kept: Vec::new(), is_kept: false, is_whole: false, bad: None }
    }

    /// Forgets the reply in progress, and that the bytes were bad.
    pub fn reset(&mut self) {
        self.clear();
        self.bad = None;
    }

    /// Bytes of heap memory held; bounded by the limits.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.kept.capacity() * size_of::<Row>() + self.reader.memory()
    }

    /// Reads `buf[from..to]` into `words` (header, then rows) and returns the number of complete top-level replies. Once it
    /// said `BAD` it keeps saying so until `reset`.
    ///
    /// # Errors
    /// [`Misuse`], with `words` untouched.
    pub fn scan(&mut self, buf: &[u8], from: usize, to: usize, words: &mut [i32]) -> Result<i32, Misuse> {
        if from > to || to > i32::MAX as usize {
            return Err(Misuse::Range);
        }
        let buf = buf.get(..to).ok_or(Misuse::Range)?;
        let (header, rows) = words.split_at_mut_checked(ROWS_BASE).ok_or(Misuse::Header)?;
        if to - from < self.reader.progress() {
            return Err(Misuse::Rewound);
        }
        let (rows, _) = rows.as_chunks_mut::<ROW_WORDS>();
        let (mut base, mut used, mut replies) = (from, 0, 0);
        header.fill(0);
        loop {
            if !self.is_kept && self.bad.is_none() {
                for row in &mut rows[used..] {
                    let Some(item) = self.reader.single(buf, base) else { break };
                    *row = [item.kind, item.start as i32, item.length];
                    base = item.next;
                    used += 1;
                    replies += 1;
                }
            }
            match self.reply(buf, base, rows, &mut used) {
                Step::Next(next) | Step::Whole(next) => {
                    base = next;
                    replies += 1;
                    continue;
                }
                Step::More => {
                    let missing = (base + self.reader.least()).saturating_sub(to);
                    header[NEEDED] = i32::try_from(missing).unwrap_or(i32::MAX);
                    header[STATUS] = status::MORE;
                }
                Step::Full => {
                    header[ROWS_NEEDED] = if replies == 0 { self.kept.len() as i32 } else { 0 };
                    header[STATUS] = status::TABLE_FULL;
                }
                Step::Bad(at) => {
                    self.clear();
                    self.bad = Some(at - base);
                    header[BAD_AT] = at as i32;
                    header[STATUS] = status::BAD;
                }
            }
            header[CONSUMED] = base as i32;
            header[ROWS] = used as i32;
            return Ok(replies);
        }
    }

    /// Reads one reply, or on with the one in progress, into `rows[used..]`.
    fn reply(&mut self, buf: &[u8], base: usize, rows: &mut [Row], used: &mut usize) -> Step {
        if let Some(bad) = self.bad {
            return Step::Bad(base + bad);
        }
        if !self.is_kept {
            if base == buf.len() {
                return Step::More;
            }
            let mut table = Table { first: *used, used: *used, rows };
            let step = self.reader.read(buf, base, &mut table);
            let end = table.used;
            if let Step::Whole(_) = step {
                *used = end;
                self.reader.clear();
                return step;
            }
            self.kept.extend(rows[*used..end].iter().map(|row| moved(row, -(base as i32))));
            self.is_kept = true;
            if step != Step::Full {
                return step;
            }
        }
        if !self.is_whole {
            let step = self.reader.read(buf, base, &mut Kept { rows: &mut self.kept, base });
            let Step::Whole(next) = step else { return step };
            self.reader.stand_at(next - base);
            self.is_whole = true;
        }
        let Some(target) = rows.get_mut(*used..*used + self.kept.len()) else { return Step::Full };
        for (row, kept) in target.iter_mut().zip(&self.kept) {
            *row = moved(kept, base as i32);
        }
        *used += self.kept.len();
        let next = base + self.reader.progress();
        self.clear();
        Step::Whole(next)
    }

    fn clear(&mut self) {
        self.reader.clear();
        self.kept.clear();
        self.kept.shrink_to(KEEP_ROWS);
        self.is_kept = false;
        self.is_whole = false;
    }
}

#[inline(always)]
fn moved(&[kind, start, length]: &Row, by: i32) -> Row {
    [kind, start + by, length]
}

#[cfg(test)]
mod tests {
    use super::{Limits, Misuse, Scanner};

    const LIMITS: Limits = Limits { max_bulk: 64, max_rows: 16, max_depth: 4, max_line: 32 };

    #[test]
    fn misuse_is_refused_and_changes_nothing() {
        let mut scanner = Scanner::new(LIMITS);
        let mut words = [9; 32];
        assert_eq!(scanner.scan(b":1\r\n", 3, 2, &mut words), Err(Misuse::Range));
        assert_eq!(scanner.scan(b":1\r\n", 0, 5, &mut words), Err(Misuse::Range));
        assert_eq!(scanner.scan(b":1\r\n", 0, 4, &mut words[..7]), Err(Misuse::Header));
        assert_eq!(words, [9; 32]);
        assert_eq!(scanner.scan(b"$5\r\nab", 0, 6, &mut words), Ok(0));
        assert_eq!(scanner.scan(b"$5\r\nab", 0, 5, &mut words), Err(Misuse::Rewound));
        assert_eq!(scanner.scan(b"$5\r\nabcde\r\n", 0, 11, &mut words), Ok(1));
        assert_eq!(words[8..11], [5, 4, 5]);
    }

    #[test]
    fn declared_counts_cost_nothing() {
        let limits = Limits { max_bulk: i32::MAX as u32, max_rows: i32::MAX as u32, ..LIMITS };
        let mut scanner = Scanner::new(limits);
        let mut words = [0; 32];
        assert_eq!(scanner.scan(b"*1000000000\r\n$2147483640\r\nx", 0, 27, &mut words), Ok(0));
        assert_eq!(words[3], 2_147_483_640 - 1 + 2, "missing: the body but for one byte, and its CRLF");
        assert!(scanner.memory() < 8192, "{}", scanner.memory());
    }
}
