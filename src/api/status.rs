//! The one table from what went wrong to what the client is told
//! (docs/protocol.md, "Status").
//!
//! A `Status` message is passed verbatim into the events of an autoscaler, so
//! it is one short line, without times or counts, that says what to do.

use http::StatusCode;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Status, StatusDetails};

use crate::provider::Error;
use crate::security::denied::Denied;

use super::denied;
use super::negotiate::Format;
use super::path::Group;
use super::proto::messages;
use super::quote::{bare, quote};

/// The longest message: events cut what is longer.
const MAX_MESSAGE: usize = 512;

/// What was asked, for the words of a message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Asked {
    pub(crate) metric: String,
    pub(crate) resource: String,
    pub(crate) name: Option<String>,
    pub(crate) selector: Option<String>,
    pub(crate) namespaced: bool,
}

/// Why a request has no answer.
#[derive(Debug)]
pub(crate) enum Failure {
    /// Path, query or selector cannot be understood; says what is wrong.
    Malformed(String),
    /// Nothing is at this path.
    NoSuchPath,
    /// Something is at this path, for GET only.
    MethodNotAllowed,
    /// Changes cannot be watched.
    WatchNotSupported { group: Group, resource: String },
    /// None of the wanted encodings is made here.
    NotAcceptable,
    /// This document is made in JSON only.
    JsonOnly,
    /// The provider has no answer.
    Provider(Error, Box<Asked>),
    /// The request's body is over the limit.
    BodyTooLarge,
    /// The request did not arrive in time.
    TooSlow,
    /// The request's path and query are over the limit.
    TargetTooLong,
    /// The security layers let nothing through.
    Denied(Box<Denied>),
}

impl Failure {
    /// The answer for a client, and nothing that only the log may know.
    pub(crate) fn status(self) -> Status {
        let (code, reason, message, details) = match self {
            Self::Malformed(text) => (400, "BadRequest", text, None),
            Self::NoSuchPath => (
                404,
                "NotFound",
                "the server could not find the requested resource".to_owned(),
                Some(StatusDetails::default()),
            ),
            Self::MethodNotAllowed => (
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource".to_owned(),
                Some(StatusDetails::default()),
            ),
            Self::WatchNotSupported { group, resource } => {
                let qualified = format!("{resource}.{}", group.name());
                let details = StatusDetails {
                    group: Some(group.name().to_owned()),
                    kind: Some(resource),
                    ..StatusDetails::default()
                };
                (
                    405,
                    "MethodNotAllowed",
                    format!(
                        "watch is not supported on resources of kind {}",
                        quote(&qualified)
                    ),
                    Some(details),
                )
            }
            Self::NotAcceptable => (
                406,
                "NotAcceptable",
                "only the following media types are accepted: application/json, \
                 application/vnd.kubernetes.protobuf"
                    .to_owned(),
                None,
            ),
            Self::JsonOnly => (
                406,
                "NotAcceptable",
                "only the following media types are accepted: application/json".to_owned(),
                None,
            ),
            Self::BodyTooLarge => (
                413,
                "RequestEntityTooLarge",
                "requests have no body here".to_owned(),
                None,
            ),
            Self::TooSlow => (
                408,
                "Timeout",
                "the request did not arrive in time".to_owned(),
                None,
            ),
            Self::TargetTooLong => (
                414,
                "BadRequest",
                "the request's path and query are too long".to_owned(),
                None,
            ),
            Self::Provider(error, asked) => provider_row(error, &asked),
            Self::Denied(denied) => denied::row(&denied),
        };
        Status {
            status: Some("Failure".to_owned()),
            message: Some(one_line(&message)),
            reason: Some(reason.to_owned()),
            details,
            code: Some(code),
            ..Status::default()
        }
    }
}

/// Code, reason, message, details.
pub(super) type Row = (i32, &'static str, String, Option<StatusDetails>);

fn provider_row(error: Error, asked: &Asked) -> Row {
    let metric = format!(
        "the server could not find the metric {} for {}",
        bare(&asked.metric),
        bare(&asked.resource)
    );
    match error {
        Error::NoSuchMetric => (404, "NotFound", metric, None),
        Error::WrongScope => {
            let remedy = if asked.namespaced {
                "these objects live in no namespace, ask without /namespaces/<namespace>"
            } else {
                "these objects live in a namespace, ask below /namespaces/<namespace>"
            };
            (404, "NotFound", format!("{metric}: {remedy}"), None)
        }
        Error::NoValue { reason } => {
            let name = asked.name.as_deref().map(bare).unwrap_or_default();
            let space = if name.is_empty() { "" } else { " " };
            let selector = asked
                .selector
                .as_deref()
                .map(|selector| format!(" with selector {selector}"))
                .unwrap_or_default();
            let message = format!("{metric}{space}{name}{selector}: {reason}");
            (404, "NotFound", message, None)
        }
        Error::BadSelector { reason } => (400, "BadRequest", reason, None),
        Error::TakesWork => (
            429,
            "TooManyRequests",
            "too many questions with selectors at once: try again later".to_owned(),
            Some(StatusDetails {
                retry_after_seconds: Some(1),
                ..StatusDetails::default()
            }),
        ),
        Error::NotReady => (
            503,
            "ServiceUnavailable",
            "no data yet: the first poll of the metrics backend is still under way".to_owned(),
            None,
        ),
    }
}

/// One line of at most [`MAX_MESSAGE`] bytes.
fn one_line(message: &str) -> String {
    let mut line: String = message
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    if line.len() > MAX_MESSAGE {
        let mut end = MAX_MESSAGE - '…'.len_utf8();
        while !line.is_char_boundary(end) {
            end -= 1;
        }
        line.truncate(end);
        line.push('…');
    }
    line
}

/// The HTTP code of a status.
pub(crate) fn code(status: &Status) -> StatusCode {
    let code = status.code.and_then(|code| u16::try_from(code).ok());
    let code = code.and_then(|code| StatusCode::from_u16(code).ok());
    code.unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
}

/// The body of an answer.
pub(crate) fn encode(status: &Status, format: Format) -> Vec<u8> {
    match format {
        Format::Json => super::json::document(status),
        Format::Protobuf => super::proto::document("v1", "Status", &message(status)),
    }
}

fn message(status: &Status) -> messages::Status {
    let details = status.details.as_ref();
    messages::Status {
        metadata: Some(messages::ListMeta::default()),
        status: status.status.clone(),
        message: status.message.clone(),
        reason: status.reason.clone(),
        details: details.map(|details| messages::StatusDetails {
            name: details.name.clone(),
            group: details.group.clone(),
            kind: details.kind.clone(),
            retry_after_seconds: details.retry_after_seconds,
        }),
        code: status.code,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_of_bounded_length() {
        let status = Failure::Malformed(format!("a\r\nb{}", "é".repeat(600))).status();
        let message = status.message.unwrap();
        assert!(message.starts_with("a  b"));
        assert!(message.len() <= MAX_MESSAGE);
        assert!(message.ends_with('…'));
    }
}
