//! RESP2 and RESP3 on the wire: operations to frames (`encode`), replies to rows (`scan`).
//!
//! The numbers here are the contract with `src/native/types.ts`, word for word; change both or neither.

pub mod encode;
pub mod keys;
pub mod line;
pub mod scan;

mod frame;
mod item;
mod nest;
mod read;
mod sink;

/// Kinds of rows.
///
/// `length` is bytes for texts, direct children for aggregates (2n for a map of n pairs), the value for `INT32` and `BOOL`.
/// `start` is the first byte of a text's payload, else the byte behind the type byte.
pub mod kind {
    /// `+`
    pub const SIMPLE: i32 = 1;
    /// `-`
    pub const ERROR: i32 = 2;
    /// `:` when the value fits 32 bits signed.
    pub const INT32: i32 = 3;
    /// `:` otherwise.
    pub const INT: i32 = 4;
    /// `$`, and the pieces (`;`) of a streamed string.
    pub const BULK: i32 = 5;
    /// `_`, `$-1`, `*-1`
    pub const NULL: i32 = 6;
    /// `*`
    pub const ARRAY: i32 = 7;
    /// `%`
    pub const MAP: i32 = 8;
    /// `~`
    pub const SET: i32 = 9;
    /// `>`
    pub const PUSH: i32 = 10;
    /// `#`
    pub const BOOL: i32 = 11;
    /// `,`
    pub const DOUBLE: i32 = 12;
    /// `(`
    pub const BIGNUM: i32 = 13;
    /// `!`
    pub const BLOB_ERROR: i32 = 14;
    /// `=`
    pub const VERBATIM: i32 = 15;
    /// `|`
    pub const ATTRIBUTE: i32 = 16;
    /// `$?`
    pub const STREAM: i32 = 17;
    /// Added to the kind of a text that holds a byte ≥ 0x80.
    pub const HIGH: i32 = 0x100;
}

/// Header words in front of the rows, and the width of a row.
pub mod header {
    /// Words in front of the first row.
    pub const ROWS_BASE: usize = 8;
    /// Words of a row: kind, start, length.
    pub const ROW_WORDS: usize = 3;
    /// Offset just past the last complete reply.
    pub const CONSUMED: usize = 0;
    /// Rows of complete replies.
    pub const ROWS: usize = 1;
    /// One of [`super::status`].
    pub const STATUS: usize = 2;
    /// Bytes known to be missing, at least; 0 when unknown.
    pub const NEEDED: usize = 3;
    /// Rows the table must hold, when it is full and no reply fitted.
    pub const ROWS_NEEDED: usize = 4;
    /// Offset of the offending byte, when the status is `BAD`.
    pub const BAD_AT: usize = 5;
}

/// Why a scan returned.
pub mod status {
    /// Out of bytes.
    pub const MORE: i32 = 0;
    /// Out of rows.
    pub const TABLE_FULL: i32 = 1;
    /// Not RESP, or over a limit.
    pub const BAD: i32 = 2;
}

/// `place` of operations that were not encoded.
pub mod place {
    /// No node is known for the slot.
    pub const UNASSIGNED: i32 = -1;
    /// The slot is held back.
    pub const HELD: i32 = -2;
    /// The operation has no key.
    pub const KEYLESS: i32 = -3;
}

/// Set in an operation's flags when a replica may answer it.
pub const FLAG_READ: u32 = 1;
/// Set in an operation's flags when `ASKING` must precede it.
pub const FLAG_ASKING: u32 = 2;
/// Set in an operation's flags when its key is not to be counted as hit: it was counted before, or it is no caller's.
pub const FLAG_UNCOUNTED: u32 = 4;
/// Set in an operation's flags when only its key is given, as its one argument: all others are those of the operation before.
pub const FLAG_SAME: u32 = 8;
/// Key index of an operation without a key.
pub const KEY_NONE: u32 = 0x7fff;
/// Words per section: node, offset, bytes, operations.
pub const SECTION_WORDS: usize = 4;
