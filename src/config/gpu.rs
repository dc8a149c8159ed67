//! `gpu`: how values are made from readings.

use std::ops::RangeInclusive;
use std::time::Duration;

use serde_saphyr::Spanned;

use super::problem::Problem;
use super::raw;
use super::value::{auto_duration, choice, duration, within};
use apimachinery::duration::format_duration;
use gpu_metrics::policy::{
    Activity, Condition, DeviceValue, Formula, Idle, MigWeight, Policy, Shared,
};
use gpu_metrics::resources::GpuResources;
use gpu_metrics::signal::SignalId;

/// The values of `gpu.idle`.
pub(super) const IDLE: [(&str, Idle); 2] = [("zero", Idle::Zero), ("omit", Idle::Omit)];
/// The values of `gpu.migWeight`.
pub(super) const MIG_WEIGHT: [(&str, MigWeight); 2] =
    [("equal", MigWeight::Equal), ("slices", MigWeight::Slices)];
/// The values of `gpu.shared`.
pub(super) const SHARED: [(&str, Shared); 2] = [
    ("device-value", Shared::DeviceValue),
    ("split", Shared::Split),
];

/// A shorter step costs memory without more detail, because DCGM's readings are one
/// second long. With a longer one, a window of a minute may have no instant.
const STEP: RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(60);

/// A shorter value is no scrape interval; a longer one leaves no window.
const INTERVAL: RangeInclusive<Duration> = Duration::from_millis(100)..=Duration::from_secs(3600);

/// A window ends up to 15 s after the newest sample. If readings are believed for no
/// longer than that and a poll, a short window may have no instant with a reading.
const FRESHNESS_MIN: Duration = Duration::from_secs(20);

/// A window is kept in memory as a whole.
const WINDOW_MAX: Duration = Duration::from_secs(86_400);

/// With a longer hold, GPUs would be held by pods of the day before.
const HOLD_MAX: Duration = Duration::from_secs(3600);

/// The policy of the section; missing keys have their defaults.
pub(super) fn policy(raw: &raw::Gpu) -> Result<Policy, Problem> {
    let default = Policy::default();
    let step = auto_within("gpu.step", raw.step.as_ref(), STEP)?;
    let freshness = auto_within("gpu.freshness", raw.freshness.as_ref(), INTERVAL)?;
    let mut policy = Policy {
        step: step.unwrap_or(default.step),
        freshness: freshness.map_or(default.freshness, |set| set.max(FRESHNESS_MIN)),
        scrape_interval: auto_within("gpu.scrapeInterval", raw.scrape_interval.as_ref(), INTERVAL)?,
        ..default
    };
    windows(raw, &mut policy)?;
    if let Some(text) = &raw.average {
        let choices = Formula::ALL.map(|formula| (formula.name(), formula));
        policy.formula = choice("gpu.average", text, &choices)?;
    }
    if let Some(active) = &raw.active {
        policy.activity = activity(active)?;
    }
    if let Some(text) = &raw.idle {
        policy.idle = choice("gpu.idle", text, &IDLE)?;
    }
    if let Some(text) = &raw.hold {
        let hold = Some(duration("gpu.hold", text)?);
        let hold = within("gpu.hold", Some(text), hold, Duration::ZERO..=HOLD_MAX)?;
        policy.hold = hold.unwrap_or_default();
    }
    if let Some(text) = &raw.min_devices {
        policy.min_devices = share("gpu.minDevices", text)?;
    }
    if let Some(text) = &raw.percent_as_ratio {
        let choices = [("auto", None), ("true", Some(true)), ("false", Some(false))];
        policy.percent_as_ratio = choice("gpu.percentAsRatio", text, &choices)?;
    }
    if let Some(text) = &raw.mig_weight {
        policy.mig_weight = choice("gpu.migWeight", text, &MIG_WEIGHT)?;
    }
    if let Some(text) = &raw.shared {
        policy.shared = choice("gpu.shared", text, &SHARED)?;
    }
    Ok(policy)
}

/// A sentence for each key that is set without effect, or with another effect.
pub(super) fn without_effect(raw: &raw::Gpu) -> impl Iterator<Item = String> {
    let keys = [
        (
            "gpu.exporterInterval",
            &raw.exporter_interval,
            "a reading is believed for three scrape intervals, and never for less than gpu.freshness",
        ),
        (
            "gpu.minCoverage",
            &raw.min_coverage,
            "a value is served as long as its window ends with instants that have a number",
        ),
        (
            "gpu.minSamples",
            &raw.min_samples,
            "one reading is enough for a value",
        ),
    ];
    let set = keys.into_iter().filter(|(_, text, _)| text.is_some());
    let set = set.map(|(key, _, rule)| format!("{key} has no effect: delete it; {rule}"));
    let freshness = auto_within("gpu.freshness", raw.freshness.as_ref(), INTERVAL);
    let short = freshness.ok().flatten().filter(|set| *set < FRESHNESS_MIN);
    set.chain(short.map(|set| {
        let (set, least) = (format_duration(set), format_duration(FRESHNESS_MIN));
        format!("gpu.freshness: {set} is too short, {least} is used: a window ends up to 15s after the newest sample")
    }))
}

