//! What the encoders of value lists have in common.

use std::sync::Arc;

use crate::core::metric::Value;
use crate::core::quantity;
use crate::core::selector::Selector;
use crate::provider::{CustomItem, Error, ExternalItem};

use super::negotiate::Format;
use super::path::{Group, Version};
use super::{json, proto};

/// What was asked, as far as every item of the answer repeats it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Question<'q> {
    pub(crate) group: Group,
    pub(crate) version: Version,
    /// The metric's name; external items carry their own.
    pub(crate) metric: &'q str,
    /// The metric selector, if the request had one.
    pub(crate) echo: Option<&'q Selector>,
}

impl Question<'_> {
    pub(crate) fn group_version(&self) -> String {
        format!("{}/{}", self.group.name(), self.version.name())
    }

    pub(crate) const fn kind(&self) -> &'static str {
        match self.group {
            Group::Custom => "MetricValueList",
            Group::External => "ExternalMetricValueList",
        }
    }
}

/// The kind and namespace of the item before: nearly always those of the next
/// one, too. Holds the names themselves, so that equal addresses mean equal
/// names.
#[derive(Debug, Default)]
pub(crate) struct Described {
    kind: Option<(Arc<str>, Arc<str>)>,
    namespace: Option<String>,
}

impl Described {
    /// Remembers the item's kind and namespace; whether they differ from those
    /// of the item before.
    pub(crate) fn changes(&mut self, item: &CustomItem<'_>) -> bool {
        let same_kind = self.kind.as_ref().is_some_and(|(kind, api_version)| {
            same(kind, &item.kind.kind) && same(api_version, &item.kind.api_version)
        });
        if same_kind && self.namespace.as_deref() == item.namespace {
            return false;
        }
        self.kind = Some((item.kind.kind.clone(), item.kind.api_version.clone()));
        self.namespace = item.namespace.map(str::to_owned);
        true
    }
}

fn same(one: &Arc<str>, other: &Arc<str>) -> bool {
    Arc::ptr_eq(one, other) || one == other
}

/// Encodes a list in the format the client wants.
pub(crate) enum Encoder<'q> {
    Json(Box<json::ListWriter>),
    Protobuf(Box<proto::ListWriter<'q>>),
}

/// Writes a list and judges each value once more: what is no number or went
/// stale is left out, whatever the provider thought of it: never a zero in
/// place of "not known" (docs/protocol.md, "Quantities", "What the autoscaler
/// does").
pub(crate) struct List<'q> {
    encoder: Encoder<'q>,
    room: usize,
    written: usize,
}

impl<'q> List<'q> {
    /// A list of at most `room` items.
    pub(crate) fn new(
        question: &'q Question<'q>,
        format: Format,
        buffer: Vec<u8>,
        room: usize,
    ) -> Self {
        let encoder = match format {
            Format::Json => Encoder::Json(Box::new(json::ListWriter::new(question, buffer))),
            Format::Protobuf => {
                Encoder::Protobuf(Box::new(proto::ListWriter::new(question, buffer)))
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

    /// The document, and where in the buffer it begins.
    ///
    /// # Errors
    /// When nothing was written: an empty list is never a success.
    pub(crate) fn finish(self) -> Result<(Vec<u8>, usize), Error> {
        if self.written == 0 {
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
