//! Where samples come from: Prometheus over HTTP, or exporters directly.
//!
//! A [`Source`] fetches the raw samples of signals. When it is asked is for
//! [`pace`] to say, and what is logged when it fails for [`health`].

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

use std::time::Duration;

use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;

pub use decode::KeyHasher;
pub use error::{Error, ErrorKind, Limit};
pub use exporters::{ExporterTarget, Exporters};
pub use prometheus::Prometheus;
pub use query::{Devices, Query};

/// What one fetch brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Series in the batch.
    pub series: usize,
    /// Samples in the batch.
    pub samples: usize,
    /// Bytes of the answer, decompressed.
    pub bytes: usize,
    /// The source's clock minus ours in milliseconds, where it is known.
    pub clock_skew: Option<i64>,
}

/// How one query ended.
#[derive(Debug)]
pub struct Answered {
    /// How long the answer took to be received.
    pub took: Duration,
    /// What it brought.
    pub outcome: Result<Fetched, Error>,
}

/// A place that samples come from.
#[derive(Debug)]
pub enum Source {
    /// A Prometheus, or an engine that answers like one.
    Prometheus(Box<Prometheus>),
    /// Exporters, scraped directly.
    Exporters(Box<Exporters>),
}

impl Source {
    /// Asks queries side by side, each answered into a batch of its own. `now`
    /// is the time at which the call is made; a query's `at` equals it except
    /// when the past is read. A batch whose query fails holds no series.
    ///
    /// Exporters that number no devices are not in the answer to a query for
    /// the first device of each target.
    pub async fn fetch(
        &mut self,
        queries: &[Query<'_>],
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

    /// Where it is, for messages.
    #[must_use]
    pub fn address(&self) -> &str {
        match self {
            Self::Prometheus(prometheus) => prometheus.address(),
            Self::Exporters(_) => "exporters, scraped directly",
        }
    }
}
