//! `--at`: values as of a time in the past.

use std::time::Duration;

use crate::api::recalled::ComputedAgain;
use crate::app::clock;
use apimachinery::duration::parse_duration;
use apimachinery::time::Timestamp;

/// Reads `2026-01-02T03:04:05Z` or, ago, `5m`.
pub(in crate::cli) fn parse(text: &str) -> Result<Timestamp, String> {
    if let Some(at) = Timestamp::from_date(text) {
        return Ok(at);
    }
    let ago = parse_duration(text);
    let ago = ago.map_err(|_| "write a time such as 2026-01-02T03:04:05Z, or how long ago: 5m")?;
    Ok(clock::now() - ago)
}

/// `path` with the parameter `at`; it must have a parameter already.
pub(super) fn asked_at(path: &str, at: Timestamp) -> String {
    format!("{path}&at={}", crate::cli::cluster::encode(&at.date()))
}

pub(super) fn sentences(again: &ComputedAgain) -> [String; 2] {
    let ComputedAgain {
        as_of,
        snapshot,
        reaches_back_to,
        ..
    } = again;
    [
        format!(
            "values are computed again as of {as_of} from the readings that are held, also those that came \
             later; in force was the snapshot of {snapshot}"
        ),
        format!("they can be computed again back to {reaches_back_to}, for the default window"),
    ]
}

/// What has changed of an autoscaler's pods since: then the pods of that time are not
/// known.
pub(super) fn changed(
    at: Timestamp,
    scaled_at: Option<Timestamp>,
    created: &[Option<Timestamp>],
) -> Option<String> {
    let scaled = scaled_at.filter(|scaled| *scaled > at);
    let scaled = scaled.map(|scaled| format!("it scaled at {}", scaled.date()));
    let later = created.iter().flatten().filter(|time| **time > at).count();
    let pods = format!("pods created since: {later} of {}", created.len());
    let why = scaled.into_iter().chain((later > 0).then_some(pods));
    let why: Vec<String> = why.collect();
    (!why.is_empty()).then(|| why.join("; "))
}

/// When the question was last answered before that time. A controller asks every
/// `sync`, so after a longer silence it may have asked another replica.
pub(super) fn asked(again: &ComputedAgain, sync: Duration) -> String {
    let Some(asked) = &again.asked else {
        let since = again.asked_known_since.as_deref().unwrap_or("its start");
        return format!(
            "this replica was not asked before, since {since}; another one may have answered"
        );
    };
    let since = Timestamp::from_date(&again.as_of).map(|at| at - sync);
    let elsewhere = match Timestamp::from_date(&asked.at) < since {
        true => ", and not since then; another one may have answered",
        false => "",
    };
    format!(
        "this replica was asked at {} and answered from the snapshot of {}{elsewhere}",
        asked.at, asked.snapshot
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::recalled::AskedAt;

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

    #[test]
    fn what_changed_since_is_told_and_what_did_not_is_not() {
        let [before, at, later] = [1, 2, 3].map(Timestamp::from_secs);
        assert_eq!(changed(at, Some(at), &[Some(before), Some(at), None]), None);
        assert_eq!(
            changed(at, Some(later), &[Some(before), Some(later)]).as_deref(),
            Some("it scaled at 1970-01-01T00:00:03Z; pods created since: 1 of 2")
        );
    }

    #[test]
    fn who_was_not_heard_for_a_sync_may_have_asked_another_replica() {
        let said = |asked: Option<&str>| {
            let again = ComputedAgain {
                as_of: "2026-01-02T03:04:20Z".to_owned(),
                snapshot: String::new(),
                reaches_back_to: String::new(),
                asked: asked.map(|at| AskedAt {
                    at: at.to_owned(),
                    snapshot: String::new(),
                }),
                asked_known_since: None,
            };
            super::asked(&again, Duration::from_secs(15))
        };
        assert!(!said(Some("2026-01-02T03:04:05Z")).contains("another"));
        assert!(said(Some("2026-01-02T03:04:04Z")).contains("another"));
        assert!(said(None).contains("since its start"));
    }
}
