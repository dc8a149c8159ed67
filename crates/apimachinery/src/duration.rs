//! Durations as Go and Prometheus write them: `1h2m3.5s`, `5m`, `1d`.

use std::time::Duration;

/// Nanoseconds of a second and of a day.
const SECOND: u64 = 1_000_000_000;
const DAY: u64 = 86_400 * SECOND;

/// Units with their nanoseconds: those of Go, then those of Prometheus
/// (`prometheus/common/model/time.go`, `ParseDuration`).
const UNITS: [(&str, u64); 11] = [
    ("ns", 1),
    ("us", 1000),
    ("\u{b5}s", 1000),
    ("\u{3bc}s", 1000),
    ("ms", 1_000_000),
    ("s", SECOND),
    ("m", 60 * SECOND),
    ("h", 3600 * SECOND),
    ("d", DAY),
    ("w", 7 * DAY),
    ("y", 365 * DAY),
];

/// How many of these units [`format_duration`] prints: from years to milliseconds.
const PRINTED: usize = 7;

/// Parses a duration as Go's `time.ParseDuration` does, except negative ones, and with
/// Prometheus' `d`, `w` and `y`.
///
/// # Errors
/// When the text is empty, negative, lacks a number or a unit, or is longer than Go can
/// hold (292 years). The error says what to write instead.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    let nanos = nanos(text.strip_prefix('+').unwrap_or(text));
    nanos.map(Duration::from_nanos).ok_or_else(|| {
        let text: String = text.chars().take(64).collect();
        format!("{text:?} is not a duration: write a number and a unit, such as 30s, 5m or 1h30m")
    })
}

fn nanos(text: &str) -> Option<u64> {
    match text {
        "0" => return Some(0),
        "" => return None,
        _ => {}
    }
    let (mut rest, mut total) = (text, 0_u64);
    while !rest.is_empty() {
        let (whole, tail) = digits(rest);
        let (fraction, tail) = tail.strip_prefix('.').map_or(("", tail), digits);
        let end = tail.find(|c: char| c.is_ascii_digit() || c == '.');
        let (unit, tail) = tail.split_at(end.unwrap_or(tail.len()));
        let (_, unit) = *UNITS.iter().find(|(name, _)| *name == unit)?;
        let whole: u64 = match (whole, fraction) {
            ("", "") => return None,
            ("", _) => 0,
            _ => whole.parse().ok()?,
        };
        total = whole
            .checked_mul(unit)?
            .checked_add(part_of(unit, fraction))?
            .checked_add(total)?;
        rest = tail;
    }
    i64::try_from(total).is_ok().then_some(total)
}

/// The digits that a text begins with, and the rest.
fn digits(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !c.is_ascii_digit());
    text.split_at(end.unwrap_or(text.len()))
}

/// The fraction of a unit, with Go's rounding (`time/format.go`). The first 19 digits count.
fn part_of(unit: u64, fraction: &str) -> u64 {
    let digits = fraction.get(..19).unwrap_or(fraction);
    let scale: f64 = digits.chars().map(|_| 10.0).product();
    let number: u64 = digits.parse().unwrap_or_default();
    (number as f64 * (unit as f64 / scale)) as u64
}

/// Prints a duration in Prometheus' canonical form: `1m30s`, `0s`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
    let mut text = String::new();
    for (name, nanos) in UNITS.into_iter().rev().take(PRINTED) {
        // Years and weeks only where they divide evenly, as in Prometheus.
        let exact = matches!(name, "y" | "w");
        if left >= nanos && (!exact || left.is_multiple_of(nanos)) {
            text.push_str(&format!("{}{name}", left / nanos));
            left %= nanos;
        }
    }
    match text.is_empty() {
        true => "0s".to_owned(),
        false => text,
    }
}

/// Prints a duration as Go does: `5m0s`, `1.5s`, `250ms`.
#[must_use]
pub fn go_duration(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    if seconds == 0 && millis > 0 {
        return format!("{millis}ms");
    }
    let (hours, minutes) = (seconds / 3600, seconds / 60 % 60);
    let mut text = String::new();
    if hours > 0 {
        text.push_str(&format!("{hours}h"));
    }
    if seconds >= 60 {
        text.push_str(&format!("{minutes}m"));
    }
    text.push_str(&(seconds % 60).to_string());
    if millis > 0 {
        text.push_str(format!(".{millis:03}").trim_end_matches('0'));
    }
    text.push('s');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Output of Go.
    #[test]
    fn durations_print_as_go_prints_them() {
        let table = "0=0s 1=1ms 250=250ms 1500=1.5s 60000=1m0s 61001=1m1.001s 90000=1m30s \
            300000=5m0s 3600000=1h0m0s 129600000=36h0m0s";
        for pair in table.split_whitespace() {
            let (millis, text) = pair.split_once('=').unwrap();
            assert_eq!(
                go_duration(Duration::from_millis(millis.parse().unwrap())),
                text
            );
        }
    }

    #[test]
    fn durations_round_trip() {
        for text in ["1m", "1m30s", "250ms", "1d", "2h", "59s999ms", "1w"] {
            assert_eq!(format_duration(parse_duration(text).unwrap()), text);
        }
        assert_eq!(parse_duration("0").unwrap(), Duration::ZERO);
        assert_eq!(format_duration(Duration::ZERO), "0s");
    }

    #[test]
    fn fractions_are_rounded_as_in_go() {
        for (text, nanos) in [
            ("0.29h", 1_044_000_000_000),
            ("0.57m", 34_200_000_000),
            ("1.15s", 1_150_000_000),
            ("0.100000000000000000000h", 360_000_000_000),
        ] {
            let parsed = parse_duration(text).unwrap();
            assert_eq!(parsed, Duration::from_nanos(nanos), "{text}");
        }
    }

    /// `table.tsv` is the output of `table.go`.
    #[test]
    fn durations_parse_as_go_parses_them() {
        let table = include_str!("duration/table.tsv");
        for line in table.lines() {
            let (text, nanos) = line.split_once('\t').unwrap();
            let text: String = serde_json::from_str(text).unwrap();
            let parsed = parse_duration(&text).ok().map(|it| it.as_nanos());
            if text.starts_with('-') {
                assert_eq!(parsed, None, "{text:?} is no length");
            } else if text.contains(['d', 'w', 'y']) {
                assert!(parsed.is_some(), "{text:?} is of Prometheus");
            } else {
                // For an input that Go refuses, the table has no number.
                assert_eq!(parsed, nanos.parse().ok(), "{text:?}");
            }
        }
        assert!(table.lines().count() > 100);
    }
}
