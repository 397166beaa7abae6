//! One operation → one frame: the words that describe it, the bytes it takes, and writing them.
//!
//! ```text
//! desc      head | argc | length of each argument                 head = opcode | flags << 8 | key index << 16
//! scratch   the arguments back to back
//! frame     *3\r\n $3\r\nSET\r\n $2\r\nup\r\n $1\r\n1\r\n           count, name, arguments
//! asking    *1\r\n$6\r\nASKING\r\n in front of it                  when FLAG_ASKING is set
//! raw       argument 1 as it is                              opcode RAW: argument 0 only decides the slot
//! same      the frame before it with another key             when FLAG_SAME is set: the key is all that is given
//! ```
//!
//! Invariant: a frame is exactly `size` bytes, and an operation exists only after every word and byte of it was found in
//! range, so writing cannot fail.

use super::{FLAG_ASKING, FLAG_SAME, KEY_NONE};

const ASKING: &[u8] = b"*1\r\n$6\r\nASKING\r\n";

/// Opcode of frames that the caller made.
const RAW: usize = NAMES.len();

/// Names by opcode below RAW, as bulks. Opcode 0, GENERIC, has none: its first argument is the name.
const NAMES: [&[u8]; 12] = [
    b"",
    b"$3\r\nGET\r\n",
    b"$3\r\nSET\r\n",
    b"$3\r\nDEL\r\n",
    b"$6\r\nINCRBY\r\n",
    b"$6\r\nEXPIRE\r\n",
    b"$4\r\nHGET\r\n",
    b"$7\r\nHINCRBY\r\n",
    b"$7\r\nEVALSHA\r\n",
    b"$7\r\nPEXPIRE\r\n",
    b"$4\r\nPTTL\r\n",
    b"$6\r\nEXISTS\r\n",
];

/// Reads operations one after the other; `None` when the next one is not well formed.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operations<'a> {
    desc: &'a [i32],
    scratch: &'a [u8],
    /// The last one that was given in full, if it can serve as model.
    model: Option<Model<'a>>,
}

/// What operations that are the same but for their key take over.
#[derive(Debug, Clone, Copy)]
struct Model<'a> {
    /// Opcode and key index.
    head: u32,
    name: &'a [u8],
    lengths: &'a [i32],
    bytes: &'a [u8],
    /// Of the frame, without its key's argument.
    size: usize,
}

/// Bits of a head that must agree.
const ALIKE: u32 = KEY_NONE << 16 | 0xff;

/// One operation, checked.
#[derive(Debug, Clone, Copy)]
pub(super) struct Operation<'a> {
    name: &'a [u8],
    pub flags: u32,
    raw: bool,
    lengths: &'a [i32],
    bytes: &'a [u8],
    pub key: Option<&'a [u8]>,
    /// The argument that the key takes the place of, when `lengths` and `bytes` are those of another operation.
    swapped: Option<usize>,
    pub size: usize,
}

impl<'a> Operations<'a> {
    pub fn new(scratch: &'a [u8], desc: &'a [i32]) -> Self {
        Self { desc, scratch, model: None }
    }

