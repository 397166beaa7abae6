//! Streams of replies, prefixes and keys made from bytes: any bytes give something valid, small bytes something small, so
//! that random data, a shrinking test and a fuzzer can all drive it.

/// Draws numbers from bytes; zeros when they have run out.
pub struct Source<'a>(pub &'a [u8]);

impl Source<'_> {
    pub fn byte(&mut self) -> u8 {
        match self.0 {
            [first, rest @ ..] => {
                self.0 = rest;
                *first
            }
            [] => 0,
        }
    }

    pub fn below(&mut self, bound: usize) -> usize {
        if bound > 256 {
            (usize::from(self.byte()) << 8 | usize::from(self.byte())) % bound
        } else {
            usize::from(self.byte()) % bound
        }
    }

    pub fn bytes(&mut self, most: usize) -> Vec<u8> {
        let length = self.below(most + 1);
        (0..length).map(|_| self.byte()).collect()
    }

    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

/// A stream of well-formed replies of every type, until the source is empty.
pub fn stream(source: &mut Source<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    while !source.is_empty() {
        if source.below(16) == 1 {
            attribute(source, &mut out, 2);
        } else if source.below(16) == 1 {
            aggregate(source, &mut out, b'>', 1, 3);
            continue;
        }
        value(source, &mut out, 3);
    }
    out
}

fn value(source: &mut Source<'_>, out: &mut Vec<u8>, depth: usize) {
    let kinds = if depth > 0 { 20 } else { 13 };
    match source.below(kinds) {
        0 => text(source, out, b'$'),
        1 => out.extend_from_slice(b":0\r\n"),
        2 => out.extend_from_slice(b"+OK\r\n"),
        3 => line(source, out, b'+'),
        4 => line(source, out, b'-'),
        5 => number(source, out, b':', 20),
        6 => number(source, out, b'(', 60),
        7 => double(source, out),
        8 => out.extend_from_slice([b"#t\r\n", b"#f\r\n"][source.below(2)]),
        9 => out.extend_from_slice([b"_\r\n".as_slice(), b"$-1\r\n", b"*-1\r\n"][source.below(3)]),
        10 => text(source, out, b'!'),
        11 => verbatim(source, out),
        12 => pieces(source, out),
        13 | 14 => aggregate(source, out, b'*', 1, depth),
        15 => aggregate(source, out, b'%', 2, depth),
        16 => aggregate(source, out, b'~', 1, depth),
        17 => {
            attribute(source, out, depth - 1);
            value(source, out, depth - 1);
        }
        other => streamed(source, out, other % 3, depth),
    }
}

fn text(source: &mut Source<'_>, out: &mut Vec<u8>, tag: u8) {
    let body = source.bytes(40);
    push(out, tag, &body);
}

fn push(out: &mut Vec<u8>, tag: u8, body: &[u8]) {
    out.push(tag);
    out.extend_from_slice(format!("{}\r\n", body.len()).as_bytes());
    out.extend_from_slice(body);
    out.extend_from_slice(b"\r\n");
}

fn verbatim(source: &mut Source<'_>, out: &mut Vec<u8>) {
    let body = [b"txt:", source.bytes(20).as_slice()].concat();
    push(out, b'=', &body);
}

fn pieces(source: &mut Source<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(b"$?\r\n");
    for _ in 0..source.below(4) {
        let mut piece = source.bytes(10);
        piece.push(b'.');
        push(out, b';', &piece);
    }
    out.extend_from_slice(b";0\r\n");
}

fn line(source: &mut Source<'_>, out: &mut Vec<u8>, tag: u8) {
    out.push(tag);
    out.extend(source.bytes(24).iter().filter(|byte| !b"\r\n".contains(byte)));
    out.extend_from_slice(b"\r\n");
}

fn number(source: &mut Source<'_>, out: &mut Vec<u8>, tag: u8, most: usize) {
    out.push(tag);
    out.extend_from_slice([b"".as_slice(), b"-", b"+"][source.below(3)]);
    out.push(b'0' + source.byte() % 10);
    out.extend(source.bytes(most).iter().map(|byte| b'0' + byte % 10));
    out.extend_from_slice(b"\r\n");
}

fn double(source: &mut Source<'_>, out: &mut Vec<u8>) {
    out.extend_from_slice(
        [b",0\r\n".as_slice(), b",-1.5e-7\r\n", b",inf\r\n", b",-inf\r\n", b",nan\r\n", b",10.\r\n"][source.below(6)],
    );
}

fn aggregate(source: &mut Source<'_>, out: &mut Vec<u8>, tag: u8, width: usize, depth: usize) {
    let count = source.below(4);
    out.push(tag);
    out.extend_from_slice(format!("{count}\r\n").as_bytes());
    (0..count * width).for_each(|_| value(source, out, depth - 1));
}

fn attribute(source: &mut Source<'_>, out: &mut Vec<u8>, depth: usize) {
    aggregate(source, out, b'|', 2, depth.max(1));
}

fn streamed(source: &mut Source<'_>, out: &mut Vec<u8>, which: usize, depth: usize) {
    out.extend_from_slice([b"*?\r\n", b"%?\r\n", b"~?\r\n"][which]);
    let width = if which == 1 { 2 } else { 1 };
    (0..source.below(3) * width).for_each(|_| value(source, out, depth - 1));
    out.extend_from_slice(b".\r\n");
}

/// Turns a few bytes of `stream` into others.
pub fn damage(source: &mut Source<'_>, stream: &mut [u8]) {
    for _ in 0..source.below(3) {
        if !stream.is_empty() {
            let at = source.below(stream.len());
            stream[at] = b"\r\n$*:+-_0123456789?.;|>,(=\x80\xffa"[source.below(29)];
        }
    }
}

/// A key over an alphabet in which braces, shared prefixes and bytes past ASCII are common.
pub fn key(source: &mut Source<'_>, most: usize) -> Vec<u8> {
    let mut key = source.bytes(most);
    for byte in &mut key {
        *byte = match *byte {
            0..64 => b"{}{}:upfa"[usize::from(*byte) % 9],
            other => other,
        };
    }
    key
}
