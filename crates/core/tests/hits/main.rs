//! Which keys are hit most: bounds against exact counts, by example, over time, and with threads that record while they are
//! read.

#![cfg(not(loom))]

mod bounds;
mod counted;
mod example;
mod region;
mod support;
mod threads;
mod time;