    #[inline(always)]
    pub fn next(&mut self) -> Option<Operation<'a>> {
        let (&[head, argc], rest) = self.desc.split_first_chunk()?;
        let (lengths, rest) = rest.split_at_checked(usize::try_from(argc).ok()?)?;
        let head = head as u32;
        let opcode = (head & 0xff) as usize;
        if head >> 8 & FLAG_SAME != 0 {
            let &[length] = lengths else { return None };
            let (key, scratch) = self.scratch.split_at_checked(usize::try_from(length).ok()?)?;
            self.desc = rest;
            self.scratch = scratch;
            return self.same(head, key);
        }
        let raw = opcode == RAW;
        let name = if raw { b"" } else { *NAMES.get(opcode)? };
        if opcode == 0 && argc == 0 || raw && argc != 2 {
            return None;
        }
        let mut size = 3 + name.len() + digits(argc as u32 + u32::from(!name.is_empty()));
        let mut total = 0usize;
        for &length in lengths {
            let length = u32::try_from(length).ok()?;
            total = total.checked_add(length as usize)?;
            size += 5 + digits(length);
        }
        let (bytes, scratch) = self.scratch.split_at_checked(total)?;
        size = if raw { lengths[1] as usize } else { size + total };
        let flags = head >> 8 & 0xff;
        let key = match head >> 16 & KEY_NONE {
            KEY_NONE => None,
            0 => Some(bytes.get(..*lengths.first()? as usize)?),
            index => {
                let before: usize = lengths.get(..index as usize)?.iter().map(|&length| length as usize).sum();
                Some(bytes.get(before..before + *lengths.get(index as usize)? as usize)?)
            }
        };
        self.desc = rest;
        self.scratch = scratch;
        self.model = match key {
            Some(key) if !raw => {
                Some(Model { head: head & ALIKE, name, lengths, bytes, size: size - argument_size(key.len()) })
            }
            _ => None,
        };
        size += asking_size(flags);
        Some(Operation { name, flags, raw, lengths, bytes, key, swapped: None, size })
    }

    /// The operation before with another key.
    #[inline(always)]
    fn same(&self, head: u32, key: &'a [u8]) -> Option<Operation<'a>> {
        let Model { head: alike, name, lengths, bytes, size } = self.model?;
        if head & ALIKE != alike {
            return None;
        }
        let flags = head >> 8 & 0xff;
        let size = size + argument_size(key.len()) + asking_size(flags);
        let swapped = Some((head >> 16 & KEY_NONE) as usize);
        Some(Operation { name, flags, raw: false, lengths, bytes, key: Some(key), swapped, size })
    }
}

impl Operation<'_> {
    /// Writes the frame into `out`, which is `size` bytes long.
    #[inline(always)]
    pub fn write(&self, out: &mut [u8]) {
        let mut pen = Pen { out, at: 0 };
        if self.flags & FLAG_ASKING != 0 {
            pen.put(ASKING);
        }
        if self.raw {
            pen.put(&self.bytes[self.lengths[0] as usize..]);
            return;
        }
        pen.count(b'*', self.lengths.len() as u32 + u32::from(!self.name.is_empty()));
        pen.put(self.name);
        let mut rest = self.bytes;
        let swapped = self.swapped.unwrap_or(usize::MAX);
        for (index, &length) in self.lengths.iter().enumerate() {
            let (own, behind) = rest.split_at(length as usize);
            let argument = if index == swapped { self.key.unwrap_or_default() } else { own };
            pen.count(b'$', argument.len() as u32);
            pen.put(argument);
            pen.put(b"\r\n");
            rest = behind;
        }
    }
}

/// Bytes of an argument in its frame.
#[inline(always)]
fn argument_size(length: usize) -> usize {
    5 + digits(length as u32) + length
}

#[inline(always)]
fn asking_size(flags: u32) -> usize {
    if flags & FLAG_ASKING == 0 { 0 } else { ASKING.len() }
}

struct Pen<'a> {
    out: &'a mut [u8],
    at: usize,
}

impl Pen<'_> {
    #[inline(always)]
    fn put(&mut self, bytes: &[u8]) {
        self.out[self.at..self.at + bytes.len()].copy_from_slice(bytes);
        self.at += bytes.len();
    }

    /// `<tag><value>\r\n`
    #[inline(always)]
    fn count(&mut self, tag: u8, value: u32) {
        let digit = |value: u32| b'0' + (value % 10) as u8;
        match value {
            0..10 => self.put(&[tag, digit(value), b'\r', b'\n']),
            10..100 => self.put(&[tag, digit(value / 10), digit(value), b'\r', b'\n']),
            100..1000 => self.put(&[tag, digit(value / 100), digit(value / 10), digit(value), b'\r', b'\n']),
            _ => self.long_count(tag, value),
        }
    }

    fn long_count(&mut self, tag: u8, value: u32) {
        let mut text = [0; 10];
        let mut at = text.len();
        let mut rest = value;
        while rest > 0 {
            at -= 1;
            text[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
        }
        self.put(&[tag]);
        self.put(&text[at..]);
        self.put(b"\r\n");
    }
}

/// Decimal digits of `value`.
#[inline(always)]
fn digits(value: u32) -> usize {
    match value {
        0..10 => 1,
        10..100 => 2,
        100..1000 => 3,
        _ => value.ilog10() as usize + 1,
    }
}
