//! Load epochs: how a load learns that its key was invalidated while it was on its way, in fixed memory.
//!
//! Invariant: an invalidation first counts an epoch up, then removes what is cached under the group's lock; a store compares
//! its ticket under that same lock before it publishes. Either the store sees the new epoch, or the invalidation sees what was
//! stored. Keys that share a stripe only cost each other a load.
//!
//! ```text
//! ticket = epoch of the key's stripe + epoch of everything     both only grow, so an equal sum means neither moved
//! ```

use crate::cache::Cache;
use crate::layout::header;
use crate::sync::Ordering::{AcqRel, Acquire};

impl Cache<'_> {
    /// What a load must carry to its store.
    #[inline(always)]
    #[must_use]
    pub fn ticket(&self, hash: u64) -> u32 {
        let key = self.region.word(self.stripe(hash)).load(Acquire);
        key.wrapping_add(self.region.word(header::EPOCH).load(Acquire))
    }

    /// Overtakes the loads of one key (and of those that share its stripe).
    #[inline(always)]
    pub(crate) fn overtake(&self, hash: u64) {
        self.region.word(self.stripe(hash)).fetch_add(1, AcqRel);
    }

    /// Overtakes all loads.
    pub(crate) fn overtake_all(&self) {
        self.region.word(header::EPOCH).fetch_add(1, AcqRel);
    }

    #[inline(always)]
    fn stripe(&self, hash: u64) -> usize {
        self.layout.epochs + (hash as usize & (self.layout.epoch_count - 1))
    }
}
