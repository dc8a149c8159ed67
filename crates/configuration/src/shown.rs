//! The configuration in force, for users with the right to read the server's findings.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;

use limits::file::yaml;

use super::Config;
use super::value::Choice;

/// The key of the resource names of GPUs. Clients read it.
pub const GPU_RESOURCES: &str = "gpu.resources";

/// The key of the address of Prometheus, if it is a Service of the cluster that anybody with
/// rights on it can ask for the same. Clients read it.
pub const PROMETHEUS_SERVICE: &str = "prometheus.service";

#[derive(Default, Deserialize)]
struct Section {
    #[serde(default)]
    gpu: Option<BTreeMap<String, Value>>,
}

/// The keys of `gpu` that a file sets, with their values.
pub(super) fn of_gpus(text: &str) -> Vec<(String, String)> {
    let read = yaml::first_document::<Option<Section>>(text);
    let section = read.ok().and_then(|(section, _)| section);
    let keys = section.and_then(|section| section.gpu).unwrap_or_default();
    let row = |(key, value)| {
        let value = match value {
            Value::String(text) => text,
            value => value.to_string(),
        };
        (format!("gpu.{key}"), value)
    };
    keys.into_iter().map(row).collect()
}

impl Config {
    /// The keys of the file, with their values. The connection to Prometheus, but for the address
    /// of a Service, and the queries of rules are left out, because they have secrets and name
    /// namespaces.
    #[must_use]
    pub fn shown(&self) -> Vec<(String, String)> {
        let presets: Vec<&str> = self.presets.iter().map(|it| it.word()).collect();
        let mut rows = self.keys_of_gpus.clone();
        rows.retain(|(key, _)| key != GPU_RESOURCES);
        let further = [
            (GPU_RESOURCES, self.gpu_resources.to_string()),
            ("presets", presets.join(", ")),
            ("rules", self.rules.usable.len().to_string()),
            (
                "externalRules",
                self.external_rules.usable.len().to_string(),
            ),
            ("resourceRules", self.resource_rules.is_some().to_string()),
            ("left out for a fault", self.faults.len().to_string()),
        ];
        let address = self.service_address();
        rows.extend(address.map(|it| (PROMETHEUS_SERVICE.to_owned(), it)));
        rows.extend(further.map(|(key, value)| (key.to_owned(), value)));
        rows
    }

    /// The address of Prometheus without its parameters. `None`: it is no Service, or it is
    /// asked with matchers or headers, without which it answers for other clusters or tenants.
    fn service_address(&self) -> Option<String> {
        let settings = self.prometheus.as_ref()?;
        let host = settings.url.host_str()?;
        let is_service = host.ends_with(".svc") || host.ends_with(".svc.cluster.local");
        let is_plain = settings.matchers.is_empty() && settings.headers.is_empty();
        let mut url = settings.url.clone();
        url.set_query(None);
        (is_service && is_plain).then(|| url.into())
    }
}

#[cfg(test)]
mod tests {
    use crate::{Config, Flags};

    #[test]
    fn settings_are_shown_and_secrets_are_not() {
        let text = "prometheus:\n  url: http://bob:hunter2@prom.internal:9090/hidden?key=hunter3\n  \
                    headers: {X-Scope-OrgID: tenant-a}\n  matchers: {cluster: prod-eu}\n\
                    gpu: {window: 2m, step: 10s}\nrules: []\n";
        let config = Config::from_yaml("f", text, &Flags::default()).unwrap();
        let shown = config.shown().into_iter();
        let shown: Vec<String> = shown.map(|(key, value)| format!("{key}={value}")).collect();
        let all = shown.join("\n");
        let wanted = "gpu.window=2m|gpu.step=10s|gpu.resources=nvidia.com/gpu|rules=0";
        for wanted in wanted.split('|') {
            assert!(all.contains(wanted), "{wanted}: {all}");
        }
        for secret in ["hunter", "bob", "internal", "hidden", "tenant-a", "prod-eu"] {
            assert!(!all.contains(secret), "{secret}: {all}");
        }
    }

    #[test]
    fn a_service_that_is_asked_without_matchers_is_shown_without_secrets() {
        let of = |connection: &str| {
            let text = format!("prometheus: {{{connection}}}\nrules: []\n");
            let config = Config::from_yaml("f", &text, &Flags::default()).unwrap();
            let mut shown = config.shown().into_iter();
            let row = shown.find(|(key, _)| key == super::PROMETHEUS_SERVICE);
            row.map(|(_, address)| address)
        };
        let url = "url: 'http://bob:hunter2@prom.mon.svc:9090/prefix?key=hunter3'";
        assert_eq!(of(url).as_deref(), Some("http://prom.mon.svc:9090/prefix"));
        assert_eq!(of(&format!("{url}, matchers: {{cluster: a}}")), None);
        assert_eq!(of(&format!("{url}, headers: {{X-Scope-OrgID: a}}")), None);
    }
}
