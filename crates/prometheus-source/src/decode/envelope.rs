//! Answers of any form: `{"status":…,"data":{"resultType":…,"result":[…]},…}`.
//!
//! Keys may come in any order and unknown ones are ignored (docs/stores.md,
//! "Answers"). A list is first delimited, and its elements are then read one by one.

use std::fmt;
use std::marker::PhantomData;

use serde::Deserialize;
use serde::de::{Deserializer, Error, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::sample::Pair;
use super::sink::Sink;
use super::{DecodeError, fault, missing};
use gpu_metrics::batch::Sample;

/// The outermost object.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Envelope<D> {
    pub(super) status: Option<String>,
    pub(super) data: Option<D>,
    pub(super) error_type: Option<String>,
    pub(super) error: Option<String>,
    warnings: Option<Vec<String>>,
    is_partial: Option<bool>,
}

impl<D> Envelope<D> {
    /// The warnings, with one for VictoriaMetrics' `isPartial`.
    pub(super) fn all_warnings(self) -> Vec<String> {
        let mut warnings = self.warnings.unwrap_or_default();
        if self.is_partial == Some(true) {
            warnings.push("the engine marks its answer as partial (isPartial)".to_owned());
        }
        warnings
    }
}

/// `data` of a query.
#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct QueryResult<'a> {
    result_type: Option<String>,
    #[serde(borrow)]
    result: Option<&'a RawValue>,
}

impl<'a> QueryResult<'a> {
    /// The result's type and its text.
    pub(crate) fn parts(&self) -> Result<(&str, &'a RawValue), DecodeError> {
        let kind = self.result_type.as_deref();
        let kind = kind.ok_or_else(|| missing("resultType"))?;
        Ok((kind, self.result.ok_or_else(|| missing("data.result"))?))
    }
}

/// A series of a matrix; `values` is absent if its samples are histograms.
#[derive(Deserialize)]
struct Series<'a> {
    #[serde(borrow)]
    metric: &'a RawValue,
    #[serde(borrow)]
    values: Option<&'a RawValue>,
}

/// Reads the series of a matrix into the sink.
pub(super) fn matrix(result: &RawValue, sink: &mut Sink<'_>) -> Result<(), DecodeError> {
    each(result, |series: Series<'_>| {
        let labels = series.metric.get();
        if !labels.starts_with('{') {
            let text = "metric is no object".to_owned();
            return Err(DecodeError::NotAnAnswer(text));
        }
        let Some(values) = series.values else {
            return Ok(());
        };
        sink.begin(labels);
        each(values, |Pair(at, value)| {
            sink.push(Sample { at, value });
            sink.has_room().then_some(()).ok_or(DecodeError::TooLarge)
        })?;
        sink.has_room().then_some(()).ok_or(DecodeError::TooLarge)
    })
}

/// Calls a function for each element of a list, with one element in memory at a time. An
/// error of the function ends the reading.
pub(crate) fn each<'a, T: Deserialize<'a>>(
    list: &'a RawValue,
    take: impl FnMut(T) -> Result<(), DecodeError>,
) -> Result<(), DecodeError> {
    let mut refused = None;
    let each = Each(PhantomData, take, &mut refused);
    let read = serde_json::Deserializer::from_str(list.get()).deserialize_seq(each);
    read.map_err(|error| refused.unwrap_or_else(|| fault(&error)))
}

/// Receives the elements of a list, and records the error of the function.
struct Each<'r, T, F>(PhantomData<T>, F, &'r mut Option<DecodeError>);

impl<'de, T, F> Visitor<'de> for Each<'_, T, F>
where
    T: Deserialize<'de>,
    F: FnMut(T) -> Result<(), DecodeError>,
{
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_seq<A: SeqAccess<'de>>(mut self, mut list: A) -> Result<(), A::Error> {
        while let Some(element) = list.next_element()? {
            if let Err(error) = (self.1)(element) {
                *self.2 = Some(error);
                return Err(A::Error::custom("the element is refused"));
            }
        }
        Ok(())
    }
}
