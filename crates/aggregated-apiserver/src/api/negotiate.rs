//! Content negotiation (docs/protocol.md, "Content negotiation", "Compression";
//! apiserver `pkg/endpoints/handlers/negotiation/negotiate.go`).

use http::header::{ACCEPT, ACCEPT_ENCODING};
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

/// The media type of aggregated discovery (docs/protocol.md, "Aggregated discovery").
pub(super) const AGGREGATED_DISCOVERY: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";

/// A representation of a document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Representation {
    Json,
    Protobuf,
    /// Aggregated discovery, in JSON.
    AggregatedDiscovery,
}

/// One clause of the Accept header with supported parameters.
struct Clause {
    range: String,
    quality: f32,
    is_aggregated_discovery: bool,
}

impl Clause {
    fn admits(&self, representation: Representation) -> bool {
        let encoding = match representation {
            Representation::Protobuf => Encoding::Protobuf,
            Representation::Json | Representation::AggregatedDiscovery => Encoding::Json,
        };
        let ranges = ["*/*", "*", "application/*", encoding.media_type()];
        self.quality > 0.0
            && ranges.contains(&&*self.range)
            && self.is_aggregated_discovery
                == (representation == Representation::AggregatedDiscovery)
    }
}

/// Selects the encoding of the response.
///
/// # Errors
/// When no clause of the header matches.
pub fn encoding(headers: &HeaderMap) -> Result<Encoding, Refusal> {
    match pick(headers, &[Representation::Json, Representation::Protobuf]) {
        Some(Representation::Json) => Ok(Encoding::Json),
        Some(Representation::Protobuf) => Ok(Encoding::Protobuf),
        Some(Representation::AggregatedDiscovery) | None => Err(Refusal::NotAcceptable(
            "application/json, application/vnd.kubernetes.protobuf",
        )),
    }
}

/// Checks that the client accepts JSON, if only JSON is available.
///
/// # Errors
/// When no clause of the header matches.
pub(super) fn json(headers: &HeaderMap) -> Result<(), Refusal> {
    let picked = pick(headers, &[Representation::Json]).map(drop);
    picked.ok_or(Refusal::NotAcceptable("application/json"))
}

/// Whether the client prefers aggregated discovery to a list of groups.
pub(super) fn prefers_aggregated_discovery(headers: &HeaderMap) -> bool {
    let offered = [Representation::AggregatedDiscovery, Representation::Json];
    pick(headers, &offered) == Some(Representation::AggregatedDiscovery)
}

/// The first offered representation that the best matching clause admits. Without an Accept
/// header: JSON.
fn pick(headers: &HeaderMap, offered: &[Representation]) -> Option<Representation> {
    let Some(clauses) = clauses(headers) else {
        return Some(Representation::Json);
    };
    let best = |clause: &Clause| offered.iter().find(|it| clause.admits(**it));
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

pub(super) fn accepts_gzip(headers: &HeaderMap) -> bool {
    elements(headers, ACCEPT_ENCODING).any(|coding| {
        let mut parts = coding.split(';');
        let name = parts.next().unwrap_or_default().trim();
        let refused = parts
            .filter_map(|part| part.trim().strip_prefix("q="))
            .any(|quality| quality_of(quality.trim()) == 0.0);
        name.eq_ignore_ascii_case("gzip") && !refused
    })
}
