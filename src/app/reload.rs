//! Reads the configuration file again when it changes or on SIGHUP, and applies it as a
//! whole. If the file is invalid, the former configuration stays in force.

#[cfg(test)]
pub(super) mod tests;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::{mpsc, watch};

use super::{finding_reports, measure};
use crate::provider::composite::SelfFinding;
use crate::provider::rules::RuleProvider;
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Weight};
use crate::telemetry::metrics::catalog;
use adapter_rules::rule::Rule;
use cluster_state::clock;
use configuration::Config;
use configuration::clients::Clients;
use configuration::flags::ConfigFile;
use findings::codes::GM603;
use findings::own;
use limits::file;
use prometheus_source::Prometheus;
use prometheus_source::answers::AnswerCache;
use prometheus_source::prometheus::promql::PromqlClient;

/// How often the file is read. A mounted ConfigMap changes by a symbolic link, about a
/// minute after the object was written. File system events do not report such a change.
const EVERY: Duration = Duration::from_secs(5);

/// The longest time that writing the file in place takes. A rename is immediate.
const WRITTEN_IN: Duration = Duration::from_millis(500);

/// The rules in force, and the client for their queries.
#[derive(Clone, Debug)]
pub(crate) struct RuleSet {
    pub rules: Vec<Rule>,
    pub external_rules: Vec<Rule>,
    /// The faults of the unusable rules. They have already been logged.
    pub faults: Vec<String>,
    /// The client for their queries.
    pub prometheus: Arc<PromqlClient>,
}

impl RuleSet {
    /// The rules of a configuration.
    pub(crate) fn new(config: &Config, prometheus: Arc<PromqlClient>) -> Self {
        Self {
            rules: config.rules.usable.clone(),
            external_rules: config.external_rules.usable.clone(),
            faults: config.faults.clone(),
            prometheus,
        }
    }

    /// The usable rules of both kinds.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.external_rules)
    }
}

/// The receivers of a new configuration.
#[derive(Debug)]
pub(super) struct Targets {
    /// The task that discovers the rules' series.
    pub(super) rules: watch::Sender<Arc<RuleSet>>,
    /// The queries of the rules.
    pub(super) answers: Arc<AnswerCache>,
    /// The provider of `resourceRules`.
    pub(super) provider: Arc<RuleProvider>,
    /// Whether there are `resourceRules`, for the registration of APIServices.
    pub(super) serves_resources: Arc<AtomicBool>,
    /// The task that runs the engine.
    pub(super) gpus: mpsc::UnboundedSender<(Config, Prometheus)>,
}

/// Follows the file.
#[derive(Debug)]
pub(super) struct Reload {
    file: Option<ConfigFile>,
    in_force: Config,
    targets: Targets,
    /// Whether the changed file is rejected, and why.
    check: Check,
    telemetry: Telemetry,
}

impl Reload {
    /// `config` is already in force.
    pub(super) fn new(
        file: Option<ConfigFile>,
        config: Config,
        targets: Targets,
        telemetry: &Telemetry,
    ) -> Self {
        let health = &telemetry.health;
        let reload = Self {
            file,
            in_force: config,
            targets,
            check: health.register("configuration", Weight::Detail, None),
            telemetry: telemetry.clone(),
        };
        let metrics = &telemetry.metrics;
        metrics.count(&catalog::CONFIG_FAILURES, &[], 0);
        reload.show();
        reload
    }

    /// The finding that the changed file is rejected; `None`: it is not.
    pub(super) fn refused(&self) -> SelfFinding {
        let check = self.check.clone();
        let path = self
            .file
            .as_ref()
            .map(|file| file.path.display().to_string());
        let path = path.unwrap_or_default();
        finding_reports::own(&self.telemetry.metrics, &GM603, move || {
            check.reason().map(|why| own::configuration(&path, &why))
        })
    }

