//! The skew of a store's clock, which a finding reports, from the `Date` header of its answers.

use std::time::Duration;

use http::{HeaderMap, header};

use apimachinery::time::Timestamp;

/// The store's clock minus this server's, in milliseconds, from the `Date` header; `None`:
/// the header is absent or invalid. The header has whole seconds, and may be from any
/// moment of the request, so the smallest possible skew is returned.
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
