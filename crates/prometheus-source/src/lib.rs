//! Queries stores for samples: a Prometheus or an engine with the same API, or several
//! replicas.
//!
//! The server uses it to poll, and `backtest` to read past samples.
//!
//! * [`settings`] has the addresses, credentials and limits of a store.
//! * [`Prometheus::fetch`] sends the queries of one poll, and decodes each answer into a
//!   [`Batch`](gpu_metrics::batch::Batch). [`pace`] computes when the next poll is due.
//!   [`failures`] decides which failures are logged.
//! * [`answers`] sends the queries of rules; concurrent requests share one answer.
//! * [`decode`] turns an answer into samples without copying its labels.
//!
//! ```
//! use prometheus_source::settings::{PrometheusSettings, parse_url};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let settings = PrometheusSettings::new(parse_url("http://prometheus.monitoring.svc:9090")?);
//! assert_eq!(settings.timeout, PrometheusSettings::DEFAULT_TIMEOUT);
//! # Ok(())
//! # }
//! ```

pub mod answers;
mod credentials;
pub mod decode;
pub mod error;
pub mod failures;
pub mod pace;
pub mod prometheus;
pub mod query;
pub mod settings;
pub mod shard;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::time::Duration;

pub use decode::KeyHasher;
pub use error::{Cause, Error, ErrorKind};
pub use prometheus::Prometheus;
pub use query::{DeviceSelection, SignalQuery};

/// The result of one fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Series in the batch.
    pub series: usize,
    /// Samples in the batch.
    pub samples: usize,
    /// Bytes of the answer, decompressed.
    pub bytes: usize,
    /// The store's clock minus this server's, in milliseconds; `None`: unknown.
    pub clock_skew: Option<i64>,
}

/// The outcome of one query.
#[derive(Debug)]
pub struct Answered {
    /// How long it took to receive the answer.
    pub took: Duration,
    pub outcome: Result<Fetched, Error>,
}
