//! The domain: samples, windows, averages. No I/O, no clock, no async.
//!
//! Nothing here reads the time; every call that depends on it takes it as an
//! argument, so that a value is a function of the samples and the time alone.

pub mod aggregate;
pub mod batch;
pub mod clusters;
pub mod duration;
pub mod field_selector;
pub mod frame;
pub mod grid;
pub mod inventory;
pub mod labels;
pub mod layout;
pub mod letters;
pub mod metric;
pub mod policy;
pub mod promql;
pub mod quantity;
pub mod resources;
pub mod selector;
pub mod series;
pub mod signal;
pub mod snapshot;
pub mod store;
pub mod targets;
pub mod time;
pub mod unit;
pub mod validity;
