//! Where samples come from: Prometheus over HTTP, or exporters directly.
//!
//! A [`Source`] fetches the raw samples of one signal. When it is asked is for
//! [`pace`] to say, and what is logged when it fails for [`health`].

mod credentials;
pub mod decode;
pub mod error;
pub mod exporters;
pub mod exposition;
pub mod health;
pub mod pace;
pub mod prometheus;
pub mod query;

use std::time::Duration;

use crate::core::batch::Batch;
use crate::core::signal::SignalSpec;
use crate::core::time::Timestamp;

pub use decode::KeyHasher;
pub use error::{Error, ErrorKind};
pub use exporters::{ExporterTarget, Exporters};
pub use prometheus::Prometheus;
use query::Devices;

/// What one fetch brought.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Series in the batch.
    pub series: usize,
    /// Samples in the batch.
    pub samples: usize,
    /// Bytes of the answer, decompressed.
    pub bytes: usize,
    /// Series of which native histograms were skipped.
    pub skipped_histograms: usize,
    /// The source's clock minus ours in milliseconds, where it is known.
    pub clock_skew: Option<i64>,
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
    /// Fetches the samples of `spec` in the `range` before `at` into `batch`.
    /// `now` is the time at which the call is made; `at` equals it except when
    /// the past is read.
    ///
    /// # Errors
    /// See [`Error`]; the batch then holds no series.
    pub async fn fetch(
        &mut self,
        spec: &SignalSpec,
        at: Timestamp,
        range: Duration,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Fetched, Error> {
        match self {
            Self::Prometheus(prometheus) => prometheus.fetch(spec, at, range, now, batch).await,
            Self::Exporters(exporters) => exporters.fetch(spec, Devices::All, at, batch).await,
        }
    }

    /// Fetches as [`Self::fetch`] does, of the first device of each target
    /// alone: what its samples tell of a target's scrapes, they tell of all of
    /// its devices, and what no first device has, hardly any other does.
    /// Exporters that number no devices are not in the answer.
    ///
    /// # Errors
    /// See [`Error`]; the batch then holds no series.
    pub async fn fetch_sample(
        &mut self,
        spec: &SignalSpec,
        at: Timestamp,
        range: Duration,
        now: Timestamp,
        batch: &mut Batch,
    ) -> Result<Fetched, Error> {
        match self {
            Self::Prometheus(source) => source.fetch_sample(spec, at, range, now, batch).await,
            Self::Exporters(source) => source.fetch(spec, Devices::First, at, batch).await,
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
