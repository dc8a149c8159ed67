//! Arbitrary queries and searches for series, as prometheus-adapter's rules need
//! them.

mod bounded;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::{Bytes, BytesMut};

use super::endpoint::{Endpoint, Head, Kind};
use super::replicas::Replicas;
use crate::decode::{self, DecodeError, KeyHasher, QueryResult};
use crate::error::Error;
use crate::query;
use crate::settings::PrometheusSettings;
use adapter_rules::answer::Answer;
use adapter_rules::registry::Shape;
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use gpu_metrics::signal::SignalId;

/// Sends arbitrary queries to Prometheus. Shared by all tasks.
pub struct PromqlClient {
    endpoint: ArcSwap<Endpoint>,
    replicas: Arc<Replicas>,
    max_concurrent_queries: u16,
}

impl fmt::Debug for PromqlClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PromqlClient")
            .field("address", &self.replicas.current().address)
            .finish_non_exhaustive()
    }
}

impl PromqlClient {
    /// A client for `settings`, whose addresses are `replicas`.
    ///
    /// # Errors
    /// When a certificate file cannot be used.
    pub fn new(settings: PrometheusSettings, replicas: Arc<Replicas>) -> Result<Self, Error> {
        Ok(Self {
            max_concurrent_queries: settings.max_concurrent_queries,
            endpoint: ArcSwap::from_pointee(Endpoint::new(settings, Arc::clone(&replicas))?),
            replicas,
        })
    }

    /// A client that shares its addresses with no other client.
    ///
    /// # Errors
    /// As [`Self::new`].
    #[cfg(any(test, feature = "testing"))]
    pub fn alone(settings: PrometheusSettings) -> Result<Self, Error> {
        let replicas = Arc::new(Replicas::new(&settings)?);
        Self::new(settings, replicas)
    }

    /// The addresses.
    #[must_use]
    pub fn replicas(&self) -> Arc<Replicas> {
        Arc::clone(&self.replicas)
    }

    /// The most concurrent queries of one purpose.
    pub(crate) const fn max_concurrent_queries(&self) -> u16 {
        self.max_concurrent_queries
    }

    /// Loads changed certificate files. It neither waits for running queries nor
    /// delays others.
    pub async fn renew(&self) {
        let mut endpoint = Endpoint::clone(&self.endpoint.load());
        endpoint.renew().await;
        self.endpoint.store(Arc::new(endpoint));
    }

    /// The result of a query at a time.
    ///
    /// # Errors
    /// When Prometheus does not answer, or its answer has no result.
    pub async fn query(&self, promql: &str, at: Timestamp) -> Result<Answer, Error> {
        let endpoint = self.endpoint.load_full();
        let mut text = BytesMut::new();
        let form = endpoint.form(promql, at);
        let head = endpoint.ask(Kind::Rule, &form, &mut text).await?;
        endpoint.usable(answer(&text, &head), (&text, &head))
    }

    /// The results of a query over a time range, including both ends, with one sample per
    /// `step`. Prometheus allows at most 11,000 samples per series.
    ///
    /// # Errors
    /// When Prometheus does not answer, or its answer may be partial.
    pub async fn range(
        &self,
        promql: &str,
        [start, end]: [Timestamp; 2],
        step: Duration,
    ) -> Result<Batch, Error> {
        let endpoint = self.endpoint.load_full();
        let mut text = BytesMut::new();
        let form = query::form([
            ("query", promql),
            ("start", &start.to_string()),
            ("end", &end.to_string()),
            ("step", &format_duration(step)),
            ("timeout", &format_duration(endpoint.settings.timeout)),
        ]);
        let head = endpoint.ask(Kind::Range, &form, &mut text).await?;
        let text = text.freeze();
        let mut batch = Batch::new(SignalId(0), Bytes::new());
        let decoded = decode::decode(SignalId(0), &text, &KeyHasher::new(), &mut batch);
        endpoint.whole(decoded, (&text, &head))?;
        Ok(batch)
    }

    /// The shapes of the series that a selector matches from `start` on, in the order
    /// of the last series of each.
    ///
    /// # Errors
    /// When Prometheus does not answer, or finds too many.
    pub async fn series(&self, selector: &str, start: Timestamp) -> Result<Arc<[Shape]>, Error> {
        let endpoint = self.endpoint.load_full();
        let mut text = BytesMut::new();
        let form = query::form([("match[]", selector), ("start", &start.to_string())]);
        let head = endpoint.ask(Kind::Series, &form, &mut text).await?;
        let shapes = decode::data(&text).and_then(bounded::shapes);
        endpoint.usable(shapes, (&text, &head))
    }
}

/// The answer to a query at a time.
fn answer(text: &[u8], head: &Head) -> Result<Answer, DecodeError> {
    let data: QueryResult<'_> = decode::data(text)?;
    match data.parts()? {
        ("vector", rows) => bounded::samples(rows).map(Answer::Vector),
        ("scalar", sample) => bounded::scalar(sample),
        (other, _) => Ok(Answer::Other(head.secrets.excerpt(other))),
    }
}
