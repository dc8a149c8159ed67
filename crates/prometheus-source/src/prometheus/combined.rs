//! Several signals in one query, which selects all their names. The series of the answer
//! are divided among the signals by name.

use std::collections::HashMap;
use std::time::Duration;

use bytes::Bytes;

use super::{Name, Prometheus, query, reusable};
use crate::decode;
use crate::error::Error;
use crate::query::SignalQuery;
use crate::{Answered, Fetched};
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;

impl Prometheus {
    /// Whether [`Self::fetch_combined`] may be called: the store matches names by pattern,
    /// and refused no query for several signals in the last ten minutes.
    #[must_use]
    pub fn accepts_combined(&self, now: Timestamp) -> bool {
        self.names.accepts_combined(now)
    }

    /// Sends queries that differ only in their signals as one query, and divides its
    /// answer among their batches. `now` is as in [`Self::fetch`]. `None`: each signal
    /// needs its own query, because the store refused this one for its content, size or
    /// time, answered a part of it, or returned series that no name divides.
    pub async fn fetch_combined(
        &mut self,
        queries: &[SignalQuery<'_>],
        now: Timestamp,
        batches: &mut [Batch],
    ) -> Option<Vec<Answered>> {
        self.endpoint.renew().await;
        let _room = self.endpoint.budget().polls(2).await;
        let batches = batches.get_mut(..queries.len())?;
        let (took, asked) = self.receive_combined(queries, now, batches).await;
        let answered = |outcome| Answered { took, outcome };
        let refusal = match asked {
            Ok(Some(whole)) => {
                self.names.answered_combined();
                let fetched = batches.iter().map(|batch| Fetched {
                    series: batch.series_len(),
                    samples: batch.samples_len(),
                    ..whole
                });
                return Some(fetched.map(Ok).map(answered).collect());
            }
            Err(error) if !error.is_of_query() => {
                let failures = queries.iter().map(|_| Err(error.clone()));
                return Some(failures.map(answered).collect());
            }
            Err(error) => error.to_string(),
            Ok(None) => "the series of several fields cannot be told apart by name".to_owned(),
        };
        if self.names.refused_combined(now) {
            let source = self.address();
            tracing::info!(source, "{refusal}; each field is queried by itself");
        }
        None
    }

    /// Fills the batches. `None`: a series has no such name, or two signals share a name.
    /// Also returns how long it took to receive the answer.
    async fn receive_combined(
        &mut self,
        queries: &[SignalQuery<'_>],
        now: Timestamp,
        batches: &mut [Batch],
    ) -> (Duration, Result<Option<Fetched>, Error>) {
        // The batches share one text; its memory is reusable once all have released it.
        let texts = batches.iter_mut().map(Batch::take_text);
        let text = reusable(texts.reduce(|_, last| last).unwrap_or_default());
        for (query, batch) in queries.iter().zip(&mut *batches) {
            batch.reset(query.spec.id, Bytes::new());
        }
        let (Some(first), Some(places)) = (queries.first(), places(queries)) else {
            return (Duration::ZERO, Ok(None));
        };
        let name = Name {
            matcher: query::any_name(queries.iter().map(|query| query.spec)),
            spelling: None,
        };
        let (took, received) = self.receive(first, vec![name], now, text).await;
        let divided = received.and_then(|received| {
            let mut whole = Batch::new(first.spec.id, Bytes::new());
            let fetched = self.decode(first, now, &received, &mut whole)?;
            for (query, batch) in queries.iter().zip(&mut *batches) {
                batch.reset(query.spec.id, received.text.clone());
            }
            let place_of = |labels: &str| places.get(&*decode::name(labels)?).copied();
            Ok(whole.divide(batches, place_of).then_some(fetched))
        });
        (took, divided)
    }
}

/// The index of the query for each name; `None`: two queries share a name.
fn places(queries: &[SignalQuery<'_>]) -> Option<HashMap<String, usize>> {
    let mut places = HashMap::new();
    for (place, query) in queries.iter().enumerate() {
        for name in query::spellings(query.spec) {
            if places.insert(name, place).is_some() {
                return None;
            }
        }
    }
    Some(places)
}
