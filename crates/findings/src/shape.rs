//! What number a metric is: its unit, its range, and whether replicas change it. Findings about
//! targets that do not fit it.

use super::Finding;
use super::codes::{GM503, GM504, GM505};
use ::hpa::Hpa;
use ::hpa::hpa::{Metric, MetricSource, MetricTarget};
use ::hpa::ratio::Milli;
use apimachinery::quantity::milli_text;
use gpu_metrics::dcgm::metrics;
use gpu_metrics::external::ExternalMetrics;
use gpu_metrics::policy::{DeviceValue, Measure, Over, Reducer};
use gpu_metrics::signal::Unit;

/// The metrics of an HPA except CPU and memory.
pub(super) fn metrics_of(hpa: &Hpa) -> Vec<&Metric> {
    let is_resource = |it: &Metric| matches!(it.source, MetricSource::Resource { .. });
    let is_usage = |it: &Metric| is_resource(it) && ["cpu", "memory"].contains(&it.source.name());
    hpa.metrics.iter().filter(|it| !is_usage(it)).collect()
}

/// The measure of a built-in metric; `None` for other metrics.
fn measure(metric: &Metric) -> Option<Measure> {
    let name = metric.source.name();
    if let MetricSource::External { .. } = metric.source {
        let known = ExternalMetrics::new(&metrics::built_in());
        return known.named(name).map(|it| it.spec.measure);
    }
    let mut known = metrics::built_in().into_iter();
    Some(known.find(|spec| spec.name == name)?.measure)
}

/// What further replicas make of a value while the load stays the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Trend {
    /// A mean, which falls.
    Falls,
    /// A mean over active GPUs, which idle ones do not lower.
    StaysMean,
    /// A sum or a count, which is as high as before.
    StaysTotal,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Shape {
    unit: Unit,
    trend: Trend,
}

/// The ends of the names of the metrics of presets.
const OF_PRESETS: [(&str, Shape); 3] = [
    ("_kv_cache_usage", Shape::new(Unit::Ratio, Trend::Falls)),
    (
        "_requests_waiting",
        Shape::new(Unit::Plain, Trend::StaysTotal),
    ),
    (
        "_requests_running",
        Shape::new(Unit::Plain, Trend::StaysTotal),
    ),
];

/// The preset whose series are means over the pods of a pool.
const OF_MEANS: &str = "inference_pool_requests_";

impl Shape {
    const fn new(unit: Unit, trend: Trend) -> Self {
        Self { unit, trend }
    }

    /// The shape of a built-in metric, or one of a preset; `None`: it is not known.
    fn of(metric: &Metric) -> Option<Self> {
        let Some(measure) = measure(metric) else {
            let name = metric.source.name();
            let mut known = OF_PRESETS.into_iter();
            let (_, shape) = known.find(|(end, _)| name.ends_with(end))?;
            return (!name.starts_with(OF_MEANS)).then_some(shape);
        };
        Some(match measure {
            Measure::Devices {
                value: DeviceValue::Signal(_),
                ..
            } => return None,
            Measure::Devices {
                value,
                reducer,
                over,
            } => {
                let trend = match (reducer, over) {
                    (Reducer::Sum, _) => Trend::StaysTotal,
                    (_, Over::Active) => Trend::StaysMean,
                    _ => Trend::Falls,
                };
                Self::new(value.unit(), trend)
            }
            Measure::OriginalAverage => Self::new(Unit::Percent, Trend::StaysMean),
            Measure::HeldCount | Measure::ActiveCount | Measure::IdleCount => {
                Self::new(Unit::Plain, Trend::StaysTotal)
            }
        })
    }

    /// The largest value, in thousandths; `None`: it has no bound.
    const fn most(self) -> Option<i64> {
        match (self.unit, self.trend) {
            (_, Trend::StaysTotal) => None,
            (Unit::Percent, _) => Some(100_000),
            (Unit::Ratio, _) => Some(1000),
            _ => None,
        }
    }
}

/// A target whose unit, type or height does not fit the metric.
pub(super) fn target(object: &str, metric: &Metric, tolerance: f64) -> Option<Finding> {
    let shape = Shape::of(metric)?;
    let target = match metric.target {
        MetricTarget::Value(Milli(target)) | MetricTarget::AverageValue(Milli(target)) => target,
        MetricTarget::Utilization(_) => return None,
    };
    let name = metric.source.name();
    unit(object, name, shape, target)
        .or_else(|| target_type(object, metric, shape, target))
        .or_else(|| beyond(object, name, shape, target, tolerance))
}

