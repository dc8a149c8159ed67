//! Arbitrary queries and searches for series, as prometheus-adapter's rules need
//! them.

pub(crate) mod elements;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use super::Prometheus;
use super::endpoint::Kind;
use crate::decode::{AnswerDecoder, DecodeError, KeyHasher, SeriesReader};
use crate::error::Error;
use crate::query;
use adapter_rules::registry::Shape;
use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;
use gpu_metrics::batch::Batch;
use gpu_metrics::signal::SignalId;

pub use elements::VectorSample;
use elements::{Samples, Shapes};

impl Prometheus {
    /// The most concurrent queries of one purpose.
    pub(crate) fn max_concurrent_queries(&self) -> u16 {
        self.endpoint.settings.max_concurrent_queries
    }

    /// The samples that a query gives at a time. A scalar is a sample without labels.
    ///
    /// # Errors
    /// When Prometheus does not answer, or its answer has no result.
    pub async fn query(&self, promql: &str, at: Timestamp) -> Result<Vec<VectorSample>, Error> {
        let form = self.endpoint.form(promql, at);
        let mut result = Samples::default();
        self.endpoint.ask(Kind::Rule, &form, &mut result).await?;
        Ok(result.samples)
    }

    /// The results of a query over a time range, including both ends, with one sample per
    /// `step`. Prometheus allows at most 11,000 samples per series.
    ///
    /// # Errors
    /// When Prometheus does not answer, or its answer may be partial.
    pub async fn range(
        &self,
        promql: &str,
        ends: [Timestamp; 2],
        step: Duration,
    ) -> Result<Batch, Error> {
        let timeout = format_duration(self.endpoint.settings.timeout);
        let form = query::range_parameters(promql, ends, step) + "&timeout=" + &timeout;
        self.whole(Kind::Range, &form).await
    }

    /// The samples of a selector with a range before a time (`x[5m]`), as they are stored.
    ///
    /// # Errors
    /// When there is no usable answer.
    pub async fn samples(&self, selector: &str, at: Timestamp) -> Result<Batch, Error> {
        let form = self.endpoint.form(selector, at);
        self.whole(Kind::Samples, &form).await
    }

    async fn whole(&self, kind: Kind, form: &str) -> Result<Batch, Error> {
        let mut whole = Batch::new(SignalId(0));
        let parts = vec![Batch::new(SignalId(0))];
        let mut keep = |part: &Batch| whole.append(part);
        let mut series = SeriesReader::new(&self.hasher, parts, HashMap::new(), &mut keep);
        self.endpoint.ask(kind, form, &mut series).await?;
        series.finish();
        Ok(whole)
    }

    /// The shapes of the series that a selector matches from `start` on, in the order
    /// of the last series of each.
    ///
    /// # Errors
    /// When Prometheus does not answer, or finds too many.
    pub async fn series(&self, selector: &str, start: Timestamp) -> Result<Arc<[Shape]>, Error> {
        let form = query::form([("match[]", selector), ("start", &start.to_string())]);
        let mut shapes = Shapes::default();
        self.endpoint.ask(Kind::Series, &form, &mut shapes).await?;
        Ok(shapes.in_order())
    }
}

/// The series of a whole answer to a query over a time range, received by another client.
///
/// # Errors
/// When the answer has no such result, or may be partial.
pub fn matrix(answer: &[u8], hasher: &KeyHasher) -> Result<Batch, DecodeError> {
    let mut whole = Batch::new(SignalId(0));
    let parts = vec![Batch::new(SignalId(0))];
    let mut keep = |part: &Batch| whole.append(part);
    let mut series = SeriesReader::new(hasher, parts, HashMap::new(), &mut keep);
    let mut decoder = AnswerDecoder::default();
    decoder.feed(answer, &mut series)?;
    decoder.finish(&mut series)?;
    series.finish();
    Ok(whole)
}
