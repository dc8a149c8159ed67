//! Value types of the APIs of Kubernetes and Prometheus: time, durations,
//! quantities, label sets, selectors, kinds of objects, conditions.
//!
//! Every other crate of the workspace uses them. The crate is independent of metrics and
//! GPUs. It does no I/O and reads no clock: a time is an argument.

pub mod condition;
pub mod duration;
pub mod field_selector;
pub mod kinds;
pub mod labels;
pub mod letters;
pub mod promql;
pub mod quantity;
pub mod selector;
pub mod time;
