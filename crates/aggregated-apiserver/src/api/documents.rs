//! Documents that are the same for all clients: discovery and OpenAPI (docs/protocol.md,
//! "Discovery documents", "OpenAPI"). They are encoded once and shared, so that a response
//! needs no further memory, even with many slow clients.

use std::collections::HashMap;
use std::hash::Hasher;

use bytes::Bytes;
use http::header::IF_NONE_MATCH;
use http::{HeaderMap, HeaderValue, Response};
use http_body_util::Full;
use serde_json::{Map, Value as Json, json};
use siphasher::sip128::{Hasher128, SipHasher13};

use super::discovery::{self, ServedGroup};
use super::negotiate::{self, AGGREGATED_DISCOVERY, Encoding};
use super::{encode, response};
use crate::refusal::Refusal;

/// A document and the tag that identifies it.
#[derive(Clone, Debug)]
pub(super) struct Document {
    pub(super) body: Bytes,
    pub(super) media_type: &'static str,
    /// Its hash in upper-case hexadecimal digits.
    hash: String,
}

impl Document {
    /// Computes the tag. Any hash works that all replicas compute alike, because clients
    /// only compare it.
    fn new(media_type: &'static str, body: impl Into<Bytes>) -> Self {
        let body = body.into();
        let mut hasher = SipHasher13::new();
        hasher.write(&body);
        let hash = format!("{:032X}", hasher.finish128().as_u128());
        Self {
            body,
            media_type,
            hash,
        }
    }

    fn json(body: impl Into<Bytes>) -> Self {
        Self::new(Encoding::Json.media_type(), body)
    }

    pub(super) fn etag(&self) -> Option<HeaderValue> {
        HeaderValue::try_from(format!("\"{}\"", self.hash)).ok()
    }

    /// Whether the client has the document.
    pub(super) fn is_known(&self, headers: &HeaderMap) -> bool {
        negotiate::elements(headers, IF_NONE_MATCH).any(|tag| {
            let tag = tag.trim();
            let tag = tag.strip_prefix("W/").unwrap_or(tag);
            let quoted = tag.strip_prefix('"').and_then(|tag| tag.strip_suffix('"'));
            tag == "*" || quoted == Some(self.hash.as_str())
        })
    }
}

/// The OpenAPI documents of a server.
#[derive(Clone, Copy, Debug)]
pub struct OpenApi {
    /// `/openapi/v2`: Swagger 2.0, all versions.
    pub v2: &'static [u8],
    /// OpenAPI 3.0, all versions; served for each.
    pub v3: &'static [u8],
}

/// The documents of a server.
#[derive(Debug)]
pub struct Documents {
    /// By path, without a slash at the end.
    by_path: HashMap<String, Document>,
    aggregated: Document,
}

impl Documents {
    /// The documents about these groups. `server` is the name by which clients recognize
    /// the server.
    pub fn new(server: &str, served: &[ServedGroup], openapi: OpenApi) -> Self {
        let v3 = Document::json(openapi.v3);
        let mut by_path = HashMap::new();
        let mut v3_paths = Map::new();
        for group in served {
            let path = format!("/apis/{}", group.name);
            for version in &group.versions {
                let resources = discovery::resources(group, version, server);
                by_path.insert(format!("{path}/{version}"), Document::json(resources));
                let v3_path = format!("/openapi/v3{path}/{version}");
                // Clients keep a document by its URL, which therefore contains the hash.
                let url = format!("{v3_path}?hash={}", v3.hash);
                let name = format!("apis/{}/{version}", group.name);
                v3_paths.insert(name, json!({"serverRelativeURL": url}));
                by_path.insert(v3_path, v3.clone());
            }
        }
        let v3_root = encode::json(&json!({"paths": Json::Object(v3_paths)}));
        by_path.insert("/openapi/v3".to_owned(), Document::json(v3_root));
        by_path.insert("/openapi/v2".to_owned(), Document::json(openapi.v2));
        by_path.insert(
            "/apis".to_owned(),
            Document::json(discovery::groups(served)),
        );
        Self {
            by_path,
            aggregated: Document::new(AGGREGATED_DISCOVERY, discovery::aggregated(served)),
        }
    }

    /// The response with the document of a path, or 304 if the client has it.
    ///
    /// # Errors
    /// When the path has no document, or the client does not accept JSON.
    pub fn response(
        &self,
        path: &str,
        headers: &HeaderMap,
    ) -> Result<Response<Full<Bytes>>, Refusal> {
        let document = match path {
            "/apis" if negotiate::prefers_aggregated_discovery(headers) => &self.aggregated,
            _ => {
                negotiate::json(headers)?;
                self.by_path.get(path).ok_or(Refusal::NoSuchPath)?
            }
        };
        Ok(response::document(document, headers))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_compared_as_http_specifies() {
        let document = Document::json("{}\n");
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
