//! The scanner against the recursive model: on random streams, and on a recorded one cut at every byte.

use crate::generate::{self, Source};
use crate::{feed, models};
use keylane_core::resp::scan::{Limits, Scanner};
use keylane_core::resp::{kind, status};
use proptest::prelude::*;

const WIDE: Limits = Limits { max_bulk: 1 << 29, max_rows: 1 << 20, max_depth: 32, max_line: 1 << 16 };

/// Every type, every null, both streams, attributes, a push between replies, and text past ASCII.
const RECORDED: &[u8] = b"+OK\r\n-MOVED 3999 127.0.0.1:7002\r\n:-42\r\n:9007199254740993\r\n$5\r\nhello\r\n$0\r\n\r\n$-1\r\n*-1\r\n\
_\r\n#t\r\n#f\r\n,3.14\r\n,-inf\r\n(3492890328409238509324850943850943825024385\r\n!21\r\nSYNTAX invalid syntax\r\n\
=8\r\ntxt:Some\r\n+caf\xc3\xa9\r\n$6\r\n\xe2\x82\xacuro\r\n*3\r\n:1\r\n*2\r\n$1\r\na\r\n$-1\r\n+x\r\n\
>2\r\n$10\r\ninvalidate\r\n*1\r\n$4\r\nup:1\r\n%2\r\n+first\r\n:1\r\n+second\r\n*0\r\n~2\r\n#t\r\n_\r\n\
|1\r\n+ttl\r\n:3600\r\n$3\r\nfoo\r\n*2\r\n:1\r\n|1\r\n+k\r\n%0\r\n:2\r\n$?\r\n;4\r\nHell\r\n;6\r\no word\r\n;1\r\nd\r\n;0\r\n\
*?\r\n:1\r\n*?\r\n.\r\n%?\r\n+k\r\n$?\r\n;0\r\n.\r\n~?\r\n,nan\r\n.\r\n.\r\n%?\r\n+a\r\n:1\r\n.\r\n:2147483648\r\n+PONG\r\n";

#[test]
fn a_recorded_stream_has_these_rows() {
    use kind::*;
    let read = feed::whole(RECORDED, &WIDE);
    let kinds: Vec<Vec<i32>> = read.replies.iter().map(|reply| reply.iter().map(|row| row[0]).collect()).collect();
    let expected: Vec<Vec<i32>> = vec![
        vec![SIMPLE],
        vec![ERROR],
        vec![INT32],
        vec![INT],
        vec![BULK],
        vec![BULK],
        vec![NULL],
        vec![NULL],
        vec![NULL],
        vec![BOOL],
        vec![BOOL],
        vec![DOUBLE],
        vec![DOUBLE],
        vec![BIGNUM],
        vec![BLOB_ERROR],
        vec![VERBATIM],
        vec![SIMPLE | HIGH],
        vec![BULK | HIGH],
        vec![ARRAY, INT32, ARRAY, BULK, NULL, SIMPLE],
        vec![PUSH, BULK, ARRAY, BULK],
        vec![MAP, SIMPLE, INT32, SIMPLE, ARRAY],
        vec![SET, BOOL, NULL],
        vec![ATTRIBUTE, SIMPLE, INT32, BULK],
        vec![ARRAY, INT32, ATTRIBUTE, SIMPLE, MAP, INT32],
        vec![STREAM, BULK, BULK, BULK],
        vec![ARRAY, INT32, ARRAY, MAP, SIMPLE, STREAM, SET, DOUBLE],
        vec![MAP, SIMPLE, INT32],
        vec![INT],
        vec![SIMPLE],
    ];
    assert_eq!(kinds, expected);
    assert_eq!((read.status, read.consumed), (status::MORE, RECORDED.len()));
    let text = |row: [i32; 3]| &RECORDED[row[1] as usize..(row[1] + row[2]) as usize];
    assert_eq!(read.replies[2], [[INT32, 34, -42]]);
    assert_eq!(text(read.replies[3][0]), b"9007199254740993");
    assert_eq!(text(read.replies[15][0]), b"Some");
    assert_eq!(text(read.replies[17][0]), b"\xe2\x82\xacuro");
    assert_eq!(read.replies[25].iter().map(|row| row[2]).collect::<Vec<_>>(), [4, 1, 0, 2, 1, 0, 1, 3]);
    assert_eq!(read, models::replies(RECORDED, &WIDE));
}

