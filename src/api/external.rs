//! External metrics: from the path to the provider's question, and back.

use crate::provider::{Effort, ExternalQuery};

use super::list::{List, Question};
use super::negotiate::Format;
use super::params::{Params, selector};
use super::path::{Group, Version};
use super::status::{Asked, Failure};
use super::{Document, Inner};

/// Answers E1 (docs/protocol.md, "Paths"). The metric comes in lower case from
/// the autoscaler; the provider knows how it is spelled.
pub(crate) fn answer(
    inner: &Inner,
    namespace: &str,
    metric: &str,
    params: &Params,
    format: Format,
    effort: Effort,
) -> Result<Document, Failure> {
    let selector = selector(params.label_selector.as_deref()).map_err(Failure::Malformed)?;
    params
        .check_field_selector(None)
        .map_err(Failure::Malformed)?;
    if params.watch() {
        return Err(Failure::WatchNotSupported {
            group: Group::External,
            resource: "*".to_owned(),
        });
    }
    let now = (inner.clock)();
    let query = ExternalQuery {
        namespace,
        metric,
        selector: &selector,
        now,
        effort,
    };
    let question = Question {
        group: Group::External,
        version: Version::V1Beta1,
        metric,
        echo: None,
    };
    let mut list = List::new(&question, format, inner.pool.take(), usize::MAX);
    inner
        .provider
        .external(&query, &mut |item| list.external(&item))
        .and_then(|()| list.finish())
        .map_err(|error| {
            let asked = Asked {
                metric: metric.to_owned(),
                resource: "namespaces".to_owned(),
                name: Some(namespace.to_owned()),
                selector: Some(&selector)
                    .filter(|selector| !selector.is_everything())
                    .map(ToString::to_string),
                namespaced: true,
            };
            Failure::Provider(error, Box::new(asked))
        })
}
