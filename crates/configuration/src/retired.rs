//! Flags of prometheus-adapter that have no effect here. They are accepted, so
//! that a Deployment works with only its image changed, and each is reported once.
//! None of them restricts access or TLS: the flags that do are implemented.

use std::ffi::OsString;

/// Whether a flag takes a word of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Takes {
    /// `--name value` or `--name=value`.
    Value,
    /// `--name` or `--name=true`.
    Nothing,
}

const KLOG: &str = "klog's flags are gone: see --v and --logging-format";
const CLIENT: &str = "requests to kube-apiserver are few and not throttled";
const PROFILING: &str = "there is no profiling endpoint";

/// Name, form, and why it has no effect. Sources: custom-metrics-apiserver
/// `pkg/cmd/builder.go`, apiserver `pkg/server/options`, klog.
const FLAGS: &[(&str, Takes, &str)] = &[
    (
        "discovery-interval",
        Takes::Value,
        "kinds are read at each relist",
    ),
    ("client-qps", Takes::Value, CLIENT),
    ("client-burst", Takes::Value, CLIENT),
    ("profiling", Takes::Nothing, PROFILING),
    ("contention-profiling", Takes::Nothing, PROFILING),
    ("debug-socket-path", Takes::Value, PROFILING),
    (
        "enable-priority-and-fairness",
        Takes::Nothing,
        "requests at a time are bounded: see --max-requests-inflight",
    ),
    (
        "http2-max-streams-per-connection",
        Takes::Value,
        "streams are bounded: 250 to a front proxy, 16 to others",
    ),
    (
        "permit-address-sharing",
        Takes::Nothing,
        "the address is not shared",
    ),
    (
        "permit-port-sharing",
        Takes::Nothing,
        "the port is not shared",
    ),
    ("logtostderr", Takes::Nothing, KLOG),
    ("alsologtostderr", Takes::Nothing, KLOG),
    ("add-dir-header", Takes::Nothing, KLOG),
    ("one-output", Takes::Nothing, KLOG),
    ("skip-headers", Takes::Nothing, KLOG),
    ("skip-log-headers", Takes::Nothing, KLOG),
    ("log-backtrace-at", Takes::Value, KLOG),
    ("log-dir", Takes::Value, KLOG),
    ("log-file", Takes::Value, KLOG),
    ("log-file-max-size", Takes::Value, KLOG),
    ("log-flush-frequency", Takes::Value, KLOG),
    ("stderrthreshold", Takes::Value, KLOG),
    ("vmodule", Takes::Value, KLOG),
];

/// Prefix of some twenty flags about the audit log.
const AUDIT: &str = "audit-";
const AUDIT_WHY: &str = "requests are audited in the server's own log";
/// Suffixes of those that take no value.
const AUDIT_SWITCHES: [&str; 3] = ["-compress", "-throttle-enable", "-truncate-enabled"];

/// Removes the flags without effect from a command line. Returns a sentence for each
/// name.
#[must_use]
pub fn take_out(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut left, mut sentences) = (Vec::new(), Vec::new());
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let text = word.to_str().unwrap_or_default();
        let Some((name, takes, why)) = text.strip_prefix("--").and_then(find) else {
            left.push(word);
            continue;
        };
        let sentence = format!("--{name} has no effect: {why}");
        if takes == Takes::Value && !text.contains('=') {
            words.next();
        }
        if !sentences.contains(&sentence) {
            sentences.push(sentence);
        }
    }
    (left, sentences)
}

/// The flag of a word without its dashes.
fn find(word: &str) -> Option<(String, Takes, &'static str)> {
    let name = word.split_once('=').map_or(word, |(name, _)| name);
    // pflag accepts underscores for dashes in klog's names.
    let name = name.replace('_', "-");
    if name.starts_with(AUDIT) {
        let is_switch = AUDIT_SWITCHES.iter().any(|end| name.ends_with(end));
        let takes = if is_switch {
            Takes::Nothing
        } else {
            Takes::Value
        };
        return Some((name, takes, AUDIT_WHY));
    }
    let (_, takes, why) = FLAGS.iter().find(|(known, ..)| *known == name)?;
    Some((name, *takes, why))
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
    fn what_has_no_effect_is_taken_out_with_its_value_and_said_once() {
        for (words, left, said) in [
            ("x --v=4 --config a", "x --v=4 --config a", 0),
            ("x --logtostderr=true --v=4", "x --v=4", 1),
            ("x --logtostderr --v=4", "x --v=4", 1),
            ("x --client-qps 100 --client-qps=5 --v=4", "x --v=4", 1),
            (
                "x --audit-log-path - --audit-log-compress --v=4",
                "x --v=4",
                2,
            ),
            (
                "x --audit-webhook-batch-throttle-enable=false --v=4",
                "x --v=4",
                1,
            ),
            ("x --log_dir /tmp -v 6", "x -v 6", 1),
            ("x --vmodule", "x", 1),
        ] {
            let (rest, sentences) = taken(words);
            assert_eq!((rest.as_str(), sentences.len()), (left, said), "{words}");
        }
        assert_eq!(
            taken("x --client-qps=1").1,
            ["--client-qps has no effect: requests to kube-apiserver are few and not throttled"]
        );
    }
}
