//! The commands of a cluster's users: `check`, `explain`, `top`, `usage`, `ui` and `backtest`, as a
//! plugin of kubectl.
//!
//! Each command has arguments for clap and a function that runs it with the user's own
//! credentials. It reads what the server and kube-apiserver answer and changes nothing.
//! The demonstration contains the commands too, and serves the pages of [`ui`].
//!
//! ```text
//!  check ─────────────┐
//!  explain ───────────┤
//!  top ── ui ─────────┼─► cluster ─► kube-apiserver ─► the server
//!  usage ─────────────┤
//!  backtest ─ replay ─┴─► history ─► Prometheus
//!
//!  all, and the pages of ui ─► document ─► text, HTML or JSON
//! ```

pub mod backtest;
pub mod check;
pub mod cluster;
pub mod commands;
mod devices;
mod document;
pub mod explain;
mod history;
mod kinds;
pub mod process;
pub mod replay;
pub mod shell;
pub mod terminal;
#[cfg(test)]
mod tests;
pub mod top;
pub mod ui;
pub mod usage;
mod values;

use configuration::ConfigurationError;
use configuration::NoPrometheus;

/// Why a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A usage error: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// The command failed: exit code 1.
    #[error("{0}")]
    Failed(String),
    /// The user has no right to it: exit code 1.
    #[error("{0}")]
    Refused(String),
    /// The check found something, and has printed it: exit code 1.
    #[error("findings")]
    Findings,
    /// It could not be checked: exit code 3.
    #[error("{0}")]
    Unchecked(String),
}

impl Failure {
    /// The process' exit code.
    #[must_use]
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failed(_) | Self::Refused(_) | Self::Findings => 1,
            Self::Unchecked(_) => 3,
        }
    }
}

impl From<serde_json::Error> for Failure {
    fn from(error: serde_json::Error) -> Self {
        Self::Failed(error.to_string())
    }
}

impl From<ConfigurationError> for Failure {
    fn from(error: ConfigurationError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<NoPrometheus> for Failure {
    fn from(error: NoPrometheus) -> Self {
        match error {
            NoPrometheus::NoAddress => Self::Usage(error.to_string()),
            NoPrometheus::Unusable(error) => Self::Failed(error.to_string()),
        }
    }
}
