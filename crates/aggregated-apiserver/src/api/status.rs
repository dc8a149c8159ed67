//! The table that maps failures to responses (docs/protocol.md, "Status").
//!
//! The message of a `Status` appears verbatim in an autoscaler's events. It is therefore
//! one short line with the remedy, without times or counts.

use http::StatusCode;

use super::denied::{self, Row, retry_later};
use super::messages::{ListMeta, Status, StatusDetails};
use super::negotiate::NotAcceptable;
use super::quote::quote;
use crate::security::denied::Denied;

/// The longest message: events truncate longer ones.
const MAX_MESSAGE: usize = 512;

/// Why a request is not answered with data.
#[derive(Debug)]
pub enum RequestFailure {
    /// Path, query or selector is invalid: the fault.
    Malformed(String),
    /// No resource has this path.
    NoSuchPath,
    /// The object or value does not exist: which one, and why.
    NoValue(String),
    /// The path supports only GET.
    MethodNotAllowed,
    /// The resource cannot be watched.
    WatchNotSupported {
        /// Its group.
        group: &'static str,
        /// Its name.
        resource: String,
    },
    /// No requested encoding is available.
    NotAcceptable,
    /// This document is available in JSON only.
    JsonOnly,
    /// The request is expensive, and the limit on such work is reached.
    TooMuchWork,
    /// The server has no data yet: what it waits for.
    NotReady(&'static str),
    /// Objects cannot be listed: which. The log has the reason.
    Unlisted(&'static str),
    /// Too many requests wait for data to be fetched: the message.
    Saturated(&'static str),
    /// The data could not be fetched: the message.
    Unavailable(&'static str),
    /// The listener refused the request: the code, and why.
    Rejected(StatusCode, &'static str),
    /// The security layers refused the request.
    Denied(Box<Denied>),
}

impl From<NotAcceptable> for RequestFailure {
    fn from(_: NotAcceptable) -> Self {
        Self::NotAcceptable
    }
}

impl RequestFailure {
    /// The response for a client, without details that are for the log only.
    pub(super) fn status(self) -> (StatusCode, Status) {
        let (code, message, details) = self.row();
        let status = Status {
            metadata: Some(ListMeta::default()),
            status: Some("Failure".to_owned()),
            message: Some(one_line(&message)),
            reason: Some(reason(code).to_owned()),
            details,
            code: Some(code.as_u16().into()),
        };
        (code, status)
    }

    fn row(self) -> Row {
        let plain = |code, message: &str| (code, message.to_owned(), None);
        match self {
            Self::Malformed(text) => (StatusCode::BAD_REQUEST, text, None),
            Self::NoValue(text) => (StatusCode::NOT_FOUND, text, None),
            Self::NotReady(what) => {
                let message = format!("no data yet: {what}");
                (StatusCode::SERVICE_UNAVAILABLE, message, None)
            }
            Self::Saturated(why) => plain(StatusCode::SERVICE_UNAVAILABLE, why),
            Self::Denied(denied) => denied::row(&denied),
            Self::WatchNotSupported { group, resource } => no_watch(group, resource),
            Self::NoSuchPath => (
                StatusCode::NOT_FOUND,
                "the server could not find the requested resource".to_owned(),
                Some(StatusDetails::default()),
            ),
            Self::MethodNotAllowed => (
                StatusCode::METHOD_NOT_ALLOWED,
                "the server does not allow this method on the requested resource".to_owned(),
                Some(StatusDetails::default()),
            ),
            Self::TooMuchWork => (
                StatusCode::TOO_MANY_REQUESTS,
                "too many concurrent requests with selectors, try again later".to_owned(),
                retry_later(),
            ),
            // Worded as by Go's API servers.
            Self::Unlisted(what) | Self::Unavailable(what) => (
                StatusCode::INTERNAL_SERVER_ERROR,
                format!("Internal error occurred: {what}"),
                None,
            ),
            Self::NotAcceptable => plain(
                StatusCode::NOT_ACCEPTABLE,
                "only the following media types are accepted: application/json, \
                 application/vnd.kubernetes.protobuf",
            ),
            Self::JsonOnly => plain(
                StatusCode::NOT_ACCEPTABLE,
                "only the following media types are accepted: application/json",
            ),
            Self::Rejected(code, why) => plain(code, why),
        }
    }
}

fn no_watch(group: &str, resource: String) -> Row {
    let qualified = quote(&format!("{resource}.{group}"));
    let message = format!("watch is not supported on resources of kind {qualified}");
    let details = StatusDetails {
        group: Some(group.to_owned()),
        kind: Some(resource),
        ..StatusDetails::default()
    };
    (StatusCode::METHOD_NOT_ALLOWED, message, Some(details))
}

/// The reason of a code (apimachinery `pkg/apis/meta/v1/types.go`, `StatusReason`).
fn reason(code: StatusCode) -> &'static str {
    match code {
        StatusCode::UNAUTHORIZED => "Unauthorized",
        StatusCode::FORBIDDEN => "Forbidden",
        StatusCode::NOT_FOUND => "NotFound",
        StatusCode::METHOD_NOT_ALLOWED => "MethodNotAllowed",
        StatusCode::NOT_ACCEPTABLE => "NotAcceptable",
        StatusCode::REQUEST_TIMEOUT | StatusCode::GATEWAY_TIMEOUT => "Timeout",
        StatusCode::PAYLOAD_TOO_LARGE => "RequestEntityTooLarge",
        StatusCode::TOO_MANY_REQUESTS => "TooManyRequests",
        StatusCode::SERVICE_UNAVAILABLE => "ServiceUnavailable",
        StatusCode::INTERNAL_SERVER_ERROR => "InternalError",
        _ => "BadRequest",
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_of_bounded_length() {
        let status = RequestFailure::Malformed(format!("a\r\nb{}", "é".repeat(600)))
            .status()
            .1;
        let message = status.message.unwrap();
        assert!(message.starts_with("a  b"));
        assert!(message.len() <= MAX_MESSAGE);
        assert!(message.ends_with('…'));
    }
}
