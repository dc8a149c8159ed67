//! The domain: samples, windows, averages. No I/O, no clock, no async.
//!
//! Nothing here reads the time; every call that depends on it takes it as an
//! argument, so that a value is a function of the samples and the time alone.

pub mod batch;
pub mod duration;
pub mod inventory;
pub mod labels;
pub mod metric;
pub mod policy;
pub mod quantity;
pub mod selector;
pub mod signal;
pub mod time;
