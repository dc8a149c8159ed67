//! Writes value lists (docs/protocol.md, "Value lists").

use aggregated_apiserver::refusal::Refusal;
use bytes::Bytes;

use aggregated_apiserver::api::encode::{ListEncoder, append_item};
use aggregated_apiserver::api::negotiate::Encoding;
use apimachinery::quantity;
use gpu_metrics::metric::Value;

use crate::provider::{CustomValue, ExternalValue, MetricValues, Query, ValuesOf};

use super::group::{GroupVersion, Version};
use super::messages::{
    ExternalMetricValue, MetricIdentifier, MetricValueV1Beta1, MetricValueV1Beta2, ObjectReference,
    Quantity, Time,
};

/// Encodes items. It checks each value again: one that is not a number is left out, whatever
/// the provider decided, because an unknown value is never a zero (docs/protocol.md,
/// "Quantities", "What the autoscaler does").
struct ItemEncoder<'q> {
    version: Version,
    encoding: Encoding,
    metric: &'q str,
}

/// The list of the values of a query.
///
/// # Errors
/// When one object was requested, and has no value.
pub(super) fn encode(
    of: GroupVersion,
    query: &Query,
    encoding: Encoding,
    values: MetricValues,
) -> Result<Bytes, Refusal> {
    let items = ItemEncoder {
        version: of.version,
        encoding,
        metric: &query.metric,
    };
    let kind = of.group.list_kind().to_owned();
    let mut list = ListEncoder::new(encoding, of.to_string(), kind);
    let out = list.items();
    match values {
        MetricValues::Custom(values) => values.into_iter().for_each(|it| items.custom(it, out)),
        MetricValues::External(values) => values.iter().for_each(|it| items.external(it, out)),
        // They are those of queries without a selector, so that equal items have equal bytes
        // in all lists of a version and an encoding.
        MetricValues::Stored(stored) => {
            stored.append(items.place(), |value, out| items.custom(value, out), out);
        }
    }
    // A response for a single object has one item, because clients reject an empty list.
    let is_named = matches!(&query.of, ValuesOf::Objects(it) if it.name.is_some());
    if is_named && list.is_empty() {
        let reason = "no fresh value that is a number";
        return Err(Refusal::NoValue(reason.to_owned()));
    }
    Ok(list.finish())
}

impl ItemEncoder<'_> {
    /// The place of encoded items among those that are kept, of [`crate::provider::served::ENCODINGS`].
    const fn place(&self) -> usize {
        let version = match self.version {
            Version::V1Beta1 => 0,
            Version::V1Beta2 | Version::V1 => 1,
        };
        let encoding = match self.encoding {
            Encoding::Json => 0,
            Encoding::Protobuf => 1,
        };
        2 * version + encoding
    }

    fn custom(&self, item: CustomValue, out: &mut Vec<u8>) {
        let Some(value) = quantity_of(item.value) else {
            return;
        };
        let described_object = Some(ObjectReference {
            kind: Some(item.kind.kind.to_string()),
            namespace: item.namespace.map(|it| it.to_string()),
            name: Some(item.name.to_string()),
            api_version: Some(item.kind.api_version.to_string()),
        });
        let timestamp = Some(Time::from(item.value.at));
        let name = Some(self.metric.to_owned());
        match self.version {
            Version::V1Beta1 => append_item(
                self.encoding,
                &MetricValueV1Beta1 {
                    described_object,
                    metric_name: name,
                    timestamp,
                    window: window_of(item.value),
                    value: Some(value),
                    selector: None,
                },
                out,
            ),
            Version::V1Beta2 | Version::V1 => append_item(
                self.encoding,
                &MetricValueV1Beta2 {
                    described_object,
                    metric: Some(MetricIdentifier {
                        name,
                        selector: None,
                    }),
                    timestamp,
                    window_seconds: window_of(item.value),
                    value: Some(value),
                },
                out,
            ),
        }
    }

    fn external(&self, item: &ExternalValue, out: &mut Vec<u8>) {
        let Some(value) = quantity_of(item.value) else {
            return;
        };
        let labels = item.labels.iter();
        let message = ExternalMetricValue {
            metric_name: Some(item.metric.to_string()),
            metric_labels: labels
                .map(|(name, value)| (name.to_string(), value.to_string()))
                .collect(),
            timestamp: Some(Time::from(item.value.at)),
            window: window_of(item.value),
            value: Some(value),
        };
        append_item(self.encoding, &message, out);
    }
}

fn quantity_of(value: Value) -> Option<Quantity> {
    quantity::milli_from_f64(value.value).map(Quantity::decimal)
}

fn window_of(value: Value) -> Option<i64> {
    (value.window_secs > 0).then(|| i64::from(value.window_secs))
}
