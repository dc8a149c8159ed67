//! The configuration: the user's file, and the typed values made from it.
//!
//! The values of the file parse themselves. Checks that involve several values run when the
//! [`Config`] is made, so that the configuration cannot fail later. A configuration file of
//! prometheus-adapter is also a valid one.

mod connection;
pub mod flags;
mod gpu;
mod kubeconfig;
mod metrics;
mod presets;
mod problem;
pub mod retired;
mod shown;
#[cfg(test)]
mod tests;
mod value;

use std::time::Duration;

use serde::Deserialize;

use adapter_rules::raw::{ResourceRulesEntry, RuleEntry};
use adapter_rules::resource::ResourceRules;
use adapter_rules::rule::Rules;
use gpu_metrics::dcgm::fields;
use gpu_metrics::policy::{MetricSpec, Policy};
use gpu_metrics::resources::GpuResources;
use gpu_metrics::signal::SignalSpec;
use limits::file::yaml;
use prometheus_source::settings::PrometheusSettings;
use prometheus_source::{KeyHasher, Prometheus};

use connection::Connection;
pub use flags::Flags;
use gpu::Gpu;
pub use presets::Preset;
pub use problem::ConfigurationError;
use problem::Problem;
pub use shown::{GPU_RESOURCES, PROMETHEUS_SERVICE};
use value::{Scalar, given};

/// The default Secret of certificates that the server makes.
pub const CERTIFICATE_SECRET: &str = "gpu-metrics-apiserver-certificates";

/// The warning of a kubeconfig with `insecure-skip-tls-verify`.
const UNVERIFIED: &str = "--prometheus-auth-config: insecure-skip-tls-verify: any server at that \
                          address is accepted as Prometheus and receives the credentials: set \
                          certificate-authority instead";

/// The whole file: this server's three keys, prometheus-adapter's three, and the warnings
/// that the chart writes about its values.
#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields, rename_all = "camelCase")]
struct File {
    prometheus: Option<Connection>,
    gpu: Option<Gpu>,
    presets: Option<Vec<Scalar<Preset>>>,
    rules: Option<Vec<RuleEntry>>,
    external_rules: Option<Vec<RuleEntry>>,
    resource_rules: Option<ResourceRulesEntry>,
    #[serde(default)]
    warnings: Vec<String>,
}

/// The whole configuration, resolved.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// Access to Prometheus. `None`: no address is configured.
    pub prometheus: Option<PrometheusSettings>,
    /// How values are computed from samples.
    pub policy: Policy,
    /// The poll interval. `None`: derived from the scrape interval.
    pub poll: Option<Duration>,
    /// The resources of pods that are GPUs.
    pub gpu_resources: GpuResources,
    /// Whether pods that have never been Ready have values.
    pub include_starting: bool,
    /// All signals to poll: the built-in ones, then those of configured fields. Each is at
    /// the index of its `SignalId`.
    pub signals: Vec<SignalSpec>,
    /// The configured metrics only.
    pub metrics: Vec<MetricSpec>,
    /// The keys of `gpu` as the file has them.
    keys_of_gpus: Vec<(String, String)>,
    pub gpus_enabled: bool,
    pub presets: Vec<Preset>,
    /// The rules of `presets`, then those of `rules`, which take precedence.
    pub rules: Rules,
    pub external_rules: Rules,
    pub resource_rules: Option<ResourceRules>,
    /// The faults of rules that are left out, wholly or in part.
    pub faults: Vec<String>,
    /// Warnings for the log at start, including the faults.
    pub warnings: Vec<String>,
}

/// Why there is no client of Prometheus.
#[derive(Debug, thiserror::Error)]
pub enum NoPrometheus {
    #[error(
        "no address of Prometheus: give --prometheus-url http://host:port, or prometheus.url in the file of --config"
    )]
    NoAddress,
    #[error(transparent)]
    Unusable(#[from] prometheus_source::Error),
}

