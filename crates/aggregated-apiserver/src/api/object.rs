//! Rarely requested objects, in the encoding that the client requests.

use prost::Message;
use serde::Serialize;

use super::negotiate::Format;
use super::{json, protobuf};

/// An object in JSON, with its kind and version beside its fields.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Typed<'o, T> {
    pub(super) kind: &'o str,
    pub(super) api_version: &'o str,
    /// The name of this server, by which clients recognize it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) server: Option<&'static str>,
    #[serde(flatten)]
    pub(super) object: &'o T,
}

pub(crate) fn encode(format: Format, kind: &str, object: &(impl Message + Serialize)) -> Vec<u8> {
    encode_as("v1", format, kind, object)
}

/// Encodes an object of a group and version.
pub fn encode_as(
    api_version: &str,
    format: Format,
    kind: &str,
    object: &(impl Message + Serialize),
) -> Vec<u8> {
    match format {
        Format::Json => json::document(&Typed {
            kind,
            api_version,
            server: None,
            object,
        }),
        Format::Protobuf => protobuf::document(api_version, kind, object),
    }
}
