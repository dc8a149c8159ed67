//! The section `gpu`: how values are computed from samples.

use std::time::Duration;

use serde::Deserialize;
use serde::de::IgnoredAny;

use apimachinery::duration::format_duration;
use gpu_metrics::policy::{
    self, Activity, DeviceValue, Formula, IdleValue, MigWeight, Policy, Shared,
};
use gpu_metrics::signal::SignalId;

use super::metrics::Metric;
use super::problem::Problem;
use super::value::{Auto, Choice, Scalar, Setting, Within, Words, or};

/// `gpu`.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Gpu {
    pub(super) enabled: Option<bool>,
    window: Option<Scalar<Auto<Window>>>,
    max_window: Option<Scalar<Auto<Window>>>,
    step: Option<Scalar<Auto<Step>>>,
    pub(super) poll: Option<Scalar<Auto<Poll>>>,
    average: Option<Scalar<Formula>>,
    active: Option<Active>,
    idle: Option<Scalar<IdleValue>>,
    hold: Option<Scalar<Hold>>,
    min_coverage: Option<IgnoredAny>,
    min_samples: Option<IgnoredAny>,
    min_devices: Option<Scalar<Share>>,
    freshness: Option<Scalar<Auto<Interval>>>,
    scrape_interval: Option<Scalar<Auto<Interval>>>,
    exporter_interval: Option<IgnoredAny>,
    percent_as_ratio: Option<Scalar<Auto<bool>>>,
    mig_weight: Option<Scalar<MigWeight>>,
    shared: Option<Scalar<Shared>>,
    pub(super) resources: Option<Vec<Scalar<Resource>>>,
    #[serde(default)]
    pub(super) exporter_containers: Vec<String>,
    #[serde(default)]
    pub(super) exporter_namespaces: Vec<String>,
    #[serde(default)]
    pub(super) metrics: Vec<Metric>,
}

/// Each poll is one query, or one for each DCGM field. Shorter intervals would flood
/// Prometheus, and longer ones would serve stale values.
pub(super) type Poll = Within<500, 600_000>;

/// A shorter step uses memory without more detail, because DCGM's samples are one second
/// apart. With a longer one, a window of a minute may contain no instant.
type Step = Within<1_000, 60_000>;

/// A shorter value is no scrape interval. With a longer one, no window remains.
type Interval = Within<100, 3_600_000>;

/// With a longer hold, GPUs would still be attributed to pods that ended hours ago.
type Hold = Within<0, 3_600_000>;

/// A window ends up to 15 s after the newest sample. Samples that are valid for less than
/// that plus one poll may leave a short window without an instant that has a value.
const FRESHNESS_MIN: Duration = Duration::from_secs(20);

/// A window is in whole seconds, because clients receive it as `windowSeconds`. It is at
/// most a day, because all its samples are kept in memory.
type Window = Within<1_000, 86_400_000, 1_000>;

/// A fraction: above 0, at most 1.
struct Share;

impl Setting for Share {
    type Value = f64;

    fn parse(text: &str) -> Result<f64, String> {
        let share = text.parse().ok();
        share
            .filter(|share| *share > 0.0 && *share <= 1.0)
            .ok_or_else(|| format!("{text:?} is no share: write a number above 0, at most 1"))
    }
}

impl Choice for Formula {
    const WORDS: Words<Self> = &[
        (Self::MeanOfInstants.name(), Self::MeanOfInstants),
        (Self::SampleWeighted.name(), Self::SampleWeighted),
        (Self::ActiveInstants.name(), Self::ActiveInstants),
        (Self::Plain.name(), Self::Plain),
    ];
}

impl Choice for IdleValue {
    const WORDS: Words<Self> = &[("zero", Self::Zero), ("omit", Self::Omit)];
}

impl Choice for bool {
    const WORDS: Words<Self> = &[("true", true), ("false", false)];
}

impl Choice for MigWeight {
    const WORDS: Words<Self> = &[("equal", Self::Equal), ("slices", Self::Slices)];
}

impl Choice for Shared {
    const WORDS: Words<Self> = &[("device-value", Self::DeviceValue), ("split", Self::Split)];
}

/// The device values that a condition may use.
impl Choice for DeviceValue {
    const WORDS: Words<Self> = &[
        ("memory_utilization", Self::MemoryUtilization),
        ("gpu_utilization", Self::GpuUtilization),
        ("dram_active", Self::Signal(SignalId::DRAM_ACTIVE)),
        ("gr_engine_active", Self::Signal(SignalId::GR_ENGINE_ACTIVE)),
        ("memory_used", Self::MemoryUsed),
    ];
}

/// A resource name with a domain, such as `nvidia.com/gpu`. It may end in one `*`.
pub(super) struct Resource;

impl Setting for Resource {
    type Value = String;

    fn parse(text: &str) -> Result<String, String> {
        let whole = text.strip_suffix('*').unwrap_or(text);
        let is_domain = |domain: &str| {
            let small = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || ".-".contains(c);
            !domain.is_empty() && domain.chars().all(small)
        };
        let is_word = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let is_name = |(domain, name): (&str, &str)| is_domain(domain) && name.chars().all(is_word);
        match whole.split_once('/').is_some_and(is_name) {
            true => Ok(text.to_owned()),
            false => Err(format!(
                "{text:?} is no resource: write one such as nvidia.com/gpu, or nvidia.com/mig-* \
                 for all with this prefix"
            )),
        }
    }
}

