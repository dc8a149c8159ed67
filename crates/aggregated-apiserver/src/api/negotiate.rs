//! Content negotiation (docs/protocol.md, "Content negotiation", "Compression";
//! apiserver `pkg/endpoints/handlers/negotiation/negotiate.go`).

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};

/// An encoding of responses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Format {
    /// The media type without parameters.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn matches(self, range: &str) -> bool {
        range == "*/*" || range == "*" || range == "application/*" || range == self.media_type()
    }
}

/// The form of the response that the client requests.
#[derive(Clone, Copy, Debug)]
pub struct ResponseForm {
    /// The encoding.
    pub format: Format,
    /// Whether JSON is indented.
    pub pretty: bool,
    /// Whether the client accepts gzip.
    pub gzip: bool,
}

impl ResponseForm {
    /// The requested form. JSON, if the server has no accepted encoding.
    pub(crate) fn of(headers: &HeaderMap) -> Self {
        Self {
            format: format(headers).unwrap_or(Format::Json),
            pretty: is_person(headers),
            gzip: takes_gzip(headers),
        }
    }
}

/// No clause of the Accept header matches an available form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAcceptable;

/// A version of aggregated discovery (docs/protocol.md, "Aggregated discovery").
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Aggregated {
    /// Requested by kube-apiserver since 1.30.
    V2,
    /// Requested by 1.26 to 1.36.
    V2Beta1,
}

impl Aggregated {
    /// All versions, in the order of the enum.
    pub const ALL: [Self; 2] = [Self::V2, Self::V2Beta1];

    /// The version of `apidiscovery.k8s.io`.
    pub(crate) const fn version(self) -> &'static str {
        match self {
            Self::V2 => "v2",
            Self::V2Beta1 => "v2beta1",
        }
    }

    /// The media type with its parameters.
    pub const fn media_type(self) -> &'static str {
        match self {
            Self::V2 => "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList",
            Self::V2Beta1 => {
                "application/json;g=apidiscovery.k8s.io;v=v2beta1;as=APIGroupDiscoveryList"
            }
        }
    }
}

/// A form of a document. All forms except `Plain` are in JSON.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Form {
    Plain(Format),
    Aggregated(Aggregated),
    /// A `Table` of `meta.k8s.io/v1`, for kubectl's columns.
    Table,
}

const JSON: Form = Form::Plain(Format::Json);
const PROTOBUF: Form = Form::Plain(Format::Protobuf);

/// One clause of the Accept header with supported parameters.
struct Clause {
    range: String,
    quality: f32,
    /// A form other than the plain one.
    transform: Option<Form>,
}

/// Selects the encoding of the response.
///
/// # Errors
/// [`NotAcceptable`] when no clause of the header matches.
pub fn format(headers: &HeaderMap) -> Result<Format, NotAcceptable> {
    match pick(headers, &[JSON, PROTOBUF])? {
        Form::Plain(format) => Ok(format),
        Form::Aggregated(_) | Form::Table => Err(NotAcceptable),
    }
}

/// Checks that the client accepts JSON, if only JSON is available.
///
/// # Errors
/// [`NotAcceptable`] when no clause of the header matches.
pub fn json(headers: &HeaderMap) -> Result<(), NotAcceptable> {
    pick(headers, &[JSON]).map(drop)
}

/// Selects the form of `/apis`: an `APIGroupDiscoveryList`, always in JSON. `None`: an
/// `APIGroupList` in the encoding of [`format()`].
///
/// # Errors
/// [`NotAcceptable`] when no clause of the header matches.
pub fn aggregated(headers: &HeaderMap) -> Result<Option<Aggregated>, NotAcceptable> {
    let [v2, beta] = Aggregated::ALL.map(Form::Aggregated);
    match pick(headers, &[v2, beta, JSON, PROTOBUF])? {
        Form::Aggregated(version) => Ok(Some(version)),
        Form::Plain(_) | Form::Table => Ok(None),
    }
}

/// Selects the form of a document that is also available as a table: the encoding of the
/// plain object. `None`: a `Table`, always in JSON.
///
/// # Errors
/// [`NotAcceptable`] when no clause of the header matches.
pub fn table(headers: &HeaderMap) -> Result<Option<Format>, NotAcceptable> {
    match pick(headers, &[Form::Table, JSON, PROTOBUF])? {
        Form::Plain(format) => Ok(Some(format)),
        Form::Aggregated(_) | Form::Table => Ok(None),
    }
}

/// The first offered form that the best matching clause admits. Without an Accept header: JSON.
fn pick(headers: &HeaderMap, offered: &[Form]) -> Result<Form, NotAcceptable> {
    let Some(clauses) = clauses(headers) else {
        return Ok(JSON);
    };
    let admits = |clause: &Clause, form: Form| match form {
        _ if clause.quality == 0.0 => false,
        Form::Plain(format) => clause.transform.is_none() && format.matches(&clause.range),
        form => clause.transform == Some(form) && Format::Json.matches(&clause.range),
    };
    let best = |clause: &Clause| offered.iter().find(|form| admits(clause, **form));
    clauses.iter().find_map(best).copied().ok_or(NotAcceptable)
}

/// The clauses of the Accept header, the best first; equal ones stay in order. `None`:
/// there is no such header.
fn clauses(headers: &HeaderMap) -> Option<Vec<Clause>> {
    let mut clauses = Vec::new();
    let mut given = false;
    for value in headers.get_all(ACCEPT) {
        let Ok(text) = value.to_str() else {
            given = true;
            continue;
        };
        given |= !text.trim().is_empty();
        clauses.extend(text.split(',').filter_map(clause));
    }
    clauses.sort_by(|one, other| other.quality.total_cmp(&one.quality));
    given.then_some(clauses)
}

/// Parses a clause. `None`: it requests an unsupported transformation
/// (`as=PartialObjectMetadataList`), a stream or a server version.
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
    let transform = match (kind, group, version) {
        ("", "", "") => None,
        ("APIGroupDiscoveryList", "apidiscovery.k8s.io", version) => {
            let mut known = Aggregated::ALL.into_iter();
            let known = known.find(|known| known.version() == version)?;
            Some(Form::Aggregated(known))
        }
        ("Table", "meta.k8s.io", "v1") => Some(Form::Table),
        _ => return None,
    };
    Some(Clause {
        range,
        quality,
        transform,
    })
}

/// A malformed quality counts as 1, as in Go.
fn quality_of(text: &str) -> f32 {
    let quality = text.parse().ok();
    quality.filter(|it| (0.0..=1.0).contains(it)).unwrap_or(1.0)
}

pub(super) fn takes_gzip(headers: &HeaderMap) -> bool {
    headers
        .get_all(ACCEPT_ENCODING)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|text| text.split(','))
        .any(|coding| {
            let mut parts = coding.split(';');
            let name = parts.next().unwrap_or_default().trim();
            let refused = parts
                .filter_map(|part| part.trim().strip_prefix("q="))
                .any(|quality| quality_of(quality.trim()) == 0.0);
            name.eq_ignore_ascii_case("gzip") && !refused
        })
}

/// Whether a person uses the client (`isPrettyPrint` upstream).
fn is_person(headers: &HeaderMap) -> bool {
    headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|agent| {
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|known| agent.starts_with(known))
        })
}
