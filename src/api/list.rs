//! The common part of the encoders of value lists.

use crate::provider::{CustomItem, Empty, Error, ExternalItem, Query};
use apimachinery::quantity;
use gpu_metrics::metric::Value;

use super::buffer::Document;
use super::group::{Group, GroupVersion};
use super::negotiate::Format;
use super::{json, proto, selector_echo};

/// Encodes a list in the client's format.
enum Encoder {
    Json(Box<json::ListWriter>),
    Protobuf(Box<proto::ListWriter>),
}

/// Writes a list and checks each value again. A value that is no number or is stale is
/// left out, whatever the provider decided: an unknown value is never a zero
/// (docs/protocol.md, "Quantities", "What the autoscaler does").
pub(crate) struct List {
    encoder: Encoder,
    room: usize,
    written: usize,
}

impl List {
    /// A list of at most `room` items. Custom metrics' items repeat the query's metric
    /// and selector.
    pub(crate) fn new(
        of: GroupVersion,
        query: &Query<'_>,
        format: Format,
        buffer: Vec<u8>,
        room: usize,
    ) -> Self {
        let echo = match of.group {
            Group::Custom => selector_echo::message(query.selector),
            Group::External | Group::Resource => None,
        };
        let (metric, echo) = (query.metric, echo.as_ref());
        let encoder = match format {
            Format::Json => {
                Encoder::Json(Box::new(json::ListWriter::new(of, metric, echo, buffer)))
            }
            Format::Protobuf => {
                Encoder::Protobuf(Box::new(proto::ListWriter::new(of, metric, echo, buffer)))
            }
        };
        Self {
            encoder,
            room,
            written: 0,
        }
    }

    pub(crate) fn custom(&mut self, item: &CustomItem<'_>) {
        if let Some(milli) = self.admit(item.value) {
            match &mut self.encoder {
                Encoder::Json(writer) => writer.custom(item, milli),
                Encoder::Protobuf(writer) => writer.custom(item, milli),
            }
        }
    }

    pub(crate) fn external(&mut self, item: &ExternalItem<'_>) {
        if let Some(milli) = self.admit(item.value) {
            match &mut self.encoder {
                Encoder::Json(writer) => writer.external(item, milli),
                Encoder::Protobuf(writer) => writer.external(item, milli),
            }
        }
    }

    fn admit(&mut self, value: Value) -> Option<i64> {
        if self.written == self.room {
            return None;
        }
        let milli = quantity::milli_from_f64(value.value)?;
        self.written += 1;
        Some(milli)
    }

    /// The document, and its offset in the buffer.
    ///
    /// # Errors
    /// When the list is empty and `empty` makes that an error.
    pub(crate) fn finish(self, empty: Empty) -> Result<Document, Error> {
        if self.written == 0 && empty == Empty::Missing {
            return Err(Error::NoValue {
                reason: "no fresh value that is a number".to_owned(),
            });
        }
        Ok(match self.encoder {
            Encoder::Json(writer) => writer.finish(),
            Encoder::Protobuf(writer) => writer.finish(),
        })
    }
}
