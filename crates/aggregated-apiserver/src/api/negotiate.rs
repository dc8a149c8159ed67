//! Content negotiation (docs/protocol.md, "Content negotiation"; apiserver
//! `pkg/endpoints/handlers/negotiation/negotiate.go`).

use http::header::ACCEPT;
use http::{HeaderMap, HeaderName};

use crate::refusal::Refusal;

/// An encoding of objects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Encoding {
    /// The media type without parameters.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }
}

const JSON: &str = Encoding::Json.media_type();
const PROTOBUF: &str = Encoding::Protobuf.media_type();

/// The media type of aggregated discovery (docs/protocol.md, "Aggregated discovery").
pub(super) const AGGREGATED_DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// One clause of the Accept header with supported parameters.
struct Clause {
    range: String,
    quality: f32,
    is_aggregated_discovery: bool,
}

impl Clause {
    /// Whether the client accepts this media type.
    fn admits(&self, offered: &str) -> bool {
        let media_type = offered.split(';').next().unwrap_or_default();
        let ranges = ["*/*", "*", "application/*", media_type];
        self.quality > 0.0
            && ranges.contains(&&*self.range)
            && self.is_aggregated_discovery == (offered == AGGREGATED_DISCOVERY)
    }
}

/// Selects the encoding of the response.
///
/// # Errors
/// When no clause of the header matches.
pub fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    match pick(headers, &[JSON, PROTOBUF]) {
        Some(PROTOBUF) => Ok(Encoding::Protobuf),
        Some(_) => Ok(Encoding::Json),
        None => Err(Refusal::NotAcceptable(
            "application/json, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Checks that the client accepts JSON, if only JSON is available.
///
/// # Errors
/// When no clause of the header matches.
pub(super) fn json(headers: &HeaderMap) -> Result<(), Refusal> {
    let picked = pick(headers, &[JSON]).map(drop);
    picked.ok_or(Refusal::NotAcceptable(JSON))
}

/// Whether the client prefers aggregated discovery to a list of groups.
pub(super) fn prefers_aggregated_discovery(headers: &HeaderMap) -> bool {
    pick(headers, &[AGGREGATED_DISCOVERY, JSON]) == Some(AGGREGATED_DISCOVERY)
}

/// The first offered media type that the best matching clause admits. Without an Accept
/// header: JSON.
fn pick(headers: &HeaderMap, offered: &[&'static str]) -> Option<&'static str> {
    let Some(clauses) = clauses(headers) else {
        return Some(JSON);
    };
    let best = |clause: &Clause| offered.iter().find(|it| clause.admits(it));
    clauses.iter().find_map(best).copied()
}

/// The clauses of the Accept header, the best first; equal ones stay in order. `None`:
/// there is no such header.
fn clauses(headers: &HeaderMap) -> Option<Vec<Clause>> {
    let given = headers.get_all(ACCEPT).iter();
    // A value that is no text has no clause that is understood.
    let mut given = given.map(|value| value.to_str().unwrap_or("?"));
    if given.all(|text| text.trim().is_empty()) {
        return None;
    }
    let given = elements(headers, ACCEPT);
    let mut clauses: Vec<Clause> = given.filter_map(clause).collect();
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    Some(clauses)
}

/// The elements of the values of a header that are text.
pub(super) fn elements(headers: &HeaderMap, name: HeaderName) -> impl Iterator<Item = &str> {
    let values = headers.get_all(name).into_iter();
    let texts = values.filter_map(|value| value.to_str().ok());
    texts.flat_map(|text| text.split(','))
}

/// Parses a clause. `None`: it requests an unsupported transformation (`as=Table`), a stream
/// or a server version.
fn clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';');
    let range = parts.next()?.trim().to_ascii_lowercase();
    let mut quality = 1.0;
    let (mut kind, mut group, mut version) = ("", "", "");
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match name.trim() {
            "q" => quality = quality_of(value),
            "as" => kind = value,
            "g" => group = value,
            "v" => version = value,
            "sv" if !value.is_empty() => return None,
            "stream" if value != "watch" => return None,
            _ => {}
        }
    }
    let is_aggregated_discovery = match (kind, group, version) {
        ("", "", "") => false,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", "v2") => true,
        _ => return None,
    };
    Some(Clause {
        range,
        quality,
        is_aggregated_discovery,
    })
}

/// A malformed quality counts as 1, as in Go.
fn quality_of(text: &str) -> f32 {
    let quality = text.parse().ok();
    quality.filter(|it| (0.0..=1.0).contains(it)).unwrap_or(1.0)
}
