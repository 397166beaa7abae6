//! The grammar: bytes of one reply → rows in a sink, item by item, an item being a line and, for texts that announce their
//! length, a body behind it.
//!
//! Invariant: a reader stops only between items or inside one whose progress it remembers (`seen` for a line, `body` for a
//! body), so it goes on where it stopped and reads no byte twice. All it remembers counts from the reply's first byte.
//!
//! ```text
//!       base           at = mark    seen
//!        v              v           v
//! buf    *2\r\n:7\r\n   $1000\r\nba …        line read, body in progress
//!                       ^ start  ^ body.start
//! ```

use super::item::{self, QUICK_LINE};
use super::kind;
use super::line::{self, Count};
use super::nest::{self, Nest, Reply};
use super::scan::Limits;
use super::sink::Sink;

/// What reading came to; offsets are absolute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Step {
    /// An item is complete; the next one begins here.
    Next(usize),
    /// The reply is complete and ends here.
    Whole(usize),
    /// The bytes have run out.
    More,
    /// The sink has.
    Full,
    /// This byte is wrong.
    Bad(usize),
}

/// A text whose line has been read.
#[derive(Debug, Clone, Copy)]
struct Body {
    kind: i32,
    start: usize,
    end: usize,
    seen: usize,
    high: bool,
}

/// Where an item stands in the buffer: its reply's first byte, its own, and the one behind its line.
#[derive(Clone, Copy)]
struct Place {
    base: usize,
    mark: usize,
    next: usize,
}

#[derive(Debug)]
pub(super) struct Reader {
    limits: Limits,
    quick: bool,
    nest: Nest,
    at: usize,
    seen: usize,
    body: Option<Body>,
}

impl Reader {
    pub fn new(limits: Limits) -> Self {
        let limits = Limits { max_rows: limits.max_rows.min(i32::MAX as u32), ..limits };
        let quick = limits.max_line >= QUICK_LINE && limits.max_rows > 0;
        Self { limits, quick, nest: Nest::default(), at: 0, seen: 0, body: None }
    }

    /// A reply that is one common item, read whole; only between replies.
    #[inline(always)]
    pub fn single(&self, buf: &[u8], at: usize) -> Option<item::Item> {
        item::quick(buf, at, self.limits.max_bulk).filter(|item| self.quick && item.kind != kind::ARRAY)
    }

    /// Reads items until the reply is whole, the bytes or the sink run out, or a byte is wrong.
    pub fn read<S: Sink>(&mut self, buf: &[u8], base: usize, sink: &mut S) -> Step {
        let mut at = base + self.at;
        let mut step = match self.body {
            Some(body) => self.text(buf, Place { base, mark: at, next: 0 }, body, sink),
            None if self.seen > self.at => self.item(buf, base, at, sink),
            None => Step::Next(at),
        };
        loop {
            match step {
                Step::Next(next) => at = next,
                Step::More => {
                    self.at = at - base;
                    return step;
                }
                _ => return step,
            }
            if sink.is_full() {
                self.at = at - base;
                return Step::Full;
            }
            step = match item::quick(buf, at, self.limits.max_bulk) {
                Some(item) if self.quick && !self.nest.in_pieces() => {
                    let place = Place { base, mark: at, next: item.next };
                    if item.kind == kind::ARRAY {
                        self.aggregate(kind::ARRAY, place, Some(Count::Of(item.length as u32)), sink)
                    } else {
                        self.value(item.kind, item.start, item.length, place, sink)
                    }
                }
                _ => self.item(buf, base, at, sink),
            };
        }
    }

    /// Reads the item at `mark`, or on with its line.
    fn item<S: Sink>(&mut self, buf: &[u8], base: usize, mark: usize, sink: &mut S) -> Step {
        let Some(&tag) = buf.get(mark) else { return Step::More };
        if !self.nest.expects(tag) {
            return Step::Bad(mark);
        }
        let start = mark + 1;
        let limit = start.saturating_add(self.limits.max_line as usize);
        let from = start.max(base + self.seen);
        let window = &buf[from..buf.len().min(limit.saturating_add(1))];
        let Some(length) = window.iter().position(|&byte| byte == b'\r' || byte == b'\n') else {
            self.seen = buf.len() - base;
            return if buf.len() > limit { Step::Bad(limit) } else { Step::More };
        };
        let end = from + length;
        match (buf[end], buf.get(end + 1)) {
            (b'\n', _) => return Step::Bad(end),
            (_, Some(b'\n')) => {}
            (_, Some(_)) => return Step::Bad(end + 1),
            (_, None) => {
                self.seen = end - base;
                return Step::More;
            }
        }
        let line = &buf[start..end];
        let place = Place { base, mark, next: end + 2 };
        let text = |kind| Some((if item::any_high(line) { kind | kind::HIGH } else { kind }, line.len() as i32));
        let number = |kind| Some((kind, line.len() as i32));
        let row = match tag {
            b'+' => text(kind::SIMPLE),
            b'-' => text(kind::ERROR),
            b':' => line::integer(line).and_then(|value| value.map_or(number(kind::INT), |v| Some((kind::INT32, v)))),
            b'(' => line::integer(line).and(number(kind::BIGNUM)),
            b',' => line::is_double(line).then_some(number(kind::DOUBLE)).flatten(),
            b'#' => matches!(line, b"t" | b"f").then_some((kind::BOOL, i32::from(line == b"t"))),
            b'_' => line.is_empty().then_some((kind::NULL, 0)),
            b'.' if line.is_empty() => return self.end(place, sink),
            b'.' => None,
            _ => return self.announced(tag, line::count(line), buf, place, sink),
        };
        match row {
            Some((kind, length)) => self.value(kind, start, length, place, sink),
            None => Step::Bad(mark),
        }
    }

