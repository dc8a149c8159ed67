//! The metrics that result from applying the rules to the series of Prometheus and the
//! kinds of the cluster. Upstream: prometheus-adapter
//! `pkg/custom-provider/series_registry.go` and
//! `pkg/external-provider/external_series_registry.go`.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use super::labels::is_label;
use super::query::{self, QueryRequest, Unanswerable};
use super::rule::Rule;
use apimachinery::kinds::{Kind, Kinds};
use apimachinery::selector::Selector;

/// The stored part of a series. Series that differ only in the values of their labels have
/// one shape.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Shape {
    /// The metric's name in Prometheus.
    pub name: Arc<str>,
    /// The names of its labels, without `__name__`.
    pub labels: BTreeSet<Arc<str>>,
}

/// A metric of objects.
#[derive(Clone, Debug)]
pub struct Custom {
    /// The kind of the objects.
    pub kind: Kind,
    /// The same series as a metric without objects.
    pub external: External,
    /// The label that names the objects.
    pub label: Arc<str>,
}

/// A metric without an object.
#[derive(Clone, Debug)]
pub struct External {
    /// The rule that gives it.
    pub rule: Arc<Rule>,
    series: Arc<str>,
    namespace_label: Option<Arc<str>>,
}

/// All metrics of rules in a cluster with these kinds.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    kinds: Kinds,
    /// By resource (`pods`, `deployments.apps`) and metric.
    pub custom: BTreeMap<(Arc<str>, Arc<str>), Custom>,
    /// By metric.
    pub external: BTreeMap<Arc<str>, External>,
}

impl Registry {
    /// A registry without metrics.
    #[must_use]
    pub fn new(kinds: Kinds) -> Self {
        Self {
            kinds,
            ..Self::default()
        }
    }

    /// Adds the metrics of an entry of `rules`. `shapes` are those of its series in the order
    /// of Prometheus. Of equal names, the last one counts.
    pub fn add_custom(&mut self, rule: &Arc<Rule>, shapes: &[Shape]) {
        let kinds = &self.kinds;
        for (metric, shape, external) in metrics(rule, shapes, kinds) {
            for label in &shape.labels {
                let Some(kind) = rule.labels.kind(label, kinds) else {
                    continue;
                };
                let Some(label) = rule.labels.label(kind, kinds, &shape.labels) else {
                    continue;
                };
                let custom = Custom {
                    kind: kind.clone(),
                    external: external.clone(),
                    label,
                };
                let of = (kind.resource(), Arc::clone(&metric));
                self.custom.insert(of, custom);
            }
        }
    }

    /// Adds the metrics of an entry of `externalRules` in the same way.
    pub fn add_external(&mut self, rule: &Arc<Rule>, shapes: &[Shape]) {
        let metrics = metrics(rule, shapes, &self.kinds);
        self.external
            .extend(metrics.map(|(metric, _, external)| (metric, external)));
    }

    /// The custom metric of a resource in the spelling of a request.
    #[must_use]
    pub fn find_custom(&self, resource: &str, metric: &str) -> Option<&Custom> {
        let kind = self.kinds.of_request(resource)?;
        self.custom.get(&(kind.resource(), metric.into()))
    }

    /// The external metric of a request, with its configured name. The HPA controller requests
    /// it in lower case.
    #[must_use]
    pub fn find_external(&self, metric: &str) -> Option<(&Arc<str>, &External)> {
        self.external.get_key_value(metric).or_else(|| {
            let mut all = self.external.iter();
            all.find(|(name, _)| name.eq_ignore_ascii_case(metric))
        })
    }
}

/// Whether PromQL accepts the name of a series without quotes.
fn is_plain(name: &str) -> bool {
    is_label(&name.replace(':', "_"))
}

/// For each series with a metric: the metric's name, the series, and the external metric.
fn metrics<'r>(
    rule: &'r Arc<Rule>,
    shapes: &'r [Shape],
    kinds: &'r Kinds,
) -> impl Iterator<Item = (Arc<str>, &'r Shape, External)> {
    let namespaces = kinds.find("", "namespaces");
    let shapes = shapes.iter().filter(|shape| is_plain(&shape.name));
    shapes.filter_map(move |shape| {
        let metric = rule.metric(&shape.name)?;
        let label = namespaces.and_then(|kind| rule.labels.label(kind, kinds, &shape.labels));
        let external = External {
            rule: Arc::clone(rule),
            series: Arc::clone(&shape.name),
            namespace_label: label,
        };
        Some((metric.into(), shape, external))
    })
}

impl Custom {
    /// The PromQL for these objects.
    pub fn query(
        &self,
        namespace: Option<&str>,
        names: &[&str],
        selector: &Selector,
    ) -> Result<String, Unanswerable> {
        let objects = Some((&*self.label, names));
        self.external.fill(namespace, objects, selector)
    }
}

impl External {
    /// The PromQL for a namespace.
    pub fn query(&self, namespace: &str, selector: &Selector) -> Result<String, Unanswerable> {
        let namespace = self.rule.namespaced.then_some(namespace);
        self.fill(namespace, None, selector)
    }

    fn fill(
        &self,
        namespace: Option<&str>,
        objects: Option<(&str, &[&str])>,
        selector: &Selector,
    ) -> Result<String, Unanswerable> {
        let refused = |message: &str| Unanswerable::Rule(message.to_owned());
        let label = self.namespace_label.as_deref();
        let namespace = match (namespace, label) {
            (None, _) => None,
            (Some(namespace), Some(label)) => Some((label, namespace)),
            (Some(_), None) => return Err(refused(NO_NAMESPACE_LABEL)),
        };
        let template = self.rule.query.as_ref();
        let template = template.ok_or_else(|| refused("metricsQuery is missing"))?;
        let asked = QueryRequest {
            series: &self.series,
            matchers: &self.rule.matchers,
            selector: Some(selector),
            namespace,
            objects,
            group_by: &[],
        };
        query::build(template, &asked)
    }
}

const NO_NAMESPACE_LABEL: &str = "no label names the namespace: add one to resources, or set \
                                  namespaced: false for an external metric of all namespaces";
