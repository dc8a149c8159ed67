//! The query in an explanation gives the explained value.

use std::sync::Arc;

use apimachinery::selector::Selector;
use gpu_metrics::explain::Explanation;
use gpu_metrics::snapshot::Snapshot;
use gpu_metrics_apiserver::provider::gpu::GpuProvider;
use gpu_metrics_apiserver::provider::{ObjectSelection, Query, ValuesOf};

use super::stage::Stage;

/// The number of objects of each kind that are explained.
const OBJECTS: usize = 2;

/// Allowed relative differences.
const TO_PROMQL: f64 = 1e-9;

pub(super) async fn queries_agree(stage: &Stage, snapshot: &Snapshot) {
    let explanations = explanations(snapshot);
    let mut asked = 0;
    for explanation in &explanations {
        let (Some(value), Some(promql)) = (&explanation.value, &explanation.promql) else {
            continue;
        };
        let answer = stage.engine.query(&promql.query, &promql.time).await;
        let of = format!(
            "{} of {}\n{}",
            explanation.metric, explanation.of, promql.query
        );
        let [(_, number)] = answer.as_slice() else {
            panic!("{} values: {of}", answer.len());
        };
        let off = (number - value.number).abs();
        let largest = number.abs().max(1.0);
        assert!(
            off <= TO_PROMQL * largest,
            "{}, in PromQL {number}: {of}",
            value.number
        );
        asked += 1;
    }
    assert!(
        asked > 50,
        "{asked} of {} explanations have a query",
        explanations.len()
    );
}

fn explanations(snapshot: &Snapshot) -> Vec<Explanation> {
    let provider = GpuProvider::new(&snapshot.metrics);
    provider.publish(Arc::new(snapshot.clone()));
    let mut explanations = Vec::new();
    for metric in snapshot.metrics.iter() {
        let mut explain = |of: ValuesOf, metric: &str| {
            let query = Query {
                of,
                metric: metric.to_owned(),
                selector: Selector::everything(),
                now: snapshot.frame.now,
                user: String::new(),
            };
            explanations.extend(provider.explain(&query, false));
        };
        for table in &snapshot.layout.tables {
            for object in table.objects.iter().take(OBJECTS) {
                let namespace = object.namespace.as_deref();
                let objects = ObjectSelection::named(&table.kind.resource, namespace, &object.name);
                explain(ValuesOf::Objects(objects), &metric.name);
            }
        }
        let wide = format!("cluster_{}", metric.name);
        explain(ValuesOf::Namespace("any".to_owned()), &wide);
    }
    explanations
}
