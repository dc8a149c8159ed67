//! The server's own windows and freshness, applied to simulated readings.
//!
//! GPUs that became ready together have equal readings from then on, so one device of
//! the pipeline represents all of them. A sum is linear in its readings, so one
//! device represents it too, as a share of its maximum.

use std::time::Duration;

use apimachinery::time::Timestamp;
use gpu_metrics::batch::{Batch, Sample, SeriesKey};
use gpu_metrics::dcgm::fields;
use gpu_metrics::inventory::Inventory;
use gpu_metrics::metric::Value;
use gpu_metrics::pipeline::{Pipeline, Settings};
use gpu_metrics::policy::{DeviceValue, Measure, MetricSpec, Over, Policy, Reducer};
use gpu_metrics::signal::SignalId;

use super::plan::PlannedMetric;

const NAMESPACE: &str = "n";

/// A pipeline for one metric.
#[derive(Debug)]
pub(super) struct Windowed {
    pipeline: Pipeline,
    inventory: std::sync::Arc<Inventory>,
}

impl Windowed {
    /// A pipeline with the server's settings, for data with a reading each `step`.
    pub(super) fn new(policy: &Policy, asked: &PlannedMetric, step: Duration) -> Self {
        let window = asked.window.or(policy.window);
        let mean = MetricSpec {
            name: "value".to_owned(),
            measure: Measure::Devices {
                value: DeviceValue::MemoryUtilization,
                reducer: Reducer::Mean,
                over: Over::Active,
            },
        };
        let policy = Policy {
            window,
            max_window: policy.max_window.max(window.unwrap_or_default()),
            scrape_interval: Some(step),
            percent_as_ratio: Some(false),
            ..policy.clone()
        };
        let pipeline = Pipeline::new(Settings {
            policy,
            signals: fields::built_in(),
            metrics: vec![mean],
        });
        Self {
            pipeline,
            inventory: std::sync::Arc::default(),
        }
    }

    /// Adds a scrape: percentages by device number.
    pub(super) fn take(&mut self, readings: &[(u32, f64)], at: Timestamp) {
        let mut batch = Batch::new(SignalId::MEM_COPY_UTIL);
        for (device, value) in readings {
            let labels = format!(
                r#"{{"UUID":"{device}","gpu":"{device}","job":"j","instance":"i","exported_namespace":"{NAMESPACE}","exported_pod":"{device}"}}"#
            );
            batch.begin_series(SeriesKey(u128::from(*device)), &labels);
            batch.push(Sample { at, value: *value });
        }
        self.pipeline.take(&batch, at);
    }

    /// The served values: percentages by device number.
    pub(super) fn served(&mut self, now: Timestamp) -> Vec<(u32, Value)> {
        self.pipeline.end_round();
        let snapshot = self.pipeline.publish(&self.inventory, now);
        let Some((kind, table)) = snapshot.layout.table("pods") else {
            return Vec::new();
        };
        let of_pods = table.objects.iter().zip(snapshot.values(kind, 0));
        let served = of_pods.filter_map(|(pod, value)| {
            let value = value.filter(|value| value.is_fresh(now))?;
            Some((pod.name.parse().ok()?, value))
        });
        served.collect()
    }
}
