//! The last second, put together from the windows of all threads: the keys that are followed, and what any other key can have
//! got at most.
//!
//! Invariant: in every slot a followed key has `lower <= hits <= upper`, and a key that is not followed was hit at most
//! `unseen` times, which holds per set. Whoever leaves the followed ones leaves its upper bounds to `unseen`; whoever joins them
//! takes them from there. So the bounds hold for every key at every moment, whatever was dropped on the way.
//!
//! ```text
//! slot         9 8 7 6 5 4 3 2 1 0      a ring: the oldest is emptied when a new window begins
//! key     lower   sure hits             summed over the threads
//!         upper   possible hits         count, or the least count of the set where a thread did not have it
//! set    unseen   what any other key can have got
//! ```

use super::sets::set_of;
use super::window::{CANDIDATE, Window};

/// Windows that a rate is taken from.
pub const SLOTS: usize = 10;
/// Length of a window as it is meant to be, in microseconds.
pub const SLOT_US: u64 = 100_000;
/// Keys of a set that are followed.
const FOLLOWED: usize = 16;

/// A key that is followed.
#[derive(Debug)]
pub(super) struct Followed {
    pub hash: u64,
    /// The first bytes of the key, once a thread has told them.
    pub key: Option<Box<[u8]>>,
    /// Length of the whole key.
    pub length: u32,
    lower: [u64; SLOTS],
    upper: [u64; SLOTS],
    /// Sure hits of this merge.
    now: u64,
}

impl Followed {
    pub fn lower(&self) -> u64 {
        self.lower.iter().sum()
    }

    pub fn upper(&self) -> u64 {
        self.upper.iter().sum()
    }

    /// What it is worth to be followed, in hits a window.
    fn worth(&self) -> u64 {
        self.now.max(self.lower() / SLOTS as u64)
    }
}

/// A key that stands out in this merge and is not followed yet.
#[derive(Debug)]
struct Fresh {
    hash: u64,
    sure: u64,
    counted: u64,
    /// What `rest` held for the windows in which it was counted.
    rest: u64,
    /// The last of these.
    window: usize,
}

/// The last [`SLOTS`] windows of all threads.
#[derive(Debug)]
pub(super) struct Span {
    followed: Vec<Vec<Followed>>,
    unseen: Vec<[u64; SLOTS]>,
    durations: [u64; SLOTS],
    slot: usize,
    fresh: Vec<Fresh>,
}

impl Span {
    pub fn new(sets: usize) -> Self {
        let followed = (0..sets).map(|_| Vec::new()).collect();
        Self { followed, unseen: vec![[0; SLOTS]; sets], durations: [0; SLOTS], slot: 0, fresh: Vec::new() }
    }

    /// Microseconds that the counts stand for; a second at least, so that a short past does not make a high rate.
    pub fn span_us(&self) -> u64 {
        self.durations.iter().sum::<u64>().max(SLOT_US * SLOTS as u64)
    }

    /// Goes on by the time since the last merge. A window that is full, but for what a timer may be early, begins the next one.
    pub fn advance(&mut self, elapsed_us: u64) {
        if self.durations[self.slot] >= SLOT_US - SLOT_US / 20 {
            self.slot = (self.slot + 1) % SLOTS;
            self.durations[self.slot] = 0;
            for (followed, unseen) in self.followed.iter_mut().zip(&mut self.unseen) {
                forget(followed, unseen, self.slot);
            }
        }
        self.durations[self.slot] += elapsed_us;
    }

