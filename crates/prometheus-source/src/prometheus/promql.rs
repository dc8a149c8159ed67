//! Arbitrary queries and searches for series, as prometheus-adapter's rules need
//! them.

mod bounded;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;
use bytes::Bytes;
use serde::Deserialize;
use serde_json::value::RawValue;

use super::endpoint::{Body, Endpoint};
use super::replicas::Replicas;
use crate::decode::{self, DecodeError, KeyHasher};
use crate::error::Error;
use crate::settings::PrometheusSettings;
use adapter_rules::answer::Answer;
use adapter_rules::registry::Shape;
use apimachinery::time::Timestamp;
use bounded::{MOST_SAMPLES, MOST_SHAPES, Samples, Shapes, number, seconds};
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
            .field("address", &self.replicas.asked().address)
            .finish_non_exhaustive()
    }
}

/// `data` of a query.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct QueryResult<'a> {
    result_type: String,
    #[serde(borrow)]
    result: &'a RawValue,
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

    /// A client with addresses of its own.
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
    /// When Prometheus does not answer, or without a result.
    pub async fn query(&self, promql: &str, at: Timestamp) -> Result<Answer, Error> {
        let endpoint = self.endpoint.load_full();
        let body = endpoint.instant(promql, at).await?;
        let unusable = |error| endpoint.unusable(error, body.parts());
        let data: QueryResult<'_> = self.data(&body)?;
        match data.result_type.as_str() {
            "vector" => {
                let Samples(samples) = decode::part(data.result).map_err(unusable)?;
                samples.map(Answer::Vector).ok_or_else(|| Error::TooMany {
                    address: self.address(),
                    limit: MOST_SAMPLES,
                    parts: "samples",
                    remedy: "aggregate in the query, or select less",
                })
            }
            "scalar" => {
                let (at, value): (f64, String) = decode::part(data.result).map_err(unusable)?;
                let value = number(&value).ok_or_else(|| {
                    unusable(DecodeError::Shape(format!("{value:?} is no number")))
                })?;
                Ok(Answer::Scalar(value, seconds(at)))
            }
            other => Ok(Answer::Other(body.secrets.excerpt(other))),
        }
    }

    /// The results of a query over a time, including both ends, with a sample each
    /// `step`: at most 11,000 for a series.
    ///
    /// # Errors
    /// When Prometheus does not answer, or without the whole result.
    pub async fn range(
        &self,
        promql: &str,
        over: [Timestamp; 2],
        step: Duration,
    ) -> Result<Batch, Error> {
        let endpoint = self.endpoint.load_full();
        let Body {
            text,
            secrets,
            room: _room,
        } = endpoint.range(promql, over, step).await?;
        let text = text.freeze();
        let mut batch = Batch::new(SignalId(0), Bytes::new());
        let decoded = decode::decode(SignalId(0), &text, &KeyHasher::new(), &mut batch);
        endpoint.whole(decoded, (&text, &secrets))?;
        Ok(batch)
    }

    /// The shapes of the series that a selector matches from `start` on, in the order
    /// of the last series of each.
    ///
    /// # Errors
    /// When Prometheus does not answer, or finds too many.
    pub async fn series(&self, selector: &str, start: Timestamp) -> Result<Arc<[Shape]>, Error> {
        let body = self.endpoint.load_full().series(selector, start).await?;
        let Shapes(shapes) = self.data(&body)?;
        shapes.ok_or_else(|| Error::TooMany {
            address: self.address(),
            limit: MOST_SHAPES,
            parts: "names and sets of labels",
            remedy: "narrow the seriesQuery",
        })
    }

    /// The `data` of an answer. The next query goes to another address if it has none.
    fn data<'a, T: Deserialize<'a>>(&self, body: &'a Body) -> Result<T, Error> {
        decode::data(&body.text)
            .map_err(|error| self.endpoint.load().unusable(error, body.parts()))
            .inspect_err(|error| self.replicas.pass_on(error))
    }

    fn address(&self) -> String {
        self.replicas.asked().address.clone()
    }
}
