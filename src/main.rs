//! The binary: calls [`gpu_metrics_apiserver::cli`].

use std::process::ExitCode;

fn main() -> ExitCode {
    // One crypto provider for all incoming and outgoing TLS connections.
    if rustls::crypto::aws_lc_rs::default_provider()
        .install_default()
        .is_err()
    {
        eprintln!("error: another TLS crypto provider is installed already");
        return ExitCode::FAILURE;
    }
    gpu_metrics_apiserver::cli::run()
}
