//! Queries a Prometheus, or an engine with the same API.
//!
//! The server uses it to poll and for rules, and `backtest` to read past samples.
//!
//! * [`settings`] has the address, credentials and limits of a store.
//! * [`Prometheus::fetch`] sends a query of a poll, and decodes its answer as it arrives into
//!   [`Batch`](gpu_metrics::batch::Batch)es.
//! * [`cache`] sends the queries of rules; concurrent requests share one answer.

pub mod cache;
mod credentials;
mod decode;
pub mod error;
mod prometheus;
pub mod query;
pub mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

pub use decode::{DecodeError, KeyHasher};
pub use error::{Error, ErrorKind};
pub use prometheus::Prometheus;
pub use prometheus::promql::{VectorSample, matrix};
pub use query::SeriesQuery;