/// Names of resources, each with a domain, and at most one `*`, at the end.
pub(super) fn resources(names: &[raw::Text]) -> Result<GpuResources, Problem> {
    for name in names {
        let whole = name.value.strip_suffix('*').unwrap_or(&name.value);
        let parts = whole.split_once('/');
        let is_domain = |domain: &str| {
            let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
            !domain.is_empty() && domain.chars().all(small)
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = |(domain, name): (&str, &str)| is_domain(domain) && name.chars().all(is_word);
        if !parts.is_some_and(is_name) {
            let message = format!(
                "{:?} is no resource: write one such as nvidia.com/gpu, or nvidia.com/mig-* for \
                 all that begin so",
                name.value
            );
            return Err(Problem::at("gpu.resources", name, message));
        }
    }
    let names = names.iter().map(|name| name.value.clone());
    Ok(GpuResources::new(names.collect()))
}

/// A duration within a range, or `None` for `auto`.
fn auto_within(
    key: &str,
    text: Option<&raw::Text>,
    range: RangeInclusive<Duration>,
) -> Result<Option<Duration>, Problem> {
    within(key, text, auto_duration(key, text)?, range)
}

/// The default and the longest window. A default above the default longest raises the
/// longest; above a configured longest it is an error.
fn windows(raw: &raw::Gpu, policy: &mut Policy) -> Result<(), Problem> {
    policy.window = window("gpu.window", raw.window.as_ref())?;
    let longest = window("gpu.maxWindow", raw.max_window.as_ref())?;
    if let (Some(text), Some(wanted), Some(longest)) = (&raw.window, policy.window, longest)
        && wanted > longest
    {
        let message = format!(
            "{} is longer than gpu.maxWindow, {}: raise that one or lower this one",
            format_duration(wanted),
            format_duration(longest)
        );
        return Err(Problem::at("gpu.window", text, message));
    }
    policy.max_window = longest
        .unwrap_or(policy.max_window)
        .max(policy.window.unwrap_or_default());
    Ok(())
}

/// A window in whole seconds, because clients get it as `windowSeconds`.
fn window(key: &str, text: Option<&raw::Text>) -> Result<Option<Duration>, Problem> {
    let window = auto_duration(key, text)?;
    let window = within(key, text, window, Duration::from_secs(1)..=WINDOW_MAX)?;
    match (text, window) {
        (Some(text), Some(window)) if window.subsec_nanos() != 0 => {
            let message = format!(
                "{:?} is no whole number of seconds: write 30s or 1m",
                text.value
            );
            Err(Problem::at(key, text, message))
        }
        _ => Ok(window),
    }
}

/// A share of the whole: above 0, at most 1.
fn share(key: &str, text: &raw::Text) -> Result<f64, Problem> {
    text.value
        .parse::<f64>()
        .ok()
        .filter(|share| *share > 0.0 && *share <= 1.0)
        .ok_or_else(|| {
            let message = format!(
                "{:?} is no share: write a number above 0, at most 1",
                text.value
            );
            Problem::at(key, text, message)
        })
}

fn activity(active: &Spanned<raw::Active>) -> Result<Activity, Problem> {
    let wrong = |message: &str| Problem::at("gpu.active", active, message);
    let (name, list, make): (_, _, fn(Vec<Condition>) -> Activity) =
        match (&active.value.any, &active.value.all) {
            (Some(list), None) => ("any", list, Activity::Any),
            (None, Some(list)) => ("all", list, Activity::All),
            (Some(_), Some(_)) => return Err(wrong("has both any and all: keep one of them")),
            (None, None) => {
                return Err(wrong(
                    "is empty: write any: […] or all: […], or leave it out",
                ));
            }
        };
    if list.is_empty() {
        return Err(wrong(
            "lists no condition: write at least one, such as {signal: memory_utilization, above: 0}",
        ));
    }
    let conditions = list
        .iter()
        .enumerate()
        .map(|(index, item)| condition(&format!("gpu.active.{name}[{index}]"), item));
    conditions.collect::<Result<_, _>>().map(make)
}

/// The signals that a condition may use.
const SIGNALS: [(&str, DeviceValue); 5] = [
    ("memory_utilization", DeviceValue::MemoryUtilization),
    ("gpu_utilization", DeviceValue::GpuUtilization),
    ("dram_active", DeviceValue::Signal(SignalId::DRAM_ACTIVE)),
    (
        "gr_engine_active",
        DeviceValue::Signal(SignalId::GR_ENGINE_ACTIVE),
    ),
    ("memory_used", DeviceValue::MemoryUsed),
];

fn condition(key: &str, item: &Spanned<raw::Condition>) -> Result<Condition, Problem> {
    let threshold = match &item.value {
        raw::Condition::Word(word) if word == "allocated" => return Ok(Condition::Allocated),
        raw::Condition::Word(word) => {
            let message = format!(
                "{word:?} is not known: write allocated or {{signal: memory_utilization, above: 0}}"
            );
            return Err(Problem::at(key, item, message));
        }
        raw::Condition::Threshold(threshold) => threshold,
    };
    let Some((_, value)) = SIGNALS.iter().find(|(name, _)| *name == threshold.signal) else {
        let message = format!(
            "signal {:?} is not known: write {}",
            threshold.signal,
            SIGNALS.map(|(name, _)| name).join(" or ")
        );
        return Err(Problem::at(key, item, message));
    };
    let above = threshold.above.as_deref().unwrap_or("0");
    match above.parse::<f64>() {
        Ok(above) if above.is_finite() => Ok(Condition::Above(*value, above)),
        Ok(_) | Err(_) => {
            let message = format!("above: {above:?} is no number: write one such as 0");
            Err(Problem::at(key, item, message))
        }
    }
}
