//! What a client is told that was not let through (docs/protocol.md, "Status").

use k8s_openapi::apimachinery::pkg::apis::meta::v1::StatusDetails;

use crate::security::denied::Denied;
use crate::security::reviewer::Access;

use super::quote::{bare, quote};
use super::status::Row;

/// The row of the table for a refusal of the security layers.
pub(super) fn row(denied: &Denied) -> Row {
    match denied {
        // Which credential was wrong, and how, is nobody's business.
        Denied::Unauthenticated { .. } => (401, "Unauthorized", "Unauthorized".to_owned(), None),
        Denied::Impersonation => (
            403,
            "Forbidden",
            "forbidden: impersonation is not supported here, ask through kube-apiserver".to_owned(),
            Some(StatusDetails::default()),
        ),
        Denied::Forbidden { user, what, reason } => forbidden(user, what, reason),
        Denied::ReviewFailed { .. } => (
            500,
            "InternalError",
            "Internal error occurred: whether this is allowed could not be found out".to_owned(),
            None,
        ),
        Denied::Busy => (
            429,
            "TooManyRequests",
            "too many requests at a time, please try again later".to_owned(),
            Some(StatusDetails {
                retry_after_seconds: Some(1),
                ..StatusDetails::default()
            }),
        ),
        Denied::HeadersTooLarge => (
            431,
            "BadRequest",
            "the request has too many header lines or too long ones".to_owned(),
            None,
        ),
        Denied::TimedOut => (
            504,
            "Timeout",
            "Timeout: request did not complete within the allotted timeout".to_owned(),
            Some(StatusDetails::default()),
        ),
        Denied::Panicked => (
            500,
            "InternalError",
            "Internal error occurred: the request could not be answered".to_owned(),
            None,
        ),
    }
}

/// As apiserver `pkg/endpoints/handlers/responsewriters/errors.go` words it.
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
    (403, "Forbidden", message, Some(details))
}
