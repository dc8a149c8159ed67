//! The section `gpu`: how values are computed from samples.

use serde::Deserialize;

use apimachinery::duration::format_duration;
use gpu_metrics::policy::Policy;

use super::metrics::Metric;
use super::problem::Problem;
use super::value::{Choice, Scalar, Setting, Within, Words, given, or};

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
pub(super) struct Gpu {
    pub(super) enabled: Option<bool>,
    window: Option<Scalar<Window>>,
    max_window: Option<Scalar<Window>>,
    step: Option<Scalar<Step>>,
    pub(super) poll: Option<Scalar<Poll>>,
    freshness: Option<Scalar<Freshness>>,
    scrape_interval: Option<Scalar<Interval>>,
    percent_as_ratio: Option<Scalar<bool>>,
    pub(super) include_starting: Option<bool>,
    pub(super) resources: Option<Vec<Scalar<Resource>>>,
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

/// A window ends up to 15 s after the newest sample. Samples that are valid for less than
/// that plus one poll may leave a short window without an instant that has a value.
type Freshness = Within<20_000, 3_600_000>;

/// A window is in whole seconds, because clients receive it as `windowSeconds`. It is at
/// most a day, because all its samples are kept in memory.
type Window = Within<1_000, 86_400_000, 1_000>;

impl Choice for bool {
    const WORDS: Words<Self> = &[("true", true), ("false", false)];
}

/// A resource name with a domain, such as `nvidia.com/gpu`. It may end in one `*`.
pub(super) struct Resource;

impl Setting for Resource {
    type Value = String;

    fn parse(text: &str) -> Result<String, String> {
        let whole = text.strip_suffix('*').unwrap_or(text);
        let has_domain = whole.find('/').is_some_and(|slash| slash > 0);
        let is_name = |c: char| c.is_ascii_alphanumeric() || "-_./".contains(c);
        match has_domain && whole.chars().all(is_name) {
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
        let window = given(&self.window);
        let max_window = given(&self.max_window);
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
        Ok(Policy {
            window,
            max_window: max_window.max(window.unwrap_or_default()),
            step: or(&self.step, default.step),
            freshness: or(&self.freshness, default.freshness),
            scrape_interval: given(&self.scrape_interval),
            percent_as_ratio: given(&self.percent_as_ratio),
        })
    }
}
