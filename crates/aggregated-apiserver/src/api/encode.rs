//! Objects in JSON and in Kubernetes' protobuf (docs/protocol.md, "Protobuf").

use bytes::Bytes;
use prost::Message;
use prost::encoding::{self, WireType};
use serde::Serialize;

use super::negotiate::Encoding;
use super::status::ListMeta;

/// The first bytes of every Kubernetes protobuf document.
const MAGIC: &[u8] = b"k8s\0";
/// The end of a protobuf document: `contentEncoding` and `contentType`, empty, as Go writes
/// them.
const ENVELOPE_END: [u8; 4] = [0x1a, 0, 0x22, 0];

/// An object in JSON, with its kind and version beside its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Typed<'o, T> {
    kind: &'o str,
    api_version: &'o str,
    #[serde(flatten)]
    object: &'o T,
}

/// `runtime.TypeMeta`.
#[derive(Clone, PartialEq, prost::Message)]
struct TypeMeta {
    #[prost(string, tag = "1")]
    api_version: String,
    #[prost(string, tag = "2")]
    kind: String,
}

/// Encodes an object of a group and version.
pub fn object(
    encoding: Encoding,
    api_version: &str,
    kind: &str,
    object: &(impl Message + Serialize),
) -> Vec<u8> {
    match encoding {
        Encoding::Json => json(&Typed {
            kind,
            api_version,
            object,
        }),
        Encoding::Protobuf => {
            let raw = object.encode_to_vec();
            let mut out = envelope_head(api_version, kind, raw.len());
            out.extend_from_slice(&raw);
            out.extend_from_slice(&ENVELOPE_END);
            out
        }
    }
}

/// Encodes a value in JSON, followed by a newline as in Go's responses.
pub fn json(value: &impl Serialize) -> Vec<u8> {
    // Serialization cannot fail: all keys are strings, and all values can be encoded.
    let mut out = serde_json::to_vec(value).unwrap_or_default();
    out.push(b'\n');
    out
}

/// A list that is encoded item by item.
#[derive(Debug)]
pub struct ListEncoder {
    encoding: Encoding,
    api_version: String,
    kind: String,
    out: Vec<u8>,
    /// The length of `out` before the first item.
    head: usize,
}

/// Bytes reserved before a protobuf list for the start of its envelope, whose length depends
/// on the complete list. The longest one has some 80 bytes.
const ENVELOPE_ROOM: usize = 128;

impl ListEncoder {
    /// An empty list.
    pub fn new(encoding: Encoding, api_version: String, kind: String) -> Self {
        let mut out = Vec::new();
        match encoding {
            Encoding::Json => {
                let start = format!(r#"{{"kind":"{kind}","apiVersion":"{api_version}","#);
                out.extend_from_slice(start.as_bytes());
                out.extend_from_slice(br#""metadata":{},"items":["#);
            }
            Encoding::Protobuf => {
                out.resize(ENVELOPE_ROOM, 0);
                encoding::message::encode(1, &ListMeta {}, &mut out);
            }
        }
        Self {
            encoding,
            api_version,
            kind,
            head: out.len(),
            out,
        }
    }

    /// Where items are appended, encoded by [`append_item`].
    pub fn items(&mut self) -> &mut Vec<u8> {
        &mut self.out
    }

    /// Whether the list has no item.
    pub fn is_empty(&self) -> bool {
        self.out.len() == self.head
    }

    /// The document.
    pub fn finish(mut self) -> Bytes {
        match self.encoding {
            Encoding::Json => {
                if !self.is_empty() {
                    // The comma after the last item.
                    self.out.pop();
                }
                self.out.extend_from_slice(b"]}\n");
                self.out.into()
            }
            Encoding::Protobuf => {
                let raw_len = self.out.len() - ENVELOPE_ROOM;
                let head = envelope_head(&self.api_version, &self.kind, raw_len);
                let start = ENVELOPE_ROOM.saturating_sub(head.len());
                self.out.splice(start..ENVELOPE_ROOM, head);
                self.out.extend_from_slice(&ENVELOPE_END);
                Bytes::from(self.out).slice(start..)
            }
        }
    }
}

/// Appends an item as lists contain it: in JSON followed by a comma, in protobuf as field 2.
pub fn append_item(encoding: Encoding, item: &(impl Message + Serialize), out: &mut Vec<u8>) {
    match encoding {
        Encoding::Json => {
            // Writing to memory does not fail, and all keys are strings.
            let _ = serde_json::to_writer(&mut *out, item);
            out.push(b',');
        }
        Encoding::Protobuf => encoding::message::encode(2, item, out),
    }
}

/// The start of a protobuf document, up to its message of `raw_len` bytes.
fn envelope_head(api_version: &str, kind: &str, raw_len: usize) -> Vec<u8> {
    let type_meta = TypeMeta {
        api_version: api_version.to_owned(),
        kind: kind.to_owned(),
    };
    let mut out = MAGIC.to_vec();
    encoding::message::encode(1, &type_meta, &mut out);
    encoding::encode_key(2, WireType::LengthDelimited, &mut out);
    encoding::encode_varint(raw_len as u64, &mut out);
    out
}
