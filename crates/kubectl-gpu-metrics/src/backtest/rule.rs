//! The query for a metric of a rule, by the configuration of the command.

use std::collections::BTreeSet;
use std::sync::Arc;

use kube::core::Selector as LabelSelector;

use adapter_rules::registry::{Registry, Shape};
use adapter_rules::rule::Rule;
use apimachinery::labels::Labels;
use apimachinery::selector::Selector;
use gpu_metrics::batch::Batch;
use hpa::hpa::MetricSource;

use crate::Failure;
use crate::history::History;
use crate::history::period::Period;
use crate::kinds;
use crate::replay::Plan;

/// The query that the server sends for the autoscaler's metric, for these pods where each of them
/// has a value; `looks` are times at which its series may exist.
pub(super) async fn query(
    history: &History,
    plan: &Plan,
    pods: &[&str],
    looks: Period,
) -> Result<String, Failure> {
    let hpa = &plan.hpa;
    let unknown = |name: &str, why: &str| {
        Failure::Usage(format!(
            "{plan}: {name}: {why}: give the server's configuration with its rules and presets \
             by --config, and a period with series of the metric"
        ))
    };
    let Some(source) = hpa.metrics.first().map(|it| &it.source) else {
        return Err(unknown("spec.metrics", "it is empty"));
    };
    let name = source.name();
    let selector = selector(source).map_err(|why| unknown(name, &why))?;
    let is_external = matches!(source, MetricSource::External { .. });
    let config = &history.config;
    let rules = match is_external {
        true => &config.external_rules,
        false => &config.rules,
    };
    let none = || unknown(name, "no rule gives this metric");
    let (resource, names) = match source {
        MetricSource::Object { described, .. } => {
            (kinds::resource(&described.kind), vec![&*described.name])
        }
        MetricSource::Pods { .. } => (kinds::resource("Pod"), pods.to_vec()),
        _ => (None, Vec::new()),
    };
    // The rule is known from one series of each name, and its labels from all of them.
    let mut some = Registry::new(kinds::known());
    for rule in &rules.usable {
        let one = format!("topk by (__name__) (1, {})", rule.series_query);
        let shapes = shapes(history, &one, looks).await?;
        add(&mut some, is_external, &Arc::new(rule.clone()), &shapes);
    }
    let found = match &resource {
        Some(resource) => some.find_custom(resource, name).map(|it| &it.external),
        None => some.find_external(name).map(|(_, it)| it),
    };
    let rule = Arc::clone(&found.ok_or_else(none)?.rule);
    let mut all = Registry::new(kinds::known());
    let shapes = shapes(history, &rule.series_query, looks).await?;
    add(&mut all, is_external, &rule, &shapes);
    let query = match &resource {
        Some(resource) => {
            let namespace = Some(&*hpa.namespace).filter(|_| resource != "namespaces");
            let found = all.find_custom(resource, name).ok_or_else(none)?;
            found.query(namespace, &names, &selector)
        }
        None => {
            let (_, found) = all.find_external(name).ok_or_else(none)?;
            found.query(&hpa.namespace, &selector)
        }
    };
    query.map_err(|why| unknown(name, &why.to_string()))
}

fn selector(source: &MetricSource) -> Result<Selector, String> {
    let selector = LabelSelector::try_from(source.selector().cloned().unwrap_or_default());
    Selector::parse(&selector.map_err(|error| error.to_string())?.to_string())
}

fn add(registry: &mut Registry, is_external: bool, rule: &Arc<Rule>, shapes: &[Shape]) {
    match is_external {
        true => registry.add_external(rule, shapes),
        false => registry.add_custom(rule, shapes),
    }
}

/// The names of series with their labels.
async fn shapes(history: &History, query: &str, looks: Period) -> Result<Vec<Shape>, Failure> {
    let answers = history.read(query, looks).await?;
    let labels = answers.iter().flat_map(Batch::iter);
    let labels = labels.filter_map(|it| Labels::from_json(it.labels).ok());
    let shape = |labels: Labels| {
        let names = labels.iter().map(|(name, _)| Arc::clone(name));
        Some(Shape {
            name: labels.get("__name__")?.into(),
            labels: names.filter(|it| **it != *"__name__").collect(),
        })
    };
    let shapes: BTreeSet<Shape> = labels.filter_map(shape).collect();
    Ok(shapes.into_iter().collect())
}
