//! `createScanner`: the reader of one connection's replies, as an object of two functions that share it.

use crate::State;
use crate::call::{Call, Fault, Returned, function};
use keylane_core::resp::scan::{Limits, Scanner};
use std::cell::RefCell;
use std::rc::Rc;

/// Limits above this, Infinity too, count as this.
const MOST: usize = i32::MAX as usize;

/// `createScanner(maxBulk, maxRows, maxDepth, maxLine)`
pub fn create(call: &Call<'_, 4>, _: &State) -> Result<Returned, Fault> {
    let limit = |index, name| call.count(index, name, MOST, true).map(|limit| limit as u32);
    let limits = Limits {
        max_bulk: limit(0, "maxBulk")?,
        max_rows: limit(1, "maxRows")?,
        max_depth: limit(2, "maxDepth")?,
        max_line: limit(3, "maxLine")?,
    };
    let scanner = Rc::new(RefCell::new(Scanner::new(limits)));
    let object = call.env().object()?;
    call.env().bind(object, function!("scan", scan), Rc::clone(&scanner))?;
    call.env().bind(object, function!("reset", reset), scanner)?;
    Ok(object)
}

fn scan(call: &Call<'_, 4>, scanner: &RefCell<Scanner>) -> Result<Returned, Fault> {
    let buf = call.bytes(0, "buf")?;
    let to = call.count(2, "to", buf.len(), false)?;
    let from = call.count(1, "from", to, false)?;
    let rows = call.words_mut(3, "rows")?;
    match scanner.borrow_mut().scan(buf, from, to, rows) {
        Ok(replies) => call.int(replies),
        Err(misuse) => Err(Fault::Range(misuse.to_string())),
    }
}

fn reset(call: &Call<'_, 0>, scanner: &RefCell<Scanner>) -> Result<Returned, Fault> {
    scanner.borrow_mut().reset();
    call.undefined()
}
