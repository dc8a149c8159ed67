//! The binary `kubectl-gpu_metrics`, which kubectl runs as `kubectl gpu-metrics`.

use std::process::ExitCode;

use clap::Parser;

use kubectl_gpu_metrics::commands::Line;
use kubectl_gpu_metrics::process;

fn main() -> ExitCode {
    process::run(Line::parse().command.run())
}
