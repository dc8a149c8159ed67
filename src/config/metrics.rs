//! `gpu.metrics`: further metrics from DCGM fields.

use std::collections::BTreeMap;

use super::problem::Problem;
use super::raw;
use super::value::{choice, is_identifier};
use gpu_metrics::dcgm::metrics::built_in;
use gpu_metrics::policy::{DeviceValue, Measure, MetricSpec, Over, Reducer};
use gpu_metrics::signal::{SignalId, SignalSpec, Unit};

const UNITS: [(&str, Unit); 5] = [
    ("percent", Unit::Percent),
    ("ratio", Unit::Ratio),
    ("mebibytes", Unit::Mebibytes),
    ("watts", Unit::Watts),
    ("plain", Unit::Plain),
];

const REDUCERS: [(&str, Reducer); 7] = [
    ("mean", Reducer::Mean),
    ("sum", Reducer::Sum),
    ("max", Reducer::Max),
    ("min", Reducer::Min),
    ("p50", Reducer::Quantile(0.5)),
    ("p95", Reducer::Quantile(0.95)),
    ("p99", Reducer::Quantile(0.99)),
];

const OVERS: [(&str, Over); 3] = [
    ("active", Over::Active),
    ("held", Over::Held),
    ("all", Over::All),
];

/// The configured metrics. Fields without a signal are appended to `signals`.
pub(super) fn resolve(
    raw: &[raw::Metric],
    signals: &mut Vec<SignalSpec>,
) -> Result<Vec<MetricSpec>, Problem> {
    let mut seen: BTreeMap<String, usize> = BTreeMap::new();
    let mut metrics = Vec::with_capacity(raw.len());
    for (index, metric) in raw.iter().enumerate() {
        let key = |name: &str| format!("gpu.metrics[{index}].{name}");
        let name = &metric.name;
        if !is_identifier(&name.value) {
            let message = format!(
                "{:?} is no metric name: write letters, digits and underscores, not a digit first",
                name.value
            );
            return Err(Problem::at(&key("name"), name, message));
        }
        let mut names = built_in().into_iter().map(|spec| spec.name);
        if let Some(taken) = names.find(|taken| taken.eq_ignore_ascii_case(&name.value)) {
            let message = format!(
                "{taken:?} is a built-in metric (case does not count): choose another name"
            );
            return Err(Problem::at(&key("name"), name, message));
        }
        if let Some(first) = seen.insert(name.value.to_ascii_lowercase(), index) {
            let message = format!(
                "{:?} is the name of gpu.metrics[{first}] too (case does not count): rename one",
                name.value
            );
            return Err(Problem::at(&key("name"), name, message));
        }
        let signal = signal(&key, metric, signals)?;
        let reducer = match &metric.reducer {
            Some(text) => choice(&key("reducer"), text, &REDUCERS)?,
            None => Reducer::Mean,
        };
        let over = match &metric.over {
            Some(text) => choice(&key("over"), text, &OVERS)?,
            None => Over::Active,
        };
        metrics.push(MetricSpec {
            name: name.value.clone(),
            measure: Measure::Devices {
                value: DeviceValue::Signal(signal),
                reducer,
                over,
            },
        });
    }
    Ok(metrics)
}

/// The signal of a metric's field: an existing one, with new aliases added, or a new
/// one. A field is never polled twice.
fn signal(
    key: &impl Fn(&str) -> String,
    metric: &raw::Metric,
    signals: &mut Vec<SignalSpec>,
) -> Result<SignalId, Problem> {
    let mut names: Vec<&str> = Vec::new();
    for (key, text) in std::iter::once((key("field"), &metric.field))
        .chain(metric.aliases.iter().map(|text| (key("aliases"), text)))
    {
        // Names from OpenTelemetry may be UTF-8, with dots.
        if text.value.is_empty() || text.value.chars().any(|c| c.is_control() || c == ' ') {
            let message = format!(
                "{:?} is no series name: write one such as DCGM_FI_DEV_GPU_TEMP",
                text.value
            );
            return Err(Problem::at(&key, text, message));
        }
        names.push(&text.value);
    }
    let unit = match &metric.unit {
        Some(text) => Some(choice(&key("unit"), text, &UNITS)?),
        None => None,
    };
    let next = signals.len();
    let known = signals.iter_mut().find(|signal| {
        let listed = |name: &&str| {
            signal
                .wire_names
                .iter()
                .any(|w| w.eq_ignore_ascii_case(name))
        };
        names.iter().any(listed)
    });
    let Some(known) = known else {
        let id = u16::try_from(next).map(SignalId).map_err(|_| {
            Problem::at(
                &key("field"),
                &metric.field,
                "is one field too many: remove some",
            )
        })?;
        signals.push(SignalSpec {
            id,
            name: metric.field.value.to_ascii_lowercase(),
            wire_names: names.into_iter().map(str::to_owned).collect(),
            unit: unit.unwrap_or(Unit::Plain),
        });
        return Ok(id);
    };
    if let (Some(unit), Some(text)) = (unit, &metric.unit)
        && unit != known.unit
    {
        let has = UNITS.iter().find(|(_, unit)| *unit == known.unit);
        let message = format!(
            "{:?} does not fit {}, whose unit is {}: leave the unit out",
            text.value,
            metric.field.value,
            has.map_or("another", |(name, _)| name)
        );
        return Err(Problem::at(&key("unit"), text, message));
    }
    for name in names {
        if !known
            .wire_names
            .iter()
            .any(|w| w.eq_ignore_ascii_case(name))
        {
            known.wire_names.push(name.to_owned());
        }
    }
    Ok(known.id)
}
