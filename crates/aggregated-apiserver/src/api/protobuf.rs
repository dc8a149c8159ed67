//! Kubernetes' protobuf: the envelope (docs/protocol.md, "Protobuf"), and functions for
//! writing large lists.

use prost::Message;

/// The first bytes of every Kubernetes protobuf document.
const MAGIC: &[u8] = b"k8s\0";
/// Bytes reserved before a list for the start of its envelope, whose length depends on the
/// complete list. The longest one has some 80 bytes.
pub const GAP: usize = 128;
/// `contentEncoding` and `contentType`, empty, as Go writes them.
pub const ENVELOPE_END: [u8; 4] = [0x1a, 0, 0x22, 0];

/// Encodes a rarely requested message in its envelope.
pub fn document(api_version: &str, kind: &str, message: &impl Message) -> Vec<u8> {
    let raw = message.encode_to_vec();
    let mut out = envelope_head(api_version, kind, raw.len());
    out.extend_from_slice(&raw);
    out.extend_from_slice(&ENVELOPE_END);
    out
}

/// The start of a document, up to its message of `raw_len` bytes.
pub fn envelope_head(api_version: &str, kind: &str, raw_len: usize) -> Vec<u8> {
    let mut type_meta = Vec::with_capacity(GAP);
    field(1, api_version.as_bytes(), &mut type_meta);
    field(2, kind.as_bytes(), &mut type_meta);
    let mut out = MAGIC.to_vec();
    field(1, &type_meta, &mut out);
    out.push(tag(2, LENGTH));
    varint(raw_len as u64, &mut out);
    out
}

/// The wire type of integers.
pub const VARINT: u8 = 0;
/// The wire type of strings and messages.
pub const LENGTH: u8 = 2;

/// The byte before a field's content: number and wire type.
pub const fn tag(number: u8, wire: u8) -> u8 {
    (number << 3) | wire
}

/// Appends an integer.
pub fn varint(mut value: u64, out: &mut Vec<u8>) {
    while value >= 0x80 {
        out.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    out.push((value & 0x7f) as u8);
}

const fn varint_len(value: usize) -> usize {
    (value | 1).ilog2() as usize / 7 + 1
}

/// The length in bytes of a field with a one-byte tag and `content` bytes.
pub const fn field_len(content: usize) -> usize {
    1 + varint_len(content) + content
}

/// Appends a string or a message as a field.
pub fn field(number: u8, content: &[u8], out: &mut Vec<u8>) {
    out.push(tag(number, LENGTH));
    varint(content.len() as u64, out);
    out.extend_from_slice(content);
}
