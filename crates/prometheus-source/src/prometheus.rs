//! Prometheus over HTTP: one query for several signals, for each signal or, in stores that
//! need it, for each spelling of a signal's name. The memory of answers is reused.

mod budget;
mod combined;
mod endpoint;
mod names;
pub mod promql;
pub mod replicas;
mod skew;
mod transport;

#[cfg(test)]
mod tests;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use futures_util::future::join_all;
use tokio::time::Instant;

use super::decode::{self, KeyHasher};
use super::error::Error;
use super::query::{self, SignalQuery};
use super::{Answered, Fetched};
use crate::settings::PrometheusSettings;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;

use endpoint::{Clock, Endpoint, Head, Kind};
use names::{Name, Names};
use replicas::Replicas;

/// A Prometheus, or an engine that answers like one.
pub struct Prometheus {
    endpoint: Endpoint,
    hasher: KeyHasher,
    names: Names,
}

/// The answers to all queries of a signal, and their text.
struct Received {
    text: Bytes,
    answers: Vec<(Name, Range<usize>, Head)>,
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
    /// When a certificate file cannot be used.
    pub fn new(settings: PrometheusSettings, hasher: KeyHasher) -> Result<Self, Error> {
        let replicas = Arc::new(Replicas::new(&settings)?);
        Ok(Self {
            names: Names::new(settings.name_matching),
            endpoint: Endpoint::new(settings, replicas)?,
            hasher,
        })
    }

    /// The address in use, without credentials and parameters.
    #[must_use]
    pub fn address(&self) -> &str {
        &self.endpoint.replicas.current().address
    }

    /// The labels that every series must have (`prometheus.matchers`).
    #[must_use]
    pub fn matchers(&self) -> &[(String, String)] {
        &self.endpoint.settings.matchers
    }

    /// The state to share with other clients of the same settings.
    #[must_use]
    pub fn replicas(&self) -> Arc<Replicas> {
        Arc::clone(&self.endpoint.replicas)
    }

    /// Uses the addresses of another client of the same settings from now on,
    /// starting with the one in use there; both share the memory for answers.
    pub fn share(&mut self, replicas: &Arc<Replicas>) {
        self.endpoint.replicas = Arc::clone(replicas);
    }

    /// Sends queries concurrently, and decodes each answer into its own batch. `now` is
    /// the time of the call, for comparison with the store's clock; it differs from a
    /// query's `at` only for past samples. The batch of a failed query is empty.
    pub async fn fetch(
        &mut self,
        queries: &[SignalQuery<'_>],
        now: Timestamp,
        batches: &mut [Batch],
    ) -> Vec<Answered> {
        self.endpoint.renew().await;
        // Held until all answers are decoded.
        let _room = self.endpoint.budget().polls(queries.len()).await;
        let asked = queries.iter().zip(batches.iter_mut());
        let asked = asked.map(|(query, batch)| {
            let names = self.names.to_ask(query.spec, now);
            self.receive(query, names, now, reusable(batch.take_text()))
        });
        let received = join_all(asked).await;
        let mut answers = Vec::with_capacity(queries.len());
        for ((query, batch), (took, received)) in queries.iter().zip(batches).zip(received) {
            batch.reset(query.spec.id, Bytes::new());
            let outcome = match received {
                Ok(received) => self.decode(query, now, &received, batch),
                Err(error) => Err(error),
            };
            if let Err(error) = &outcome
                && self.names.refused(error)
            {
                tracing::info!(
                    source = self.address(),
                    "the store matches metric names by equality only: each spelling is queried separately"
                );
            }
            answers.push(Answered { took, outcome });
        }
        answers
    }

    /// Sends a query for each name, one after the other, and receives the answers into
    /// `text`. Returns how long this took.
    async fn receive(
        &self,
        question: &SignalQuery<'_>,
        names: Vec<Name>,
        now: Timestamp,
        mut text: BytesMut,
    ) -> (Duration, Result<Received, Error>) {
        let began = Instant::now();
        let kind = Kind::Poll(Clock { now, read: began });
        text.clear();
        let mut answers = Vec::with_capacity(names.len());
        for name in names {
            let selector = query::range_selector(&name.matcher, self.matchers(), question);
            let form = self.endpoint.form(&selector, question.at);
            let start = text.len();
            match self.endpoint.ask(kind, &form, &mut text).await {
                Ok(head) => answers.push((name, start..text.len(), head)),
                Err(error) => return (began.elapsed(), Err(error)),
            }
        }
        let text = text.freeze();
        (began.elapsed(), Ok(Received { text, answers }))
    }

    /// Decodes answers into the batch, which is empty after an error.
    fn decode(
        &mut self,
        question: &SignalQuery<'_>,
        now: Timestamp,
        Received { text, answers }: &Received,
        batch: &mut Batch,
    ) -> Result<Fetched, Error> {
        batch.reset(question.spec.id, text.clone());
        let mut found = Vec::new();
        for (name, body, head) in answers {
            let before = batch.series_len();
            let room = self.endpoint.budget().quarter().saturating_sub(text.len());
            let place = (text, body.clone());
            let decoded = decode::append(place, head.nan, &self.hasher, batch, room);
            let body = text.get(body.clone()).unwrap_or_default();
            self.endpoint
                .whole(decoded, (body, head))
                .inspect_err(|_| batch.reset(question.spec.id, text.clone()))?;
            if batch.series_len() > before {
                found.extend(name.spelling.clone());
            }
        }
        self.names.answered(question, found, now);
        Ok(Fetched {
            series: batch.series_len(),
            samples: batch.samples_len(),
            bytes: text.len(),
            clock_skew: answers.iter().find_map(|(_, _, head)| head.clock_skew),
        })
    }
}

/// The memory of an earlier answer, or new memory if it is more than twice as large as
/// that answer: the first answer is many times larger than later ones.
fn reusable(text: Bytes) -> BytesMut {
    let text = text.try_into_mut().unwrap_or_default();
    match text.capacity() > 2 * text.len() {
        true => BytesMut::new(),
        false => text,
    }
}
