//! The command line.

use clap::{CommandFactory, Parser, Subcommand};

use super::{Failure, backtest, check, explain, shell, top, ui, usage};

/// Why GPU metrics and the autoscalers on them are what they are.
#[derive(Debug, Parser)]
#[command(
    name = "kubectl-gpu_metrics",
    bin_name = "kubectl gpu-metrics",
    version
)]
pub struct Line {
    #[command(subcommand)]
    pub command: Command,
}

#[derive(Debug, Subcommand)]
pub enum Command {
    /// Show the holders of GPUs, their load, and the autoscalers on them.
    Top(Box<top::TopArgs>),
    /// Add up GPU-hours held, active and idle, by owner, also in money.
    Usage(Box<usage::UsageArgs>),
    /// Explain how a value was computed, or why an HPA scaled.
    Explain(Box<explain::ExplainArgs>),
    /// Report problems of HPAs, registration, rights and files, with their remedies.
    Check(Box<check::CheckArgs>),
    /// Show the fleet, objects, autoscalers and findings in a browser.
    Ui(Box<ui::UiArgs>),
    /// Compute what an HPA would have done with the load of the last days.
    Backtest(Box<backtest::BacktestArgs>),
    /// Print the completion script of a shell.
    #[command(alias = "completions")]
    Completion(shell::CompletionArgs),
}

impl Command {
    /// Runs the command.
    ///
    /// # Errors
    /// The error tells the exit code ([`Failure::exit_code`]).
    pub async fn run(self) -> Result<(), Failure> {
        match self {
            Self::Top(args) => top::run(*args).await,
            Self::Usage(args) => usage::run(*args).await,
            Self::Explain(args) => explain::run(*args).await,
            Self::Check(args) => check::run(*args).await,
            Self::Ui(args) => ui::run(*args).await,
            Self::Backtest(args) => backtest::run(*args).await,
            Self::Completion(args) => shell::completion(&args, Line::command()),
        }
    }
}
