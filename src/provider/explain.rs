//! Explains values, from the snapshot or with the query of a rule.

use super::gpu::GpuProvider;
use super::lookup::Lookup;
use super::rules::RuleValues;
use super::{MetricValues, Query};
use adapter_rules::rule::Rule;
use aggregated_apiserver::refusal::Refusal;
use gpu_metrics::explain::{ExplainedValue, Explanation, Promql};
use gpu_metrics::metric::Value;

impl GpuProvider {
    /// Explains the value of one object or of an external metric, or why it is missing.
    /// `names_pods`: all pods that hold its devices may be named, not only its own.
    ///
    /// # Errors
    /// As for its value, except when there is none.
    pub fn explain(&self, query: &Query, names_pods: bool) -> Result<Explanation, Refusal> {
        let current = self.current.load_full();
        let lookup = self.lookup(current.as_ref(), query)?;
        Ok(lookup.explanation(names_pods))
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
        notes: vec![format!(
            "{place} of the configuration is about the series {series}"
        )],
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
    });
    Ok(explanation)
}

impl Lookup<'_> {
    /// The explanation of the value of an external metric or of one object.
    pub(super) fn explanation(&self, names_pods: bool) -> Explanation {
        let group = self.group();
        let value = self.value();
        Explanation {
            metric: self.spec.name.clone(),
            of: self.described(),
            value: value.map(|value| ExplainedValue::of(&value, self.query.now)),
            no_value: value.is_none().then(|| self.absence()),
            ..group.map_or_else(Explanation::default, |group| {
                self.explained(group.object, names_pods)
            })
        }
    }
}
