//! Waits for a valid change of the configuration file, with which the server runs again. A
//! file with a fault stays out.

#[cfg(test)]
mod tests;

use std::future::pending;
use std::time::Duration;

use tokio::sync::{mpsc, watch};

use super::RunError;
use cluster_state::clock;
use configuration::flags::ConfigFile;
use configuration::{Config, Flags};
use limits::file;
use prometheus_source::Prometheus;

/// How often the file is read. A mounted ConfigMap changes by a symbolic link, about a
/// minute after the object was written. File system events do not report such a change. A
/// refused file is tried again each time: what it names, such as the file of an authority,
/// may come later.
const EVERY: Duration = Duration::from_secs(10);

/// The longest time between a valid change and its use, so that replicas that share a file
/// start again at different times.
const SPREAD: Duration = Duration::from_secs(30);

/// A valid configuration with the client of its Prometheus.
#[derive(Debug)]
pub(crate) struct Loaded {
    pub(crate) config: Config,
    /// The file of the configuration.
    pub(crate) file: Option<ConfigFile>,
    pub(crate) prometheus: Prometheus,
}

impl Loaded {
    /// Reads what the flags name.
    pub(crate) fn by(flags: &Flags) -> Result<Self, RunError> {
        let (config, file) = flags.load()?;
        Self::new(config, file)
    }

    fn new(config: Config, file: Option<ConfigFile>) -> Result<Self, RunError> {
        Ok(Self {
            prometheus: config.client()?,
            config,
            file,
        })
    }
}

/// Waits for a valid version of the file with another text than the one in force, or for any
/// valid version after a hangup. `refused` has why the file stays out.
pub(super) async fn changed(
    file: Option<&ConfigFile>,
    hangups: &mut mpsc::Receiver<()>,
    refused: &watch::Sender<Option<String>>,
) -> Box<Loaded> {
    let Some(file) = file else {
        return pending().await;
    };
    let mut last = Ok(file.text.clone().into_bytes());
    loop {
        let is_asked = tokio::select! {
            () = tokio::time::sleep(EVERY) => false,
            Some(()) = hangups.recv() => true,
        };
        let text = file::read_apart(&file.path).await;
        // A file that is being written is another one at the next look.
        let is_stable = std::mem::replace(&mut last, text.clone()) == text;
        if !is_asked && !is_stable {
            continue;
        }
        let is_wanted = is_asked || text.as_deref() != Ok(file.text.as_bytes());
        let reason = match is_wanted {
            false => None,
            true => match load(file, text).await {
                Ok(loaded) => {
                    if !is_asked {
                        tokio::time::sleep(SPREAD.mul_f64(clock::jitter())).await;
                    }
                    return loaded;
                }
                Err(reason) => Some(reason),
            },
        };
        let first_line = reason.as_ref().and_then(|it| it.lines().next());
        let first_line = first_line.map(str::to_owned);
        let former = refused.send_replace(first_line.clone());
        if former != first_line
            && let Some(reason) = reason
        {
            tracing::error!("the configuration in force stays in use: {reason}");
        }
    }
}

/// Loads a version of the file, on another thread: thousands of rules take seconds.
async fn load(file: &ConfigFile, text: Result<Vec<u8>, String>) -> Result<Box<Loaded>, String> {
    let flags = file.flags.clone();
    let load = move || {
        let (config, file) = flags.resolve(Some(text))?;
        Loaded::new(config, file).map(Box::new)
    };
    let loaded = tokio::task::spawn_blocking(load).await;
    let loaded = loaded.map_err(|error| error.to_string())?;
    loaded.map_err(|error| error.to_string())
}
