//! From what the devices answered at each instant to one number.

use gpu_metrics::policy::Formula;

/// What a device answers at an instant, or answered last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) value: f64,
    pub(super) at: i64,
    /// In a mean; of a share of the framebuffer all of it.
    pub(super) weight: f64,
    pub(super) held: bool,
    /// The row that says so.
    pub(super) row: usize,
}

/// One instant of a group.
pub(super) struct Instant {
    pub(super) number: i64,
    /// Device by device.
    pub(super) answers: Vec<Option<Answer>>,
    /// The last reading of each device that is missing; `None`: it has none.
    pub(super) missing: Vec<Option<Answer>>,
}

fn mean(values: &[f64]) -> Option<f64> {
    (!values.is_empty()).then(|| values.iter().sum::<f64>() / values.len() as f64)
}

/// Whether a metric is a mean over the active devices.
fn is_of_active(metric: &str) -> bool {
    ["gpu_memory_utilization", "gpu_utilization"].contains(&metric)
}

/// The devices that count for a metric.
fn counted<'a>(metric: &str, answers: impl Iterator<Item = &'a Answer>) -> Vec<Answer> {
    let counts = |answer: &&Answer| match metric {
        "gpu_held_count" => answer.held,
        "gpu_active_count" => answer.held && answer.value > 0.0,
        "gpu_idle_count" => answer.held && answer.value == 0.0,
        "avg_GPU_utilization" => answer.value != 0.0,
        _ => !is_of_active(metric) || answer.value > 0.0,
    };
    answers.filter(counts).copied().collect()
}

/// The number of devices that count.
fn number(metric: &str, counted: &[Answer]) -> f64 {
    let sum = || counted.iter().map(|answer| answer.value).sum::<f64>();
    let weights = || counted.iter().map(|answer| answer.weight);
    match metric {
        _ if counted.is_empty() => 0.0,
        "gpu_held_count" | "gpu_active_count" | "gpu_idle_count" => counted.len() as f64,
        "gpu_memory_used_percent" => {
            let used = counted.iter().map(|answer| answer.value * answer.weight);
            used.sum::<f64>() / weights().sum::<f64>()
        }
        "avg_GPU_utilization" => sum() / counted.len() as f64,
        _ if is_of_active(metric) => sum() / counted.len() as f64,
        _ => sum(),
    }
}

impl Instant {
    fn counted(&self, metric: &str) -> Vec<Answer> {
        counted(metric, self.answers.iter().flatten())
    }

    fn number(&self, metric: &str) -> f64 {
        let missing = match metric {
            "gpu_held_count" => self.missing.len() as f64,
            _ => 0.0,
        };
        number(metric, &self.counted(metric)) + missing
    }

    /// Whether little enough is missing.
    pub(super) fn is_defined(&self, metric: &str) -> bool {
        const ROUNDING: f64 = 1e-9;
        let missing = self.missing.len() as f64;
        let all = self.answers.iter().flatten().count() as f64 + missing;
        let at_most = |share: f64| missing <= share * all + ROUNDING;
        let mut counted = self.counted(metric);
        let known = number(metric, &counted);
        match metric {
            "gpu_held_count" | "avg_GPU_utilization" => true,
            "gpu_memory_utilization" | "gpu_utilization" | "gpu_memory_used_percent" => {
                counted.extend(self::counted(metric, self.missing.iter().flatten()));
                let off = (number(metric, &counted) - known).abs();
                at_most(0.5) && off <= (0.1 * known).max(2.0) + ROUNDING
            }
            _ => {
                let largest = counted
                    .iter()
                    .map(|answer| answer.value)
                    .fold(0.0, f64::max);
                let carried = self.missing.iter().map(|last| match (metric, last) {
                    ("gpu_active_count", Some(last)) => f64::from(last.value > 0.0),
                    ("gpu_idle_count", Some(last)) => f64::from(last.value == 0.0),
                    ("gpu_active_count" | "gpu_idle_count", None) => 1.0,
                    (_, last) => last.map_or(largest, |last| last.value),
                });
                let carried: f64 = carried.sum();
                at_most(0.1) && carried <= 0.1 * (known + carried) + ROUNDING
            }
        }
    }
}

/// Instants into one number: of all instants the defined ones count, for `plain`
/// all.
pub(super) fn fold(metric: &str, formula: Formula, instants: &[Instant]) -> f64 {
    let defined = || instants.iter().filter(|it| it.is_defined(metric));
    let counted = || defined().map(|instant| instant.counted(metric));
    let values = |answers: Vec<Answer>| answers.into_iter().map(|answer| answer.value);
    let value = match formula {
        _ if !is_of_active(metric) => None,
        Formula::MeanOfInstants => None,
        Formula::ActiveInstants => {
            let active = counted().filter(|answers| !answers.is_empty());
            let numbers: Vec<f64> = active.map(|answers| number(metric, &answers)).collect();
            Some(mean(&numbers))
        }
        Formula::SampleWeighted => {
            let readings: Vec<f64> = counted().flat_map(values).collect();
            Some(mean(&readings))
        }
        Formula::Plain => {
            let devices = instants.first().map_or(0, |instant| instant.answers.len());
            let of_device = |device: usize| {
                let answers = instants
                    .iter()
                    .filter_map(|instant| instant.answers[device]);
                mean(&values(answers.collect()).collect::<Vec<_>>())
            };
            Some(mean(
                &(0..devices).filter_map(of_device).collect::<Vec<_>>(),
            ))
        }
    };
    let all = || mean(&defined().map(|it| it.number(metric)).collect::<Vec<_>>());
    value.unwrap_or_else(all).unwrap_or(0.0)
}