#[test]
fn a_recorded_stream_cut_at_every_byte_has_the_same_rows() {
    let expected = feed::whole(RECORDED, &WIDE);
    for first in 1..RECORDED.len() {
        for room in [0, 1, 1000] {
            let mut sizes = [first].into_iter();
            let mut cuts = || (sizes.next().unwrap_or(RECORDED.len()), room);
            assert_eq!(feed::pieces(RECORDED, &WIDE, &mut cuts), expected, "cut at {first}");
        }
    }
    for size in 1..40 {
        assert_eq!(feed::pieces(RECORDED, &WIDE, &mut || (size, 2)), expected, "pieces of {size}");
    }
}

#[test]
fn a_recorded_stream_cut_at_any_two_bytes_has_the_same_rows() {
    // Two cuts inside one reply and its neighbour: a window slides over the stream.
    let expected = feed::whole(RECORDED, &WIDE);
    for first in 1..RECORDED.len() - 1 {
        for second in 1..(RECORDED.len() - first).min(48) {
            let mut sizes = [first, second].into_iter();
            let mut cuts = || (sizes.next().unwrap_or(RECORDED.len()), 1000);
            assert_eq!(feed::pieces(RECORDED, &WIDE, &mut cuts), expected, "cut at {first} and {second} later");
        }
    }
}

#[test]
fn every_prefix_of_a_recorded_stream_ends_without_complaint() {
    for end in 0..=RECORDED.len() {
        let read = feed::whole(&RECORDED[..end], &WIDE);
        assert_eq!(read, models::replies(&RECORDED[..end], &WIDE));
        assert_eq!(read.status, status::MORE);
    }
}

#[test]
fn bytes_that_are_not_resp_are_refused_where_they_stand() {
    let cases: [(&[u8], usize); 40] = [
        (b"hello\r\n", 0),
        (b"+OK\n", 3),
        (b"+OK\r+", 4),
        (b"+O\nK\r\n", 2),
        (b":1\r\nx", 4),
        (b":\r\n", 0),
        (b":1a\r\n", 0),
        (b":--1\r\n", 0),
        (b":1.0\r\n", 0),
        (b"$-2\r\n", 0),
        (b"$+1\r\n", 0),
        (b"$\r\n", 0),
        (b"$99999999999999999999\r\n", 0),
        (b"$2147483648\r\n", 0),
        (b"$536870913\r\n", 0),
        (b"$3\r\nfooxx", 7),
        (b"$3\r\nfoo\rx", 8),
        (b"*-2\r\n", 0),
        (b"*1048576\r\n", 0),
        (b"%-1\r\n", 0),
        (b"%524288\r\n", 0),
        (b"~-1\r\n", 0),
        (b">-1\r\n", 0),
        (b">?\r\n", 0),
        (b"|?\r\n", 0),
        (b"!-1\r\n", 0),
        (b"=3\r\ntxt\r\n", 0),
        (b"=5\r\ntxtxx\r\n", 7),
        (b"#x\r\n", 0),
        (b"#\r\n", 0),
        (b",1,5\r\n", 0),
        (b"(1.5\r\n", 0),
        (b"_x\r\n", 0),
        (b".\r\n", 0),
        (b";3\r\nfoo\r\n", 0),
        (b"*?\r\n.x\r\n", 4),
        (b"%?\r\n+k\r\n.\r\n", 8),
        (b"$?\r\n+x\r\n", 4),
        (b"*1\r\n>1\r\n:1\r\n", 4),
        (b"*?\r\n|0\r\n.\r\n", 8),
    ];
    for (stream, at) in cases {
        let read = feed::whole(stream, &WIDE);
        assert_eq!((read.status, read.bad_at), (status::BAD, at), "{}", stream.escape_ascii());
        assert_eq!(read, models::replies(stream, &WIDE));
        assert_eq!(feed::pieces(stream, &WIDE, &mut || (1, 1)), read);
    }
}

