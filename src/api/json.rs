//! Value lists in JSON, written directly (docs/protocol.md, "Value lists").
//!
//! A list of a thousand pods is sent to every autoscaler every few seconds, and writing it
//! must cost less than encrypting it. The parts that items share are therefore built once,
//! and no item allocates memory.

use apimachinery::quantity;
use gpu_metrics::metric::Value;

use crate::provider::{CustomItem, ExternalItem};

use super::buffer::Document;
use super::described::Described;
use super::group::{GroupVersion, Version};
use super::messages::LabelSelector;

/// Writes a list of any of the three kinds.
pub(crate) struct JsonListWriter {
    out: Vec<u8>,
    empty: bool,
    described: Described,
    /// The bytes from the brace that opens an item to its name.
    before_name: Vec<u8>,
    /// The bytes from the end of the name to the quote that opens the time.
    before_time: Vec<u8>,
    /// The end of `before_time` that does not depend on the object's kind.
    metric: Vec<u8>,
    window_key: &'static [u8],
    /// The bytes from the quote that closes the value to the brace that ends the item.
    end: Vec<u8>,
    /// The bytes from the end of an object's name to the quote that opens its value, for
    /// recent times. The scrapes of a fleet fall on few seconds.
    middles: [Middle; MIDDLES],
}

/// The number of seconds in a default scrape interval.
const MIDDLES: usize = 16;

/// The bytes between an object's name and its value.
#[derive(Default)]
struct Middle {
    /// The second and the window in seconds that the bytes encode; `None`: no bytes yet.
    of: Option<(i64, u32)>,
    bytes: Vec<u8>,
}

impl JsonListWriter {
    pub(crate) fn new(
        of: GroupVersion,
        metric_name: &str,
        echo: Option<&LabelSelector>,
        mut out: Vec<u8>,
    ) -> Self {
        out.clear();
        push_all(
            &mut out,
            &[
                b"{\"kind\":\"",
                of.group.list_kind().as_bytes(),
                b"\",\"apiVersion\":\"",
                of.to_string().as_bytes(),
                b"\",\"metadata\":{},\"items\":[",
            ],
        );
        let echo = serde_json::to_vec(&echo).unwrap_or_default();
        let mut metric = Vec::new();
        let mut end = b"\"".to_vec();
        let window_key: &[u8] = match of.version {
            Version::V1Beta1 => {
                metric.extend_from_slice(b"\"metricName\":");
                push_string(&mut metric, metric_name);
                metric.extend_from_slice(b",\"timestamp\":\"");
                push_all(&mut end, &[b",\"selector\":", &echo]);
                b"\"window\":"
            }
            Version::V1Beta2 | Version::V1 => {
                metric.extend_from_slice(b"\"metric\":{\"name\":");
                push_string(&mut metric, metric_name);
                push_all(
                    &mut metric,
                    &[b",\"selector\":", &echo, b"},\"timestamp\":\""],
                );
                b"\"windowSeconds\":"
            }
        };
        end.push(b'}');
        Self {
            out,
            empty: true,
            described: Described::default(),
            before_name: Vec::new(),
            before_time: Vec::new(),
            metric,
            window_key,
            end,
            middles: Default::default(),
        }
    }

    /// Appends a custom value of `milli` thousandths.
    pub(crate) fn custom(&mut self, item: &CustomItem<'_>, milli: i64) {
        if self.described.changes(item) {
            self.describe(item);
        }
        self.separate();
        self.out.extend_from_slice(&self.before_name);
        push_string(&mut self.out, item.name);
        let of = (item.value.at.secs(), item.value.window_secs);
        let middle = &mut self.middles[of.0.rem_euclid(MIDDLES as i64) as usize];
        if middle.of != Some(of) {
            middle.of = Some(of);
            middle.bytes.clone_from(&self.before_time);
            push_time(&mut middle.bytes, item.value, self.window_key);
        }
        self.out.extend_from_slice(&middle.bytes);
        quantity::write_milli(milli, &mut self.out);
        self.out.extend_from_slice(&self.end);
    }

    /// Appends an external value of `milli` thousandths.
    pub(crate) fn external(&mut self, item: &ExternalItem<'_>, milli: i64) {
        self.separate();
        self.out.extend_from_slice(b"{\"metricName\":");
        push_string(&mut self.out, item.metric);
        self.out.extend_from_slice(b",\"metricLabels\":{");
        for (index, (name, value)) in item.labels.iter().enumerate() {
            if index > 0 {
                self.out.push(b',');
            }
            push_string(&mut self.out, name);
            self.out.push(b':');
            push_string(&mut self.out, value);
        }
        self.out.extend_from_slice(b"},\"timestamp\":\"");
        push_time(&mut self.out, item.value, self.window_key);
        quantity::write_milli(milli, &mut self.out);
        self.out.extend_from_slice(b"\"}");
    }

    /// The document, and its offset in the buffer.
    pub(crate) fn finish(mut self) -> Document {
        self.out.extend_from_slice(b"]}\n");
        (self.out, 0)
    }

    fn describe(&mut self, item: &CustomItem<'_>) {
        let (head, tail) = (&mut self.before_name, &mut self.before_time);
        head.clear();
        head.extend_from_slice(b"{\"describedObject\":{\"kind\":");
        push_string(head, &item.kind.kind);
        if let Some(namespace) = item.namespace {
            head.extend_from_slice(b",\"namespace\":");
            push_string(head, namespace);
        }
        head.extend_from_slice(b",\"name\":");
        tail.clear();
        tail.extend_from_slice(b",\"apiVersion\":");
        push_string(tail, &item.kind.api_version);
        tail.extend_from_slice(b"},");
        tail.extend_from_slice(&self.metric);
        self.middles = Default::default();
    }

    fn separate(&mut self) {
        if !std::mem::take(&mut self.empty) {
            self.out.push(b',');
        }
    }
}

/// Appends a time and a window: the bytes from the time's first digit to the quote that
/// opens the value.
fn push_time(out: &mut Vec<u8>, value: Value, window_key: &[u8]) {
    let at = value.at.whole_second();
    push_all(out, &[at.date().as_bytes(), b"\","]);
    if value.window_secs > 0 {
        out.extend_from_slice(window_key);
        quantity::write_u64(u64::from(value.window_secs), out);
        out.push(b',');
    }
    out.extend_from_slice(b"\"value\":\"");
}

fn push_all(out: &mut Vec<u8>, pieces: &[&[u8]]) {
    for piece in pieces {
        out.extend_from_slice(piece);
    }
}

/// Appends a JSON string. Names of objects need no escapes, which one pass over the bytes
/// finds out faster than the serializer.
fn push_string(out: &mut Vec<u8>, text: &str) {
    let special = |byte: u8| (byte < 0x20) | (byte == b'"') | (byte == b'\\');
    if text.bytes().fold(false, |any, byte| any | special(byte)) {
        // Writing to memory does not fail.
        let _ = serde_json::to_writer(out, text);
    } else {
        out.push(b'"');
        out.extend_from_slice(text.as_bytes());
        out.push(b'"');
    }
}
