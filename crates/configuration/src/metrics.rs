//! `gpu.metrics`: further metrics from DCGM fields.

use serde::Deserialize;

use adapter_rules::labels::is_label;
use gpu_metrics::dcgm::metrics::built_in;
use gpu_metrics::policy::{DeviceValue, Measure, MetricSpec, Over, Reducer};
use gpu_metrics::signal::{SignalId, SignalSpec, Unit};

use super::problem::Problem;
use super::value::{Choice, Scalar, Setting, Words, or};

/// An entry of `gpu.metrics`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Metric {
    name: Scalar<MetricName>,
    field: Scalar<SeriesName>,
    #[serde(default)]
    aliases: Vec<Scalar<SeriesName>>,
    unit: Option<Scalar<Unit>>,
    reducer: Option<Scalar<Reducer>>,
    over: Option<Scalar<Over>>,
}

/// The name of a configured metric. No built-in metric may have it.
struct MetricName;

impl Setting for MetricName {
    type Value = String;

    fn parse(text: &str) -> Result<String, String> {
        if !is_label(text) {
            return Err(format!(
                "{text:?} is no metric name: write letters, digits and underscores, not a digit first"
            ));
        }
        let mut names = built_in().into_iter().map(|spec| spec.name);
        match names.find(|taken| taken.eq_ignore_ascii_case(text)) {
            Some(taken) => Err(format!(
                "{taken:?} is a built-in metric (case is ignored): choose another name"
            )),
            None => Ok(text.to_owned()),
        }
    }
}

/// The name of a series. Names from OpenTelemetry may be UTF-8, with dots.
struct SeriesName;

impl Setting for SeriesName {
    type Value = String;

    fn parse(text: &str) -> Result<String, String> {
        match text.is_empty() || text.chars().any(|c| c.is_control() || c == ' ') {
            true => Err(format!(
                "{text:?} is no series name: write one such as DCGM_FI_DEV_GPU_TEMP"
            )),
            false => Ok(text.to_owned()),
        }
    }
}

impl Choice for Unit {
    const WORDS: Words<Self> = &[
        ("percent", Self::Percent),
        ("ratio", Self::Ratio),
        ("mebibytes", Self::Mebibytes),
        ("watts", Self::Watts),
        ("plain", Self::Plain),
    ];
}

impl Choice for Reducer {
    const WORDS: Words<Self> = &[("mean", Self::Mean), ("sum", Self::Sum), ("max", Self::Max)];
}

impl Choice for Over {
    const WORDS: Words<Self> = &[("active", Self::Active), ("all", Self::All)];
}

/// Resolves the configured metrics. New signals are appended to `signals`.
pub(super) fn resolve(
    entries: &[Metric],
    signals: &mut Vec<SignalSpec>,
) -> Result<Vec<MetricSpec>, Problem> {
    let mut metrics: Vec<MetricSpec> = Vec::with_capacity(entries.len());
    for (index, metric) in entries.iter().enumerate() {
        let name = &metric.name.0;
        let mut former = metrics.iter().map(|it| &it.name);
        if let Some(first) = former.position(|it| it.eq_ignore_ascii_case(&name.value)) {
            let message = format!(
                "{:?} is the name of gpu.metrics[{first}] too (case is ignored): rename one",
                name.value
            );
            let key = format!("gpu.metrics[{index}].name");
            return Err(Problem::at(&key, name, message));
        }
        metrics.push(MetricSpec {
            name: name.value.clone(),
            measure: Measure::Devices {
                value: DeviceValue::Signal(signal(index, metric, signals)?),
                reducer: or(&metric.reducer, Reducer::Mean),
                over: or(&metric.over, Over::Active),
            },
        });
    }
    Ok(metrics)
}

/// The signal of a metric's field: an existing one, to which new aliases are added, or a
/// new one. A field is never polled twice.
fn signal(
    index: usize,
    metric: &Metric,
    signals: &mut Vec<SignalSpec>,
) -> Result<SignalId, Problem> {
    let field = &metric.field.0;
    let aliases = metric.aliases.iter().map(|alias| &alias.0.value);
    let names: Vec<&String> = std::iter::once(&field.value).chain(aliases).collect();
    let has = |signal: &SignalSpec, name: &str| {
        let mut known = signal.wire_names.iter();
        known.any(|known| known.eq_ignore_ascii_case(name))
    };
    let is_known = |signal: &SignalSpec| names.iter().any(|name| has(signal, name));
    let at = signals.iter().position(is_known).unwrap_or(signals.len());
    if at == signals.len() {
        let key = format!("gpu.metrics[{index}].field");
        let id = u16::try_from(at)
            .map_err(|_| Problem::at(&key, field, "is one field too many: remove some"))?;
        signals.push(SignalSpec {
            id: SignalId(id),
            name: field.value.to_ascii_lowercase(),
            wire_names: Vec::new(),
            unit: or(&metric.unit, Unit::Plain),
        });
    }
    let signal = &mut signals[at];
    if let Some(Scalar(unit)) = metric.unit.as_ref().filter(|it| it.0.value != signal.unit) {
        let message = format!(
            "{:?} does not fit {}, whose unit is {}: leave the unit out",
            unit.value.word(),
            field.value,
            signal.unit.word()
        );
        let key = format!("gpu.metrics[{index}].unit");
        return Err(Problem::at(&key, unit, message));
    }
    for name in names {
        if !has(signal, name) {
            signal.wire_names.push(name.clone());
        }
    }
    Ok(signal.id)
}