#[test]
fn limits_hold_for_what_is_declared_and_for_what_comes() {
    let tight = Limits { max_bulk: 4, max_rows: 3, max_depth: 2, max_line: 16 };
    let cases: [(&[u8], i32); 12] = [
        (b"$4\r\nabcd\r\n", status::MORE),
        (b"$5\r\n", status::BAD),
        (b"*2\r\n:1\r\n:2\r\n", status::MORE),
        (b"*3\r\n", status::BAD),
        (b"*?\r\n:1\r\n:2\r\n", status::MORE),
        (b"*?\r\n:1\r\n:2\r\n:3\r\n", status::BAD),
        (b"*1\r\n*1\r\n:1\r\n", status::MORE),
        (b"*1\r\n*1\r\n*0\r\n", status::BAD),
        (b"+0123456789abcdef", status::MORE),
        (b"+0123456789abcdefg", status::BAD),
        (b"+0123456789abcdef\r\n", status::MORE),
        (b":00000000000000001\r\n", status::BAD),
    ];
    for (stream, expected) in cases {
        let read = feed::whole(stream, &tight);
        assert_eq!(read.status, expected, "{}", stream.escape_ascii());
        assert_eq!(read, models::replies(stream, &tight));
    }
}

#[test]
fn a_long_reply_in_small_pieces_is_read_once() {
    // 1 MiB a byte at a time: were the body searched anew for every piece, this would take 2^39 steps.
    let mut stream = b"$1048576\r\n".to_vec();
    stream.resize(stream.len() + 1_048_576, b'v');
    stream.extend_from_slice(b"\r\n");
    let mut scanner = Scanner::new(WIDE);
    let mut words = [0; 11];
    for to in 1..stream.len() {
        assert_eq!(scanner.scan(&stream, 0, to, &mut words), Ok(0));
    }
    assert_eq!(scanner.scan(&stream, 0, stream.len(), &mut words), Ok(1));
    assert_eq!(words[8..], [kind::BULK, 10, 1_048_576]);
}

proptest! {
    #[test]
    fn well_formed_streams(data in prop::collection::vec(any::<u8>(), 0..300), cuts in prop::collection::vec((1usize..40, 0usize..6), 1..20)) {
        let stream = generate::stream(&mut Source(&data));
        let expected = models::replies(&stream, &WIDE);
        prop_assert_eq!(expected.status, status::MORE);
        prop_assert_eq!(expected.consumed, stream.len());
        prop_assert_eq!(&feed::whole(&stream, &WIDE), &expected);
        let mut turn = cuts.iter().cycle();
        prop_assert_eq!(&feed::pieces(&stream, &WIDE, &mut || *turn.next().unwrap()), &expected);
    }

    #[test]
    fn damaged_streams(data in prop::collection::vec(any::<u8>(), 0..300), harm in prop::collection::vec(any::<u8>(), 1..8), size in 1usize..30) {
        let mut stream = generate::stream(&mut Source(&data));
        generate::damage(&mut Source(&harm), &mut stream);
        let limits = Limits { max_bulk: 64, max_rows: 24, max_depth: 3, max_line: 30 };
        let expected = models::replies(&stream, &limits);
        prop_assert_eq!(&feed::whole(&stream, &limits), &expected);
        prop_assert_eq!(&feed::pieces(&stream, &limits, &mut || (size, 3)), &expected);
    }
}