impl Config {
    /// Makes a client of Prometheus. No request is sent.
    ///
    /// # Errors
    /// When there is no address, or a file of the settings cannot be used.
    pub fn client(&self) -> Result<Prometheus, NoPrometheus> {
        let settings = self.prometheus.clone().ok_or(NoPrometheus::NoAddress)?;
        Ok(Prometheus::new(settings, KeyHasher::new())?)
    }

    /// The default configuration, without a file.
    #[must_use]
    pub fn built_in(flags: &Flags) -> Self {
        let mut prometheus = flags.prometheus_url.clone().map(PrometheusSettings::new);
        prometheus.iter_mut().for_each(|it| flags.apply(it));
        let is_unverified = flags.credentials.tls.unverified && flags.prometheus_ca_file.is_none();
        Self {
            prometheus,
            warnings: is_unverified
                .then(|| UNVERIFIED.to_owned())
                .into_iter()
                .collect(),
            signals: fields::built_in(),
            gpus_enabled: true,
            ..Self::default()
        }
    }

    /// The configuration in `text`, the content of `file`.
    ///
    /// # Errors
    /// When the text is no YAML, or has unknown keys or invalid values.
    pub fn from_yaml(file: &str, text: &str, flags: &Flags) -> Result<Self, ConfigurationError> {
        let in_file = |problem: Problem| problem.in_file(file);
        let (read, second) =
            yaml::first_document::<Option<File>>(text).map_err(|fault| in_file(fault.into()))?;
        let mut config = Self::resolve(read.unwrap_or_default(), flags).map_err(in_file)?;
        config.keys_of_gpus = shown::of_gpus(text);
        if let Some(second) = second {
            config.warnings.push(format!(
                "the configuration has more than one document: only the first is used, and the one \
                 that begins at line {} is ignored: delete it, or move its keys into the first",
                second.line()
            ));
        }
        Ok(config)
    }

    fn resolve(mut file: File, flags: &Flags) -> Result<Self, Problem> {
        let mut config = Self::built_in(flags);
        if let Some(connection) = file.prometheus.take() {
            let mut settings = connection.settings(flags.prometheus_url.as_ref())?;
            flags.apply(&mut settings);
            config.prometheus = Some(settings);
        }
        config.resolve_rules(&file)?;
        config.warnings.extend(file.warnings);
        let gpu = file.gpu.unwrap_or_default();
        config.gpus_enabled = gpu.enabled.unwrap_or(true);
        config.policy = gpu.policy()?;
        config.poll = given(&gpu.poll);
        config.include_starting = gpu.include_starting.unwrap_or_default();
        config.metrics = metrics::resolve(&gpu.metrics, &mut config.signals)?;
        if let Some(names) = gpu.resources {
            let names = names.into_iter().map(|name| name.0.value);
            config.gpu_resources = GpuResources::new(names.collect());
        }
        Ok(config)
    }

    /// Leaves out faulty rules, each with a warning, and keeps the others.
    fn resolve_rules(&mut self, file: &File) -> Result<(), Problem> {
        let presets = file.presets.iter().flatten();
        self.presets = presets.map(|preset| preset.0.value).collect();
        let labels = self.prometheus.as_ref().map(|it| &*it.matchers);
        let mut lists = Vec::new();
        for preset in &self.presets {
            lists.push(preset.rules(labels.unwrap_or_default())?);
        }
        let custom = file.rules.as_deref().unwrap_or_default();
        lists.push(Rules::resolve("rules", custom));
        for list in lists {
            self.rules.usable.extend(list.usable);
            self.rules.faults.extend(list.faults);
        }
        let external = file.external_rules.as_deref().unwrap_or_default();
        self.external_rules = Rules::resolve("externalRules", external);
        let resource = file.resource_rules.as_ref().map(ResourceRules::resolve);
        let mut of_resources = None;
        let kept = |fault| of_resources = Some(fault);
        self.resource_rules = resource.and_then(|rules| rules.map_err(kept).ok());
        let faults = self.rules.faults.iter().chain(&self.external_rules.faults);
        self.faults = faults
            .chain(&of_resources)
            .map(ToString::to_string)
            .collect();
        self.warnings.extend(self.faults.clone());
        Ok(())
    }
}
