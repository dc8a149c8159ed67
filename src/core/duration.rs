//! Prometheus durations: `1m30s`, `5m`, `250ms`.

use std::time::Duration;

/// Why a text is no duration.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a duration: write a number and a unit, such as 30s, 5m or 1h30m")]
pub struct InvalidDuration {
    text: String,
}

/// Units in the order Prometheus wants them, with their milliseconds
/// (`prometheus/common/model/time.go`, `ParseDuration`).
const UNITS: [(&str, u64); 7] = [
    ("y", 365 * 86_400_000),
    ("w", 7 * 86_400_000),
    ("d", 86_400_000),
    ("h", 3_600_000),
    ("m", 60_000),
    ("s", 1000),
    ("ms", 1),
];

/// Parses a Prometheus duration.
///
/// # Errors
/// When the text is empty, lacks a unit, repeats one or has them out of order.
pub fn parse_duration(text: &str) -> Result<Duration, InvalidDuration> {
    let invalid = || InvalidDuration {
        text: text.chars().take(64).collect(),
    };
    if text == "0" {
        return Ok(Duration::ZERO);
    }
    let mut rest = text;
    let mut next_unit = 0;
    let mut total: u64 = 0;
    while !rest.is_empty() {
        let digits = rest
            .find(|c: char| !c.is_ascii_digit())
            .ok_or_else(invalid)?;
        let count: u64 = rest[..digits].parse().map_err(|_| invalid())?;
        rest = &rest[digits..];
        let unit_len = rest
            .find(|c: char| c.is_ascii_digit())
            .unwrap_or(rest.len());
        let unit = UNITS
            .iter()
            .position(|(name, _)| *name == &rest[..unit_len])
            .filter(|unit| *unit >= next_unit)
            .ok_or_else(invalid)?;
        next_unit = unit + 1;
        total = count
            .checked_mul(UNITS[unit].1)
            .and_then(|millis| total.checked_add(millis))
            .ok_or_else(invalid)?;
        rest = &rest[unit_len..];
    }
    if next_unit == 0 {
        return Err(invalid());
    }
    Ok(Duration::from_millis(total))
}

/// Prints a duration in Prometheus' canonical form: `1m30s`, `0s`.
#[must_use]
pub fn format_duration(duration: Duration) -> String {
    let mut left = u64::try_from(duration.as_millis()).unwrap_or(u64::MAX);
    if left == 0 {
        return "0s".to_owned();
    }
    let mut text = String::new();
    // Years and weeks only where they divide evenly, as Prometheus prints them.
    for (name, millis) in UNITS {
        let exact = matches!(name, "y" | "w");
        if left >= millis && (!exact || left.is_multiple_of(millis)) {
            text.push_str(&format!("{}{name}", left / millis));
            left %= millis;
        }
    }
    text
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

    /// Printed by Go.
    #[test]
    fn durations_print_as_go_prints_them() {
        for (millis, text) in [
            (0, "0s"),
            (1, "1ms"),
            (250, "250ms"),
            (1500, "1.5s"),
            (60_000, "1m0s"),
            (61_001, "1m1.001s"),
            (90_000, "1m30s"),
            (300_000, "5m0s"),
            (3_600_000, "1h0m0s"),
            (129_600_000, "36h0m0s"),
        ] {
            assert_eq!(go_duration(Duration::from_millis(millis)), text);
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
    fn what_is_no_duration_is_refused() {
        for text in [
            "",
            "5",
            "m",
            "1s1m",
            "1m1m",
            "-1m",
            "1.5m",
            "1 m",
            "99999999999999999999y",
            "1é",
        ] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }
}
