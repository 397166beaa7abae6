//! The byte work of keylane: slots, routes, frames and replies, and the cache that threads share. Pure Rust over slices: no
//! N-API, no I/O; the one thread it starts is the shared region's clock.
//!
//! Invariant: nothing here trusts a length, an index or a byte it was given; every refusal is a value, not a panic, and
//! nothing allocates in proportion to what a peer merely declares.
//!
//! ```text
//! text   UTF-16 from JavaScript -> UTF-8 keys
//! slot   key -> 14-bit slot             hash   key -> xxh3-64
//! route  key -> prefix, domain, slot    resp   operations -> frames, bytes -> rows
//!
//! cache  the shared region as a cache   layout  where everything lies in it     region  its words
//! table  index: lookups, stores, invalidations              entry   records      arena, evict, ghost  room for them
//! epoch  loads that were overtaken      flight  one loader a key        thread, lock  seats and who holds what
//! clock  coarse milliseconds            sync    std or loom
//! hits   which keys are hit most, in memory of its own
//! ```

// Allowed in one module: `hits::tally::avx2`.
#![deny(unsafe_code)]

mod arena;
pub mod cache;
#[cfg(not(loom))]
pub mod clock;
pub mod entry;
mod epoch;
mod evict;
pub mod flight;
mod ghost;
pub mod hash;
pub mod hits;
pub mod layout;
pub mod lock;
pub mod region;
pub mod resp;
pub mod route;
pub mod slot;
pub mod sync;
pub mod table;
pub mod text;
pub mod thread;