    /// Adds the windows of the threads. O(sets × windows).
    pub fn merge(&mut self, windows: &[Window<'_>]) {
        // A key that stands out in all of them together does so in one of them for its part.
        let part = (CANDIDATE / windows.len().max(1) as u32).max(2);
        for set in 0..self.followed.len() {
            self.merge_set(set, windows, part);
        }
    }

    fn merge_set(&mut self, set: usize, windows: &[Window<'_>], part: u32) {
        let (followed, unseen, slot) = (&mut self.followed[set], &mut self.unseen[set], self.slot);
        followed.iter_mut().for_each(|key| key.now = 0);
        let mut rests = 0;
        for (place, window) in windows.iter().enumerate() {
            let ways = window.sets.ways(set);
            let least = ways.iter().map(|way| way.count).min().unwrap_or_default();
            followed.iter_mut().for_each(|key| key.upper[slot] += u64::from(least));
            let mut rest = least;
            for way in ways.iter().filter(|way| way.count > 0) {
                let sure = way.sure;
                if let Some(key) = followed.iter_mut().find(|key| key.hash == way.hash) {
                    key.now += u64::from(sure);
                    key.lower[slot] += u64::from(sure);
                    key.upper[slot] += u64::from(way.count - least);
                } else if sure >= part {
                    note(&mut self.fresh, way.hash, sure, way.count, place);
                } else {
                    rest = rest.max(way.count);
                }
            }
            for key in self.fresh.iter_mut().filter(|key| key.window == place) {
                key.rest += u64::from(rest);
            }
            rests += u64::from(rest);
        }
        let before = unseen[slot];
        unseen[slot] += rests;
        for key in self.fresh.drain(..) {
            let upper = before + rests - key.rest + key.counted;
            if key.sure >= u64::from(CANDIDATE) && make_room(followed, unseen, key.sure) {
                let mut entry =
                    Followed { hash: key.hash, key: None, length: 0, lower: [0; SLOTS], upper: *unseen, now: key.sure };
                entry.lower[slot] = key.sure;
                entry.upper[slot] = upper;
                followed.push(entry);
            } else {
                unseen[slot] = unseen[slot].max(upper);
            }
        }
    }

    /// Takes note of what a hash stands for, if it is followed.
    pub fn learn(&mut self, hash: u64, length: u32, bytes: &dyn Fn() -> Box<[u8]>) {
        let set = set_of(hash, self.followed.len() as u32);
        if let Some(key) = self.followed[set].iter_mut().find(|key| key.hash == hash && key.key.is_none()) {
            key.key = Some(bytes());
            key.length = length;
        }
    }

    /// Least and most hits of any key within the span.
    pub fn bounds(&self, hash: u64) -> (u64, u64) {
        let set = set_of(hash, self.followed.len() as u32);
        match self.followed[set].iter().find(|key| key.hash == hash) {
            Some(key) => (key.lower(), key.upper()),
            None => (0, self.unseen[set].iter().sum()),
        }
    }

    /// Most hits within the span of any key that is not followed. O(sets).
    pub fn unseen(&self) -> u64 {
        self.unseen.iter().map(|slots| slots.iter().sum()).max().unwrap_or_default()
    }

    pub fn followed(&self) -> impl Iterator<Item = &Followed> {
        self.followed.iter().flatten()
    }
}

fn note(fresh: &mut Vec<Fresh>, hash: u64, sure: u32, counted: u32, window: usize) {
    let (sure, counted) = (u64::from(sure), u64::from(counted));
    match fresh.iter_mut().find(|key| key.hash == hash) {
        Some(key) => {
            key.sure += sure;
            key.counted += counted;
            key.window = window;
        }
        None => fresh.push(Fresh { hash, sure, counted, rest: 0, window }),
    }
}

/// Empties a slot, and lets go of the keys that have no sure hit in any other.
fn forget(followed: &mut Vec<Followed>, unseen: &mut [u64; SLOTS], slot: usize) {
    unseen[slot] = 0;
    followed.retain_mut(|key| {
        key.lower[slot] = 0;
        key.upper[slot] = 0;
        let stays = key.lower() > 0;
        if !stays {
            leave(key, unseen);
        }
        stays
    });
}

/// Whether a key with so many sure hits in this merge can be followed; if it takes that, the least worthy one goes.
fn make_room(followed: &mut Vec<Followed>, unseen: &mut [u64; SLOTS], sure: u64) -> bool {
    if followed.len() < FOLLOWED {
        return true;
    }
    let weakest = followed.iter().enumerate().min_by_key(|(_, key)| key.worth());
    let Some(place) = weakest.filter(|(_, key)| key.worth() < sure).map(|(place, _)| place) else { return false };
    leave(&followed.swap_remove(place), unseen);
    true
}

fn leave(key: &Followed, unseen: &mut [u64; SLOTS]) {
    for (most, upper) in unseen.iter_mut().zip(key.upper) {
        *most = (*most).max(upper);
    }
}
