//! Why a request has no answer, for the table of [`aggregated_apiserver::api::status`].

use aggregated_apiserver::api::quote::bare;
use aggregated_apiserver::api::status::RequestFailure;

use crate::provider::{ProviderError, Query, ValuesOf};

use super::path::PathError;

impl From<PathError> for RequestFailure {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Malformed(reason) => Self::Malformed(reason.to_owned()),
            PathError::NotFound => Self::NoSuchPath,
        }
    }
}

/// Why the provider has no list of devices.
pub(super) fn of_devices(error: &ProviderError) -> RequestFailure {
    match error {
        ProviderError::NotReady(what) => RequestFailure::NotReady(what),
        ProviderError::BadSelector { reason } => RequestFailure::Malformed(reason.clone()),
        _ => RequestFailure::TooMuchWork,
    }
}

/// The text for [`ProviderError::Saturated`].
pub(super) const QUERIES_OF_RULES: &str =
    "too many queries of rules are under way (prometheus.maxConcurrentQueries), try again later";

/// Why the provider has no answer, in terms of the request.
pub(super) fn of_provider(error: ProviderError, query: &Query) -> RequestFailure {
    let (resource, namespace, name) = match &query.of {
        ValuesOf::Objects(it) => (&*it.resource, it.namespace.as_ref(), it.name()),
        ValuesOf::Namespace(it) => ("namespaces", Some(it), Some(&**it)),
    };
    let because = match error {
        ProviderError::TooMuchWork => return RequestFailure::TooMuchWork,
        ProviderError::NotReady(what) => return RequestFailure::NotReady(what),
        ProviderError::Saturated => return RequestFailure::Saturated(QUERIES_OF_RULES),
        ProviderError::Unlisted { what } => return RequestFailure::Unlisted(what),
        ProviderError::Unavailable { what } => return RequestFailure::Unavailable(what),
        ProviderError::BadSelector { reason } => return RequestFailure::Malformed(reason),
        ProviderError::NoSuchMetric => String::new(),
        ProviderError::WrongScope if namespace.is_some() => {
            ": these objects live in no namespace, ask without /namespaces/<namespace>".to_owned()
        }
        ProviderError::WrongScope => {
            ": these objects live in a namespace, ask below /namespaces/<namespace>".to_owned()
        }
        ProviderError::NoValue { reason } => {
            let name = name.map_or_else(String::new, |name| format!(" {}", bare(name)));
            let selector = if query.selector.is_everything() {
                String::new()
            } else {
                format!(" with selector {}", query.selector)
            };
            format!("{name}{selector}: {reason}")
        }
    };
    RequestFailure::NoValue(format!(
        "the server could not find the metric {} for {}{because}",
        bare(&query.metric),
        bare(resource)
    ))
}
