//! Opens an address in the user's browser.

use std::process::{Command, Stdio};

/// The program of the platform that opens an address, with its first argument.
const OPENER: &[&str] = if cfg!(windows) {
    &["rundll32", "url.dll,FileProtocolHandler"]
} else if cfg!(target_os = "macos") {
    &["open"]
} else {
    &["xdg-open"]
};

/// Starts the browser. A failure needs no message, because the address is printed too.
pub(super) fn open(address: &str) {
    if let [program, arguments @ ..] = OPENER {
        let mut command = Command::new(program);
        command.args(arguments).arg(address);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let _ = command.stderr(Stdio::null()).spawn();
    }
}
