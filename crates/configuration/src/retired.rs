//! Flags of prometheus-adapter that have no effect here, and those with an empty value. They
//! are accepted, so that a Deployment works after a change of only its image. Each flag
//! without effect is reported once. None of them restricts access.

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

const LOGGING_FORMAT: &str = "logging-format";

/// The flags with an effect whose value is a text or a path. An empty value of them is no
/// value. Lists are not among them: an empty list is another value than the default.
const TEXTS: [&str; 18] = [
    "authentication-kubeconfig",
    "authorization-kubeconfig",
    "cert-dir",
    "client-ca-file",
    "config",
    "lister-kubeconfig",
    LOGGING_FORMAT,
    "prometheus-auth-config",
    "prometheus-ca-file",
    "prometheus-client-tls-cert-file",
    "prometheus-client-tls-key-file",
    "prometheus-token-file",
    "prometheus-url",
    "prometheus-verb",
    "requestheader-client-ca-file",
    "tls-cert-file",
    "tls-min-version",
    "tls-private-key-file",
];

/// Removes the flags without effect or value from a command line. Returns a warning for each
/// name without effect.
#[must_use]
pub fn take_out(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut left, mut sentences) = (Vec::new(), Vec::new());
    let mut words = words.into_iter();
    while let Some(word) = words.next() {
        let flag = word.to_str().and_then(|text| text.strip_prefix("--"));
        let flag = flag.unwrap_or_default();
        let has_value = flag.contains('=');
        if let Some((name, takes_value, why)) = find(flag) {
            if takes_value && !has_value {
                words.next();
            }
            let sentence = format!("--{name} has no effect: {why}");
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        } else if let Some(name) = TEXTS.into_iter().find(|text| *text == name(flag)) {
            let separate = if has_value { None } else { words.next() };
            keep(&mut left, name, with_value(word, separate));
        } else {
            left.push(word);
        }
    }
    sentences.extend(unknown_format(&mut left));
    (left, sentences)
}

/// `--name value` as one word.
fn with_value(mut word: OsString, separate: Option<OsString>) -> OsString {
    if let Some(value) = separate {
        word.push("=");
        word.push(value);
    }
    word
}

/// Keeps a flag with its value. As in pflag the last one counts, also if its value is empty.
fn keep(left: &mut Vec<OsString>, name: &str, word: OsString) {
    let empty = OsString::from(format!("--{name}="));
    let is_earlier =
        |word: &OsString| (word.as_encoded_bytes()).starts_with(empty.as_encoded_bytes());
    left.retain(|word| !is_earlier(word));
    if word != empty {
        left.push(word);
    }
}

/// Removes a format of log lines that is neither text nor JSON, and returns the warning.
fn unknown_format(left: &mut Vec<OsString>) -> Option<String> {
    let start = format!("--{LOGGING_FORMAT}=");
    let at = left.iter().position(|word| {
        let format = word.to_str().and_then(|text| text.strip_prefix(&start));
        format.is_some_and(|format| !matches!(format, "text" | "json"))
    })?;
    left.remove(at);
    Some(format!(
        "--{LOGGING_FORMAT} has no effect: the log is text; write text or json"
    ))
}

/// The name of a flag that may have a value.
fn name(flag: &str) -> &str {
    flag.split_once('=').map_or(flag, |(name, _)| name)
}

/// Finds the flag in an argument without its dashes: its name, whether it takes a value,
/// and why it has no effect.
fn find(flag: &str) -> Option<(String, bool, &'static str)> {
    // pflag accepts underscores for dashes in klog's names.
    let name = name(flag).replace('_', "-");
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
            "x --v=4 --config a | x --v=4 --config=a | 0",
            "x --logtostderr=true --v=4 | x --v=4 | 1",
            "x --logtostderr --v=4 | x --v=4 | 1",
            "x --client-qps 100 --client-qps=5 --v=4 | x --v=4 | 1",
            "x --audit-log-path - --audit-log-compress --v=4 | x --v=4 | 2",
            "x --audit-webhook-batch-throttle-enable=false --v=4 | x --v=4 | 1",
            "x --log_dir /tmp -v 6 | x -v 6 | 1",
            "x --vmodule | x | 1",
            "x --logging-format json | x --logging-format=json | 0",
            "x --logging-format=klog --v=4 | x --v=4 | 1",
            "x --logging-format=json --logging-format=klog | x | 1",
            "x --config | x --config | 0",
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

    #[test]
    fn an_empty_value_is_no_value() {
        for name in TEXTS {
            for row in ["--NAME=", "--NAME ", "--NAME=a --NAME=", "--NAME a --NAME "] {
                let words = format!("x {} --v=4", row.replace("NAME", name));
                assert_eq!(taken(&words), ("x --v=4".to_owned(), Vec::new()), "{words}");
            }
        }
        let lists = "x --requestheader-allowed-names= --authorization-always-allow-paths=";
        assert_eq!(taken(lists).0, lists);
    }
}
