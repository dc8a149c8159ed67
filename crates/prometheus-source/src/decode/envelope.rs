//! The API's envelope and its series, as seeds that fill a batch while serde
//! reads: `{"status":…,"data":{"resultType":"matrix","result":[…]},…}`.
//!
//! Keys may come in any order and unknown ones are ignored (docs/stores.md,
//! "Answers").

use std::fmt;
use std::ops::Range;

use serde::Deserialize;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::sample::Pair;
use super::{KeyHasher, Nan};
use gpu_metrics::batch::{Batch, Sample};

/// The `resultType` of a range selector's answer.
pub(super) const MATRIX: &str = "matrix";

/// Receives decoded series.
pub(super) struct Sink<'a> {
    text_start: usize,
    nan: Nan,
    hasher: &'a KeyHasher,
    batch: &'a mut Batch,
    /// The most bytes that the batch may take in addition to its text.
    pub(super) room: usize,
    /// Whether the batch takes more.
    pub(super) is_full: bool,
}

impl<'a> Sink<'a> {
    /// A sink for the series in `text`, which must be the batch's text.
    pub(super) fn new(text: &[u8], nan: Nan, hasher: &'a KeyHasher, batch: &'a mut Batch) -> Self {
        Self {
            text_start: text.as_ptr().addr(),
            nan,
            hasher,
            batch,
            room: usize::MAX,
            is_full: false,
        }
    }

    /// The range in the batch's text of a string borrowed from it.
    fn range(&self, raw: &str) -> Range<usize> {
        let start = raw.as_ptr().addr().wrapping_sub(self.text_start);
        start..start.wrapping_add(raw.len())
    }

    /// Begins a series with these labels, which are in the batch's text.
    #[inline]
    pub(super) fn begin(&mut self, labels: &str) {
        let range = self.range(labels);
        self.batch.begin_series(self.hasher.key(labels), range);
    }

    /// Adds a sample to the series begun last, unless it ends that series.
    #[inline]
    pub(super) fn push(&mut self, sample: Sample) {
        if self.nan == Nan::Value || !sample.value.is_nan() {
            self.batch.push(sample);
        }
    }

    /// Whether the batch takes no more than it may; records if it does.
    #[inline]
    pub(super) fn has_room(&mut self) -> bool {
        self.is_full = self.batch.bytes_beside_text() > self.room;
        !self.is_full
    }

    /// Stops the parser if the batch takes too much.
    fn check_room<E: Error>(&mut self) -> Result<(), E> {
        match self.has_room() {
            true => Ok(()),
            false => Err(E::custom("too many samples")),
        }
    }
}

/// `data` of a query.
#[derive(Debug)]
pub(super) struct Data {
    /// The value of `resultType`, if there is one.
    pub(super) result_type: Option<String>,
    /// Whether there is a `result` that is not null.
    pub(super) has_result: bool,
}

/// The outermost object, with what its `data` is read as.
#[derive(Debug)]
pub(super) struct Envelope<D> {
    pub(super) status: String,
    /// `None` if it is absent or null.
    pub(super) data: Option<D>,
    pub(super) error_type: String,
    pub(super) error: String,
    warnings: Vec<String>,
    is_partial: bool,
}

impl<D> Envelope<D> {
    /// The warnings; VictoriaMetrics' mark of an incomplete answer counts as one.
    pub(super) fn all_warnings(self) -> Vec<String> {
        let mut warnings = self.warnings;
        if self.is_partial {
            warnings.push("the engine marks its answer as partial (isPartial)".to_owned());
        }
        warnings
    }
}

/// Reads an answer, and its `data` with the seed.
pub(super) fn parse<'de, D, S: DeserializeSeed<'de, Value = Option<D>>>(
    text: &'de str,
    data: S,
) -> Result<Envelope<D>, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let envelope = json.deserialize_map(EnvelopeVisitor(data))?;
    json.end()?;
    Ok(envelope)
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum EnvelopeKey {
    Status,
    Data,
    ErrorType,
    Error,
    Warnings,
    IsPartial,
    #[serde(other)]
    Other,
}

struct EnvelopeVisitor<S>(S);

