//! The command line: the flags of the server, which is the only command.

pub(crate) mod flags;
#[cfg(test)]
mod tests;

use std::io::{self, Write};
use std::process::ExitCode;

use clap::Parser;
use tracing::Level;

use apimachinery::letters::escaped;
use configuration::retired;

use crate::app::server;
use crate::telemetry;
use flags::ServeArgs;

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
    flags: ServeArgs,
}

/// Parses the arguments and runs the server. Returns the process' exit code.
#[must_use]
pub fn run() -> ExitCode {
    let (words, without_effect) = retired::take_out(std::env::args_os());
    let Cli { flags } = Cli::parse_from(words);
    // Up to 4, which prometheus-adapter's chart sets, only lines that need an action are
    // logged.
    let level = match flags.logging.v {
        0..=4 => Level::INFO,
        5 => Level::DEBUG,
        6.. => Level::TRACE,
    };
    telemetry::init(level, flags.logging.logging_format);
    for warning in &without_effect {
        tracing::warn!("{warning}");
    }
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
    let outcome = runtime.block_on(server::serve(&flags));
    // A hanging lookup in a blocking thread must not delay the exit.
    runtime.shutdown_background();
    let Err(error) = outcome else {
        return ExitCode::SUCCESS;
    };
    let error = error.to_string();
    let lines: Vec<_> = error.split('\n').map(escaped).collect();
    // A closed output is ignored; the exit code stays.
    let _ = writeln!(io::stderr(), "error: {}", lines.join("\n"));
    ExitCode::FAILURE
}
