//! Maps errors to refusals, for the table of [`aggregated_apiserver::api::status`].

use aggregated_apiserver::api::quote::{bare, quote};
use aggregated_apiserver::refusal::Refusal;

use crate::provider::usage::{Measured, UsageQuery};
use crate::provider::{ProviderError, Query, ValuesOf};

impl From<ProviderError> for Refusal {
    fn from(error: ProviderError) -> Self {
        match error {
            ProviderError::TooMuchWork => Self::TooMuchWork,
            ProviderError::NotReady(what) => Self::NotReady(what),
            ProviderError::Saturated => Self::QueriesSaturated(
                "too many queries of rules are in flight (prometheus.maxConcurrentQueries), try again later",
            ),
            ProviderError::Unavailable(what) => Self::Unavailable(what),
            ProviderError::BadSelector(reason) => Self::Malformed(reason),
            ProviderError::NoSuchMetric => Self::NoSuchPath,
            ProviderError::WrongScope(reason) => Self::NoValue(reason.to_owned()),
            ProviderError::NoValue(reason) => Self::NoValue(reason),
        }
    }
}

/// The refusal of a query for values.
pub(super) fn of_values(error: ProviderError, query: &Query) -> Refusal {
    let (resource, name) = match &query.of {
        ValuesOf::Objects(it) => (&*it.resource, it.name.as_ref()),
        ValuesOf::Namespace(it) => ("namespaces", Some(it)),
    };
    let because = match error {
        ProviderError::NoSuchMetric => String::new(),
        // As upstream, the message does not name the object.
        ProviderError::WrongScope(reason) => format!(": {reason}"),
        ProviderError::NoValue(reason) => {
            let name = name.map_or_else(String::new, |name| format!(" {}", bare(name)));
            let selector = match query.selector.is_everything() {
                true => String::new(),
                false => format!(" with selector {}", query.selector),
            };
            format!("{name}{selector}: {reason}")
        }
        error => return error.into(),
    };
    Refusal::NoValue(format!(
        "the server could not find the metric {} for {}{because}",
        bare(&query.metric),
        bare(resource)
    ))
}

/// The refusal of a query for usage.
pub(super) fn of_usage(error: ProviderError, query: &UsageQuery) -> Refusal {
    let ProviderError::NoValue(reason) = error else {
        return error.into();
    };
    let kind = match query.measured {
        Measured::Pods => "podmetrics",
        Measured::Nodes => "nodemetrics",
    };
    let place: Vec<&str> = [&query.namespace, &query.name]
        .into_iter()
        .filter_map(Option::as_deref)
        .collect();
    let place = quote(&place.join("/"));
    Refusal::NoValue(format!("{kind}.metrics.k8s.io {place} not found: {reason}"))
}