impl<'de, D, S: DeserializeSeed<'de, Value = Option<D>>> Visitor<'de> for EnvelopeVisitor<S> {
    type Value = Envelope<D>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with status and data")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut seed = Some(self.0);
        let mut envelope = Envelope {
            status: String::new(),
            data: None,
            error_type: String::new(),
            error: String::new(),
            warnings: Vec::new(),
            is_partial: false,
        };
        while let Some(key) = map.next_key()? {
            match key {
                EnvelopeKey::Status => envelope.status = map.next_value()?,
                EnvelopeKey::Data => {
                    let seed = seed.take();
                    let seed = seed.ok_or_else(|| A::Error::duplicate_field("data"))?;
                    envelope.data = map.next_value_seed(seed)?;
                }
                EnvelopeKey::ErrorType => envelope.error_type = or_null(&mut map)?,
                EnvelopeKey::Error => envelope.error = or_null(&mut map)?,
                EnvelopeKey::Warnings => envelope.warnings = or_null(&mut map)?,
                EnvelopeKey::IsPartial => envelope.is_partial = or_null(&mut map)?,
                EnvelopeKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(envelope)
    }
}

fn or_null<'de, A: MapAccess<'de>, T>(map: &mut A) -> Result<T, A::Error>
where
    T: Deserialize<'de> + Default,
{
    Ok(map.next_value::<Option<T>>()?.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum DataKey {
    ResultType,
    Result,
    #[serde(other)]
    Other,
}

/// `data` of a matrix, whose series go into the sink; it may be null.
pub(super) struct DataSeed<'s, 'a>(pub(super) &'s mut Sink<'a>);

impl<'de> DeserializeSeed<'de> for DataSeed<'_, '_> {
    type Value = Option<Data>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DataSeed<'_, '_> {
    type Value = Option<Data>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with resultType and result")
    }

    fn visit_unit<E>(self) -> Result<Self::Value, E> {
        Ok(None)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let mut data = Data {
            result_type: None,
            has_result: false,
        };
        while let Some(key) = map.next_key()? {
            match key {
                DataKey::ResultType => data.result_type = Some(map.next_value()?),
                // Other types have other shapes, and the type's name is sufficient
                // for the error.
                DataKey::Result if data.result_type.as_ref().is_some_and(|it| it != MATRIX) => {
                    map.next_value::<IgnoredAny>()?;
                }
                DataKey::Result => {
                    data.has_result = map.next_value_seed(ResultSeed(self.0))?;
                }
                DataKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Some(data))
    }
}

/// Reads the series. Returns whether it is not null.
struct ResultSeed<'s, 'a>(&'s mut Sink<'a>);

impl<'de> DeserializeSeed<'de> for ResultSeed<'_, '_> {
    type Value = bool;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<bool, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ResultSeed<'_, '_> {
    type Value = bool;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of series")
    }

    fn visit_unit<E>(self) -> Result<bool, E> {
        Ok(false)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<bool, A::Error> {
        while seq.next_element_seed(SeriesSeed(self.0))?.is_some() {}
        Ok(true)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum SeriesKeyword {
    Metric,
    Values,
    #[serde(other)]
    Other,
}

struct SeriesSeed<'s, 'a>(&'s mut Sink<'a>);

impl<'de> DeserializeSeed<'de> for SeriesSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for SeriesSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a series with metric and values")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<(), A::Error> {
        let mut labels: Option<&'de str> = None;
        let mut early_values: Option<&'de RawValue> = None;
        while let Some(key) = map.next_key()? {
            match key {
                SeriesKeyword::Metric => {
                    let raw = map.next_value::<&'de RawValue>()?.get();
                    if !raw.starts_with('{') || labels.replace(raw).is_some() {
                        return Err(A::Error::custom("metric is not one object of labels"));
                    }
                }
                SeriesKeyword::Values => match labels {
                    Some(labels) => {
                        self.0.begin(labels);
                        map.next_value_seed(ValuesSeed(self.0))?;
                    }
                    None => early_values = Some(map.next_value()?),
                },
                SeriesKeyword::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        self.0.check_room()?;
        let labels = labels.ok_or_else(|| A::Error::missing_field("metric"))?;
        if let Some(raw) = early_values {
            self.0.begin(labels);
            ValuesSeed(self.0)
                .deserialize(&mut serde_json::Deserializer::from_str(raw.get()))
                .map_err(A::Error::custom)?;
        }
        Ok(())
    }
}

struct ValuesSeed<'s, 'a>(&'s mut Sink<'a>);

impl<'de> DeserializeSeed<'de> for ValuesSeed<'_, '_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        deserializer.deserialize_seq(self)
    }
}

impl<'de> Visitor<'de> for ValuesSeed<'_, '_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of samples")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<(), A::Error> {
        while let Some(Pair(at, value)) = seq.next_element()? {
            self.0.push(Sample { at, value });
            self.0.check_room()?;
        }
        Ok(())
    }
}
