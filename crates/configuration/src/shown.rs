//! The configuration in force, for users with the right to read the server's findings.

use std::time::Duration;

use apimachinery::duration::format_duration;
use gpu_metrics::policy::Activity;
use prometheus_source::settings::{Auth, PrometheusSettings};

use super::Config;
use super::value::Choice;

/// The key of the resource names of GPUs. Clients read it.
pub const GPU_RESOURCES: &str = "gpu.resources";

/// Shown for an unset key whose value is derived from the data.
const AUTO: &str = "auto: from the data";

impl Config {
    /// Keys as in the file, with their values. The address of Prometheus, secrets, and the
    /// queries of rules, which name namespaces, are left out.
    #[must_use]
    pub fn shown(&self) -> Vec<(String, String)> {
        let mut rows = vec![("gpu.enabled", self.gpus_enabled.to_string())];
        rows.extend(self.of_gpus());
        rows.extend(self.prometheus.iter().flat_map(of_prometheus));
        let presets: Vec<&str> = self.presets.iter().map(|it| it.word()).collect();
        rows.extend([
            ("presets", or_none(&presets)),
            ("rules", self.rules.usable.len().to_string()),
            (
                "externalRules",
                self.external_rules.usable.len().to_string(),
            ),
            (
                "resourceRules",
                if self.resource_rules.is_some() {
                    "cpu and memory"
                } else {
                    "none"
                }
                .to_owned(),
            ),
            ("left out for a fault", self.faults.len().to_string()),
        ]);
        rows.into_iter()
            .map(|(key, value)| (key.to_owned(), value))
            .collect()
    }

    fn of_gpus(&self) -> Vec<(&'static str, String)> {
        let auto = |it: Option<Duration>| it.map_or_else(|| AUTO.to_owned(), format_duration);
        let policy = &self.policy;
        let names: Vec<&str> = self.metrics.iter().map(|it| it.name.as_str()).collect();
        vec![
            ("gpu.window", auto(policy.window)),
            ("gpu.maxWindow", format_duration(policy.max_window)),
            ("gpu.step", format_duration(policy.step)),
            ("gpu.poll", auto(self.poll)),
            ("gpu.freshness", format_duration(policy.freshness)),
            ("gpu.scrapeInterval", auto(policy.scrape_interval)),
            ("gpu.average", policy.formula.name().to_owned()),
            ("gpu.active", active(&policy.activity)),
            ("gpu.hold", format_duration(policy.hold)),
            ("gpu.idle", policy.idle.word().to_owned()),
            ("gpu.minDevices", policy.min_devices.to_string()),
            (
                "gpu.percentAsRatio",
                policy
                    .percent_as_ratio
                    .map_or_else(|| "auto: for each job".to_owned(), |it| it.to_string()),
            ),
            (GPU_RESOURCES, self.gpu_resources.to_string()),
            ("gpu.migWeight", policy.mig_weight.word().to_owned()),
            ("gpu.shared", policy.shared.word().to_owned()),
            ("gpu.metrics", or_none(&names)),
        ]
    }
}

fn or_none(names: &[&str]) -> String {
    match names {
        [] => "none".to_owned(),
        names => names.join(", "),
    }
}

fn active(activity: &Activity) -> String {
    match activity {
        Activity::OwnValueAboveZero => "each metric by its own value: above 0".to_owned(),
        Activity::Any(conditions) => format!("any of {} conditions", conditions.len()),
        Activity::All(conditions) => format!("all of {} conditions", conditions.len()),
    }
}

fn of_prometheus(settings: &PrometheusSettings) -> Vec<(&'static str, String)> {
    let names: Vec<&str> = settings
        .headers
        .keys()
        .map(http::HeaderName::as_str)
        .collect();
    let matchers: Vec<&str> = settings
        .matchers
        .iter()
        .map(|(label, _)| label.as_str())
        .collect();
    let or_none = |names: &[&str]| match names {
        [] => "none".to_owned(),
        names => format!("{} (values are not shown)", names.join(", ")),
    };
    let auth = match &settings.auth {
        Auth::None => "none",
        Auth::BearerTokenFile(_) | Auth::BearerToken(_) => "a bearer token",
        Auth::Basic { .. } => "user and password",
        Auth::Cloud(method) => method.name(),
    };
    vec![
        ("prometheus.url", "set (not shown)".to_owned()),
        ("prometheus.auth", auth.to_owned()),
        ("prometheus.headers", or_none(&names)),
        ("prometheus.matchers", or_none(&matchers)),
        ("prometheus.timeout", format_duration(settings.timeout)),
    ]
}
#[cfg(test)]
mod tests {
    use crate::{Config, Flags};

    #[test]
    fn settings_are_shown_and_secrets_are_not() {
        let text = "prometheus:\n  url: http://bob:hunter2@prom.internal:9090/hidden?key=hunter3\n  \
                    headers: {X-Scope-OrgID: tenant-a}\n  matchers: {cluster: prod-eu}\n\
                    gpu: {window: 2m, idle: omit}\n";
        let config = Config::from_yaml("f", text, &Flags::default()).unwrap();
        let shown = config.shown().into_iter();
        let shown: Vec<String> = shown.map(|(key, value)| format!("{key}={value}")).collect();
        let all = shown.join("\n");
        let wanted =
            "gpu.window=2m|gpu.idle=omit|gpu.step=|x-scope-orgid|cluster (|user and password";
        for wanted in wanted.split('|') {
            assert!(all.contains(wanted), "{wanted}: {all}");
        }
        for secret in ["hunter", "bob", "internal", "hidden", "tenant-a", "prod-eu"] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
    }
}
