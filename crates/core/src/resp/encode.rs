//! A turn's operations → frames, grouped by node.
//!
//! Two passes: the first finds each operation's node and the size of its frame, the second writes. Invariant: nothing the
//! caller owns is written before the whole result is known to fit.
//!
//! ```text
//! desc       [ op 0 | op 1 | op 2 ]            pass 1   slot → held? → node → alias       place  [ 3 0 3 ]
//! out        [ frame 0 | frame 2 | frame 1 ]   pass 2   nodes in order of first use, issue order kept inside
//! sections   [ 3 offset bytes 2 | 0 offset bytes 1 ]
//! ```

use super::frame::Operations;
use super::{FLAG_READ, SECTION_WORDS, place as placed};
use crate::slot::{SLOTS, slot};
use std::fmt;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

/// What decides an operation's node. All words may be shared with other threads; they are read one by one, relaxed.
#[derive(Debug, Clone, Copy)]
pub struct Tables<'a> {
    /// Slot → node, or negative; 16,384 words.
    pub slots: &'a [AtomicI32],
    /// Bit `slot & 31` of word `slot >> 5` holds a slot back; 512 words.
    pub held: &'a [AtomicI32],
    /// Node → node that answers its reads.
    pub alias: &'a [AtomicI32],
}

/// Why operations cannot be encoded. Nothing was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EncodeError {
    /// `slots` or `held` is too short.
    Tables,
    /// `place` has fewer words than there are operations.
    Place,
    /// `sections` has fewer than four words a node.
    Sections,
    /// This operation is not well formed, or its words or bytes are missing.
    Operation(usize),
    /// The frames exceed 2^31 - 1 bytes.
    TooLarge,
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tables => f.write_str("the slot tables are too short"),
            Self::Place => f.write_str("place is shorter than the number of operations"),
            Self::Sections => f.write_str("sections is shorter than four words a node"),
            Self::Operation(index) => write!(f, "operation {index} does not match its bytes"),
            Self::TooLarge => f.write_str("the frames exceed 2147483647 bytes"),
        }
    }
}

impl std::error::Error for EncodeError {}

/// One node's part of the output.
#[derive(Debug, Clone, Copy, Default)]
struct Run {
    operations: u32,
    bytes: usize,
    cursor: usize,
}

/// Working memory of `encode`, kept between calls; a word an operation and a few a node.
#[derive(Debug, Default)]
pub struct Encoder {
    places: Vec<i32>,
    runs: Vec<Run>,
    /// Nodes in order of first use.
    used: Vec<u32>,
}

impl Encoder {
    /// Encodes the first `count` operations of `desc`, whose arguments lie in `scratch`; see the drawing. Returns the bytes
    /// written, or minus the bytes `out` must hold.
    ///
    /// An operation whose node is no index into `alias` counts as unassigned.
    ///
    /// # Errors
    /// [`EncodeError`], when an array is too short or an operation is not well formed.
    #[expect(clippy::too_many_arguments, reason = "the caller owns every array")]
    pub fn encode(
        &mut self,
        scratch: &[u8],
        desc: &[i32],
        count: usize,
        tables: &Tables<'_>,
        out: &mut [u8],
        place: &mut [i32],
        sections: &mut [i32],
    ) -> Result<i32, EncodeError> {
        if tables.slots.len() < SLOTS || tables.held.len() < SLOTS / 32 {
            return Err(EncodeError::Tables);
        }
        let place = place.get_mut(..count).ok_or(EncodeError::Place)?;
        if sections.len() / SECTION_WORDS < tables.alias.len() {
            return Err(EncodeError::Sections);
        }
        let total = self.measure(scratch, desc, count, tables)?;
        if total as usize > out.len() {
            return Ok(-total);
        }
        place.copy_from_slice(&self.places);
        let mut offset = 0;
        for (section, &node) in sections.chunks_exact_mut(SECTION_WORDS).zip(&self.used) {
            let run = &mut self.runs[node as usize];
            run.cursor = offset;
            section.copy_from_slice(&[node as i32, offset as i32, run.bytes as i32, run.operations as i32]);
            offset += run.bytes;
        }
        let mut operations = Operations::new(scratch, desc);
        for (index, &node) in self.places.iter().enumerate() {
            let operation = operations.next().ok_or(EncodeError::Operation(index))?;
            if node >= 0 {
                let cursor = &mut self.runs[node as usize].cursor;
                operation.write(&mut out[*cursor..*cursor + operation.size]);
                *cursor += operation.size;
            }
        }
        Ok(total)
    }

    /// The first pass: fills `places`, `runs` and `used`, and returns the bytes of all frames.
    fn measure(&mut self, scratch: &[u8], desc: &[i32], count: usize, tables: &Tables<'_>) -> Result<i32, EncodeError> {
        self.places.clear();
        self.used.clear();
        self.runs.clear();
        self.runs.resize(tables.alias.len(), Run::default());
        let mut operations = Operations::new(scratch, desc);
        let mut total = 0usize;
        for index in 0..count {
            let operation = operations.next().ok_or(EncodeError::Operation(index))?;
            let mut node = match operation.key {
                Some(key) => owner(tables, slot(key), operation.flags & FLAG_READ != 0),
                None => placed::KEYLESS,
            };
            if node >= 0 {
                match self.runs.get_mut(node as usize) {
                    Some(run) => {
                        if run.operations == 0 {
                            self.used.push(node as u32);
                        }
                        run.operations += 1;
                        run.bytes += operation.size;
                        total += operation.size;
                    }
                    None => node = placed::UNASSIGNED,
                }
            }
            self.places.push(node);
        }
        i32::try_from(total).map_err(|_| EncodeError::TooLarge)
    }
}

/// The node that gets an operation on `slot`, or why none does.
#[inline(always)]
fn owner(tables: &Tables<'_>, slot: u16, read: bool) -> i32 {
    let slot = slot as usize;
    if tables.held[slot >> 5].load(Relaxed) >> (slot & 31) & 1 != 0 {
        return placed::HELD;
    }
    let node = tables.slots[slot].load(Relaxed);
    if node < 0 {
        return placed::UNASSIGNED;
    }
    if !read {
        return node;
    }
    tables.alias.get(node as usize).map_or(placed::UNASSIGNED, |alias| alias.load(Relaxed).max(placed::UNASSIGNED))
}

/// As [`Encoder::encode`], but every operation goes into one run, in order; keys are not looked at.
///
/// # Errors
/// [`EncodeError`], when an operation is not well formed.
pub fn encode_to(scratch: &[u8], desc: &[i32], count: usize, out: &mut [u8]) -> Result<i32, EncodeError> {
    let mut operations = Operations::new(scratch, desc);
    let mut total = 0usize;
    for index in 0..count {
        total += operations.next().ok_or(EncodeError::Operation(index))?.size;
    }
    let needed = i32::try_from(total).map_err(|_| EncodeError::TooLarge)?;
    if total > out.len() {
        return Ok(-needed);
    }
    let mut operations = Operations::new(scratch, desc);
    let mut rest = out;
    for index in 0..count {
        let operation = operations.next().ok_or(EncodeError::Operation(index))?;
        let (frame, behind) = rest.split_at_mut(operation.size);
        operation.write(frame);
        rest = behind;
    }
    Ok(needed)
}
