//! From what the devices answered at each instant to one number.

use gpu_metrics_apiserver::core::policy::Formula;

/// What a device answers at an instant.
#[derive(Clone, Copy, Debug)]
pub(super) struct Answer {
    pub(super) value: f64,
    pub(super) at: i64,
    /// Framebuffer in use and in all, where asked for.
    pub(super) used: f64,
    pub(super) whole: f64,
    pub(super) held: bool,
    /// The row that says so.
    pub(super) row: usize,
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() {
        0.0
    } else {
        values.iter().sum::<f64>() / values.len() as f64
    }
}

/// Instants, each with what its devices answered, into one number.
pub(super) fn fold(metric: &str, formula: Formula, instants: &[Vec<Option<Answer>>]) -> f64 {
    let active = |answers: &Vec<Option<Answer>>| -> Vec<f64> {
        answers
            .iter()
            .flatten()
            .map(|answer| answer.value)
            .filter(|value| *value > 0.0)
            .collect()
    };
    let over_instants = |of: &dyn Fn(&Vec<Option<Answer>>) -> f64| {
        mean(&instants.iter().map(of).collect::<Vec<_>>())
    };
    let count = |wanted: &dyn Fn(&Answer) -> bool| {
        over_instants(&|answers| {
            answers
                .iter()
                .flatten()
                .filter(|answer| wanted(answer))
                .count() as f64
        })
    };
    match (metric, formula) {
        ("gpu_memory_utilization" | "gpu_utilization", Formula::MeanOfInstants) => {
            over_instants(&|answers| mean(&active(answers)))
        }
        ("gpu_memory_utilization" | "gpu_utilization", Formula::ActiveInstants) => {
            let means: Vec<f64> = instants
                .iter()
                .map(active)
                .filter(|a| !a.is_empty())
                .map(|a| mean(&a))
                .collect();
            mean(&means)
        }
        ("gpu_memory_utilization" | "gpu_utilization", Formula::SampleWeighted) => {
            mean(&instants.iter().flat_map(active).collect::<Vec<_>>())
        }
        ("gpu_memory_utilization" | "gpu_utilization", Formula::Plain) => mean_of_devices(instants),
        ("gpu_memory_used_percent", _) => over_instants(&|answers| {
            let used: f64 = answers.iter().flatten().map(|answer| answer.used).sum();
            let whole: f64 = answers.iter().flatten().map(|answer| answer.whole).sum();
            100.0 * used / whole
        }),
        ("gpu_held_count", _) => count(&|answer| answer.held),
        ("gpu_active_count", _) => count(&|answer| answer.held && answer.value > 0.0),
        ("gpu_idle_count", _) => count(&|answer| answer.held && answer.value == 0.0),
        _ => over_instants(&|answers| answers.iter().flatten().map(|answer| answer.value).sum()),
    }
}

/// The mean over devices of each one's mean over time.
fn mean_of_devices(instants: &[Vec<Option<Answer>>]) -> f64 {
    let devices = instants.first().map_or(0, Vec::len);
    let mut means = Vec::new();
    for device in 0..devices {
        let values: Vec<f64> = instants
            .iter()
            .filter_map(|answers| answers[device])
            .map(|a| a.value)
            .collect();
        if !values.is_empty() {
            means.push(mean(&values));
        }
    }
    mean(&means)
}
