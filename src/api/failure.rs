//! Maps errors to refusals, for the table of [`aggregated_apiserver::api::status`].

use aggregated_apiserver::api::quote::bare;
use aggregated_apiserver::refusal::Refusal;

use crate::provider::{ProviderError, Query, ValuesOf};

use super::path::PathError;

impl From<PathError> for Refusal {
    fn from(error: PathError) -> Self {
        match error {
            PathError::Malformed(reason) => Self::Malformed(reason.to_owned()),
            PathError::NotFound => Self::NoSuchPath,
        }
    }
}

/// Maps the provider's error. `missing` makes the failure if the metric or value does not exist.
pub(super) fn of_provider(
    error: ProviderError,
    missing: impl FnOnce(&ProviderError) -> Refusal,
) -> Refusal {
    match error {
        ProviderError::TooMuchWork => Refusal::TooMuchWork,
        ProviderError::NotReady(what) => Refusal::NotReady(what),
        ProviderError::Saturated => Refusal::QueriesSaturated(
            "too many queries of rules are in flight (prometheus.maxConcurrentQueries), try again later",
        ),
        ProviderError::Unlisted(what) => Refusal::Unlisted(what),
        ProviderError::Unavailable => Refusal::Unavailable("unable to fetch metrics"),
        ProviderError::BadSelector(reason) => Refusal::Malformed(reason),
        ProviderError::NoSuchMetric | ProviderError::WrongScope | ProviderError::NoValue(_) => {
            missing(&error)
        }
    }
}

/// Maps the provider's error to a query for values.
pub(super) fn of_query(error: ProviderError, query: &Query) -> Refusal {
    of_provider(error, |error| {
        let (resource, namespace, name) = match &query.of {
            ValuesOf::Objects(it) => (&*it.resource, it.namespace.as_ref(), it.name()),
            ValuesOf::Namespace(it) => ("namespaces", Some(it), Some(&**it)),
        };
        let because = match error {
            ProviderError::WrongScope if namespace.is_some() => {
                ": these objects are not namespaced, omit /namespaces/<namespace>".to_owned()
            }
            ProviderError::WrongScope => {
                ": these objects are namespaced, request them below /namespaces/<namespace>"
                    .to_owned()
            }
            ProviderError::NoValue(reason) => {
                let name = name.map_or_else(String::new, |name| format!(" {}", bare(name)));
                let selector = match query.selector.is_everything() {
                    true => String::new(),
                    false => format!(" with selector {}", query.selector),
                };
                format!("{name}{selector}: {reason}")
            }
            _ => String::new(),
        };
        Refusal::NoValue(format!(
            "the server could not find the metric {} for {}{because}",
            bare(&query.metric),
            bare(resource)
        ))
    })
}
