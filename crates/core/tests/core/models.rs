//! Naive models: the same answers by the shortest road, with no regard to cost. Invariant: nothing here shares code with
//! what it judges.

use keylane_core::resp::scan::Limits;
use keylane_core::resp::{kind, place, status};

/// CRC16/XMODEM, bit by bit.
pub fn crc16(bytes: &[u8]) -> u16 {
    bytes.iter().fold(0u16, |crc, &byte| {
        (0..8).fold(crc ^ u16::from(byte) << 8, |crc, _| if crc & 0x8000 == 0 { crc << 1 } else { crc << 1 ^ 0x1021 })
    })
}

/// The servers' `keyHashSlot`.
pub fn slot(key: &[u8]) -> u16 {
    let open = key.iter().position(|&byte| byte == b'{');
    let close = open.and_then(|open| key[open..].iter().position(|&byte| byte == b'}').map(|at| open + at));
    match (open, close) {
        (Some(open), Some(close)) if close > open + 1 => crc16(&key[open + 1..close]) % 16_384,
        _ => crc16(key) % 16_384,
    }
}

/// Index of the longest of `prefixes` that `key` starts with.
pub fn matched(prefixes: &[Vec<u8>], key: &[u8]) -> Option<u32> {
    let matching = prefixes.iter().enumerate().filter(|(_, prefix)| key.starts_with(prefix));
    matching.max_by_key(|(_, prefix)| prefix.len()).map(|(index, _)| index as u32)
}

/// An operation as its parts.
#[derive(Debug, Clone)]
pub struct Operation {
    pub opcode: usize,
    pub flags: u32,
    pub key: Option<usize>,
    pub arguments: Vec<Vec<u8>>,
}

/// Words and bytes of `operations`, as `encode` takes them.
pub fn describe(operations: &[Operation]) -> (Vec<u8>, Vec<i32>) {
    let (mut scratch, mut desc) = (Vec::new(), Vec::new());
    for operation in operations {
        let key = operation.key.map_or(0x7fff, |key| key as i32);
        desc.push(operation.opcode as i32 | (operation.flags as i32) << 8 | key << 16);
        desc.push(operation.arguments.len() as i32);
        for argument in &operation.arguments {
            desc.push(argument.len() as i32);
            scratch.extend_from_slice(argument);
        }
    }
    (scratch, desc)
}

pub fn frame(operation: &Operation) -> Vec<u8> {
    let names =
        ["", "GET", "SET", "DEL", "INCRBY", "EXPIRE", "HGET", "HINCRBY", "EVALSHA", "PEXPIRE", "PTTL", "EXISTS"];
    let mut frame = Vec::new();
    if operation.flags & 2 != 0 {
        frame.extend_from_slice(b"*1\r\n$6\r\nASKING\r\n");
    }
    if operation.opcode == 12 {
        frame.extend_from_slice(&operation.arguments[1]);
        return frame;
    }
    let mut words: Vec<&[u8]> = operation.arguments.iter().map(Vec::as_slice).collect();
    if operation.opcode > 0 {
        words.insert(0, names[operation.opcode].as_bytes());
    }
    frame.extend_from_slice(format!("*{}\r\n", words.len()).as_bytes());
    for word in words {
        frame.extend_from_slice(format!("${}\r\n", word.len()).as_bytes());
        frame.extend_from_slice(word);
        frame.extend_from_slice(b"\r\n");
    }
    frame
}

/// A node, its frames back to back, and how many operations they are.
pub type Run = (i32, Vec<u8>, i32);

/// Runs in order of first use, and every operation's place.
pub fn partition(operations: &[Operation], slots: &[i32], held: &[u16], alias: &[i32]) -> (Vec<Run>, Vec<i32>) {
    let mut runs: Vec<Run> = Vec::new();
    let mut places = Vec::new();
    for operation in operations {
        let mut node = match operation.key {
            None => place::KEYLESS,
            Some(key) => {
                let slot = slot(&operation.arguments[key]);
                match slots[slot as usize] {
                    _ if held.contains(&slot) => place::HELD,
                    node if node < 0 => place::UNASSIGNED,
                    node if operation.flags & 1 == 0 => node,
                    node => alias.get(node as usize).copied().unwrap_or(place::UNASSIGNED),
                }
            }
        };
        if node >= alias.len() as i32 {
            node = place::UNASSIGNED;
        }
        places.push(node);
        if node >= 0 {
            let at = runs.iter().position(|run| run.0 == node).unwrap_or_else(|| {
                runs.push((node, Vec::new(), 0));
                runs.len() - 1
            });
            runs[at].1.extend(frame(operation));
            runs[at].2 += 1;
        }
    }
    (runs, places)
}

