//! What ends a command from outside.

#[cfg(unix)]
use tokio::signal::unix as system;
#[cfg(windows)]
use tokio::signal::windows as system;

use super::Failure;

#[cfg(unix)]
type Interrupt = system::Signal;
#[cfg(unix)]
type Termination = system::Signal;
#[cfg(windows)]
type Interrupt = system::CtrlC;
#[cfg(windows)]
type Termination = system::CtrlClose;

/// SIGINT and SIGTERM; on Windows Ctrl-C and the end of the console.
#[derive(Debug)]
pub struct Signals {
    interrupt: Interrupt,
    terminate: Termination,
}

impl Signals {
    /// Handles both from now on.
    ///
    /// # Errors
    /// When the operating system takes no handler.
    pub fn new() -> Result<Self, Failure> {
        let failed = |error| Failure::Failed(format!("no signal handler: {error}"));
        #[cfg(unix)]
        let (interrupt, terminate) = (
            system::signal(system::SignalKind::interrupt()),
            system::signal(system::SignalKind::terminate()),
        );
        #[cfg(windows)]
        let (interrupt, terminate) = (system::ctrl_c(), system::ctrl_close());
        Ok(Self {
            interrupt: interrupt.map_err(failed)?,
            terminate: terminate.map_err(failed)?,
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
