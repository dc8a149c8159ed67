//! Explains values, from the snapshot or with the query of a rule.

use std::sync::Arc;

use super::gpu::GpuProvider;
use super::lookup::{Lookup, ServedSnapshot};
use super::{Item, ObjectSelection, ProviderError, Query, StoreQuery, ValuesOf, Which};
use adapter_rules::answer::Answer;
use adapter_rules::rule::Rule;
use apimachinery::duration::format_duration;
use gpu_metrics::explain::{ExplainedValue, Explanation, Promql, Question, Selected};
use gpu_metrics::inventory::{InventoryOrigin, Workload};
use gpu_metrics::layout::Object;
use gpu_metrics::metric::Value;
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;

impl GpuProvider {
    /// Explains the value of one object or of an external metric, or why it is missing.
    pub fn explain(&self, query: &Query, looks: u64) -> Result<Explanation, ProviderError> {
        self.explain_at(self.current.load().as_deref(), query, looks)
    }

    /// [`GpuProvider::explain`] for one snapshot.
    pub(super) fn explain_at(
        &self,
        current: Option<&ServedSnapshot>,
        query: &Query,
        looks: u64,
    ) -> Result<Explanation, ProviderError> {
        let mut sum = Sum::default();
        let mut add = |item: Item<'_>| sum.add(item.value());
        let answer = self.values_at(current, query, looks, &mut add);
        let (_, value, no_value) = sum.after(answer)?;
        let namespace = match &query.of {
            ValuesOf::Objects(objects) => {
                return self.explained(current, objects, query, looks, (value, no_value));
            }
            ValuesOf::Namespace(namespace) => namespace,
        };
        let sought = self.sought(current, query, looks)?;
        let (of, group) = sought.lookup.external_group(sought.in_namespace, namespace);
        let selected = match sought.in_namespace {
            true => Selected::Namespace(namespace),
            false => Selected::All,
        };
        let named = (&*sought.name, &*of, selected);
        sought.lookup.explained(named, group, (value, no_value))
    }

    fn explained(
        &self,
        current: Option<&ServedSnapshot>,
        objects: &ObjectSelection,
        query: &Query,
        looks: u64,
        (value, mut no_value): (Option<Value>, Option<String>),
    ) -> Result<Explanation, ProviderError> {
        let metric = self.metric(&query.metric);
        let (Which::Named(name), Some((metric, spec)), Some(current)) =
            (&objects.which, metric, current)
        else {
            return Err(ProviderError::NoSuchMetric);
        };
        let (resource, namespace) = (&*objects.resource, objects.namespace.as_deref());
        let lookup = current.lookup(metric, spec, query, looks)?;
        let group = current.snapshot.layout().object(resource, namespace, name);
        let selected = match (resource, namespace) {
            ("pods", Some(namespace)) => Selected::Pod(namespace, name),
            (_, Some(namespace)) => Selected::PodsOf(namespace),
            ("namespaces", None) => Selected::Namespace(name),
            (_, None) => Selected::Devices,
        };
        if let (None, Some(namespace)) = (&group, namespace) {
            let why = match resource {
                "pods" => elsewhere(&current.snapshot, namespace, name),
                _ => None,
            };
            let why = why.or_else(|| not_listed(&current.snapshot, resource, namespace, name));
            no_value = why.or(no_value);
        }
        let group = group.filter(|_| lookup.spec.measure != Measure::OriginalAverage);
        let named = (&*query.metric, &*described(query), selected);
        lookup.explained(named, group, (value, no_value))
    }
}

/// A rule's value comes from Prometheus, so its query is the whole explanation.
pub(super) fn explained_by_rule(
    query: &Query,
    rule: Option<&Rule>,
    asked: Result<(StoreQuery, Arc<Answer>), ProviderError>,
    sum: Sum,
) -> Result<Explanation, ProviderError> {
    let (asked, value, no_value) = sum.after(asked)?;
    let (place, series) = rule.map_or(("a rule", "?"), |it| (&it.place, &it.series_query));
    let at = value.map_or(query.now, |value| value.at);
    Ok(Explanation {
        metric: query.metric.clone(),
        of: described(query),
        meaning: format!("the answer of Prometheus to the query of {place} of the configuration"),
        value: value.map(|value| ExplainedValue::of(&value, query.now)),
        no_value,
        notes: std::iter::once(format!("{place} is about the series {series}"))
            .chain(asked.iter().map(|(_, answer)| said(answer)))
            .collect(),
        promql: asked.map(|(ask, _)| Promql {
            query: ask.promql.to_string(),
            time: at.to_string(),
            leaves_out: None,
        }),
        ..Explanation::default()
    })
}