impl Gpu {
    /// The policy of the section; missing keys have their defaults.
    pub(super) fn policy(&self) -> Result<Policy, Problem> {
        let default = Policy::default();
        let window = or(&self.window, None);
        let max_window = or(&self.max_window, None);
        // `gpu.window` alone, above the default of `gpu.maxWindow`, raises the latter.
        if let (Some(place), Some(wanted), Some(longest)) = (&self.window, window, max_window)
            && wanted > longest
        {
            let message = format!(
                "{} is longer than gpu.maxWindow, {}: raise that one or lower this one",
                format_duration(wanted),
                format_duration(longest)
            );
            return Err(Problem::at("gpu.window", &place.0, message));
        }
        let max_window = max_window.unwrap_or(default.max_window);
        let freshness = or(&self.freshness, None);
        let active = self
            .active
            .as_ref()
            .map(|Active(activity)| activity.clone());
        Ok(Policy {
            window,
            max_window: max_window.max(window.unwrap_or_default()),
            step: or(&self.step, None).unwrap_or(default.step),
            formula: or(&self.average, default.formula),
            activity: active.unwrap_or(default.activity),
            idle: or(&self.idle, default.idle),
            hold: or(&self.hold, default.hold),
            min_devices: or(&self.min_devices, default.min_devices),
            freshness: freshness.map_or(default.freshness, |set| set.max(FRESHNESS_MIN)),
            scrape_interval: or(&self.scrape_interval, default.scrape_interval),
            percent_as_ratio: or(&self.percent_as_ratio, default.percent_as_ratio),
            mig_weight: or(&self.mig_weight, default.mig_weight),
            shared: or(&self.shared, default.shared),
        })
    }

    /// A warning for each key that has no effect, or another effect than its value.
    pub(super) fn warnings(&self) -> impl Iterator<Item = String> {
        let retired = [
            (
                "gpu.exporterInterval",
                &self.exporter_interval,
                "a reading is valid for three scrape intervals, and at least for gpu.freshness",
            ),
            (
                "gpu.minCoverage",
                &self.min_coverage,
                "a value is served while the last instants of its window have a number",
            ),
            (
                "gpu.minSamples",
                &self.min_samples,
                "one reading is enough for a value",
            ),
        ];
        let set = retired.into_iter().filter(|(_, set, _)| set.is_some());
        let set = set.map(|(key, _, rule)| format!("{key} has no effect: delete it; {rule}"));
        let short = or(&self.freshness, None).filter(|set| *set < FRESHNESS_MIN);
        set.chain(short.map(|set| {
            let (set, least) = (format_duration(set), format_duration(FRESHNESS_MIN));
            format!("gpu.freshness: {set} is too short, {least} is used: a window ends up to 15s after the newest sample")
        }))
    }
}

/// `gpu.active`, checked.
#[derive(Deserialize)]
#[serde(try_from = "Conditions")]
struct Active(Activity);

/// `gpu.active`.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Conditions {
    #[serde(default)]
    any: Vec<Condition>,
    #[serde(default)]
    all: Vec<Condition>,
}

impl TryFrom<Conditions> for Active {
    type Error = &'static str;

    fn try_from(Conditions { any, all }: Conditions) -> Result<Self, Self::Error> {
        let (list, make): (_, fn(_) -> Activity) = match (any.is_empty(), all.is_empty()) {
            (false, true) => (any, Activity::Any),
            (true, false) => (all, Activity::All),
            _ => {
                return Err(
                    "needs conditions in one of any and all: write at least one, such as \
                     any: [{signal: memory_utilization, above: 0}], or leave it out",
                );
            }
        };
        let list: Option<Vec<_>> = list.into_iter().map(Condition::known).collect();
        let list =
            list.ok_or("has a condition whose above is not a number: write one such as 0")?;
        Ok(Self(make(list)))
    }
}

/// An entry of `gpu.active.any` or `.all`.
#[derive(Deserialize)]
#[serde(
    untagged,
    deny_unknown_fields,
    expecting = "is no condition: write allocated or {signal: memory_utilization, above: 0}; the \
                 signals are memory_utilization, gpu_utilization, dram_active, gr_engine_active and \
                 memory_used"
)]
enum Condition {
    Name(Name),
    Threshold {
        signal: Scalar<DeviceValue>,
        above: Option<Number>,
    },
}

/// A condition without a threshold.
#[derive(Deserialize)]
#[serde(rename_all = "lowercase")]
enum Name {
    Allocated,
}

/// A number, with or without quotes.
#[derive(Deserialize)]
#[serde(untagged)]
enum Number {
    Plain(f64),
    Quoted(String),
}

impl Condition {
    /// `None`: `above` is not a finite number.
    fn known(self) -> Option<policy::ActivityCondition> {
        let Self::Threshold { signal, above } = self else {
            return Some(policy::ActivityCondition::Allocated);
        };
        let above = match above.unwrap_or(Number::Plain(0.0)) {
            Number::Plain(above) => Some(above),
            Number::Quoted(text) => text.parse().ok(),
        };
        let above = above.filter(|above| above.is_finite());
        above.map(|above| policy::ActivityCondition::Above(signal.0.value, above))
    }
}
