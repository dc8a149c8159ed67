//! Turns DCGM series into values of pods, workloads, namespaces, nodes and
//! clusters.
//!
//! ```text
//! Batch ──► line ──► store, source ──► layout ──► reading, tally, window ──► Snapshot ──► explain
//!           labels   samples, S, L     devices, pods     numbers of objects
//! ```
//!
//! The server's poll loop and `backtest` use it through [`pipeline`]: batches of samples
//! in, a [`snapshot`] of all values out. No I/O, no clock, no async: time is an argument,
//! so a value is a function of the samples and the time alone.
//!
//! ```
//! use apimachinery::time::Timestamp;
//! use gpu_metrics::dcgm::{fields, metrics};
//! use gpu_metrics::inventory::Inventory;
//! use gpu_metrics::pipeline::{Pipeline, Settings};
//! use gpu_metrics::policy::Policy;
//!
//! let mut pipeline = Pipeline::new(Settings {
//!     policy: Policy::default(),
//!     signals: fields::built_in(),
//!     metrics: metrics::built_in(),
//! });
//! // Without a batch there is no device, and no value.
//! let now = Timestamp::from_millis(1_700_000_000_000);
//! let snapshot = pipeline.publish(&Inventory::default().into(), now);
//! assert!(snapshot.layout.cluster.members.is_empty());
//! ```

pub mod absence;
pub mod batch;
mod counts;
pub mod dcgm;
pub mod devices;
pub mod explain;
pub mod external;
mod gaps;
pub mod grid;
mod holding;
pub mod inventory;
pub mod layout;
pub mod line;
pub mod metric;
mod outcome;
pub mod pipeline;
pub mod policy;
mod reading;
pub mod resources;
pub mod signal;
pub mod snapshot;
pub mod source;
pub mod store;
mod tally;
mod threads;
pub mod validity;
pub mod window;