/// A number in another unit than the metric's.
fn unit(object: &str, name: &str, shape: Shape, target: i64) -> Option<Finding> {
    let text = milli_text(target);
    let percent = milli_text(target.saturating_mul(100));
    let (what, remedy) = match shape.unit {
        Unit::Percent if target <= 1000 => (
            match shape.most() {
                Some(_) => "a percentage from 0 to 100",
                None => "a sum of percentages, up to 100 for each GPU",
            },
            format!("write {percent:?} if {percent} percent is meant"),
        ),
        Unit::Ratio if target > 1000 => {
            let ratio = milli_text(target / 100);
            (
                "a ratio from 0 to 1",
                format!("write {ratio:?} if {text} percent is meant"),
            )
        }
        Unit::Mebibytes if target < 256_000 => (
            "in MiB, and a process on a GPU takes some hundred",
            "write the MiB, or use gpu_memory_used_percent if percent is meant".to_owned(),
        ),
        Unit::Watts if target < 20_000 => (
            "in watts, and an idle GPU takes more",
            "write the watts of a busy replica, or use gpu_utilization".to_owned(),
        ),
        _ => return None,
    };
    let message = format!("{name} is {what}, and the target is {text}");
    Some(Finding::new(&GM505, object, message).with_remedy(remedy))
}

/// A type of target with which the controller multiplies the replicas at each sync, or
/// divides a mean by them.
fn target_type(object: &str, metric: &Metric, shape: Shape, target: i64) -> Option<Finding> {
    let name = metric.source.name();
    let message = match (&metric.source, metric.target, shape.trend) {
        (MetricSource::Pods { .. }, ..) | (_, MetricTarget::Value(_), Trend::Falls) => return None,
        (_, MetricTarget::Value(_), _) => format!(
            "more replicas do not lower {name}: with type Value each sync multiplies the replicas again, up to maxReplicas"
        ),
        (_, _, Trend::StaysTotal) => return None,
        _ => {
            let most = (shape.most()? - 1) / target + 1;
            format!(
                "{name} is a mean, which AverageValue divides by the replicas again: the HPA never wants more than {most} of them"
            )
        }
    };
    let text = milli_text(target);
    let remedy = match (shape.trend, &metric.source) {
        (Trend::StaysTotal, _) => format!(
            "write target: {{type: AverageValue, averageValue: {text:?}}}, with the amount for one replica"
        ),
        (_, MetricSource::Object { .. }) => format!("write {}", of_pods(name, &text)),
        _ => "use the metric of the pods, with type Pods and AverageValue".to_owned(),
    };
    Some(Finding::new(&GM503, object, message).with_remedy(remedy))
}

/// A target that the largest value does not exceed beyond the tolerance. The controller keeps
/// the replicas while value ÷ target is at most 1 + tolerance.
fn beyond(object: &str, name: &str, shape: Shape, target: i64, tolerance: f64) -> Option<Finding> {
    let most = shape.most()?;
    let thousandths = (tolerance * 1000.0).round() as i64;
    let threshold = i128::from(target) * i128::from(1000 + thousandths);
    (threshold >= i128::from(most) * 1000).then(|| {
        let message = format!(
            "{name} is at most {}, and with a target of {} replicas are added above {} only (tolerance {tolerance}): the HPA never scales up",
            milli_text(most), milli_text(target), threshold as f64 / 1e6,
        );
        let remedy = format!("write a target of at most {}", milli_text(most / 10 * 8));
        Finding::new(&GM504, object, message).with_remedy(remedy)
    })
}

/// A metric of the pods as it is written in an HPA.
pub(super) fn of_pods(name: &str, target: &str) -> String {
    format!(
        "{{type: Pods, pods: {{metric: {{name: {name}}}, target: {{type: AverageValue, averageValue: {target:?}}}}}}}"
    )
}

/// Built-in metrics, and the ends of the names that exporters, guides and clouds have for the
/// same number. A name is compared without its prefix ([`PREFIXES`]) and its statistic
/// ([`STATISTICS`]), in small letters.
const USUAL: [(&str, &str); 4] = [
    (
        "gpu_utilization",
        "gpu_util gpu_utilization gpu_utilisation gpu_usage nvidia.com/gpu gr_engine_active gr_engine_util duty_cycle gpu_duty_cycle accelerator_duty_cycle",
    ),
    (
        metrics::MEMORY_UTILIZATION,
        "mem_copy_util mem_copy_utilization dram_active dram_util gpu_memory_util gpu_mem_util memory_utilization",
    ),
    (
        "gpu_memory_used",
        "fb_used gpu_memory_usage gpu_mem_used memory_used gpu_memory_used_bytes",
    ),
    (
        "gpu_power_usage",
        "power_usage gpu_power gpu_power_draw power_draw",
    ),
];

const PREFIXES: [&str; 5] = [
    "dcgm_fi_dev_",
    "dcgm_fi_prof_",
    "dcgm_",
    "nvidia_",
    "kubernetes_io_node_",
];

const STATISTICS: [&str; 5] = ["_avg", "_average", "_mean", "_max", "_ratio"];

/// The built-in metric of the number that others give this name.
pub(super) fn usual(name: &str) -> Option<&'static str> {
    let name = name.to_lowercase();
    let mut bare = name.as_str();
    for prefix in PREFIXES {
        bare = bare.strip_prefix(prefix).unwrap_or(bare);
    }
    for statistic in STATISTICS {
        bare = bare.strip_suffix(statistic).unwrap_or(bare);
    }
    let mut usual = USUAL.iter();
    let found = usual.find(|(_, names)| names.split(' ').any(|name| name == bare));
    found.map(|(metric, _)| *metric)
}
