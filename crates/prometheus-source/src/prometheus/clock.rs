//! The skew of a store's clock, which a finding reports, from the `Date` header of its answers.

use std::time::Duration;

use http::{HeaderMap, header};

use apimachinery::duration::format_duration;
use apimachinery::time::Timestamp;

/// The store's clock minus this server's, in milliseconds, from the `Date` header; `None`:
/// the header is absent or invalid.
pub(super) fn clock_skew(headers: &HeaderMap, now: Timestamp, elapsed: Duration) -> Option<i64> {
    let date = headers.get(header::DATE)?.to_str().ok()?;
    let date = jiff::fmt::rfc2822::parse(date).ok()?.timestamp();
    Some(smallest_skew(date.as_second(), now, elapsed))
}

/// The header has whole seconds, and may be from any moment of the request.
pub(super) fn smallest_skew(date_secs: i64, now: Timestamp, elapsed: Duration) -> i64 {
    let date = Timestamp::from_secs(date_secs).millis();
    let earliest = date.saturating_sub((now + elapsed).millis());
    let latest = date.saturating_add(999).saturating_sub(now.millis());
    earliest.max(0) + latest.min(0)
}

/// Which clock is ahead, from Prometheus' clock minus this server's in milliseconds.
pub(crate) fn skew_text(skew_ms: i64) -> String {
    let by = format_duration(Duration::from_secs(skew_ms.unsigned_abs() / 1000));
    match skew_ms > 0 {
        true => format!("its clock is {by} ahead of this server's clock"),
        false => format!("this server's clock is {by} ahead of its clock"),
    }
}
