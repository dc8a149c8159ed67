//! Explains values, from the snapshot or by the query of a rule.

use super::gpu::GpuProvider;
use super::gpu::external::Sought;
use super::lookup::Lookup;
use super::rules::RuleProvider;
use super::{Described, Error, Objects, Provider, Query, Which};
use adapter_rules::answer::Answer;
use gpu_metrics::aggregate::Group;
use gpu_metrics::explain::{Explanation, Promql, Question, Selected, Served};
use gpu_metrics::inventory::{Authority, Workload};
use gpu_metrics::metric::Value;
use gpu_metrics::policy::Measure;
use gpu_metrics::snapshot::{Snapshot, group_of};

impl GpuProvider {
    pub(super) fn explained(
        &self,
        of: Described<'_>,
        query: &Query<'_>,
    ) -> Result<Explanation, Error> {
        match of {
            Described::Object {
                resource,
                namespace,
                name,
            } => self.explained_object(of, (resource, namespace, name), query),
            Described::External(namespace) => self.explained_external(namespace, query),
        }
    }

    fn explained_object(
        &self,
        of: Described<'_>,
        (resource, namespace, name): (&str, Option<&str>, &str),
        query: &Query<'_>,
    ) -> Result<Explanation, Error> {
        let (metric, spec) = self
            .metric(|name| name == query.metric)
            .ok_or(Error::NoSuchMetric)?;
        let (value, mut no_value) = served(self, of, query)?;
        let loaded = self.current.load();
        let current = loaded.as_ref().ok_or_else(|| self.not_ready())?;
        let lookup = current.lookup((metric, spec), query)?;
        let found = current.snapshot.layout().table(resource);
        let object = found.and_then(|(_, table)| {
            let index = table.find(namespace, name)?;
            table.objects.get(index)
        });
        let group = object.map(|object| group_of(object, resource == "pods"));
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
            let why = why.or_else(|| nobody(&current.snapshot, resource, (namespace, name)));
            no_value = why.or(no_value);
        }
        let original = spec.measure == Measure::OriginalAverage;
        let told = Told {
            of: &described(of),
            selected,
            value,
            no_value,
        };
        told.by(&lookup, query.metric, group.filter(|_| !original))
    }

    fn explained_external(&self, namespace: &str, query: &Query<'_>) -> Result<Explanation, Error> {
        let (value, no_value) = served(self, Described::External(namespace), query)?;
        let loaded = self.current.load();
        let Sought {
            lookup,
            name,
            in_namespace,
        } = self.sought(loaded.as_deref(), query)?;
        let (of, group) = lookup.external_group(in_namespace, namespace);
        let selected = match in_namespace {
            true => Selected::Namespace(namespace),
            false => Selected::All,
        };
        let told = Told {
            of: &of,
            selected,
            value,
            no_value,
        };
        told.by(&lookup, &name, group)
    }
}

impl RuleProvider {
    /// A rule's value is from Prometheus, so its query is the whole explanation.
    pub(super) fn explained(
        &self,
        of: Described<'_>,
        query: &Query<'_>,
    ) -> Result<Explanation, Error> {
        let (value, no_value) = served(self, of, query)?;
        let asked = query
            .fetched
            .and_then(|fetched| fetched.answers.iter().next());
        let rule = match of {
            Described::Object { resource, .. } => self.rule_of(resource, query.metric),
            Described::External(_) => self.external_rule(query.metric),
        };
        let (place, series) = rule.unwrap_or_else(|| ("a rule".to_owned(), "?".to_owned()));
        let at = value.map_or(query.now, |value| value.at);
        Ok(Explanation {
            metric: query.metric.to_owned(),
            of: described(of),
            meaning: format!(
                "what Prometheus answers to the query of {place} of the configuration"
            ),
            value: value.map(|value| Served::of(&value, query.now)),
            no_value,
            notes: std::iter::once(format!("{place} is about the series {series}"))
                .chain(asked.map(|(_, answer)| said(answer)))
                .collect(),
            promql: asked.map(|(asked, _)| Promql {
                query: asked.to_string(),
                time: at.to_string(),
                leaves_out: None,
            }),
            ..Explanation::default()
        })
    }
}

