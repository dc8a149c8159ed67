//! Explains values, from the snapshot or with the query of a rule.

use super::gpu::GpuProvider;
use super::lookup::{Lookup, Subject};
use super::rules::RuleValues;
use super::{MetricValues, Query};
use adapter_rules::rule::Rule;
use aggregated_apiserver::refusal::Refusal;
use gpu_metrics::explain::{ExplainedValue, Explanation, Promql, Question, Selected};
use gpu_metrics::metric::Value;
use gpu_metrics::policy::Measure;

impl GpuProvider {
    /// Explains the value of one object or of an external metric, or why it is missing.
    pub fn explain(&self, query: &Query) -> Result<Explanation, Refusal> {
        let current = self.current.load_full();
        Ok(self.lookup(current.as_ref(), query)?.explanation())
    }
}

/// A rule's value comes from Prometheus, so its query and the number of its samples, which may
/// belong to other objects, are the whole explanation. If an external metric has several
/// values, the value is their sum, as the autoscaler computes it.
pub(super) fn explained_by_rule(
    query: &Query,
    rule: &Rule,
    found: Result<RuleValues, Refusal>,
) -> Result<Explanation, Refusal> {
    let (place, series) = (&rule.place, &rule.series_query);
    let mut explanation = Explanation {
        metric: query.metric.clone(),
        of: query.of.described(),
        meaning: format!("the answer of Prometheus to the query of {place} of the configuration"),
        notes: vec![format!("{place} is about the series {series}")],
        ..Explanation::default()
    };
    let found = match found {
        Ok(found) => found,
        Err(error) => {
            explanation.no_value = Some(match error {
                Refusal::NoValue(reason) => reason,
                Refusal::Unavailable(_) => {
                    let query = rule.metrics_query();
                    format!("there is no answer to {query}: the findings and the log say why")
                }
                error => return Err(error),
            });
            return Ok(explanation);
        }
    };
    let values: Vec<Value> = match &found.values {
        MetricValues::External(values) => values.iter().map(|it| it.value).collect(),
        MetricValues::Custom(values) => values.iter().map(|it| it.value).collect(),
        MetricValues::Stored(_) => Vec::new(),
    };
    let value = values.first().map(|first| Value {
        value: values.iter().map(|it| it.value).sum(),
        ..*first
    });
    explanation.value = value.map(|value| ExplainedValue::of(&value, query.now));
    if value.is_none() {
        explanation.no_value = Some("there is no value".to_owned());
    }
    let result = format!("its query has {} samples as result", found.result.len());
    explanation.notes.push(result);
    explanation.promql = Some(Promql {
        query: found.query.promql.to_string(),
        time: value.map_or(query.now, |value| value.at).to_string(),
        leaves_out: None,
    });
    Ok(explanation)
}

impl Lookup<'_> {
    /// The explanation of the value of an external metric or of one object.
    pub(super) fn explanation(&self) -> Explanation {
        let is_original = self.spec.measure == Measure::OriginalAverage;
        let selected = match self.subject {
            Subject::Objects { selection, .. } => {
                let name = selection.name.as_deref().unwrap_or_default();
                match (&*selection.resource, selection.namespace.as_deref()) {
                    ("pods", Some(namespace)) => Selected::Pod(namespace, name),
                    (_, Some(namespace)) => Selected::PodsOf(namespace),
                    ("namespaces", None) => Selected::Namespace(name),
                    (_, None) => Selected::Devices,
                }
            }
            Subject::Namespace(namespace) => Selected::Namespace(namespace),
            Subject::Cluster => Selected::All,
        };
        // The number of the whole cluster is not explained to users of one namespace.
        let is_hidden = is_original && matches!(self.subject, Subject::Objects { .. });
        let group = self.group().filter(|_| !is_hidden);
        let question = Question {
            metric: &self.name,
            measure: &self.spec.measure,
            of: &self.described(),
            selected,
            is_narrowed: self.narrowed.has_labels(),
            now: self.query.now,
        };
        let reasons = group.and_then(|group| self.reasons(group.object));
        let value = self.value();
        let no_value = value.is_none().then(|| self.absence());
        let answer = (value, no_value);
        Explanation::of_group(&question, self.snapshot, reasons.as_ref(), answer)
    }
}
