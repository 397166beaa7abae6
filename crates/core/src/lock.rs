//! Locks that name their owner. A thread that died while it held one does not lock the others out: they see that it is dead
//! and take the lock over, told that what it guards may be half changed.
//!
//! Invariant: at most one living thread holds a lock. A holder is robbed only after its seat says that it is dead, and a dead
//! thread writes nothing more. A lock word that already names the caller is one that the caller left behind when it was
//! stopped, and counts as stolen too.

use crate::sync::{AtomicU32, Ordering, wait};
use crate::thread::{Owner, Seats};

/// Turns between two looks at whether the holder is alive.
const LOOK: u32 = 32;

/// How a lock was got.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Taken {
    /// Nobody held it: what it guards is whole.
    Free,
    /// Its holder was dead: what it guards may be half changed, and the caller mends it first.
    Stolen,
}

/// Takes the lock, waiting as long as its holder lives and works.
#[inline]
pub fn take(word: &AtomicU32, owner: Owner, seats: &Seats<'_>) -> Taken {
    loop {
        if let Some(taken) = try_take(word, owner, seats, u32::MAX) {
            return taken;
        }
    }
}

/// Takes the lock, or gives up after `turns` of waiting.
#[inline]
pub fn try_take(word: &AtomicU32, owner: Owner, seats: &Seats<'_>, turns: u32) -> Option<Taken> {
    match word.compare_exchange(0, owner.word(), Ordering::Acquire, Ordering::Relaxed) {
        Ok(_) => Some(Taken::Free),
        Err(holder) => contend(word, owner, seats, turns, holder),
    }
}

#[cold]
fn contend(word: &AtomicU32, owner: Owner, seats: &Seats<'_>, turns: u32, first: u32) -> Option<Taken> {
    let mut holder = first;
    for turn in 0..turns {
        if holder == 0 {
            match word.compare_exchange(0, owner.word(), Ordering::Acquire, Ordering::Relaxed) {
                Ok(_) => return Some(Taken::Free),
                Err(other) => holder = other,
            }
        }
        let look = cfg!(loom) || turn % LOOK == 0;
        if holder == owner.word() {
            return Some(Taken::Stolen);
        }
        if look
            && holder != 0
            && seats.is_dead(Owner::from_word(holder))
            && word.compare_exchange(holder, owner.word(), Ordering::Acquire, Ordering::Relaxed).is_ok()
        {
            return Some(Taken::Stolen);
        }
        wait(turn);
        holder = word.load(Ordering::Relaxed);
    }
    None
}

/// Gives the lock back.
#[inline]
pub fn give(word: &AtomicU32) {
    word.store(0, Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::{Taken, give, take, try_take};
    use crate::layout::{Layout, Options};
    use crate::region::Memory;
    use crate::sync::AtomicU32;
    use crate::thread::Seats;

    #[test]
    fn a_lock_is_stolen_from_the_dead_only() {
        let memory = Memory::new(1 << 20);
        let seats = Seats::new(memory.region(), &Layout::new(memory.region().len(), Options::default()).unwrap());
        let (one, two) = (seats.take().unwrap(), seats.take().unwrap());
        let lock = AtomicU32::new(0);
        assert_eq!(take(&lock, one, &seats), Taken::Free);
        assert_eq!(try_take(&lock, two, &seats, 100), None);
        seats.leave(one);
        assert_eq!(take(&lock, two, &seats), Taken::Stolen);
        let three = seats.take().unwrap();
        assert_eq!(three.seat(), one.seat());
        assert_eq!(try_take(&lock, three, &seats, 100), None);
        give(&lock);
        assert_eq!(take(&lock, three, &seats), Taken::Free);
    }
}
