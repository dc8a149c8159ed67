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
    label: Arc<str>,
}

/// A metric without an object.
#[derive(Clone, Debug)]
pub struct External {
    /// The index of its rule among the usable ones.
    pub rule: usize,
    series: Arc<str>,
    namespace_label: Option<Arc<str>>,
}

/// All metrics of rules, by name.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    /// By resource (`pods`, `deployments.apps`) and metric.
    pub custom: BTreeMap<(Arc<str>, Arc<str>), Custom>,
    /// By metric.
    pub external: BTreeMap<Arc<str>, External>,
}

/// Whether PromQL accepts the name of a series without quotes.
fn is_plain(name: &str) -> bool {
    is_label(&name.replace(':', "_"))
}

impl Registry {
    /// Adds the metrics of `rules`. `series` has the shapes of each rule's series in the order
    /// of Prometheus. If names are equal, the last rule wins, then the last series.
    pub fn add_custom(&mut self, rules: &[Rule], series: &[Arc<[Shape]>], kinds: &Kinds) {
        for (metric, shape, external) in metrics(rules, series, kinds) {
            let labels = &rules[external.rule].labels;
            for label in &shape.labels {
                let Some(kind) = labels.kind(label, kinds) else {
                    continue;
                };
                let Some(label) = labels.label(kind, kinds, &shape.labels) else {
                    continue;
                };
                let custom = Custom {
                    kind: kind.clone(),
                    external: external.clone(),
                    label,
                };
                self.custom
                    .insert((kind.resource(), Arc::clone(&metric)), custom);
            }
        }
    }

    /// Adds the metrics of `externalRules` in the same way.
    pub fn add_external(&mut self, rules: &[Rule], series: &[Arc<[Shape]>], kinds: &Kinds) {
        let metrics = metrics(rules, series, kinds);
        self.external
            .extend(metrics.map(|(metric, _, external)| (metric, external)));
    }
}

/// For each series with a metric: the metric's name, the series, and the external metric.
fn metrics<'r>(
    rules: &'r [Rule],
    series: &'r [Arc<[Shape]>],
    kinds: &'r Kinds,
) -> impl Iterator<Item = (Arc<str>, &'r Shape, External)> {
    let namespaces = kinds.find("", "namespaces");
    let rules = rules.iter().zip(series).enumerate();
    rules.flat_map(move |(index, (rule, shapes))| {
        let shapes = shapes.iter().filter(|shape| is_plain(&shape.name));
        shapes.filter_map(move |shape| {
            let metric = rule.metric(&shape.name)?;
            let label = namespaces.and_then(|kind| rule.labels.label(kind, kinds, &shape.labels));
            let external = External {
                rule: index,
                series: Arc::clone(&shape.name),
                namespace_label: label,
            };
            Some((metric.into(), shape, external))
        })
    })
}

impl Custom {
    /// The label that names the objects.
    #[must_use]
    pub fn label(&self) -> &str {
        &self.label
    }

    /// The PromQL for these objects.
    pub fn query(
        &self,
        rules: &[Rule],
        namespace: Option<&str>,
        names: &[&str],
        selector: &Selector,
    ) -> Result<String, Unanswerable> {
        let objects = Some((&*self.label, names));
        self.external.fill(rules, namespace, objects, selector)
    }
}

impl External {
    /// The PromQL for a namespace.
    pub fn query(
        &self,
        rules: &[Rule],
        namespace: &str,
        selector: &Selector,
    ) -> Result<String, Unanswerable> {
        let is_namespaced = rules.get(self.rule).is_none_or(|rule| rule.namespaced);
        self.fill(rules, is_namespaced.then_some(namespace), None, selector)
    }

    fn fill(
        &self,
        rules: &[Rule],
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
        let rule = rules.get(self.rule);
        let template = rule.and_then(|rule| rule.query.as_ref());
        let template = template.ok_or_else(|| refused("metricsQuery is missing"))?;
        let asked = QueryRequest {
            series: &self.series,
            matchers: rule.map_or(&[], |rule| &rule.matchers),
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