/// What reading a stream came to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Replies {
    /// Rows of each complete reply; starts count from the first byte of the stream.
    pub replies: Vec<Vec<[i32; 3]>>,
    pub consumed: usize,
    pub status: i32,
    pub bad_at: usize,
}

/// Reads all of `stream` with a recursive parser.
pub fn replies(stream: &[u8], limits: &Limits) -> Replies {
    let mut out = Replies { replies: Vec::new(), consumed: 0, status: status::MORE, bad_at: 0 };
    loop {
        let mut parser = Parser { stream, at: out.consumed, rows: Vec::new(), limits };
        match parser.value(0, false) {
            Ok(()) => {
                out.consumed = parser.at;
                out.replies.push(parser.rows);
            }
            Err(Stop::More) => return out,
            Err(Stop::Bad(at)) => return Replies { status: status::BAD, bad_at: at, ..out },
        }
    }
}

enum Stop {
    More,
    Bad(usize),
}

struct Parser<'a> {
    stream: &'a [u8],
    at: usize,
    rows: Vec<[i32; 3]>,
    limits: &'a Limits,
}

impl<'a> Parser<'a> {
    fn value(&mut self, depth: u32, annotated: bool) -> Result<(), Stop> {
        let mark = self.at;
        let tag = *self.stream.get(mark).ok_or(Stop::More)?;
        let bad = Err(Stop::Bad(mark));
        if !b"+-:$*%~>#,(!=|_".contains(&tag) || (tag == b'>' && (depth > 0 || annotated)) {
            return bad;
        }
        let line = self.line()?;
        let text = String::from_utf8_lossy(line).into_owned();
        let start = mark + 1;
        let length = line.len() as i32;
        let high = if line.is_ascii() { 0 } else { kind::HIGH };
        match tag {
            b'+' => self.row(mark, kind::SIMPLE | high, start, length),
            b'-' => self.row(mark, kind::ERROR | high, start, length),
            b':' if is_integer(&text) => match text.parse::<i128>().map(i32::try_from) {
                Ok(Ok(value)) => self.row(mark, kind::INT32, start, value),
                _ if text.trim_start_matches(['+', '-']).trim_start_matches('0').is_empty() => {
                    self.row(mark, kind::INT32, start, 0)
                }
                _ => self.row(mark, kind::INT, start, length),
            },
            b'(' if is_integer(&text) => self.row(mark, kind::BIGNUM, start, length),
            b',' if is_double(&text) => self.row(mark, kind::DOUBLE, start, length),
            b'#' if text == "t" || text == "f" => self.row(mark, kind::BOOL, start, i32::from(text == "t")),
            b'_' if text.is_empty() => self.row(mark, kind::NULL, start, 0),
            b'$' | b'*' if text == "-1" => self.row(mark, kind::NULL, start, 0),
            b'$' if text == "?" => self.pieces(mark, depth),
            b'$' => self.text(mark, kind::BULK, &text),
            b'!' => self.text(mark, kind::BLOB_ERROR, &text),
            b'=' => self.text(mark, kind::VERBATIM, &text),
            b'*' => self.aggregate(mark, kind::ARRAY, 1, &text, depth),
            b'%' => self.aggregate(mark, kind::MAP, 2, &text, depth),
            b'~' => self.aggregate(mark, kind::SET, 1, &text, depth),
            b'>' => self.aggregate(mark, kind::PUSH, 1, &text, depth),
            b'|' => {
                self.aggregate(mark, kind::ATTRIBUTE, 2, &text, depth)?;
                self.value(depth, true)
            }
            _ => bad,
        }
    }

