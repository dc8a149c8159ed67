//! Captures the log of a test.

use std::io;
use std::sync::{Arc, Mutex, Once};

/// The logged lines.
#[derive(Clone, Default)]
pub struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// All lines so far.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.0.lock().unwrap()).into_owned()
    }
}

/// Captures the log of this thread from now on.
pub fn logging(level: tracing::Level) -> (Log, tracing::subscriber::DefaultGuard) {
    // tracing disables a call site that logs for the first time without an interested
    // subscriber, until the subscribers change (tokio-rs/tracing
    // `tracing-core/src/callsite.rs`). A global subscriber that is interested in all lines
    // and writes none keeps concurrent tests from disabling each other's lines.
    static WANTS_ALL: Once = Once::new();
    WANTS_ALL.call_once(|| {
        let _ = tracing::subscriber::set_global_default(tracing_subscriber::registry());
    });
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(level)
        .with_writer(move || writer.clone())
        .with_ansi(false)
        .finish();
    (log, tracing::subscriber::set_default(subscriber))
}
