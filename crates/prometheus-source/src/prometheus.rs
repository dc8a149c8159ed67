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

use super::decode::{self, KeyHasher, Nan};
use super::error::Error;
use super::query::{self, SignalQuery};
use super::{Answered, Fetched};
use crate::settings::PrometheusSettings;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;

use endpoint::{Endpoint, Origin};
use names::{Name, Names};
use replicas::Replicas;

/// A Prometheus, or an engine that answers like one.
pub struct Prometheus {
    endpoint: Endpoint,
    hasher: KeyHasher,
    names: Names,
}

/// An answer to the query for one name: a range of the received text.
struct Answer {
    name: Name,
    body: Range<usize>,
    nan: Nan,
    origin: Origin,
}

/// The answers to all queries of a signal, and the clock skew: the store's clock minus
/// this server's, in milliseconds.
type Received = (Vec<Answer>, Option<i64>);

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
            let mut text = reusable(batch.take_text());
            let prometheus = &*self;
            async move {
                let received = prometheus.receive(query, now, &mut text).await;
                (text, received)
            }
        });
        let received = join_all(asked).await;
        let mut answers = Vec::with_capacity(queries.len());
        for ((query, batch), (text, received)) in queries.iter().zip(batches).zip(received) {
            let (took, received) = received;
            let outcome = self
                .decode_or_ask_exactly(query, now, (text, received), batch)
                .await;
            answers.push(Answered { took, outcome });
        }
        answers
    }

    /// Decodes the received answers. If the store refused the query because it matches
    /// names only by equality, first sends a query for each spelling.
    async fn decode_or_ask_exactly(
        &mut self,
        query: &SignalQuery<'_>,
        now: Timestamp,
        (mut text, mut received): (BytesMut, Result<Received, Error>),
        batch: &mut Batch,
    ) -> Result<Fetched, Error> {
        let signal = query.spec.id;
        batch.reset(signal, Bytes::new());
        if received
            .as_ref()
            .is_err_and(|error| self.names.refused(error))
        {
            tracing::info!(
                source = self.address(),
                "the store matches metric names by equality only: each spelling is queried separately"
            );
            (_, received) = self.receive(query, now, &mut text).await;
        }
        let (answers, clock_skew) = received?;
        let text = text.freeze();
        batch.reset(signal, text.clone());
        self.decode(query, now, (&text, &answers), batch)
            .inspect_err(|error| {
                self.endpoint.replicas.fail_over(error);
                batch.reset(signal, text.clone());
            })?;
        Ok(Fetched {
            series: batch.series_len(),
            samples: batch.samples_len(),
            bytes: text.len(),
            clock_skew,
        })
    }

    /// Sends the query for each name, and appends the answers to `text`. Returns how long
    /// this took.
    async fn receive(
        &self,
        query: &SignalQuery<'_>,
        now: Timestamp,
        text: &mut BytesMut,
    ) -> (Duration, Result<Received, Error>) {
        let begun = Instant::now();
        let received = self.receive_all(query, (now, begun), text).await;
        (begun.elapsed(), received)
    }

    async fn receive_all(
        &self,
        question: &SignalQuery<'_>,
        (now, begun): (Timestamp, Instant),
        text: &mut BytesMut,
    ) -> Result<Received, Error> {
        text.clear();
        let (mut answers, mut clock_skew) = (Vec::new(), None);
        for name in self.names.to_ask(question.spec, now) {
            let name = (name.matcher(question.spec), name);
            let now = now + begun.elapsed();
            let (answer, skew) = self.receive_one(question, name, now, text).await?;
            clock_skew = clock_skew.or(skew);
            answers.push(answer);
        }
        Ok((answers, clock_skew))
    }

    /// Sends the query for one name, whose matcher is `name_is`, and appends the answer to
    /// `text`. Returns the clock skew too.
    async fn receive_one(
        &self,
        question: &SignalQuery<'_>,
        (name_is, name): (String, Name),
        now: Timestamp,
        text: &mut BytesMut,
    ) -> Result<(Answer, Option<i64>), Error> {
        let selector = query::range_selector(&name_is, self.matchers(), question);
        let start = text.len();
        let head = self.endpoint.ask(&selector, question.at, now, text).await?;
        let answer = Answer {
            name,
            body: start..text.len(),
            nan: if head.victoria_metrics {
                Nan::StaleMarker
            } else {
                Nan::Value
            },
            origin: head.origin,
        };
        Ok((answer, head.clock_skew))
    }

    /// Decodes the answers into the batch, whose text is `text`.
    fn decode(
        &mut self,
        question: &SignalQuery<'_>,
        now: Timestamp,
        (text, answers): (&Bytes, &[Answer]),
        batch: &mut Batch,
    ) -> Result<(), Error> {
        for answer in answers {
            let before = batch.series_len();
            let body = answer.body.clone();
            let nan = answer.nan;
            let room = self.endpoint.budget().quarter().saturating_sub(text.len());
            let decoded = decode::append((text, body.clone()), nan, &self.hasher, batch, room);
            let body = text.get(body).unwrap_or_default();
            self.endpoint.whole(decoded, (body, &answer.origin))?;
            let found = batch.series_len() > before;
            self.names
                .answered(&answer.name, found, question.is_of_all(), now);
        }
        Ok(())
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
