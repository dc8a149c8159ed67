//! HTTP requests by curl, for tests without a runtime.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// The body of the answer, whatever its status; empty if there is no answer. A request
/// with a body is a POST of JSON.
pub(crate) fn curl(url: &str, body: &str) -> String {
    let mut command = Command::new("curl");
    command.args([
        "--silent",
        "--show-error",
        "--insecure",
        "--noproxy",
        "*",
        url,
    ]);
    if !body.is_empty() {
        command.args(["--header", "Content-Type: application/json"]);
        command.args(["--data-binary", "@-"]);
    }
    let mut curl = command
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap_or_else(|error| panic!("curl: apt-get install curl ({error})"));
    let mut input = curl.stdin.take().unwrap();
    input.write_all(body.as_bytes()).unwrap();
    drop(input);
    let output = curl.wait_with_output().unwrap();
    String::from_utf8_lossy(&output.stdout).into_owned()
}
