//! Arbitrary queries and searches for series, as prometheus-adapter's rules need
//! them.

mod elements;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use arc_swap::ArcSwap;

use super::endpoint::{Endpoint, Kind};
use crate::decode::{KeyHasher, SeriesReader};
use crate::error::Error;
use crate::query;
use adapter_rules::answer::Answer;
use adapter_rules::registry::Shape;
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use gpu_metrics::signal::SignalId;

use elements::{Rows, Shapes};

/// Sends arbitrary queries to Prometheus. Shared by all tasks.
pub struct PromqlClient {
    endpoint: ArcSwap<Endpoint>,
    max_concurrent_queries: u16,
}

impl fmt::Debug for PromqlClient {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("PromqlClient")
            .field("address", &self.endpoint.load().address)
            .finish_non_exhaustive()
    }
}

impl PromqlClient {
    pub(super) fn new(endpoint: Endpoint) -> Self {
        Self {
            max_concurrent_queries: endpoint.settings.max_concurrent_queries,
            endpoint: ArcSwap::from_pointee(endpoint),
        }
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
        let form = endpoint.form(promql, at);
        let mut rows = Rows::default();
        let received = endpoint.ask(Kind::Rule, &form, &mut rows).await?;
        let result = rows.result(&received);
        result.map_err(|error| endpoint.unusable(error, b"", 0, &received.secrets))
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
        let form = query::form([
            ("query", promql),
            ("start", &start.to_string()),
            ("end", &end.to_string()),
            ("step", &format_duration(step)),
            ("timeout", &format_duration(endpoint.settings.timeout)),
        ]);
        let (mut whole, hasher) = (Batch::new(SignalId(0)), KeyHasher::new());
        let mut parts = [Batch::new(SignalId(0))];
        let mut keep = |part: &Batch| whole.append(part);
        let mut series = SeriesReader::new(&hasher, None, &mut parts, &mut keep);
        let received = endpoint.ask(Kind::Range, &form, &mut series).await?;
        series.finish();
        endpoint.check_matrix(received)?;
        Ok(whole)
    }

    /// The shapes of the series that a selector matches from `start` on, in the order
    /// of the last series of each.
    ///
    /// # Errors
    /// When Prometheus does not answer, or finds too many.
    pub async fn series(&self, selector: &str, start: Timestamp) -> Result<Arc<[Shape]>, Error> {
        let endpoint = self.endpoint.load_full();
        let form = query::form([("match[]", selector), ("start", &start.to_string())]);
        let mut shapes = Shapes::default();
        endpoint.ask(Kind::Series, &form, &mut shapes).await?;
        Ok(shapes.in_order())
    }
}
