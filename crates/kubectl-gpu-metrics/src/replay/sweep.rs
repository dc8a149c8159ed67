//! Tries other targets.

use hpa::hpa::MetricTarget;
use hpa::ratio::Milli;

use super::figures::Figures;
use super::plan::Plan;

/// Percent of each GPU.
const OF_GPUS: [u32; 6] = [40, 50, 60, 70, 80, 90];

/// Percent of the target of the file, for the metric of a rule.
const OF_TARGET: [u32; 5] = [50, 75, 125, 150, 200];

impl Plan {
    /// The targets to try, with their names.
    pub(crate) fn targets(&self) -> Vec<(String, u32)> {
        let (targets, of) = match self.metric {
            Some(_) => (&OF_GPUS[..], ""),
            None => (&OF_TARGET[..], " of it"),
        };
        let named = targets.iter().map(|it| (format!("{it} %{of}"), *it));
        named.collect()
    }

    /// The same autoscaler with another target, in percent of each GPU or of the file's.
    pub(crate) fn with_target(&self, percent: u32, gpus_per_pod: f64) -> Self {
        let mut plan = self.clone();
        let one = match plan.metric {
            Some(metric) if metric.is_sum => gpus_per_pod,
            Some(_) => 1.0,
            None => plan.target / 100.0,
        };
        let milli = Milli(((f64::from(percent) * one * 1000.0).round() as i64).max(1));
        for metric in &mut plan.hpa.metrics {
            metric.target = match metric.target {
                MetricTarget::Value(_) => MetricTarget::Value(milli),
                _ => MetricTarget::AverageValue(milli),
            };
        }
        plan
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
