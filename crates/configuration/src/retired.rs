//! Flags of prometheus-adapter that have no effect here. They are accepted, so that a
//! Deployment works after a change of only its image. Each is reported once. None of them
//! restricts access.

use std::ffi::OsString;

const KLOG: &str = "flags of klog are not supported: see --v and --logging-format";
const CLIENT: &str = "requests to kube-apiserver are few and not throttled";
const PROFILING: &str = "there is no profiling endpoint";
const PRIORITY: &str = "concurrent requests are limited: see --max-requests-inflight";
const SUITES: &str = "only suites with forward secrecy and authenticated encryption are offered";
const STREAMS: &str = "streams are limited: 250 to a front proxy, 16 to others";

/// The flags, whether they take a value (`--name value` or `--name=value`, else `--name` or
/// `--name=true`), and why they have no effect. Sources: custom-metrics-apiserver
/// `pkg/cmd/builder.go`, apiserver `pkg/server/options`, klog.
const FLAGS: [(&str, bool, &str); 25] = [
    ("discovery-interval", true, "kinds are read at each relist"),
    ("client-qps", true, CLIENT),
    ("client-burst", true, CLIENT),
    ("debug-socket-path", true, PROFILING),
    ("http2-max-streams-per-connection", true, STREAMS),
    ("log-backtrace-at", true, KLOG),
    ("log-dir", true, KLOG),
    ("log-file", true, KLOG),
    ("log-file-max-size", true, KLOG),
    ("log-flush-frequency", true, KLOG),
    ("stderrthreshold", true, KLOG),
    ("vmodule", true, KLOG),
    ("tls-cipher-suites", true, SUITES),
    (
        "tls-sni-cert-key",
        true,
        "one certificate is served: see --tls-cert-file",
    ),
    ("profiling", false, PROFILING),
    ("contention-profiling", false, PROFILING),
    ("enable-priority-and-fairness", false, PRIORITY),
    ("permit-address-sharing", false, "the address is not shared"),
    ("permit-port-sharing", false, "the port is not shared"),
    ("logtostderr", false, KLOG),
    ("alsologtostderr", false, KLOG),
    ("add-dir-header", false, KLOG),
    ("one-output", false, KLOG),
    ("skip-headers", false, KLOG),
    ("skip-log-headers", false, KLOG),
];

/// Prefix of some twenty flags about the audit log.
const AUDIT: &str = "audit-";
const AUDIT_WHY: &str = "requests are audited in the server's own log";
/// Suffixes of the audit flags that take no value.
const AUDIT_SWITCHES: [&str; 3] = ["-compress", "-throttle-enable", "-truncate-enabled"];

/// Removes the flags without effect from a command line. Returns a warning for each removed name.
#[must_use]
pub fn take_out(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut left, mut sentences) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let Some((name, takes_value, why)) = text.strip_prefix("--").and_then(find) else {
            left.push(word);
            continue;
        };
        let sentence = format!("--{name} has no effect: {why}");
        if takes_value && !text.contains('=') {
            words.next();
        }
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    (left, sentences)
}

/// Finds the flag in an argument without its dashes: its name, whether it takes a value,
/// and why it has no effect.
fn find(word: &str) -> Option<(String, bool, &'static str)> {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    // pflag accepts underscores for dashes in klog's names.
    let name = name.replace('_', "-");
    if name.starts_with(AUDIT) {
        let is_switch = AUDIT_SWITCHES.iter().any(|end| name.ends_with(end));
        return Some((name, !is_switch, AUDIT_WHY));
    }
    let (_, takes_value, why) = FLAGS.iter().find(|(known, ..)| *known == name)?;
    Some((name, *takes_value, why))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn taken(words: &str) -> (String, Vec<String>) {
        let (left, sentences) = take_out(words.split(' ').map(OsString::from));
        let left: Vec<_> = left.iter().map(|word| word.to_str().unwrap()).collect();
        (left.join(" "), sentences)
    }

    #[test]
    fn flags_without_effect_are_removed_with_their_values_and_reported_once() {
        for row in [
            "x --v=4 --config a | x --v=4 --config a | 0",
            "x --logtostderr=true --v=4 | x --v=4 | 1",
            "x --logtostderr --v=4 | x --v=4 | 1",
            "x --client-qps 100 --client-qps=5 --v=4 | x --v=4 | 1",
            "x --audit-log-path - --audit-log-compress --v=4 | x --v=4 | 2",
            "x --audit-webhook-batch-throttle-enable=false --v=4 | x --v=4 | 1",
            "x --log_dir /tmp -v 6 | x -v 6 | 1",
            "x --vmodule | x | 1",
        ] {
            let cells: Vec<&str> = row.split(" | ").collect();
            let (rest, sentences) = taken(cells[0]);
            assert_eq!(rest, cells[1], "{row}");
            assert_eq!(sentences.len().to_string(), cells[2], "{row}");
        }
        assert_eq!(
            taken("x --client-qps=1").1,
            ["--client-qps has no effect: requests to kube-apiserver are few and not throttled"]
        );
    }
}
