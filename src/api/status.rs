//! The one table from what went wrong to what the client is told
//! (docs/protocol.md, "Status").
//!
//! A `Status` message is passed verbatim into the events of an autoscaler, so
//! it is one short line, without times or counts, that says what to do.

use std::borrow::Cow;

use http::StatusCode;
use serde::Serialize;

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

/// `metav1.Status`, apimachinery `pkg/apis/meta/v1/types.go`.
#[derive(Debug, Serialize)]
pub(crate) struct Status {
    kind: &'static str,
    #[serde(rename = "apiVersion")]
    api_version: &'static str,
    metadata: Empty,
    status: &'static str,
    message: String,
    reason: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    details: Option<Details>,
    code: u16,
}

#[derive(Debug, Serialize)]
struct Empty {}

/// `metav1.StatusDetails`, as far as it is used here.
#[derive(Debug, Default, Serialize)]
pub(super) struct Details {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) name: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) group: Option<Cow<'static, str>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) kind: Option<String>,
    #[serde(rename = "retryAfterSeconds", skip_serializing_if = "Option::is_none")]
    pub(super) retry_after: Option<i32>,
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
                Some(Details::default()),
            ),
            Self::MethodNotAllowed => (
                405,
                "MethodNotAllowed",
                "the server does not allow this method on the requested resource".to_owned(),
                Some(Details::default()),
            ),
            Self::WatchNotSupported { group, resource } => {
                let qualified = format!("{resource}.{}", group.name());
                let details = Details {
                    group: Some(group.name().into()),
                    kind: Some(resource),
                    ..Details::default()
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
            kind: "Status",
            api_version: "v1",
            metadata: Empty {},
            status: "Failure",
            message: one_line(&message),
            reason,
            details,
            code,
        }
    }
}

/// Code, reason, message, details.
pub(super) type Row = (u16, &'static str, String, Option<Details>);

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
            Some(Details {
                retry_after: Some(1),
                ..Details::default()
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

impl Status {
    pub(crate) fn code(&self) -> StatusCode {
        StatusCode::from_u16(self.code).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
    }

    pub(crate) fn reason(&self) -> &'static str {
        self.reason
    }

    pub(crate) fn message(&self) -> &str {
        &self.message
    }

    pub(crate) fn encode(&self, format: Format) -> Vec<u8> {
        match format {
            Format::Json => super::json::document(self),
            Format::Protobuf => super::proto::document("v1", "Status", &self.to_message()),
        }
    }

    fn to_message(&self) -> messages::Status {
        messages::Status {
            metadata: Some(messages::ListMeta::default()),
            status: Some(self.status.to_owned()),
            message: Some(self.message.clone()),
            reason: Some(self.reason.to_owned()),
            details: self
                .details
                .as_ref()
                .map(|details| messages::StatusDetails {
                    name: details.name.clone(),
                    group: details.group.as_deref().map(str::to_owned),
                    kind: details.kind.clone(),
                    retry_after_seconds: details.retry_after,
                }),
            code: Some(i32::from(self.code)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_of_bounded_length() {
        let status = Failure::Malformed(format!("a\r\nb{}", "é".repeat(600))).status();
        assert!(status.message.starts_with("a  b"));
        assert!(status.message.len() <= MAX_MESSAGE);
        assert!(status.message.ends_with('…'));
    }
}
