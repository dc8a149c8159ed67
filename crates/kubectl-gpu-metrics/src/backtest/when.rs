//! `--from` and `--to`: a time, or how long ago.

use apimachinery::duration::parse_duration;
use apimachinery::time::Timestamp;
use cluster_state::clock;

/// Parses a time (`2026-01-02T03:04:05Z`) or a duration before now (`5m`).
pub(super) fn parse(text: &str) -> Result<Timestamp, String> {
    if let Some(at) = Timestamp::from_date(text) {
        return Ok(at);
    }
    let ago = parse_duration(text);
    let ago =
        ago.map_err(|_| "write a time such as 2026-01-02T03:04:05Z, or a duration before now: 5m")?;
    Ok(clock::now() - ago)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_time_is_a_date_or_a_duration_ago() {
        assert_eq!(
            parse("1970-01-01T00:00:07.5Z"),
            Ok(Timestamp::from_millis(7_500))
        );
        assert_eq!(
            parse("1970-01-01T01:00:07+01:00"),
            Ok(Timestamp::from_secs(7))
        );
        let ago = clock::now().since(parse("5m").unwrap());
        assert!((299..=301).contains(&ago.as_secs()), "{ago:?}");
        for text in ["", "noon", "-5m", "12:00"] {
            assert!(parse(text).is_err(), "{text}");
        }
    }
}
