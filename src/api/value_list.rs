//! Writes value lists (docs/protocol.md, "Value lists").

use bytes::Bytes;

use aggregated_apiserver::api::encode::{ListEncoder, append_item};
use aggregated_apiserver::api::negotiate::Encoding;
use apimachinery::quantity;
use gpu_metrics::metric::Value;

use crate::provider::encoded::StoredItems;
use crate::provider::{CustomItem, ExternalItem, Item, ProviderError, Query, ValueSink};

use super::group::{GroupVersion, MetricsGroup, Version};
use super::messages::{
    ExternalMetricValue, LabelSelector, MetricIdentifier, MetricValueV1Beta1, MetricValueV1Beta2,
    ObjectReference, Quantity, Time,
};

/// Encodes items. It checks each value again: one that is not a number is left out, whatever
/// the provider decided, because an unknown value is never a zero (docs/protocol.md,
/// "Quantities", "What the autoscaler does").
struct ItemEncoder<'q> {
    version: Version,
    encoding: Encoding,
    metric: &'q str,
    /// The selector that custom items repeat.
    selector: Option<LabelSelector>,
}

/// Writes a list in the client's encoding.
pub(super) struct ListWriter<'q> {
    items: ItemEncoder<'q>,
    list: ListEncoder,
}

impl<'q> ListWriter<'q> {
    /// An empty list. Items of custom metrics repeat the query's metric and selector.
    pub(super) fn new(of: GroupVersion, query: &'q Query, encoding: Encoding) -> Self {
        let kind = of.group.list_kind().to_owned();
        Self {
            items: ItemEncoder {
                version: of.version,
                encoding,
                metric: &query.metric,
                selector: match of.group {
                    MetricsGroup::Custom => LabelSelector::of(&query.selector),
                    MetricsGroup::External | MetricsGroup::Resource => None,
                },
            },
            list: ListEncoder::new(encoding, of.to_string(), kind),
        }
    }

    /// The document.
    ///
    /// # Errors
    /// When an item is required and there is none.
    pub(super) fn finish(self, requires_item: bool) -> Result<Bytes, ProviderError> {
        if requires_item && self.list.is_empty() {
            let reason = "no fresh value that is a number";
            return Err(ProviderError::NoValue(reason.to_owned()));
        }
        Ok(self.list.finish())
    }
}

impl ValueSink for ListWriter<'_> {
    fn item(&mut self, item: Item<'_>) {
        match item {
            Item::Custom(item) => self.items.custom(&item, self.list.items()),
            Item::External(item) => self.items.external(&item, self.list.items()),
        }
    }

    /// Stored values are those of queries without a selector, so that equal items have equal
    /// bytes in all lists of a version and an encoding.
    fn stored(&mut self, items: &StoredItems<'_>) {
        let encode = |item: &CustomItem<'_>, out: &mut Vec<u8>| self.items.custom(item, out);
        items.append(self.items.place(), encode, self.list.items());
    }
}

impl ItemEncoder<'_> {
    /// The place of encoded items among those that are kept, of [`crate::provider::encoded::ENCODINGS`].
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

    fn custom(&self, item: &CustomItem<'_>, out: &mut Vec<u8>) {
        let Some(value) = quantity_of(item.value) else {
            return;
        };
        let described_object = Some(ObjectReference {
            kind: Some(item.kind.kind.to_string()),
            namespace: item.namespace.map(str::to_owned),
            name: Some(item.name.to_owned()),
            api_version: Some(item.kind.api_version.to_string()),
        });
        let timestamp = Some(Time::from(item.value.at));
        let name = Some(self.metric.to_owned());
        let selector = self.selector.clone();
        match self.version {
            Version::V1Beta1 => append_item(
                self.encoding,
                &MetricValueV1Beta1 {
                    described_object,
                    metric_name: name,
                    timestamp,
                    window: window_of(item.value),
                    value: Some(value),
                    selector,
                },
                out,
            ),
            Version::V1Beta2 | Version::V1 => append_item(
                self.encoding,
                &MetricValueV1Beta2 {
                    described_object,
                    metric: Some(MetricIdentifier { name, selector }),
                    timestamp,
                    window_seconds: window_of(item.value),
                    value: Some(value),
                },
                out,
            ),
        }
    }

    fn external(&self, item: &ExternalItem<'_>, out: &mut Vec<u8>) {
        let Some(value) = quantity_of(item.value) else {
            return;
        };
        let labels = item.labels.iter();
        let message = ExternalMetricValue {
            metric_name: Some(item.metric.to_owned()),
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
