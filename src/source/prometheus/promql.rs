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

use super::endpoint::{Body, ERROR_BODY_BYTES, Endpoint};
use super::replicas::Replicas;
use crate::config::PrometheusSettings;
use crate::source::credentials::Secrets;
use crate::source::decode::{self, DecodeError, KeyHasher};
use crate::source::error::Error;
use adapter_rules::answer::Answer;
use adapter_rules::registry::Shape;
use apimachinery::time::Timestamp;
use bounded::{MOST_SAMPLES, MOST_SHAPES, Samples, Shapes, number, seconds};
use gpu_metrics::batch::Batch;
use gpu_metrics::signal::SignalId;

/// Sends arbitrary queries to Prometheus. Shared by all tasks.
pub struct Promql {
    endpoint: ArcSwap<Endpoint>,
    replicas: Arc<Replicas>,
    max_concurrent_queries: u16,
}

impl fmt::Debug for Promql {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Promql")
            .field("address", &self.replicas.asked().address)
            .finish_non_exhaustive()
    }
}

/// An answer of the API.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase", bound(deserialize = "T: Deserialize<'de>"))]
struct Envelope<T> {
    status: String,
    data: Option<T>,
    #[serde(default)]
    error_type: String,
    #[serde(default)]
    error: String,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Data<'a> {
    result_type: String,
    #[serde(borrow)]
    result: &'a RawValue,
}

impl Promql {
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
    #[cfg(test)]
    pub(crate) fn alone(settings: PrometheusSettings) -> Result<Self, Error> {
        let replicas = Arc::new(Replicas::new(&settings));
        Self::new(settings, replicas)
    }

    /// The addresses.
    #[must_use]
    pub fn replicas(&self) -> Arc<Replicas> {
        Arc::clone(&self.replicas)
    }

    /// The most concurrent queries of one purpose.
    pub(in crate::source) const fn max_concurrent_queries(&self) -> u16 {
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
        let body = self.endpoint.load_full().instant(promql, at).await?;
        let data: Data<'_> = self.data(&body)?;
        match data.result_type.as_str() {
            "vector" => {
                let Samples(samples) = self.part(data.result, &body)?;
                samples.map(Answer::Vector).ok_or_else(|| Error::TooMany {
                    address: self.address(),
                    limit: MOST_SAMPLES,
                    parts: "samples",
                    remedy: "aggregate in the query, or select less",
                })
            }
            "scalar" => {
                let (at, value): (f64, String) = self.part(data.result, &body)?;
                let value = number(&value).ok_or_else(|| {
                    self.not_an_answer(&format!("{value:?} is no number"), body.parts())
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
        let Body {
            text,
            secrets,
            room: _room,
        } = self.endpoint.load_full().range(promql, over, step).await?;
        let text = text.freeze();
        let mut batch = Batch::new(SignalId(0), Bytes::new());
        let decoded = decode::decode(SignalId(0), &text, &KeyHasher::new(), &mut batch);
        let warnings = decoded.map_err(|error| match error {
            DecodeError::Status { error_type, error } => Error::Query {
                address: self.address(),
                error_type: secrets.excerpt(&error_type),
                error: secrets.excerpt(&error),
            },
            error => self.not_an_answer(&error.to_string(), (&text, &secrets)),
        })?;
        if !warnings.is_empty() {
            return Err(Error::Partial {
                address: self.address(),
                warnings: secrets.excerpt(&warnings.join("; ")),
            });
        }
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

    fn data<'a, T: Deserialize<'a>>(&self, body: &'a Body) -> Result<T, Error> {
        self.envelope(body)
            .inspect_err(|error| self.replicas.pass_on(error))
    }

    fn envelope<'a, T: Deserialize<'a>>(&self, body: &'a Body) -> Result<T, Error> {
        let envelope: Envelope<T> = serde_json::from_slice(&body.text)
            .map_err(|error| self.not_an_answer(&error.to_string(), body.parts()))?;
        match (envelope.status.as_str(), envelope.data) {
            ("success", Some(data)) => Ok(data),
            ("success", None) => Err(Error::NullData {
                address: self.address(),
                reason: "data is null".to_owned(),
            }),
            _ => Err(Error::Query {
                address: self.address(),
                error_type: body.secrets.excerpt(&envelope.error_type),
                error: body.secrets.excerpt(&envelope.error),
            }),
        }
    }

    fn part<'a, T: Deserialize<'a>>(&self, part: &'a RawValue, body: &Body) -> Result<T, Error> {
        serde_json::from_str(part.get())
            .map_err(|error| self.not_an_answer(&error.to_string(), body.parts()))
    }

    fn address(&self) -> String {
        self.replicas.asked().address.clone()
    }

    fn not_an_answer(&self, reason: &str, (text, secrets): (&[u8], &Secrets)) -> Error {
        let start = text.get(..ERROR_BODY_BYTES).unwrap_or(text);
        Error::NotAnAnswer {
            address: self.address(),
            reason: secrets.excerpt(reason),
            excerpt: secrets.excerpt(&String::from_utf8_lossy(start)),
        }
    }
}
