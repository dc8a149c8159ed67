//! Content negotiation (`protocol.md` §2.1, §2.7; apiserver
//! `pkg/endpoints/handlers/negotiation/negotiate.go`).

use http::HeaderMap;
use http::header::{ACCEPT, ACCEPT_ENCODING, USER_AGENT};

/// An encoding of answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// `application/json`.
    Json,
    /// `application/vnd.kubernetes.protobuf`.
    Protobuf,
}

impl Format {
    const ALL: [Self; 2] = [Self::Json, Self::Protobuf];

    pub(crate) const fn media_type(self) -> &'static str {
        match self {
            Self::Json => "application/json",
            Self::Protobuf => "application/vnd.kubernetes.protobuf",
        }
    }

    fn matches(self, range: &str) -> bool {
        range == "*/*" || range == "*" || range == "application/*" || range == self.media_type()
    }
}

/// No clause of the Accept header can be met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct NotAcceptable;

/// One clause of the Accept header that may be met.
struct Clause {
    range: String,
    quality: u16,
}

/// Picks the encoding of the answer.
pub(crate) fn format(headers: &HeaderMap) -> Result<Format, NotAcceptable> {
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
    if !given {
        return Ok(Format::Json);
    }
    // Best first, equals in the order they came.
    clauses.sort_by_key(|clause| std::cmp::Reverse(clause.quality));
    let refused = |format: Format| {
        clauses
            .iter()
            .any(|clause| clause.quality == 0 && clause.range == format.media_type())
    };
    clauses
        .iter()
        .filter(|clause| clause.quality > 0)
        .find_map(|clause| {
            Format::ALL
                .into_iter()
                .find(|format| format.matches(&clause.range) && !refused(*format))
        })
        .ok_or(NotAcceptable)
}

/// Reads a clause; `None` when it asks for a transformation that is not made
/// here (`as=Table`), for a stream or for a server version.
fn clause(text: &str) -> Option<Clause> {
    let mut parts = text.split(';');
    let range = parts.next()?.trim().to_ascii_lowercase();
    let mut quality = 1000;
    for part in parts {
        let (name, value) = part.split_once('=').unwrap_or((part, ""));
        let value = value.trim();
        match name.trim() {
            "q" => quality = thousandths(value),
            "as" | "g" | "v" | "sv" if !value.is_empty() => return None,
            "stream" if value != "watch" => return None,
            _ => {}
        }
    }
    Some(Clause { range, quality })
}

/// A quality in thousandths; a malformed one counts as one, as in Go.
fn thousandths(text: &str) -> u16 {
    match text.parse::<f64>() {
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
        Ok(quality) if (0.0..=1.0).contains(&quality) => (quality * 1000.0).round() as u16,
        _ => 1000,
    }
}

/// Whether the client takes gzip.
pub(crate) fn takes_gzip(headers: &HeaderMap) -> bool {
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
                .any(|quality| thousandths(quality.trim()) == 0);
            name.eq_ignore_ascii_case("gzip") && !refused
        })
}

/// Whether a person reads the answer (`isPrettyPrint` upstream).
pub(crate) fn is_person(headers: &HeaderMap) -> bool {
    headers
        .get(USER_AGENT)
        .and_then(|value| value.to_str().ok())
        .is_some_and(|agent| {
            ["curl", "Wget", "Mozilla/5.0"]
                .iter()
                .any(|known| agent.starts_with(known))
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pick(accept: &str) -> Result<Format, NotAcceptable> {
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, accept.parse().unwrap());
        format(&headers)
    }

    #[test]
    fn the_best_clause_that_can_be_met_wins() {
        for (accept, wanted) in [
            ("", Ok(Format::Json)),
            ("*/*", Ok(Format::Json)),
            (
                "application/vnd.kubernetes.protobuf, */*",
                Ok(Format::Protobuf),
            ),
            (
                "application/json;q=0.1,application/vnd.kubernetes.protobuf;q=0.9",
                Ok(Format::Protobuf),
            ),
            ("application/json;q=0, */*;q=0.1", Ok(Format::Protobuf)),
            ("application/json;charset=utf-8", Ok(Format::Json)),
            ("APPLICATION/JSON", Ok(Format::Json)),
            ("application/json;stream=watch", Ok(Format::Json)),
            ("application/yaml", Err(NotAcceptable)),
            (
                "application/json;as=Table;v=v1;g=meta.k8s.io",
                Err(NotAcceptable),
            ),
            ("application/json;q=0", Err(NotAcceptable)),
            (",,;;", Err(NotAcceptable)),
        ] {
            assert_eq!(pick(accept), wanted, "{accept:?}");
        }
    }
}
