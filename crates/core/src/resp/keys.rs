//! The keys of a turn's operations, as they lie between the other arguments.
//!
//! ```text
//! desc      head | argc | length of each argument       head = opcode | flags << 8 | key index << 16
//! scratch   [ … ] [ … ] [ key ] [ … ]                       [ key ] alone when FLAG_SAME is set
//! ```

use super::{FLAG_SAME, FLAG_UNCOUNTED, KEY_NONE};

/// Bits of a head that are clear when the first argument is the key and the operation counts.
const HEAD_PLAIN: u32 = KEY_NONE << 16 | FLAG_UNCOUNTED << 8;

/// An operation's key, if it has one, and whether that counts.
type Step<'a> = (Option<&'a [u8]>, bool);

/// Walks the operations of `desc`, whose arguments lie in `scratch`, and gives the keys of those that count as hits: they have a
/// key and not [`FLAG_UNCOUNTED`]. Ends before an operation that is not well formed.
#[derive(Debug, Clone)]
pub struct Keys<'a> {
    desc: &'a [i32],
    scratch: &'a [u8],
    left: usize,
}

impl<'a> Keys<'a> {
    /// The first `count` operations.
    #[must_use]
    pub fn new(scratch: &'a [u8], desc: &'a [i32], count: usize) -> Self {
        Self { desc, scratch, left: count }
    }

    /// The next operation.
    #[inline(always)]
    pub fn step(&mut self) -> Option<Step<'a>> {
        self.left = self.left.checked_sub(1)?;
        match self.plain() {
            Some(key) => Some((Some(key), true)),
            None => self.uncommon(),
        }
    }

    /// The key of the next operation if that is one as most are: with one argument, the key, and counted.
    #[inline(always)]
    fn plain(&mut self) -> Option<&'a [u8]> {
        let (&[head, 1, length], rest) = self.desc.split_first_chunk()? else { return None };
        if head as u32 & HEAD_PLAIN != 0 {
            return None;
        }
        let (key, scratch) = self.scratch.split_at_checked(usize::try_from(length).ok()?)?;
        self.desc = rest;
        self.scratch = scratch;
        Some(key)
    }

    /// The next operation, whatever it is like.
    #[inline(always)]
    fn uncommon(&mut self) -> Option<Step<'a>> {
        let (&[head, argc], rest) = self.desc.split_first_chunk()?;
        let (step, desc, scratch) = uncommon(head, argc, rest, self.scratch)?;
        self.desc = desc;
        self.scratch = scratch;
        Some(step)
    }
}

/// An operation that is not one plain key, and what lies behind it in `desc` and `scratch`. Not inlined, so that the walk over
/// plain ones keeps its state in registers.
#[inline(never)]
fn uncommon<'a>(head: i32, argc: i32, desc: &'a [i32], scratch: &'a [u8]) -> Option<(Step<'a>, &'a [i32], &'a [u8])> {
    let (lengths, rest) = desc.split_at_checked(usize::try_from(argc).ok()?)?;
    let head = head as u32;
    let same = head >> 8 & FLAG_SAME != 0;
    let index = if same { 0 } else { (head >> 16 & KEY_NONE) as usize };
    let (mut from, mut total) = (0usize, 0usize);
    for (at, &length) in lengths.iter().enumerate() {
        if at == index {
            from = total;
        }
        total = total.checked_add(usize::try_from(length).ok()?)?;
    }
    let (bytes, scratch) = scratch.split_at_checked(total)?;
    let key = lengths.get(index).and_then(|&length| bytes.get(from..from + length as usize));
    Some(((key, head >> 8 & FLAG_UNCOUNTED == 0), rest, scratch))
}

impl<'a> Iterator for Keys<'a> {
    type Item = &'a [u8];

    #[inline(always)]
    fn next(&mut self) -> Option<&'a [u8]> {
        loop {
            self.left = self.left.checked_sub(1)?;
            if let Some(key) = self.plain() {
                return Some(key);
            }
            if let (Some(key), true) = self.uncommon()? {
                return Some(key);
            }
        }
    }
}
