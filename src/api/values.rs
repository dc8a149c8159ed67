//! Values: turns the path into a query to the provider, and its answer into a list.

use serde::Serialize;

use crate::provider::{Described, Effort, Empty, Error, Fetched, Objects, Provider, Query, Which};
use apimachinery::selector::Selector;
use apimachinery::time::Timestamp;

use super::buffer::{Document, Pool};
use super::group::GroupVersion;
use super::list::List;
use super::negotiate::Format;
use super::params::{Params, selector};
use super::path::{CustomTarget, FINDINGS, Object};
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
    /// Whether the user may list the pods of all namespaces.
    pub(super) may_list_pods: bool,
}

impl Values<'_> {
    /// Answers C1, C2 and C3 (docs/protocol.md, "Paths").
    pub(super) fn custom(&self, target: &CustomTarget) -> Result<Document, Failure> {
        let label_selector = selector(self.params.label_selector.as_deref())?;
        let metric_selector = selector(self.params.metric_label_selector.as_deref())?;
        let (objects, name) = objects(target, &label_selector);
        self.check(target.of, name, objects.resource)?;
        let query = self.query(&target.metric, &metric_selector);
        if self.params.explain() {
            let Some(name) = name else {
                let reason = "explain needs the name of one object".to_owned();
                return Err(Failure::Malformed(reason));
            };
            let of = Described::Object {
                resource: objects.resource,
                namespace: objects.namespace,
                name,
            };
            return self.explain(of, objects, &query);
        }
        // Exactly one item for one object: clients refuse other answers.
        let room = if name.is_some() { 1 } else { usize::MAX };
        let mut list = List::new(target.of, &query, self.format, self.pool.take(), room);
        let answer = self
            .provider
            .custom(objects, &query, &mut |item| list.custom(&item));
        finish(answer, list, objects, &query)
    }

    /// Answers E1 (docs/protocol.md, "Paths"). An autoscaler sends the metric in lower
    /// case; the provider knows its spelling.
    pub(super) fn external(
        &self,
        of: GroupVersion,
        namespace: &str,
        metric: &str,
    ) -> Result<Document, Failure> {
        let selector = selector(self.params.label_selector.as_deref())?;
        self.check(of, None, "*")?;
        let query = self.query(metric, &selector);
        let objects = in_namespace(namespace);
        if self.params.explain() {
            return self.explain(Described::External(namespace), objects, &query);
        }
        let mut list = List::new(of, &query, self.format, self.pool.take(), usize::MAX);
        let answer = self
            .provider
            .external(namespace, &query, &mut |item| list.external(&item));
        finish(answer, list, objects, &query)
    }

    fn query<'q>(&'q self, metric: &'q str, selector: &'q Selector) -> Query<'q> {
        Query {
            metric,
            selector,
            now: self.now,
            effort: self.effort,
            fetched: self.fetched,
        }
    }

    /// The findings about the data, what could not be checked, and the configuration by
    /// which they are read.
    pub(super) fn findings(
        &self,
        of: GroupVersion,
        configuration: &[(String, String)],
    ) -> Result<Document, Failure> {
        self.check(of, None, FINDINGS)?;
        let report = self.provider.findings();
        json(&serde_json::json!({
            "kind": "FindingList", "apiVersion": of.to_string(), "metadata": {},
            "items": report.findings, "skipped": report.skipped,
            "configuration": configuration,
        }))
    }

    /// Explains the value of one object. It names no objects that the user may not read:
    /// the target is the value's own.
    fn explain(
        &self,
        of: Described<'_>,
        objects: Objects<'_>,
        query: &Query<'_>,
    ) -> Result<Document, Failure> {
        let explanation = self.provider.explain(of, query);
        let mut explanation =
            explanation.map_err(|error| Failure::of_provider(error, objects, query))?;
        explanation.name_holders(self.may_list_pods);
        json(&explanation)
    }

    /// Checks for requests that lists of values do not support.
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
    answer: Result<Empty, Error>,
    list: List,
    objects: Objects<'_>,
    query: &Query<'_>,
) -> Result<Document, Failure> {
    let document = answer.and_then(|empty| list.finish(empty));
    document.map_err(|error| Failure::of_provider(error, objects, query))
}

/// The objects that a target describes, and the one name it gives.
fn objects<'t>(target: &'t CustomTarget, selector: &'t Selector) -> (Objects<'t>, Option<&'t str>) {
    let namespace = target.namespace.as_deref();
    // C3 describes the namespace itself, which is in no namespace.
    let (namespace, name) = match &target.object {
        Object::OwnNamespace => (None, namespace.filter(|name| *name != "*")),
        Object::All { .. } => (namespace, None),
        Object::Named { name, .. } => (namespace, Some(name.as_str())),
    };
    let objects = Objects {
        resource: target.resource(),
        namespace,
        which: name.map_or(Which::Matching(selector), Which::Named),
    };
    (objects, name)
}

/// The object of an external metric, for the message of a failure.
fn in_namespace(namespace: &str) -> Objects<'_> {
    Objects {
        resource: "namespaces",
        namespace: Some(namespace),
        which: Which::Named(namespace),
    }
}

fn json(document: &impl Serialize) -> Result<Document, Failure> {
    let bytes = serde_json::to_vec(document);
    let bytes = bytes.map_err(|error| Failure::Malformed(error.to_string()))?;
    Ok((bytes, 0))
}
