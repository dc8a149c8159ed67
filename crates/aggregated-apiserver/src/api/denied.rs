//! The responses to refused requests (docs/protocol.md, "Status").

use http::StatusCode;

use crate::security::denied::Denied;
use crate::security::reviewer::Access;

use super::messages::StatusDetails;
use super::quote::{bare, quote};

pub(super) type Row = (StatusCode, String, Option<StatusDetails>);

/// The table's row for a refusal by the security layers.
pub(super) fn row(denied: &Denied) -> Row {
    let nothing = Some(StatusDetails::default());
    let (code, message, details) = match denied {
        Denied::Forbidden { user, what, reason } => return forbidden(user, what, reason),
        // The response does not reveal which credential was wrong, or why.
        Denied::Unauthenticated { .. } => (StatusCode::UNAUTHORIZED, "Unauthorized", None),
        Denied::Impersonation => (
            StatusCode::FORBIDDEN,
            "forbidden: impersonation is not supported here, ask through kube-apiserver",
            nothing,
        ),
        Denied::ReviewFailed { .. } => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal error occurred: the authorization could not be checked",
            None,
        ),
        Denied::Busy => (
            StatusCode::TOO_MANY_REQUESTS,
            "too many requests at a time, please try again later",
            retry_later(),
        ),
        // Go's clients sleep for a Retry-After in a worker of the autoscaler controller,
        // which would delay autoscalers on other metrics.
        Denied::Saturated => (
            StatusCode::SERVICE_UNAVAILABLE,
            "too many requests wait for values from the store, try again later",
            None,
        ),
        Denied::HeadersTooLarge => (
            StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE,
            "the request has too many header lines or too long ones",
            None,
        ),
        Denied::TimedOut => (
            StatusCode::GATEWAY_TIMEOUT,
            "Timeout: request did not complete within the allotted timeout",
            nothing,
        ),
        Denied::Panicked => (
            StatusCode::INTERNAL_SERVER_ERROR,
            "Internal error occurred: the request could not be answered",
            None,
        ),
    };
    (code, message.to_owned(), details)
}

pub(super) fn retry_later() -> Option<StatusDetails> {
    Some(StatusDetails {
        retry_after_seconds: Some(1),
        ..StatusDetails::default()
    })
}

/// Worded as in apiserver `pkg/endpoints/handlers/responsewriters/errors.go`.
fn forbidden(user: &str, what: &Access, reason: &str) -> Row {
    let user = quote(user);
    let reason = if reason.is_empty() {
        String::new()
    } else {
        format!(": {reason}")
    };
    let (message, details) = match what {
        Access::NonResource { verb, path } => {
            let path = quote(path);
            let message = format!("forbidden: User {user} cannot {verb} path {path}{reason}");
            (message, StatusDetails::default())
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
            let named = if name.is_empty() {
                String::new()
            } else {
                format!(" {}", quote(name))
            };
            let whole = if subresource.is_empty() {
                quote(resource)
            } else {
                quote(&format!("{resource}/{subresource}"))
            };
            let scope = if namespace.is_empty() {
                "at the cluster scope".to_owned()
            } else {
                format!("in the namespace {}", quote(namespace))
            };
            let message = format!(
                "{}.{group}{named} is forbidden: User {user} cannot {verb} resource \
                 {whole} in API group {} {scope}{reason}",
                bare(resource),
                quote(group)
            );
            let details = StatusDetails {
                name: Some(name.clone()).filter(|name| !name.is_empty()),
                group: Some(group.clone()),
                kind: Some(resource.clone()),
                ..StatusDetails::default()
            };
            (message, details)
        }
    };
    (StatusCode::FORBIDDEN, message, Some(details))
}
