//! The process of a command, from its runtime to its exit code.

use std::future::Future;
use std::io::{self, Write};
use std::process::ExitCode;

use tokio::signal::ctrl_c;

use super::Failure;
use super::terminal::shown;

/// Waits for Ctrl-C; on Unix also for SIGTERM.
///
/// # Errors
/// When the operating system takes no handler.
pub async fn interrupted() -> io::Result<()> {
    #[cfg(unix)]
    {
        use tokio::signal::unix::{SignalKind, signal};
        let mut terminate = signal(SignalKind::terminate())?;
        tokio::select! {
            interrupted = ctrl_c() => interrupted,
            _ = terminate.recv() => Ok(()),
        }
    }
    #[cfg(not(unix))]
    ctrl_c().await
}

/// Runs a command to its end, and prints why it failed.
pub fn run(command: impl Future<Output = Result<(), Failure>>) -> ExitCode {
    // One crypto provider for all TLS connections.
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    if provider.install_default().is_err() {
        eprintln!("error: another TLS crypto provider is installed already");
        return ExitCode::FAILURE;
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
    let outcome = runtime.block_on(command);
    // A hanging lookup in a blocking thread must not delay the exit.
    runtime.shutdown_background();
    let Err(failure) = outcome else {
        return ExitCode::SUCCESS;
    };
    if !matches!(failure, Failure::Findings) {
        // A closed output is ignored; the exit code stays.
        let _ = writeln!(io::stderr(), "error: {}", shown(&failure.to_string()));
    }
    ExitCode::from(failure.exit_code())
}
