//! Any query, and any search for series: what prometheus-adapter's rules ask.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _, SeqAccess, Visitor};
use serde_json::value::RawValue;
use tokio::sync::RwLock;

use super::endpoint::{ERROR_BODY_BYTES, Endpoint};
use crate::config::PrometheusSettings;
use crate::core::labels::Labels;
use crate::core::time::Timestamp;
use crate::rules::answer::{Answer, Sample};
use crate::rules::registry::Shape;
use crate::source::error::{Error, excerpt};

/// Most combinations of a name and names of labels that one selector may find:
/// more is a selector that finds everything.
const MOST_SHAPES: usize = 50_000;

/// The label that holds the name.
const NAME: &str = "__name__";

/// Asks a Prometheus any query. For all tasks at once.
pub struct Promql {
    endpoint: RwLock<Endpoint>,
    address: String,
}

impl fmt::Debug for Promql {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.debug_struct("Promql")
            .field("address", &self.address)
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

#[derive(Deserialize)]
struct Row {
    metric: BTreeMap<String, String>,
    /// Absent where the sample is a histogram.
    value: Option<(f64, String)>,
}

impl Promql {
    /// A client for `settings`.
    ///
    /// # Errors
    /// When a certificate file cannot be used.
    pub fn new(settings: PrometheusSettings) -> Result<Self, Error> {
        let endpoint = Endpoint::new(settings)?;
        Ok(Self {
            address: endpoint.address.clone(),
            endpoint: RwLock::new(endpoint),
        })
    }

    /// Takes up changed certificate files.
    pub async fn renew(&self) {
        self.endpoint.write().await.renew().await;
    }

    /// The result of a query at a time.
    ///
    /// # Errors
    /// When Prometheus does not answer, or not with a result.
    pub async fn query(&self, promql: &str, at: Timestamp) -> Result<Answer, Error> {
        let body = self.endpoint.read().await.instant(promql, at).await?;
        let data: Data<'_> = self.data(&body)?;
        match data.result_type.as_str() {
            "vector" => {
                let rows: Vec<Row> = self.part(data.result, &body)?;
                let samples = rows.into_iter().filter_map(|row| {
                    let (at, value) = row.value?;
                    Some(Sample {
                        labels: Labels::from_pairs(row.metric),
                        value: number(&value)?,
                        at: seconds(at),
                    })
                });
                Ok(Answer::Vector(samples.collect()))
            }
            "scalar" => {
                let (at, value): (f64, String) = self.part(data.result, &body)?;
                let value = number(&value)
                    .ok_or_else(|| self.not_an_answer(&format!("{value:?} is no number"), &body))?;
                Ok(Answer::Scalar(value, seconds(at)))
            }
            other => Ok(Answer::Other(other.to_owned())),
        }
    }

    /// The shapes of the series that a selector finds from `start` on, in the
    /// order in which the last of each comes.
    ///
    /// # Errors
    /// When Prometheus does not answer, or finds too many.
    pub async fn series(&self, selector: &str, start: Timestamp) -> Result<Arc<[Shape]>, Error> {
        let body = self.endpoint.read().await.series(selector, start).await?;
        let Shapes(shapes) = self.data(&body)?;
        Ok(shapes)
    }

    fn data<'a, T: Deserialize<'a>>(&self, body: &'a [u8]) -> Result<T, Error> {
        let envelope: Envelope<T> = serde_json::from_slice(body)
            .map_err(|error| self.not_an_answer(&error.to_string(), body))?;
        match (envelope.status.as_str(), envelope.data) {
            ("success", Some(data)) => Ok(data),
            ("success", None) => Err(Error::NullData {
                address: self.address.clone(),
                reason: "data is null".to_owned(),
            }),
            _ => Err(Error::Query {
                address: self.address.clone(),
                error_type: excerpt(&envelope.error_type),
                error: excerpt(&envelope.error),
            }),
        }
    }

    fn part<'a, T: Deserialize<'a>>(&self, part: &'a RawValue, body: &[u8]) -> Result<T, Error> {
        serde_json::from_str(part.get())
            .map_err(|error| self.not_an_answer(&error.to_string(), body))
    }

    fn not_an_answer(&self, reason: &str, body: &[u8]) -> Error {
        let start = body.get(..ERROR_BODY_BYTES).unwrap_or(body);
        Error::NotAnAnswer {
            address: self.address.clone(),
            reason: excerpt(reason),
            excerpt: excerpt(&String::from_utf8_lossy(start)),
        }
    }
}

/// Prometheus writes `NaN`, `+Inf` and `-Inf` so.
fn number(text: &str) -> Option<f64> {
    text.parse().ok()
}

fn seconds(seconds: f64) -> Timestamp {
    Timestamp::from_millis((seconds * 1000.0).round() as i64)
}

/// Series as they come, reduced to their shapes one by one.
struct Shapes(Arc<[Shape]>);

impl<'de> Deserialize<'de> for Shapes {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(ShapesVisitor).map(Shapes)
    }
}

struct ShapesVisitor;

impl<'de> Visitor<'de> for ShapesVisitor {
    type Value = Arc<[Shape]>;

    fn expecting(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str("a list of series")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut series: A) -> Result<Self::Value, A::Error> {
        let mut shapes: HashMap<Shape, usize> = HashMap::new();
        let mut place = 0;
        while let Some(labels) = series.next_element::<BTreeMap<String, &RawValue>>()? {
            let name = labels
                .get(NAME)
                .and_then(|name| serde_json::from_str(name.get()).ok());
            let name: String = name.unwrap_or_default();
            let labels = labels.into_keys().filter(|label| label != NAME);
            let shape = Shape {
                name: name.into(),
                labels: labels.map(Into::into).collect(),
            };
            shapes.insert(shape, place);
            if shapes.len() > MOST_SHAPES {
                let message = format!(
                    "more than {MOST_SHAPES} names and sets of labels: narrow the seriesQuery"
                );
                return Err(A::Error::custom(message));
            }
            place += 1;
        }
        let mut shapes: Vec<(Shape, usize)> = shapes.into_iter().collect();
        shapes.sort_by_key(|(_, place)| *place);
        Ok(shapes.into_iter().map(|(shape, _)| shape).collect())
    }
}
