//! The wall clock and the random jitter, for the modules that may read them.

use std::time::{SystemTime, UNIX_EPOCH};

pub use crate::cluster::jitter;
use apimachinery::time::Timestamp;

/// The time now.
#[must_use]
pub fn now() -> Timestamp {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Timestamp::from_millis(i64::try_from(since.as_millis()).unwrap_or(0))
}
