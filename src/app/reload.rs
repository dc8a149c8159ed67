//! The configuration file, read again when it changes or on SIGHUP. A bad one
//! leaves the old one in force, whole.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;

use crate::config::{Config, Flags};
use crate::file;
use crate::rules::rule::Rule;
use crate::telemetry::health::{Check, State};

/// How often the file is looked at. A mounted ConfigMap changes by a symbolic
/// link, a minute or so after it was written; events of the file system are no
/// help there.
const EVERY: Duration = Duration::from_secs(5);

/// What a change of the file puts in force.
#[derive(Clone, Debug, Default)]
pub struct RuleSet {
    /// The usable `rules`.
    pub rules: Vec<Rule>,
    /// The usable `externalRules`.
    pub external_rules: Vec<Rule>,
}

impl From<&Config> for RuleSet {
    fn from(config: &Config) -> Self {
        Self {
            rules: config.rules.usable.clone(),
            external_rules: config.external_rules.usable.clone(),
        }
    }
}

impl RuleSet {
    /// All of them.
    pub fn iter(&self) -> impl Iterator<Item = &Rule> {
        self.rules.iter().chain(&self.external_rules)
    }
}

/// The file of `--config` and what the command line says over it.
#[derive(Debug)]
pub struct ConfigFile {
    /// The file.
    pub path: PathBuf,
    /// The command line.
    pub flags: Flags,
}

impl ConfigFile {
    /// Puts the rules of each good version in force; for ever.
    pub(super) async fn follow(
        self,
        mut in_force: Config,
        rules: watch::Sender<Arc<RuleSet>>,
        check: Check,
    ) {
        let mut hangups = signal(SignalKind::hangup()).ok();
        let mut seen = self.read().await.ok();
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
            let text = match self.read().await {
                Ok(text) => text,
                Err(reason) => {
                    // Between two links of a mounted ConfigMap there may be none.
                    if asked {
                        self.refuse(&check, &reason);
                    }
                    continue;
                }
            };
            if seen.as_ref() == Some(&text) && !asked {
                continue;
            }
            match Config::from_yaml(&self.path.display().to_string(), &text, &self.flags) {
                Ok(next) => {
                    take(&in_force, &next, &rules, &check);
                    in_force = next;
                }
                Err(error) => self.refuse(&check, &error.to_string()),
            }
            seen = Some(text);
        }
    }

    async fn read(&self) -> Result<String, String> {
        let path = self.path.clone();
        let bytes = file::aside(move || file::read(&path)).await??;
        String::from_utf8(bytes).map_err(|error| error.to_string())
    }

    fn refuse(&self, check: &Check, reason: &str) {
        tracing::error!("the configuration in force stays: {reason}");
        let first = reason.lines().next().unwrap_or_default();
        check.set(State::Failed(format!("{}: {first}", self.path.display())));
    }
}

/// Puts the rules of a good file in force.
fn take(before: &Config, next: &Config, rules: &watch::Sender<Arc<RuleSet>>, check: &Check) {
    for warning in &next.warnings {
        tracing::warn!("{warning}");
    }
    rules.send_replace(Arc::new(RuleSet::from(next)));
    tracing::info!("the rules of the changed configuration file are in force");
    if next.has_same_settings(before) {
        check.ok();
    } else {
        let sentence = "prometheus, gpu or resourceRules have changed: restart the server to put \
                        them in force; rules are in force";
        tracing::warn!("{sentence}");
        check.set(State::Failed(sentence.to_owned()));
    }
}
