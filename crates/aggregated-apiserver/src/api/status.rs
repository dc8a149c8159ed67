//! The table that maps refusals to responses (docs/protocol.md, "Status").
//!
//! The message of a `Status` appears verbatim in an autoscaler's events. It is therefore
//! one short line with the remedy, without times or counts.

use std::borrow::Cow;

use apimachinery::letters::{escaped, shortened};
use http::StatusCode;
use serde::Serialize;

use super::quote::{bare, quote};
use crate::refusal::Refusal;
use crate::security::reviewer::Access;

/// The longest message: events truncate longer ones.
const MAX_MESSAGE: usize = 512;

/// `metav1.ListMeta`: no field is ever set.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
pub struct ListMeta {}

/// `metav1.Status`, with the field numbers of apimachinery's
/// `pkg/apis/meta/v1/generated.proto`. Every scalar is optional, because proto2 distinguishes
/// an absent value from a default. serde writes the same fields as JSON. The details, which
/// repeat the message in fields, are left out.
#[derive(Clone, PartialEq, prost::Message, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Status {
    #[prost(message, optional, tag = "1")]
    metadata: Option<ListMeta>,
    #[prost(string, optional, tag = "2")]
    status: Option<String>,
    #[prost(string, optional, tag = "3")]
    pub(super) message: Option<String>,
    #[prost(string, optional, tag = "4")]
    pub(super) reason: Option<String>,
    #[prost(int32, optional, tag = "6")]
    code: Option<i32>,
}

/// The response to a refused request, without details that are for the log only.
pub(super) fn status(refusal: &Refusal) -> (StatusCode, Status) {
    let (code, message) = response(refusal);
    let status = Status {
        metadata: Some(ListMeta::default()),
        status: Some("Failure".to_owned()),
        message: Some(shortened(&escaped(&message), MAX_MESSAGE).into_owned()),
        reason: Some(reason(code).to_owned()),
        code: Some(code.as_u16().into()),
    };
    (code, status)
}

/// The code and the message, worded as by Go's API servers where they have the same failure.
fn response(refusal: &Refusal) -> (StatusCode, Cow<'_, str>) {
    let (code, text) = match refusal {
        Refusal::Malformed(text) => (StatusCode::BAD_REQUEST, text.as_str()),
        // The response does not reveal which credential was wrong, or why.
        Refusal::Unauthenticated { .. } => (StatusCode::UNAUTHORIZED, "Unauthorized"),
        Refusal::Impersonation => (
            StatusCode::FORBIDDEN,
            "forbidden: impersonation is not supported here, ask through kube-apiserver",
        ),
        Refusal::Forbidden { user, what, reason } => {
            return (StatusCode::FORBIDDEN, forbidden(user, what, reason).into());
        }
        Refusal::NoSuchPath => (
            StatusCode::NOT_FOUND,
            "the server could not find the requested resource",
        ),
        Refusal::NoValue(text) => (StatusCode::NOT_FOUND, text.as_str()),
        Refusal::MethodNotAllowed => (
            StatusCode::METHOD_NOT_ALLOWED,
            "the server does not allow this method on the requested resource",
        ),
        Refusal::WatchNotSupported { group, resource } => {
            let kind = quote(&format!("{resource}.{group}"));
            let text = format!("watch is not supported on resources of kind {kind}");
            return (StatusCode::METHOD_NOT_ALLOWED, text.into());
        }
        Refusal::NotAcceptable(offered) => {
            let text = format!("only the following media types are accepted: {offered}");
            return (StatusCode::NOT_ACCEPTABLE, text.into());
        }
        Refusal::Busy => (
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests at a time, please try again later",
        ),
        Refusal::TooMuchWork => (
            StatusCode::TOO_MANY_REQUESTS,
            "too many concurrent requests with selectors, try again later",
        ),
        Refusal::ReviewFailed { .. } => return internal("the authorization could not be checked"),
        Refusal::Panicked => return internal("the request could not be answered"),
        Refusal::Unavailable(what) => return internal(what),
        // Go's clients sleep for a Retry-After in a worker of the autoscaler controller,
        // which would delay autoscalers on other metrics. These have none.
        Refusal::NotReady(what) => {
            let text = format!("no data yet: {what}");
            return (StatusCode::SERVICE_UNAVAILABLE, text.into());
        }
        Refusal::Saturated(text) => (StatusCode::SERVICE_UNAVAILABLE, *text),
        Refusal::TimedOut => (
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout: request did not complete within the allotted timeout",
        ),
        Refusal::Rejected(code, text) => (*code, *text),
    };
    (code, text.into())
}

fn internal(what: &str) -> (StatusCode, Cow<'static, str>) {
    let text = format!("Internal error occurred: {what}");
    (StatusCode::INTERNAL_SERVER_ERROR, text.into())
}

/// Worded as in apiserver `pkg/endpoints/handlers/responsewriters/errors.go`.
fn forbidden(user: &str, what: &Access, reason: &str) -> String {
    let user = quote(user);
    let refused = match what {
        Access::NonResource { verb, path } => {
            format!("forbidden: User {user} cannot {verb} path {}", quote(path))
        }
        Access::Resource {
            verb,
            group,
            resource,
            subresource,
            namespace,
            name,
            ..
        } => {
            let object = match name.as_str() {
                "" => String::new(),
                name => format!(" {}", quote(name)),
            };
            let whole = match subresource.as_str() {
                "" => quote(resource),
                subresource => quote(&format!("{resource}/{subresource}")),
            };
            let scope = match namespace.as_str() {
                "" => "at the cluster scope".to_owned(),
                namespace => format!("in the namespace {}", quote(namespace)),
            };
            format!(
                "{}.{group}{object} is forbidden: User {user} cannot {verb} resource \
                 {whole} in API group {} {scope}",
                bare(resource),
                quote(group)
            )
        }
    };
    match reason {
        "" => refused,
        reason => format!("{refused}: {reason}"),
    }
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_one_line_of_bounded_length() {
        let malformed = Refusal::Malformed(format!("a\r\nb{}", "é".repeat(600)));
        let message = status(&malformed).1.message.unwrap();
        assert!(message.starts_with(r"a\u000d\u000ab"));
        assert!(message.len() <= MAX_MESSAGE);
        assert!(message.ends_with('…'));
    }
}
