//! Tries other targets.

use hpa::hpa::MetricTarget;
use hpa::ratio::Milli;

use super::figures::Figures;
use super::plan::Plan;

/// Percent of each GPU.
pub(crate) const TARGETS: [u32; 6] = [40, 50, 60, 70, 80, 90];

impl Plan {
    /// The same autoscaler with another target, in percent of each GPU.
    pub(crate) fn with_target(&self, percent: u32, gpus_per_pod: f64) -> Self {
        let mut plan = self.clone();
        let gpus = if plan.metric.is_sum {
            gpus_per_pod
        } else {
            1.0
        };
        let milli = Milli((f64::from(percent) * gpus * 1000.0).round() as i64);
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
