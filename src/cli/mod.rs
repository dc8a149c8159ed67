//! The command line: the flags of the server, which is the only command.

mod serve;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;

use apimachinery::letters::escaped;
use configuration::clients::NoClients;
use configuration::{ConfigurationError, retired};

/// Kubernetes custom and external metrics from NVIDIA DCGM series.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-metrics-apiserver",
    version,
    // As in pflag, the last one counts.
    args_override_self = true
)]
struct Cli {
    #[command(flatten)]
    serve: serve::ServeArgs,
}

/// Why the server did not start.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    /// A flag or the configuration is wrong: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// Anything else: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl From<ConfigurationError> for Failure {
    fn from(error: ConfigurationError) -> Self {
        Self::Usage(error.to_string())
    }
}

impl From<NoClients> for Failure {
    fn from(error: NoClients) -> Self {
        match error {
            NoClients::NoAddress => Self::Usage(error.to_string()),
            NoClients::Unusable(error) => Self::Failed(error.to_string()),
        }
    }
}

/// Parses the arguments and runs the server. Returns the process' exit code.
#[must_use]
pub fn run() -> ExitCode {
    let (words, without_effect) = retired::take_out(std::env::args_os());
    let Cli { serve } = Cli::parse_from(words);
    let runtime = match tokio::runtime::Builder::new_multi_thread()
        .enable_all()
        .build()
    {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("error: no runtime: {error}");
            return ExitCode::FAILURE;
        }
    };
    let outcome = runtime.block_on(serve::run(serve, without_effect));
    // A hanging lookup in a blocking thread must not delay the exit.
    runtime.shutdown_background();
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    let text = failure.to_string();
    for (index, line) in text.split('\n').enumerate() {
        let label = if index == 0 { "error: " } else { "" };
        // A closed output is ignored; the exit code stays.
        let _ = writeln!(io::stderr(), "{label}{}", escaped(line));
    }
    match failure {
        Failure::Usage(_) => ExitCode::from(2),
        Failure::Failed(_) => ExitCode::FAILURE,
    }
}