/// Describes an answer. Its samples may belong to other objects, so they are only counted.
fn said(answer: &Answer) -> String {
    match answer {
        Answer::Vector(samples) if samples.is_empty() => "its query has no result".to_owned(),
        Answer::Vector(samples) => format!("its query has {} samples as result", samples.len()),
        Answer::Scalar(number, _) => format!("its query has the number {number} as result"),
        Answer::Other(kind) => {
            format!("its query has a {kind} as result, which cannot be converted to a value")
        }
    }
}

/// The note that series place the pod on other nodes, which may be why it has no GPUs;
/// `None`: they do not.
fn elsewhere(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<String> {
    let layout = snapshot.layout();
    let node = layout.inventory().pod(namespace, name)?.node.as_deref()?;
    let named = layout.nodes_of_claims(namespace, name);
    let others: Vec<&str> = named.into_iter().filter(|named| *named != node).collect();
    (!others.is_empty()).then(|| {
        format!(
            "series name pod {namespace}/{name} on {}, but it runs on {node}: they are treated as \
             series of an earlier pod with the same name; check that dcgm-exporter on {node} \
             reports it, and which label names the node of its series",
            others.join(", ")
        )
    })
}

/// The note that the cluster has no object with this name; `None`: it has one, or there is
/// no cluster.
fn not_listed(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Option<String> {
    let inventory = snapshot.layout().inventory();
    if inventory.authority != InventoryOrigin::Cluster {
        return None;
    }
    if resource == "pods" {
        let pod = inventory.pod(namespace, name);
        return pod
            .is_none()
            .then(|| format!("there is no pod {name} in namespace {namespace}"));
    }
    let is_it = |it: &Workload| {
        (&*it.kind.resource, &*it.namespace, &*it.name) == (resource, namespace, name)
    };
    (!inventory.workloads.iter().any(is_it)).then(|| {
        format!("no pod in namespace {namespace} belongs to {resource} {name}: check the name")
    })
}

/// The object of a query in words, such as `pods ml/train-0`.
fn described(query: &Query) -> String {
    let objects = match &query.of {
        ValuesOf::Objects(objects) => objects,
        ValuesOf::Namespace(namespace) => return format!("namespace {namespace}"),
    };
    let namespace = objects.namespace.iter().map(String::as_str);
    let place: Vec<&str> = namespace.chain(objects.name()).collect();
    format!("{} {}", objects.resource, place.join("/"))
}

/// The value to explain. If an external metric has several values, it is their sum, as the
/// autoscaler computes it.
#[derive(Debug, Default)]
pub(super) struct Sum(Option<Value>);

impl Sum {
    pub(super) fn add(&mut self, value: Value) {
        match &mut self.0 {
            Some(sum) => sum.value += value.value,
            None => self.0 = Some(value),
        }
    }

    /// The answer, the value, and why there is none.
    fn after<T>(self, answer: Result<T, ProviderError>) -> Result<Outcome<T>, ProviderError> {
        match answer {
            Ok(given) if self.0.is_none() => {
                Ok((Some(given), None, Some("there is no value".to_owned())))
            }
            Ok(given) => Ok((Some(given), self.0, None)),
            Err(ProviderError::NoValue(reason)) => Ok((None, None, Some(reason))),
            Err(error) => Err(error),
        }
    }
}

/// The answer, the value, and why there is none.
type Outcome<T> = (Option<T>, Option<Value>, Option<String>);

impl Lookup<'_> {
    /// The explanation of the value of a metric, of an object whose devices are `group`.
    fn explained(
        &self,
        (metric, of, selected): (&str, &str, Selected<'_>),
        group: Option<&Object>,
        answer: (Option<Value>, Option<String>),
    ) -> Result<Explanation, ProviderError> {
        // Each sample is read twice, for the value and for its own explanation. Those of
        // the longest window are read once more, for the idle time.
        let rows = group.map_or(0, |group| group.members.len() as u64);
        self.allow(rows * (2 * self.looks_per_row() + self.instants_held()))?;
        let members = group.map_or(&[][..], |group| &group.members);
        let rows = members
            .iter()
            .filter_map(|row| self.snapshot.layout().fact(*row));
        let labels = self.narrowed.matchers(&rows.collect::<Vec<_>>());
        let question = Question {
            metric,
            measure: &self.spec.measure,
            formula: self
                .narrowed
                .formula
                .unwrap_or(self.snapshot.policy().formula),
            of,
            selected,
            labels: labels.as_deref(),
            now: self.now,
        };
        let reasons = group.and_then(|group| self.reasons(group));
        let group = group.unwrap_or_else(|| self.snapshot.layout().cluster());
        let found = (group, reasons.as_ref());
        let mut explanation = Explanation::of_group(&question, self.snapshot, found, answer);
        let wanted = self.narrowed.window.unwrap_or(self.snapshot.window());
        if (explanation.window.as_ref()).is_some_and(|it| it.seconds > wanted.as_secs_f64()) {
            explanation.notes.push(format!(
                "a window of {} holds fewer than four scrapes of these GPUs, so it is extended",
                format_duration(wanted)
            ));
        }
        Ok(explanation)
    }
}
