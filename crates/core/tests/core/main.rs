//! keylane-core against naive models of itself, on random and on recorded input.

mod encode;
mod feed;
mod generate;
mod harness;
mod models;
mod route;
mod scan;
mod slot;