    fn line(&mut self) -> Result<&'a [u8], Stop> {
        let start = self.at + 1;
        let mut end = start;
        loop {
            match self.stream.get(end) {
                None => return Err(Stop::More),
                Some(b'\r') => break,
                Some(b'\n') => return Err(Stop::Bad(end)),
                Some(_) if end - start == self.limits.max_line as usize => return Err(Stop::Bad(end)),
                Some(_) => end += 1,
            }
        }
        match self.stream.get(end + 1) {
            None => Err(Stop::More),
            Some(b'\n') => {
                self.at = end + 2;
                Ok(&self.stream[start..end])
            }
            Some(_) => Err(Stop::Bad(end + 1)),
        }
    }

    fn row(&mut self, mark: usize, kind: i32, start: usize, length: i32) -> Result<(), Stop> {
        if self.rows.len() >= self.limits.max_rows as usize {
            return Err(Stop::Bad(mark));
        }
        self.rows.push([kind, start as i32, length]);
        Ok(())
    }

    fn text(&mut self, mark: usize, kind: i32, count: &str) -> Result<(), Stop> {
        let size = self.count(mark, count)?;
        if size > self.limits.max_bulk as usize || (kind == kind::VERBATIM && size < 4) {
            return Err(Stop::Bad(mark));
        }
        let (start, end) = (self.at, self.at + size);
        let close = self.stream.get(end..end + 2).ok_or(Stop::More)?;
        if close[0] != b'\r' {
            return Err(Stop::Bad(end));
        }
        if close[1] != b'\n' {
            return Err(Stop::Bad(end + 1));
        }
        let skip = if kind == kind::VERBATIM { 4 } else { 0 };
        if skip > 0 && self.stream[start + 3] != b':' {
            return Err(Stop::Bad(start + 3));
        }
        let high = if self.stream[start..end].is_ascii() { 0 } else { kind::HIGH };
        self.at = end + 2;
        self.row(mark, kind | high, start + skip, (size - skip) as i32)
    }

    fn count(&self, mark: usize, text: &str) -> Result<usize, Stop> {
        let digits = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
        let value = text.parse::<u128>().ok().or(text.trim_start_matches('0').is_empty().then_some(0));
        value.filter(|&value| digits && value < 1 << 31).map(|value| value as usize).ok_or(Stop::Bad(mark))
    }

    fn open(&mut self, mark: usize, kind: i32, children: usize, depth: u32) -> Result<(), Stop> {
        if self.rows.len() + children >= self.limits.max_rows as usize || depth >= self.limits.max_depth {
            return Err(Stop::Bad(mark));
        }
        self.row(mark, kind, mark + 1, children as i32)
    }

    fn aggregate(&mut self, mark: usize, kind: i32, width: usize, count: &str, depth: u32) -> Result<(), Stop> {
        if count == "?" && matches!(kind, kind::ARRAY | kind::MAP | kind::SET) {
            return self.streamed(mark, kind, depth);
        }
        let children = self.count(mark, count)? * width;
        self.open(mark, kind, children, depth)?;
        (0..children).try_for_each(|_| self.value(depth + 1, false))
    }

    fn streamed(&mut self, mark: usize, kind: i32, depth: u32) -> Result<(), Stop> {
        self.open(mark, kind, 0, depth)?;
        let row = self.rows.len() - 1;
        loop {
            let end = self.at;
            if self.stream.get(end) == Some(&b'.') {
                let odd = kind == kind::MAP && self.rows[row][2] % 2 == 1;
                return if !self.line()?.is_empty() || odd { Err(Stop::Bad(end)) } else { Ok(()) };
            }
            self.value(depth + 1, false)?;
            self.rows[row][2] += 1;
        }
    }

    fn pieces(&mut self, mark: usize, depth: u32) -> Result<(), Stop> {
        self.open(mark, kind::STREAM, 0, depth)?;
        let row = self.rows.len() - 1;
        loop {
            let piece = self.at;
            if *self.stream.get(piece).ok_or(Stop::More)? != b';' {
                return Err(Stop::Bad(piece));
            }
            let count = String::from_utf8_lossy(self.line()?).into_owned();
            if self.count(piece, &count)? == 0 {
                return Ok(());
            }
            self.text(piece, kind::BULK, &count)?;
            self.rows[row][2] += 1;
        }
    }
}

fn is_integer(text: &str) -> bool {
    let digits = text.strip_prefix(['+', '-']).unwrap_or(text);
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_double(text: &str) -> bool {
    let rest = text.strip_prefix(['+', '-']).unwrap_or(text);
    if rest == "inf" || rest == "nan" {
        return true;
    }
    // Rust's own grammar is the same one plus words, which the set of characters rules out.
    rest.bytes().all(|byte| b"0123456789.eE+-".contains(&byte))
        && !rest.starts_with(['+', '-'])
        && rest.parse::<f64>().is_ok()
}
