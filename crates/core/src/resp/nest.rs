//! What of a reply is open: aggregates, attributes and streams whose children are still to come.
//!
//! Invariant: frames are opened and closed in step with the rows; a reply is whole exactly when a value ends and no frame is
//! open. An attribute is no value: it ends without being a child of what surrounds it.
//!
//! ```text
//! *2  |1  +a +b  :7  %?  +k :1  .
//! 2                                array, two children to come
//! 2   A2                           attribute, two children to come
//! 2   A1 -                         … complete: what it annotates must follow
//! 1              1   S0            the 7 was a child; a streamed map, none so far
//! 1                  S1 S2  -      … its end: the array's last child, so the reply is whole
//! ```

use super::kind;
use super::line::Count;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Counted,
    Attribute,
    Streamed,
    Pieces,
}

/// Something open: its row, and its children to come, or so far when it is streamed.
#[derive(Debug, Clone, Copy)]
struct Frame {
    row: u32,
    children: u32,
    form: Form,
}

/// What an item did to the reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Reply {
    Open,
    Whole,
}

#[derive(Debug, Default)]
pub(super) struct Nest {
    open: Vec<Frame>,
    /// An attribute is complete and what it annotates has not begun.
    annotated: bool,
}

/// How many children an aggregate announces, or nothing when its kind forbids the count.
pub(super) fn children(kind: i32, count: Option<Count>) -> Option<Count> {
    match count? {
        Count::Of(pairs) if matches!(kind, kind::MAP | kind::ATTRIBUTE) => pairs.checked_mul(2).map(Count::Of),
        Count::Of(children) if kind != kind::STREAM => Some(Count::Of(children)),
        Count::Streamed if !matches!(kind, kind::PUSH | kind::ATTRIBUTE) => Some(Count::Streamed),
        _ => None,
    }
}

impl Nest {
    pub fn depth(&self) -> usize {
        self.open.len()
    }

    /// Whether only pieces of a streamed string may come.
    #[inline(always)]
    pub fn in_pieces(&self) -> bool {
        self.open.last().is_some_and(|frame| frame.form == Form::Pieces)
    }

    /// Whether an item of this type may come now. Pushes stand between replies, never inside one.
    pub fn expects(&self, tag: u8) -> bool {
        match (self.open.last().map(|frame| frame.form), tag) {
            (Some(Form::Pieces), _) => tag == b';',
            (form, b'.') => form == Some(Form::Streamed) && !self.annotated,
            (form, b'>') => form.is_none() && !self.annotated,
            _ => b"+-:$*%~#,(!=|_".contains(&tag),
        }
    }

    /// A value without children has come.
    #[inline(always)]
    pub fn value(&mut self) -> Reply {
        self.annotated = false;
        self.close()
    }

    /// A row whose children follow has come.
    pub fn enter(&mut self, kind: i32, row: usize, children: Count) -> Reply {
        let (form, children) = match children {
            Count::Of(children) if kind == kind::ATTRIBUTE => (Form::Attribute, children),
            Count::Of(children) => (Form::Counted, children),
            _ if kind == kind::STREAM => (Form::Pieces, 0),
            _ => (Form::Streamed, 0),
        };
        self.annotated = form == Form::Attribute && children == 0;
        match form {
            Form::Attribute if children == 0 => Reply::Open,
            Form::Counted if children == 0 => self.close(),
            _ => {
                self.open.push(Frame { row: row as u32, children, form });
                Reply::Open
            }
        }
    }

    /// Row and children of the stream that is about to end.
    pub fn streamed(&self) -> Option<(usize, u32)> {
        self.open.last().map(|frame| (frame.row as usize, frame.children))
    }

    /// What is streamed has ended.
    pub fn end(&mut self) -> Reply {
        self.open.pop();
        self.close()
    }

    pub fn clear(&mut self) {
        self.open.clear();
        self.open.shrink_to(64);
        self.annotated = false;
    }

    pub fn memory(&self) -> usize {
        self.open.capacity() * size_of::<Frame>()
    }

    /// A value is complete: what is open has one child more, and may be complete with it.
    #[inline(always)]
    fn close(&mut self) -> Reply {
        while let Some(frame) = self.open.last_mut() {
            if matches!(frame.form, Form::Streamed | Form::Pieces) {
                frame.children += 1;
                return Reply::Open;
            }
            frame.children -= 1;
            if frame.children > 0 {
                return Reply::Open;
            }
            let form = frame.form;
            self.open.pop();
            if form == Form::Attribute {
                self.annotated = true;
                return Reply::Open;
            }
        }
        Reply::Whole
    }
}
