//! Asks stores for samples: a Prometheus or an engine that answers like one, or several
//! of them that are replicas.
//!
//! The server polls with it, and `backtest` reads the past with it.
//!
//! * [`settings`] says how a store is asked.
//! * [`Prometheus::fetch`] sends the queries of one poll, each answered into a
//!   [`Batch`](gpu_metrics::batch::Batch). [`pace`] says when the next poll is due, and
//!   [`health`] logs failures when they begin and end.
//! * [`answers`] asks the queries of rules, each answered once for all that wait for it.
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
pub mod health;
pub mod pace;
pub mod parts;
pub mod prometheus;
pub mod query;
pub mod retries;
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
    /// The source's clock minus this server's, in milliseconds, if known.
    pub clock_skew: Option<i64>,
}

/// The end of one query.
#[derive(Debug)]
pub struct Answered {
    /// How long it took to receive the answer.
    pub took: Duration,
    /// The result.
    pub outcome: Result<Fetched, Error>,
}
