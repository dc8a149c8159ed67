//! The command line, with one file per subcommand.

pub mod certs;
pub mod demo;
mod serve;
mod shell;

use std::ffi::OsString;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::path::Path;
use std::process::ExitCode;

use clap::error::ErrorKind;
use clap::{CommandFactory, Parser, Subcommand};
use tokio::net::TcpListener;

use configuration::retired;
use findings::names::nearest;
use kubectl_gpu_metrics::terminal::shown;
use kubectl_gpu_metrics::{Failure, backtest, check, explain, top, ui};

/// Kubernetes custom and external metrics from NVIDIA DCGM series.
#[derive(Debug, Parser)]
#[command(
    name = "gpu-metrics-apiserver",
    version,
    args_conflicts_with_subcommands = true,
    // As in pflag, the last one counts.
    args_override_self = true
)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

/// The file name by which kubectl finds a plugin.
const PLUGIN: &str = "kubectl-gpu_metrics";

/// Why GPU metrics and the autoscalers on them are what they are.
#[derive(Debug, Parser)]
#[command(name = PLUGIN, bin_name = "kubectl gpu-metrics", version)]
struct Plugin {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Run the API server (the default command).
    Serve(Box<serve::ServeArgs>),
    /// Run everything on a laptop: a simulated GPU fleet, served over TLS.
    Demo(demo::DemoArgs),
    /// Report problems of HPAs, registration, rights and files, with their remedies.
    Check(Box<check::CheckArgs>),
    /// Explain how a value was computed, or why an HPA scaled.
    Explain(Box<explain::ExplainArgs>),
    /// Compute what an HPA would have done with the load of the last days.
    Backtest(Box<backtest::BacktestArgs>),
    /// Show the pods, workloads, namespaces or nodes that hold GPUs, and their load.
    Top(Box<top::TopArgs>),
    /// Show the fleet, objects, HPAs and findings in a browser.
    Ui(ui::UiArgs),
    /// Make a CA, a serving certificate and its key, for development.
    Certs(certs::CertsArgs),
    /// Print completions for a shell.
    Completions(shell::CompletionsArgs),
    /// Man pages.
    #[command(hide = true)]
    Man(shell::ManArgs),
}

/// Binds a port, which `flag` selects.
async fn bind(address: SocketAddr, flag: &str) -> Result<TcpListener, Failure> {
    TcpListener::bind(address).await.map_err(|error| {
        Failure::Failed(format!(
            "cannot listen on {address}: {error}: stop the program that uses the port, or choose \
             another with {flag}"
        ))
    })
}

/// The error for an unknown command as the first word. Later words, and a path as the first
/// word (prometheus-adapter's chart passes one), have no effect, as in its parser.
fn mistyped_command(words: &[OsString], mut cli: clap::Command) -> Option<clap::Error> {
    let first = words.get(1)?.to_str()?;
    let is_command = first == "help" || cli.find_subcommand(first).is_some();
    if is_command || first.is_empty() || first.starts_with(['-', '/']) {
        return None;
    }
    let known = cli.get_subcommands().map(clap::Command::get_name);
    let mut text = format!("unrecognized subcommand '{first}'");
    if let Some(meant) = nearest(first, known, 2) {
        text += &format!("\n\n  tip: a similar subcommand exists: '{meant}'");
    }
    Some(cli.error(ErrorKind::InvalidSubcommand, text))
}

/// Parses the arguments and runs the command. Returns the process' exit code.
#[must_use]
pub fn run() -> ExitCode {
    let (words, without_effect) = retired::take_out(std::env::args_os());
    let called = words.first().and_then(|word| Path::new(word).file_name());
    let is_plugin = called.is_some_and(|name| name == PLUGIN);
    let line = if is_plugin {
        Plugin::command()
    } else {
        Cli::command()
    };
    if let Some(mistyped) = mistyped_command(&words, line) {
        mistyped.exit();
    }
    let command = if is_plugin {
        Plugin::parse_from(words).command
    } else {
        let Cli { command, serve } = Cli::parse_from(words);
        command.unwrap_or_else(|| Command::Serve(Box::new(serve)))
    };
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
    let outcome = match command {
        Command::Serve(args) => runtime.block_on(serve::run(*args, without_effect)),
        Command::Demo(args) => runtime.block_on(demo::run(args)),
        Command::Check(args) => runtime.block_on(check::run(*args)),
        Command::Explain(args) => runtime.block_on(explain::run(*args)),
        Command::Backtest(args) => runtime.block_on(backtest::run(*args)),
        Command::Top(args) => runtime.block_on(top::run(*args)),
        Command::Ui(args) => runtime.block_on(ui::run(args)),
        Command::Certs(args) => certs::run(&args, std::time::SystemTime::now()),
        Command::Completions(args) => shell::completions(&args),
        Command::Man(args) => shell::man(&args, Cli::command()),
    };
    // A hanging lookup in a blocking thread must not delay the exit.
    runtime.shutdown_background();
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            if !matches!(failure, Failure::Findings) {
                // A closed output is ignored; the exit code stays.
                let _ = writeln!(io::stderr(), "error: {}", shown(&failure.to_string()));
            }
            ExitCode::from(failure.exit_code())
        }
    }
}
