//! Documents that are the same for all clients, built once and shared.

use std::hash::Hasher;
use std::io::Write;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::negotiate::Format;

/// Smaller bodies are not compressed (apiserver
/// `pkg/endpoints/handlers/responsewriters/writers.go`).
const GZIP_OVER: usize = 128 * 1024;

/// The compressed body. `None`: the body is too small.
pub(super) fn compress(body: &[u8]) -> Option<Bytes> {
    if body.len() <= GZIP_OVER {
        return None;
    }
    let mut encoder = GzEncoder::new(Vec::with_capacity(body.len() / 8), Compression::new(1));
    encoder.write_all(body).ok()?;
    encoder.finish().ok().map(Bytes::from)
}

/// A document in each format.
#[derive(Debug)]
pub struct Forms {
    json: Bytes,
    protobuf: Bytes,
}

impl Forms {
    /// Encodes a document in each format.
    pub fn new(make: impl Fn(Format) -> Vec<u8>) -> Self {
        Self {
            json: make(Format::Json).into(),
            protobuf: make(Format::Protobuf).into(),
        }
    }

    /// The document in a format.
    pub fn of(&self, format: Format) -> Bytes {
        match format {
            Format::Json => self.json.clone(),
            Format::Protobuf => self.protobuf.clone(),
        }
    }
}

/// A document and the tag that identifies it.
#[derive(Clone, Debug)]
pub struct Tagged {
    /// The document.
    pub body: Bytes,
    /// Its hash in upper-case hexadecimal digits.
    pub hash: String,
}

impl Tagged {
    /// Computes the tag. Any hash works that all replicas compute alike, because clients
    /// only compare it.
    pub fn new(body: Vec<u8>) -> Self {
        let mut hasher = SipHasher13::new();
        hasher.write(&body);
        let hash = format!("{:032X}", hasher.finish128().as_u128());
        Self {
            body: body.into(),
            hash,
        }
    }

    pub(crate) fn etag(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("\"{}\"", self.hash)).ok()
    }

    pub(crate) fn is_known(&self, headers: &HeaderMap) -> bool {
        headers
            .get_all(IF_NONE_MATCH)
            .iter()
            .filter_map(|value| value.to_str().ok())
            .flat_map(|text| text.split(','))
            .map(str::trim)
            .any(|tag| {
                let tag = tag.strip_prefix("W/").unwrap_or(tag);
                let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
                tag == "*" || quoted == Some(self.hash.as_str())
            })
    }
}