    /// Applies each valid version, until cancelled.
    pub(super) async fn follow(mut self) {
        let Some(mut file) = self.file.take() else {
            // Keeps the receivers' channels open.
            return std::future::pending().await;
        };
        let mut hangups = signal(SignalKind::hangup()).ok();
        let mut is_missing = false;
        loop {
            let hung_up = async {
                match &mut hangups {
                    Some(hangups) => hangups.recv().await,
                    None => std::future::pending().await,
                }
            };
            let asked = tokio::select! {
                () = tokio::time::sleep(EVERY) => false,
                _ = hung_up => true,
            };
            match read(&file).await {
                Err(reason) => {
                    if !std::mem::replace(&mut is_missing, true) || asked {
                        let path = file.path.display();
                        self.refuse(&format!("{path}: cannot be read: {reason}"));
                    }
                }
                // The file is being written; the next read gets the complete file.
                Ok(text) if !asked && text != file.text && !stands(&file, &text).await => {}
                Ok(text) if text.trim().is_empty() && !file.text.trim().is_empty() && !asked => {
                    file.text.clone_from(&text);
                    let path = file.path.display();
                    let why = format!("{path}: it is empty; send SIGHUP to use it nevertheless");
                    self.refuse(&why);
                }
                Ok(text) => {
                    let was_missing = std::mem::take(&mut is_missing);
                    if text != file.text || asked || was_missing {
                        file.text = text;
                        self.read(&file).await;
                    }
                }
            }
        }
    }

    async fn read(&mut self, file: &ConfigFile) {
        let read = file.clone();
        match tokio::task::spawn_blocking(move || resolve(&read)).await {
            Ok(Ok((config, clients))) => self.take(config, clients),
            Ok(Err(reason)) => self.refuse(&reason),
            Err(error) => self.refuse(&error.to_string()),
        }
    }

    fn refuse(&mut self, reason: &str) {
        tracing::error!("the configuration in force stays in use: {reason}");
        let metrics = &self.telemetry.metrics;
        metrics.count(&catalog::CONFIG_FAILURES, &[], 1);
        self.check.show(reason.lines().next().map(str::to_owned));
    }

    /// Applies a valid file.
    fn take(&mut self, next: Config, mut clients: Clients) {
        for warning in &next.warnings {
            tracing::warn!("{warning}");
        }
        let targets = &self.targets;
        let mut prometheus = Arc::clone(&targets.rules.borrow().prometheus);
        if next.prometheus == self.in_force.prometheus {
            clients.share(&prometheus.replicas());
        } else {
            prometheus = Arc::new(clients.promql);
            targets.answers.switch_to(Arc::clone(&prometheus));
        }
        targets
            .rules
            .send_replace(Arc::new(RuleSet::new(&next, prometheus)));
        targets.provider.tell_usage(next.resource_rules.clone());
        targets
            .serves_resources
            .store(next.resource_rules.is_some(), Ordering::Relaxed);
        if !next.has_same_gpus(&self.in_force) {
            // The receiver is gone when the server stops.
            let _ = targets.gpus.send((next.clone(), clients.prometheus));
        }
        self.in_force = next;
        tracing::info!("the configuration file is in force");
        self.check.show(None);
        self.show();
    }

    fn show(&self) {
        let config = &self.in_force;
        self.telemetry.configuration.store(Arc::new(config.shown()));
        let metrics = &self.telemetry.metrics;
        let now = measure::secs(clock::now());
        metrics.show(&catalog::CONFIG_TIME, &[], Some(now));
        let faults = config.faults.len() as f64;
        metrics.show(&catalog::CONFIG_FAULTS, &[], Some(faults));
        for (kind, count) in [
            ("custom", config.rules.usable.len()),
            ("external", config.external_rules.usable.len()),
            ("resource", 2 * usize::from(config.resource_rules.is_some())),
        ] {
            metrics.show(&catalog::RULES, &[kind], Some(count as f64));
        }
    }
}

/// Parses a file and builds its clients. Blocks: thousands of rules take seconds.
fn resolve(file: &ConfigFile) -> Result<(Config, Clients), String> {
    let name = file.path.display().to_string();
    let config = Config::from_yaml(&name, &file.text, &file.flags);
    let config = config.map_err(|error| error.to_string())?;
    let clients = Clients::new(&config).map_err(|error| format!("{name}: {error}"))?;
    Ok((config, clients))
}

/// Whether the file is complete: its text stays the same for [`WRITTEN_IN`].
async fn stands(file: &ConfigFile, text: &str) -> bool {
    tokio::time::sleep(WRITTEN_IN).await;
    read(file).await.is_ok_and(|now| now == text)
}

async fn read(file: &ConfigFile) -> Result<String, String> {
    let path = file.path.clone();
    let bytes = file::run_blocking(move || file::read(&path)).await??;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}
