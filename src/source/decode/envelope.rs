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
use gpu_metrics::batch::Batch;

/// Receives decoded series.
pub(super) struct Sink<'a> {
    text_start: usize,
    nan: Nan,
    hasher: &'a KeyHasher,
    batch: &'a mut Batch,
    /// Whether a series had neither `values` nor `histograms`, as in a vector.
    pub(super) without_values: bool,
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
            without_values: false,
            room: usize::MAX,
            is_full: false,
        }
    }

    /// The range in the batch's text of a string borrowed from it.
    fn range(&self, raw: &str) -> Range<usize> {
        let start = raw.as_ptr().addr().wrapping_sub(self.text_start);
        start..start.wrapping_add(raw.len())
    }

    fn begin(&mut self, labels: &str) {
        let range = self.range(labels);
        self.batch.begin_series(self.hasher.key(labels), range);
    }

    /// Stops the parser if the batch takes too much.
    fn check_room<E: Error>(&mut self) -> Result<(), E> {
        self.is_full = self.batch.bytes_beside_text() > self.room;
        match self.is_full {
            true => Err(E::custom("too many samples")),
            false => Ok(()),
        }
    }
}

/// Whether a key was present, and its content.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Presence {
    #[default]
    Absent,
    Null,
    Value,
}

/// The value of `resultType`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) enum ResultType {
    #[default]
    Absent,
    Matrix,
    Other(String),
}

/// `data`.
#[derive(Clone, Debug, Default)]
pub(super) struct Data {
    pub(super) presence: Presence,
    pub(super) result_type: ResultType,
    pub(super) result: Presence,
}

/// The outermost object.
#[derive(Clone, Debug, Default)]
pub(super) struct Envelope {
    pub(super) status: String,
    pub(super) data: Data,
    pub(super) error_type: String,
    pub(super) error: String,
    warnings: Vec<String>,
    is_partial: bool,
}

impl Envelope {
    /// The warnings; VictoriaMetrics' mark of an incomplete answer counts as one.
    pub(super) fn all_warnings(self) -> Vec<String> {
        let mut warnings = self.warnings;
        if self.is_partial {
            warnings.push("the engine marks its answer as partial (isPartial)".to_owned());
        }
        warnings
    }
}

pub(super) fn parse(text: &str, sink: &mut Sink<'_>) -> Result<Envelope, serde_json::Error> {
    let mut json = serde_json::Deserializer::from_str(text);
    let envelope = json.deserialize_map(EnvelopeVisitor(sink))?;
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

struct EnvelopeVisitor<'s, 'a>(&'s mut Sink<'a>);

impl<'de> Visitor<'de> for EnvelopeVisitor<'_, '_> {
    type Value = Envelope;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with status and data")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Envelope, A::Error> {
        let mut envelope = Envelope::default();
        while let Some(key) = map.next_key()? {
            match key {
                EnvelopeKey::Status => envelope.status = map.next_value()?,
                EnvelopeKey::Data => envelope.data = map.next_value_seed(DataSeed(self.0))?,
                EnvelopeKey::ErrorType => envelope.error_type = text_or_null(&mut map)?,
                EnvelopeKey::Error => envelope.error = text_or_null(&mut map)?,
                EnvelopeKey::Warnings => {
                    envelope.warnings = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                EnvelopeKey::IsPartial => {
                    envelope.is_partial = map.next_value::<Option<_>>()?.unwrap_or_default();
                }
                EnvelopeKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(envelope)
    }
}

fn text_or_null<'de, A: MapAccess<'de>>(map: &mut A) -> Result<String, A::Error> {
    Ok(map.next_value::<Option<String>>()?.unwrap_or_default())
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum DataKey {
    ResultType,
    Result,
    #[serde(other)]
    Other,
}

struct DataSeed<'s, 'a>(&'s mut Sink<'a>);

impl<'de> DeserializeSeed<'de> for DataSeed<'_, '_> {
    type Value = Data;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Data, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for DataSeed<'_, '_> {
    type Value = Data;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object with resultType and result")
    }

    fn visit_unit<E>(self) -> Result<Data, E> {
        Ok(Data {
            presence: Presence::Null,
            ..Data::default()
        })
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Data, A::Error> {
        let mut data = Data {
            presence: Presence::Value,
            ..Data::default()
        };
        while let Some(key) = map.next_key()? {
            match key {
                DataKey::ResultType => {
                    let found: String = map.next_value()?;
                    data.result_type = if found == "matrix" {
                        ResultType::Matrix
                    } else {
                        ResultType::Other(found)
                    };
                }
                // Other types have other shapes, and the type's name is sufficient
                // for the error.
                DataKey::Result if matches!(data.result_type, ResultType::Other(_)) => {
                    map.next_value::<IgnoredAny>()?;
                }
                DataKey::Result => data.result = map.next_value_seed(ResultSeed(self.0))?,
                DataKey::Other => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(data)
    }
}

struct ResultSeed<'s, 'a>(&'s mut Sink<'a>);

impl<'de> DeserializeSeed<'de> for ResultSeed<'_, '_> {
    type Value = Presence;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Presence, D::Error> {
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ResultSeed<'_, '_> {
    type Value = Presence;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an array of series")
    }

    fn visit_unit<E>(self) -> Result<Presence, E> {
        Ok(Presence::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Presence, A::Error> {
        while seq.next_element_seed(SeriesSeed(self.0))?.is_some() {}
        Ok(Presence::Value)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum SeriesKeyword {
    Metric,
    Values,
    #[serde(alias = "histogram")]
    Histograms,
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
        let (mut values, mut histograms) = (false, false);
        while let Some(key) = map.next_key()? {
            match key {
                SeriesKeyword::Metric => {
                    let raw = map.next_value::<&'de RawValue>()?.get();
                    if !raw.starts_with('{') || labels.replace(raw).is_some() {
                        return Err(A::Error::custom("metric is not one object of labels"));
                    }
                }
                SeriesKeyword::Values => {
                    if std::mem::replace(&mut values, true) {
                        return Err(A::Error::duplicate_field("values"));
                    }
                    if let Some(labels) = labels {
                        self.0.begin(labels);
                        map.next_value_seed(ValuesSeed(self.0))?;
                    } else {
                        early_values = Some(map.next_value()?);
                    }
                }
                SeriesKeyword::Histograms => {
                    map.next_value::<IgnoredAny>()?;
                    histograms = true;
                }
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
        self.0.without_values |= !values && !histograms;
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
        while let Some(Pair(sample)) = seq.next_element()? {
            if self.0.nan == Nan::Value || !sample.value.is_nan() {
                self.0.batch.push(sample);
            }
            self.0.check_room()?;
        }
        Ok(())
    }
}
