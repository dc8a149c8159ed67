//! Prometheus over HTTP: one query for several signals or, if the store refuses it, for each
//! spelling of each signal's name.

mod clock;
mod endpoint;
pub(crate) mod promql;
mod transport;

#[cfg(test)]
mod tests;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use super::decode::{KeyHasher, SeriesReader};
use super::error::Error;
use super::query::{self, SeriesQuery};
use crate::settings::PrometheusSettings;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;

use endpoint::{Endpoint, Kind};
use promql::PromqlClient;

/// A Prometheus, or an engine that answers like one.
pub struct Prometheus {
    endpoint: Arc<Endpoint>,
    hasher: KeyHasher,
    /// When the store last refused a query for several names.
    refused: Option<Timestamp>,
}

/// How long each name has its own query after such a refusal.
const SEPARATE_FOR: Duration = Duration::from_secs(600);

/// The result of one fetch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Fetched {
    /// Series in the answer.
    pub series: usize,
    /// Samples in the answer.
    pub samples: usize,
    /// Bytes of the answer, decompressed.
    pub bytes: usize,
    /// The store's clock minus this server's, in milliseconds; `None`: unknown.
    pub clock_skew: Option<i64>,
}

impl fmt::Debug for Prometheus {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Prometheus")
            .field("address", &self.address())
            .finish_non_exhaustive()
    }
}

impl Prometheus {
    /// A client for `settings`. `hasher` makes the keys of its series.
    ///
    /// # Errors
    /// When a certificate file or the settings of a cloud cannot be used.
    pub fn new(settings: PrometheusSettings, hasher: KeyHasher) -> Result<Self, Error> {
        Ok(Self {
            endpoint: Arc::new(Endpoint::new(settings)?),
            hasher,
            refused: None,
        })
    }

    /// A client for any queries to the same Prometheus. Both share connections and access
    /// tokens.
    #[must_use]
    pub fn promql(&self) -> PromqlClient {
        PromqlClient(Arc::clone(&self.endpoint))
    }

    /// The address, without credentials and parameters.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.endpoint.address
    }

    /// Whether one query selects several names: the store refused no such query in the last
    /// ten minutes.
    #[must_use]
    pub fn combines(&self, now: Timestamp) -> bool {
        let is_recent = |at: Timestamp| at <= now && now.since(at) < SEPARATE_FOR;
        !self.refused.is_some_and(is_recent)
    }

    /// Records that the store refused a query for several names: each has its own query
    /// for the next ten minutes.
    pub fn separate(&mut self, refusal: &Error, now: Timestamp) {
        if self.refused.replace(now).is_none() {
            tracing::info!(
                source = self.address(),
                "{refusal}; each name of a field is queried by itself"
            );
        }
    }

    /// Sends a query, and reads its answer as it arrives: `take` receives batches of its
    /// series, at the end one for each signal. `now` is the time of the call, for comparison
    /// with the store's clock; it differs from the query's `at` for past samples. If the
    /// query fails, `take` may have received a part of the answer.
    ///
    /// # Errors
    /// When Prometheus does not answer, or its answer may be partial.
    pub async fn fetch(
        &self,
        query: &SeriesQuery<'_>,
        now: Timestamp,
        take: &mut (dyn FnMut(&Batch) + Send),
    ) -> Result<Fetched, Error> {
        let mut batches: Vec<Batch> = query.specs.iter().map(|it| Batch::new(it.id)).collect();
        let places = match query.specs {
            [_] => None,
            specs => Some(query::places(specs)),
        };
        let mut series = SeriesReader::new(&self.hasher, places.as_ref(), &mut batches, take);
        let mut fetched = Fetched::default();
        let names = match self.combines(now) {
            true => vec![query::any_name(query.specs)],
            false => query::each_name(query.specs),
        };
        for name in names {
            let matchers = &self.endpoint.settings.matchers;
            let selector = query::range_selector(&name, matchers, query);
            let form = self.endpoint.form(&selector, query.at);
            let asked = self.endpoint.ask(Kind::Poll(now), &form, &mut series);
            let received = asked.await?;
            fetched.bytes += received.bytes;
            fetched.clock_skew = fetched.clock_skew.or(received.clock_skew);
            self.endpoint.check_matrix(received)?;
        }
        series.finish();
        (fetched.series, fetched.samples) = (series.series, series.samples);
        Ok(fetched)
    }
}
