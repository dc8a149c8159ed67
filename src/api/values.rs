//! Values: from the path to the provider's question, and back.

use crate::core::time::Timestamp;
use crate::provider::{Effort, Empty, Error, Fetched, Objects, Provider, Query, Which};

use super::buffer::{Document, Pool};
use super::group::GroupVersion;
use super::list::List;
use super::negotiate::Format;
use super::params::{Params, selector};
use super::path::{CustomTarget, Object};
use super::status::Failure;

/// A request for values.
#[derive(Debug)]
pub(super) struct Values<'r> {
    pub(super) provider: &'r dyn Provider,
    pub(super) params: &'r Params,
    pub(super) format: Format,
    pub(super) now: Timestamp,
    pub(super) effort: Effort,
    pub(super) fetched: Option<&'r Fetched>,
    pub(super) pool: &'r Pool,
}

impl Values<'_> {
    /// Answers C1, C2 and C3 (docs/protocol.md, "Paths").
    pub(super) fn custom(&self, target: &CustomTarget) -> Result<Document, Failure> {
        let label_selector = selector(self.params.label_selector.as_deref())?;
        let metric_selector = selector(self.params.metric_label_selector.as_deref())?;
        let namespace = target.namespace.as_deref();
        // C3 describes the namespace itself, which lives in no namespace.
        let (resource, namespace, name) = match &target.object {
            Object::OwnNamespace => ("namespaces", None, namespace),
            Object::All { resource } => (resource.as_str(), namespace, None),
            Object::Named { resource, name } => (resource.as_str(), namespace, Some(name.as_str())),
        };
        self.check(target.of, name, resource)?;
        let objects = Objects {
            resource,
            namespace,
            which: name.map_or(Which::Matching(&label_selector), Which::Named),
        };
        let query = Query {
            metric: &target.metric,
            selector: &metric_selector,
            now: self.now,
            effort: self.effort,
            fetched: self.fetched,
        };
        // Exactly one item for one object, or clients refuse the answer.
        let room = if name.is_some() { 1 } else { usize::MAX };
        let mut list = List::new(target.of, &query, self.format, self.pool.take(), room);
        let asked = self
            .provider
            .custom(objects, &query, &mut |item| list.custom(&item));
        finish(asked, list, objects, &query)
    }

    /// Answers E1 (docs/protocol.md, "Paths"). The metric comes in lower case from
    /// the autoscaler; the provider knows how it is spelled.
    pub(super) fn external(
        &self,
        of: GroupVersion,
        namespace: &str,
        metric: &str,
    ) -> Result<Document, Failure> {
        let selector = selector(self.params.label_selector.as_deref())?;
        self.check(of, None, "*")?;
        let query = Query {
            metric,
            selector: &selector,
            now: self.now,
            effort: self.effort,
            fetched: self.fetched,
        };
        let mut list = List::new(of, &query, self.format, self.pool.take(), usize::MAX);
        let asked = self
            .provider
            .external(namespace, &query, &mut |item| list.external(&item));
        let objects = Objects {
            resource: "namespaces",
            namespace: Some(namespace),
            which: Which::Named(namespace),
        };
        finish(asked, list, objects, &query)
    }

    /// Checks what lists of values cannot do.
    fn check(&self, of: GroupVersion, name: Option<&str>, resource: &str) -> Result<(), Failure> {
        self.params.check_field_selector(name)?;
        if self.params.watch() {
            return Err(Failure::WatchNotSupported {
                group: of.group,
                resource: resource.to_owned(),
            });
        }
        Ok(())
    }
}

/// The list, if there is one; `objects` are for the words if not.
fn finish(
    asked: Result<Empty, Error>,
    list: List,
    objects: Objects<'_>,
    query: &Query<'_>,
) -> Result<Document, Failure> {
    asked
        .and_then(|empty| list.finish(empty))
        .map_err(|error| Failure::of_provider(error, objects, query))
}
