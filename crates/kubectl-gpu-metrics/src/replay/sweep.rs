//! Tries other targets.

use serde_json::json;

use hpa::hpa::{MetricSource, MetricTarget};
use hpa::ratio::Milli;

use super::figures::Figures;
use super::plan::Plan;

/// Percent of each GPU.
pub(crate) const TARGETS: [u32; 6] = [40, 50, 60, 70, 80, 90];

impl Plan {
    /// The same autoscaler with another target, in percent of each GPU.
    pub(crate) fn with_target(&self, percent: u32, gpus_per_pod: f64) -> Self {
        let mut plan = self.clone();
        for (asked, metric) in plan.asked.iter().zip(&mut plan.hpa.metrics) {
            let gpus = if asked.is_sum { gpus_per_pod } else { 1.0 };
            let milli = Milli((f64::from(percent) * gpus * 1000.0).round() as i64);
            metric.target = match metric.target {
                MetricTarget::Value(_) => MetricTarget::Value(milli),
                _ => MetricTarget::AverageValue(milli),
            };
        }
        plan
    }

    /// The command that gives the autoscaler of the cluster this plan's targets.
    pub(crate) fn patch(&self) -> String {
        let metrics = self.hpa.metrics.iter().enumerate();
        let operations = metrics.filter_map(|(place, metric)| {
            let kind = match metric.source {
                MetricSource::Pods { .. } => "pods",
                MetricSource::Object { .. } => "object",
                MetricSource::External { .. } => "external",
                MetricSource::Resource { .. } => return None,
            };
            let (field, milli) = match metric.target {
                MetricTarget::Value(milli) => ("value", milli),
                MetricTarget::AverageValue(milli) => ("averageValue", milli),
                MetricTarget::Utilization(_) => return None,
            };
            let path = format!("/spec/metrics/{place}/{kind}/target/{field}");
            Some(json!({"op": "replace", "path": path, "value": milli}))
        });
        let operations: Vec<_> = operations.collect();
        format!(
            "kubectl patch hpa {} -n {} --type json --patch '{}'",
            self.hpa.name,
            self.hpa.namespace,
            json!(operations)
        )
    }
}

/// The place of the fewest GPU-hours among figures with at most this shortage, in seconds;
/// `None`: all have more.
pub(crate) fn best(figures: &[Figures], max_shortage: f64) -> Option<usize> {
    let rows = figures.iter().enumerate();
    let fits = rows.filter(|(_, row)| row.shortage <= max_shortage);
    let least = fits.min_by(|(_, one), (_, other)| one.gpu_hours.total_cmp(&other.gpu_hours));
    least.map(|(place, _)| place)
}
