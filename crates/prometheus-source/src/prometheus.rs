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

/// A client of a Prometheus, or of an engine that answers like one. Clones share connections
/// and access tokens.
#[derive(Clone)]
pub struct Prometheus {
    endpoint: Arc<Endpoint>,
    hasher: KeyHasher,
    /// When the store last refused a query for several names.
    refused: Option<Timestamp>,
}

/// How long each name has its own query after such a refusal.
const SEPARATE_FOR: Duration = Duration::from_secs(600);

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
    /// query fails, `take` may have received a part of the answer. Returns the store's clock
    /// minus this server's, in milliseconds; `None`: unknown.
    ///
    /// # Errors
    /// When Prometheus does not answer, or its answer may be partial.
    pub async fn fetch(
        &self,
        query: &SeriesQuery<'_>,
        now: Timestamp,
        take: &mut (dyn FnMut(&Batch) + Send),
    ) -> Result<Option<i64>, Error> {
        let batches = query.specs.iter().map(|it| Batch::new(it.id)).collect();
        let places = query::places(query.specs);
        let mut series = SeriesReader::new(&self.hasher, batches, places, take);
        let mut clock_skew = None;
        let names = match self.combines(now) {
            true => vec![query::any_name(query.specs)],
            false => query::each_name(query.specs),
        };
        for name in names {
            let matchers = &self.endpoint.settings.matchers;
            let selector = query::range_selector(&name, matchers, query);
            let form = self.endpoint.form(&selector, query.at);
            let asked = self.endpoint.ask(Kind::Poll(now), &form, &mut series);
            clock_skew = asked.await?.or(clock_skew);
        }
        series.finish();
        Ok(clock_skew)
    }
}
