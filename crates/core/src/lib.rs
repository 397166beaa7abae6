//! The byte work of keylane: slots, routes, frames and replies. Pure Rust over slices: no N-API, no I/O, no clock.
//!
//! Invariant: nothing here trusts a length, an index or a byte it was given; every refusal is a value, not a panic, and
//! nothing allocates in proportion to what a peer merely declares.
//!
//! ```text
//! text   UTF-16 from JavaScript -> UTF-8 keys
//! slot   key -> 14-bit slot             hash   key -> xxh3-64
//! route  key -> prefix, domain, slot    resp   operations -> frames, bytes -> rows
//! ```

#![forbid(unsafe_code)]

pub mod hash;
pub mod resp;
pub mod route;
pub mod slot;
pub mod text;
