//! The command line: one file per subcommand.

pub mod certs;
pub mod demo;
mod serve;

use std::ffi::OsString;
use std::fmt::Display;
use std::io::{self, Write};
use std::ops::RangeInclusive;
use std::process::ExitCode;
use std::str::FromStr;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};

/// Kubernetes custom and external metrics from NVIDIA DCGM series.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-metrics-apiserver",
    version,
    args_conflicts_with_subcommands = true,
    // As pflag: the last one wins.
    args_override_self = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// The server of a cluster; what runs without a command, too.
    Serve(Box<serve::ServeArgs>),
    /// The whole thing on a laptop: a simulated GPU fleet, served over TLS.
    Demo(demo::DemoArgs),
    /// An authority, a serving certificate and its key, for development.
    Certs(certs::CertsArgs),
}

/// A parser of numbers that says which ones may be written.
fn number<N>(range: RangeInclusive<N>) -> impl Fn(&str) -> Result<N, String> + Clone
where
    N: FromStr + PartialOrd + Display + Clone,
{
    move |text| {
        let number = text.parse().ok().filter(|number| range.contains(number));
        number.ok_or_else(|| {
            format!(
                "write a whole number from {} to {}",
                range.start(),
                range.end()
            )
        })
    }
}

/// How a command failed.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user asked for what cannot be: exit code 2.
    #[error("{0}")]
    Usage(String),
    /// What was asked for did not work out: exit code 1.
    #[error("{0}")]
    Failed(String),
}

impl Failure {
    const fn code(&self) -> u8 {
        match self {
            Self::Usage(_) => 2,
            Self::Failed(_) => 1,
        }
    }
}

/// A first word that is no command. Later words, and a path in front such as
/// prometheus-adapter's chart passes, have no effect: its parser ignores them.
fn mistyped_command(words: &[OsString]) -> Option<clap::Error> {
    let first = words.get(1)?.to_str()?;
    let mut cli = Cli::command();
    let is_command = first == "help" || cli.find_subcommand(first).is_some();
    if is_command || first.is_empty() || first.starts_with(['-', '/']) {
        return None;
    }
    let message = format!("unrecognized subcommand '{first}'");
    Some(cli.error(ErrorKind::InvalidSubcommand, message))
}

/// Parses the arguments and runs the command; the process' exit code.
#[must_use]
pub fn run() -> ExitCode {
    let (words, without_effect) = serve::retired::take_out(std::env::args_os());
    if let Some(mistyped) = mistyped_command(&words) {
        mistyped.exit();
    }
    let cli = Cli::parse_from(words);
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
    let command = cli
        .command
        .unwrap_or_else(|| Command::Serve(Box::new(cli.serve)));
    let outcome = match command {
        Command::Serve(args) => runtime.block_on(serve::run(*args, without_effect)),
        Command::Demo(args) => runtime.block_on(demo::run(args)),
        Command::Certs(args) => certs::run(&args, std::time::SystemTime::now()),
    };
    // A lookup that hangs in a blocking thread must not hold up the exit.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            // Nobody may be left to read it; the exit code stands.
            let _ = writeln!(io::stderr(), "error: {failure}");
            ExitCode::from(failure.code())
        }
    }
}
