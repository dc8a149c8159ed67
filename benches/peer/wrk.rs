//! Load by wrk; a client in Rust would be the bottleneck.

use std::process::Command;
use std::time::Duration;

const REMEDY: &str = "is missing: apt-get install wrk";

/// Each request has a new selector: `?labelSelector=size=few` continues with
/// `,n!=17`. Prints the fields of [`Load`].
const SCRIPT: &str = r#"
local number = 0
function init(arguments)
  number = tonumber(arguments[1])
end
function request()
  number = number + 1
  return wrk.format(nil, wrk.path .. "%2Cn%21%3D" .. number)
end
function done(summary, latency)
  local e = summary.errors
  print(string.format("RESULT %d %d %d %d %d", summary.requests, summary.duration,
    latency:percentile(50), latency:percentile(99),
    e.connect + e.read + e.write + e.status + e.timeout))
end
"#;

/// The result of a load.
#[derive(Clone, Copy, Debug)]
pub(super) struct Load {
    pub(super) requests: u64,
    pub(super) per_second: f64,
    /// Milliseconds.
    pub(super) p50: f64,
    pub(super) p99: f64,
}

/// Sends requests as fast as they are answered, on a number of connections for some
/// time. `path` ends in a selector. `first` is a number that no other load has
/// reached.
pub(super) fn load(
    port: u16,
    path: &str,
    token: &str,
    (connections, seconds): (u32, u32),
    first: u64,
) -> Load {
    let dir = tempfile::tempdir().unwrap();
    let script = dir.path().join("load.lua");
    std::fs::write(&script, SCRIPT).unwrap();
    let output = Command::new("wrk")
        .args([
            "-t1",
            "--timeout=60s",
            &format!("-c{connections}"),
            &format!("-d{seconds}s"),
        ])
        .arg("-H")
        .arg(format!("Authorization: Bearer {token}"))
        .arg("-s")
        .arg(&script)
        .arg(format!("https://127.0.0.1:{port}{path}"))
        .args(["--", &first.to_string()])
        .output()
        .unwrap_or_else(|error| panic!("wrk {REMEDY} ({error})"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let line = said.lines().find_map(|line| line.strip_prefix("RESULT "));
    let line =
        line.unwrap_or_else(|| panic!("{said}\n{}", String::from_utf8_lossy(&output.stderr)));
    let numbers: Vec<u64> = line.split(' ').map(|it| it.parse().unwrap()).collect();
    let [requests, duration, p50, p99, errors] = numbers[..] else {
        panic!("{said}");
    };
    assert_eq!(errors, 0, "{said}");
    Load {
        requests,
        per_second: requests as f64 / Duration::from_micros(duration).as_secs_f64(),
        p50: p50 as f64 / 1e3,
        p99: p99 as f64 / 1e3,
    }
}
