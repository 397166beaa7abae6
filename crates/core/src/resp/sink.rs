//! Where rows of the reply in progress go: straight into the caller's table, or, once the reply was cut off or the table
//! ran out, into the scanner's own memory, with starts counted from the reply's first byte.

/// Kind, start, length.
pub(super) type Row = [i32; 3];

pub(super) trait Sink {
    /// Rows of this reply so far.
    fn count(&self) -> usize;
    /// Whether another row would not fit.
    fn is_full(&self) -> bool;
    /// Takes a row; the caller has checked `is_full`. `start` is absolute.
    fn push(&mut self, kind: i32, start: usize, length: i32);
    /// Kind of row `index` of this reply.
    fn kind(&self, index: usize) -> i32;
    /// Sets the length of row `index` of this reply.
    fn set_length(&mut self, index: usize, length: i32);
}

/// The caller's table: rows before `first` belong to earlier replies.
pub(super) struct Table<'a> {
    pub rows: &'a mut [Row],
    pub first: usize,
    pub used: usize,
}

impl Sink for Table<'_> {
    #[inline(always)]
    fn count(&self) -> usize {
        self.used - self.first
    }

    #[inline(always)]
    fn is_full(&self) -> bool {
        self.used >= self.rows.len()
    }

    #[inline(always)]
    fn push(&mut self, kind: i32, start: usize, length: i32) {
        self.rows[self.used] = [kind, start as i32, length];
        self.used += 1;
    }

    fn kind(&self, index: usize) -> i32 {
        self.rows[self.first + index][0]
    }

    fn set_length(&mut self, index: usize, length: i32) {
        self.rows[self.first + index][2] = length;
    }
}

/// The scanner's memory: `base` is where the reply begins in the buffer of this call.
pub(super) struct Kept<'a> {
    pub rows: &'a mut Vec<Row>,
    pub base: usize,
}

impl Sink for Kept<'_> {
    fn count(&self) -> usize {
        self.rows.len()
    }

    fn is_full(&self) -> bool {
        false
    }

    fn push(&mut self, kind: i32, start: usize, length: i32) {
        self.rows.push([kind, (start - self.base) as i32, length]);
    }

    fn kind(&self, index: usize) -> i32 {
        self.rows[index][0]
    }

    fn set_length(&mut self, index: usize, length: i32) {
        self.rows[index][2] = length;
    }
}
