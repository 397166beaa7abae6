//! The shared cache: what it promises, by example, against a model, on damaged memory, and with writers that stop anywhere.

#![cfg(not(loom))]

mod corrupt;
mod expiry;
mod flight;
mod keys;
mod load;
mod model;
mod region;
mod size;
mod stop;
mod support;
mod torture;
