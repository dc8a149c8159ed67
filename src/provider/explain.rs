//! Explains values, from the snapshot or with the query of a rule.

use std::sync::Arc;

use super::gpu::GpuProvider;
use super::lookup::{Lookup, Subject};
use super::rules::RuleValues;
use super::served::ServedSnapshot;
use super::{MetricValues, ProviderError, Query, ValuesOf};
use adapter_rules::answer::Answer;
use adapter_rules::rule::Rule;
use apimachinery::duration::format_duration;
use gpu_metrics::explain::{ExplainedValue, Explanation, Promql, Question, Selected};
use gpu_metrics::inventory::{InventoryOrigin, Workload};
use gpu_metrics::metric::Value;
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::Snapshot;

impl MetricValues {
    /// The value to explain. If an external metric has several values, it is their sum, as
    /// the autoscaler computes it.
    fn total(&self) -> Option<Value> {
        let values: Vec<Value> = match self {
            Self::Custom(values) => values.iter().map(|it| it.value).collect(),
            Self::Stored(stored) => stored.values().map(|it| it.value).collect(),
            Self::External(values) => values.iter().map(|it| it.value).collect(),
        };
        Some(Value {
            value: values.iter().map(|it| it.value).sum(),
            ..*values.first()?
        })
    }
}

/// A value, or why there is none.
struct Outcome {
    value: Option<Value>,
    no_value: Option<String>,
}

impl Outcome {
    /// # Errors
    /// When the query failed for another reason than a missing value.
    fn of(values: Result<&MetricValues, ProviderError>) -> Result<Self, ProviderError> {
        let (value, no_value) = match values {
            Ok(values) => (values.total(), "there is no value".to_owned()),
            Err(ProviderError::NoValue(reason)) => (None, reason),
            Err(error) => return Err(error),
        };
        let no_value = value.is_none().then_some(no_value);
        Ok(Self { value, no_value })
    }
}

impl GpuProvider {
    /// Explains the value of one object or of an external metric, or why it is missing.
    pub fn explain(&self, query: &Query, looks: u64) -> Result<Explanation, ProviderError> {
        self.explain_at(self.current.load_full().as_ref(), query, looks)
    }

    /// [`GpuProvider::explain`] for one snapshot.
    pub(super) fn explain_at(
        &self,
        current: Option<&Arc<ServedSnapshot>>,
        query: &Query,
        looks: u64,
    ) -> Result<Explanation, ProviderError> {
        let lookup = self.lookup(current, query, looks)?;
        let outcome = Outcome::of(lookup.result().as_ref().map_err(Clone::clone))?;
        lookup.explanation(query, outcome)
    }
}

/// A rule's value comes from Prometheus, so its query is the whole explanation.
pub(super) fn explained_by_rule(
    query: &Query,
    rule: Option<&Rule>,
    found: Result<RuleValues, ProviderError>,
) -> Result<Explanation, ProviderError> {
    let values = found.as_ref().map(|found| &found.values);
    let Outcome { value, no_value } = Outcome::of(values.map_err(Clone::clone))?;
    let (place, series) = rule.map_or(("a rule", "?"), |it| (&it.place, &it.series_query));
    let at = value.map_or(query.now, |value| value.at);
    let mut notes = vec![format!("{place} is about the series {series}")];
    notes.extend(found.iter().map(|found| result_note(&found.result)));
    Ok(Explanation {
        metric: query.metric.clone(),
        of: described(query),
        meaning: format!("the answer of Prometheus to the query of {place} of the configuration"),
        value: value.map(|value| ExplainedValue::of(&value, query.now)),
        no_value,
        notes,
        promql: found.ok().map(|found| Promql {
            query: found.query.promql.to_string(),
            time: at.to_string(),
            leaves_out: None,
        }),
        ..Explanation::default()
    })
}

/// Describes the result of a query. Its samples may belong to other objects, so they are only counted.
fn result_note(answer: &Answer) -> String {
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
fn placed_elsewhere(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<String> {
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

impl Lookup<'_> {
    /// The explanation of the value of an external metric or of one object.
    fn explanation(&self, query: &Query, outcome: Outcome) -> Result<Explanation, ProviderError> {
        let (mut of, mut group) = self.described();
        let mut no_value = outcome.no_value;
        let selected = match self.subject {
            Subject::Objects { selection, .. } => {
                let (resource, namespace) = (&*selection.resource, selection.namespace.as_deref());
                let name = selection.name().ok_or(ProviderError::NoSuchMetric)?;
                if let (None, Some(namespace)) = (group, namespace) {
                    no_value = absent(self.snapshot, resource, namespace, name).or(no_value);
                }
                of = described(query);
                group = group.filter(|_| self.spec.measure != Measure::OriginalAverage);
                match (resource, namespace) {
                    ("pods", Some(namespace)) => Selected::Pod(namespace, name),
                    (_, Some(namespace)) => Selected::PodsOf(namespace),
                    ("namespaces", None) => Selected::Namespace(name),
                    (_, None) => Selected::Devices,
                }
            }
            Subject::Namespace(namespace) => Selected::Namespace(namespace),
            Subject::Cluster => Selected::All,
        };
        // Each sample is read twice, for the value and for its own explanation. Those of
        // the longest window are read once more, for the idle time.
        let rows = group.map_or(0, |group| group.members.len() as u64);
        self.allow(rows * (2 * self.looks_per_row() + self.instants_held()))?;
        let formula = self.narrowed.formula;
        let question = Question {
            metric: &self.name,
            measure: &self.spec.measure,
            formula: formula.unwrap_or(self.snapshot.policy().formula),
            of: &of,
            selected,
            is_narrowed: self.narrowed.has_labels(),
            now: self.now,
        };
        let reasons = group.and_then(|group| self.reasons(group));
        let found = (
            group.unwrap_or_else(|| self.snapshot.layout().cluster()),
            reasons.as_ref(),
        );
        let answer = (outcome.value, no_value);
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

/// Why a namespaced object has no GPUs, if the cluster's objects tell.
fn absent(snapshot: &Snapshot, resource: &str, namespace: &str, name: &str) -> Option<String> {
    let elsewhere = match resource {
        "pods" => placed_elsewhere(snapshot, namespace, name),
        _ => None,
    };
    elsewhere.or_else(|| not_listed(snapshot, resource, namespace, name))
}