    /// An item whose line is a count.
    fn announced<S: Sink>(&mut self, tag: u8, count: Option<Count>, buf: &[u8], place: Place, sink: &mut S) -> Step {
        let kind = match (tag, count) {
            (b'$' | b'*', Some(Count::MinusOne)) => return self.value(kind::NULL, place.mark + 1, 0, place, sink),
            (b';', Some(Count::Of(0))) => return self.end(place, sink),
            (b'$', Some(Count::Streamed)) => return self.aggregate(kind::STREAM, place, count, sink),
            (b'*', _) => return self.aggregate(kind::ARRAY, place, count, sink),
            (b'%', _) => return self.aggregate(kind::MAP, place, count, sink),
            (b'~', _) => return self.aggregate(kind::SET, place, count, sink),
            (b'>', _) => return self.aggregate(kind::PUSH, place, count, sink),
            (b'|', _) => return self.aggregate(kind::ATTRIBUTE, place, count, sink),
            (b'!', _) => kind::BLOB_ERROR,
            (b'=', _) => kind::VERBATIM,
            _ => kind::BULK,
        };
        match count {
            Some(Count::Of(size)) if size <= self.limits.max_bulk && (kind != kind::VERBATIM || size >= 4) => {
                let start = place.next - place.base;
                let body = Body { kind, start, end: start + size as usize, seen: start, high: false };
                self.text(buf, place, body, sink)
            }
            _ => Step::Bad(place.mark),
        }
    }

    /// Reads the body of a text, as much as there is.
    fn text<S: Sink>(&mut self, buf: &[u8], place: Place, mut body: Body, sink: &mut S) -> Step {
        let end = place.base + body.end;
        let seen = end.min(buf.len());
        body.high |= item::any_high(&buf[place.base + body.seen..seen]);
        body.seen = seen - place.base;
        let Some(close) = buf.get(end..end + 2) else {
            self.body = Some(body);
            return Step::More;
        };
        self.body = None;
        if close != b"\r\n" {
            return Step::Bad(end + usize::from(close[0] == b'\r'));
        }
        let mut start = place.base + body.start;
        if body.kind == kind::VERBATIM {
            if buf[start + 3] != b':' {
                return Step::Bad(start + 3);
            }
            start += 4;
        }
        let kind = if body.high { body.kind | kind::HIGH } else { body.kind };
        self.value(kind, start, (end - start) as i32, Place { next: end + 2, ..place }, sink)
    }

    /// A row without children.
    #[inline(always)]
    fn value<S: Sink>(&mut self, kind: i32, start: usize, length: i32, place: Place, sink: &mut S) -> Step {
        if sink.count() >= self.limits.max_rows as usize {
            return Step::Bad(place.mark);
        }
        sink.push(kind, start, length);
        step(self.nest.value(), place)
    }

    /// A row whose children follow.
    fn aggregate<S: Sink>(&mut self, kind: i32, place: Place, count: Option<Count>, sink: &mut S) -> Step {
        let Some(children) = nest::children(kind, count) else { return Step::Bad(place.mark) };
        let known = if let Count::Of(known) = children { known } else { 0 };
        let row = sink.count();
        let over = row as u64 + u64::from(known) >= u64::from(self.limits.max_rows);
        if over || self.nest.depth() >= self.limits.max_depth as usize {
            return Step::Bad(place.mark);
        }
        sink.push(kind, place.mark + 1, known as i32);
        step(self.nest.enter(kind, row, children), place)
    }

    /// The end of something streamed.
    fn end<S: Sink>(&mut self, place: Place, sink: &mut S) -> Step {
        let Some((row, children)) = self.nest.streamed() else { return Step::Bad(place.mark) };
        if sink.kind(row) == kind::MAP && children % 2 == 1 {
            return Step::Bad(place.mark);
        }
        sink.set_length(row, children as i32);
        step(self.nest.end(), place)
    }

    /// Bytes of the reply in progress that have been read.
    pub fn progress(&self) -> usize {
        self.at.max(self.seen).max(self.body.map_or(0, |body| body.seen))
    }

    /// The reply is whole and `length` bytes long, but stays in progress.
    pub fn stand_at(&mut self, length: usize) {
        self.at = length;
    }

    /// Length that the reply in progress has at least, when that is more than its bytes so far; else 0.
    pub fn least(&self) -> usize {
        self.body.map_or(0, |body| body.end + 2)
    }

    pub fn clear(&mut self) {
        self.nest.clear();
        self.at = 0;
        self.seen = 0;
        self.body = None;
    }

    pub fn memory(&self) -> usize {
        self.nest.memory()
    }
}

#[inline(always)]
fn step(reply: Reply, place: Place) -> Step {
    match reply {
        Reply::Open => Step::Next(place.next),
        Reply::Whole => Step::Whole(place.next),
    }
}
