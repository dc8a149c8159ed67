//! Documents that are the same for all clients, in each form that clients request. Each
//! form is built once and shared. A response then needs no further work or memory, even
//! with many slow clients.

use std::hash::Hasher;
use std::io::Write;
use std::sync::OnceLock;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::json;
use super::negotiate::{Format, ResponseForm};

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

/// A document, plain and compressed.
#[derive(Clone, Debug)]
pub struct EncodedDocument {
    plain: Bytes,
    compressed: OnceLock<Option<Bytes>>,
}

impl EncodedDocument {
    /// A document that is compressed on the first request for gzip.
    pub(crate) fn new(plain: Vec<u8>) -> Self {
        Self {
            plain: plain.into(),
            compressed: OnceLock::new(),
        }
    }

    pub(crate) fn plain(&self) -> &Bytes {
        &self.plain
    }

    /// The compressed form for a client that accepts gzip. `None`: the document is too small.
    pub(crate) fn compressed(&self) -> Option<&Bytes> {
        let compressed = self.compressed.get_or_init(|| compress(&self.plain));
        compressed.as_ref()
    }
}

/// A document in each format, and indented.
#[derive(Debug)]
pub struct Forms {
    json: EncodedDocument,
    indented: OnceLock<EncodedDocument>,
    protobuf: EncodedDocument,
}

impl Forms {
    /// Encodes a document in each format.
    pub fn new(make: impl Fn(Format) -> Vec<u8>) -> Self {
        Self {
            json: EncodedDocument::new(make(Format::Json)),
            indented: OnceLock::new(),
            protobuf: EncodedDocument::new(make(Format::Protobuf)),
        }
    }

    /// The form that a client requested.
    pub fn of(&self, form: ResponseForm) -> &EncodedDocument {
        match form.format {
            Format::Protobuf => &self.protobuf,
            Format::Json if form.pretty => self
                .indented
                .get_or_init(|| EncodedDocument::new(json::indent(self.json.plain()))),
            Format::Json => &self.json,
        }
    }
}

/// A document and the tag that identifies it.
#[derive(Clone, Debug)]
pub struct Tagged {
    /// The document.
    pub body: EncodedDocument,
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
            body: EncodedDocument::new(body),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_form_is_made_once() {
        let long = format!("[{:?}]", "x".repeat(GZIP_OVER)).into_bytes();
        let forms = Forms::new(|_| long.clone());
        let compressed = |pretty| {
            let form = ResponseForm {
                format: Format::Json,
                pretty,
                gzip: true,
            };
            forms.of(form).compressed().unwrap().clone()
        };
        for pretty in [false, true] {
            assert_eq!(compressed(pretty).as_ptr(), compressed(pretty).as_ptr());
        }
        assert_ne!(compressed(false), compressed(true));
        assert_eq!(EncodedDocument::new(b"{}".to_vec()).compressed(), None);
    }

    #[test]
    fn tags_are_compared_as_http_specifies() {
        let document = Tagged::new(b"{}\n".to_vec());
        assert_eq!(document.hash.len(), 32);
        let tag = format!("\"{}\"", document.hash);
        for (given, known) in [
            (tag.clone(), true),
            (format!("W/{tag}"), true),
            (format!("\"other\", {tag}"), true),
            ("*".to_owned(), true),
            (document.hash.clone(), false),
            (tag.to_lowercase(), false),
            (String::new(), false),
        ] {
            let mut headers = HeaderMap::new();
            headers.insert(IF_NONE_MATCH, given.parse().unwrap());
            assert_eq!(document.is_known(&headers), known, "{given}");
        }
        assert!(!document.is_known(&HeaderMap::new()));
    }
}
