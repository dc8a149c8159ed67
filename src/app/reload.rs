//! Waits for a valid change of the configuration file, with which the server runs again. A
//! file with a fault stays out.

#[cfg(test)]
mod tests;

use std::future::pending;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::mpsc;
use tokio::time::Instant;

use super::finding_reports;
use crate::provider::composite::SelfFindings;
use crate::telemetry::Telemetry;
use crate::telemetry::health::{Check, Weight};
use crate::telemetry::metrics::Metrics;
use configuration::Config;
use configuration::clients::Clients;
use configuration::flags::ConfigFile;
use findings::codes::GM603;
use findings::own;
use limits::file;

/// How often the file is read. A mounted ConfigMap changes by a symbolic link, about a
/// minute after the object was written. File system events do not report such a change.
const EVERY: Duration = Duration::from_secs(5);

/// How often a refused file is tried again: what it names, such as the file of an
/// authority, may come later.
const RETRY: Duration = Duration::from_secs(30);

/// Replicas that share a file start again at different times of this many milliseconds.
const SPREAD_MS: u64 = 30_000;

/// A valid configuration with its clients.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// The file of the configuration.
    pub(crate) file: Option<ConfigFile>,
    pub(crate) clients: Clients,
}

/// Follows the file.
#[derive(Debug)]
pub(super) struct Reload {
    /// The file with the text in force.
    file: Option<ConfigFile>,
    /// Why the file is refused.
    check: Check,
    metrics: Arc<Metrics>,
    /// The time between a valid change and its use.
    pause: Duration,
}

impl Reload {
    /// The text of `file` is in force. `pod` is the name of this replica.
    pub(super) fn new(file: Option<ConfigFile>, pod: &str, telemetry: &Telemetry) -> Self {
        telemetry.metrics.config_reload_failures_total.add([], 0);
        Self {
            file,
            check: telemetry
                .health
                .register("configuration", Weight::Detail, None),
            metrics: telemetry.metrics.clone(),
            pause: pause(pod),
        }
    }

    /// The finding that the file is refused.
    pub(super) fn refused(&self) -> SelfFindings {
        let check = self.check.clone();
        let path = self
            .file
            .as_ref()
            .map(|file| file.path.display().to_string());
        let path = path.unwrap_or_default();
        finding_reports::own(&self.metrics, &GM603, move || {
            check.trouble().map(|why| own::configuration(&path, &why))
        })
    }

    /// Waits for a valid version of the file with another text, or for any valid version
    /// after a hangup.
    pub(super) async fn next(&self, hangups: &mut mpsc::Receiver<()>) -> Box<Loaded> {
        let Some(file) = &self.file else {
            return pending().await;
        };
        let mut former = Ok(file.text.clone());
        let mut refused: Option<Instant> = None;
        loop {
            let is_asked = tokio::select! {
                () = tokio::time::sleep(EVERY) => false,
                Some(()) = hangups.recv() => true,
            };
            let text = read(file).await;
            // A file that is being written is another one at the next look.
            let is_stable = text == former;
            former.clone_from(&text);
            if !is_asked {
                if text.as_ref() == Ok(&file.text) {
                    refused = None;
                    self.check.set(None);
                    continue;
                }
                if !is_stable || refused.is_some_and(|at| at.elapsed() < RETRY) {
                    refused = refused.filter(|_| is_stable);
                    continue;
                }
            }
            match resolve(file, text).await {
                Ok(loaded) => {
                    if !is_asked {
                        tokio::time::sleep(self.pause).await;
                    }
                    return loaded;
                }
                Err(reason) => {
                    refused = Some(Instant::now());
                    self.refuse(&reason);
                }
            }
        }
    }

    fn refuse(&self, reason: &str) {
        let line = reason.lines().next().map(str::to_owned);
        if self.check.trouble() != line {
            tracing::error!("the configuration in force stays in use: {reason}");
            self.metrics.config_reload_failures_total.add([], 1);
        }
        self.check.set(line);
    }
}

/// Parses a version of the file and makes its clients, on another thread: thousands of
/// rules take seconds.
async fn resolve(file: &ConfigFile, text: Result<String, String>) -> Result<Box<Loaded>, String> {
    let name = file.path.display().to_string();
    let text = text.map_err(|reason| format!("{name}: cannot be read: {reason}"))?;
    let file = ConfigFile {
        text,
        ..file.clone()
    };
    let loaded = tokio::task::spawn_blocking(move || {
        let config = Config::from_yaml(&name, &file.text, &file.flags);
        let config = config.map_err(|error| error.to_string())?;
        let clients = Clients::new(&config).map_err(|error| format!("{name}: {error}"))?;
        Ok(Box::new(Loaded {
            config,
            file: Some(file),
            clients,
        }))
    });
    loaded.await.map_err(|error| error.to_string())?
}

async fn read(file: &ConfigFile) -> Result<String, String> {
    let path = file.path.clone();
    let bytes = file::run_blocking(move || file::read(&path)).await??;
    String::from_utf8(bytes).map_err(|error| error.to_string())
}

/// A time that depends on the name of the pod. None without a name.
fn pause(pod: &str) -> Duration {
    if pod.is_empty() {
        return Duration::ZERO;
    }
    let mut hasher = DefaultHasher::new();
    pod.hash(&mut hasher);
    Duration::from_millis(hasher.finish() % SPREAD_MS)
}