/// A known answer. Its samples may be of other objects, so they are only counted.
fn said(answer: &Answer) -> String {
    match answer {
        Answer::Vector(samples) if samples.is_empty() => "its query has no result".to_owned(),
        Answer::Vector(samples) => format!("its query has {} samples as result", samples.len()),
        Answer::Scalar(number, _) => format!("its query has the number {number} as result"),
        Answer::Other(kind) => {
            format!("its query has a {kind} as result, of which no value can be made")
        }
    }
}

/// Whether series name the pod on other nodes only, which is why it has no GPUs.
fn elsewhere(snapshot: &Snapshot, namespace: &str, name: &str) -> Option<String> {
    let layout = snapshot.layout();
    let node = layout.inventory().pod(namespace, name)?.node.as_deref()?;
    let named = layout.nodes_of_claims(namespace, name);
    let others: Vec<&str> = named.into_iter().filter(|named| *named != node).collect();
    (!others.is_empty()).then(|| {
        format!(
            "series name pod {namespace}/{name} on {}, and it runs on {node}: they are not taken for \
             its own, but for those of a pod that had the name before; check that dcgm-exporter on \
             {node} reports it, and which label names the node of its series",
            others.join(", ")
        )
    })
}

/// The note that the cluster has no object of this name.
fn nobody(snapshot: &Snapshot, resource: &str, (namespace, name): (&str, &str)) -> Option<String> {
    let inventory = snapshot.layout().inventory();
    if inventory.authority != Authority::Cluster {
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
        format!(
            "no pod in namespace {namespace} belongs to {resource} {name}: look whether the name is right"
        )
    })
}

/// `pods ml/train-0`.
fn described(of: Described<'_>) -> String {
    match of {
        Described::Object {
            resource,
            namespace: Some(namespace),
            name,
        } => format!("{resource} {namespace}/{name}"),
        Described::Object { resource, name, .. } => format!("{resource} {name}"),
        Described::External(namespace) => format!("namespace {namespace}"),
    }
}

/// The value, or why there is none. For an external metric with several values, their
/// sum, as the autoscaler computes it.
fn served(
    provider: &dyn Provider,
    of: Described<'_>,
    query: &Query<'_>,
) -> Result<(Option<Value>, Option<String>), Error> {
    let mut sum: Option<Value> = None;
    let mut add = |value: Value| match &mut sum {
        Some(sum) => sum.value += value.value,
        None => sum = Some(value),
    };
    let answer = match of {
        Described::Object {
            resource,
            namespace,
            name,
        } => {
            let objects = Objects {
                resource,
                namespace,
                which: Which::Named(name),
            };
            provider.custom(objects, query, &mut |item| add(item.value))
        }
        Described::External(namespace) => {
            provider.external(namespace, query, &mut |item| add(item.value))
        }
    };
    match answer {
        Ok(_) if sum.is_none() => Ok((None, Some("there is no value".to_owned()))),
        Ok(_) => Ok((sum, None)),
        Err(Error::NoValue { reason }) => Ok((None, Some(reason))),
        Err(error) => Err(error),
    }
}

/// The parts of an explanation other than its reasons.
struct Told<'a> {
    of: &'a str,
    selected: Selected<'a>,
    value: Option<Value>,
    no_value: Option<String>,
}

impl Told<'_> {
    fn by(
        self,
        lookup: &Lookup<'_>,
        metric: &str,
        group: Option<Group<'_>>,
    ) -> Result<Explanation, Error> {
        // Each reading is read twice, for the value and for its own explanation, and
        // those of the longest window once more for the idle time.
        let rows = group.map_or(0, |group| group.rows.len() as u64);
        lookup.allow(rows * (2 * lookup.looks_per_row() + lookup.instants_held()))?;
        let snapshot = lookup.snapshot;
        let formula = lookup.narrowed.formula;
        let labels = group
            .as_ref()
            .map_or_else(|| Some(Vec::new()), |it| lookup.matchers(it));
        let question = Question {
            metric,
            measure: &lookup.spec.measure,
            formula: formula.unwrap_or(snapshot.policy().formula),
            of: self.of,
            selected: self.selected,
            labels: labels.as_deref(),
            now: lookup.now,
        };
        let reasons = group.as_ref().and_then(|group| lookup.reasons(group));
        let group = group.unwrap_or_else(|| snapshot.cluster_group());
        Ok(Explanation::of_group(
            &question,
            snapshot,
            (&group, reasons.as_ref()),
            (self.value, self.no_value),
        ))
    }
}
