//! Asks stores for samples: a Prometheus or an engine that answers like one, several of
//! them that are replicas, or exporters directly.
//!
//! The server polls with it, and `backtest` reads the past with it.
//!
//! * [`settings`] says how a store is asked.
//! * [`Source::fetch`] sends the queries of one poll, each answered into a
//!   [`Batch`]. [`pace`] says when the next poll is due, and [`health`] logs failures
//!   when they begin and end.
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
pub mod exporters;
pub mod exposition;
pub mod health;
pub mod pace;
pub mod parts;
pub mod prometheus;
pub mod query;
pub mod retries;
pub mod settings;
#[cfg(any(test, feature = "testing"))]
pub mod testing;

use std::time::Duration;

use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;

pub use decode::KeyHasher;
pub use error::{Error, ErrorKind, Limit};
pub use exporters::{ExporterTarget, Exporters};
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

/// A source of samples.
#[derive(Debug)]
pub enum Source {
    /// A Prometheus, or an engine that answers like one.
    Prometheus(Box<Prometheus>),
    /// Exporters, scraped directly.
    Exporters(Box<Exporters>),
}

impl Source {
    /// Sends queries concurrently, each answered into its own batch. `now` is the
    /// time of the call; a query's `at` equals it except when the past is read. The
    /// batch of a failed query is empty.
    ///
    /// The answer to a query for the first device of each target does not include
    /// exporters that number no devices.
    pub async fn fetch(
        &mut self,
        queries: &[SignalQuery<'_>],
        now: Timestamp,
        batches: &mut [Batch],
    ) -> Vec<Answered> {
        match self {
            Self::Prometheus(prometheus) => prometheus.fetch(queries, now, batches).await,
            Self::Exporters(exporters) => exporters.fetch(queries, batches).await,
        }
    }

    /// The labels that every series must have (`prometheus.matchers`).
    #[must_use]
    pub fn matchers(&self) -> &[(String, String)] {
        match self {
            Self::Prometheus(prometheus) => prometheus.matchers(),
            Self::Exporters(_) => &[],
        }
    }

    /// Its address, for messages.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::Prometheus(prometheus) => prometheus.address(),
            Self::Exporters(_) => "exporters, scraped directly",
        }
    }
}
