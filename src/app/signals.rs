//! What the signals of the process ask for.

use std::io;

use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;

/// Requests to the running server.
#[derive(Debug)]
pub(crate) struct Signals {
    /// SIGINT and SIGTERM: the first drains, the second ends the process at once.
    pub(crate) stop: mpsc::Receiver<()>,
    /// SIGHUP: the configuration is read again.
    pub(crate) hangup: mpsc::Receiver<()>,
}

impl Signals {
    /// Handles the signals from now on, within a Tokio runtime.
    ///
    /// # Errors
    /// When the operating system takes no handler.
    pub(crate) fn of_process() -> io::Result<Self> {
        let mut interrupts = signal(SignalKind::interrupt())?;
        let mut terminations = signal(SignalKind::terminate())?;
        let mut hangups = signal(SignalKind::hangup())?;
        let (stopper, stop) = mpsc::channel(2);
        let (reloader, hangup) = mpsc::channel(1);
        tokio::spawn(async move {
            loop {
                // A full channel has the same request already.
                let _ = tokio::select! {
                    _ = interrupts.recv() => stopper.try_send(()),
                    _ = terminations.recv() => stopper.try_send(()),
                    _ = hangups.recv() => reloader.try_send(()),
                };
            }
        });
        Ok(Self { stop, hangup })
    }
}
