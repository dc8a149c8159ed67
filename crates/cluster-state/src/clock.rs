//! The wall clock and a little randomness, for code that is not pure.

use std::time::{SystemTime, UNIX_EPOCH};

use apimachinery::time::Timestamp;

pub use crate::watch::jitter;

/// The time now.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(0))
}
