//! The signals that end a command.

use tokio::signal::unix::{Signal, SignalKind, signal};

use super::Failure;

/// SIGINT and SIGTERM.
#[derive(Debug)]
pub struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    /// Handles both signals from now on.
    ///
    /// # Errors
    /// When the operating system takes no handler.
    pub fn new() -> Result<Self, Failure> {
        let handler = |kind| {
            signal(kind).map_err(|error| Failure::Failed(format!("no signal handler: {error}")))
        };
        Ok(Self {
            interrupt: handler(SignalKind::interrupt())?,
            terminate: handler(SignalKind::terminate())?,
        })
    }

    /// Waits for either of them.
    pub async fn wait(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}
