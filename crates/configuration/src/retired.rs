//! Flags of prometheus-adapter that have no effect here, and those with an empty value. They
//! are accepted, so that a Deployment works after a change of only its image. Each flag
//! without effect is reported once. None of them restricts access.

use std::ffi::OsString;

/// Flags without effect that take a value: `--name value` or `--name=value`. Sources:
/// custom-metrics-apiserver `pkg/cmd/builder.go`, apiserver `pkg/server/options`, klog.
const WITH_VALUE: [&str; 14] = [
    "client-burst",
    "client-qps",
    "debug-socket-path",
    "discovery-interval",
    "http2-max-streams-per-connection",
    "log-backtrace-at",
    "log-dir",
    "log-file",
    "log-file-max-size",
    "log-flush-frequency",
    "stderrthreshold",
    "tls-cipher-suites",
    "tls-sni-cert-key",
    "vmodule",
];

/// Those that take none: `--name` or `--name=true`.
const SWITCHES: [&str; 11] = [
    "add-dir-header",
    "alsologtostderr",
    "contention-profiling",
    "enable-priority-and-fairness",
    "logtostderr",
    "one-output",
    "permit-address-sharing",
    "permit-port-sharing",
    "profiling",
    "skip-headers",
    "skip-log-headers",
];

/// The beginning of some twenty more, and the ends of those that take no value.
const AUDIT: &str = "audit-";
const AUDIT_SWITCHES: [&str; 3] = ["-compress", "-throttle-enable", "-truncate-enabled"];

/// The flags with an effect whose empty value differs from their default: an empty list.
const LISTS: [&str; 2] = [
    "authorization-always-allow-paths",
    "requestheader-allowed-names",
];

/// Removes the flags without effect or value from a command line. Returns a warning for each
/// name without effect.
#[must_use]
pub fn take_out(words: impl IntoIterator<Item = OsString>) -> (Vec<OsString>, Vec<String>) {
    let (mut left, mut sentences): (Vec<OsString>, Vec<String>) = Default::default();
    let mut words = words.into_iter().peekable();
    while let Some(word) = words.next() {
        let flag = word.to_str().and_then(|text| text.strip_prefix("--"));
        let (name, value) = match flag.and_then(|flag| flag.split_once('=')) {
            Some((name, value)) => (name, Some(value)),
            None => (flag.unwrap_or_default(), None),
        };
        // pflag accepts underscores for dashes in klog's names.
        let name = name.replace('_', "-");
        let next_is_empty = words.peek().is_some_and(|next| next.is_empty());
        if let Some(takes_value) = without_effect(&name) {
            if takes_value && value.is_none() {
                words.next();
            }
            let sentence = format!("--{name} has no effect: remove it");
            if !sentences.contains(&sentence) {
                sentences.push(sentence);
            }
        } else if flag.is_none() || LISTS.contains(&&*name) {
            left.push(word);
        } else if value.is_none() && next_is_empty {
            words.next();
        } else if value != Some("") {
            left.push(word);
        }
    }
    (left, sentences)
}

/// Whether a flag without effect takes a value; `None`: it is none of them.
fn without_effect(name: &str) -> Option<bool> {
    match name {
        _ if WITH_VALUE.contains(&name) => Some(true),
        _ if SWITCHES.contains(&name) => Some(false),
        _ if name.starts_with(AUDIT) => Some(!AUDIT_SWITCHES.iter().any(|end| name.ends_with(end))),
        _ => None,
    }
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
            "x --config | x --config | 0",
        ] {
            let cells: Vec<&str> = row.split(" | ").collect();
            let (rest, sentences) = taken(cells[0]);
            assert_eq!(rest, cells[1], "{row}");
            assert_eq!(sentences.len().to_string(), cells[2], "{row}");
        }
        assert_eq!(
            taken("x --client-qps=1").1,
            ["--client-qps has no effect: remove it"]
        );
    }

    #[test]
    fn an_empty_value_is_no_value() {
        for row in [
            "--config=",
            "--config ",
            "--prometheus-auth-config= --tls-cert-file ",
        ] {
            let words = format!("x {row} --v=4");
            assert_eq!(taken(&words), ("x --v=4".to_owned(), Vec::new()), "{words}");
        }
        let lists = "x --requestheader-allowed-names= --authorization-always-allow-paths=";
        assert_eq!(taken(lists).0, lists);
    }
}
