//! The skew of a server's clock, from its answers' `Date`.

use std::time::Duration;

use http::{HeaderMap, header};

use apimachinery::time::Timestamp;

/// The server's clock minus ours, in milliseconds, from the `Date` header. The
/// header names a whole second and some moment of the request: the smallest possible
/// skew is used.
pub(super) fn clock_skew(headers: &HeaderMap, now: Timestamp, elapsed: Duration) -> Option<i64> {
    let header = |name| headers.get(name)?.to_str().ok();
    let date = header(header::DATE)?;
    let date = jiff::fmt::rfc2822::parse(date)
        .ok()?
        .timestamp()
        .as_second();
    // A cache states how long it has kept the answer.
    let age = header(header::AGE)
        .and_then(|age| age.parse().ok())
        .unwrap_or(0);
    Some(skew(date.checked_add(age)?, now, elapsed))
}

pub(super) fn skew(date_secs: i64, now: Timestamp, elapsed: Duration) -> i64 {
    let date = Timestamp::from_secs(date_secs).millis();
    let earliest = date.saturating_sub((now + elapsed).millis());
    let latest = date.saturating_add(999).saturating_sub(now.millis());
    if earliest > 0 {
        earliest
    } else {
        latest.min(0)
    }
}
