//! Value lists in protobuf, written directly (docs/protocol.md, "Protobuf").
//!
//! Autoscalers request protobuf, so these lists are as frequent as those of [`super::json`].
//! A list is written from front to back, item by item, from parts that items share.

use std::sync::Arc;

use prost::Message;

use aggregated_apiserver::api::protobuf::{
    ENVELOPE_END, GAP, LENGTH, VARINT, envelope_head, field, field_len, tag, varint,
};
use apimachinery::quantity;

use crate::provider::{CustomItem, ExternalItem};

use super::buffer::Document;
use super::described::Described;
use super::group::{GroupVersion, Version};
use super::messages::LabelSelector;

/// Writes a list of any of the three kinds.
pub(crate) struct ProtoListWriter {
    of: GroupVersion,
    out: Vec<u8>,
    described: Described,
    /// Encoded fields 1 and 2 of the described object, and its field 5.
    object_head: Vec<u8>,
    object_tail: Vec<u8>,
    /// Encoded field 2 of a custom item: the metric.
    metric: Vec<u8>,
    /// Encoded field 6 of a v1beta1 item: the selector.
    selector: Vec<u8>,
    /// The end of the current item: time, window and value.
    rest: Vec<u8>,
    /// The second and the window in seconds at the start of `rest`, and their length in bytes.
    stamped: Option<(i64, u32)>,
    stamp_len: usize,
}

impl ProtoListWriter {
    pub(crate) fn new(
        of: GroupVersion,
        metric_name: &str,
        echo: Option<&LabelSelector>,
        mut out: Vec<u8>,
    ) -> Self {
        out.clear();
        out.resize(GAP, 0);
        field(1, &[], &mut out);
        let echo = echo.map(Message::encode_to_vec);
        let (mut metric, mut selector) = (Vec::new(), Vec::new());
        match of.version {
            Version::V1Beta1 => {
                field(2, metric_name.as_bytes(), &mut metric);
                if let Some(echo) = echo {
                    field(6, &echo, &mut selector);
                }
            }
            Version::V1Beta2 | Version::V1 => {
                let mut identifier = Vec::new();
                field(1, metric_name.as_bytes(), &mut identifier);
                if let Some(echo) = echo {
                    field(2, &echo, &mut identifier);
                }
                field(2, &identifier, &mut metric);
            }
        }
        Self {
            of,
            out,
            described: Described::default(),
            object_head: Vec::new(),
            object_tail: Vec::new(),
            metric,
            selector,
            rest: Vec::with_capacity(64),
            stamped: None,
            stamp_len: 0,
        }
    }

    /// Appends a custom value of `milli` thousandths.
    pub(crate) fn custom(&mut self, item: &CustomItem<'_>, milli: i64) {
        if self.described.changes(item) {
            self.object_head.clear();
            field(1, item.kind.kind.as_bytes(), &mut self.object_head);
            if let Some(namespace) = item.namespace {
                field(2, namespace.as_bytes(), &mut self.object_head);
            }
            self.object_tail.clear();
            field(5, item.kind.api_version.as_bytes(), &mut self.object_tail);
        }
        self.write_rest(item.value.at.secs(), item.value.window_secs, milli);
        let object = self.object_head.len() + field_len(item.name.len()) + self.object_tail.len();
        let whole = field_len(object) + self.metric.len() + self.rest.len() + self.selector.len();
        let out = &mut self.out;
        out.reserve(whole + 16);
        out.push(tag(2, LENGTH));
        varint(whole as u64, out);
        out.push(tag(1, LENGTH));
        varint(object as u64, out);
        out.extend_from_slice(&self.object_head);
        field(3, item.name.as_bytes(), out);
        out.extend_from_slice(&self.object_tail);
        out.extend_from_slice(&self.metric);
        out.extend_from_slice(&self.rest);
        out.extend_from_slice(&self.selector);
    }

    /// Appends an external value of `milli` thousandths.
    pub(crate) fn external(&mut self, item: &ExternalItem<'_>, milli: i64) {
        self.write_rest(item.value.at.secs(), item.value.window_secs, milli);
        let label_len =
            |label: &(Arc<str>, Arc<str>)| field_len(label.0.len()) + field_len(label.1.len());
        let whole = field_len(item.metric.len())
            + item
                .labels
                .iter()
                .map(|label| field_len(label_len(label)))
                .sum::<usize>()
            + self.rest.len();
        let out = &mut self.out;
        out.reserve(whole + 16);
        out.push(tag(2, LENGTH));
        varint(whole as u64, out);
        field(1, item.metric.as_bytes(), out);
        for label in item.labels {
            out.push(tag(2, LENGTH));
            varint(label_len(label) as u64, out);
            field(1, label.0.as_bytes(), out);
            field(2, label.1.as_bytes(), out);
        }
        out.extend_from_slice(&self.rest);
    }

    /// Writes fields 3 to 5, which all kinds of item share: timestamp, window, value.
    fn write_rest(&mut self, secs: i64, window_secs: u32, milli: i64) {
        if self.stamped != Some((secs, window_secs)) {
            self.stamped = Some((secs, window_secs));
            stamp(secs, window_secs, &mut self.rest);
            self.stamp_len = self.rest.len();
        }
        self.rest.truncate(self.stamp_len);
        // A quantity has fewer than 128 bytes, so both lengths are one byte. They are set
        // after the text is written.
        let head = [tag(5, LENGTH), 0, tag(1, LENGTH), 0];
        self.rest.extend_from_slice(&head);
        quantity::write_milli(milli, &mut self.rest);
        let text = (self.rest.len() - self.stamp_len - head.len()) as u8;
        self.rest[self.stamp_len + 1] = text + 2;
        self.rest[self.stamp_len + 3] = text;
    }

    /// The document, and its offset in the buffer.
    pub(crate) fn finish(mut self) -> Document {
        let raw_len = self.out.len() - GAP;
        let head = envelope_head(&self.of.to_string(), self.of.group.list_kind(), raw_len);
        let start = GAP.saturating_sub(head.len());
        self.out[start..GAP].copy_from_slice(&head);
        self.out.extend_from_slice(&ENVELOPE_END);
        (self.out, start)
    }
}

/// Fields 3 and 4: the time, and the window unless it is 0.
fn stamp(secs: i64, window_secs: u32, out: &mut Vec<u8>) {
    out.clear();
    // Protobuf encodes a negative int64 as its two's complement.
    let secs = u64::from_ne_bytes(secs.to_ne_bytes());
    let secs_len = (u64::BITS - (secs | 1).leading_zeros()).div_ceil(7) as u8;
    out.extend_from_slice(&[tag(3, LENGTH), 3 + secs_len, tag(1, VARINT)]);
    varint(secs, out);
    out.extend_from_slice(&[tag(2, VARINT), 0]);
    if window_secs > 0 {
        out.push(tag(4, VARINT));
        varint(u64::from(window_secs), out);
    }
}
