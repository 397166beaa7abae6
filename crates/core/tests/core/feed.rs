//! Feeds a stream to a scanner the way a connection does: in pieces, with what is unconsumed moved to another place in the
//! buffer before every call, and with a table of rows that may be too small.

use crate::models::Replies;
use keylane_core::resp::header::{BAD_AT, CONSUMED, NEEDED, ROW_WORDS, ROWS, ROWS_BASE, ROWS_NEEDED, STATUS};
use keylane_core::resp::scan::{Limits, Scanner};
use keylane_core::resp::{kind, status};

/// How a stream is cut: each call of `next` gives the size of a piece and the room in the table, both at least 0.
pub trait Cuts {
    fn next(&mut self) -> (usize, usize);
}

impl<F: FnMut() -> (usize, usize)> Cuts for F {
    fn next(&mut self) -> (usize, usize) {
        self()
    }
}

/// Reads `stream` in one piece into a table that holds everything.
pub fn whole(stream: &[u8], limits: &Limits) -> Replies {
    pieces(stream, limits, &mut || (stream.len(), stream.len() + 1))
}

/// Reads `stream` in pieces, and checks on the way what must hold of every call.
pub fn pieces(stream: &[u8], limits: &Limits, cuts: &mut impl Cuts) -> Replies {
    let mut scanner = Scanner::new(*limits);
    let mut out = Replies { replies: Vec::new(), consumed: 0, status: status::MORE, bad_at: 0 };
    let mut arrived = 0;
    let mut turn = 0usize;
    while arrived < stream.len() || turn == 0 {
        let (size, mut room) = cuts.next();
        arrived = stream.len().min(arrived + size.max(1));
        turn += 1;
        loop {
            // Filler in front of and behind the range must not matter.
            let from = turn % 7;
            let mut buf = vec![b'$'; from];
            buf.extend_from_slice(&stream[out.consumed..arrived]);
            let to = buf.len();
            buf.resize(to + turn % 3, b'\n');
            let mut words = vec![-7; ROWS_BASE + room * ROW_WORDS];
            let replies = scanner.scan(&buf, from, to, &mut words).expect("the call is in order");
            check(&words, from, to, room, replies);
            let rows = stream.len().div_ceil(3).min(limits.max_rows as usize);
            let depth = stream.len().div_ceil(4).min(limits.max_depth as usize);
            assert!(scanner.memory() <= 2 * 12 * (rows + depth) + 1024, "{} bytes", scanner.memory());
            let shift = out.consumed as i32 - from as i32;
            collect(&words, shift, replies, &mut out.replies);
            out.consumed = (words[CONSUMED] + shift) as usize;
            match words[STATUS] {
                status::TABLE_FULL => room = room.max(words[ROWS_NEEDED] as usize),
                status::BAD => {
                    let bad_at = (words[BAD_AT] + shift) as usize;
                    let consumed = words[CONSUMED] as usize;
                    assert_eq!(scanner.scan(&buf, consumed, to, &mut words), Ok(0), "bad for good");
                    assert_eq!(words[STATUS..=BAD_AT], [status::BAD, 0, 0, bad_at as i32 - shift]);
                    return Replies { status: status::BAD, bad_at, ..out };
                }
                _ => break,
            }
        }
    }
    out
}

fn check(words: &[i32], from: usize, to: usize, room: usize, replies: i32) {
    let (from, to) = (from as i32, to as i32);
    assert!(from <= words[CONSUMED] && words[CONSUMED] <= to);
    assert!(0 <= words[ROWS] && words[ROWS] as usize <= room);
    assert!(replies >= 0 && replies <= words[ROWS]);
    match words[STATUS] {
        status::MORE => assert!(words[NEEDED] >= 0),
        status::TABLE_FULL => assert!(replies > 0 || words[ROWS_NEEDED] as usize > room),
        status::BAD => assert!(words[CONSUMED] <= words[BAD_AT] && words[BAD_AT] < to),
        other => panic!("status {other}"),
    }
    for row in words[ROWS_BASE..].chunks_exact(ROW_WORDS).take(words[ROWS] as usize) {
        assert!(from < row[1] && row[1] <= to, "{row:?}");
        let is_text = match row[0] & !kind::HIGH {
            kind::SIMPLE..=kind::ERROR | kind::INT..=kind::BULK | kind::DOUBLE..=kind::VERBATIM => true,
            kind::INT32 | kind::NULL..=kind::BOOL | kind::ATTRIBUTE..=kind::STREAM => false,
            other => panic!("kind {other}"),
        };
        assert!(!is_text || (row[2] >= 0 && row[1] + row[2] + 2 <= to), "{row:?}");
    }
}

/// Splits the rows of a call into replies, by counting children.
fn collect(words: &[i32], shift: i32, replies: i32, out: &mut Vec<Vec<[i32; 3]>>) {
    let mut rows = words[ROWS_BASE..].chunks_exact(ROW_WORDS).take(words[ROWS] as usize);
    for _ in 0..replies {
        let mut reply = Vec::new();
        let mut expected = 1i64;
        while expected > 0 {
            let row = rows.next().expect("a row for every child");
            reply.push([row[0], row[1] + shift, row[2]]);
            expected += match row[0] & !kind::HIGH {
                kind::ARRAY | kind::MAP | kind::SET | kind::PUSH | kind::STREAM => i64::from(row[2]) - 1,
                kind::ATTRIBUTE => i64::from(row[2]),
                _ => -1,
            };
        }
        out.push(reply);
    }
    assert!(rows.next().is_none(), "every row belongs to a reply");
}
