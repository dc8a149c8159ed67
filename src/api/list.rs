//! The common part of the encoders of value lists.

use aggregated_apiserver::api::negotiate::Format;
use apimachinery::quantity;

use crate::provider::{Item, ProviderError, Query};

use super::buffer::Document;
use super::group::{GroupVersion, MetricsGroup};
use super::{json, proto, selector_echo};

/// Encodes a list in the client's format.
enum Encoder {
    Json(Box<json::JsonListWriter>),
    Protobuf(Box<proto::ProtoListWriter>),
}

/// Writes a list and checks each value again. A value that is not a number is left out,
/// whatever the provider decided: an unknown value is never a zero (docs/protocol.md,
/// "Quantities", "What the autoscaler does").
pub(crate) struct ListWriter {
    encoder: Encoder,
    written: usize,
}

impl ListWriter {
    /// An empty list. Items of custom metrics repeat the query's metric and selector.
    pub(crate) fn new(of: GroupVersion, query: &Query, format: Format, buffer: Vec<u8>) -> Self {
        let echo = match of.group {
            MetricsGroup::Custom => selector_echo::message(&query.selector),
            MetricsGroup::External | MetricsGroup::Resource => None,
        };
        let (metric, echo) = (&*query.metric, echo.as_ref());
        let encoder = match format {
            Format::Json => Encoder::Json(Box::new(json::JsonListWriter::new(
                of, metric, echo, buffer,
            ))),
            Format::Protobuf => Encoder::Protobuf(Box::new(proto::ProtoListWriter::new(
                of, metric, echo, buffer,
            ))),
        };
        Self {
            encoder,
            written: 0,
        }
    }

    pub(crate) fn add(&mut self, item: &Item<'_>) {
        let Some(milli) = quantity::milli_from_f64(item.value().value) else {
            return;
        };
        self.written += 1;
        match (&mut self.encoder, item) {
            (Encoder::Json(writer), Item::Custom(item)) => writer.custom(item, milli),
            (Encoder::Json(writer), Item::External(item)) => writer.external(item, milli),
            (Encoder::Protobuf(writer), Item::Custom(item)) => writer.custom(item, milli),
            (Encoder::Protobuf(writer), Item::External(item)) => writer.external(item, milli),
        }
    }

    /// The document, and its offset in the buffer.
    ///
    /// # Errors
    /// When there are fewer than `least` items.
    pub(crate) fn finish(self, least: usize) -> Result<Document, ProviderError> {
        if self.written < least {
            return Err(ProviderError::NoValue(
                "no fresh value that is a number".to_owned(),
            ));
        }
        Ok(match self.encoder {
            Encoder::Json(writer) => writer.finish(),
            Encoder::Protobuf(writer) => writer.finish(),
        })
    }
}
