//! Custom metrics: from the path to the provider's question, and back.

use crate::provider::{CustomQuery, Effort, Objects};

use super::list::{List, Question};
use super::negotiate::Format;
use super::params::{Params, selector};
use super::path::{CustomTarget, Group, Object};
use super::status::{Asked, Failure};
use super::{Document, Inner};

/// Answers C1, C2 and C3 (docs/protocol.md, "Paths").
pub(crate) fn answer(
    inner: &Inner,
    target: &CustomTarget,
    params: &Params,
    format: Format,
    effort: Effort,
) -> Result<Document, Failure> {
    let label_selector = selector(params.label_selector.as_deref()).map_err(Failure::Malformed)?;
    let metric_selector =
        selector(params.metric_label_selector.as_deref()).map_err(Failure::Malformed)?;
    let namespace = target.namespace.as_deref();
    // C3 describes the namespace itself, which lives in no namespace.
    let (resource, namespace, name) = match &target.object {
        Object::OwnNamespace => ("namespaces", None, namespace),
        Object::All { resource } => (resource.as_str(), namespace, None),
        Object::Named { resource, name } => (resource.as_str(), namespace, Some(name.as_str())),
    };
    params
        .check_field_selector(name)
        .map_err(Failure::Malformed)?;
    if params.watch() {
        return Err(Failure::WatchNotSupported {
            group: Group::Custom,
            resource: resource.to_owned(),
        });
    }
    let now = (inner.clock)();
    let query = CustomQuery {
        resource,
        namespace,
        objects: name.map_or(Objects::Matching(&label_selector), Objects::Named),
        metric: &target.metric,
        metric_selector: &metric_selector,
        now,
        effort,
    };
    let question = Question {
        group: Group::Custom,
        version: target.version,
        metric: &target.metric,
        echo: Some(&metric_selector).filter(|selector| !selector.is_everything()),
    };
    // Exactly one item for one object, or clients refuse the answer.
    let room = if name.is_some() { 1 } else { usize::MAX };
    let mut list = List::new(&question, format, inner.pool.take(), room);
    inner
        .provider
        .custom(&query, &mut |item| list.custom(&item))
        .and_then(|()| list.finish())
        .map_err(|error| {
            let asked = Asked {
                metric: target.metric.clone(),
                resource: resource.to_owned(),
                name: name.map(str::to_owned),
                selector: question.echo.map(ToString::to_string),
                namespaced: namespace.is_some(),
            };
            Failure::Provider(error, Box::new(asked))
        })
}
