//! Objects in JSON and in Kubernetes' protobuf (docs/protocol.md, "Protobuf").

use prost::Message;
use prost::encoding::{self, WireType};
use serde::Serialize;

use super::negotiate::Encoding;

/// The first bytes of every Kubernetes protobuf document.
const MAGIC: &[u8] = b"k8s\0";
/// The end of a protobuf document: `contentEncoding` and `contentType`, empty, as Go writes
/// them.
pub const ENVELOPE_END: [u8; 4] = [0x1a, 0, 0x22, 0];

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

/// The start of a protobuf document, up to its message of `raw_len` bytes.
pub fn envelope_head(api_version: &str, kind: &str, raw_len: usize) -> Vec<u8> {
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
