//! What the program says of itself.

use std::io::IsTerminal;

use tracing_subscriber::EnvFilter;

/// Starts logging to standard error: `info` and above, or what `RUST_LOG` says.
/// Called once; a second call changes nothing.
pub fn init() {
    let filter = EnvFilter::try_from_default_env().unwrap_or_else(|_| EnvFilter::new("info"));
    let _ = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(std::io::stderr)
        // Colours are for people: in a file they are noise.
        .with_ansi(std::io::stderr().is_terminal())
        .with_target(false)
        .try_init();
}
