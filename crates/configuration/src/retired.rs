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

/// Some twenty flags, of which these take no value.
const AUDIT: &str = "audit-";
const AUDIT_WHY: &str = "requests are audited in the server's own log";
const AUDIT_SWITCHES: [&str; 3] = ["-compress", "-throttle-enable", "-truncate-enabled"];

/// Removes the flags without effect or value from a command line. Returns a warning for each
/// name without effect.
#[must_use]
pub fn take_out(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut left, mut sentences): (Vec<OsString>, Vec<String>) = Default::default();
    let mut words = words.into_iter();
    while let Some(mut word) = words.next() {
        let flag = word.to_str().and_then(|text| text.strip_prefix("--"));
        let (name, value) = match flag.unwrap_or_default().split_once('=') {
            Some((name, value)) => (name.to_owned(), Some(value.to_owned())),
            None => (flag.unwrap_or_default().to_owned(), None),
        };
        let mut why = None;
        if let Some(retired) = find(&name) {
            if retired.takes_value && value.is_none() {
                words.next();
            }
            why = Some(retired.why);
        } else if TEXTS.contains(&&*name) {
            if value.is_none()
                && let Some(separate) = words.next()
            {
                word.push("=");
                word.push(separate);
            }
            let start = format!("--{name}=");
            // As in pflag the last one counts, also if its value is empty.
            left.retain(|it| !it.as_encoded_bytes().starts_with(start.as_bytes()));
            let value = word.to_str().and_then(|text| text.strip_prefix(&start));
            if name == LOGGING_FORMAT && !matches!(value, None | Some("" | "text" | "json")) {
                why = Some("the log is text; write text or json");
            } else if value != Some("") {
                left.push(word);
            }
        } else {
            left.push(word);
        }
        // pflag accepts underscores for dashes in klog's names.
        let sentence = why.map(|why| format!("--{} has no effect: {why}", name.replace('_', "-")));
        sentences.extend(sentence.filter(|sentence| !sentences.contains(sentence)));
    }
    (left, sentences)
}

/// A flag without effect.
struct Retired {
    takes_value: bool,
    why: &'static str,
}

fn find(name: &str) -> Option<Retired> {
    let name = name.replace('_', "-");
    if name.starts_with(AUDIT) {
        return Some(Retired {
            takes_value: !AUDIT_SWITCHES.iter().any(|end| name.ends_with(end)),
            why: AUDIT_WHY,
        });
    }
    let mut flags = FLAGS.into_iter();
    let (_, takes_value, why) = flags.find(|(known, ..)| *known == name)?;
    Some(Retired { takes_value, why })
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
            for row in [
                "--NAME=",
                "--NAME ",
                "--NAME=json --NAME=",
                "--NAME json --NAME ",
            ] {
                let words = format!("x {} --v=4", row.replace("NAME", name));
                assert_eq!(taken(&words), ("x --v=4".to_owned(), Vec::new()), "{words}");
            }
        }
        let lists = "x --requestheader-allowed-names= --authorization-always-allow-paths=";
        assert_eq!(taken(lists).0, lists);
    }
}
